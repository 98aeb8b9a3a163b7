"""Users' weights in each cell, and the noise of each cell, for means of projected user means.

A cell's number is Σ_l w_gl clip(user mean) with weights that sum to one, plus Laplace noise. For an
interval of width 1 a user moves it by w_gl, and loses Σ_g w_gl / b_g over all its cells, b the
noise scales (accounting/privacy_loss.py; mechanisms/weighted/weighted_mean.py for the whole
numbers). Weights that differ from the shares p_gl = m/N of the records make noise smaller and the
number another one: it is off by Σ (w - p)(user mean), at most half of Σ |w - p| for an interval of
width 1. What it is off by in fact depends on values, so a stated prior says it: user means within a
cell are independent with standard deviation `spread`, and users whose weight rises differ from
those whose weight falls by `drift`; both as parts of the interval's width. Then a cell is off by at
most

    √(2/π) spread √(Σ (w - p)²) + drift Σ |w - p| / 2

on average. Weights are w ∝ f_l p_gl, f_l a factor of the user: with a_g rates of noise, f_l is 1
where Σ_g a_g p_gl is at most 1, and else what brings it there. Noise and what a cell is off by,
averaged over cells, are a smooth function of log a, and minimised by L-BFGS.

A prior that does not fit costs accuracy, never privacy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

import numpy as np

from hexveil.base.work_share import SEARCH, parts_of_work
from hexveil.model.factored_weights import FactoredWeights
from hexveil.planning.optimizers.bounded_descent import StopRule, descend
from hexveil.planning.optimizers.pair_sums import PairFigureSums

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hexveil.base.arrays import Floats, Ints
    from hexveil.model.factored_weights import Weights
    from hexveil.model.occupancy import LocalOccupancy, Occupancy, Pairs

    Shares = Floats | FactoredWeights

ITERATIONS = 200
LOG_SCALE_RANGE = 30.0
"""How far the logarithms of the rates may go from where they began."""
SLOPE_TOLERANCE, GAIN_TOLERANCE = 1e-3, 1e-6
"""The search ends where a cell's slope is below `SLOPE_TOLERANCE` of its part of the objective at
the start, or where a step betters the objective by less than `GAIN_TOLERANCE` of it."""
START_QUANTILES, EXTRA_START_QUANTILES, SMALL_PROBLEM_PAIRS = (0.9,), (0.5, 1.0), 2_000
"""Quantiles of what users would lose at equal rates, where the search begins; of few pairs, where
the objective is rough, at the others too."""
FIRST_STEP = 0.3
"""What the first step changes the logarithm of some rate by, at least: it would be the slope, which
is next to nothing on maps of many cells or of little noise."""
ABS_SMOOTHING = 1e-3
"""Below this part of its share a weight's distance from it is rounded off: a slope is needed."""
BLOCK_PAIRS = 2**15
"""Pairs that are looked at together: all that is made of so many stays in a core's own cache."""
MEAN_ABS_NORMAL = math.sqrt(2.0 / math.pi)
"""Expected distance from its mean of a normal number, in standard deviations."""


@dataclass(frozen=True)
class UserMeanPrior:
    """Prior of user means, in units of the width of their clipping range.

    Attributes
    ----------
    within_cell_sd : float
        Standard deviation of user means within a cell.
    weight_confounding : float
        By how much users whose weight rises differ from those whose weight falls.
    """

    within_cell_sd: float
    weight_confounding: float


@dataclass(frozen=True, eq=False)
class UserWeights:
    """Weights and noise for an interval of width 1.

    Attributes
    ----------
    weight : ndarray of float, shape (n_pairs,)
        Sum to one in each cell.
    noise : ndarray of float, shape (n_cells,)
        Laplace scale at which no user loses more than was allowed, up to rounding.
    rates : ndarray of float, shape (n_cells,)
        What the search found; another one of nearly the same question begins well from there.
    """

    weight: Floats
    noise: Floats
    rates: Floats


class WeightObjective(Protocol):
    """Objective of a search for weights."""

    def value(self, logs: Floats) -> tuple[float, Floats]:
        """Return the objective and its slope in the logarithms of the rates."""


@dataclass(frozen=True, eq=False)
class _Run:
    """Consecutive cells with few enough pairs for a processor's cache."""

    cells: slice
    pairs: slice
    first: Ints
    sizes: Ints


class WeightProblem:
    """Objective: average noise plus the expected bias by weights, with its gradient.

    Pairs are looked at in runs. `shares` adds up shares; `slopes` adds up slopes of the same pairs,
    which change with each look.
    """

    def __init__(self, occupancy: LocalOccupancy, loss: float, prior: UserMeanPrior) -> None:
        self.occupancy, self.loss, self.prior = occupancy, loss, prior
        self.share = occupancy.n / np.repeat(
            occupancy.records_per_cell.astype(np.float64), occupancy.users_per_cell
        )
        self.shares = PairFigureSums(occupancy, self.share)
        self.slopes = PairFigureSums(occupancy, np.empty_like(self.share))
        self.runs = list(_runs(occupancy))
        self.squares = np.add.reduceat(self.share**2, occupancy.start[:-1])

    def by_user(self, per_cell: Floats) -> Floats:
        """Return each user's sum over its cells, by its shares of them."""
        return self.shares.per_user(per_cell)

    def weighing(self, rates: Floats) -> UserWeights:
        """Return the weights of these rates, and the noise."""
        factor, _ = self._factors(rates)
        total = self.shares.per_cell(factor)
        weight = factor[self.occupancy.user]
        weight *= self.share
        weight /= np.repeat(total, self.occupancy.users_per_cell)
        return UserWeights(weight, 1.0 / (self.loss * rates * total), rates)

    def _factors(self, rates: Floats) -> tuple[Floats, Floats]:
        """Return each user's factor, and its derivative by the user's loss."""
        # A user whose cells all have a rate near 0 must not divide by it.
        losses = np.maximum(self.by_user(rates), 1e-300)
        return np.minimum(1.0, 1.0 / losses), np.where(losses > 1.0, -1.0 / losses**2, 0.0)

    def value(self, logs: Floats) -> tuple[float, Floats]:
        """Return the objective and its slope in the logarithms of the rates."""
        rates = np.exp(logs)
        factor, fall = self._factors(rates)
        total = self.shares.per_cell(factor)
        noise = 1.0 / (self.loss * rates * total)
        bias = np.empty_like(total)
        for run in self.runs:
            bias[run.cells] = self._look(run, factor, total[run.cells], noise[run.cells])
        # A rate acts on a cell twice: by the noise, and by the factors of its users.
        through = fall * self.slopes.per_user(1.0 / total)
        by_rate = self.shares.per_cell(through) - noise / rates
        return float((noise + bias).mean()), by_rate * rates / rates.size

    def _look(self, run: _Run, factor: Floats, total: Floats, noise: Floats) -> Floats:
        """Return the expected bias of each cell of a slice; store the slopes of its pairs.

        These are p times how fast what a cell is off by, and its noise, rise with f p / Σ f p.
        """
        share, prior = self.share[run.pairs], self.prior
        # How far a weight is from its share, as a part of it; each line below is one look at a run.
        part = factor.take(self.occupancy.user[run.pairs], mode="clip")
        part *= np.repeat(1.0 / total, run.sizes)
        part -= 1.0
        clipped_share = share * part
        distance = np.square(part)
        distance += ABS_SMOOTHING**2
        np.sqrt(distance, out=distance)
        squares = np.add.reduceat(np.square(clipped_share), run.first)
        length = np.sqrt(squares + ABS_SMOOTHING**2 * self.squares[run.cells])
        sharp = share * distance
        bias = (
            MEAN_ABS_NORMAL * prior.within_cell_sd * length
            + prior.weight_confounding / 2.0 * np.add.reduceat(sharp, run.first)
        )
        np.divide(part, distance, out=distance)
        distance *= prior.weight_confounding / 2.0
        slope = np.multiply(
            clipped_share,
            np.repeat(MEAN_ABS_NORMAL * prior.within_cell_sd / length, run.sizes),
            out=sharp,
        )
        slope += distance
        slope *= share
        # Weights sum to one: what all of a cell's slopes have in common does not count.
        part += 1.0
        part *= slope
        common = np.add.reduceat(part, run.first) + noise
        np.multiply(share, np.repeat(common, run.sizes), out=clipped_share)
        np.subtract(slope, clipped_share, out=self.slopes.figure[run.pairs])
        return np.asarray(bias)


def _runs(occupancy: LocalOccupancy) -> Iterator[_Run]:
    """Yield all cells in runs."""
    start = occupancy.start
    edges = np.searchsorted(start, np.arange(0, occupancy.n_pairs, BLOCK_PAIRS)).tolist()
    for begin, end in pairwise(dict.fromkeys([*edges, occupancy.n_cells])):
        own = start[begin : end + 1]
        yield _Run(slice(begin, end), slice(own[0], own[-1]), own[:-1] - own[0], np.diff(own))


def optimize_user_weights(
    occupancy: LocalOccupancy,
    loss: float,
    prior: UserMeanPrior,
    iterations: int = ITERATIONS,
    begin: Floats | None = None,
) -> UserWeights:
    """Return weights and noise that make the average predicted error small.

    Parameters
    ----------
    occupancy : LocalOccupancy
    loss : float
        The most that a user may lose, in epsilon.
    prior : UserMeanPrior
    iterations : int
        Fewer of them are good enough for a prediction.
    begin : ndarray of float, shape (n_cells,), optional
        Rates that were found for another loss or prior. Not used where there are few pairs, and the
        search begins at several points.

    Examples
    --------
    >>> from hexveil.model.occupancy import LocalOccupancy
    >>> crowd = LocalOccupancy.from_dense([[1, 1]] * 50)
    >>> prior = UserMeanPrior(0.3, 0.1)
    >>> optimize_user_weights(crowd, 1.0, prior).noise  # span G / (epsilon L), in both cells
    array([0.04, 0.04])
    """
    problem = WeightProblem(occupancy, loss, prior)
    begins = parts_of_work(SEARCH, _begins(problem, begin))
    result = (search_rates(problem, start, iterations) for start in begins)
    return problem.weighing(np.exp(min(result, key=lambda start: start[1])[0]))


def _begins(problem: WeightProblem, known: Floats | None) -> list[Floats]:
    """Return logarithms of rates to begin at."""
    sample = problem.occupancy.n_pairs <= SMALL_PROBLEM_PAIRS
    if known is not None and not sample:
        return [np.log(known)]
    losses = problem.by_user(np.ones(problem.occupancy.n_cells))
    typical = np.quantile(
        losses, (*START_QUANTILES, *EXTRA_START_QUANTILES) if sample else START_QUANTILES
    )
    return [np.full(problem.occupancy.n_cells, -math.log(one)) for one in typical]


def search_rates(problem: WeightObjective, begin: Floats, iterations: int) -> tuple[Floats, float]:
    """Return logarithms of rates that L-BFGS finds from here, and the objective there."""
    # L-BFGS takes a first step of the length of the slope, which is tiny on large maps.
    start, slope = problem.value(begin)
    scale = max(FIRST_STEP / max(float(np.abs(slope).max()), 1e-300), 1.0)

    def scaled(logs: Floats) -> tuple[float, Floats]:
        value, slope = problem.value(logs)
        return value * scale, slope * scale

    rule = StopRule(
        iterations,
        # The search takes the gain of a value of 1 or more.
        gain=GAIN_TOLERANCE * min(start * scale, 1.0),
        slope=SLOPE_TOLERANCE * start * scale / begin.size,
    )

    found, value = descend(scaled, begin, LOG_SCALE_RANGE, rule)
    return found, value / scale


def sum_weights(occupancy: Occupancy, weight: Weights) -> Ints:
    """Return the sum of whole weights of each cell."""
    if isinstance(weight, FactoredWeights):
        return weight.totals
    return np.asarray(np.add.reduceat(weight, occupancy.local().start[:-1]))


def weight_shares(occupancy: LocalOccupancy, weight: Weights) -> Floats:
    """Return each pair's part of its cell's number, where pairs are at hand."""
    whole = weight.of(occupancy) if isinstance(weight, FactoredWeights) else weight
    return np.asarray(whole / sum_weights(occupancy, whole)[occupancy.cell])


def relative_weights(occupancy: Occupancy, weight: Weights) -> Shares:
    """Return each pair's part of its cell's number, or the weights of pairs that are elsewhere."""
    if isinstance(weight, FactoredWeights):
        return weight
    return weight_shares(occupancy.local(), weight)


def expected_bias(occupancy: Occupancy, weight: Shares, prior: UserMeanPrior) -> Floats:
    """Return the expected bias of each cell by its weights, for a range of width 1."""
    length, distance = weight_distances(occupancy, weight)
    return np.asarray(
        MEAN_ABS_NORMAL * prior.within_cell_sd * length + prior.weight_confounding / 2.0 * distance
    )


def max_bias(occupancy: Occupancy, weight: Shares) -> Floats:
    """Return the most that weights can make each cell off by, for an interval of width 1."""
    return np.asarray(weight_distances(occupancy, weight)[1] / 2.0)


def weight_distances(occupancy: Occupancy, weight: Shares) -> tuple[Floats, Floats]:
    """Return how far each cell's weights are from the shares: √(Σ (w - p)²), and Σ |w - p|."""
    total = occupancy.records_per_cell.astype(np.float64)
    distances: tuple[Floats, Floats]
    if isinstance(weight, FactoredWeights):
        cells = total, weight.totals
        distances = weight.once("distances", lambda: weight.map_cells(_distances_of_whole, cells))
        return distances
    distances = occupancy.map_cells(_distances, [total], pairs=[weight])
    return distances


def _distances_of_whole(
    pairs: Pairs, weight: Ints, total: Floats, totals: Ints
) -> tuple[Floats, Floats]:
    """Return the same of some cells, for whole weights."""
    return _distances(pairs, total, weight / totals[pairs.cell])


def _distances(pairs: Pairs, total: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """Return the same of some cells."""
    begin, clipped_share = pairs.start[:-1], weight - pairs.n / total[pairs.cell]
    length = np.sqrt(np.add.reduceat(np.square(clipped_share), begin))
    return length, np.add.reduceat(np.abs(clipped_share, out=clipped_share), begin)
