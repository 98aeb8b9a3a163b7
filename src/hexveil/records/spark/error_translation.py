"""Translation of Spark's failures: its messages may quote records, so none is passed on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from hexveil.base.errors import HexveilError, StorageError
from hexveil.records.spark.settings import TASK_MEMORY

T = TypeVar("T")


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
