"""Declared facts of a data set with private presence: all that a plan may see of it.

The counterpart of `PublicMetadata`. Every fact is declared by the holder before any record is read:
nothing here is counted, so nothing here tells who is in the records.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hexveil.model.cells import CellTable
    from hexveil.model.declared_grid import DeclaredGrid
    from hexveil.model.fine_bins import FineBins
    from hexveil.model.public_metadata import Unit, ValueLattice


@dataclass(frozen=True, eq=False)
class DeclaredFacts:
    """Declared facts of a data set; using them costs no privacy.

    Attributes
    ----------
    grid : DeclaredGrid
    lattice : ValueLattice
        Bounds and quantum of the values.
    privacy_unit : str
        The privacy unit, whose presence is private.
    value, value_unit : str
        Name of the value column, and its unit of measure ("" if not stated).
    days : (int, int) or None
        First and last declared local day, counted from 1970-01-01.
    identity : mapping of str to str
        The declared reading: columns, repeats, selection, version; no count of anything.
    bins : FineBins or None
        Bins in which records are counted; None unless statistics of distributions were asked for.
    id_space : str
        Name of what an id names, which an account pins; "" if not known.
    """

    grid: DeclaredGrid
    lattice: ValueLattice
    privacy_unit: Unit = "user"
    value: str = "value"
    value_unit: str = ""
    days: tuple[int, int] | None = None
    identity: Mapping[str, str] = field(default_factory=dict)
    bins: FineBins | None = None
    id_space: str = ""

    @property
    def cells(self) -> CellTable:
        """Cells of the declared grid."""
        return self.grid.table
