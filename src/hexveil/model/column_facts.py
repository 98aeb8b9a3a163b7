"""Public facts of several value columns of the same records.

Each column has its own: whether a record carries a usable value of a column is public, so that
units, counts and cells of one column may differ from those of another. Units of all columns are
numbered together, since what one unit loses in all columns adds up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from hexveil.model.public_metadata import PublicMetadata, Unit


@dataclass(frozen=True, eq=False)
class ColumnFacts:
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
    units: Mapping[str, NDArray[np.int64]]
    n_units: int

    @property
    def leading(self) -> PublicMetadata:
        """Facts of the first column, for all that columns have in common."""
        return next(iter(self.columns.values()))

    @property
    def privacy_unit(self) -> Unit:
        """Privacy unit of all columns."""
        return self.leading.privacy_unit

    @property
    def identity(self) -> Mapping[str, str]:
        """Public request of the first column; clocks and selection are common to all."""
        return self.leading.identity
