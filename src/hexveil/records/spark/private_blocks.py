"""PRIVATE. Records with private presence in Spark: blocks of pairs stay there, totals come back.

A block holds all pairs of its units, as bytes of whole numbers. What a stage asks of units is added
up over blocks by Spark, so that one whole number per cell or candidate reaches the driver: the same
number as on one machine, since whole numbers may be added in any order.

As on one machine nothing is refused for its records. How many rows, blocks and bytes there are,
Spark shows to whoever may see its own pages and logs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  as everybody calls it

from hexveil.base.arrays import Ints
from hexveil.model.declared_grid import DeclaredFacts
from hexveil.model.pair_bins import PairBins
from hexveil.model.private_pairs import PrivatePairs
from hexveil.records.column_datasets import PrivateDataset, ReadingCounts
from hexveil.records.duckdb import aggregation
from hexveil.records.duckdb.reading import NUMBER, declared_table, rule_counts
from hexveil.records.duckdb.session import Session
from hexveil.records.feasible_sums import bins_of_lists
from hexveil.records.progress import show_progress
from hexveil.records.read_request import ReadRequest
from hexveil.records.sources.source_files import Files, Frame, MemoryTable, Remote
from hexveil.records.spark.blocks import (
    BINS,
    NO_BLOCK,
    PACKED,
    ROOM_OF_BINS,
    from_bytes,
    guarded,
    join_pieces,
    to_bytes,
    to_pieces,
)
from hexveil.records.spark.cached_counting import count_cached
from hexveil.records.spark.counting import count_all, persisted, reason_counts
from hexveil.records.spark.session import collect, from_arrow, map_batches, sent_to_tasks, stored

Batches = Iterator[pa.RecordBatch]

BLOCK_PAIRS = 2**19
"""Pairs of a block, about: some tens of megabytes, which Java holds for each task."""
_TOTAL = pa.schema([("place", pa.int64()), ("number", pa.int64())])


def read_private_blocks(
    spark: SparkSession,
    source: Files | MemoryTable | Frame | Remote,
    request: ReadRequest,
    facts: DeclaredFacts,
) -> PrivateDataset:
    """Read a source into pairs on the declared grid, which stay in Spark. PRIVATE.

    Raises
    ------
    InputError
        If the source or a column cannot be used, whatever the records are.
    """
    with (
        show_progress("Reading records"),
        Session(request.memory, scratch=request.scratch) as session,
    ):
        count = count_all if request.cache is None else partial(count_cached, is_private=True)
        counted = count(spark, session, source, request)
        with persisted(counted.frame) as tally:
            left_out, repeats, n_groups = _summary(tally)
            counted.check(left_out)
            room = BLOCK_PAIRS // (1 if facts.bins is None else ROOM_OF_BINS)
            blocks = _packed(tally, facts, counted.grouping, n_groups // room + 1)
        pairs = SparkPairBlocks(blocks, by_bin=facts.bins is not None)
        counts = rule_counts(request, left_out, repeats)
        return PrivateDataset(facts, pairs, ReadingCounts.of(counts, pairs))


def _summary(tally: DataFrame) -> tuple[Mapping[int, int], int, int]:
    """Return records per reject reason, repeats, and rows of kept records. PRIVATE."""
    table = collect(
        tally.groupBy("reject_reason", "note").agg(
            F.sum("n").alias("records"), F.count(F.lit(1)).alias("groups")
        )
    )
    left_out, repeats = reason_counts(table)
    of_kept = table["reject_reason"].to_numpy() == 0
    return left_out, repeats, int(table["groups"].to_numpy()[of_kept].sum())


def _packed(
    tally: DataFrame, facts: DeclaredFacts, grouping: aggregation.GroupKeys, n_blocks: int
) -> DataFrame:
    """Return the blocks of pairs on the declared grid, kept by Spark. PRIVATE."""
    cells = declared_table(facts.cells)
    if "hexagon" in cells.column_names:
        hexagons = cells["hexagon"].cast(pa.int64())  # Spark has no numbers without a sign
        cells = cells.set_column(cells.column_names.index("hexagon"), "hexagon", hexagons)
    declared = F.broadcast(from_arrow(tally.sparkSession, cells))
    units = list(grouping.unit)
    rows = (
        tally.where("reject_reason = 0")
        .join(declared, list(grouping.cell))
        .select(NUMBER, *units, "n", "total", *[BINS] * (BINS in tally.columns))
        # By unit: a unit in two blocks would weigh twice.
        .repartition(n_blocks, *units)
    )
    return stored(map_batches(rows, _pack_task(units), PACKED))


class SparkPairBlocks:
    """PRIVATE. Blocks of pairs that Spark keeps: see `hexveil.model.private_pairs.PairBlocks`.

    Parameters
    ----------
    blocks : DataFrame
    by_bin : bool
        Whether records are counted by fine bin.
    """

    def __init__(self, blocks: DataFrame, *, by_bin: bool = False) -> None:
        self._blocks, self._by_bin = blocks, by_bin

    def __repr__(self) -> str:
        return "SparkPairBlocks(private)"

    def total(self, work: Callable[[PrivatePairs], Ints]) -> Ints:
        """Return the sum of a function over blocks. PRIVATE."""
        by_bin = self._by_bin
        with sent_to_tasks(self._blocks, work) as load:
            answers = map_batches(self._blocks, _total_task(load, by_bin=by_bin), _TOTAL)
            totals = collect(answers.groupBy("place").agg(F.sum("number").alias("number")))
        # No block has the form of an answer: that of no pairs has it.
        total = work(_no_pairs(by_bin=by_bin))
        np.add.at(total, totals["place"].to_numpy(), totals["number"].to_numpy())
        return total

    def collect(self) -> PrivatePairs:
        """Return all pairs in memory, for stages that add up nothing. PRIVATE."""
        unpacked, n_units, n_pairs = [_no_arrays(by_bin=self._by_bin)], 0, 0
        for _, _, block in join_pieces(iter(collect(self._blocks).to_batches())):
            arrays = from_bytes(block)
            # Units and pairs are numbered within their block.
            arrays[0][1] += n_units
            n_units = int(arrays[0][1].max(initial=n_units - 1)) + 1
            for rows in arrays[1:]:
                rows[0] += n_pairs
            n_pairs += arrays[0].shape[1]
            unpacked.append(arrays)
        return _to_pairs([np.concatenate(arrays, axis=1) for arrays in zip(*unpacked, strict=True)])

    def close(self) -> None:
        """Let Spark forget the blocks."""
        self._blocks.unpersist()


def _no_pairs(*, by_bin: bool) -> PrivatePairs:
    return _to_pairs(_no_arrays(by_bin=by_bin))


def _no_arrays(*, by_bin: bool) -> list[Ints]:
    """Return the arrays of a block without pairs."""
    return [np.zeros((n_columns, 0), dtype=np.int64) for n_columns in (4, 3)[: 1 + by_bin]]


def _to_pairs(arrays: Sequence[Ints]) -> PrivatePairs:
    """Return the pairs of a block. PRIVATE.

    Arrays are cell, unit, records and sum of each pair, shape (4, n_pairs); and pair, fine bin and
    records of each bin of a pair, shape (3, n_rows), where records are counted by bin.
    """
    (cell, unit, n, total), *binned = arrays
    return PrivatePairs(cell, unit, n, total, by_bin=PairBins(*binned[0]) if binned else None)


def _pack_task(units: list[str]) -> Callable[[Batches], Batches]:
    """Return the work of a task that packs all rows of its units into one block."""

    def packed(batches: Batches) -> Batches:
        rows = list(batches)
        if not rows:
            return
        table = pa.Table.from_batches(rows)
        keys = table.select(units).combine_chunks()
        numbers = [keys[name].combine_chunks().dictionary_encode().indices for name in units]
        unit = np.zeros(table.num_rows, dtype=np.int64)
        for column in numbers:
            # Numbers of distinct values of a key, below the number of rows: no overflow for the
            # two keys that a unit has at most.
            unit = unit * table.num_rows + column.to_numpy()
        unit = np.unique(unit, return_inverse=True)[1]
        # A sum that does not fit 64 bits is null: no machine holds so many records of a unit.
        total = table["total"].fill_null(0).to_numpy()
        columns = np.stack([table[NUMBER].to_numpy(), unit, table["n"].to_numpy(), total])
        # Spark keeps no order; a block that is made again must have the same bytes.
        order = np.lexsort((columns[0], columns[1]))
        arrays = [columns[:, order]]
        if BINS in table.column_names:
            counted = bins_of_lists(table[BINS].take(pa.array(order)))
            arrays.append(np.stack([counted.pair, counted.bin, counted.count]))
        yield from to_pieces(NO_BLOCK, 0, to_bytes(arrays))

    return guarded(packed)


def _total_task(
    load: Callable[[], Callable[[PrivatePairs], Ints]], *, by_bin: bool
) -> Callable[[Batches], Batches]:
    """Return the work of a task that adds up a function over its blocks."""

    def totals(batches: Batches) -> Batches:
        work = load()
        total = work(_no_pairs(by_bin=by_bin))
        for _, _, block in join_pieces(batches):
            total = total + work(_to_pairs(from_bytes(block)))
        places = np.flatnonzero(total)
        yield pa.RecordBatch.from_arrays(
            [pa.array(places, pa.int64()), pa.array(total[places], pa.int64())], schema=_TOTAL
        )

    return guarded(totals)
