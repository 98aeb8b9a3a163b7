"""Sums of pairs' figures: over each cell's users, or over each user's cells.

Where pairs stay elsewhere, of shares or of their squares, block by block.

Searches ask for thousands of them. Of many pairs they are products with a sparse matrix; of few, a
product's checks take longer than its sums, and loading `scipy.sparse` longer than a search. Both
ways add the same products in the same order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from hexveil.accounting import contributions

if TYPE_CHECKING:
    from hexveil.base.arrays import Floats
    from hexveil.model.occupancy import LocalOccupancy, Occupancy


FEW_PAIRS = 2**13
"""So many pairs and fewer are added up without a matrix."""


class PairFigureSums:
    """Sums of one figure per pair, times a figure per user or per cell.

    Parameters
    ----------
    occupancy : LocalOccupancy
    figure : ndarray of float, shape (n_pairs,)

    Attributes
    ----------
    figure : ndarray of float, shape (n_pairs,)
        May be changed in place between sums.
    """

    def __init__(self, occupancy: LocalOccupancy, figure: Floats) -> None:
        self.figure = figure
        self._size = occupancy.n_cells, occupancy.n_users
        self._few = occupancy.n_pairs <= FEW_PAIRS
        if self._few:
            self._user = occupancy.user.astype(np.intp)
            self._cell = occupancy.cell.astype(np.intp)
            return
        import scipy.sparse  # noqa: PLC0415  slow to import

        # Indices of 32 bits take half of the memory that scipy would give to int64 ones.
        columns, first = occupancy.user.astype(np.int32), occupancy.start.astype(np.int32)
        self._matrix = scipy.sparse.csr_array((figure, columns, first), shape=self._size)
        self.figure = self._matrix.data
        # Transposed once: each sum would make a matrix of its own.
        self._transposed = self._matrix.T

    def per_cell(self, per_user: Floats) -> Floats:
        """Return per cell the sum over its users of the pairs' figure times one of the user."""
        if not self._few:
            return np.asarray(self._matrix @ per_user)
        sums = np.bincount(self._cell, self.figure * per_user[self._user], self._size[0])
        return np.asarray(sums, dtype=np.float64)

    def per_user(self, per_cell: Floats) -> Floats:
        """Return per user the sum over its cells of the pairs' figure times one of the cell."""
        if not self._few:
            return np.asarray(self._transposed @ per_cell)
        sums = np.bincount(self._user, self.figure * per_cell[self._cell], self._size[1])
        return np.asarray(sums, dtype=np.float64)


class FigureSums(Protocol):
    """Sums of a figure of each pair, wherever pairs are."""

    def per_cell(self, per_user: Floats) -> Floats:
        """Return per cell the sum over its users of the figure times one of the user."""

    def per_user(self, per_cell: Floats) -> Floats:
        """Return per user the sum over its cells of the figure times one of the cell."""


@dataclass(frozen=True, eq=False)
class MappedShareSums:
    """Sums of pairs' shares of their cells' records, or of squared shares, in blocks.

    Attributes
    ----------
    occupancy : Occupancy
    squared : bool
    """

    occupancy: Occupancy
    squared: bool = False

    def per_cell(self, per_user: Floats) -> Floats:
        """Return per cell the sum over its users: see `FigureSums`."""
        work = contributions.sum_squares_per_cell if self.squared else contributions.sum_per_cell
        cells = (self.occupancy.records_per_cell,)
        return np.asarray(self.occupancy.map_cells(work, cells, (per_user,)))

    def per_user(self, per_cell: Floats) -> Floats:
        """Return per user the sum over its cells: see `FigureSums`."""
        work = contributions.sum_squares_per_user if self.squared else contributions.sum_per_user
        cells = self.occupancy.records_per_cell, per_cell
        return np.asarray(self.occupancy.map_users(work, cells))


def share_sums(occupancy: Occupancy) -> tuple[FigureSums, FigureSums]:
    """Return sums of pairs' shares of their cells' records, and of squared shares."""
    if not occupancy.is_local:
        return MappedShareSums(occupancy), MappedShareSums(occupancy, squared=True)
    local = occupancy.local()
    share = local.n / local.records_per_cell[local.cell]
    return PairFigureSums(local, share), PairFigureSums(local, share**2)
