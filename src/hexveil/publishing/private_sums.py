"""Sums of a data set as the stages of a release measure them. PRIVATE."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hexveil.base.errors import HexveilError
from hexveil.mechanisms.contract import PrivateSums
from hexveil.mechanisms.distribution.binned_stage import BinnedBlockSums, BinnedSums
from hexveil.records.dataset import DistributedSums

if TYPE_CHECKING:
    from collections.abc import Callable

    from hexveil.base.arrays import Ints
    from hexveil.model.occupancy import Arrays, Occupancy, PairColumns
    from hexveil.records.dataset import Dataset


class DistributedPairSums(PrivateSums):
    """Sums of pairs that stay elsewhere: measured in their blocks, never fetched."""

    __slots__ = ("_store",)

    def __init__(self, store: DistributedSums) -> None:
        self._store = store

    def map_cells(
        self,
        occupancy: Occupancy,
        work: Callable[..., Ints],
        cells: Arrays = (),
        users: Arrays = (),
        pairs: PairColumns = (),
    ) -> Ints:
        """Apply a function to all pairs: see `PrivateSums.map_cells`. PRIVATE."""
        integers: Ints = self._store.map_cells(occupancy, work, cells, users, pairs)
        return integers[None]

    def __repr__(self) -> str:
        return "DistributedPairSums(blocks)"


def private_sums(dataset: Dataset) -> PrivateSums:
    """Return the sums of a data set, a batch of one. PRIVATE."""
    sums = dataset.sums
    # The one place where a release asks where its sums are.
    if isinstance(sums, DistributedSums):
        return DistributedPairSums(sums)
    return PrivateSums(sums.total, sums.total_sq)


def binned_sums(dataset: Dataset) -> BinnedSums:
    """Return the sums of a data set with its counts by bin, a batch of one. PRIVATE.

    Raises
    ------
    HexveilError
        If its records were not counted by bin.
    """
    sums = dataset.sums
    if isinstance(sums, DistributedSums) and sums.binned:
        return BinnedBlockSums(sums)
    if isinstance(sums, DistributedSums) or sums.bins is None:
        raise HexveilError("these records were not counted by bin.")
    return BinnedSums(sums.total, sums.total_sq, sums.bins)
