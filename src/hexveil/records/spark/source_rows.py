"""From a source to rows that tasks can read, and the query that checks the records in them.

Columns are found, and everything about a source is refused, on the driver by the code of the
DuckDB engine: it is shown an empty table with the columns of a frame, or the files themselves.

Parquet through Spark's own reader, by the rules of the DuckDB engine on columns and folders.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  as everybody calls it

from hexveil.base.errors import InputError
from hexveil.records.duckdb.expressions import identifier
from hexveil.records.duckdb.relation import Relation
from hexveil.records.duckdb.session import Session
from hexveil.records.duckdb.source import open_source
from hexveil.records.duckdb.validation import ValidatedRecords, validate_records
from hexveil.records.read_request import ReadRequest
from hexveil.records.sources.source_files import Files, Frame, MemoryTable, Remote
from hexveil.records.spark.session import (
    collect,
    column,
    from_arrow,
    n_cores,
    n_partitions,
    select_columns,
    task_memory,
    to_stream_rows,
    with_arrow_types,
)
from hexveil.records.spark.tasks import RECORDS, Feed, TaskInput


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
    n_tasks : int or None
        Tasks that read them; None for a caller's frame, which would have to be run to know, and
        for a session that does not say.
    relation : Relation
        The columns.
    files : Relation or None
        The files as the driver reads them itself; None where it does not.
    """

    rows: DataFrame
    task_input: TaskInput
    records: ValidatedRecords
    n_tasks: int | None
    relation: Relation
    files: Relation | None = None

    def __repr__(self) -> str:
        return f"TaskRecords(feed={self.task_input.feed!r}, private)"


def open_records(
    spark: SparkSession,
    session: Session,
    source: Files | MemoryTable | Frame | Remote,
    request: ReadRequest,
) -> TaskRecords:
    """Return the records of a source; `session` then has an empty table of their columns.

    Raises
    ------
    InputError
        If the source or a column cannot be used.
    """
    memory = task_memory(spark)
    if isinstance(source, MemoryTable):
        relation = open_source(session, source, request.column_names, request.format)
        records = validate_records(session, relation, request)
        streams = to_stream_rows(spark, source.data)
        return TaskRecords(streams, TaskInput("tables", memory), records, n_cores(spark), relation)
    files = _open_local(session, source, request) if isinstance(source, Files) else None
    if isinstance(source, Files) and files is not None and _is_for_tasks(source, files):
        return _open_files(spark, session, source, files, request, memory)
    frame = _frame(spark, session, source, files)
    frame = with_arrow_types(frame)
    # Nothing runs: Spark's optimizer puts an empty relation in place of what makes the columns.
    empty = collect(frame.where(F.lit(False)))  # noqa: FBT003  a column of it
    relation = open_source(session, MemoryTable(empty), request.column_names, request.format)
    records = validate_records(session, relation, request)
    # Whatever is not in the query is not read; a name that stands in it by chance does no harm.
    used = [name for name in empty.column_names if identifier(name) in records.query]
    rows = select_columns(frame, used)
    task_input = TaskInput("columns", memory)
    if isinstance(source, Frame):
        return TaskRecords(rows, task_input, records, None, relation)
    return TaskRecords(rows, task_input, records, n_partitions(rows), relation, files)


def _open_local(session: Session, source: Files, request: ReadRequest) -> Relation:
    """Return local files as the driver reads them."""
    if source.kind == "gtfs-realtime":
        # Executors would need the bindings, and snapshots are small: one machine reads a month.
        raise InputError(
            "source: Spark reads no GTFS-Realtime feeds; leave engine out, so that DuckDB does."
        )
    return open_source(session, source, request.column_names, request.format)


def _is_for_tasks(source: Files, files: Relation) -> bool:
    """Return whether tasks open the files themselves, since Spark's own reader cannot."""
    return source.kind != "parquet" or files.is_foreign


def _frame(
    spark: SparkSession,
    session: Session,
    source: Files | Frame | Remote,
    files: Relation | None,
) -> DataFrame:
    """Return the records as a frame."""
    if isinstance(source, Frame):
        frame: DataFrame = source.data
        return frame
    if isinstance(source, Remote):
        return remote_parquet(spark, source)
    assert files is not None  # noqa: S101  local files were opened
    return local_parquet(spark, source, files, session)


def _open_files(
    spark: SparkSession,
    session: Session,
    source: Files,
    relation: Relation,
    request: ReadRequest,
    memory: str,
) -> TaskRecords:
    """Return files, one for each task, which opens it just as the driver does."""
    if relation.documents and request.cache is None:
        relation.load_files()
    session.run(f"CREATE OR REPLACE TEMP VIEW {RECORDS} AS {relation.query}")
    records = validate_records(
        session, replace(relation, query=f"SELECT * FROM {RECORDS}"), request
    )
    scans = [scan_of(relation, [path]) for path in source.paths]
    rows = from_arrow(spark, pa.table({"scan": pa.array([scan for _, scan in scans], pa.string())}))
    rows = rows.repartition(len(scans))
    task_input = TaskInput(scans[0][0], memory)
    return TaskRecords(rows, task_input, records, len(scans), relation, relation)


def scan_of(relation: Relation, paths: Sequence[str]) -> tuple[Feed, str]:
    """Return how tasks read files, and the query of documents, or how text or Parquet is read."""
    if relation.text is not None:
        return "text", relation.text.stream(paths).pack()
    if relation.pack_files is not None:
        return "parquet", relation.pack_files(paths)
    assert relation.select_files is not None  # noqa: S101  every relation of files has parts
    return "files", relation.select_files(paths)


PATH = "path of the file"
"""Column of the address of each row's file."""
TEXT_FORMATS = (".csv", ".tsv", ".json", ".jsonl", ".ndjson")


def local_parquet(
    spark: SparkSession,
    source: Files,
    relation: Relation,
    session: Session,
) -> DataFrame:
    """Return local files, with the columns that their folders' names make."""
    frame = _read(spark, list(map(local_address, source.paths)), source.label)
    folders = [name for name in relation.schema if name not in frame.columns]
    by_path = _folders(session, relation, source.paths, folders)
    if not by_path:
        return frame
    frame = frame.withColumn(PATH, F.col("_metadata.file_path"))
    return _with_folders(spark, frame, by_path, folders).drop(PATH)


def local_address(path: str) -> str:
    """Return a local path as Spark finds it."""
    # Without a scheme Spark looks in its default file system, which on a cluster is not this disk.
    return f"file:{_literally(str(Path(path).absolute()))}"


def decoded_path(address: str) -> str:
    """Return the path of a percent-encoded address, as Spark reports files."""
    return unquote(urlsplit(address).path)


def remote_parquet(spark: SparkSession, source: Remote) -> DataFrame:
    """Return files that Spark finds by their addresses."""
    for path in source.paths:
        if path.lower().removesuffix(".gz").removesuffix(".zst").endswith(TEXT_FORMATS):
            raise InputError(
                f"source: {path!r} is text at a remote address; load it with Spark, all columns as "
                "text, and pass the DataFrame."
            )
        if _exists(spark, f"{path.rstrip('/')}/_delta_log"):
            raise InputError(
                f"source: {path!r} is a Delta table; pass "
                f'spark.read.format("delta").load({path!r}) instead.'
            )
    return _read(spark, source.paths, source.label)


def _read(spark: SparkSession, paths: Sequence[str], label: str) -> DataFrame:
    # CORRECTED: dates as they are written, whatever the session sets, never shifted to another
    # calendar.
    reader = spark.read.option("mergeSchema", "true").option("datetimeRebaseMode", "CORRECTED")
    try:
        frame = reader.parquet(*paths)
        # A client of Spark Connect looks for the files only when it is asked for their columns.
        _ = frame.schema
    except (PySparkException, Py4JError) as error:
        failure = refused_parquet(str(error), label)
    else:
        return frame
    raise failure


def refused_parquet(text: str, label: str) -> InputError:
    """Return the message on files that Spark does not read, by the words of its error."""
    if "NANOS" in text:
        return InputError(
            f"source: {label!r} has times in nanoseconds, which Spark does not read; write them in "
            'microseconds, or read with engine="duckdb".'
        )
    if "PATH_NOT_FOUND" in text:
        return InputError(f"source: there is no file {label!r}; check the path.")
    return InputError(
        f"source: {label!r} cannot be read by Spark as Parquet; check the path, the rights to it, "
        "and that all files have the same columns."
    )


def _literally(path: str) -> str:
    """Return a path in which no letter is a pattern to Hadoop."""
    return "".join(f"\\{c}" if c in "*?[]{}\\" else c for c in path)


def _exists(spark: SparkSession, path: str) -> bool:
    """Return whether a file or folder exists; False for a scheme that Spark does not know."""
    try:
        # Nothing is read: Spark finds the files of a path before it says what columns they have.
        _ = spark.read.format("binaryFile").load(path).schema
    except (PySparkException, Py4JError):
        return False
    return True


def _folders(
    session: Session, relation: Relation, paths: Sequence[str], names: Sequence[str]
) -> dict[str, tuple[object, ...]]:
    """Return the key=value columns of each file's folders, as DuckDB reads them."""
    if not names or relation.select_files is None:
        return {}
    columns = ", ".join(map(identifier, names))
    by_path = {}
    for path in paths:
        rows = session.rows(f"SELECT {columns} FROM ({relation.select_files([path])}) LIMIT 1")
        by_path[path] = rows[0] if rows else (None,) * len(names)
    return by_path


def _with_folders(
    spark: SparkSession,
    frame: DataFrame,
    folders: dict[str, tuple[object, ...]],
    names: Sequence[str],
) -> DataFrame:
    """Join the files' rows with the columns of their folders."""
    by_absolute_path = {str(Path(path).absolute()): values for path, values in folders.items()}
    by_address = {}
    for row in frame.select(column(PATH)).distinct().collect():
        by_address[row[0]] = by_absolute_path[decoded_path(row[0])]
    columns = {PATH: pa.array(list(by_address), pa.string())}
    for i, name in enumerate(names):
        columns[name] = pa.array([values[i] for values in by_address.values()], pa.string())
    return frame.join(F.broadcast(from_arrow(spark, pa.table(columns))), PATH, "left")
