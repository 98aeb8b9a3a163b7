"""Sessions on the driver and sessions of Spark Connect: differences of the two.

A client of Spark Connect has no JVM beside it: no Spark context, hence no broadcast variables, and
no numbers of partitions. What tasks need then travels with the task's own function, and frames are
left in as many parts as Spark makes of them.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from hexveil.records.spark.error_translation import translate_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")


def is_remote(engine: object) -> bool:
    """Return whether a session, or a frame, is one of Spark Connect."""
    return type(engine).__module__.startswith("pyspark.sql.connect")


@contextmanager
def sent_to_tasks(frame: DataFrame, value: T) -> Iterator[Callable[[], T]]:
    """Yield a function that returns a value in the tasks of a frame; forget the value afterwards.

    Parameters
    ----------
    frame : DataFrame
    value : object
        Figures of all cells and users, at most; public.
    """
    if is_remote(frame):
        # The closure is part of the query, so that it is gone with the query.
        yield lambda: value
        return
    sent = frame.sparkSession.sparkContext.broadcast(value)
    try:
        yield lambda: sent.value
    finally:
        # Else each question's arrays would stay on every executor until the session ends.
        translate_errors(sent.destroy)


def checkpoint_folder(session: SparkSession) -> str | None:
    """Return the folder for checkpoints; None without."""
    if is_remote(session):
        return session.conf.get("spark.checkpoint.dir", None) or None
    return session.sparkContext.getCheckpointDir()


def n_cores(session: SparkSession) -> int | None:
    """Return how many tasks run at once; None where the session does not say."""
    return None if is_remote(session) else session.sparkContext.defaultParallelism


def n_partitions(frame: DataFrame) -> int | None:
    """Return the parts of a frame that reads files; None where it does not say."""
    return None if is_remote(frame) else frame.rdd.getNumPartitions()
