"""Parquet through Spark's own reader, by the rules of the DuckDB engine on columns and folders."""

from __future__ import annotations

from collections.abc import Sequence
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
from hexveil.records.sources.source_files import Files, Remote
from hexveil.records.spark.frames import column, from_arrow

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
