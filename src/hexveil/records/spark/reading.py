"""One reading by Spark, from a source to a data set, and its records counted on other grids.

Tasks validate, count and sum; their counts come to the driver, where all else is done as if the
DuckDB engine had counted. Pairs that memory does not hold lie on the driver's disk.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  as everybody calls it

from hexveil.base.errors import InputError
from hexveil.base.work_share import COUNTING, READING
from hexveil.model.cells import Cells, Labels
from hexveil.model.public_metadata import PublicMetadata, Unit
from hexveil.records.dataset import Dataset
from hexveil.records.duckdb import aggregation
from hexveil.records.duckdb.counting import CountResult, PairCounts
from hexveil.records.duckdb.reading import fetch_dataset
from hexveil.records.duckdb.regrid import facts_of_pairs, refuse_slots
from hexveil.records.duckdb.session import Session
from hexveil.records.duckdb.validation import REASONS
from hexveil.records.feasible_sums import squares_fit
from hexveil.records.progress import show_progress
from hexveil.records.read_request import ReadRequest
from hexveil.records.sources.source_files import Files, Frame, MemoryTable, Remote
from hexveil.records.spark import tasks
from hexveil.records.spark.session import collect, map_batches, persisted, translate_errors
from hexveil.records.spark.source_rows import TaskRecords, open_records

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
    source: Files | MemoryTable | Frame | Remote,
    requests: Sequence[ReadRequest],
) -> list[Dataset]:
    """Return the data set of each request: as `duckdb.reading.read_datasets` does.

    Raises
    ------
    InputError
        If the source, a column or the selection leaves nothing that can be used.
    """
    datasets = []
    with (
        show_progress(READING),
        Session(requests[0].memory, scratch=requests[0].scratch) as session,
    ):
        for request in requests:
            records = open_records(engine, session, source, request)
            counted = _count_in_tasks(session, records, request)
            asked = _TaskQueries(session, records)
            dataset = fetch_dataset(session, source.label, counted, asked)
            recount = SparkRegridder(engine, source, request, dataset.public)
            datasets.append(replace(dataset, public=replace(dataset.public, recount=recount)))
    return datasets


@dataclass(frozen=True, repr=False)
class SparkRegridder:
    """Counts the records of a source on other grids; see `hexveil.model.public_metadata.Recount`.

    Each grid is a reading by itself.

    Attributes
    ----------
    engine : SparkSession
    source : Files, MemoryTable, Frame or Remote
    request : ReadRequest
        As the data set was read.
    facts : PublicMetadata
        Of the data set, without its own `recount`.
    """

    engine: SparkSession
    source: Files | MemoryTable | Frame | Remote
    request: ReadRequest
    facts: PublicMetadata

    def __call__(
        self, grids: tuple[Cells | Labels, ...], privacy_unit: Unit
    ) -> Iterator[PublicMetadata | None]:
        """Yield the public metadata on each grid; None if no cell is left after selection."""
        refuse_slots(grids, self.request)
        return (self._on_grid(grid, privacy_unit) for grid in grids)

    def _on_grid(self, grid: Cells | Labels, privacy_unit: Unit) -> PublicMetadata | None:
        rules = replace(self.request.rules, cells=grid, privacy_unit=privacy_unit, terms=())
        request = replace(self.request, rules=rules)
        with show_progress(COUNTING), Session(request.memory, scratch=request.scratch) as session:
            records = open_records(self.engine, session, self.source, request)
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
    if failure is not None:
        # The same sentence whichever task comes first.
        raise InputError(str(failure))
    pairs = aggregation.number_keyed(session, keys, squares=squares, by_bin=by_bin)
    # Rows of repeats have a reason beyond those of records.
    repeats = pairs.left_out.get(tasks.REPEATS, 0)
    left_out = {reason: n for reason, n in pairs.left_out.items() if reason < len(REASONS)}
    left_out[0] = left_out.get(0, 0) + repeats
    return CountResult(request, records.records, PairCounts(pairs, left_out, repeats))


def _fetch(session: Session, frame: DataFrame) -> None:
    """Create the table `KEYED` from the rows of a frame, of which memory holds some at a time."""
    with persisted(frame) as kept:
        n_slices = translate_errors(kept.count) // ROWS_AT_ONCE + 1
        begin = f"CREATE OR REPLACE TEMP TABLE {aggregation.KEYED} AS"
        for number in range(n_slices):
            part = F.pmod(F.xxhash64("user_id"), F.lit(n_slices)) == number
            session.register(_FETCHED, collect(kept if n_slices == 1 else kept.where(part)))
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
