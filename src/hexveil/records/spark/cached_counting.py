"""PRIVATE. Counts of many files from a cache, by Spark: only files that are new are read.

Rules and entries are those of the DuckDB engine (`hexveil.records.duckdb`): which files are
cached as one, which entry holds, what is refused. A task reads the files of an entry by that
engine's own code, and writes the table; of files at addresses, which that engine does not find,
Spark brings the task the records. Tasks read the tables too, and Spark adds them up; the driver
compares their digests and has heads of entries, never a pair. An entry of local files that one
engine wrote is read by the other.

A task that is tried again, or done twice, writes a file of another name: the driver keeps the file
that the answer names, and what else is in the folder goes with it.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import __version__ as spark_version
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  as everybody calls it

from hexveil.base import atomic_files
from hexveil.base.errors import InputError, StorageError
from hexveil.records.duckdb.cached_reading import has_mixed_columns
from hexveil.records.duckdb.expressions import file_list
from hexveil.records.duckdb.file_groups import VIEW, CacheQuery, CacheState, GroupedFiles
from hexveil.records.duckdb.session import Session
from hexveil.records.duckdb.validation import used_columns
from hexveil.records.read_request import DAY_AND_TIME, ReadRequest
from hexveil.records.sources.cache import (
    CacheEntry,
    CacheFolder,
    FileStamp,
    TimeSpan,
    refuse_changed_while_read,
    stamp_address,
    stamp_file,
)
from hexveil.records.sources.sealed_files import digest_of
from hexveil.records.sources.source_files import Files, Frame, MemoryTable, Remote
from hexveil.records.sources.versions import Versions
from hexveil.records.spark import tasks
from hexveil.records.spark.counting import RecordTally, add_up, raise_task_failure, tally_schema
from hexveil.records.spark.session import collect, column, from_arrow, map_batches
from hexveil.records.spark.source_rows import TaskRecords, open_records, refused_parquet, scan_of

ENTRY = "number of the entry"
"""Column of the number of each row's entry in a cache."""
_PATH = "path of the file"
_ANSWERS = pa.schema(
    [
        ("entry", pa.int32()),
        ("answer", pa.string()),
        ("reject_reason", pa.int32()),
        ("note", pa.string()),
    ]
)
"""What a task found of an entry, as JSON; or a failure."""
NOT_SHARED = (
    "cache: Spark's executors do not see the folder, or may not write there; name a folder that "
    "they share with this machine."
)
Answer = Callable[[Session, int, Callable[[], int]], dict[str, Any]]
"""From a session with the records of an entry in `VIEW`, its number and its malformed lines."""


def count_cached(
    spark: SparkSession,
    session: Session,
    source: Files | MemoryTable | Frame | Remote,
    request: ReadRequest,
    *,
    is_private: bool = False,
) -> RecordTally:
    """Return the counts and sums of all records, from the cache where it has an entry.

    Parameters
    ----------
    is_private : bool
        Whether presence is private: see `CacheState.of`.

    Raises
    ------
    InputError
        If the folder cannot be used, or a file has grown under its declared version.
    """
    # Else all records are counted: `resolve_cache` allows no cache of anything else.
    assert request.cache is not None  # noqa: S101
    assert isinstance(source, (Files, Remote))  # noqa: S101
    # Listed before anything is opened: what changes from now on is noticed.
    stamps, addresses = list_files(spark, source, request.cache.versions)
    state = CacheState.of(request.cache, stamps, is_private=is_private)
    records = open_records(spark, session, source, request)
    relation, mixed = records.relation, len(stamps) < len(addresses)
    kind, terms = "parquet", ["spark", spark_version]
    if isinstance(source, Files):
        mixed = has_mixed_columns(session, source, relation, stamps)
        kind, terms = source.kind, []
    else:
        # Spark alone reads these files, and gives each column one type for all of them.
        terms += [f"{field.name} {field.dataType}" for field in records.rows.schema.fields]
    session.run(f"CREATE OR REPLACE TEMP VIEW {VIEW} AS {relation.query}")
    query = CacheQuery.of(session, relation, request, kind, terms)
    used = used_columns(session, replace(relation, query=f"SELECT * FROM {VIEW}"), request)
    times = tuple(ref.column for role, ref in used if role in ("time", *DAY_AND_TIME))
    asked = _AskedTasks(spark, source, state, addresses, records, query, times, mixed)
    found = GroupedFiles(query, state, mixed, asked.measure).entered(asked.fill)
    keys = query.keys(session)
    schema = tally_schema(keys, found.request)
    # Of entries without a table, which are too many for sums, only the counts are known.
    repeats = sum(entry.repeats for entry in found.used)
    in_tables = sum(e.reasons.get(0, 0) - e.repeats for e in found.used if e.table)
    others = found.left_out.get(0, 0) - repeats - in_tables
    rejects = tasks.reject_rows({**found.left_out, 0: others, tasks.REPEATS: repeats})
    rows = [tasks.conform(batch, schema) for batch in rejects]
    counts = from_arrow(spark, pa.Table.from_batches(rows, schema))
    if found.tables:
        scans = [f"SELECT * FROM read_parquet({file_list([table])})" for table in found.tables]
        feed = from_arrow(spark, pa.table({"scan": scans})).repartition(len(scans))
        task_input = tasks.TaskInput("files", records.task_input.memory)
        work = tasks.query_task(task_input, _kept_rows, schema)
        counts = counts.unionByName(map_batches(feed, work, schema))
    return RecordTally(records, keys, add_up(counts, keys, records), found.request, found.left_out)


def _kept_rows(_: Session) -> str:
    return f"SELECT 0 AS reject_reason, * FROM {tasks.RECORDS}"


@dataclass(frozen=True, repr=False)
class _AskedTasks:
    """PRIVATE. Tasks that read the files of an entry each."""

    spark: SparkSession
    source: Files | Remote
    cache: CacheState
    addresses: Sequence[tuple[str, str]]
    records: TaskRecords
    query: CacheQuery
    times: tuple[str, ...]
    mixed: bool

    def measure(self, paths: Sequence[str]) -> dict[str, TimeSpan]:
        """Return the time spans of files, found by tasks that read their times alone."""
        found = self._ask([[path] for path in paths], partial(_span, self._in_tasks), self.times)
        return {path: TimeSpan(**_tuples(found.get(i, {}))) for i, path in enumerate(paths)}

    def fill(
        self, store: CacheFolder, missing: Sequence[tuple[CacheEntry, Sequence[str]]]
    ) -> list[CacheEntry]:
        """Read the files of entries, all at once, and return the entries.

        Heads are written when the tables are there and no file has changed.
        """
        dated = [bool(template.window) for template, _ in missing]
        before = self.cache.stamps
        with store.workplace() as folder:
            work = partial(_filled, self._in_tasks, str(folder.absolute()), dated)
            answers = self._ask([paths for _, paths in missing], work)
            refused = [a["refused"] for a in answers.values() if "refused" in a]
            if refused:
                raise StorageError(min(refused))
            # After all is read: a file that is written meanwhile may have been read in half.
            now, _ = list_files(self.spark, self.source, self.cache.versions)
            looked_at = {*before, *now} if self.mixed else before
            refuse_changed_while_read(before, {path: now.get(path) for path in looked_at})
            return [
                _stored(store, folder, template, answers.get(i, {"is_kept": True}))
                for i, (template, _) in enumerate(missing)
            ]

    def _ask(
        self, groups: Sequence[Sequence[str]], answer: Answer, only: Sequence[str] | None = None
    ) -> dict[int, dict[str, Any]]:
        """Return the answers of tasks for groups of files, by number; none for an empty one."""
        if not groups:
            return {}
        # A group in one task: two tables of one entry would be half of it each.
        if isinstance(self.source, Files):
            feed, rows = self._scans(groups)
        else:
            rows = self._columns(groups, only).repartition(len(groups), ENTRY)
            feed, rows = "columns", rows.sortWithinPartitions(ENTRY)
        task_input = replace(self.records.task_input, feed=feed)
        work = partial(tasks.catch_errors, partial(_answers, task_input, answer), _ANSWERS)
        table = collect(map_batches(rows, work, _ANSWERS))
        raise_task_failure(table)
        answers = map(json.loads, table["answer"].to_pylist())
        return dict(zip(table["entry"].to_pylist(), answers, strict=True))

    @cached_property
    def _in_tasks(self) -> CacheQuery:
        """The query without what tasks lack; they group by the engine, within its memory."""
        request = replace(self.query.request, cache=None)
        checked, undated = (
            replace(records, text=None, columnar=False)
            for records in (self.query.checked, self.query.undated)
        )
        return replace(self.query, request=request, checked=checked, undated=undated)

    def _scans(self, groups: Sequence[Sequence[str]]) -> tuple[tasks.Feed, DataFrame]:
        """Return a row for each group of local files, which tasks open."""
        relation = self.records.relation
        # Packed files that are damaged or too large are refused here.
        relation.load_files([path for paths in groups for path in paths])
        scans = [scan_of(relation, paths) for paths in groups]
        numbers = pa.array(range(len(scans)), pa.int32())
        table = pa.table({ENTRY: numbers, "scan": [scan for _, scan in scans]})
        return scans[0][0], from_arrow(self.spark, table).repartition(len(scans))

    def _columns(self, groups: Sequence[Sequence[str]], only: Sequence[str] | None) -> DataFrame:
        """Return the rows of files at addresses, with the number of their group."""
        number = {path: n for n, paths in enumerate(groups) for path in paths}
        wanted = {address: number[path] for path, address in self.addresses if path in number}
        numbers = pa.table({_PATH: list(wanted), ENTRY: pa.array(wanted.values(), pa.int32())})
        path, rows = F.col("_metadata.file_path"), self.records.rows
        # The other columns are null, and not read.
        columns = [
            column(field.name)
            if only is None or field.name in only
            else F.lit(None).cast(field.dataType).alias(field.name)
            for field in rows.schema.fields
        ]
        # The condition is on a constant of each file: Spark opens no other file.
        of_files = rows.where(path.isin(list(wanted))).select(path.alias(_PATH), *columns)
        return of_files.join(F.broadcast(from_arrow(self.spark, numbers)), _PATH).drop(_PATH)


def _answers(task_input: tasks.TaskInput, answer: Answer, batches: tasks.Batches) -> tasks.Batches:
    """Yield the answer of each entry of a task."""
    for number, rows in tasks.runs(batches, ENTRY):
        own = (batch.select([n for n in batch.schema.names if n != ENTRY]) for batch in rows)
        with tasks.TaskSession(task_input.memory) as session:
            for count_malformed in tasks.feed(session, task_input, own):
                # A stream of batches can be read once, and repeats are looked for twice.
                kind = "TABLE" if task_input.feed == "columns" else "VIEW"
                session.run(f"CREATE TEMP {kind} {VIEW} AS SELECT * FROM {tasks.RECORDS}")
                found = json.dumps(answer(session, number, count_malformed))
                row = {"entry": [number], "answer": [found], "reject_reason": [0], "note": [None]}
                yield pa.RecordBatch.from_pydict(row, schema=_ANSWERS)


def _span(query: CacheQuery, session: Session, *_: object) -> dict[str, Any]:
    return asdict(query.span(session))


def _filled(
    query: CacheQuery,
    folder: str,
    dated: Sequence[bool],
    session: Session,
    number: int,
    malformed: Callable[[], int],
) -> dict[str, Any]:
    """Count the records of an entry and write its table; return its counts, name and digest."""
    counts = query.counted(session, dated=dated[number])
    counts = counts.with_malformed(malformed())
    is_kept = query.is_kept(counts)
    answer = {"reasons": counts.left_out, "repeats": counts.repeats, "is_kept": is_kept}
    if not (is_kept and counts.left_out.get(0)):
        return answer
    path = Path(folder) / secrets.token_hex(16)
    try:
        # Private from the first byte, and never a file that is there.
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        query.write(counts.pairs, str(path))
        atomic_files.fsync(path)
    except (FileNotFoundError, PermissionError):
        return {"refused": NOT_SHARED}
    except (StorageError, OSError) as error:
        why = atomic_files.reason(error) if isinstance(error, OSError) else "disk or memory is full"
        return {"refused": f"the cache folder cannot be written ({why}); free space or name "
                "another, and run again."}  # fmt: skip
    return answer | {"name": path.name, "digest": digest_of(path)}


def _stored(
    store: CacheFolder, folder: Path, template: CacheEntry, answer: Mapping[str, Any]
) -> CacheEntry:
    """Store an entry by the answer of a task; return it."""
    reasons = {int(reason): n for reason, n in answer.get("reasons", {}).items()}
    entry = replace(template, reasons=reasons, repeats=answer.get("repeats", 0))
    if "name" not in answer:
        return store.put(entry, None) if answer["is_kept"] else entry
    if not (folder / answer["name"]).is_file():
        raise StorageError(NOT_SHARED)
    return store.adopt(replace(entry, digest=answer["digest"]), folder / answer["name"])


def _tuples(spans: Mapping[str, Any]) -> dict[str, Any]:
    return {name: ends and tuple(ends) for name, ends in spans.items()}


def list_files(
    spark: SparkSession, source: Files | Remote, versions: Versions
) -> tuple[dict[str, FileStamp], list[tuple[str, str]]]:
    """Return the identities of files by path, and path and address of all that Spark alone finds.

    Raises
    ------
    InputError
        If a file has no declared version, or cannot be looked up.
    """
    if isinstance(source, Files):
        return {path: stamp_file(path, _declared(versions, path)) for path in source.paths}, []
    listed = [(unquote(name), name, size, at) for name, size, at in sorted(_listing(spark, source))]
    stamps = {
        path: stamp_address(address, _declared(versions, path), size, changed)
        for path, address, size, changed in listed
    }
    return stamps, [(path, address) for path, address, *_ in listed]


def _declared(versions: Versions, path: str) -> str:
    return versions.declared[versions.number(path)][1]


def _listing(spark: SparkSession, source: Remote) -> list[tuple[str, int, int]]:
    """Return address, bytes and time of change (nanoseconds) of each file that Spark finds."""
    # Not a byte of a file is read for these columns.
    failure: InputError | None = None
    try:
        files = spark.read.format("binaryFile").load(list(source.paths))
        _ = files.schema
    except (PySparkException, Py4JError) as error:
        failure = refused_parquet(str(error), source.label)
    # Raised here: else Spark's error would hang on it as its context.
    if failure is not None:
        raise failure
    table = collect(
        files.select(
            F.col("_metadata.file_path").alias("address"),
            F.col("_metadata.file_size").alias("size"),
            F.unix_micros("_metadata.file_modification_time").alias("changed"),
        )
    )
    rows = zip(*(table[name].to_pylist() for name in table.column_names), strict=True)
    return [(address, size, 1000 * changed) for address, size, changed in rows]
