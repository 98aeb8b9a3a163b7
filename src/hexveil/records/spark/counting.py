"""One reading by Spark: tasks validate, count and sum; the driver selects cells."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  as everybody calls it
from pyspark.storagelevel import StorageLevel

from hexveil.base.errors import InputError, StorageError
from hexveil.records.duckdb import aggregation, refusals
from hexveil.records.duckdb.aggregation import PairStore
from hexveil.records.duckdb.counting import check_offsets
from hexveil.records.duckdb.reading import refuse_overflow, rule_counts
from hexveil.records.duckdb.session import Session
from hexveil.records.duckdb.validation import REASONS
from hexveil.records.feasible_sums import COUNT_BITS, squares_fit
from hexveil.records.read_request import ReadRequest
from hexveil.records.select import refuse_no_cell
from hexveil.records.sources.cache import CACHE_CHANGED
from hexveil.records.sources.source_files import Files, Frame, MemoryTable, Remote
from hexveil.records.spark import tasks
from hexveil.records.spark.blocks import BINS
from hexveil.records.spark.distributed_dataset import CountedRecords
from hexveil.records.spark.session import broadcast_table, collect, map_batches
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
    request : ReadRequest
        With the declared version.
    left_out : mapping of int to int, or None
        Records per reason, where they are known from elsewhere: the frame must have as many.
    """

    records: TaskRecords
    grouping: aggregation.GroupKeys
    frame: DataFrame
    request: ReadRequest
    left_out: Mapping[int, int] | None = None

    def check(self, left_out: Mapping[int, int]) -> None:
        """Raise StorageError if the frame lacks records, since a cache was changed meanwhile."""
        known = left_out if self.left_out is None else self.left_out
        if any(known.get(reason, 0) != left_out.get(reason, 0) for reason in {*known, *left_out}):
            raise StorageError(CACHE_CHANGED)


def count_all(
    spark: SparkSession,
    session: Session,
    source: Files | MemoryTable | Frame | Remote,
    request: ReadRequest,
) -> RecordTally:
    """Return the counts and sums of all records of a source, each read now."""
    task_records = open_records(spark, session, source, request)
    rules = request.rules
    grouping = aggregation.group_keys(
        session, rules.cells, rules.privacy_unit, task_records.records.places
    )
    frame = count_groups(task_records, request, grouping)
    return RecordTally(task_records, grouping, frame, request)


def count_records(
    spark: SparkSession,
    source: Files | MemoryTable | Frame | Remote,
    request: ReadRequest,
    count: Callable[..., RecordTally] = count_all,
) -> CountedRecords:
    """Return the counts and sums of all pairs in the used cells.

    Parameters
    ----------
    spark : SparkSession
    source : Files, MemoryTable, Frame or Remote
    request : ReadRequest
    count : function
        `count_all`, or one that takes the same arguments and has a cache.

    Raises
    ------
    InputError
        If the source, a column or the selection leaves nothing that can be used.
    """
    with Session(request.memory, scratch=request.scratch) as session, ExitStack() as cleanup:
        counted = count(spark, session, source, request)
        task_records, grouping = counted.records, counted.grouping
        request, rules = counted.request, counted.request.rules
        # Used several times below; without this each action would read the records anew.
        tally = counted.frame.persist(StorageLevel.MEMORY_AND_DISK)
        cleanup.callback(tally.unpersist)
        summary = _summary(tally, grouping)
        counted.check(summary.left_out)
        measures = DistributedQueries(session, task_records)
        refusals.refuse_unusable(measures, task_records.records, request, summary.left_out)
        refuse_overflow(summary.left_out.get(0, 0), request)
        refusals.refuse_repeats(request, summary.left_out.get(0, 0), summary.repeats)
        of_units = as_parted(_records_of_units(tally, grouping), task_records)
        with persisted(of_units):
            if not rules.accept_single_records:
                refuse_single_records(*_single_records(of_units), request.columns.user)
            request = check_offsets(measures, task_records.records, request)
            session.register(aggregation.ALL_CELLS, summary.cells)
            everything, enough, _ = aggregation.select_cells(session, grouping, rules.select)
            refuse_no_cell(everything, enough, rules.select.min_users)
            cells = aggregation.cell_table(session, rules.cells, grouping)
            refusals.refuse_swapped(cells, request)
            units = _number_units(session, of_units, request, grouping)
        fit = squares_fit(summary.largest, rules.scale)
        pairs = _number_pairs(spark, session, tally, grouping, squares=fit)
        per_cell = aggregation.pairs_per_cell(session, grouping)
        # From here on whoever has the counts lets them go.
        cleanup.pop_all()
    counts = rule_counts(request, summary.left_out, summary.repeats)
    return CountedRecords(
        tally, pairs, per_cell, cells, units, counts, everything, fit, request, source.label
    )


def count_groups(
    task_records: TaskRecords, request: ReadRequest, grouping: aggregation.GroupKeys
) -> DataFrame:
    """Return counts and sums by reason, cell and unit; none has two rows."""
    task_grouping = task_grouping_of(task_records, request)
    edges = task_grouping.edges
    schema = tally_schema(grouping, squares=task_grouping.squares, by_bin=bool(edges))
    keys = tally_keys(grouping)
    if request.drops_repeats:
        counted = deduplicate_by_user(task_records, schema, task_grouping)
        return _with_bin_lists(counted, keys) if edges else counted
    # Repeats are kept here: a pair's records may be counted in several tasks, and added up.
    partial = map_batches(
        task_records.rows,
        tasks.count_task(
            task_records.task_input, task_records.records.query, task_grouping, schema
        ),
        schema,
    )
    return add_up_groups(partial, keys, task_records)


def task_grouping_of(task_records: TaskRecords, request: ReadRequest) -> tasks.TaskGrouping:
    """Return the keys by which tasks group records."""
    rules = request.rules
    edges = () if rules.bins is None else tuple(rules.bins.edges.tolist())
    return tasks.TaskGrouping(
        rules.cells,
        rules.privacy_unit,
        task_records.records.places,
        squares_fit(1, rules.scale),
        edges,
    )


def tally_keys(grouping: aggregation.GroupKeys) -> list[str]:
    """Return the names by which counts are grouped."""
    # The note is a key, not a smallest text: for that Spark would sort all rows.
    return ["reject_reason", *grouping.all, "note"]


def add_up_groups(partial: DataFrame, keys: Sequence[str], task_records: TaskRecords) -> DataFrame:
    """Return the sums of counts with equal keys; those by bin become lists."""
    if aggregation.FINE_BIN not in partial.columns:
        return as_parted(partial.groupBy(*keys).agg(*summed(partial)), task_records)
    of_bins = partial.groupBy(*keys, aggregation.FINE_BIN).agg(*summed(partial))
    return as_parted(_with_bin_lists(of_bins, keys), task_records)


def summed(counted: DataFrame) -> list[Column]:
    """Return the sums of counts and sums."""
    # Only sums that are too large to be used at all can be null here: see `tasks.select_counts`.
    names = [name for name in ("total", "total_sq") if name in counted.columns]
    return [F.sum("n").alias("n"), *(F.try_sum(name).alias(name) for name in names)]


def _with_bin_lists(of_bins: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Return pairs with their counts by bin in a column of lists: see `bins_of_lists`."""
    packed = F.shiftleft(F.col(aggregation.FINE_BIN), COUNT_BITS) + F.col("n")
    # Sorted: a block that is lost and made again must have the same bytes.
    lists = F.sort_array(F.collect_list(packed)).alias(BINS)
    return of_bins.groupBy(*keys).agg(*summed(of_bins), lists)


def deduplicate_by_user(
    task_records: TaskRecords, result_schema: pa.Schema, task_grouping: tasks.TaskGrouping | None
) -> DataFrame:
    """Drop repeats, all records of a user in one task; count or list the rest.

    A pair is of one user, so that its counts and sums are then whole.
    """
    schema = record_schema(task_records)
    rows = map_batches(
        task_records.rows,
        tasks.list_task(task_records.task_input, task_records.records.query, schema),
        schema,
    )
    work = tasks.deduplicate_task(
        task_records.task_input.memory, schema, result_schema, task_grouping
    )
    # By user alone: with the time too, one user's pair could be counted in several tasks.
    return as_parted(map_batches(rows.repartition("user_id"), work, result_schema), task_records)


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


def tally_schema(
    grouping: aggregation.GroupKeys, *, squares: bool, by_bin: bool = False
) -> pa.Schema:
    """Return the columns of counts and sums."""
    keys = [(name, pa.string() if tasks.is_text(name) else pa.int64()) for name in grouping.all]
    keys += [(aggregation.FINE_BIN, pa.int64())] * by_bin
    summed = [("total", pa.int64()), *[("total_sq", pa.int64())] * squares]
    n, note = _TAIL
    return pa.schema([("reject_reason", pa.int32()), *keys, n, *summed, note])


@contextmanager
def persisted(frame: DataFrame) -> Iterator[DataFrame]:
    """Persist a frame while the body runs, which uses it more than once."""
    stored = frame.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield stored
    finally:
        stored.unpersist()


@dataclass(frozen=True, eq=False, repr=False)
class _Summary:
    """Summary of all cells: their users and records, and the rejects. Public."""

    cells: pa.Table
    left_out: dict[int, int]
    repeats: int
    largest: int


def _summary(tally: DataFrame, grouping: aggregation.GroupKeys) -> _Summary:
    """Return each cell's users and records, and per reason the records that it covers."""
    table = collect(
        tally.groupBy("reject_reason", *grouping.cell, "note").agg(
            F.count(F.lit(1)).alias("users"),
            F.sum("n").alias("records"),
            F.max("n").alias("most"),
        )
    )
    left_out, repeats = reason_counts(table)
    reasons = table["reject_reason"].to_numpy()
    cells = table.filter(pa.array(reasons == 0)).select([*grouping.cell, "users", "records"])
    largest = int(table["most"].to_numpy()[reasons == 0].max(initial=0))
    return _Summary(cells, left_out, repeats, largest)


def reason_counts(table: pa.Table) -> tuple[dict[int, int], int]:
    """Return the records per reject reason (0: kept, repeats included), and the repeats.

    Raises
    ------
    InputError
        If a task reported that the source cannot be read.
    """
    reasons, records = table["reject_reason"].to_numpy(), table["records"].to_numpy()
    raise_task_failure(table["note"], reasons)
    counts = {int(reason): int(records[reasons == reason].sum()) for reason in np.unique(reasons)}
    repeats = counts.pop(tasks.REPEATS, 0)
    # Rows of repeats and of failures have reasons beyond those of records.
    left_out = {reason: n for reason, n in counts.items() if reason < len(REASONS)}
    left_out[0] = left_out.get(0, 0) + repeats
    return left_out, repeats


def _records_of_units(tally: DataFrame, grouping: aggregation.GroupKeys) -> DataFrame:
    """Return the records of each unit in any cell."""
    accepted = tally.where("reject_reason = 0")
    return accepted.groupBy(*grouping.unit).agg(F.sum("n").alias("n"))


def _single_records(of_units: DataFrame) -> tuple[int, int]:
    """Return the number of users, and of those with a single record; in any cell."""
    users = of_units
    if of_units.columns != ["user_id", "n"]:
        users = of_units.groupBy("user_id").agg(F.sum("n").alias("n"))
    summary = collect(
        users.agg(F.count(F.lit(1)).alias("users"), F.count_if(F.col("n") == 1).alias("single"))
    )
    return summary["users"][0].as_py(), summary["single"][0].as_py()


def raise_task_failure(notes: pa.ChunkedArray, reasons: np.ndarray) -> None:
    """Raise InputError if a task reported that the source cannot be read."""
    messages = notes.filter(pa.array(reasons == tasks.FAILED)).to_pylist()
    if messages:
        # The same sentence whichever task comes first.
        raise InputError(min(messages))


def _number_units(
    session: Session, of_units: DataFrame, request: ReadRequest, grouping: aggregation.GroupKeys
) -> Units:
    """Make the table of units in the order of their ids' bytes, then days; return them."""
    session.register("units_of_tasks", collect(of_units.select(*grouping.unit)))
    aggregation.number_units(session, "SELECT * FROM units_of_tasks", grouping)
    table = PairStore(session, grouping, {}).fetch_units()
    units = aggregation.to_units(table, request.rules.privacy_unit)
    warn_of_similar_ids(units.users, request.columns.user)
    return units


def _number_pairs(
    spark: SparkSession,
    session: Session,
    tally: DataFrame,
    grouping: aggregation.GroupKeys,
    *,
    squares: bool,
) -> DataFrame:
    """Return the pairs of selected cells, numbered by cell and unit."""
    cells = session.arrow(
        f"SELECT {', '.join(grouping.cell)}, CAST(cell AS INTEGER) AS cell FROM "
        f"{aggregation.SELECTED_CELLS}"
    )
    units = session.arrow(
        f"SELECT {', '.join(grouping.unit)}, CAST(unit AS INTEGER) AS unit FROM units"
    )
    has_bins = BINS in tally.columns
    return (
        tally.where("reject_reason = 0")
        .join(broadcast_table(spark, cells), list(grouping.cell))
        .join(broadcast_table(spark, units), list(grouping.unit))
        .select("cell", "unit", "n", "total", *["total_sq"] * squares, *[BINS] * has_bins)
    )


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
        work = tasks.query_task(self._task_records.task_input, renamed, schema)
        frame = map_batches(self._task_records.rows, work, schema)
        # Only counts are asked for in this way, which add up over tasks.
        total = collect(frame.agg(*(F.sum(name).alias(name) for name in names)))
        return [tuple(int(total[name][0].as_py() or 0) for name in names)]
