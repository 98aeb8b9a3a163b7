"""Quantiles and shares by tmlt.analytics on Spark, which bounds a user's contributions itself."""

import by_tmlt_analytics
import common
import numpy as np
from pyspark.sql import SparkSession
from tmlt.analytics import (
    AddRowsWithID,
    ColumnType,
    KeySet,
    MaxGroupsPerID,
    MaxRowsPerGroupPerID,
    PureDPBudget,
    QueryBuilder,
    Session,
)


def statistics(
    work: common.Work, *, cells: int, rows: int, threshold: float
) -> dict[str, np.ndarray]:
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
        found[name] = common.filled_by(work.cells, rows_found["cell"], rows_found["found"])
    return found


if __name__ == "__main__":
    by_tmlt_analytics.main(statistics, common.main_of_quantiles)
