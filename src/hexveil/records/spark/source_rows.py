"""From a source to rows that tasks can read, and the query that checks the records in them.

Columns are found, and everything about a source is refused, on the driver by the code of the
DuckDB engine: it is shown an empty table with the columns of a frame, or the files themselves.

Local files are opened by tasks, just as the driver opens them; Parquet at addresses by Spark's own
reader.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  as everybody calls it

from hexveil.base.errors import InputError
from hexveil.records.duckdb.expressions import identifier
from hexveil.records.duckdb.session import Session
from hexveil.records.duckdb.source import open_source
from hexveil.records.duckdb.validation import ValidatedRecords, validate_records
from hexveil.records.read_request import ReadRequest
from hexveil.records.sources.source_files import Files, Frame, MemoryTable, Remote
from hexveil.records.spark.session import (
    collect,
    from_arrow,
    select_columns,
    task_memory,
    to_stream_rows,
    with_arrow_types,
)
from hexveil.records.spark.tasks import RECORDS, LocalFiles, TaskInput


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
    """

    rows: DataFrame
    task_input: TaskInput
    records: ValidatedRecords

    def __repr__(self) -> str:
        return "TaskRecords(private)"


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
        return TaskRecords(streams, TaskInput(memory, "tables"), records)
    if isinstance(source, Files):
        return _open_files(spark, session, source, request, memory)
    frame = source.data if isinstance(source, Frame) else remote_parquet(spark, source)
    frame = with_arrow_types(frame)
    # Nothing runs: Spark's optimizer puts an empty relation in place of what makes the columns.
    empty = collect(frame.where(F.lit(False)))  # noqa: FBT003  a column of it
    relation = open_source(session, MemoryTable(empty), request.column_names, request.format)
    records = validate_records(session, relation, request)
    # Whatever is not in the query is not read; a name that stands in it by chance does no harm.
    used = [name for name in empty.column_names if identifier(name) in records.query]
    rows = select_columns(frame, used)
    return TaskRecords(rows, TaskInput(memory), records)


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
    # Tasks have a folder of their own.
    paths = [str(Path(path).absolute()) for path in source.paths]
    rows = from_arrow(spark, pa.table({"path": paths})).repartition(len(paths))
    return TaskRecords(rows, TaskInput(memory, files), records)


TEXT_FORMATS = (".csv", ".tsv", ".json", ".jsonl", ".ndjson")


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


def _exists(spark: SparkSession, path: str) -> bool:
    """Return whether a file or folder exists; False for a scheme that Spark does not know."""
    try:
        # Nothing is read: Spark finds the files of a path before it says what columns they have.
        _ = spark.read.format("binaryFile").load(path).schema
    except (PySparkException, Py4JError):
        return False
    return True
