"""Exact laws of maps with private presence on tiny worlds: the largest loss of any unit.

A world holds the records of some units, and every set of records that one more unit may have. The
stages of an allocation are walked along paths of outputs, for all of these data sets at once: of
noisy numbers that later stages see, outcomes on a grid whose ends tell two data sets apart as well
as any outcome does. Discrete Laplace noise of scale b on the last numbers attains
exp(|change| / b).
"""

import itertools
from dataclasses import dataclass

import numpy as np

from hexveil.mechanisms.contract import DONE
from hexveil.mechanisms.presence import PresenceSums
from hexveil.mechanisms.sensitivity_report import Meter
from hexveil.mechanisms.stage_data import Outputs
from hexveil.model.pair_bins import PairBins
from hexveil.model.private_pairs import PrivatePairs

NEW_UNIT = 99
FEW_NUMBERS, SOME_ROWS = 6, 1


@dataclass(frozen=True)
class PresenceWorld:
    """Units that are always there, and the sets of records that one more unit may have.

    Attributes
    ----------
    base : tuple of tuple of int
        Rows (cell, unit, n, total).
    options : tuple of tuple of tuple of int
        Rows (cell, n, total) of the new unit; the first option is that it has none.
    """

    base: tuple
    options: tuple

    @classmethod
    def of(cls, base, n_cells, span, max_n, step=1):
        """Return the world in which the new unit may have any records: every `step`-th set."""
        in_cell = [None, *((n, t) for n in range(1, max_n + 1) for t in range(span * n + 1))]
        every = [
            tuple((c, *pair) for c, pair in enumerate(pairs) if pair is not None)
            for pairs in itertools.product(in_cell, repeat=n_cells)
        ]
        return cls(tuple(base), (*every[::step], *every[-1:]))

    def data_sets(self):
        """Return the private pairs of each data set, the one without the new unit first."""
        made = []
        for option in self.options:
            rows = [*self.base, *((c, NEW_UNIT, n, t) for c, n, t in option)]
            made.append(PrivatePairs(*np.array(rows, dtype=np.int64).reshape(-1, 4).T))
        return made


EDGES, N_FINE = (1, 3, 4), 3
"""Upper ends of the fine bins of a `BinnedWorld`."""


class BinnedWorld:
    """Units that are always there, and the sets of records by bin that one more unit may have."""

    def __init__(self, base, max_n=2, step=1):
        counts = [c for c in itertools.product(range(max_n + 1), repeat=N_FINE) if sum(c) <= max_n]
        every = list(itertools.product(counts, repeat=2))
        self.base, self.options = base, [every[0], *every[1::step]]

    def data_sets(self):
        """Return the private pairs of each data set, the one without the new unit first."""
        return [self._pairs(option) for option in self.options]

    def _pairs(self, option):
        new = [
            (cell, NEW_UNIT, j, n)
            for cell, own in enumerate(option)
            for j, n in enumerate(own)
            if n
        ]
        cell, unit, place, n = np.array([*self.base, *new], dtype=np.int64).reshape(-1, 4).T
        return PrivatePairs(cell, unit, n, n * place, PairBins(np.arange(n.size), place, n))


class ExactPresenceLoss:
    """The largest log-ratio between the data set without a unit and those with it.

    Parameters
    ----------
    world : PresenceWorld
    allocate : callable
        From private pairs to an allocation; a sound one does not look at them.

    Attributes
    ----------
    worst : float
    last_map : float
        Largest log-ratio at the last stage alone, as a share of the loss that it states.
    paths : int
    """

    def __init__(self, world, allocate):
        pairs = world.data_sets()
        self.sums = [PresenceSums(one) for one in pairs]
        allocations = [allocate(one) for one in pairs]
        # A sound plan looks at no records: one for all data sets, whose stages are asked once.
        self.allocations = list({id(one): one for one in allocations}.values())
        self._numbers = [[one is a for a in self.allocations].index(True) for one in allocations]
        self.worst = self.last_map = 0.0
        self.paths = 0
        self._follow({}, np.zeros(len(pairs)), ())

    def _follow(self, rows, ratio, metered):
        """Walk on from outputs at which each data set has a log-ratio to the first."""
        earlier = Outputs({name: np.array([row]) for name, row in rows.items()})
        stages = [one.next_stage(earlier) for one in self.allocations]
        stage = stages[0]
        if stage is DONE:
            assert all(one is DONE for one in stages), "the number of stages depends on records"
            self._end(ratio, metered)
            return
        requests, reports = stage.noise(earlier), stage.sensitivity(earlier)
        for one in stages[1:]:
            assert one is not DONE, "the number of stages depends on records"
            assert same_requests(requests, one.noise(earlier)), "noise depends on records"
        measured = [
            stages[number].measure(sums, earlier)[0]
            for number, sums in zip(self._numbers, self.sums, strict=True)
        ]
        metered = (*metered, (requests, reports))
        values = np.array([one.integers[0] for one in measured])
        scales = np.atleast_2d(requests[0].scales)[0]
        moved = (np.abs(values - values[0]) / scales).sum(axis=1)
        stated = stage.sensitivity(earlier)[0].loss_lower_bound(requests[0], 1)[0]
        share = float(moved.max() / stated)
        assert share <= 1 + 1e-9, "numbers move by more than is stated"
        after = {name: np.array([row]) for name, row in rows.items()}
        after[stage.name] = np.zeros((1, stage.entries), dtype=np.int64)
        if self.allocations[0].next_stage(Outputs(after)) is DONE:
            self.last_map = max(self.last_map, share)
            # Adding a unit never lowers a number, so all numbers tell in one direction.
            self._end(ratio + moved, metered)
            self._end(ratio - moved, metered)
            return
        for outcome in self._outcomes(values, scales):
            distance = (np.abs(outcome - values) / scales).sum(axis=1)
            row = stage.row(outcome[None], earlier)[0].tolist()
            self._follow({**rows, stage.name: row}, ratio + distance[0] - distance, metered)

    def _outcomes(self, values, scales):
        """Return noisy rows: each number at the lowest or far above the highest it can have.

        Of many numbers all lowest, all highest, which tell most, and some in between.
        """
        low, high = values.min(axis=0), values.max(axis=0) + np.rint(6 * scales).astype(np.int64)
        if low.size <= FEW_NUMBERS:
            return [np.array(row) for row in itertools.product(*zip(low, high, strict=True))]
        is_high = np.random.default_rng(low.size).random((SOME_ROWS, low.size)) < 0.4
        mixed = [np.where(one, high, low) for one in is_high]
        return [low, high, *mixed]

    def _end(self, ratio, metered):
        """Note the loss of a complete path; the meter accepts it at what is booked."""
        self.paths += 1
        self.worst = max(self.worst, float(np.abs(ratio).max()))
        meter = Meter(self.allocations[0].losses())
        for requests, reports in metered:
            meter.authorise(requests, reports)


def same_requests(ours, others):
    """Return whether two stages ask for the same noise."""
    return all(np.array_equal(a.scales, b.scales) for a, b in zip(ours, others, strict=True))
