"""Blocks of (cell, user) pairs: all pairs of some cells, or of some users. Public."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Arrays = Sequence[NDArray[Any]]

WholeGroup = Literal["cells", "users"]


@dataclass(frozen=True, eq=False)
class CellSlice:
    """All pairs of some cells in a row, which count from 0. Public.

    Attributes
    ----------
    cell, user, n : ndarray of int64, shape (n_pairs,)
        Cell number, user number and record count of each pair, cell by cell.
    n_cells, n_users : int
        Numbers go from 0 up to these, and so do figures per cell and per user.
    start : ndarray of int64, shape (n_cells + 1,)
        Position of each cell's first pair, then the number of pairs.
    has_whole_cells : bool
        Whether all pairs of each cell are here, in a row.
    """

    cell: NDArray[np.int64]
    user: NDArray[np.int64]
    n: NDArray[np.int64]
    n_cells: int
    n_users: int
    start: NDArray[np.int64]
    has_whole_cells: ClassVar[bool] = True

    def spread(self, per_cell: NDArray[Any]) -> NDArray[Any]:
        """Return for each pair the entry of its cell."""
        return np.repeat(per_cell, self._sizes)

    @cached_property
    def _sizes(self) -> NDArray[np.int64]:
        return np.diff(self.start)


@dataclass(frozen=True, eq=False)
class Partition:
    """All pairs of some cells in a row, or of some users in a row. Public.

    Attributes
    ----------
    whole : "cells" or "users"
        What the block holds all pairs of.
    first : int
        Number of the first of them; in `cell` or `user` they count from there.
    cell, user, n : ndarray of int64, shape (n_pairs,)
        Sorted by what is whole, then by the other.
    n_cells, n_users : int
        Numbers go up to these: how many are whole, and how many others there are anywhere.
    """

    whole: WholeGroup
    first: int
    cell: NDArray[np.int64]
    user: NDArray[np.int64]
    n: NDArray[np.int64]
    n_cells: int
    n_users: int

    @cached_property
    def start(self) -> NDArray[np.int64]:
        """Position of each whole cell's first pair, then the number of pairs."""
        return np.searchsorted(self.cell, np.arange(self.n_cells + 1)).astype(np.int64)

    @property
    def has_whole_cells(self) -> bool:
        """Whether all pairs of each cell are here, in a row."""
        return self.whole == "cells"

    def spread(self, per_cell: NDArray[Any]) -> NDArray[Any]:
        """Return for each pair the entry of its cell."""
        return per_cell[self.cell]

    def map(
        self,
        work: Callable[..., Any],
        cells: Arrays,
        users: Arrays,
        pairs: Arrays = (),
    ) -> tuple[NDArray[Any], ...]:
        """Apply the function to this block, given the arrays of all cells and users."""
        if self.whole == "cells":
            # Figures of all cells and users come in; of the whole ones this block has a run.
            cells = [array[self.first : self.first + self.n_cells] for array in cells]
        else:
            users = [array[self.first : self.first + self.n_users] for array in users]
        result = work(self, *cells, *users, *pairs)
        return result if isinstance(result, tuple) else (result,)
