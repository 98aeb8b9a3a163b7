"""One reading by Spark, from a source to a data set, and its records counted on other grids.

Tasks validate, count and sum; their counts come to the driver, where all else is done as if the
DuckDB engine had counted. Pairs that memory does not hold lie on the driver's disk.

Columns are found, and everything about a source is refused, on the driver by the code of the
DuckDB engine: it is shown an empty table with the columns of a frame, or the files themselves.
Local files are opened by tasks, just as the driver opens them; Parquet at addresses by Spark's own
reader.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  as everybody calls it

from hexveil.base.errors import InputError
from hexveil.base.work_share import COUNTING, READING
from hexveil.model.cells import Cells, Labels
from hexveil.model.declared_grid import DeclaredFacts
from hexveil.model.public_metadata import PublicMetadata, Unit
from hexveil.records.column_datasets import PrivateDataset
from hexveil.records.dataset import Dataset
from hexveil.records.duckdb import aggregation
from hexveil.records.duckdb.cached_reading import CachedReading
from hexveil.records.duckdb.counting import CountResult, PairCounts
from hexveil.records.duckdb.expressions import identifier
from hexveil.records.duckdb.reading import fetch_dataset, fetch_declared
from hexveil.records.duckdb.regrid import facts_of_pairs, refuse_slots
from hexveil.records.duckdb.relation import RECORDS, Relation
from hexveil.records.duckdb.session import Session
from hexveil.records.duckdb.source import open_source
from hexveil.records.duckdb.validation import REASONS, ValidatedRecords, validate_records
from hexveil.records.feasible_sums import squares_fit
from hexveil.records.progress import show_progress
from hexveil.records.read_request import ReadRequest
from hexveil.records.sources.source_files import Files, Frame, MemoryTable, Remote
from hexveil.records.spark import tasks
from hexveil.records.spark.session import (
    collect,
    column,
    map_batches,
    persisted,
    task_memory,
    translate_errors,
    with_arrow_types,
)
from hexveil.records.spark.tasks import LocalFiles, TaskInput

ROWS_AT_ONCE = 2**21
"""Rows fetched at once: Spark limits what one action may bring to the driver."""
_FETCHED = "fetched_rows"
_TAIL = [("n", pa.int64()), ("note", pa.string())]
_RECORD = {
    "user_id": pa.string(),
    "time_us": pa.int64(),
    "local_s": pa.int64(),
    "quanta": pa.int64(),
}


def read_by_spark(
    engine: SparkSession,
    source: Files | Frame | Remote,
    readings: Sequence[tuple[ReadRequest, DeclaredFacts | None]],
) -> list[Dataset | PrivateDataset]:
    """Return the data set of each reading: as `duckdb.reading.read_datasets` does.

    Local files may have a cache: tasks then read those without an entry.

    Raises
    ------
    InputError
        If the source, a column or the selection leaves nothing that can be used.
    """
    datasets: list[Dataset | PrivateDataset] = []
    leading = readings[0][0]
    with show_progress(READING), Session(leading.memory, scratch=leading.scratch) as session:
        for request, facts in readings:
            records = _open_records(engine, session, source, request)
            if request.cache is None or not isinstance(source, Files):
                counted = _count_in_tasks(session, records, request)
            else:
                cached = _TaskCachedReading(session, source, records, request)
                counted = cached.count(is_private=facts is not None)
            if facts is not None:
                datasets.append(fetch_declared(session, counted, facts))
                continue
            queries = _TaskQueries(session, records)
            dataset = fetch_dataset(session, source.label, counted, queries)
            recount = SparkRegridder(engine, source, request, dataset.public)
            datasets.append(replace(dataset, public=replace(dataset.public, recount=recount)))
    return datasets


class _TaskCachedReading(CachedReading):
    """PRIVATE. A cached reading of which tasks read the files without an entry."""

    def __init__(
        self, session: Session, source: Files, records: TaskRecords, request: ReadRequest
    ) -> None:
        self._records = records
        super().__init__(session, source, records.relation, request)

    def _session_of(self, path: str) -> Session:
        return _TaskQueries(self._session, self._records.of([path]))

    def _scanned(self, paths: Sequence[str], *, dated: bool) -> PairCounts:
        records = self._query.checked if dated else self._query.undated
        some = replace(self._records.of(paths), records=records)
        return _count_in_tasks(self._session, some, self._query.request).counts


@dataclass(frozen=True, repr=False)
class SparkRegridder:
    """Counts the records of a source on other grids; see `hexveil.model.public_metadata.Recount`.

    Each grid is a reading by itself.

    Attributes
    ----------
    engine : SparkSession
    source : Files, Frame or Remote
    request : ReadRequest
        As the data set was read.
    facts : PublicMetadata
        Of the data set, without its own `recount`.
    """

    engine: SparkSession
    source: Files | Frame | Remote
    request: ReadRequest
    facts: PublicMetadata

    def __call__(
        self, grids: tuple[Cells | Labels, ...], privacy_unit: Unit
    ) -> Iterator[PublicMetadata | None]:
        """Yield the public metadata on each grid; None if no cell is left after selection."""
        refuse_slots(grids, self.request)
        return (self._on_grid(grid, privacy_unit) for grid in grids)

    def _on_grid(self, grid: Cells | Labels, privacy_unit: Unit) -> PublicMetadata | None:
        rules = self.request.rules
        clocked = grid
        if isinstance(grid, Cells) and grid.timezone is None:
            # Hours, dates and days go by the clock of the data set.
            clocked = replace(grid, timezone=rules.clock)
        rules = replace(rules, cells=clocked, privacy_unit=privacy_unit, terms=())
        request = replace(self.request, rules=rules)
        with show_progress(COUNTING), Session(request.memory, scratch=request.scratch) as session:
            records = _open_records(self.engine, session, self.source, request)
            pairs = _count_in_tasks(session, records, request).counts.pairs
            return facts_of_pairs(session, request, self.facts, grid, pairs)


def _count_in_tasks(session: Session, records: TaskRecords, request: ReadRequest) -> CountResult:
    """Return the counts and sums of all records, each read now.

    Raises
    ------
    InputError
        If a task reported that the source cannot be read.
    """
    rules, places = request.rules, records.records.places
    keys = aggregation.group_keys(session, rules.cells, rules.privacy_unit, places)
    squares, by_bin = squares_fit(1, rules.scale), rules.bins is not None
    edges = () if rules.bins is None else tuple(rules.bins.edges.tolist())
    names = [*keys.all, *[aggregation.FINE_BIN] * by_bin]
    grouping = tasks.TaskGrouping(rules.cells, rules.privacy_unit, places, squares, edges)
    sums = ["total", *["total_sq"] * squares]
    schema = pa.schema(
        [
            ("reject_reason", pa.int32()),
            *((name, pa.string() if tasks.is_text(name) else pa.int64()) for name in names),
            *((name, pa.int64()) for name in ("n", *sums)),
            ("note", pa.string()),
        ]
    )
    if request.drops_repeats:
        frame = _deduplicated(records, schema, grouping)
    else:
        query = records.records.query
        work = tasks.query_task(
            records.task_input, lambda in_task: grouping.counts(query, in_task), schema
        )
        # Repeats are kept here: a pair's records may be counted in several tasks. Only sums that
        # are too large to be used at all can be null: see `TaskGrouping.counts`.
        counted = map_batches(records.rows, work, schema)
        frame = counted.groupBy("reject_reason", *names, "note").agg(
            F.sum("n").alias("n"), *(F.try_sum(name).alias(name) for name in sums)
        )
    _fetch(session, frame)
    ((failure,),) = session.rows(
        f"SELECT min(note) FROM {aggregation.KEYED} WHERE reject_reason = {tasks.FAILED}"
    )
    _refuse(failure)
    pairs = aggregation.number_keyed(session, keys, squares=squares, by_bin=by_bin)
    # Rows of repeats have a reason beyond those of records.
    repeats = pairs.left_out.get(tasks.REPEATS, 0)
    left_out = {reason: n for reason, n in pairs.left_out.items() if reason < len(REASONS)}
    left_out[0] = left_out.get(0, 0) + repeats
    return CountResult(request, records.records, PairCounts(pairs, left_out, repeats))


def _refuse(failure: object) -> None:
    """Raise InputError if tasks reported that the source cannot be read."""
    if failure is not None:
        # The same sentence whichever task comes first.
        raise InputError(str(failure))


def _fetch(session: Session, frame: DataFrame) -> None:
    """Create the table `KEYED` from the rows of a frame, some at a time."""
    with persisted(frame) as rows:
        n_slices = translate_errors(rows.count) // ROWS_AT_ONCE + 1
        begin = f"CREATE OR REPLACE TEMP TABLE {aggregation.KEYED} AS"
        for number in range(n_slices):
            in_slice = F.pmod(F.xxhash64("user_id"), F.lit(n_slices)) == number
            session.register(_FETCHED, collect(rows if n_slices == 1 else rows.where(in_slice)))
            session.run(f"{begin} SELECT * FROM {_FETCHED}")
            session.forget(_FETCHED)
            begin = f"INSERT INTO {aggregation.KEYED}"


def _deduplicated(
    records: TaskRecords, result_schema: pa.Schema, grouping: tasks.TaskGrouping
) -> DataFrame:
    """Drop repeats, all records of a user in one task, and count the rest.

    A pair is of one user, so that its counts and sums are then whole.
    """
    checked = records.records
    place = pa.string() if checked.labelled else pa.float64()
    names = ["user_id", *["time_us"] * checked.timed, *["local_s"] * checked.local]
    fields = [(name, _RECORD[name]) for name in names]
    fields += [*((name, place) for name in checked.places), ("quanta", pa.int64())]
    schema = pa.schema([("reject_reason", pa.int32()), *fields, *_TAIL])
    listing = tasks.list_task(records.task_input, checked.query, schema)
    # By user alone: with the time too, one user's pair could be counted in several tasks.
    rows = map_batches(records.rows, listing, schema).repartition("user_id")
    work = tasks.deduplicate_task(records.task_input.memory, schema, result_schema, grouping)
    return map_batches(rows, work, result_schema)


class _TaskQueries(Session):
    """Session that runs a query of whole numbers on all records, in tasks.

    It stands where refusals look for the session that has the records.
    """

    def __init__(self, session: Session, task_records: TaskRecords) -> None:
        self._session, self._task_records = session, task_records

    def rows(self, query: str) -> list[tuple[object, ...]]:
        """Return the numbers of all records, added up, in one row."""
        names = [f"count{i}" for i in range(len(self._session.types(query)))]
        schema = pa.schema([*((name, pa.int64()) for name in names), ("note", pa.string())])
        renamed = f"SELECT * FROM ({query}) AS counts({', '.join(names)})"
        work = tasks.query_task(self._task_records.task_input, lambda _: renamed, schema)
        frame = map_batches(self._task_records.rows, work, schema)
        # Only counts are asked for in this way, which add up over tasks, or the ends of one file.
        total = collect(frame.agg(F.min("note"), *map(F.sum, names)))
        failure, *numbers = (summed[0].as_py() for summed in total.columns)
        _refuse(failure)
        return [tuple(numbers)]


@dataclass(frozen=True, repr=False)
class TaskRecords:
    """PRIVATE. Records that tasks can read.

    Attributes
    ----------
    rows : DataFrame
        What tasks are fed with.
    task_input : TaskInput
        How they get at the records.
    records : ValidatedRecords
        The queries that they run.
    relation : Relation
        The columns of the records.
    """

    rows: DataFrame
    task_input: TaskInput
    records: ValidatedRecords
    relation: Relation

    def of(self, paths: Sequence[str]) -> TaskRecords:
        """Return the records of some local files, one for each task."""
        # Tasks have a folder of their own.
        table = pa.table({"path": [str(Path(path).absolute()) for path in paths]})
        rows = translate_errors(lambda: self.rows.sparkSession.createDataFrame(table))
        return replace(self, rows=rows.repartition(len(paths)))

    def __repr__(self) -> str:
        return "TaskRecords(private)"


def _open_records(
    spark: SparkSession, session: Session, source: Files | Frame | Remote, request: ReadRequest
) -> TaskRecords:
    """Return the records of a source; `session` then has an empty table of their columns.

    Raises
    ------
    InputError
        If the source or a column cannot be used.
    """
    memory = task_memory(spark)
    if isinstance(source, Files):
        return _open_files(spark, session, source, request, memory)
    frame = source.data if isinstance(source, Frame) else _remote_parquet(spark, source)
    frame = with_arrow_types(frame)
    # Nothing runs: Spark's optimizer puts an empty relation in place of what makes the columns.
    empty = collect(frame.where(F.lit(False)))  # noqa: FBT003  a column of it
    relation = open_source(session, MemoryTable(empty), request.column_names, request.format)
    records = validate_records(session, relation, request)
    # Whatever is not in the query is not read; a name that stands in it by chance does no harm.
    used = [column(name) for name in empty.column_names if identifier(name) in records.query]
    # A frame without columns loses its rows, which are counted too, on the way to Arrow.
    rows = frame.select(*(used or [F.lit(0).alias("nothing")]))
    return TaskRecords(rows, TaskInput(memory), records, relation)


def _open_files(
    spark: SparkSession, session: Session, source: Files, request: ReadRequest, memory: str
) -> TaskRecords:
    """Return local files, one for each task, which opens it just as the driver does."""
    relation = open_source(session, source, request.column_names, request.format)
    session.run(f"CREATE OR REPLACE TEMP VIEW {RECORDS} AS {relation.query}")
    viewed = replace(relation, query=f"SELECT * FROM {RECORDS}")
    records = validate_records(session, viewed, request)
    kinds = {name: str(kind) for name, kind in session.types(relation.query).items()}
    files = LocalFiles(source, request.column_names, request.format, kinds)
    none = translate_errors(lambda: spark.range(0))
    return TaskRecords(none, TaskInput(memory, files), records, relation).of(source.paths)


def _remote_parquet(spark: SparkSession, source: Remote) -> DataFrame:
    """Return files that Spark finds by their addresses."""
    for path in source.paths:
        # Not there, or of a scheme that Spark does not know.
        with contextlib.suppress(PySparkException, Py4JError):
            # Nothing is read: Spark finds the files of a path before it says what they hold.
            _ = spark.read.format("binaryFile").load(f"{path.rstrip('/')}/_delta_log").schema
            raise InputError(
                f"source: {path!r} is a Delta table; pass "
                f'spark.read.format("delta").load({path!r}) instead.'
            )
    # CORRECTED: dates as they are written, whatever the session sets, never shifted to another
    # calendar.
    reader = spark.read.option("mergeSchema", "true").option("datetimeRebaseMode", "CORRECTED")
    with contextlib.suppress(PySparkException, Py4JError):
        frame = reader.parquet(*source.paths)
        # A client of Spark Connect looks for the files only when it is asked for their columns.
        _ = frame.schema
        return frame
    raise InputError(
        f"source: {source.label!r} cannot be read by Spark as Parquet; check the path, the rights "
        "to it, and that all files have the same columns, with times in microseconds. Load other "
        "formats with Spark, text with all columns as text, and pass the DataFrame."
    )
