"""The Spark session: the argument, the DataFrame's own, or the active one; and Spark Connect.

Also hexveil's settings of a session, and the translation of Spark's failures, whose messages may
quote records.

Between Arrow and Spark: schemas, columns whatever their names, frames that tasks make.
"""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  as everybody calls it
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import ArrayType, DataType, MapType, StructType
from pyspark.storagelevel import StorageLevel

from hexveil.base.errors import HexveilError, InputError, StorageError
from hexveil.records.read_request import check_arguments
from hexveil.records.sources.source_files import is_spark
from hexveil.records.spark.tasks import Work


def session_of(engine: object, source: Any) -> SparkSession:  # noqa: ANN401  whatever a caller gave
    """Return the session to read a source with.

    Parameters
    ----------
    engine : SparkSession, "spark" or None
        "spark" is the active session, or a new one with the settings of `spark-submit`.
    source : object
        A Spark DataFrame is read by its own session.

    Raises
    ------
    InputError
        If it is no session of Spark, or none can be started.
    """
    if is_spark(source, "DataFrame"):
        engine = source.sparkSession
    elif engine == "spark":
        engine = _started()
    is_remote = type(engine).__module__.startswith("pyspark.sql.connect")
    if not is_remote and not isinstance(engine, SparkSession):
        raise InputError(
            f"engine: a session of Spark is needed, got {type(engine).__name__}; pass the "
            '`spark` of your notebook or job, or "spark".'
        )
    return cast("SparkSession", engine)


def _started() -> SparkSession:
    handler = signal.getsignal(signal.SIGINT)
    try:
        return SparkSession.builder.getOrCreate()
    except (PySparkException, Py4JError):
        pass
    finally:
        # Spark takes Ctrl-C for itself. A command that handles it goes on doing so: Spark ends
        # with the process.
        if handler not in (None, signal.default_int_handler, signal.getsignal(signal.SIGINT)):
            signal.signal(signal.SIGINT, handler)
    raise InputError(
        "engine: Spark cannot be started here; it needs Java 17 or newer (JAVA_HOME), and the "
        "master of its settings must answer; a client of Spark Connect needs its packages (pip "
        'install "pyspark[connect]"), and the server at SPARK_REMOTE.'
    )


T = TypeVar("T")


TASK_MEMORY = "spark.hexveil.taskMemory"
"""DuckDB's memory limit per task; it is not part of Spark's memory for Java."""


def task_memory(engine: SparkSession) -> str:
    """Return DuckDB's memory limit per task."""
    # An empty setting counts as none.
    memory = engine.conf.get(TASK_MEMORY, "256MB") or "256MB"
    check_arguments({"memory": memory})
    return memory


def translate_errors(work: Callable[[], T]) -> T:
    """Run work of Spark and return its result; translate its failures.

    Raised outside of the handler: else Spark's error would hang on ours as its context.
    """
    try:
        return work()
    except (PySparkException, Py4JError) as error:
        failure = _translate(error)
    raise failure


def _translate(error: Exception) -> HexveilError:
    text = str(error)
    if "No module named" in text:
        return HexveilError(
            "Spark's executors lack a package; install hexveil there as it is on the driver."
        )
    # The sentence of `Session`, raised in a task: Spark passes errors on as text.
    if "more memory or disk than it may use" in text:
        return StorageError(
            f"a Spark task needs more memory or disk than it may use; raise {TASK_MEMORY}, or "
            "spark.sql.shuffle.partitions, or free space for temporary files on the executors."
        )
    return HexveilError(
        f"Spark failed while reading the records ({type(error).__name__}); its message is not "
        "shown because it may quote them; Spark's own log names the stage that failed."
    )


def column(name: str) -> Column:
    """Return a column of a frame by exactly this name, dots and all."""
    # Without backticks a dot means a field inside a column.
    return F.col("`" + name.replace("`", "``") + "`")


def map_batches(frame: DataFrame, work: Work, schema: pa.Schema) -> DataFrame:
    """Map a task over a frame's batches of rows; nothing runs yet."""
    return frame.mapInArrow(work, from_arrow_schema(schema))


@contextmanager
def persisted(frame: DataFrame) -> Iterator[DataFrame]:
    """Persist a frame while the body runs, which uses it more than once."""
    cached = frame.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield cached
    finally:
        cached.unpersist()


def with_arrow_types(frame: DataFrame) -> DataFrame:
    """Cast columns that Arrow has no type for to text, so that every column reaches a task.

    A variant is text too, which is then JSON like any other.
    """
    # Of a client's frame this is the first that the server hears.
    fields = translate_errors(lambda: frame.schema).fields
    return frame.select(
        *(
            column(field.name)
            if _has_arrow(field.dataType)
            else column(field.name).cast("string").alias(field.name)
            for field in fields
        )
    )


def collect(frame: DataFrame) -> pa.Table:
    """Return the rows of a frame, which must fit on the driver."""
    return translate_errors(frame.toArrow)


_ARROW_TYPES = frozenset(
    (
        *("boolean", "byte", "tinyint", "short", "smallint", "int", "integer", "long", "bigint"),
        *("float", "double", "decimal", "string", "char", "varchar", "binary"),
        *("date", "timestamp", "timestamp_ntz", "time", "daytimeinterval", "void"),
    )
)


def _has_arrow(kind: DataType) -> bool:
    """Return whether all of a type reaches a task as itself."""
    if isinstance(kind, StructType):
        return all(_has_arrow(field.dataType) for field in kind.fields)
    if isinstance(kind, ArrayType):
        return _has_arrow(kind.elementType)
    if isinstance(kind, MapType):
        return _has_arrow(kind.keyType) and _has_arrow(kind.valueType)
    return kind.typeName().partition("(")[0] in _ARROW_TYPES
