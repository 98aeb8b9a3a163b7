"""Suppressed pairs of a distributed occupancy: a list, of which each block computes its own column.

At hand an array of truth values says which pairs are suppressed. One as large as the pairs fits no
driver; the suppressed ones are few, since only users of most cells are suppressed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hexveil.base.errors import InputError
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.model.distributed_occupancy import Partition

if TYPE_CHECKING:
    from hexveil.model.occupancy import LocalOccupancy, Occupancy, Pairs


@dataclass(frozen=True, eq=False)
class SuppressedPairs(ReadOnlyArrays):
    """Cell and user of each suppressed pair, sorted by cell, then user. Public.

    Attributes
    ----------
    cell, user : ndarray of int64, shape (n_suppressed,)
    n_cells, n_users : int
        Of the occupancy.

    Raises
    ------
    InputError
        If a number is out of range, or pairs are unsorted or repeated.
    """

    cell: NDArray[np.int64]
    user: NDArray[np.int64]
    n_cells: int
    n_users: int

    def __post_init__(self) -> None:
        super().__post_init__()
        cell, user = self.cell, self.user
        are_columns = cell.ndim == 1 and cell.shape == user.shape
        if not are_columns or cell.dtype != np.int64 or user.dtype != np.int64:
            raise InputError("suppressed pairs need a cell and a user each, as whole numbers.")
        inside = (cell >= 0) & (cell < self.n_cells) & (user >= 0) & (user < self.n_users)
        if not inside.all() or not (np.diff(self._keys(cell, user)) > 0).all():
            raise InputError("suppressed pairs must be sorted by cell, then user, each once.")

    @classmethod
    def of_rows(
        cls, occupancy: Occupancy, cell: NDArray[np.int64], user: NDArray[np.int64]
    ) -> SuppressedPairs:
        """Return the pairs in the order of an occupancy, from any order."""
        order = np.lexsort((user, cell))
        return cls(cell[order], user[order], occupancy.n_cells, occupancy.n_users)

    def of(self, pairs: Pairs) -> NDArray[np.bool_]:
        """Return which of a block's pairs, or of all pairs at hand, are suppressed."""
        cell, user = pairs.cell, pairs.user
        if isinstance(pairs, Partition):  # what is whole is numbered from the block's first
            cell = cell + pairs.first if pairs.whole == "cells" else cell
            user = user + pairs.first if pairs.whole == "users" else user
        if not self.cell.size:
            return np.zeros(cell.size, dtype=np.bool_)
        own, keys = self._keys(self.cell, self.user), self._keys(cell, user)
        place = np.minimum(np.searchsorted(own, keys), own.size - 1)
        return np.asarray(own[place] == keys)

    def _keys(self, cell: NDArray[np.int64], user: NDArray[np.int64]) -> NDArray[np.int64]:
        return cell * np.int64(self.n_users) + user


Suppressed: TypeAlias = NDArray[np.bool_] | SuppressedPairs
"""Which pairs are suppressed: an array where pairs are at hand, else the list of them."""


def suppressed_column(suppressed: Suppressed, occupancy: LocalOccupancy) -> NDArray[np.bool_]:
    """Return which of the pairs at hand are suppressed."""
    return suppressed.of(occupancy) if isinstance(suppressed, SuppressedPairs) else suppressed


def no_pairs(occupancy: Occupancy) -> Suppressed:
    """Return that no pair is suppressed."""
    if occupancy.is_local:
        return np.zeros(occupancy.n_pairs, dtype=np.bool_)
    nothing = np.zeros(0, dtype=np.int64)
    return SuppressedPairs(nothing, nothing, occupancy.n_cells, occupancy.n_users)
