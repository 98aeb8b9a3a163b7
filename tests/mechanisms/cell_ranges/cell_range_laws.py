"""Exact laws of releases with a clipping range per cell, on tiny maps.

The rows of a first look are followed as they are stored: which finer numbers a row tells is found
by changing them, one at a time, behind the same first numbers.
"""

import functools
import itertools
import math
from fractions import Fraction

import numpy as np

from hexveil import HexveilError, Occupancy
from hexveil.accounting.promise import Pure
from hexveil.mechanisms.looks.cell_looks import FIRST_LOOK
from hexveil.mechanisms.looks.cell_stages import CellRangeStages
from hexveil.mechanisms.looks.clipped_mean import CellLattice
from hexveil.mechanisms.looks.pooled_means import HISTOGRAM, PooledChoice
from hexveil.mechanisms.looks.weighted_mean import WeightedMean
from hexveil.mechanisms.stage_data import Outputs
from hexveil.smoothing.range_selection import SelectedRanges
from mechanisms.listed_weights import ListedWeights
from mechanisms.stage_laws import ExactLoss, Problem

WIDE = 600
"""Integers on either side of 0 over which the law of a first number is summed."""
INTEGERS = np.arange(-WIDE, WIDE + 1)


def no_errors(released):
    """Return no error model."""


class FirstRanges:
    """A first range that the histogram decides: half of the bounds, or all of them."""

    def first(self, law, steps):
        """Return the lower half where most votes are in the first bin."""
        upper = math.ceil(steps / 2) if law.share[0] > 0.5 else steps
        spread = math.ceil(steps / 4)
        return PooledChoice(0, upper, round(law.quantile(0.5)), spread, spread)


class AboveCentre(FirstRanges):
    """Cells whose first number is above the centre move; ranges depend on all first numbers."""

    def __call__(self, look, spread):
        """Return ranges from half a quantum below a cell's number to one above the largest."""
        moved = look.noisy > spread.centre
        return SelectedRanges(moved, look.noisy - 0.5, np.full(moved.size, look.noisy.max() + 1.0))


class All(FirstRanges):
    """All cells move to all of the bounds, or none moves."""

    def __init__(self, *, moved):
        self.moved = moved

    def __call__(self, look, spread):  # noqa: ARG002  see PosteriorRangeSelection
        """Return the bounds."""
        moved = np.full(look.noisy.size, self.moved)
        return SelectedRanges(moved, np.full(moved.size, -1e9), np.full(moved.size, 1e9))


def losses_of(mean, pooled):
    """Return each user's loss with that of pooled stages, rounded up."""
    pairs = mean.occupancy
    terms = mean.weight.of(pairs) / (mean.noise * mean.totals)[pairs.cell]
    return (np.bincount(pairs.user, terms, pairs.n_users) + float(pooled)) * (1 + 1e-14)


def allocation_of(occupancy, weight, noise, steps, *, lower=0.0, quantum=1.0, **changed):
    """Return an allocation on `steps` quanta above a lower bound: whole numbers unless given."""
    weight = np.array(weight)
    weights = ListedWeights(occupancy, weight)
    mean = WeightedMean(occupancy, weights, np.array(noise, dtype=float))
    lattice = CellLattice(0, steps, steps, lower, quantum)
    plan = {
        "histogram_promise": Pure(Fraction(1, 2)),
        "first_share": Fraction(3, 10),
        "select": AboveCentre(),
    } | changed
    pooled = plan["histogram_promise"].amount
    return CellRangeStages(
        mean=mean, lattice=lattice, errors=no_errors, booked=losses_of(mean, pooled), **plan
    )


def tiny_map(counts=(1, 1, 1), span=2, user=(0, 1, 0), cell=(0, 0, 1), weight=(1, 2, 1), **changed):
    """Return a problem of two cells, and an allocation for it."""
    problem = Problem(counts, span, user)
    size = max(cell) + 1, max(user) + 1
    occupancy = Occupancy(np.array(cell), np.array(user), np.array(counts), *size)
    noise = changed.pop("noise", (1.2, 0.8))
    return problem, allocation_of(occupancy, weight, noise, span, **changed)


class LeakError(AssertionError):
    """A stored row depends on a finer number in another way than by telling it."""


class ExactCellRangeLoss(ExactLoss):
    """The largest log-ratio of every user over rows as they are stored.

    Parameters
    ----------
    problem : Problem
    allocation : CellRangeStages
    window : int
        Numbers are followed this far beyond those there can be.
    sparse : bool
        Follow the outermost numbers and a middle one alone.
    """

    def __init__(self, problem, allocation, window=1, *, sparse=False):
        self.window, self.sparse = window, sparse
        super().__init__(problem, allocation)

    def _follow(self, rows, logs, metered):
        earlier = Outputs({name: np.array([row]) for name, row in rows.items()})
        stage = self.allocation.next_stage(earlier)
        if stage is not None and stage.name == HISTOGRAM:
            self._follow_histogram(stage, logs)
            return
        if stage is None or stage.name != FIRST_LOOK:
            super()._follow(rows, logs, metered)
            return
        requests, reports = stage.noise(earlier), stage.sensitivity(earlier)
        measured = stage.measure(self.sums, earlier)
        self._check_reports(stage, measured, reports)
        look = _Look(stage, requests, measured, earlier)
        metered = (*metered, (requests, reports))
        for first in itertools.product(*map(self._followed, look.values.T)):
            told = look.told(first)
            followed = [
                self._followed(column) if shown else [None]
                for column, shown in zip(look.values.T, told, strict=True)
            ]
            for final in itertools.product(*followed):
                row = look.row(first, [0 if y is None else y for y in final])
                likelihood = look.log_likelihood(first, final)
                self._follow({**rows, FIRST_LOOK: row}, logs + likelihood, metered)

    def _follow_histogram(self, stage, logs):
        """Follow noisy votes beyond all that there can be: there ratios are largest."""
        earlier = Outputs()
        requests, reports = stage.noise(earlier), stage.sensitivity(earlier)
        (measured,) = stage.measure(self.sums, earlier)
        self._check_reports(stage, (measured,), reports)
        votes, (request,) = measured.integers, requests
        for corner in itertools.product(*[(one.min() - 1, one.max() + 1) for one in votes.T]):
            row = stage.row(np.array([corner]), earlier)[0].tolist()
            likelihood = -(np.abs(votes - corner) / request.scales).sum(axis=1)
            self._follow({HISTOGRAM: row}, logs + likelihood, ((requests, reports),))

    def _followed(self, column):
        low, high = int(column.min()) - self.window, int(column.max()) + self.window
        return sorted({low, (low + high) // 2, high}) if self.sparse else range(low, high + 1)


class _Look:
    """The law of the rows of a first look, per data set."""

    def __init__(self, stage, requests, measured, earlier):
        self.stage, self.earlier = stage, earlier
        self.values = measured[0].integers
        if any(query.integers.any() for query in measured[1:]):
            raise LeakError("noise that is to be free of data is added to data.")
        self.scales, first_scales, indicator = (request.scales for request in requests)
        zero = np.tanh(1.0 / (2.0 * indicator))
        self.logs = [
            _first_log_law(*map(float, cell))
            for cell in zip(self.scales, first_scales, zero, strict=True)
        ]

    def row(self, first, final):
        """Return the row for these numbers, in the order in which noise is drawn."""
        first, final = np.array(first), np.array(final)
        drawn = np.concatenate((final, first - final, np.ones_like(final)))[None]
        return self.stage.row(drawn, self.earlier)[0].tolist()

    def told(self, first):
        """Return, per cell, whether the row tells the finer number."""
        # Far off on both sides: whatever depends on a finer number differs between them.
        origin = [-10_000] * len(first)
        row = np.array(self.row(first, origin))
        told = []
        for cell in range(len(first)):
            other = list(origin)
            other[cell] = 10_000
            changed = np.flatnonzero(np.array(self.row(first, other)) != row)
            # The last quarter of the row has the finer numbers: nothing else may depend on them.
            if set(changed.tolist()) - {3 * len(first) + cell}:
                raise LeakError("a decision depends on finer numbers.")
            told.append(bool(changed.size))
        return told

    def log_likelihood(self, first, final):
        """Return the logarithm of the probability of a row, but for factors free of data."""
        total = np.zeros(len(self.values))
        for cell, (y1, y) in enumerate(zip(first, final, strict=True)):
            column = self.values[:, cell]
            if y is None:
                total += self.logs[cell][WIDE + y1 - column]
            else:
                total -= np.abs(y - column) / self.scales[cell]
        return total


@functools.lru_cache(maxsize=1000)
def _first_log_law(scale, first_scale, zero):
    """Return the logarithm of the law of y1 - C, summed over all y."""
    increment = (1.0 - zero) * _law(first_scale)
    increment[WIDE] += zero
    return np.log(np.convolve(_law(scale), increment, mode="same"))


def _law(scale):
    p = math.exp(-1.0 / scale)
    return (1.0 - p) / (1.0 + p) * np.exp(-np.abs(INTEGERS) / scale)


def is_sound(problem, allocation, **options):
    """Return whether no user loses more than is booked, and nothing is misstated or leaks."""
    try:
        worst = ExactCellRangeLoss(problem, allocation, **options).worst
    except (AssertionError, HexveilError):
        return False
    return bool((worst <= allocation.losses() * (1 + 1e-9)).all())
