"""Users of most cells, and the facts CLIP-USER needs of all others, where pairs are distributed.

The stage of degree d treats users of at least d cells, from the largest d down, and the run halts
at the first user who can be suppressed nowhere. So users of fewer cells than the last stage are
never suppressed, and all that a cell's error takes of them is their records, as a part of the
cell's, and the largest count. That count changes only where a cell's largest user is suppressed:
the two largest counts of the others in each cell are enough, since the error without a user takes
the largest count of those left. Both are pairs of two invented users, who occupy no cell and are
never treated.

Users are fetched by their number of cells, more of them if the run goes beyond those fetched.
"""

from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np

from hexveil.base.arrays import Bools, Ints
from hexveil.base.errors import InputError
from hexveil.model.occupancy import LocalOccupancy, Occupancy, Pairs
from hexveil.model.pair_columns import SuppressedPairs

FETCHED_PAIRS = 2**18
"""Pairs of users of most cells that are fetched first, about."""
MOST_PAIRS = 2**23
"""No more of them are fetched: a run takes some 200 bytes for each."""
GROWTH = 4
"""How many times as many are fetched if the run goes beyond them."""


@dataclass(frozen=True, eq=False)
class HeavyUserCounts:
    """Pairs of the users of at least `degree` cells, and of each cell the two largest others.

    Attributes
    ----------
    degree : int
    number : ndarray of int64, shape (n_heavy,)
        Numbers of these users in the occupancy, ascending; here they count from 0.
    cell, user, n : ndarray of int64
        Sorted by cell, then user; the two invented users come last and have no cells.
    n_cells, n_users : int
    start, records_per_cell, cells_per_user : ndarray of int64
        As those of an occupancy.
    """

    degree: int
    number: Ints
    cell: Ints
    user: Ints
    n: Ints
    n_cells: int
    n_users: int
    start: Ints
    records_per_cell: Ints
    cells_per_user: Ints


SuppressionCounts: TypeAlias = "LocalOccupancy | HeavyUserCounts"
"""Counts that a run needs: of all pairs at hand, or of heavy users of distributed pairs."""


class SuppressionSource:
    """Counts for runs of CLIP-USER, fetched once for several runs where pairs are distributed.

    Parameters
    ----------
    occupancy : Occupancy
    """

    def __init__(self, occupancy: Occupancy) -> None:
        self.occupancy = occupancy
        self._fetched: HeavyUserCounts | None = None

    def first(self) -> tuple[SuppressionCounts, int]:
        """Return counts to begin with, and the fewest cells of a user that are among them."""
        if self.occupancy.is_local:
            return self.occupancy.local(), 1
        if self._fetched is None:
            largest = int(self.occupancy.cells_per_user.max())
            self._fetched = _fetch(self.occupancy, self._degree_within(FETCHED_PAIRS, largest))
        return self._fetched, self._fetched.degree

    def more(self) -> tuple[SuppressionCounts, int]:
        """Return the counts of more users: see `first`.

        Raises
        ------
        InputError
            If they are too many.
        """
        assert self._fetched is not None  # noqa: S101  see first
        fetched = self._fetched
        room = GROWTH * max(int(fetched.cells_per_user.sum()), FETCHED_PAIRS)
        degree = self._degree_within(min(room, MOST_PAIRS), fetched.degree - 1)
        self._fetched = _fetch(self.occupancy, degree)
        return self._fetched, self._fetched.degree

    def suppressed(self, rows: Ints) -> SuppressedPairs:
        """Return which pairs are suppressed, from rows of the counts returned last."""
        heavy = self._fetched
        if heavy is None:
            local = self.occupancy.local()
            return SuppressedPairs.of_rows(self.occupancy, local.cell[rows], local.user[rows])
        return SuppressedPairs.of_rows(
            self.occupancy, heavy.cell[rows], heavy.number[heavy.user[rows]]
        )

    def _degree_within(self, room: int, needed: int) -> int:
        """Return the fewest cells of users who have about `room` pairs; at most `needed`."""
        cells = self.occupancy.cells_per_user
        # Pairs of all users of at least so many cells.
        pairs = np.cumsum((np.bincount(cells) * np.arange(cells.max() + 1))[::-1])[::-1]
        if pairs[needed] > MOST_PAIRS:
            raise InputError(
                f'method "clip-user" may suppress all users of {needed} cells or more, and they '
                f"have {int(pairs[needed]):,} pairs with cells; at most {MOST_PAIRS:,} are "
                'fetched where pairs stay elsewhere. Use method "joint", the default.'
            )
        return min(int(np.argmax(pairs <= room)) if pairs[-1] <= room else needed, needed)


def _fetch(occupancy: Occupancy, degree: int) -> HeavyUserCounts:
    """Return the pairs of users of at least `degree` cells, and the largest other counts."""
    degree = max(degree, 1)
    heavy = occupancy.cells_per_user >= degree
    number = np.flatnonzero(heavy)
    cell, user, n = occupancy.map_users(partial(_fetch_heavy, heavy=heavy))
    others = occupancy.map_cells(partial(_two_largest, counted=~heavy))
    cells, users, counts = [cell], [np.searchsorted(number, user)], [n]
    for rank, count in enumerate(others):
        filled = np.flatnonzero(count)
        cells.append(filled)
        users.append(np.full(filled.size, number.size + rank))
        counts.append(count[filled])
    cell, user, n = (np.concatenate(column).astype(np.int64) for column in (cells, users, counts))
    order = np.lexsort((user, cell))
    return HeavyUserCounts(
        degree=degree,
        number=number,
        cell=cell[order],
        user=user[order],
        n=n[order],
        n_cells=occupancy.n_cells,
        n_users=number.size + len(others),
        start=np.searchsorted(cell[order], np.arange(occupancy.n_cells + 1)).astype(np.int64),
        records_per_cell=occupancy.records_per_cell,
        cells_per_user=np.append(occupancy.cells_per_user[number], [0] * len(others)),
    )


def _fetch_heavy(pairs: Pairs, *, heavy: Bools) -> tuple[Ints, Ints, Ints]:
    rows = np.flatnonzero(heavy[pairs.user])
    return pairs.cell[rows], pairs.user[rows], pairs.n[rows]


def _two_largest(pairs: Pairs, *, counted: Bools) -> tuple[Ints, Ints]:
    """Return the two largest counts of these users in each cell; 0 where there are fewer."""
    n = np.where(counted[pairs.user], pairs.n, 0)
    ordered = n[np.lexsort((-n, pairs.cell))]
    first, end = pairs.start[:-1], pairs.start[1:]
    second = np.where(end - first > 1, ordered[np.minimum(first + 1, n.size - 1)], 0)
    return ordered[first], second
