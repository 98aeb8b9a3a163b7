"""PRIVATE. Sums of distributed pairs: mapped over where they are, never fetched."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from numpy.typing import NDArray

from hexveil.base.errors import HexveilError, InputError
from hexveil.model.distributed_occupancy import DistributedOccupancy, concatenate_columns
from hexveil.model.pair_blocks import WholeGroup
from hexveil.model.public_metadata import PublicMetadata
from hexveil.records.dataset import Sums

if TYPE_CHECKING:
    from hexveil.model.occupancy import Arrays, Occupancy, PairColumns


class SumsPartitionStore(Protocol):
    """Store of partitions with their sums, and with counts by bin where records are counted so."""

    def map_sums(
        self, work: Callable[..., Any], cells: Arrays, users: Arrays
    ) -> Iterable[tuple[NDArray[Any], ...]]:
        """Map a function over all partitions with their sums, in the order of their cells."""

    def map_bins(
        self, whole: WholeGroup, work: Callable[..., Any], cells: Arrays, users: Arrays
    ) -> Iterable[tuple[NDArray[Any], ...]]:
        """Map a function over all partitions of a kind with their counts by bin, in order.

        Those of partitions of whole users are over all cells: `PairBins.pair` is a user there.
        """

    def close(self) -> None:
        """Release the partitions."""


class DistributedSums(Sums):
    """PRIVATE. Sums of distributed partitions; see `hexveil.model.distributed_occupancy`.

    The creator of the partitions has checked each by `hexveil.records.dataset.check_sums`.

    Parameters
    ----------
    store : SumsPartitionStore
    squares : bool
        Whether sums of squares are kept.
    binned : bool
        Whether records are counted by fine bin.
    """

    def __init__(self, store: SumsPartitionStore, *, squares: bool, binned: bool = False) -> None:
        # Past the frozen base class, whose arrays are on no single machine here.
        object.__setattr__(self, "_store", store)
        object.__setattr__(self, "_squares", squares)
        object.__setattr__(self, "_binned", binned)

    def __getattr__(self, name: str) -> NoReturn:
        if name == "total":
            _refuse()
        raise AttributeError(name)

    @property
    def total_sq(self) -> NoReturn:
        """Refuse: the sums are not on this machine."""
        _refuse()

    def __repr__(self) -> str:
        squares = ", with squares" if self.squared else ""
        return f"DistributedSums(blocks{squares}, private)"

    @property
    def squared(self) -> bool:
        """Whether sums of squares are kept."""
        return bool(vars(self)["_squares"])

    def map_cells(
        self, occupancy: Occupancy, work: Callable[..., Any], *arrays: PairColumns
    ) -> Any:  # noqa: ANN401  the result of the work
        """Map a function over the pairs and their sums, cell by cell: see `Dataset.map_cells`."""
        cells, users, pairs = arrays
        if isinstance(occupancy, DistributedOccupancy):
            work = occupancy.with_columns(work, pairs)
        return concatenate_columns(vars(self)["_store"].map_sums(work, cells, users))

    @property
    def binned(self) -> bool:
        """Whether records are counted by fine bin."""
        return bool(vars(self)["_binned"])

    def map_bins(
        self, whole: WholeGroup, work: Callable[..., Any], cells: Arrays = (), users: Arrays = ()
    ) -> Any:  # noqa: ANN401  the result of the work
        """Map a function over pairs and their counts by bin: see `SumsPartitionStore.map_bins`."""
        return concatenate_columns(vars(self)["_store"].map_bins(whole, work, cells, users))

    def close(self) -> None:
        """Release the partitions."""
        vars(self)["_store"].close()

    def check(self, facts: PublicMetadata) -> None:
        """Raise HexveilError unless the occupancy is distributed too."""
        if facts.occupancy.is_local:
            raise HexveilError("sums and occupancy do not belong together.")
        if self.binned != (facts.bins is not None):
            raise HexveilError("counts by bin and public bins do not belong together.")


def _refuse() -> NoReturn:
    raise InputError(
        "this needs the sums of all pairs in one machine's memory: use a plan of another kind, or "
        "raise memory (in Spark spark.hexveil.pairsOnDriver) where there is room."
    )
