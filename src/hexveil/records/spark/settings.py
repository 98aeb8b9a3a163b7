"""hexveil's settings of a Spark session."""

from __future__ import annotations

from pyspark.sql import SparkSession

from hexveil.base.errors import InputError
from hexveil.records.read_request import check_memory

TASK_MEMORY = "spark.hexveil.taskMemory"
"""DuckDB's memory limit per task; it is not part of Spark's memory for Java."""
ON_DRIVER = "spark.hexveil.pairsOnDriver"
"""Up to how many pairs are fetched to the driver; more stay in Spark."""
_DEFAULTS = {TASK_MEMORY: "256MB", ON_DRIVER: str(2**25)}


def task_memory(engine: SparkSession) -> str:
    """Return DuckDB's memory limit per task."""
    return check_memory(_setting(engine, TASK_MEMORY))


def pairs_on_driver(engine: SparkSession) -> int:
    """Return up to how many pairs are fetched to the driver."""
    text = _setting(engine, ON_DRIVER)
    if not text.isdecimal():
        raise InputError(f"{ON_DRIVER} must be a whole number, got {text!r}.")
    return int(text)


def _setting(engine: SparkSession, name: str) -> str:
    # An empty setting counts as none.
    return engine.conf.get(name, _DEFAULTS[name]) or _DEFAULTS[name]
