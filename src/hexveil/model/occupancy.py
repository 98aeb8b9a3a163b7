"""Who reported how often where: the public side of every data set.

The occupancy is public by the promise (neighbours: same users, same counts, other values), so
everything computed from it costs no privacy. Cells and users are numbers; names live elsewhere.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, ClassVar, Literal, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hexveil.base.arrays import Ints
from hexveil.base.errors import InputError
from hexveil.base.read_only import ReadOnlyArrays, read_only

T = TypeVar("T")
WholeGroup = Literal["cells", "users"]
BLOCK_PAIRS = 2**17
"""Pairs of which cells are asked at once: what is made of so many stays in a processor's cache."""


class Pairs:
    """Some (cell, user) pairs: all those of a run of cells, or of a run of users. Public.

    Cells and users have their numbers in the whole map. What a block returns has an entry for each
    of its own.

    Attributes
    ----------
    cell, user, n : ndarray of int64, shape (n_pairs,)
        Sorted by what is whole, then by the other.
    first : int
        Number of the first whole cell or user.
    n_cells, n_users : int
        How many are whole, and how many others there are anywhere.
    has_whole_cells : bool
        Whether all pairs of each cell are here, in a row.
    begin : int
        Position of the first pair among those in memory.
    """

    cell: Ints
    user: Ints
    n: Ints
    n_cells: int
    n_users: int
    has_whole_cells: bool
    first: int
    begin: int

    @property
    def rows(self) -> slice:
        """Which pairs these are of those in memory."""
        return slice(self.begin, self.begin + self.n.size)

    @cached_property
    def start(self) -> Ints:
        """Position of each whole cell's first pair, then the number of pairs."""
        edges = np.arange(self.first, self.first + self.n_cells + 1)
        return np.asarray(read_only(np.searchsorted(self.cell, edges).astype(np.int64)))

    def kth_largest(self, k: int) -> Ints:
        """Return each whole cell's k-th largest count; 0 where it has fewer than k users."""
        result = np.zeros(self.n_cells, dtype=np.int64)
        enough = np.diff(self.start) >= k
        result[enough] = self._descending[self.start[:-1][enough] + k - 1]
        return result

    @cached_property
    def _descending(self) -> Ints:
        """Counts sorted within each cell, largest first."""
        return self.n[np.lexsort((-self.n, self.cell))]

    def own(self, per_cell: NDArray[Any]) -> NDArray[Any]:
        """Return the entries of this block's whole cells, of an array of all cells."""
        return per_cell[self.first : self.first + self.n_cells]

    def own_users(self, per_user: NDArray[Any]) -> NDArray[Any]:
        """Return the entries of this block's users, of an array of all users."""
        return per_user if self.has_whole_cells else per_user[self.first :][: self.n_users]

    @property
    def own_user(self) -> Ints:
        """Position of each pair's user among the whole users of this block."""
        return self.user if self.has_whole_cells else self.user - self.first

    def spread(self, per_cell: NDArray[Any]) -> NDArray[Any]:
        """Return for each pair the entry of its cell, of an array of all cells."""
        # Cells in a row are repeated, which takes half the time of looking each up.
        return self.repeat(self.own(per_cell)) if self.has_whole_cells else per_cell[self.cell]

    def repeat(self, of_own: NDArray[Any]) -> NDArray[Any]:
        """Return for each pair the entry of its cell, of an array of this block's whole cells."""
        return np.repeat(of_own, np.diff(self.start))

    def sum_users(self, whole: Ints) -> Ints:
        """Return each user's sum of a whole number of its pairs: exact, in any order."""
        sums = np.zeros(self.n_users, dtype=np.int64)
        np.add.at(sums, self.own_user, whole)
        return sums

    def parts(self, room: int) -> "Iterator[Partition]":
        """Yield runs of so many pairs, with parts of cells and of users."""
        for begin in range(0, max(self.n.size, 1), room):
            run, at = slice(begin, begin + room), self.begin + begin
            cell, user, n = self.cell[run], self.user[run], self.n[run]
            yield Partition("users", 0, cell, user, n, self.n_cells, self.n_users, at)


@dataclass(frozen=True, eq=False)
class Partition(Pairs):
    """Block: all pairs of some cells in a row, or of some users in a row; see `Pairs`."""

    whole: WholeGroup
    first: int
    cell: Ints
    user: Ints
    n: Ints
    n_cells: int
    n_users: int
    begin: int = 0

    @property
    def has_whole_cells(self) -> bool:  # type: ignore[override]  # follows from `whole`
        """Whether all pairs of each cell are here, in a row."""
        return self.whole == "cells"


class PairColumn(Protocol):
    """A number per pair, made where the pair is, and small enough to be sent to all."""

    def of(self, pairs: Pairs) -> NDArray[Any]:
        """Return the entries of a block's pairs."""


class Occupancy:
    """Counts of records per (cell, user) pair, in memory (`LocalOccupancy`) or elsewhere. Public.

    Attributes
    ----------
    n_cells, n_users, n_pairs : int
        Every cell and every user has at least one pair.
    is_local : bool
        Whether the pairs are in this process, so that all of them can be read: see `local`.
    """

    n_cells: int
    n_users: int
    n_pairs: int
    is_local: ClassVar[bool]

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the pairs: public, and the same wherever the same records were counted."""
        raise NotImplementedError

    def local(self) -> "LocalOccupancy":
        """Return the pairs in this process; raise InputError if they are spread over machines."""
        raise NotImplementedError

    def each(self, whole: WholeGroup, work: Callable[[Pairs], T]) -> Iterable[T]:
        """Return the answers of blocks of whole cells, or of whole users, one after another.

        Parameters
        ----------
        whole : "cells" or "users"
        work : callable
            From `Pairs` to an array with an entry per cell (or user), or a tuple of them, each
            from its own pairs alone.
        """
        raise NotImplementedError

    def map(self, whole: WholeGroup, work: Callable[[Pairs], T]) -> T:
        """Return the answers of all blocks, put together: see `each`."""
        return join_blocks(self.each(whole, work))

    def map_cells(self, work: Callable[[Pairs], T]) -> T:
        """Apply a function to the pairs of each cell; see `map`."""
        return self.map("cells", work)

    def map_users(self, work: Callable[[Pairs], T]) -> T:
        """Apply a function to the pairs of each user; see `map`."""
        return self.map("users", work)

    @property
    def n_records(self) -> int:
        """Number of records."""
        return int(self.records_per_cell.sum())

    @property
    def users_per_cell(self) -> Ints:
        """Users in each cell (L); shape (n_cells,)."""
        return self._counts[0]

    @property
    def records_per_cell(self) -> Ints:
        """Records in each cell (N); shape (n_cells,)."""
        return self._counts[1]

    @property
    def largest_count(self) -> Ints:
        """Largest count of a user in each cell; shape (n_cells,)."""
        return self._counts[2]

    @property
    def cells_per_user(self) -> Ints:
        """Cells in which each user reported; shape (n_users,)."""
        return self._user_counts[0]

    @property
    def records_per_user(self) -> Ints:
        """Records of each user; shape (n_users,)."""
        return self._user_counts[1]

    # Fixed: they are kept, and losses rest on them.
    @cached_property
    def _counts(self) -> tuple[Ints, ...]:
        return tuple(map(read_only, self.map_cells(_counted)))

    @cached_property
    def _user_counts(self) -> tuple[Ints, ...]:
        return tuple(map(read_only, self.map_users(_counted_users)))

    def kth_largest(self, k: int) -> Ints:
        """Return each cell's k-th largest count of a user; 0 where it has fewer than k users."""
        return self.map_cells(partial(Pairs.kth_largest, k=k))

    def __repr__(self) -> str:
        name = type(self).__name__.removeprefix("Local")
        return f"{name}(n_cells={self.n_cells}, n_users={self.n_users}, n_pairs={self.n_pairs})"


@dataclass(frozen=True, eq=False, repr=False)
class LocalOccupancy(ReadOnlyArrays, Pairs, Occupancy):
    """Counts of records per (cell, user) pair, sorted by cell, then user.

    Attributes
    ----------
    cell, user, n : ndarray of int64, shape (n_pairs,)
        Cell number, user number and record count (at least 1) of each pair. Public.
    n_cells, n_users : int

    Raises
    ------
    InputError
        If pairs are unsorted or repeated, a count is below 1, or a cell or user is empty.
    """

    cell: Ints
    user: Ints
    n: Ints
    n_cells: int
    n_users: int
    has_whole_cells = True
    first = begin = 0
    is_local: ClassVar[bool] = True

    def __post_init__(self) -> None:
        cell, user, n = _columns(self.cell, self.user, self.n)
        if cell.size and (cell.min() < 0 or user.min() < 0):
            raise InputError("cell and user numbers must be 0 or above.")
        if not sorted_by_cell(cell, user):
            raise InputError("pairs must be sorted by cell, then user, and each must occur once.")
        _check_filled(cell, self.n_cells, "cell")
        _check_filled(user, self.n_users, "user")
        for name, array in (("cell", cell), ("user", user), ("n", n)):
            array.setflags(write=False)
            # Checked copies, fixed: losses that are booked are computed from them more than once.
            object.__setattr__(self, name, array)

    @classmethod
    def from_dense(cls, counts: ArrayLike) -> Self:
        """Build from a table of counts, users down and cells across, 0 where a user never was.

        Examples
        --------
        >>> LocalOccupancy.from_dense([[3, 0], [1, 2]])
        Occupancy(n_cells=2, n_users=2, n_pairs=3)
        """
        dense = _integers(counts, "counts")
        if dense.ndim != 2:
            raise InputError("counts must be a table, users down and cells across.")
        if dense.size and dense.min() < 0:
            raise InputError(f"counts must be 0 or above, got {dense.min()}.")
        cell, user = np.nonzero(dense.T)
        return cls(cell, user, dense.T[cell, user], dense.shape[1], dense.shape[0])

    @classmethod
    def from_coo(cls, cell: ArrayLike, user: ArrayLike, n: ArrayLike) -> Self:
        """Build from three equally long arrays in any order; equal pairs are added up."""
        cells, users, counts = _columns(cell, user, n)
        # lexsort takes its last key first.
        order = np.lexsort((users, cells))
        cells, users, counts = cells[order], users[order], counts[order]
        begin = np.flatnonzero(
            (np.diff(cells, prepend=cells[:1] - 1) != 0) | (np.diff(users, prepend=users[:1]) != 0)
        )
        total = np.add.reduceat(counts, begin)
        n_cells, n_users = (int(a.max()) + 1 if a.size else 0 for a in (cells, users))
        return cls(cells[begin], users[begin], total, n_cells, n_users)

    @property
    def n_pairs(self) -> int:  # type: ignore[override]  # a field of distributed pairs
        """Number of (cell, user) pairs."""
        return int(self.cell.size)

    def local(self) -> Self:
        """Return the pairs themselves."""
        return self

    def each(self, whole: WholeGroup, work: Callable[[Pairs], T]) -> Iterable[T]:
        """Return the answers of blocks: see `Occupancy.each`."""
        # One block: slices would cost more than the work of a small map.
        if whole == "users" or self.n_pairs <= BLOCK_PAIRS:
            return [work(self)]
        return (work(block) for block in self.blocks(BLOCK_PAIRS))

    def blocks(self, room: int) -> Iterator[Partition]:
        """Yield runs of cells of about so many pairs."""
        # A cell of more pairs than that is the edge of several blocks: named once, it stays whole.
        edges = np.searchsorted(self.start, np.arange(0, self.n_pairs, room)).tolist()
        for begin, end in pairwise(dict.fromkeys([*edges, self.n_cells])):
            at, after = self.start[[begin, end]].tolist()
            cell, user, n = self.cell[at:after], self.user[at:after], self.n[at:after]
            yield Partition("cells", begin, cell, user, n, end - begin, self.n_users, at)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the pairs: public, and the same wherever the same records were counted."""
        digest = hashlib.sha256(f"{self.n_cells},{self.n_users};".encode())
        for array in (self.cell, self.user, self.n):
            # In one byte order on every machine: a saved plan is known by this.
            digest.update(np.ascontiguousarray(array, dtype="<i8").data)
        return digest.hexdigest()


def sorted_by_cell(cell: NDArray[Any], user: NDArray[Any]) -> bool:
    """Return whether pairs are sorted by cell, then by user, and each occurs once."""
    rises, stays = cell[1:] > cell[:-1], cell[1:] == cell[:-1]
    return bool((rises | (stays & (user[1:] > user[:-1]))).all())


def join_blocks(answers: Iterable[T]) -> T:
    """Return the answers of blocks as one array, or as a tuple of them."""
    rows: list[Any] = [one if isinstance(one, tuple) else (one,) for one in answers]
    columns: Any = rows[0]
    if rows[1:]:
        columns = tuple(map(np.concatenate, zip(*rows, strict=True)))
    return columns[0] if len(columns) == 1 else columns  # type: ignore[no-any-return]


def _counted(pairs: Pairs) -> tuple[Ints, ...]:
    """Return users, records and the largest count of each cell."""
    begin = pairs.start[:-1]
    counts = np.add.reduceat(pairs.n, begin), np.maximum.reduceat(pairs.n, begin)
    return np.diff(pairs.start), *counts


def _counted_users(pairs: Pairs) -> tuple[Ints, ...]:
    """Return cells and records of each user."""
    # Exact in doubles: no user has 2^53 records.
    records = np.bincount(pairs.own_user, weights=pairs.n, minlength=pairs.n_users)
    return np.bincount(pairs.own_user, minlength=pairs.n_users), records.astype(np.int64)


def _columns(cell: ArrayLike, user: ArrayLike, n: ArrayLike) -> tuple[Ints, Ints, Ints]:
    """Return cells, users and counts as fresh arrays; refuse others."""
    cells, users, counts = _integers(cell, "cell"), _integers(user, "user"), _integers(n, "n")
    if not cells.shape == users.shape == counts.shape or cells.ndim != 1:
        raise InputError("cell, user and n must be one-dimensional and equally long.")
    if counts.size and counts.min() < 1:
        raise InputError(f"counts must be 1 or above, got {counts.min()}.")
    return cells, users, counts


def _integers(values: ArrayLike, name: str) -> Ints:
    """Return a fresh int64 array; refuse anything that is not whole."""
    array = np.asarray(values)
    if array.size and array.dtype.kind not in "iu":
        raise InputError(f"{name} must hold whole numbers, got {array.dtype}.")
    return np.array(array, dtype=np.int64)


def _check_filled(numbers: Ints, size: int, name: str) -> None:
    present = np.zeros(max(size, 0), dtype=bool)
    if numbers.size and numbers.max() >= size:
        raise InputError(f"{name} number {numbers.max()} is beyond the {size} declared.")
    present[numbers] = True
    if not present.all():
        raise InputError(f"{name} {int(np.argmin(present))} has no records; leave it out.")
