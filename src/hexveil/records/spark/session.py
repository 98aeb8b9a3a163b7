"""Choice of the Spark session: the argument, the DataFrame's own, or the active one."""

from __future__ import annotations

import os
import signal
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from hexveil.base.errors import InputError
from hexveil.records.sources.source_files import is_spark


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
        If the session is one of Spark Connect, or none can be started.
    """
    if is_spark(source, "DataFrame"):
        engine = source.sparkSession
    elif engine == "spark":
        engine = _started()
    if type(engine).__module__.startswith("pyspark.sql.connect") or not isinstance(
        engine, SparkSession
    ):
        raise InputError(_CONNECT)
    return engine


_REMOTE = ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")
"""Variables by which Spark's own launchers say that sessions are those of Spark Connect."""
_CONNECT = (
    "engine: a session of Spark Connect cannot keep pairs on executors; use a session on the "
    "driver itself, as spark-submit, pyspark and notebooks on a cluster give it. Where there is "
    "only Connect, run the query that `hexveil inspect run.toml --sql spark` prints, and pass its "
    "toArrow() to hexveil.from_sums."
)


def _started() -> SparkSession:
    # Before Spark is asked: its client lacks packages here, which would be blamed on Java.
    if any(os.environ.get(name) for name in _REMOTE):
        raise InputError(_CONNECT)
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
        "master of its settings must answer."
    )
