"""Odd records that Spark reads as DuckDB does."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hexveil import Labels, Select, read
from records.engines import PANDAS, agree
from records.test_odd_records import COLUMNS, SECONDS, with_odd

pytestmark = [pytest.mark.filterwarnings(PANDAS)]


def foreign_files(folder):
    """Write files of which Spark reads none: times of day, nanoseconds, odd milliseconds."""
    _, odd = with_odd(*COLUMNS["milliseconds beyond calendars"])
    seconds = [SECONDS + i for i in range(7)]
    clock = pa.array([i * 10**6 for i in range(7)], pa.time64("us"))
    fine = pa.array([t * 10**9 for t in seconds], pa.timestamp("ns", "UTC"))
    for day, unused in enumerate((clock, fine)):
        there = folder / f"day={day}"
        there.mkdir(parents=True)
        pq.write_table(odd.append_column("clock", unused), there / "r.parquet")
    return sorted(folder.rglob("*.parquet"))


def test_files_that_spark_does_not_read_are_read_by_tasks(spark, tmp_path):
    """Each by one: with columns of folders, and with other types."""
    source = foreign_files(tmp_path / "days")
    given = {
        "user": "bus", "value": "speed", "bounds": (0, 65), "time": "time", "timezone": "UTC",
        "cells": Labels("day"), "select": Select(min_users=1), "max_bad_rows": 0.5,
        "max_repeats": 1,
    }  # fmt: skip
    told = agree(read, source, spark, **given)
    assert told["labels"] == {"day": ("0", "1")}
