"""Between Arrow and Spark: schemas, columns whatever their names, frames that tasks make."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  as everybody calls it
from pyspark.sql.types import ArrayType, DataType, MapType, StructType
from pyspark.storagelevel import StorageLevel

from hexveil.records.spark.session import checkpoint_folder, translate_errors

if TYPE_CHECKING:
    from hexveil.records.spark.tasks import Work

_DDL_TYPES = {
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.string(): "string",
    pa.float64(): "double",
    pa.binary(): "binary",
}
_ROWS_SENT = 1 << 16
_SMALL = 2**26
"""Bytes of a table that every task gets whole."""


def column(name: str) -> Column:
    """Return a column of a frame by exactly this name, dots and all."""
    # Without backticks a dot means a field inside a column.
    return F.col("`" + name.replace("`", "``") + "`")


def map_batches(frame: DataFrame, work: Work, schema: pa.Schema) -> DataFrame:
    """Map a task over a frame's batches of rows; nothing runs yet."""
    return frame.mapInArrow(work, ddl_schema(schema))


def ddl_schema(schema: pa.Schema) -> str:
    """Return a schema as Spark writes it in DDL."""
    return ", ".join(f"{field.name} {ddl_type(field.type)}" for field in schema)


def ddl_type(kind: pa.DataType) -> str:
    """Return a type of Arrow as Spark writes it in DDL."""
    return _DDL_TYPES[kind]


def checkpoint(frame: DataFrame) -> DataFrame:
    """Return a frame checkpointed now, where the session has a folder for that; else as it is."""
    if checkpoint_folder(frame.sparkSession) is None:
        return frame
    return translate_errors(frame.checkpoint)


def stored(frame: DataFrame) -> DataFrame:
    """Return a frame that Spark makes now and keeps: checkpointed, or in memory and on disk."""
    checkpointed = checkpoint(frame)
    if checkpointed is frame:
        # Not serialised in memory: Java would hold all rows of a part twice while it is made.
        frame.persist(StorageLevel.MEMORY_AND_DISK_DESER)
        translate_errors(frame.count)
    return checkpointed


def with_arrow_types(frame: DataFrame) -> DataFrame:
    """Cast columns that Arrow has no type for to text, so that every column reaches a task.

    A variant is text too, which is then JSON like any other.
    """
    # Of a client's frame this is the first that the server hears.
    fields = translate_errors(lambda: frame.schema).fields
    return frame.select(
        *(
            column(field.name)
            if has_arrow(field.dataType)
            else column(field.name).cast("string").alias(field.name)
            for field in fields
        )
    )


def select_columns(frame: DataFrame, names: Iterable[str]) -> DataFrame:
    """Select columns of a frame; a constant if there are none, since rows are counted too."""
    selected = [column(name) for name in names]
    # A frame without columns loses its rows on the way to Arrow.
    return frame.select(*(selected or [F.lit(0).alias("nothing")]))


def collect(frame: DataFrame) -> pa.Table:
    """Return the rows of a frame, which must fit on the driver."""
    return translate_errors(frame.toArrow)


def from_arrow(spark: SparkSession, table: pa.Table) -> DataFrame:
    """Return a small table as a frame."""
    if not table.num_rows:
        # A client of Spark Connect looks for types in rows, of which there are none.
        return translate_errors(lambda: spark.createDataFrame([], ddl_schema(table.schema)))
    return translate_errors(lambda: spark.createDataFrame(table))


def broadcast_table(spark: SparkSession, table: pa.Table) -> DataFrame:
    """Return a table as a frame, which every task gets whole unless it is large."""
    frame = from_arrow(spark, table)
    # A join with a broadcast table moves no pair between executors.
    return F.broadcast(frame) if table.nbytes < _SMALL else frame


def to_stream_rows(spark: SparkSession, table: pa.Table) -> DataFrame:
    """Return a table as rows of its parts in Arrow's stream format: no type changes on the way."""
    streams = [_to_stream(batch) for batch in table.to_batches(max_chunksize=_ROWS_SENT)]
    return from_arrow(spark, pa.table({"data": pa.array(streams, pa.binary())}))


def _to_stream(batch: pa.RecordBatch) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return sink.getvalue()


_ARROW_TYPES = frozenset(
    (
        *("boolean", "byte", "tinyint", "short", "smallint", "int", "integer", "long", "bigint"),
        *("float", "double", "decimal", "string", "char", "varchar", "binary"),
        *("date", "timestamp", "timestamp_ntz", "time", "daytimeinterval", "void"),
    )
)


def has_arrow(kind: DataType) -> bool:
    """Return whether all of a type reaches a task as itself."""
    if isinstance(kind, StructType):
        return all(has_arrow(field.dataType) for field in kind.fields)
    if isinstance(kind, ArrayType):
        return has_arrow(kind.elementType)
    if isinstance(kind, MapType):
        return has_arrow(kind.keyType) and has_arrow(kind.valueType)
    return kind.typeName().partition("(")[0] in _ARROW_TYPES
