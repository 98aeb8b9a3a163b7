"""PRIVATE. Pairs that Spark keeps, in blocks of whole cells or of whole users.

A block is bytes of Arrow's stream format, cut into pieces of some thousand pairs: Java copies each
value of a row several times, and must find room for it in one piece of its heap. So what Java holds
at once is bounded by pieces and by the blocks of one task, not by the number of pairs. Nothing of a
block is in an error.

Blocks are kept in Spark's memory and on executors' disks, or checkpointed where the session has a
folder for that. A block that is lost with its executor is made again from the records; should these
have changed meanwhile, its digest differs from the first, and what was asked is refused.

How many rows, blocks and bytes there are, Spark shows to whoever may see its own pages.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  as everybody calls it

from hexveil.base.arrays import Ints
from hexveil.base.arrow_tables import to_numpy
from hexveil.base.errors import StorageError
from hexveil.model.distributed_occupancy import DistributedOccupancy, partition_numbers
from hexveil.model.occupancy import Pairs, Partition, T, WholeGroup
from hexveil.model.pair_bins import PairBins, PairSums
from hexveil.model.public_metadata import ValueLattice
from hexveil.records.dataset import DistributedSums, check_sums
from hexveil.records.feasible_sums import bins_of_lists
from hexveil.records.spark.session import (
    collect,
    from_arrow,
    map_batches,
    sent_to_tasks,
    stored,
    to_stream,
)
from hexveil.records.spark.tasks import BINS, Batches, catch_errors, runs, unpack_streams

BLOCK_PAIRS = 2**19
"""Pairs of a block: some ten megabytes; Java holds the few blocks of a task at once."""
ROOM_OF_BINS = 8
"""How many fewer pairs are held in one piece with their counts by bin."""
_PIECE_PAIRS = 2**12
"""Pairs of a piece: less than what Java's collector takes for humongous in a heap of 1 GB."""
_PACKED = pa.schema([("block", pa.int32()), ("data", pa.binary())])
"""A piece of a block; those of one block follow each other in a part of the frame. PRIVATE."""
_ANSWERS = pa.schema([("block", pa.int32()), ("digest", pa.binary()), ("answer", pa.binary())])
_CHANGED = (
    "the records changed while they were in use: a part of them was lost and, read again, is "
    "another; read all of them again."
)
Finish = Callable[[pa.Table], pa.Table]


def distribute(
    pairs: DataFrame, per_cell: Ints, scale: ValueLattice, *, squares: bool, n_bins: int
) -> tuple[DistributedOccupancy, DistributedSums, Ints]:
    """Return pairs in blocks that Spark keeps, their sums, and the units that its users are.

    Parameters
    ----------
    pairs : DataFrame
        Kept by Spark while the blocks are made: see `hexveil.records.spark.counting`.
    per_cell : ndarray of int64, shape (n_cells,)
        Pairs of each cell.
    scale : ValueLattice
    squares : bool
        Whether there are sums of squares.
    n_bins : int
        Fine bins that records are counted by; 0 without.
    """
    per_unit = collect(pairs.groupBy("unit").agg(F.count(F.lit(1)).alias("n"))).sort_by("unit")
    used = _numbers(per_unit, "unit")
    # Units without a selected cell have a number too, and no pair: users are numbered without them.
    users = pa.table({"unit": per_unit["unit"], "user": np.arange(used.size, dtype=np.int32)})
    pairs = pairs.join(from_arrow(pairs.sparkSession, users), "unit").drop("unit")
    room = BLOCK_PAIRS // (ROOM_OF_BINS if n_bins else 1)
    finish = partial(_checked, scale, n_bins)
    tables = {
        "cells": _of_whole(pairs, ["cell", "user"], per_cell, room, finish),
        # Sums are asked of cells alone.
        "users": _of_whole(
            pairs.drop("total", "total_sq"),
            ["user", "cell"],
            _numbers(per_unit, "n"),
            room,
            finish,
        ),
    }
    store = BlockStore(tables, {"cells": used.size, "users": per_cell.size})
    occupancy = DistributedOccupancy(store, per_cell.size, used.size, int(per_cell.sum()))
    # Both kinds of blocks are asked now, while they are of one reading: later answers are compared
    # with these, so that losses, asked of users, are those of the sums, asked of cells.
    if occupancy.records_per_user.sum() != occupancy.n_records:
        raise StorageError(_CHANGED)
    return occupancy, DistributedSums(store, squares=squares, binned=n_bins > 0), used


def _of_whole(
    pairs: DataFrame, keys: list[str], sizes: Ints, room: int, finish: Finish
) -> DataFrame:
    """Return the blocks of whole cells, or of whole users: by the first of the keys."""
    block = partition_numbers(sizes, max(room, 1)).astype(np.int32)
    numbers = pa.table({keys[0]: np.arange(sizes.size, dtype=np.int32), "block": block})
    rows = pairs.join(from_arrow(pairs.sparkSession, numbers), keys[0])
    rows = rows.repartition(int(block[-1]) + 1, "block")
    # Sorted on disk if need be, and streamed: Java never has all pairs of a block.
    return _pack(rows.sortWithinPartitions("block"), keys, finish)


def _pack(rows: DataFrame, keys: Sequence[str], finish: Finish) -> DataFrame:
    """Return rows, which are sorted by their block, as blocks sorted by keys; kept by Spark."""

    def packed(batches: Batches) -> Batches:
        for number, of_block in runs(batches, "block"):
            # Spark keeps no order; a block that is lost and made again must have the same bytes.
            table = pa.Table.from_batches(of_block)
            table = finish(table.sort_by([(key, "ascending") for key in keys]))
            for piece in table.combine_chunks().to_batches(max_chunksize=_PIECE_PAIRS):
                yield pa.record_batch([[number], [to_stream(piece)]], schema=_PACKED)

    return stored(map_batches(rows, partial(catch_errors, packed, _PACKED), _PACKED))


def _checked(scale: ValueLattice, n_bins: int, table: pa.Table) -> pa.Table:
    """Return pairs with feasible sums and counts by bin; refuse others. PRIVATE."""
    n = _numbers(table, "n")
    # Here, where all sums pass once: they never come together on one machine.
    if "total" in table.column_names:
        sums = _sums(table)
        check_sums(n, sums.total, sums.squares, scale)
    if n_bins:
        bins_of_lists(table[BINS]).check(n, n_bins)
    return table.drop_columns("block")


def _unpack(batches: Batches) -> Iterator[tuple[int, bytes, pa.Table]]:
    """Yield the number, digest and pairs of each block. PRIVATE."""
    for number, pieces in runs(batches, "block"):
        digest, rows = hashlib.blake2b(digest_size=16), list(pieces)
        for batch in rows:
            for data in batch["data"]:
                # Of all columns, whichever are asked: each answer must come from one reading.
                digest.update(data.as_buffer())
        yield number, digest.digest(), pa.Table.from_batches(unpack_streams(iter(rows)))


def _numbers(table: pa.Table, name: str) -> Ints:
    return to_numpy(table[name]).astype(np.int64)


def _sums(table: pa.Table) -> PairSums:
    names = [name for name in ("total", "total_sq") if name in table.column_names]
    return PairSums(*(_numbers(table, name) for name in names))


def _partition(whole: WholeGroup, others: int, table: pa.Table) -> Partition:
    cell, user, n = (_numbers(table, name) for name in ("cell", "user", "n"))
    numbers = cell if whole == "cells" else user
    first, size = int(numbers[0]), int(numbers[-1] - numbers[0]) + 1
    n_cells, n_users = (size, others) if whole == "cells" else (others, size)
    return Partition(whole, first, cell, user, n, n_cells, n_users)


def _of_counts(work: Callable[..., T], whole: WholeGroup, others: int, table: pa.Table) -> T:
    return work(_partition(whole, others, table))


def _of_sums(work: Callable[..., T], whole: WholeGroup, others: int, table: pa.Table) -> T:
    return work(_partition(whole, others, table), _sums(table))


def _of_bins(work: Callable[..., T], whole: WholeGroup, others: int, table: pa.Table) -> T:
    pairs, bins = _partition(whole, others, table), bins_of_lists(table[BINS])
    if whole == "users":
        bins = PairBins.of_rows(pairs.own_user[bins.pair], bins.bin, bins.count)
    return work(pairs, bins)


class BlockStore:
    """PRIVATE. Blocks of pairs in Spark, mapped over there (model/distributed_occupancy.py).

    Parameters
    ----------
    tables : mapping of "cells" and "users" to DataFrame
        Packed blocks, kept by Spark.
    others : mapping of "cells" and "users" to int
        Users in all, for blocks of cells; cells in all, for blocks of users.
    """

    def __init__(self, tables: Mapping[str, DataFrame], others: Mapping[str, int]) -> None:
        self._tables, self._others = tables, others
        self._digests: dict[WholeGroup, list[bytes]] = {}

    def __repr__(self) -> str:
        return "BlockStore(private)"

    def map(self, whole: WholeGroup, work: Callable[[Pairs], T]) -> Iterator[T]:
        """Return the answers of all blocks of a kind; see `DistributedOccupancy`."""
        return self._answers(whole, partial(_of_counts, work))

    def map_sums(self, work: Callable[[Pairs, PairSums], T]) -> Iterator[T]:
        """Return the answers of blocks of cells with their sums: `SumsPartitionStore`. PRIVATE."""
        return self._answers("cells", partial(_of_sums, work))

    def map_bins(self, whole: WholeGroup, work: Callable[[Pairs, PairBins], T]) -> Iterator[T]:
        """Return the answers of blocks with their counts by bin: `SumsPartitionStore`. PRIVATE."""
        return self._answers(whole, partial(_of_bins, work))

    def _answers(self, whole: WholeGroup, look: Callable[..., Any]) -> Iterator[Any]:
        table, look = self._tables[whole], partial(look, whole, self._others[whole])
        with sent_to_tasks(table, look) as load:
            work = partial(catch_errors, partial(_answered, load), _ANSWERS)
            rows = collect(map_batches(table, work, _ANSWERS)).sort_by("block")
        digests = rows["digest"].to_pylist()
        # Blocks that changed since they were first mapped over are of other records.
        if self._digests.setdefault(whole, digests) != digests:
            raise StorageError(_CHANGED)
        return map(_from_bytes, rows["answer"].to_pylist())

    def close(self) -> None:
        """Let Spark forget the blocks."""
        for table in self._tables.values():
            table.unpersist()


def _answered(load: Callable[[], Callable[[pa.Table], Any]], batches: Batches) -> Batches:
    """Yield the answer of a function for each block."""
    work = load()
    for number, digest, table in _unpack(batches):
        found = work(table)
        answer = _to_bytes(found if isinstance(found, tuple) else (found,))
        yield pa.record_batch([[number], [digest], [answer]], schema=_ANSWERS)


def _to_bytes(arrays: Sequence[NDArray[Any]]) -> bytes:
    sink = io.BytesIO()
    np.savez(sink, *arrays)
    return sink.getvalue()


def _from_bytes(answer: bytes) -> tuple[NDArray[Any], ...]:
    # No pickle: what is read back can be numbers alone.
    with np.load(io.BytesIO(answer), allow_pickle=False) as arrays:
        return tuple(arrays.values())
