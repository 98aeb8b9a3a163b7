"""PRIVATE. Counts of many files from a cache, by Spark: only files that are new are read.

Rules and entries are those of the DuckDB engine (`hexveil.records.duckdb`): which files are
cached as one, which entry holds, what is refused. A task reads the files of an entry by that
engine's own code, and writes the table; of files at addresses, which that engine does not find,
Spark brings the task the records. Spark adds the tables up; the driver compares their digests and
has heads of entries, never a pair. An entry of local files that one engine wrote is read by the
other.

A task that is tried again, or done twice, writes a file of another name: the driver keeps the file
that the answer names, and what else is in the folder goes with it.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
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
from hexveil.base.errors import HexveilError, InputError, StorageError
from hexveil.records.duckdb.aggregation import GroupKeys
from hexveil.records.duckdb.cached_reading import VIEW, CacheQuery, has_mixed_columns
from hexveil.records.duckdb.file_groups import CacheState, EnteredFiles, GroupedFiles
from hexveil.records.duckdb.relation import Relation
from hexveil.records.duckdb.session import Session
from hexveil.records.duckdb.validation import used_columns
from hexveil.records.read_request import DAY_AND_TIME, ReadRequest
from hexveil.records.sources.cache import (
    CACHE_CHANGED,
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
from hexveil.records.spark.counting import (
    RecordTally,
    add_up_groups,
    raise_task_failure,
    tally_keys,
    tally_schema,
)
from hexveil.records.spark.session import (
    collect,
    column,
    ddl_type,
    from_arrow,
    map_batches,
    n_cores,
)
from hexveil.records.spark.source_rows import (
    TaskRecords,
    local_address,
    open_records,
    refused_parquet,
    scan_of,
)

ENTRY = "number of the entry"
"""Column of the number of each row's entry in a cache."""
_ANSWERS = pa.schema(
    [
        ("entry", pa.int32()),
        ("answer", pa.string()),
        ("reject_reason", pa.int32()),
        ("note", pa.string()),
    ]
)
"""What a task found of an entry, as JSON; or a failure."""
_JOBS = 8
"""Jobs at once where the session does not say how many tasks run."""
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
    versions = request.cache.versions
    stamps, addresses = list_files(spark, source, versions)
    state = CacheState.of(request.cache, stamps, is_private=is_private)
    records = open_records(spark, session, source, request)
    relation, mixed = records.relation, len(stamps) < len(addresses)
    terms: tuple[str, ...] = ()
    if isinstance(source, Files):
        mixed = has_mixed_columns(session, source, relation, stamps)
    else:
        # Spark alone reads these files, and gives each column one type for all of them.
        kinds = [f"{field.name} {field.dataType}" for field in records.rows.schema.fields]
        terms = ("spark", spark_version, *kinds)
    session.run(f"CREATE OR REPLACE TEMP VIEW {VIEW} AS {relation.query}")
    kind = source.kind if isinstance(source, Files) else "parquet"
    query = CacheQuery.of(session, relation, request, kind, terms)
    used = used_columns(session, replace(relation, query=f"SELECT * FROM {VIEW}"), request)
    times = tuple(ref.column for role, ref in used if role in ("time", *DAY_AND_TIME))
    asked = _AskedTasks(spark, source, state, addresses, records, query, times, mixed)
    found = GroupedFiles(query, state, mixed, asked.measure).entered(asked.fill)
    keys = query.keys(session)
    frame = _added_up(spark, query, records, keys, found)
    return RecordTally(records, keys, frame, found.request, found.left_out)


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
        """Return what tasks answer for groups of files, by number; none for one without a row."""
        if not groups:
            return {}
        if isinstance(self.source, Files):
            feed, parts = _scans(self.spark, self.records.relation, groups)
        else:
            feed, parts = "columns", self._columns(groups, only)
        task_input = tasks.TaskInput(feed, self.records.task_input.memory)
        work = partial(tasks.catch_errors, partial(_answers, task_input, answer), _ANSWERS)
        # A job for each part: of a union a single task would read all parts of one partition.
        with ThreadPoolExecutor(n_cores(self.spark) or _JOBS) as jobs:
            found = jobs.map(lambda part: collect(map_batches(part, work, _ANSWERS)), parts)
            table = pa.concat_tables(found)
        raise_task_failure(table["note"], table["reject_reason"].to_numpy())
        numbers, texts = table["entry"].to_pylist(), table["answer"].to_pylist()
        if len(set(numbers)) < len(numbers):
            # Two tables of one entry would be half of it each.
            raise HexveilError("Spark read a file in parts; read without cache.")
        return {number: json.loads(text) for number, text in zip(numbers, texts, strict=True)}

    @cached_property
    def _in_tasks(self) -> CacheQuery:
        """The query without what tasks lack; they group by the engine, within its memory."""
        request = replace(self.query.request, cache=None)
        checked, undated = (
            replace(records, text=None, columnar=False)
            for records in (self.query.checked, self.query.undated)
        )
        return replace(self.query, request=request, checked=checked, undated=undated)

    def _columns(
        self, groups: Sequence[Sequence[str]], only: Sequence[str] | None
    ) -> list[DataFrame]:
        """Return the rows of files at addresses, those of each group in one part."""
        rows = self.records.rows
        # The others are null, and not read.
        columns = [
            column(field.name)
            if only is None or field.name in only
            else F.lit(None).cast(field.dataType).alias(field.name)
            for field in rows.schema.fields
        ]
        parts = []
        for number, paths in enumerate(groups):
            # The condition is on a constant of each file: Spark opens no other file.
            addresses = [address for path, address in self.addresses if path in paths]
            of_group = (
                rows if self.mixed else rows.where(F.col("_metadata.file_path").isin(addresses))
            )
            parts.append(of_group.select(F.lit(number).alias(ENTRY), *columns).coalesce(1))
        return parts


def _scans(
    spark: SparkSession, relation: Relation, groups: Sequence[Sequence[str]]
) -> tuple[tasks.Feed, list[DataFrame]]:
    """Return a row for each group of local files, which tasks open."""
    # Packed files that are damaged or too large are refused here.
    relation.load_files([path for paths in groups for path in paths])
    scans = [scan_of(relation, paths) for paths in groups]
    numbers = pa.array(range(len(scans)), pa.int32())
    table = pa.table({ENTRY: numbers, "scan": pa.array([scan for _, scan in scans], pa.string())})
    return scans[0][0], [from_arrow(spark, table).repartition(len(scans))]


def _answers(task_input: tasks.TaskInput, answer: Answer, batches: tasks.Batches) -> tasks.Batches:
    """Yield the answer of each entry of a task."""
    for number, session, malformed in _entries(task_input, batches):
        found = json.dumps(answer(session, number, malformed))
        row = {"entry": [number], "answer": [found], "reject_reason": [0], "note": [None]}
        yield pa.RecordBatch.from_pydict(row, schema=_ANSWERS)


def _entries(
    task_input: tasks.TaskInput, batches: tasks.Batches
) -> Iterator[tuple[int, Session, Callable[[], int]]]:
    """Yield the number of each entry of a task, and a session with its records in `VIEW`."""
    filled = (batch for batch in batches if batch.num_rows)
    if task_input.feed == "columns":
        for head in filled:
            rows = (
                batch.select([name for name in batch.schema.names if name != ENTRY])
                for part in ([head], filled)
                for batch in part
            )
            with tasks.TaskSession(task_input.memory) as session:
                tasks.register(session, rows)
                # A stream of batches can be read once, and repeats are looked for twice.
                session.run(f"CREATE TEMP TABLE {VIEW} AS SELECT * FROM {tasks.RECORDS}")
                yield head[ENTRY][0].as_py(), session, lambda: 0
        return
    for batch in filled:
        for number, scan in zip(batch[ENTRY].to_pylist(), batch["scan"].to_pylist(), strict=True):
            with tasks.TaskSession(task_input.memory) as session:
                malformed = tasks.open_scan(session, task_input.feed, scan)
                session.run(f"CREATE TEMP VIEW {VIEW} AS SELECT * FROM {tasks.RECORDS}")
                yield number, session, malformed


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


def _added_up(
    spark: SparkSession,
    query: CacheQuery,
    records: TaskRecords,
    keys: GroupKeys,
    found: EnteredFiles,
) -> DataFrame:
    """Return counts and sums by reason, cell and unit, as of records that were read at once."""
    by_bin = query.request.rules.bins is not None
    schema = tally_schema(keys, squares=query.squares, by_bin=by_bin)
    repeats = sum(entry.repeats for entry in found.used)
    in_tables = sum(e.reasons.get(0, 0) - e.repeats for e in found.used if e.table)
    # Beside rejects and repeats: records of entries without a table, which are too many.
    others = found.left_out.get(0, 0) - repeats - in_tables
    counts = {**found.left_out, 0: others, tasks.REPEATS: repeats}
    partial_sums = from_arrow(spark, tasks.reject_table(schema, counts))
    if found.tables:
        addresses = [local_address(table) for table in found.tables]
        partial_sums = partial_sums.unionByName(_pairs_of_tables(spark, addresses, schema))
    return add_up_groups(partial_sums, tally_keys(keys), records)


def _pairs_of_tables(spark: SparkSession, tables: Sequence[str], schema: pa.Schema) -> DataFrame:
    """Return the rows of entries' tables, with the columns of a tally."""
    gone = False
    try:
        rows = spark.read.parquet(*tables)
        _ = rows.schema
    except (PySparkException, Py4JError):
        gone = True
    if gone:
        raise StorageError(CACHE_CHANGED)
    added = {"reject_reason": F.lit(0), "note": F.lit(None)}
    # Not a plain cast: of a sum that exceeds 64 bits, which is never used, that would fail.
    return rows.select(
        *(
            added.get(field.name, F.col(field.name) if field.name in rows.columns else F.lit(None))
            .try_cast(ddl_type(field.type))
            .alias(field.name)
            for field in schema
        )
    )


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
