"""Who reported how often where: the public side of every data set.

The occupancy is public by the promise (neighbours: same users, same counts, other values), so
everything computed from it costs no privacy. Cells and users are numbers; names live elsewhere.
(It has nothing to do with passenger load.)
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np

from hexveil.base.errors import InputError
from hexveil.base.read_only import ReadOnlyArrays, read_only
from hexveil.model.pair_blocks import CellSlice

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import ArrayLike, NDArray

    from hexveil.model.pair_blocks import Partition

    Arrays = Sequence[NDArray[Any]]
    PairColumns = Sequence[Any]  # arrays, or of distributed pairs `PairColumn`

BLOCK_PAIRS = 2**17
"""Pairs of which cells are asked at once: what is made of so many stays in a processor's cache."""


Pairs: TypeAlias = "LocalOccupancy | CellSlice | Partition"
"""Some (cell, user) pairs: all those of the cells, or of the users, that are asked about."""


class Occupancy:
    """Counts of records per (cell, user) pair, wherever the pairs are. Public.

    Planning asks for figures per cell and per user, and maps functions over the pairs, so that
    these may be in memory (`LocalOccupancy`, by the public name `hexveil.Occupancy`) or spread over
    machines (`hexveil.model.distributed_occupancy.DistributedOccupancy`).

    Attributes
    ----------
    n_cells, n_users : int
        Every cell and every user has at least one pair.
    is_local : bool
        Whether the pairs are in this process, so that all of them can be read: see `local`.
    """

    n_cells: int
    n_users: int
    is_local: ClassVar[bool]

    if TYPE_CHECKING:  # a field of one, computed by the other

        @property
        def n_pairs(self) -> int:
            """Number of (cell, user) pairs."""

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the pairs: public, and the same wherever the same records were counted."""
        raise NotImplementedError

    def local(self) -> LocalOccupancy:
        """Return the pairs in this process.

        Raises
        ------
        InputError
            If they are spread over machines.
        """
        raise NotImplementedError

    def map_cells(
        self,
        work: Callable[..., Any],
        cells: Arrays = (),
        users: Arrays = (),
        pairs: PairColumns = (),
    ) -> Any:  # noqa: ANN401  what the work returns
        """Apply a function to the pairs of each cell.

        Parameters
        ----------
        work : callable
            From `Pairs` and the arrays, in this order, to an array with an entry per cell, or a
            tuple of them. A function of a module, whose answer for a cell depends on that cell's
            pairs alone.
        cells, users : sequence of ndarray
            Arrays with an entry per cell, and per user.
        pairs : sequence of ndarray
            Arrays with an entry per pair, of a caller that holds the pairs in memory; of
            distributed pairs columns that each block computes (`PairColumn`).
        """
        raise NotImplementedError

    def map_users(
        self,
        work: Callable[..., Any],
        cells: Arrays = (),
        users: Arrays = (),
        pairs: PairColumns = (),
    ) -> Any:  # noqa: ANN401  what the work returns
        """Apply a function to the pairs of each user; see `map_cells`."""
        raise NotImplementedError

    @property
    def n_records(self) -> int:
        """Number of records."""
        return int(self.records_per_cell.sum())

    @property
    def users_per_cell(self) -> NDArray[np.int64]:
        """Users in each cell (L); shape (n_cells,)."""
        return self._counts[0]

    @property
    def records_per_cell(self) -> NDArray[np.int64]:
        """Records in each cell (N); shape (n_cells,)."""
        return self._counts[1]

    @property
    def largest_count(self) -> NDArray[np.int64]:
        """Largest count of a user in each cell; shape (n_cells,)."""
        return self._counts[2]

    @property
    def cells_per_user(self) -> NDArray[np.int64]:
        """Cells in which each user reported; shape (n_users,)."""
        return self._user_counts[0]

    @property
    def records_per_user(self) -> NDArray[np.int64]:
        """Records of each user; shape (n_users,)."""
        return self._user_counts[1]

    @cached_property
    def _counts(self) -> tuple[NDArray[np.int64], ...]:
        # Fixed: they are kept, and losses rest on them.
        return tuple(map(read_only, self.map_cells(_counted)))

    @cached_property
    def _user_counts(self) -> tuple[NDArray[np.int64], ...]:
        return tuple(map(read_only, self.map_users(_counted_users)))

    def kth_largest(self, k: int) -> NDArray[np.int64]:
        """Return each cell's k-th largest count of a user; 0 where it has fewer than k users."""
        return np.asarray(self.map_cells(partial(_kth_largest, k=k)))


@dataclass(frozen=True, eq=False)
class LocalOccupancy(ReadOnlyArrays, Occupancy):
    """Counts of records per (cell, user) pair, sorted by cell, then user.

    Attributes
    ----------
    cell, user, n : ndarray of int64, shape (n_pairs,)
        Cell number, user number and record count (at least 1) of each pair. Public.
    n_cells, n_users : int
        Every cell and every user has at least one pair.

    Raises
    ------
    InputError
        If pairs are unsorted or repeated, a count is below 1, or a cell or user is empty.
    """

    cell: NDArray[np.int64]
    user: NDArray[np.int64]
    n: NDArray[np.int64]
    n_cells: int
    n_users: int
    has_whole_cells: ClassVar[bool] = True
    is_local: ClassVar[bool] = True

    def __post_init__(self) -> None:
        cell, user, n = (_integers(a, name) for a, name in self._named_arrays())
        if not cell.shape == user.shape == n.shape or cell.ndim != 1:
            raise InputError("cell, user and n must be one-dimensional and equally long.")
        if cell.size and (cell.min() < 0 or user.min() < 0):
            raise InputError("cell and user numbers must be 0 or above.")
        if n.size and n.min() < 1:
            raise InputError(f"counts must be 1 or above, got {n.min()}.")
        if not sorted_by_cell(cell, user):
            raise InputError("pairs must be sorted by cell, then user, and each must occur once.")
        _check_filled(cell, self.n_cells, "cell")
        _check_filled(user, self.n_users, "user")
        for name, array in (("cell", cell), ("user", user), ("n", n)):
            array.setflags(write=False)
            # Checked copies, fixed: losses that are booked are computed from them more than once.
            object.__setattr__(self, name, array)

    def _named_arrays(self) -> list[tuple[NDArray[np.int64], str]]:
        return [(self.cell, "cell"), (self.user, "user"), (self.n, "n")]

    def __repr__(self) -> str:
        return f"Occupancy(n_cells={self.n_cells}, n_users={self.n_users}, n_pairs={self.n_pairs})"

    @classmethod
    def from_dense(cls, counts: ArrayLike) -> LocalOccupancy:
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
    def from_coo(cls, cell: ArrayLike, user: ArrayLike, n: ArrayLike) -> LocalOccupancy:
        """Build from three equally long arrays in any order; equal pairs are added up."""
        cells, users, counts = (
            _integers(a, name) for a, name in ((cell, "cell"), (user, "user"), (n, "n"))
        )
        if not cells.shape == users.shape == counts.shape or cells.ndim != 1:
            raise InputError("cell, user and n must be one-dimensional and equally long.")
        if counts.size and counts.min() < 1:
            raise InputError(f"counts must be 1 or above, got {counts.min()}.")
        # lexsort takes its last key first.
        order = np.lexsort((users, cells))
        cells, users, counts = cells[order], users[order], counts[order]
        new = np.ones(cells.size, dtype=bool)
        new[1:] = (np.diff(cells) != 0) | (np.diff(users) != 0)
        begin = np.flatnonzero(new)
        total = np.add.reduceat(counts, begin) if cells.size else counts
        n_cells, n_users = (int(a.max()) + 1 if a.size else 0 for a in (cells, users))
        return cls(cells[begin], users[begin], total, n_cells, n_users)

    @property
    def n_pairs(self) -> int:
        """Number of (cell, user) pairs."""
        return int(self.cell.size)

    def local(self) -> LocalOccupancy:
        """Return the pairs themselves."""
        return self

    def map_cells(
        self,
        work: Callable[..., Any],
        cells: Arrays = (),
        users: Arrays = (),
        pairs: PairColumns = (),
    ) -> Any:  # noqa: ANN401  what the work returns
        """Apply a function to the pairs of each cell: see `Occupancy.map_cells`."""
        # One block: slices would cost more than the work of a small map.
        if self.n_pairs <= BLOCK_PAIRS:
            return work(self, *cells, *users, *pairs)
        return _joined(
            work(
                some,
                *(array[run] for array in cells),
                *users,
                *(array[self.start[run.start] : self.start[run.stop]] for array in pairs),
            )
            for run, some in self._runs()
        )

    def _runs(self) -> Iterator[tuple[slice, CellSlice]]:
        """Yield runs of cells with about `BLOCK_PAIRS` pairs, and their pairs."""
        # A cell of more pairs than a block has is the edge of several blocks: named once, it stays
        # whole.
        edges = np.searchsorted(self.start, np.arange(0, self.n_pairs, BLOCK_PAIRS)).tolist()
        for begin, end in pairwise(dict.fromkeys([*edges, self.n_cells])):
            start = self.start[begin : end + 1]
            rows = slice(start[0], start[-1])
            yield (
                slice(begin, end),
                CellSlice(
                    self.cell[rows] - begin,
                    self.user[rows],
                    self.n[rows],
                    end - begin,
                    self.n_users,
                    start - start[0],
                ),
            )

    def map_users(
        self,
        work: Callable[..., Any],
        cells: Arrays = (),
        users: Arrays = (),
        pairs: PairColumns = (),
    ) -> Any:  # noqa: ANN401  what the work returns
        """Apply a function to the pairs of each user; see `map_cells`."""
        return work(self, *cells, *users, *pairs)

    def spread(self, per_cell: NDArray[Any]) -> NDArray[Any]:
        """Return for each pair the entry of its cell."""
        return np.repeat(per_cell, self._sizes)

    @cached_property
    def start(self) -> NDArray[np.int64]:
        """Position of each cell's first pair, then the number of pairs; shape (n_cells + 1,)."""
        start = np.searchsorted(self.cell, np.arange(self.n_cells + 1)).astype(np.int64)
        return np.asarray(read_only(start))

    @cached_property
    def _sizes(self) -> NDArray[np.int64]:
        return np.diff(self.start)

    @cached_property
    def _descending(self) -> NDArray[np.int64]:
        """Counts sorted within each cell, largest first."""
        return self.n[np.lexsort((-self.n, self.cell))]

    def kth_largest(self, k: int) -> NDArray[np.int64]:
        """Return each cell's k-th largest count of a user; 0 where it has fewer than k users."""
        largest = np.zeros(self.n_cells, dtype=np.int64)
        enough = self.users_per_cell >= k
        largest[enough] = self._descending[self.start[:-1][enough] + k - 1]
        return largest

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the pairs: public, and the same wherever the same records were counted."""
        digest = hashlib.sha256(f"{self.n_cells},{self.n_users};".encode())
        for array, _ in self._named_arrays():
            # In one byte order on every machine: a saved plan is known by this.
            digest.update(np.ascontiguousarray(array, dtype="<i8").data)
        return digest.hexdigest()


def sorted_by_cell(cell: NDArray[Any], user: NDArray[Any]) -> bool:
    """Return whether pairs are sorted by cell, then by user, and each occurs once."""
    # In blocks, so that what is compared stays in a processor's cache.
    for start in range(0, cell.size - 1, BLOCK_PAIRS):
        head, tail = slice(start, start + BLOCK_PAIRS), slice(start + 1, start + 1 + BLOCK_PAIRS)
        cells, others = cell[tail], cell[head][: cell[tail].size]
        users, preceding = user[tail], user[head][: user[tail].size]
        if not ((cells > others) | ((cells == others) & (users > preceding))).all():
            return False
    return True


def _joined(answers: Iterable[Any]) -> Any:  # noqa: ANN401  what the work returns
    """Return the answers of runs of cells as one array, or as a tuple of them."""
    results = list(answers)
    if isinstance(results[0], tuple):
        return tuple(np.concatenate(column) for column in zip(*results, strict=True))
    return np.concatenate(results)


def _counted(pairs: Pairs) -> tuple[NDArray[np.int64], ...]:
    """Return users, records and the largest count of each cell."""
    begin = pairs.start[:-1]
    if not begin.size:
        return (begin, begin, begin)
    counts = np.add.reduceat(pairs.n, begin), np.maximum.reduceat(pairs.n, begin)
    return np.diff(pairs.start), *counts


def _counted_users(pairs: Pairs) -> tuple[NDArray[np.int64], ...]:
    """Return cells and records of each user."""
    # Exact in doubles: no user has 2^53 records.
    records = np.bincount(pairs.user, weights=pairs.n, minlength=pairs.n_users)
    return np.bincount(pairs.user, minlength=pairs.n_users), records.astype(np.int64)


def _kth_largest(pairs: Pairs, k: int) -> NDArray[np.int64]:
    # By cell, then by falling count: the k-th stands k - 1 after the cell's first.
    order = np.lexsort((-pairs.n, pairs.cell))
    result = np.zeros(pairs.n_cells, dtype=np.int64)
    enough = np.diff(pairs.start) >= k
    result[enough] = pairs.n[order[pairs.start[:-1][enough] + k - 1]]
    return result


def _integers(values: ArrayLike, name: str) -> NDArray[np.int64]:
    """Return a fresh int64 array; refuse anything that is not whole."""
    array = np.asarray(values)
    if array.size and array.dtype.kind not in "iu":
        raise InputError(f"{name} must hold whole numbers, got {array.dtype}.")
    return np.array(array, dtype=np.int64)


def _check_filled(numbers: NDArray[np.int64], size: int, name: str) -> None:
    present = np.zeros(max(size, 0), dtype=bool)
    if numbers.size and numbers.max() >= size:
        raise InputError(f"{name} number {numbers.max()} is beyond the {size} declared.")
    present[numbers] = True
    if not present.all():
        raise InputError(f"{name} {int(np.argmin(present))} has no records; leave it out.")
