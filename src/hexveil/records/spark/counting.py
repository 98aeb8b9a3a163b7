"""One reading by Spark: tasks validate, count and sum; the driver selects cells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  as everybody calls it
from pyspark.storagelevel import StorageLevel

from hexveil.base.errors import InputError
from hexveil.model.occupancy import Occupancy
from hexveil.model.public_metadata import PublicMetadata
from hexveil.records.duckdb import aggregation, refusals
from hexveil.records.duckdb.aggregation import PairStore
from hexveil.records.duckdb.counting import check_offsets
from hexveil.records.duckdb.reading import public_metadata, refuse_overflow, rule_counts
from hexveil.records.duckdb.session import Session
from hexveil.records.duckdb.validation import REASONS
from hexveil.records.feasible_sums import COUNT_BITS, squares_fit
from hexveil.records.read_request import ReadRequest
from hexveil.records.select import refuse_no_cell
from hexveil.records.sources.source_files import Files, Frame, MemoryTable, Remote
from hexveil.records.spark import tasks
from hexveil.records.spark.session import broadcast_table, collect, map_batches, persisted
from hexveil.records.spark.source_rows import TaskRecords, open_records
from hexveil.records.units import Units, refuse_single_records, warn_of_similar_ids

_TAIL = [("n", pa.int64()), ("note", pa.string())]
_RECORD = {
    "user_id": pa.string(),
    "time_us": pa.int64(),
    "local_s": pa.int64(),
    "quanta": pa.int64(),
}


@dataclass(frozen=True, eq=False, repr=False)
class RecordTally:
    """PRIVATE. Counts and sums of records by reason, cell and unit.

    Attributes
    ----------
    records : TaskRecords
        All records, to explain a refusal.
    grouping : GroupKeys
    frame : DataFrame
    """

    records: TaskRecords
    grouping: aggregation.GroupKeys
    frame: DataFrame

    def summary(self) -> tuple[pa.Table, dict[int, int], int]:
        """Return rows and records of each cell; records by reason (0: kept), and repeats.

        Raises
        ------
        InputError
            If a task reported that the source cannot be read.
        """
        table = collect(
            self.frame.groupBy("reject_reason", *self.grouping.cell, "note").agg(
                F.count(F.lit(1)).alias("users"),
                F.sum("n").alias("records"),
                F.max("n").alias("most"),
            )
        )
        failed = table["reject_reason"].to_numpy() == tasks.FAILED
        if messages := table["note"].filter(pa.array(failed)).to_pylist():
            # The same sentence whichever task comes first.
            raise InputError(min(messages))
        reasons, records = table["reject_reason"].to_numpy(), table["records"].to_numpy()
        counts = {int(one): int(records[reasons == one].sum()) for one in np.unique(reasons)}
        repeats = counts.pop(tasks.REPEATS, 0)
        # Rows of repeats and of failures have reasons beyond those of records.
        left_out = {reason: n for reason, n in counts.items() if reason < len(REASONS)}
        left_out[0] = left_out.get(0, 0) + repeats
        return table.filter(pa.array(reasons == 0)), left_out, repeats


@dataclass(frozen=True, eq=False, repr=False)
class CountedPairs:
    """PRIVATE. Counts and sums of all pairs in the used cells.

    Attributes
    ----------
    tally : DataFrame
        Counts and sums of all cells, kept by Spark until whoever has the pairs lets them go.
    pairs : DataFrame
        A row per pair, in no order, made of these: `cell` INT and `unit` INT from 0, `n` BIGINT,
        `total` BIGINT, and `total_sq` BIGINT where sums of squares fit; with fine bins also
        `bins`, lists of whole numbers (`hexveil.records.feasible_sums`). The same records give the
        same rows, whatever their partitions.
    per_cell : ndarray of int64, shape (n_cells,)
        Pairs of each used cell.
    units : Units
        Those of no used cell too; numbered as in `pairs`.
    squares : bool
        Whether `pairs` has sums of squares.
    request : ReadRequest
    metadata : function
        The public metadata of the reading, given its occupancy.
    """

    tally: DataFrame
    pairs: DataFrame
    per_cell: NDArray[np.int64]
    units: Units
    squares: bool
    request: ReadRequest
    metadata: Callable[[Occupancy], PublicMetadata]

    def __repr__(self) -> str:
        return "CountedPairs(private)"


def count_all(
    spark: SparkSession,
    session: Session,
    source: Files | MemoryTable | Frame | Remote,
    request: ReadRequest,
) -> RecordTally:
    """Return the counts and sums of all records of a source, each read now."""
    task_records = open_records(spark, session, source, request)
    rules, places = request.rules, task_records.records.places
    grouping = aggregation.group_keys(session, rules.cells, rules.privacy_unit, places)
    schema = tally_schema(grouping, request)
    edges = () if rules.bins is None else tuple(rules.bins.edges.tolist())
    in_tasks = tasks.TaskGrouping(
        rules.cells, rules.privacy_unit, places, squares_fit(1, rules.scale), edges
    )
    if request.drops_repeats:
        frame = deduplicate_by_user(task_records, schema, in_tasks)
        if edges:
            frame = _with_bin_lists(frame, _tally_keys(grouping))
    else:
        # Repeats are kept here: a pair's records may be counted in several tasks, and added up.
        query = task_records.records.query
        work = tasks.query_task(
            task_records.task_input, lambda session: in_tasks.counts(query, session), schema
        )
        frame = add_up(map_batches(task_records.rows, work, schema), grouping, task_records)
    return RecordTally(task_records, grouping, frame)


def count_pairs(
    spark: SparkSession,
    source: Files | MemoryTable | Frame | Remote,
    request: ReadRequest,
    *,
    may_be_empty: bool = False,
) -> CountedPairs | None:
    """Return the counts and sums of all pairs in the used cells.

    Parameters
    ----------
    spark : SparkSession
    source : Files, MemoryTable, Frame or Remote
    request : ReadRequest
    may_be_empty : bool
        Whether None is returned, and nothing refused, if the selection leaves no cell.

    Raises
    ------
    InputError
        If the source, a column or the selection leaves nothing that can be used.
    """
    with Session(request.memory, scratch=request.scratch) as session, ExitStack() as cleanup:
        counted = count_all(spark, session, source, request)
        grouping, rules = counted.grouping, request.rules
        # Used several times below; without this each action would read the records anew.
        tally = counted.frame.persist(StorageLevel.MEMORY_AND_DISK)
        cleanup.callback(tally.unpersist)
        of_cells, left_out, repeats = counted.summary()
        measures, records = DistributedQueries(session, counted.records), counted.records.records
        refusals.refuse_unusable(measures, records, request, left_out)
        refuse_overflow(left_out.get(0, 0), request)
        refusals.refuse_repeats(request, left_out.get(0, 0), repeats)
        accepted = tally.where("reject_reason = 0")
        of_units = accepted.groupBy(*grouping.unit).agg(F.sum("n").alias("n"))
        with persisted(as_parted(of_units, counted.records)) as of_units:
            if not rules.accept_single_records:
                refuse_single_records(*_single_records(of_units), request.columns.user)
            request = check_offsets(measures, records, request)
            session.register(
                aggregation.ALL_CELLS, of_cells.select([*grouping.cell, "users", "records"])
            )
            everything, enough, _ = aggregation.select_cells(session, grouping, rules.select)
            if may_be_empty and not enough:
                return None
            refuse_no_cell(everything, enough, rules.select.min_users)
            cells = aggregation.cell_table(session, rules.cells, grouping)
            refusals.refuse_swapped(cells, request)
            session.register("units_of_tasks", collect(of_units.select(*grouping.unit)))
        aggregation.number_units(session, "SELECT * FROM units_of_tasks", grouping)
        units = PairStore(session, grouping, {}).fetch_units()
        units = aggregation.to_units(units, rules.privacy_unit)
        warn_of_similar_ids(units.users, request.columns.user)
        fit = squares_fit(int(of_cells["most"].to_numpy().max(initial=0)), rules.scale)
        names = ["cell", "unit", "n", "total", *["total_sq"] * fit]
        pairs = accepted
        for keys, number, numbered in (
            (grouping.cell, "cell", aggregation.SELECTED_CELLS),
            (grouping.unit, "unit", aggregation.UNITS),
        ):
            numbers = session.arrow(
                f"SELECT {', '.join(keys)}, CAST({number} AS INTEGER) AS {number} FROM {numbered}"
            )
            pairs = pairs.join(broadcast_table(spark, numbers), list(keys))
        pairs = pairs.select(*names, *[tasks.BINS] * (tasks.BINS in tally.columns))
        per_cell = aggregation.pairs_per_cell(session, grouping)
        # From here on whoever has the counts lets them go.
        cleanup.pop_all()
    counts = rule_counts(request, left_out, repeats)

    def metadata(occupancy: Occupancy) -> PublicMetadata:
        return public_metadata(source.label, request, occupancy, cells, counts, everything)

    return CountedPairs(tally, pairs, per_cell, units, fit, request, metadata)


def _tally_keys(grouping: aggregation.GroupKeys) -> list[str]:
    """Return the names by which counts are grouped."""
    # The note is a key, not a smallest text: for that Spark would sort all rows.
    return ["reject_reason", *grouping.all, "note"]


def add_up(
    partial: DataFrame, grouping: aggregation.GroupKeys, task_records: TaskRecords
) -> DataFrame:
    """Return the sums of counts with equal keys; those by bin become lists."""
    keys = _tally_keys(grouping)
    if aggregation.FINE_BIN not in partial.columns:
        return as_parted(partial.groupBy(*keys).agg(*_summed(partial)), task_records)
    of_bins = partial.groupBy(*keys, aggregation.FINE_BIN).agg(*_summed(partial))
    return as_parted(_with_bin_lists(of_bins, keys), task_records)


def _summed(counted: DataFrame) -> list[Column]:
    """Return the sums of counts and sums."""
    # Only sums that are too large to be used at all can be null here: see `TaskGrouping.counts`.
    names = [name for name in ("total", "total_sq") if name in counted.columns]
    return [F.sum("n").alias("n"), *(F.try_sum(name).alias(name) for name in names)]


def _with_bin_lists(of_bins: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Return pairs with their counts by bin in a column of lists: see `bins_of_lists`."""
    packed = F.shiftleft(F.col(aggregation.FINE_BIN), COUNT_BITS) + F.col("n")
    # Sorted: a block that is lost and made again must have the same bytes.
    lists = F.sort_array(F.collect_list(packed)).alias(tasks.BINS)
    return of_bins.groupBy(*keys).agg(*_summed(of_bins), lists)


def deduplicate_by_user(
    task_records: TaskRecords, result_schema: pa.Schema, task_grouping: tasks.TaskGrouping
) -> DataFrame:
    """Drop repeats, all records of a user in one task, and count the rest.

    A pair is of one user, so that its counts and sums are then whole.
    """
    schema = record_schema(task_records)
    # By user alone: with the time too, one user's pair could be counted in several tasks.
    listing = tasks.list_task(task_records.task_input, task_records.records.query, schema)
    rows = map_batches(task_records.rows, listing, schema).repartition("user_id")
    memory = task_records.task_input.memory
    work = tasks.deduplicate_task(memory, schema, result_schema, task_grouping)
    return as_parted(map_batches(rows, work, result_schema), task_records)


def as_parted(frame: DataFrame, task_records: TaskRecords) -> DataFrame:
    """Return a frame made of all records in as many parts as tasks read them, or fewer.

    Counts are fewer than records. What Spark keeps has as many parts as its shuffles make, whatever
    their size, and each part is a task of every job that follows.
    """
    return frame if task_records.n_tasks is None else frame.coalesce(task_records.n_tasks)


def record_schema(task_records: TaskRecords) -> pa.Schema:
    """Return the columns of a listed record."""
    records = task_records.records
    place = pa.string() if records.labelled else pa.float64()
    names = ["user_id", *["time_us"] * records.timed, *["local_s"] * records.local]
    fields = [(name, _RECORD[name]) for name in names]
    places = [(name, place) for name in records.places]
    return pa.schema(
        [("reject_reason", pa.int32()), *fields, *places, ("quanta", pa.int64()), *_TAIL]
    )


def tally_schema(grouping: aggregation.GroupKeys, request: ReadRequest) -> pa.Schema:
    """Return the columns of counts and sums, by bin where they are counted so."""
    keys = [(name, pa.string() if tasks.is_text(name) else pa.int64()) for name in grouping.all]
    keys += [(aggregation.FINE_BIN, pa.int64())] * (request.rules.bins is not None)
    sums = ["total", *["total_sq"] * squares_fit(1, request.rules.scale)]
    n, note = _TAIL
    return pa.schema(
        [("reject_reason", pa.int32()), *keys, n, *((name, pa.int64()) for name in sums), note]
    )


def _single_records(of_units: DataFrame) -> tuple[int, int]:
    """Return the number of users, and of those with a single record; in any cell."""
    users = of_units.groupBy("user_id").agg(F.sum("n").alias("n"))
    summary = collect(
        users.agg(F.count(F.lit(1)).alias("users"), F.count_if(F.col("n") == 1).alias("single"))
    )
    return summary["users"][0].as_py(), summary["single"][0].as_py()


class DistributedQueries(Session):
    """Session that runs a query of counts on all records, in tasks.

    It stands where refusals look for the session that has the records.
    """

    def __init__(self, session: Session, task_records: TaskRecords) -> None:
        self._session, self._task_records = session, task_records

    def rows(self, query: str) -> list[tuple[object, ...]]:
        """Return the counts of all records, in one row."""
        names = [f"count{i}" for i in range(len(self._session.types(query)))]
        schema = pa.schema([(name, pa.int64()) for name in names])
        renamed = f"SELECT * FROM ({query}) AS counts({', '.join(names)})"
        work = tasks.query_task(self._task_records.task_input, lambda _: renamed, schema)
        frame = map_batches(self._task_records.rows, work, schema)
        # Only counts are asked for in this way, which add up over tasks.
        total = collect(frame.agg(*(F.sum(name).alias(name) for name in names)))
        return [tuple(int(total[name][0].as_py() or 0) for name in names)]
