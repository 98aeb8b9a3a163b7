"""A data set with its pairs in Spark, in blocks; cells and users are on the driver.

Blocks are kept in Spark's memory and on executors' disks, or checkpointed where the session has a
folder for that. A block that is lost with its executor is made again from the records; should these
have changed meanwhile, its digest differs from the first, and what was asked is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  as everybody calls it
from pyspark.storagelevel import StorageLevel

from hexveil.base.errors import StorageError
from hexveil.model.cells import CellTable
from hexveil.model.distributed_occupancy import DistributedOccupancy, partition_numbers
from hexveil.model.occupancy import Occupancy, Pairs, T, WholeGroup
from hexveil.model.pair_bins import PairBins, PairSums
from hexveil.model.public_metadata import PublicMetadata, ValueLattice
from hexveil.records.dataset import Dataset, DistributedSums
from hexveil.records.duckdb.reading import public_metadata
from hexveil.records.read_request import ReadRequest
from hexveil.records.spark import blocks
from hexveil.records.spark.session import (
    checkpoint,
    collect,
    from_arrow,
    map_batches,
    sent_to_tasks,
    stored,
    translate_errors,
)
from hexveil.records.units import Units

BLOCK_PAIRS = 2**19
"""Pairs of a block: some ten megabytes; Java holds the few blocks of a task at once."""
_CHANGED = (
    "the records changed while they were in use: a part of them was lost and, read again, is "
    "another; read all of them again."
)


@dataclass(frozen=True, eq=False, repr=False)
class CountedRecords:
    """PRIVATE. Counts and sums of all pairs in the used cells.

    Attributes
    ----------
    tally : DataFrame
        Counts and sums of all cells, kept by Spark until `close` or `store`.
    pairs : DataFrame
        A row per pair, in no order, made of these: `cell` INT and `unit` INT from 0, `n` BIGINT,
        `total` BIGINT, and `total_sq` BIGINT where sums of squares fit; with fine bins also
        `bins`, lists of whole numbers (`hexveil.records.feasible_sums`). The same records give the
        same rows, whatever their partitions.
    pairs_per_cell : ndarray of int64, shape (n_cells,)
    cells : CellTable
        The used cells, numbered as in `pairs`.
    units : Units
        Those of no used cell too; numbered as in `pairs`.
    counts : mapping of str to int
        How many records each rule left out; without what depends on `pairs`.
    everything : int
        Cells before selection.
    squares : bool
        Whether `pairs` has sums of squares.
    request : ReadRequest
    label : str
        The source as the caller wrote it.
    """

    tally: DataFrame
    pairs: DataFrame
    pairs_per_cell: NDArray[np.int64]
    cells: CellTable
    units: Units
    counts: Mapping[str, int]
    everything: int
    squares: bool
    request: ReadRequest
    label: str

    def __repr__(self) -> str:
        return f"CountedRecords(n_cells={len(self.cells)}, n_pairs={self.n_pairs}, private)"

    @property
    def n_pairs(self) -> int:
        """Pairs in the used cells."""
        return int(self.pairs_per_cell.sum())

    def metadata(self, occupancy: Occupancy) -> PublicMetadata:
        """Return the public metadata of the reading, given its occupancy."""
        return public_metadata(
            self.label, self.request, occupancy, self.cells, self.counts, self.everything
        )

    def store(self) -> DataFrame:
        """Return the pairs, kept by Spark in place of the counts of all cells."""
        try:
            pairs = checkpoint(self.pairs).persist(StorageLevel.MEMORY_AND_DISK)
            translate_errors(pairs.count)
        finally:
            self.close()
        return pairs

    def close(self) -> None:
        """Let Spark forget the counts."""
        self.tally.unpersist()


def distribute(counted: CountedRecords) -> Dataset:
    """Return the data set of counted records without fetching its pairs.

    Parameters
    ----------
    counted : CountedRecords
        Cells, units and rule counts are on the driver, the pairs in Spark.
    """
    rules = counted.request.rules
    n_bins = 0 if rules.bins is None else rules.bins.n_bins
    packing = _Packing(BLOCK_PAIRS // (blocks.ROOM_OF_BINS if n_bins else 1), rules.scale, n_bins)
    kept = counted.store()
    try:
        per_unit = collect(kept.groupBy("unit").agg(F.count(F.lit(1)).alias("pairs")))
        per_unit = per_unit.sort_by("unit")
        used = per_unit["unit"].to_numpy().astype(np.int64)
        n_cells, n_users = len(counted.cells), used.size
        pairs = _by_user_number(kept, used)
        store = BlockStore(
            {
                "cells": _blocks(pairs, "cells", counted.pairs_per_cell, packing),
                "users": _blocks(pairs, "users", per_unit["pairs"].to_numpy(), packing),
            },
            {"cells": n_users, "users": n_cells},
        )
    finally:
        # Once both kinds of blocks are made the pairs need not be kept beside them.
        kept.unpersist()
    occupancy = DistributedOccupancy(store, n_cells, n_users, counted.n_pairs)
    # Both kinds of blocks are asked now, while they are of one reading: later answers are compared
    # with these, so that losses, asked of users, are those of the sums, asked of cells.
    if occupancy.records_per_user.sum() != occupancy.n_records:
        raise StorageError(_CHANGED)
    private = DistributedSums(store, squares=counted.squares, binned=n_bins > 0)
    return Dataset(counted.metadata(occupancy), private, counted.units.take(used))


class BlockStore:
    """PRIVATE. Blocks of pairs in Spark, mapped over there (model/distributed_occupancy.py).

    Parameters
    ----------
    tables : mapping of "cells" and "users" to DataFrame
        Kept rows of `blocks.PACKED`.
    others : mapping of "cells" and "users" to int
        Users in all, for blocks of cells; cells in all, for blocks of users.
    """

    def __init__(self, tables: dict[WholeGroup, DataFrame], others: dict[WholeGroup, int]) -> None:
        self._tables, self._others = tables, others
        self._digests: dict[WholeGroup, dict[int, bytes]] = {}

    def __repr__(self) -> str:
        return "BlockStore(private)"

    def map(self, whole: WholeGroup, work: Callable[[Pairs], T]) -> Iterator[T]:
        """Return the answers of all blocks of a kind; see `DistributedOccupancy`."""
        return self._answers(whole, work, "nothing")

    def map_sums(self, work: Callable[[Pairs, PairSums], T]) -> Iterator[T]:
        """Return the answers of blocks of cells with their sums: `SumsPartitionStore`. PRIVATE."""
        return self._answers("cells", work, "sums")

    def map_bins(self, whole: WholeGroup, work: Callable[[Pairs, PairBins], T]) -> Iterator[T]:
        """Return the answers of blocks with their counts by bin: `SumsPartitionStore`. PRIVATE."""
        return self._answers(whole, work, "bins")

    def _answers(
        self, whole: WholeGroup, work: Callable[..., T], beside: blocks.Beside
    ) -> Iterator[T]:
        table = self._tables[whole]
        with sent_to_tasks(table, work) as load_query:
            task = blocks.map_task(whole, self._others[whole], load_query, beside)
            rows = collect(map_batches(table, task, blocks.MAPPED)).sort_by("block")
        numbers = rows["block"].to_pylist()
        self._check(whole, dict(zip(numbers, rows["digest"].to_pylist(), strict=True)))
        found: Iterator[Any] = (
            tuple(blocks.from_bytes(mapped)) for mapped in rows["found"].to_pylist()
        )
        return found

    def _check(self, whole: WholeGroup, digests: dict[int, bytes]) -> None:
        """Refuse blocks that changed since they were first mapped over."""
        if self._digests.setdefault(whole, digests) != digests:
            raise StorageError(_CHANGED)

    def close(self) -> None:
        """Let Spark forget the blocks."""
        for table in self._tables.values():
            table.unpersist()


def _by_user_number(pairs: DataFrame, used: NDArray[np.int64]) -> DataFrame:
    """Return the pairs with units replaced by users, numbered among those of selected cells."""
    if used.size == used[-1] + 1:  # all units are in selected cells
        return pairs.withColumn("user", F.col("unit").cast("bigint")).drop("unit")
    numbers = pa.table({"unit": used.astype(np.int32), "user": np.arange(used.size)})
    numbered = from_arrow(pairs.sparkSession, numbers)
    return pairs.join(numbered, "unit").drop("unit")


@dataclass(frozen=True)
class _Packing:
    """How pairs are packed."""

    room: int
    scale: ValueLattice
    n_bins: int


def _blocks(
    pairs: DataFrame, whole: WholeGroup, size: NDArray[np.int64], packing: _Packing
) -> DataFrame:
    """Return the packed blocks, stored by Spark."""
    key = "cell" if whole == "cells" else "user"
    block = partition_numbers(size, max(packing.room, 1))
    kind = np.int32 if whole == "cells" else np.int64  # as the pairs have it
    table_columns = {key: np.arange(size.size).astype(kind), "block": block.astype(np.int32)}
    numbers = from_arrow(pairs.sparkSession, pa.table(table_columns))
    columns = ["block", "cell", "user", "n"]
    # Sums are asked of cells alone.
    sums = ("total", "total_sq") if whole == "cells" else ()
    columns += [name for name in sums if name in pairs.columns]
    columns += [blocks.BINS] * (packing.n_bins > 0)
    rows = pairs.join(numbers, key).select(*columns).repartition(int(block[-1]) + 1, "block")
    # Sorted on disk if need be, and streamed: Java never has all pairs of a block.
    packed = map_batches(
        rows.sortWithinPartitions("block"),
        blocks.pack_task(whole, packing.scale, packing.n_bins),
        blocks.PACKED,
    )
    return stored(packed)
