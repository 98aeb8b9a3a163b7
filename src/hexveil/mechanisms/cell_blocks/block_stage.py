"""One number of every cell, measured in blocks: the row of a stage of cells planned apart.

Neighbours: all values of one user, in all its cells at once, change within the bounds.
Sensitivity: that of each cell's own stage, computed from the cell's counts in its block.
Loss: the sum over the user's cells of its losses by this stage at the scales of this process. The
meter gets that sum with the first request of the row, nothing with the others; a request of another
scale than the blocks were asked about has no bound, and is refused.
Source: the mechanism of the cell.
Noise is drawn here, once; blocks draw nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.base.read_only import read_only
from hexveil.mechanisms.cell_blocks import block_plans
from hexveil.mechanisms.contract import DrawnRow, LaplaceNoise, NoisyMax, Scores, Values

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from hexveil.base.arrays import Floats, Ints
    from hexveil.mechanisms.cell_blocks.distributed_cells import DistributedCells
    from hexveil.mechanisms.contract import (
        Measured,
        NoiseRequest,
        Outputs,
        PrivateSums,
        SensitivityReport,
    )

NOTHING = read_only(np.zeros(1))


@dataclass(frozen=True, eq=False)
class BlockMoves:
    """Losses by one request, of users whose pairs are in blocks: a `SensitivityReport`.

    Attributes
    ----------
    selects : bool
    scales : ndarray of float, shape (n,)
        Noise of the request that the blocks were asked about.
    losses : ndarray of float, shape (n_users,) or (1,)
        Losses by all requests of the stage for the first of them, nothing for the others.
    """

    selects: bool
    scales: Floats
    losses: Floats

    def loss_lower_bound(self, request: NoiseRequest, n_users: int) -> Floats:
        """Return each user's loss, rounded down; infinity for a request that was not asked."""
        if isinstance(request, NoisyMax):
            same = self.selects and np.array_equal(self.scales, [request.scale])
        else:
            same = (
                isinstance(request, LaplaceNoise)
                and not self.selects
                and np.array_equal(self.scales, np.ravel(request.scales))
            )
        return self.losses if same else np.full(n_users, np.inf)


@dataclass(frozen=True, eq=False)
class BlockStage(DrawnRow):
    """The stage of one number of every cell that has one, measured in blocks."""

    blocks: DistributedCells
    number: int

    @property
    def name(self) -> str:
        """Name of its row."""
        return block_plans.stage_name(self.number)

    @property
    def entries(self) -> int:
        """Integers of all cells."""
        return int(self.blocks.figures.entry_table[:, self.number].sum())

    def noise(self, earlier: Outputs) -> tuple[NoiseRequest, ...]:
        """Return the noise of the row: a request for each choice, and for each run of sums."""
        selects, scales = self._requests(earlier)
        return tuple(
            NoisyMax(float(scales[begin])) if selects[begin] else LaplaceNoise(scales[begin:end])
            for begin, end in _queries(selects)
        )

    def sensitivity(self, earlier: Outputs) -> tuple[SensitivityReport, ...]:
        """Return the losses of users by all numbers of the row, with the first request."""
        selects, scales = self._requests(earlier)
        arrays = (self.blocks.table(self.number, selects), self.blocks.table(self.number, scales))
        work = partial(block_plans.sum_moves, number=self.number)
        tables = self.blocks.output_tables(earlier, self.number)
        (parts,) = self.blocks.sum_over_users(work, (*arrays, *tables), 1)
        losses = self.blocks.parts.lower_bounds(parts)
        return tuple(
            BlockMoves(bool(selects[begin]), scales[begin:end], NOTHING if position else losses)
            for position, (begin, end) in enumerate(_queries(selects))
        )

    def measure(self, sums: PrivateSums, earlier: Outputs) -> tuple[Measured, ...]:
        """Return each cell's integers. PRIVATE."""
        selects, _ = self._requests(earlier)
        work = partial(block_plans.measured_integers, recipe=self.blocks.recipe, number=self.number)
        tables = self.blocks.output_tables(earlier, self.number)
        arrays = (self.blocks.choice_array, *tables)
        row = sums.map_cells(self.blocks.problem.occupancy, work, arrays)[0]
        return tuple(_measured(row, selects))

    def _requests(self, earlier: Outputs) -> tuple[NDArray[np.bool_], Floats]:
        """Return whether each number of the row is a choice, and its scale."""
        key = tuple(earlier[name].tobytes() for name in earlier)
        # Noise, sensitivity and integers of a stage need them: blocks are asked once.
        if key not in self._known:
            work = partial(block_plans.stage_requests, number=self.number)
            tables = self.blocks.output_tables(earlier, self.number)
            selects, scales = self.blocks.ask_plans(work, tables, 2)
            self._known[key] = read_only(selects), read_only(scales)
        return self._known[key]

    @cached_property
    def _known(self) -> dict[tuple[bytes, ...], tuple[NDArray[np.bool_], Floats]]:
        return {}


def _queries(selects: NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """Yield the numbers of a row that share a request: each choice, and each run of sums."""
    begins = np.flatnonzero(selects | np.concatenate(([True], selects[:-1])))
    yield from pairwise([*begins.tolist(), selects.size])


def _measured(row: Ints, selects: NDArray[np.bool_]) -> Iterator[Measured]:
    """Yield measured queries, from the row of `block_plans.measured_integers`. PRIVATE."""
    place = 0
    for begin, end in _queries(selects):
        if not selects[begin]:
            yield Values(row[None, place : place + end - begin])
            place += end - begin
            continue
        size = int(row[place])
        n_runs, place = abs(size), place + 1
        scores = row[None, place : place + n_runs]
        place += n_runs
        sizes: Any = np.ones((1, n_runs), dtype=np.int64)
        if size > 0:
            sizes = row[None, place : place + n_runs]
            place += n_runs
        yield Scores(scores, sizes)
