"""Cells planned apart as a release runs them: estimates and ranges in value units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hexveil.mechanisms.contract import Decoded, EstimateGrid, Outputs, Stage
from hexveil.mechanisms.single_cell.cell_allocation import ReleasedRange

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hexveil.accounting.error_model import ErrorModel
    from hexveil.base.arrays import Floats, Ints
    from hexveil.mechanisms.per_cell_allocation import PlannedCells
    from hexveil.model.public_metadata import ValueLattice


@dataclass(frozen=True, eq=False)
class PublishedCells:
    """The cells of a map as a release runs them, with estimates in value units.

    Attributes
    ----------
    cells : PerCellAllocation or DistributedCells
    error : ErrorModel
        Of the means, in value units.
    """

    cells: PlannedCells
    error: ErrorModel

    def losses(self) -> Floats:
        """Return each user's loss over all its cells, rounded up."""
        return self.cells.losses()

    def next_stage(self, earlier: Outputs) -> Stage | None:
        """Return the next stage of the map."""
        return self.cells.next_stage(earlier)

    def numbers(self, outputs: Outputs) -> dict[str, Ints]:  # noqa: ARG002  as of other plans
        """Return nothing: no range of the whole map cuts these integers off."""
        return {}

    def check_release(self, scale: ValueLattice, epsilon: float, *, has_squares: bool) -> None:
        """Refuse nothing: stages are built for these records, or not at all."""

    def grids(self, models: Mapping[str, ErrorModel]) -> dict[str, EstimateGrid]:  # noqa: ARG002
        """Return where published means can lie, in value units; no number where on a curve."""
        start, step = self.cells.figures.grid_start, self.cells.figures.grid_step
        grid = EstimateGrid(self._in_units(start), step * float(self.cells.problem.quantum))
        return {"mean": grid}

    def released_ranges(self, outputs: Outputs) -> tuple[ReleasedRange | None, ...]:
        """Return the released choices of each cell, in value units."""
        return tuple(map(self._range_in_units, self.cells.released_ranges(outputs)))

    def _range_in_units(self, released: ReleasedRange | None) -> ReleasedRange | None:
        if released is None:
            return None
        quantum = float(self.cells.problem.quantum)
        # Sums count from the lower bound of each value, means do not.
        lowest = 0.0 if released.quantity == "user sums" else float(self.cells.problem.lower)
        lower, upper = (lowest + quantum * end for end in (released.lower, released.upper))
        return ReleasedRange(released.quantity, lower, upper, quantum * released.scale)

    def decode(self, outputs: Outputs) -> tuple[Decoded, ...]:
        """Return the mean of every cell."""
        estimates = self._in_units(self.cells.estimates(outputs))
        return (Decoded("mean", estimates, self.grids({})["mean"], self.error),)

    def _in_units(self, quanta: Floats) -> Floats:
        problem = self.cells.problem
        return np.asarray(float(problem.lower) + quanta * float(problem.quantum))
