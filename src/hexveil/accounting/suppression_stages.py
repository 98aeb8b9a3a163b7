"""The stages of CLIP-USER: each user of most cells is suppressed in its cheapest cell.

Source: COMP Algorithm 1 (ERRATA 2). Neighbours and symbols as for the state, below.

Every stage takes one cell from each user treated and starts one cell lower, so the users of the
stage of degree d are those who started with at least d cells, in the order of their numbers, and
each of them has d left.

A user's cheapest cell is found by lines, one per cell, which lie below the error without any user
left there: only cells whose line lies below the least error found are evaluated.

State of CLIP-USER: the error of a cell, and the remaining counts.

Source: COMP eq. (12), (13), Proposition III.1, Lemma III.3, Theorems IV.1 and IV.2 (ERRATA 1).
Neighbours: one user's values all change within the bounds; users and counts are public.
Symbols of one cell: N all samples, n contributed samples, t the largest contribution of a user, m
the count of the user that may be suppressed next, U the width of the bounds, ε the cell's loss for
mean and variance together, half of it for each.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hexveil.accounting.sensitivity import variance_share
from hexveil.base.arrays import Floats, Ints
from hexveil.model.occupancy import LocalOccupancy

Candidate = tuple[int, int, int]  # cell, count, pair


TIE = 1e-12
"""Relative difference below which two errors are equal, as they would be in exact numbers."""

NEAR = 1e-9
"""Far above the rounding of a line, whose parts are all positive, and of an error."""


@dataclass(frozen=True)
class SuppressionStage:
    """One stage of CLIP-USER: every user of most cells loses one of them.

    Attributes
    ----------
    degree : int
        Cells of each of these users when the stage began.
    users : int
        Users of that degree.
    suppressed : int
        Users treated before the run halted; each lost one cell (in an unfinished stage these
        suppressions were undone, unless they were to be kept).
    finished : bool
        Whether all users were treated.
    """

    degree: int
    users: int
    suppressed: int
    finished: bool


class SuppressionRun:
    """One execution: remaining records per user, and the suppressed pairs in order."""

    def __init__(
        self, occupancy: LocalOccupancy, measure: "CellError", limit: float, exempt: int | None
    ) -> None:
        self._occupancy, self._cells = occupancy, RemainingCounts(occupancy)
        self._measure, self._limit = measure, limit * (1.0 + TIE)
        by_user = np.argsort(occupancy.user, kind="stable")
        self._pair = by_user[occupancy.cell[by_user] != (-1 if exempt is None else exempt)]
        self._cell, self._n = occupancy.cell[self._pair], occupancy.n[self._pair]
        user = occupancy.user[self._pair]
        self._start = np.searchsorted(user, np.arange(occupancy.n_users + 1)).tolist()
        # The last line is that of a pair already suppressed: no such cell is ever chosen.
        lines = [*map(self._line, range(occupancy.n_cells)), (math.inf, 0.0, 0, math.inf)]
        self._base, self._slope, self._top, self._peak = np.array(lines).T.copy()
        self.suppressed: list[int] = []

    def stages(self) -> Iterator[SuppressionStage]:
        """Run and report the stages until one halts: at the latest, the last users of cells."""
        degree = self._occupancy.cells_per_user
        order = np.argsort(-degree, kind="stable")
        rising = -degree[order]
        for d in range(int(degree.max()), 0, -1):
            users = np.sort(order[: np.searchsorted(rising, -d, side="right")])
            suppressed = self._treated(users.tolist())
            self.suppressed += suppressed
            yield SuppressionStage(d, users.size, len(suppressed), len(suppressed) == users.size)
            if len(suppressed) < users.size:
                return

    def _treated(self, users: list[int]) -> list[int]:
        """Suppress each user, in order, in its cheapest cell; return the pairs.

        Stops before the first user whose cheapest cell is above the limit.
        """
        pairs = []
        for user in users:
            rows = slice(self._start[user], self._start[user + 1])
            cells, counts = self._cell[rows], self._n[rows]
            cheapest = self._cheapest(cells, counts)
            if cheapest is None:
                break
            cell, pair = int(cells[cheapest]), int(self._pair[rows][cheapest])
            self._cells.suppress(cell, int(counts[cheapest]), pair)
            cells[cheapest] = self._base.size - 1
            line = self._line(cell)
            self._base[cell], self._slope[cell], self._top[cell], self._peak[cell] = line
            pairs.append(pair)
        return pairs

    def _line(self, cell: int) -> tuple[float, float, int, float]:
        state = self._cells
        return self._measure.line(
            state.left[cell], state.top[cell], state.second[cell], state.total[cell]
        )

    def _cheapest(self, cells: Ints, counts: Ints) -> int | None:
        """Return the position of the cheapest cell, None if it is above the limit."""
        if not cells.size:  # the exempt cell was the only one
            return None
        low = self._base.take(cells) + self._slope.take(cells) * counts
        peaks = (self._top.take(cells) == counts).nonzero()[0]
        if peaks.size:
            low[peaks] = self._peak.take(cells[peaks])
        start = int(low.argmin())
        if low[start] == math.inf:
            return None
        smallest = self._error(int(cells[start]), int(counts[start]))
        candidates = (low <= smallest * (1.0 + NEAR)).nonzero()[0].tolist()
        if len(candidates) > 1:
            start, smallest = self._first_least(cells, counts, candidates)
        return start if smallest <= self._limit else None

    def _first_least(self, cells: Ints, counts: Ints, candidates: list[int]) -> tuple[int, float]:
        """Return position and error of the first cheapest cell among a few."""
        below, smallest, best = math.inf, math.inf, -1
        for i in candidates:
            error = self._error(int(cells[i]), int(counts[i]))
            if error < below:
                below, smallest, best = error * (1.0 - TIE), error, i
        return best, smallest

    def _error(self, cell: int, m: int) -> float:
        """Return the cell's error once a user of count m is suppressed."""
        state = self._cells
        t = state.second[cell] if m == state.top[cell] else state.top[cell]
        return self._measure.error(state.left[cell] - m, t, state.total[cell])


@dataclass(frozen=True)
class CellError:
    """Error of one cell: bias and noise of mean and variance, added up or the larger of the two.

    Attributes
    ----------
    mean, mean_noise : float
        U and 2 U/ε, each divided by the mean's target if there is one.
    variance, variance_noise : float
        U² and 2 U²/ε, each divided by the variance's target if there is one.
    summed : bool
        COMP's sum, not the larger.
    """

    mean: float
    mean_noise: float
    variance: float
    variance_noise: float
    summed: bool

    @classmethod
    def of(cls, span: float, epsilon: float, targets: tuple[float, float] | None) -> "CellError":
        """Return the measure in km/h + (km/h)², or in shares of the two targets."""
        mean_target, variance_target = targets or (1.0, 1.0)
        # Where every cell has one record the variance is 0 without error, and so is its target.
        mean, variance = (
            span / mean_target,
            span * span / variance_target if variance_target else 0.0,
        )
        return cls(mean, 2 * mean / epsilon, variance, 2 * variance / epsilon, targets is None)

    def parts(self, n: Ints, t: Ints, total: Ints) -> tuple[Floats, Floats]:
        """Return the errors of mean and variance, one per (n, t, N)."""
        size = total.astype(np.float64)
        n_moved = np.where(total < 2 * n, n, total // 2)
        mean = self.mean * ((total - n) / size) + self.mean_noise * (t / n)
        bias = self.variance * (n_moved / size * ((total - n_moved) / size))
        return mean, np.asarray(bias + self.variance_noise * variance_share(t, n), dtype=float)

    def errors(self, n: Ints, t: Ints, total: Ints) -> Floats:
        """Return the error by which cells are compared, one per (n, t, N)."""
        mean, variance = self.parts(n, t, total)
        return mean + variance if self.summed else np.maximum(mean, variance)

    def biases(self, n: int, total: int) -> tuple[float, float]:
        """Return the biases of mean and variance of one cell."""
        n_moved = n if total < 2 * n else total >> 1
        return (
            self.mean * (total - n) / total,
            self.variance * (n_moved * (total - n_moved)) / (total * total),
        )

    def noises(self, n: int, t: int) -> tuple[float, float]:
        """Return the expected |noise| of mean and variance of one cell."""
        majority = t if 2 * t < n else n >> 1
        return self.mean_noise * t / n, self.variance_noise * (majority * (n - majority)) / (n * n)

    def error(self, n: int, t: int, total: int) -> float:
        """Return the error by which cells are compared, of one cell: `biases` plus `noises`."""
        biases, noises = self.biases(n, total), self.noises(n, t)
        mean, variance = biases[0] + noises[0], biases[1] + noises[1]
        return mean + variance if self.summed else max(mean, variance)

    def line(
        self, n: int, t: int, second_largest: int, total: int
    ) -> tuple[float, float, int, float]:
        """Return base and slope of a line in m below the error without a user of m < t; t; peak.

        The line holds for m up to the second largest count; the peak is the error without a user
        of count t. The mean's bias is linear in m, the variance's is concave and so above its
        chord. The mean's noise is convex and so above its tangent, the variance's above it up to
        m = n - 3t; beyond, it is at least what it is now, or that of t samples of which all move.
        """
        if not second_largest:
            return math.inf, 0.0, t, math.inf  # a cell keeps its last user
        (mean, variance), (later, rising) = (
            self.biases(n, total),
            self.biases(n - second_largest, total),
        )
        noise, spread = self.noises(n, t)
        slope, rise = (
            (later - mean) / second_largest + noise / n,
            (rising - variance) / second_largest,
        )
        if n - second_largest >= 3 * t:
            rise += spread * (n - 2 * t) / (n - t) / n
        else:
            spread = min(spread, self.variance_noise * (t * t - 1) / (4 * t * t))
        base, variance = mean + noise, variance + spread
        if self.summed:
            base, slope = base + variance, slope + rise
        elif variance > base:
            base, slope = variance, rise
        return base, slope, t, self.error(n - t, second_largest, total)


class RemainingCounts:
    """Remaining counts of each cell: records and the two largest users.

    The two largest are pointers into the cell's counts, sorted once; they only move on, so that
    all suppressions together cost no more than the pairs there are.
    """

    def __init__(self, occupancy: LocalOccupancy) -> None:
        order = np.lexsort((-occupancy.n, occupancy.cell))
        place = np.empty(order.size, dtype=np.int64)
        place[order] = np.arange(order.size)
        self._place: list[int] = place.tolist()
        self._counts: list[int] = [*occupancy.n[order].tolist(), 0]
        self._gone = bytearray(order.size)
        self._end: list[int] = occupancy.start[1:].tolist()
        self._first: list[int] = occupancy.start[:-1].tolist()
        self._next = [largest + 1 for largest in self._first]
        self.total: list[int] = occupancy.records_per_cell.tolist()
        self.left = list(self.total)
        self.top = [self._counts[i] for i in self._first]
        self.second = [
            self._counts[i] if i < end else 0 for i, end in zip(self._next, self._end, strict=True)
        ]

    def suppress(self, cell: int, count: int, pair: int) -> None:
        """Take a user's samples out of a cell."""
        self.left[cell] -= count
        self._gone[self._place[pair]] = 1
        if count >= self.second[cell]:
            self._advance(cell)

    def _advance(self, cell: int) -> None:
        gone, end = self._gone, self._end[cell]
        largest = self._first[cell]
        while largest < end and gone[largest]:
            largest += 1
        following = max(self._next[cell], largest + 1)
        while following < end and gone[following]:
            following += 1
        self._first[cell], self._next[cell] = largest, following
        self.top[cell] = self._counts[largest] if largest < end else 0
        self.second[cell] = self._counts[following] if following < end else 0
