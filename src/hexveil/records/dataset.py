"""A data set: public metadata, and private sums that no repr shows; sums that stay elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from hexveil.base.errors import HexveilError, InputError
from hexveil.model.occupancy import BLOCK_PAIRS, Occupancy, Pairs, T, WholeGroup, join_blocks
from hexveil.model.pair_bins import PairBins, PairSums
from hexveil.model.public_metadata import PublicMetadata, ValueLattice
from hexveil.records.feasible_sums import squares_fit, squares_range
from hexveil.records.units import Units

_MISMATCH = "sums and occupancy do not belong together."
_BINS_MISMATCH = "counts by bin and public bins do not belong together."


@dataclass(frozen=True, eq=False, repr=False)
class Sums:
    """PRIVATE. Sums of each (cell, user) pair's values, and of their squares.

    In quanta above the lower bound: whole numbers k from 0 to steps, one per record.

    Attributes
    ----------
    total : ndarray of int64, shape (n_pairs,)
        Sum of the k, from 0 to n * steps, in the order of the occupancy.
    total_sq : ndarray of int64, shape (n_pairs,), or None
        Sum of the squares of the same k; None where it was not given, or could overflow.
    bins : PairBins or None
        Records by fine bin; None unless statistics of distributions were asked for.
    """

    total: NDArray[np.int64]
    total_sq: NDArray[np.int64] | None = None
    bins: PairBins | None = None

    def __repr__(self) -> str:
        squares = "" if self.total_sq is None else ", with squares"
        return f"Sums(n_pairs={self.total.size}{squares}, private)"

    def __reduce__(self) -> tuple[object, ...]:
        raise HexveilError("private sums are not pickled; read the records where they are used.")

    @property
    def squares(self) -> bool:
        """Whether sums of squares are kept."""
        return self.total_sq is not None

    def map_cells(self, occupancy: Occupancy, work: Callable[[Pairs, PairSums], T]) -> T:
        """Map a function over the pairs and their sums, cell by cell. PRIVATE."""
        sums = PairSums(self.total, self.total_sq)
        return occupancy.map_cells(lambda pairs: work(pairs, sums.of(pairs)))

    def check(self, facts: PublicMetadata) -> None:
        """Raise HexveilError unless these are feasible sums of this occupancy."""
        n = facts.occupancy.local().n
        if self.total.shape != n.shape or self.total.dtype != np.int64:
            raise HexveilError(_MISMATCH)
        check_sums(n, self.total, self.total_sq, facts.lattice)
        if (self.bins is None) != (facts.bins is None):
            raise HexveilError(_BINS_MISMATCH)
        if self.bins is not None and facts.bins is not None:
            self.bins.check(n, facts.bins.n_bins)


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Records aggregated into sums. A plan sees `public` alone.

    Attributes
    ----------
    public : PublicMetadata
    sums : Sums or DistributedSums
        Private.
    units : Units or None
        Private. Without them nothing can be booked, nor released.
    """

    public: PublicMetadata
    sums: Sums | DistributedSums
    units: Units | None = None

    def __post_init__(self) -> None:
        self.sums.check(self.public)
        # A loss booked to the wrong unit is a loss that its own unit never pays.
        if self.units is not None and len(self.units.users) != self.public.occupancy.n_users:
            raise HexveilError("ids and occupancy do not belong together.")

    @property
    def has_squares(self) -> bool:
        """Whether sums of squares are kept, which variances need.

        Public: it depends on counts, bounds, quantum, and the columns of a table of sums.
        """
        return self.sums.squares

    @property
    def occupancy(self) -> Occupancy:
        """Number of records per cell and user. Public."""
        return self.public.occupancy

    def __repr__(self) -> str:
        facts = self.public
        return (
            f"Dataset({facts.value!r}, privacy_unit={facts.privacy_unit!r}, "
            f"n_cells={facts.occupancy.n_cells}, "
            f"n_users={facts.occupancy.n_users}, n_pairs={facts.occupancy.n_pairs})"
        )


def check_sums(
    n: NDArray[np.int64],
    total: NDArray[np.int64],
    squares: NDArray[np.int64] | None,
    scale: ValueLattice,
) -> None:
    """Raise HexveilError unless n values within the bounds can have these sums (and squares)."""
    if squares is not None and (squares.shape != n.shape or squares.dtype != np.int64):
        raise HexveilError("sums of squares and occupancy do not belong together.")
    # Before the ranges are computed, which would overflow for the same reason.
    if squares is not None and not squares_fit(int(n.max(initial=0)), scale):
        raise HexveilError("sums of squares of so many records could overflow.")
    # In blocks, so that what is compared stays in a processor's cache.
    for start in range(0, n.size, BLOCK_PAIRS):
        rows = slice(start, start + BLOCK_PAIRS)
        # The proof of every sensitivity needs this: an infeasible sum would move a mean by more.
        if ((total[rows] < 0) | (total[rows] > n[rows] * scale.span_quanta)).any():
            raise HexveilError("sums are outside the bounds of their counts.")
        if squares is None:
            continue
        # What whole numbers from 0 to steps allow. It implies 0 <= squares, total^2 <= n * squares
        # and squares <= steps * total, and does not overflow where n * steps^2 does not.
        smallest, largest = squares_range(n[rows], total[rows], scale.span_quanta)
        if ((squares[rows] < smallest) | (squares[rows] > largest)).any():
            raise HexveilError("sums of squares are outside the bounds of their counts and sums.")


class SumsPartitionStore(Protocol):
    """Store of partitions with their sums, and with counts by bin where records are counted so."""

    def map_sums(self, work: Callable[[Pairs, PairSums], T]) -> Iterable[T]:
        """Map a function over all partitions with their sums, in the order of their cells."""

    def map_bins(self, whole: WholeGroup, work: Callable[[Pairs, PairBins], T]) -> Iterable[T]:
        """Map a function over all partitions of a kind with their counts by bin, in order.

        Those of partitions of whole users are over all cells: `PairBins.pair` is a user there.
        """


@dataclass(frozen=True, eq=False, repr=False)
class DistributedSums:
    """PRIVATE. Sums of distributed partitions; see `hexveil.model.distributed_occupancy`.

    The creator of the partitions has checked each by `hexveil.records.dataset.check_sums`.

    Attributes
    ----------
    store : SumsPartitionStore
    squares : bool
        Whether sums of squares are kept.
    binned : bool
        Whether records are counted by fine bin.
    """

    store: SumsPartitionStore
    squares: bool
    binned: bool = False

    @property
    def total(self) -> NoReturn:
        """Refuse: the sums are not in this machine's memory."""
        raise InputError(
            "this needs the sums of all pairs in one machine's memory: use a plan of another kind, "
            "or raise memory where there is room."
        )

    total_sq = bins = total

    def __repr__(self) -> str:
        squares = ", with squares" if self.squares else ""
        return f"DistributedSums(blocks{squares}, private)"

    def map_cells(self, _: Occupancy, work: Callable[[Pairs, PairSums], T]) -> T:
        """Map a function over the pairs and their sums, cell by cell. PRIVATE."""
        return join_blocks(self.store.map_sums(work))

    def map_bins(self, whole: WholeGroup, work: Callable[[Pairs, PairBins], T]) -> T:
        """Map a function over pairs and their counts by bin: see `SumsPartitionStore.map_bins`."""
        return join_blocks(self.store.map_bins(whole, work))

    def check(self, facts: PublicMetadata) -> None:
        """Raise HexveilError unless the occupancy is distributed too."""
        if facts.occupancy.is_local:
            raise HexveilError(_MISMATCH)
        if self.binned != (facts.bins is not None):
            raise HexveilError(_BINS_MISMATCH)
