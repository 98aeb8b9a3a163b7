"""Spark tasks: DuckDB on a partition of the records, Arrow batches in and out.

A task opens one private DuckDB connection, and closes it.
Nothing of a record is in an error: the engine's own words never leave `Session`, and what it says
of a malformed source goes to the driver as a row of its own, a sentence.

Rows that a task makes hold, beside keys and sums: `reject_reason`, which is 0 for records that
are kept, or the number of the rule that left out `n` of them, or `REPEATS` or `FAILED`; and `note`,
the sentence of a failure.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from hexveil.base.errors import HexveilError, InputError
from hexveil.model.cells import Cells, Labels
from hexveil.model.public_metadata import Unit
from hexveil.records.duckdb import aggregation
from hexveil.records.duckdb.counting import deduplicate
from hexveil.records.duckdb.expressions import identifier
from hexveil.records.duckdb.relation import RECORDS, Relation
from hexveil.records.duckdb.session import Session
from hexveil.records.duckdb.source import open_source
from hexveil.records.duckdb.validation import UNPARSABLE, ValidatedRecords
from hexveil.records.sources.memory_tables import readable_batch
from hexveil.records.sources.record_format import RecordFormat
from hexveil.records.sources.source_files import Files

Batches = Iterator[pa.RecordBatch]
Work = Callable[[Batches], Batches]
Statement = Callable[[Session], str]
"""From a task's session to the query that it runs on its records."""

REPEATS, FAILED = 100, 101
"""Reasons of rows that are no records' reasons: repeats that were dropped, and failures."""
_GOT = "records_of_users"
_LOST = "a task of the Spark job failed while reading the records; its cause is not shown."


@dataclass(frozen=True)
class LocalFiles:
    """Files that tasks open just as the driver does.

    Attributes
    ----------
    source : Files
    names : frozenset of str
        Configured columns.
    format : RecordFormat
    kinds : mapping of str to str
        The engine's type of each column, of all files together.
    """

    source: Files
    names: frozenset[str]
    format: RecordFormat
    kinds: Mapping[str, str]

    def open(self, session: Session, path: str) -> Relation:
        """Return the records of one of the files, in the types of all."""
        source = replace(self.source, paths=(path,))
        relation = open_source(session, source, self.names, self.format)
        relation.check_files(())
        # The engine merges columns whose names differ in capitals alone.
        own_names = {name.lower() for name in session.types(relation.query)}
        columns = (
            f"TRY_CAST({identifier(name) if name.lower() in own_names else 'NULL'} AS {kind}) "
            f"AS {identifier(name)}"
            for name, kind in self.kinds.items()
        )
        return replace(relation, query=f"SELECT {', '.join(columns)} FROM ({relation.query})")


@dataclass(frozen=True)
class TaskInput:
    """How a task gets at its records.

    Attributes
    ----------
    memory : str
        What DuckDB may use in a task.
    files : LocalFiles or None
        Files, by their paths in a column `path`; None for columns of records.
    """

    memory: str
    files: LocalFiles | None = None


@dataclass(frozen=True)
class TaskGrouping:
    """Description of the keys of records, from which a task builds its own `GroupKeys`.

    Attributes
    ----------
    grid : Cells or Labels
    unit : "user", "user-day" or "user-week"
    places : tuple of str
        Names of the columns of a place in the checked records.
    squares : bool
        Whether sums of squares are made.
    edges : tuple of int
        Of the fine bins that records are counted by; empty without.
    """

    grid: Cells | Labels
    unit: Unit
    places: tuple[str, ...]
    squares: bool
    edges: tuple[int, ...] = ()

    def counts(self, query: str, session: Session) -> str:
        """Return the query of counts and sums of validated records; rejects counted by reason.

        A sum beyond 64 bits is null: its records are then too many for sums, or for squares, at
        all. With edges a row is of one fine bin, too.
        """
        keys = aggregation.group_keys(session, self.grid, self.unit, self.places)
        columns = ", ".join(
            f"CAST({name} AS {'VARCHAR' if is_text(name) else 'BIGINT'}) AS {name}"
            for name in (*keys.all, *[aggregation.FINE_BIN] * bool(self.edges))
        )
        sums = (aggregation.TOTAL, *[aggregation.SQUARES] * self.squares)
        summed = ", ".join(f"TRY_CAST({name} AS BIGINT) AS {name}" for name in sums)
        grouped = aggregation.grouped(query, keys, squares=self.squares, edges=self.edges)
        return f"SELECT reject_reason, {columns}, n, {summed} FROM ({grouped})"


def is_text(key: str) -> bool:
    """Return whether a key that records are grouped by is text; the others are whole numbers."""
    return key == "user_id" or key.startswith("label")


def query_task(task_input: TaskInput, statement: Statement, schema: pa.Schema) -> Work:
    """Return the work of a task that runs a query on its records."""
    return partial(catch_errors, partial(_run_query, task_input, statement), schema)


def list_task(task_input: TaskInput, query: str, schema: pa.Schema) -> Work:
    """Return the work of a task that lists kept records, and counts the rejected ones."""
    columns = "".join(
        f", CASE WHEN reject_reason = 0 THEN {name} END AS {name}"
        for name in record_columns(schema)
    )
    statement = f"SELECT CAST(reject_reason AS INTEGER) AS reject_reason{columns} FROM ({query})"

    def listed(batches: Batches) -> Batches:
        left_out: Counter[int] = Counter()
        for batch in _run_query(task_input, lambda _: statement, batches):
            # Counts of skipped lines, which are no records.
            if "n" in batch.schema.names:
                yield batch
                continue
            counts = pc.value_counts(batch["reject_reason"]).to_pylist()
            left_out.update({pair["values"]: pair["counts"] for pair in counts if pair["values"]})
            # Most batches hold kept records alone: no copy of those.
            yield (
                batch
                if len(counts) == 1 and not counts[0]["values"]
                else batch.filter(pc.equal(batch["reject_reason"], 0))
            )
        yield from reject_rows(left_out)

    return partial(catch_errors, listed, schema)


def record_columns(schema: pa.Schema) -> list[str]:
    """Return the names of a listed record's own columns."""
    return [name for name in schema.names if name not in ("reject_reason", "n", "note")]


def deduplicate_task(
    memory: str, schema: pa.Schema, result_schema: pa.Schema, grouping: TaskGrouping
) -> Work:
    """Return the work of a task that drops repeats; it has all listed records of its users.

    Parameters
    ----------
    memory : str
    schema : pyarrow.Schema
        Of the listed records.
    result_schema : pyarrow.Schema
        Of the result.
    grouping : TaskGrouping
        How to count the records.
    """
    names = record_columns(schema)
    places = tuple(name for name in names if name.startswith("place"))
    column_list = ", ".join(names)
    kept_query = f"SELECT CAST(0 AS TINYINT) AS reject_reason, {column_list} FROM {_GOT}"
    source = ValidatedRecords(
        kept_query,
        f"SELECT user_id, time_us FROM {_GOT}",
        places,
        timed=True,
        local="local_s" in names,
    )

    def counted(batches: Batches) -> Batches:
        rejects: list[pa.RecordBatch] = []
        with Session(memory, threads=1) as session:
            if not register(session, _split_off_rejects(batches, rejects)):
                return
            # A stream of batches can be read once, and repeats are looked for twice.
            session.run(f"CREATE TEMP TABLE {_GOT} AS SELECT {column_list} FROM {RECORDS}")
            query, repeats = deduplicate(session, source)
            yield from session.stream(grouping.counts(query, session))
        yield from rejects
        yield from reject_rows({REPEATS: repeats})

    return partial(catch_errors, counted, result_schema)


def _run_query(task_input: TaskInput, statement: Statement, batches: Batches) -> Batches:
    """Yield the result of a query on a task's records, and the number of malformed lines."""
    # Spark runs a task per core itself.
    with Session(task_input.memory, threads=1) as session:
        query, malformed = statement(session), 0
        for count_malformed in feed(session, task_input, batches):
            yield from session.stream(query)
            malformed += count_malformed()
        yield from reject_rows({UNPARSABLE: malformed})


def feed(session: Session, task_input: TaskInput, batches: Batches) -> Iterator[Callable[[], int]]:
    """Make the task's records available to the session, one input after another.

    Yields how to learn the number of malformed lines once they are scanned.
    """
    files = task_input.files
    if files is None:
        if register(session, batches):
            yield lambda: 0
        return
    for path in (path for batch in batches for path in batch["path"].to_pylist()):
        relation = files.open(session, path)
        session.run(f"CREATE OR REPLACE TEMP VIEW {RECORDS} AS {relation.query}")
        yield relation.skipped


def register(session: Session, batches: Batches) -> bool:
    """Register batches as the session's records; return whether there are any.

    Spark's batches may differ in notes on their types; all are given as the first one has them.
    """
    head = next(batches, None)
    if head is None:
        return False
    head = readable_batch(head)
    schema = head.schema
    readable = map(readable_batch, batches)
    all_batches = (
        pa.RecordBatch.from_arrays(b.columns, schema=schema) for b in chain([head], readable)
    )
    session.register(RECORDS, pa.RecordBatchReader.from_batches(schema, all_batches))
    return True


def _split_off_rejects(batches: Batches, rejects: list[pa.RecordBatch]) -> Batches:
    """Yield listed records; put rows of another kind apart."""
    for batch in batches:
        is_kept = pc.equal(batch["reject_reason"], 0)
        if is_kept.false_count:
            rejects.append(batch.filter(pc.invert(is_kept)))
        yield batch.filter(is_kept) if is_kept.false_count else batch


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch with the columns of `schema`; missing ones are null."""
    available = set(batch.schema.names)
    columns = [
        batch[field.name].cast(field.type)
        if field.name in available
        else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def reject_rows(counts: Mapping[int, int]) -> Batches:
    """Yield rows of reasons and how many records each covers."""
    rows = {reason: n for reason, n in counts.items() if n}
    if rows:
        yield pa.record_batch([list(rows), list(rows.values())], ["reject_reason", "n"])


def catch_errors(work: Work, schema: pa.Schema, batches: Batches) -> Batches:
    """Yield a task's rows, with the columns of `schema`; a failure shows no private content.

    Columns that are missing are null.

    What is wrong with the source stays so if the task is tried again: it is told as a row. Other
    failures may pass, so that Spark tries again; their cause, which may quote records, is cut off.
    """
    source = _WatchedBatches(batches)
    try:
        for batch in work(iter(source)):
            if batch.num_rows:
                yield conform(batch, schema)
    except HexveilError as error:
        failure = error
    except Exception:  # noqa: BLE001  whatever a library says may quote records
        failure = HexveilError(_LOST)
    else:
        return
    # If fetching the input failed, the engine blames the source: Spark should try the task again.
    if isinstance(failure, InputError) and "note" in schema.names and not source.failed:
        row = pa.RecordBatch.from_pydict(
            {"reject_reason": [FAILED], "n": [0], "note": [str(failure)]}
        )
        yield conform(row, schema)
        return
    raise HexveilError(_LOST if source.failed else str(failure))


class _WatchedBatches:
    """PRIVATE. Batches that note whether getting them failed: engines call that malformed."""

    def __init__(self, batches: Batches) -> None:
        self._batches = batches
        self.failed = False

    def __iter__(self) -> Batches:
        try:
            yield from self._batches
        except Exception:
            self.failed = True
            raise
