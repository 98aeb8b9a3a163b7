"""Public facts of a map whose cells are planned apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hexveil.mechanisms.single_cell.cell_allocation import CellProblem

if TYPE_CHECKING:
    from fractions import Fraction

    from hexveil.model.occupancy import Occupancy


@dataclass(frozen=True, eq=False)
class MapProblem:
    """Public facts of a map.

    Attributes
    ----------
    occupancy : Occupancy
        Records of each (cell, user) pair.
    lower, quantum : Fraction
        Lower bound of a value, and the resolution of sums, in value units.
    span : int
        Width of the bounds in quanta.
    """

    occupancy: Occupancy
    lower: Fraction
    quantum: Fraction
    span: int

    def rows(self, cell: int) -> slice:
        """Return the pairs of a cell; pairs are at hand."""
        start = self.occupancy.local().start
        return slice(int(start[cell]), int(start[cell + 1]))

    def cell(self, cell: int) -> CellProblem:
        """Return the public facts of one cell; pairs are at hand."""
        counts = self.occupancy.local().n[self.rows(cell)]
        return CellProblem(counts, self.lower, self.quantum, self.span)
