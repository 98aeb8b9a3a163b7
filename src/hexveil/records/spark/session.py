"""Choice of the Spark session: the argument, the DataFrame's own, or the active one."""

from __future__ import annotations

import os
import signal
from typing import Any, cast

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from hexveil.base.errors import InputError
from hexveil.records.sources.source_files import is_spark
from hexveil.records.spark.remote_session import is_remote


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
    if not is_remote(engine) and not isinstance(engine, SparkSession):
        raise InputError(
            f"engine: a session of Spark is needed, got {type(engine).__name__}; pass the "
            '`spark` of your notebook or job, or "spark".'
        )
    return cast("SparkSession", engine)


_REMOTE = ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")
"""Variables by which Spark's own launchers say that sessions are those of Spark Connect."""
_CONNECT = (
    "engine: the client of Spark Connect cannot be started here; it needs its packages (pip "
    'install "pyspark[connect]"), and the server at SPARK_REMOTE must answer.'
)


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
    if any(os.environ.get(name) for name in _REMOTE):
        raise InputError(_CONNECT)
    raise InputError(
        "engine: Spark cannot be started here; it needs Java 17 or newer (JAVA_HOME), and the "
        "master of its settings must answer."
    )
