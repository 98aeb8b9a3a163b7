"""Averages, quantiles and shares by tmlt.analytics on Spark, which bounds contributions itself."""

import os
import sys
from typing import Any

import common
import numpy as np
from numpy.typing import NDArray
from pyspark.sql import SparkSession
from tmlt.analytics import (
    AddRowsWithID,
    ColumnType,
    KeySet,
    MaxGroupsPerID,
    MaxRowsPerGroupPerID,
    MaxRowsPerID,
    PureDPBudget,
    QueryBuilder,
    Session,
)


def averages(work: common.Work, *, cells: int, rows: int) -> NDArray[np.float64]:
    """Return the average of each cell."""
    spark = SparkSession.builder.getOrCreate()
    session = Session.from_dataframe(
        PureDPBudget(common.EPSILON),
        "records",
        spark.read.parquet(str(work.file)),
        protected_change=AddRowsWithID("user"),
    )
    query = QueryBuilder("records")
    if cells:
        query = query.enforce(MaxGroupsPerID("cell", cells))
        query = query.enforce(MaxRowsPerGroupPerID("cell", rows))
    else:
        query = query.enforce(MaxRowsPerID(rows))
    average = query.groupby(KeySet.from_dict({"cell": list(range(work.cells))})).average(
        "value", work.lower, work.upper, name="mean"
    )
    found = session.evaluate(average, PureDPBudget(common.EPSILON)).toPandas()
    return work.filled(found["cell"], found["mean"])


def quantiles(
    work: common.Work, *, cells: int, rows: int, threshold: float
) -> dict[str, NDArray[np.float64]]:
    """Return both quantiles and the share of each cell, each for a third of ε."""
    spark = SparkSession.builder.getOrCreate()
    session = Session.from_dataframe(
        PureDPBudget(common.EPSILON),
        "records",
        spark.read.parquet(str(work.file)),
        protected_change=AddRowsWithID("user"),
    )
    query = QueryBuilder("records").map(
        lambda row: {"above": 1 if row["value"] > threshold else 0},
        {"above": ColumnType.INTEGER},
        augment=True,
    )
    query = query.enforce(MaxGroupsPerID("cell", cells))
    query = query.enforce(MaxRowsPerGroupPerID("cell", rows))
    grouped = query.groupby(KeySet.from_dict({"cell": list(range(work.cells))}))
    asked = {
        name: grouped.quantile("value", level, work.lower, work.upper, name="found")
        for name, level in common.QUANTILES.items()
    }
    asked[common.SHARE] = grouped.average("above", 0, 1, name="found")
    found = {}
    for name, one in asked.items():
        rows_found = session.evaluate(one, PureDPBudget(common.EPSILON / common.QUERIES)).toPandas()
        found[name] = work.filled(rows_found["cell"], rows_found["found"], np.nan)
    return found


def main() -> None:
    """Start Spark, and wait for its end, so that its CPU seconds are counted too."""
    os.environ["PYSPARK_PYTHON"] = sys.executable  # workers in this environment
    settings = {"driver.memory": "6g", "sql.shuffle.partitions": "8", "ui.enabled": "false"}
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(f"spark.{name}", value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001  no public way to it
    virtual_machine = gateway.proc
    common.main(averages, quantiles=quantiles, itself=True)
    spark.stop()
    virtual_machine.stdin.close()
    virtual_machine.wait()


if __name__ == "__main__":
    main()
