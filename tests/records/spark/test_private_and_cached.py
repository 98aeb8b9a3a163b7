"""Private presence and caches by Spark: the pairs, counts and entries of one machine."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hexveil as hv
from records.engines import PANDAS, told

pytestmark = [pytest.mark.filterwarnings(PANDAS)]
COLUMNS = {"user": "car", "value": "speed", "bounds": (0, 60), "time": "time", "timezone": "UTC"}
DAY = 1_767_225_600


def records(n=900, day=0):
    """Return records of cars on routes; some are unusable, elsewhere, or repeats."""
    draw = np.random.default_rng(3 + day)
    return pa.table(
        {
            "car": [f"car {i}" for i in draw.integers(0, 60, n)],
            "route": [f"r{i}" for i in draw.integers(0, 7, n)],
            "speed": np.where(draw.random(n) < 0.1, np.nan, draw.uniform(-5, 65, n)),
            "time": DAY + day * 86_400 + draw.integers(0, 1440, n) * 60,
        }
    )


@pytest.mark.parametrize("statistics", ["mean", "p50"])
def test_private_presence_has_the_pairs_of_one_machine(spark, statistics):
    """Units, records, sums and bins on the declared grid, and what was left out."""
    declared = {
        "cells": hv.Labels("route", values=[f"r{i}" for i in range(6)]),
        "protect": "presence",
        "statistics": statistics,
    }
    rows = records()
    here = hv.read(rows, **COLUMNS, **declared)
    there = hv.read(spark.createDataFrame(rows).repartition(3), **COLUMNS, **declared)
    assert repr(there) == repr(here)
    assert there.counts.lines() == here.counts.lines()
    for name in ("begin", "cell", "records", "mean"):
        found, expected = (getattr(one.pairs, name) for one in (there, here))
        np.testing.assert_array_equal(found, expected)
    assert (there.pairs.bins is None) == (statistics == "mean")
    if there.pairs.bins is not None:
        for found, expected in zip(
            vars(there.pairs.bins).values(), vars(here.pairs.bins).values(), strict=True
        ):
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("writer", ["spark", "duckdb"])
def test_engines_share_the_entries_of_a_cache(spark, tmp_path, writer):
    """What one engine has read the other does not read again: files that are gone from memory."""
    days = tmp_path / "days"
    days.mkdir()
    for day in range(2):
        pq.write_table(records(day=day), days / f"{day}.parquet")
    options = COLUMNS | {
        "cells": hv.Labels("route"), "select": hv.Select(min_users=2), "max_bad_rows": 0.5,
        "max_repeats": 1, "version": "1", "cache": tmp_path / "cache",
    }  # fmt: skip
    engines = {"spark": spark, "duckdb": "duckdb"}
    first = hv.read(days, engine=engines.pop(writer), **options)
    entries = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("*")}
    (other,) = engines.values()
    second = hv.read(days, engine=other, **options)
    assert told(second) == told(first)
    again = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("*.pairs")}
    assert again == {name: at for name, at in entries.items() if name.endswith(".pairs")}
    assert len(again) == 2
    uncached = {name: value for name, value in options.items() if name != "cache"}
    assert told(hv.read(days, **uncached))["totals"] == told(first)["totals"]
