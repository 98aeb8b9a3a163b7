"""Facts of several value columns of the same records, counted or declared.

Where occupancy is public each column has its own: whether a record carries a usable value of a
column is public, so that units, counts and cells of one column may differ from those of another.
Units of all columns are numbered together, since what one unit loses in all columns adds up. Where
presence is private everything is declared, and any unit may be in any column.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from hexveil.base.arrays import Ints
from hexveil.model.declared_grid import DeclaredFacts
from hexveil.model.public_metadata import PublicMetadata, Unit

Facts = TypeVar("Facts", PublicMetadata, DeclaredFacts)
"""Facts of one value column, by privacy model."""


class FactsByColumn(Generic[Facts]):
    """Facts of each value column, and the facts they have in common.

    Attributes
    ----------
    columns : mapping of str to PublicMetadata or DeclaredFacts
        By the column's name, in the order in which the columns were named.
    """

    columns: Mapping[str, Facts]

    @property
    def leading(self) -> Facts:
        """Facts of the first column, for all that columns have in common."""
        return next(iter(self.columns.values()))

    @property
    def privacy_unit(self) -> Unit:
        """Privacy unit of all columns."""
        return self.leading.privacy_unit

    @property
    def id_space(self) -> str:
        """Name of the id space of all columns."""
        return self.leading.id_space

    @property
    def identity(self) -> Mapping[str, str]:
        """Request of the first column; clocks and selection are common to all."""
        return self.leading.identity


@dataclass(frozen=True, eq=False)
class ColumnFacts(FactsByColumn[PublicMetadata]):
    """Public facts of each value column, and the numbers of their units.

    Attributes
    ----------
    columns : mapping of str to PublicMetadata
        By the column's name, in the order in which the columns were named.
    units : mapping of str to ndarray of int64, shape (n_users of the column,)
        Number of each of a column's units among those of all columns.
    n_units : int
        Units with a usable value in some column.
    """

    columns: Mapping[str, PublicMetadata]
    units: Mapping[str, Ints]
    n_units: int


@dataclass(frozen=True, eq=False)
class DeclaredColumns(FactsByColumn[DeclaredFacts]):
    """Declared facts of each value column under private presence; no record decided them.

    Attributes
    ----------
    columns : mapping of str to DeclaredFacts
        By the column's name, in the order in which the columns were named.
    """

    columns: Mapping[str, DeclaredFacts]

    @property
    def units(self) -> Mapping[str, Ints]:
        """Number of each column's one entry of losses, that of any unit, in the release."""
        return dict.fromkeys(self.columns, np.zeros(1, dtype=np.int64))

    @property
    def n_units(self) -> int:
        """Entries of losses: one, of any unit, present or not."""
        return 1
