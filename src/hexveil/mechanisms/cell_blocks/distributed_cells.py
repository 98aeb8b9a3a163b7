"""Cells planned apart whose pairs stay elsewhere: numbers per cell and per user here, never pairs.

The counterpart of `PerCellAllocation`, with the same stages, rows and estimates. Each question goes
to blocks of whole cells, which make the plans of their cells anew (`block_plans`). What returns is
a figure per cell; per stage one whole number of each sum, or the scores of each choice; and users'
losses, summed over each block in whole parts (`accounting/moves.py`): exact, wherever blocks
begin, and those of pairs at hand.

Neighbours: all values of one user, in all its cells at once, change within the bounds.
Loss: that of a user is the sum over its cells, as in `PerCellAllocation`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np

from hexveil.base.read_only import read_only
from hexveil.mechanisms.cell_blocks import block_plans
from hexveil.mechanisms.cell_blocks.block_stage import BlockStage, CellBlocks
from hexveil.mechanisms.contract import DONE, Outputs, Stage
from hexveil.mechanisms.single_cell.cell_allocation import ReleasedRange

if TYPE_CHECKING:
    from hexveil.base.arrays import Floats
    from hexveil.mechanisms.cell_blocks.block_plans import Column
    from hexveil.mechanisms.single_cell.cell_mechanism import CellMechanism


@dataclass(frozen=True, eq=False)
class DistributedCells(CellBlocks):
    """Cells planned apart, as a release runs them on blocks of pairs."""

    def names(self, mechanism: CellMechanism) -> list[str]:
        """Return the name of the mechanism of each cell, where one may choose another."""
        return [mechanism.chosen_name(choice) for choice in self.choices]

    def losses(self) -> Floats:
        """Return each user's loss over all its cells, rounded up."""
        return self._losses[0]

    def claimed_losses(self) -> Floats:
        """Return each user's loss if each cell costs all whom it costs anything its largest."""
        return self._losses[1]

    @cached_property
    def _losses(self) -> tuple[Floats, ...]:
        return self._sum_kinds((block_plans.LOSS, block_plans.CLAIM))

    def stage_costs(self) -> dict[str, tuple[int, float]]:
        """Return by name of a stage its cells, and the loss of the user whom it costs most."""
        names, n_cells = np.unique(self.figures.stage_names, return_counts=True)
        kinds = tuple(dict.fromkeys(self.figures.stage_names.tolist()))
        if not kinds:
            return {}
        counts = dict(zip(names.tolist(), n_cells.tolist(), strict=True))
        losses = self._sum_kinds(kinds)
        return {
            kind: (counts[kind], float(own.max())) for kind, own in zip(kinds, losses, strict=True)
        }

    def _sum_kinds(self, kinds: tuple[str, ...]) -> tuple[Floats, ...]:
        work = partial(block_plans.sum_losses, kinds=kinds)
        sums = self.sum_over_users(work, (), len(kinds))
        return tuple(read_only(self.parts.upper_bounds(parts)) for parts in sums)

    # ---- stages ----

    @cached_property
    def stages(self) -> tuple[BlockStage, ...]:
        """Stages of the map, as many as the cell with the most has."""
        return tuple(BlockStage(self, k) for k in range(self.figures.entry_table.shape[1]))

    def next_stage(self, earlier: Outputs) -> Stage | None:
        """Return the next stage of the map."""
        return self.stages[len(earlier)] if len(earlier) < len(self.stages) else DONE

    # ---- estimates ----

    def estimates(self, outputs: Outputs) -> Floats:
        """Return the estimates of all cells in quanta, shape (1, n_cells)."""
        return np.asarray(self._decoded(outputs)[0][None])

    def released_ranges(self, outputs: Outputs) -> tuple[ReleasedRange | None, ...]:
        """Return the released choices of each cell, in quanta."""
        _, names, *ends = self._decoded(outputs)
        rows = zip(names.tolist(), *(column.tolist() for column in ends), strict=True)
        return tuple(ReleasedRange(*row) if row[0] else None for row in rows)

    def _decoded(self, outputs: Outputs) -> tuple[Column, ...]:
        key = tuple(outputs[name].tobytes() for name in outputs)
        if key not in self._known:
            tables = self.output_tables(outputs, len(self.stages))
            self._known[key] = self.ask_plans(block_plans.estimated_cells, tables, 5)
        return self._known[key]

    @cached_property
    def _known(self) -> dict[tuple[bytes, ...], tuple[Column, ...]]:
        return {}
