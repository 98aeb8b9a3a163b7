"""The stages of CLIP-USER: each user of most cells is suppressed in its cheapest cell.

Source: COMP Algorithm 1 (ERRATA 2). Neighbours and symbols as in `suppression_state`.

Every stage takes one cell from each user treated and starts one cell lower, so the users of the
stage of degree d are those who started with at least d cells, in the order of their numbers, and
each of them has d left.

Two ways to find a user's cheapest cell agree in what they choose. Up to `WIDE` cells plain Python
evaluates every one. Above, numpy takes the least of a line per cell that lies below the error of
every user left there, and only cells whose line lies below the error found are evaluated.
"""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from hexveil.accounting.suppression.suppression_state import RemainingCounts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hexveil.accounting.suppression.heavy_users import SuppressionCounts
    from hexveil.accounting.suppression.suppression_state import CellError
    from hexveil.base.arrays import Ints

    Candidate = tuple[int, int, int]  # cell, count, pair

WIDE = 40
"""Users of more cells than this are treated with numpy; about where it starts to pay."""

TIE = 1e-12
"""Relative difference below which two errors are equal, as they would be in exact numbers."""

NEAR = 1e-9
"""Far above the rounding of a line, whose parts are all positive, and of an error."""

_STATE = ("left", "top", "second", "total")


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


class Narrow:
    """Users of few cells: every cell of a user is evaluated, in plain Python."""

    def __init__(self, cells: RemainingCounts, measure: CellError, limit: float) -> None:
        self._cells, self._measure, self._limit = cells, measure, limit
        # Per cell: what is left, the two largest counts, 1/N, the variance's largest bias.
        self._view = [
            (*state, 1.0 / total, measure.biases(total >> 1, total)[1])
            for *state, total in zip(*(getattr(cells, name) for name in _STATE), strict=True)
        ]

    def stage(self, candidates: list[list[Candidate]]) -> list[int]:
        """Suppress each user, in order, in its cheapest cell; return the pairs.

        Stops before the first user whose cheapest cell is above the limit.
        """
        view, suppress, limit, keep = self._view, self._suppress, self._limit, 1.0 - TIE
        U, a, V, b, summed = astuple(self._measure)
        pairs = []
        for mine in candidates:
            below = smallest = math.inf
            for option in mine:
                cell, m, _ = option
                n, t, second_largest, share, largest = view[cell]
                if m == t:
                    t = second_largest
                    if not t:
                        continue  # a cell keeps its last user
                # The formulas of Measure.error written out: calls would double the time.
                n -= m
                x, y = n * share, t / n
                share_moved = y * (1.0 - y) if y < 0.5 else (n >> 1) * (n - (n >> 1)) / (n * n)
                bias = V * x * (1.0 - x) if x > 0.5 else largest
                if summed:
                    error = U * (1.0 - x) + a * y + bias + b * share_moved
                else:
                    error = max(U * (1.0 - x) + a * y, bias + b * share_moved)
                if error < below:
                    below, smallest, best = error * keep, error, option
            if smallest > limit or smallest == math.inf:
                break
            suppress(*best)
            mine.remove(best)
            pairs.append(best[2])
        return pairs

    def _suppress(self, cell: int, count: int, pair: int) -> None:
        state = self._cells
        state.suppress(cell, count, pair)
        _, _, _, share, largest = self._view[cell]
        self._view[cell] = state.left[cell], state.top[cell], state.second[cell], share, largest


class Wide:
    """Users of many cells: one line per cell tells which few cells need evaluating."""

    def __init__(self, cells: RemainingCounts, measure: CellError, limit: float) -> None:
        self._cells, self._measure, self._limit = cells, measure, limit
        state = zip(*(getattr(cells, name) for name in _STATE), strict=True)
        # The last line is that of a pair already suppressed: no such cell is ever chosen.
        lines = [*(measure.line(*cell) for cell in state), (math.inf, 0.0, 0, math.inf)]
        self._base, self._slope, self._top, self._peak = np.array(lines).T.copy()

    def stage(self, slices: list[tuple[Ints, Ints, Ints]]) -> list[int]:
        """Suppress each user, in order, in its cheapest cell; return the pairs.

        A user's slice is its cells, counts and pairs; the cell of a suppressed pair is
        overwritten by the number of cells. Stops as `Narrow.stage` does.
        """
        state, pairs = self._cells, []
        for cells, counts, numbers in slices:
            cheapest = self._cheapest(cells, counts)
            if cheapest is None:
                break
            cell, pair = int(cells[cheapest]), int(numbers[cheapest])
            state.suppress(cell, int(counts[cheapest]), pair)
            cells[cheapest] = self._base.size - 1
            line = self._measure.line(
                state.left[cell], state.top[cell], state.second[cell], state.total[cell]
            )
            self._base[cell], self._slope[cell], self._top[cell], self._peak[cell] = line
            pairs.append(pair)
        return pairs

    def _cheapest(self, cells: Ints, counts: Ints) -> int | None:
        """Return the position of the cheapest cell, None if it is above the limit."""
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


class SuppressionRun:
    """One execution: remaining records per user, and the suppressed pairs in order."""

    def __init__(
        self, occupancy: SuppressionCounts, measure: CellError, limit: float, exempt: int | None
    ) -> None:
        self._occupancy, self._cells = occupancy, RemainingCounts(occupancy)
        by_user = np.argsort(occupancy.user, kind="stable")
        self._pair = by_user[occupancy.cell[by_user] != (-1 if exempt is None else exempt)]
        self._cell, self._n = occupancy.cell[self._pair], occupancy.n[self._pair]
        self._user = occupancy.user[self._pair]
        self._rules = self._cells, measure, limit * (1.0 + TIE)
        self.suppressed: list[int] = []

    def stages(self, least: int = 1) -> Iterator[SuppressionStage]:
        """Run and report the stages until one halts: at the latest, the last users of cells.

        Parameters
        ----------
        least : int
            Fewest cells of users whose pairs are all among the counts: the last stage.
        """
        degree = self._occupancy.cells_per_user
        order = np.argsort(-degree, kind="stable")
        rising = -degree[order]
        largest = int(degree.max())
        treat = self._wide() if largest > WIDE else self._narrow()
        for d in range(largest, least - 1, -1):
            if d == WIDE and d < largest:
                treat = self._narrow()
            users = np.sort(order[: np.searchsorted(rising, -d, side="right")])
            suppressed = treat(users.tolist())
            self.suppressed += suppressed
            yield SuppressionStage(d, users.size, len(suppressed), len(suppressed) == users.size)
            if len(suppressed) < users.size:
                return

    def _starts(self, users: Ints) -> list[int]:
        starts: list[int] = np.searchsorted(users, np.arange(self._occupancy.n_users + 1)).tolist()
        return starts

    def _wide(self) -> Callable[[list[int]], list[int]]:
        wide, start = Wide(*self._rules), self._starts(self._user)
        cell, n, pair = self._cell, self._n, self._pair

        def treat(users: list[int]) -> list[int]:
            slices = (slice(start[u], start[u + 1]) for u in users)
            return wide.stage([(cell[rows], n[rows], pair[rows]) for rows in slices])

        return treat

    def _narrow(self) -> Callable[[list[int]], list[int]]:
        live = self._cell < self._occupancy.n_cells  # what `Wide` suppressed is overwritten
        arrays = (array[live].tolist() for array in (self._cell, self._n, self._pair))
        flat = list(zip(*arrays, strict=True))
        mine = [flat[i:j] for i, j in pairwise(self._starts(self._user[live]))]
        narrow = Narrow(*self._rules)
        return lambda users: narrow.stage([mine[u] for u in users])
