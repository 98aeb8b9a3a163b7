"""Shapes and odd records that Spark reads as DuckDB does."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cli.test_record_shapes import APART, SHAPES, TIME
from hexveil.model.cells import Cells, Labels
from hexveil.records.read import read
from hexveil.records.select import Select
from hexveil.records.sources.record_format import RecordFormat
from records.engines import PANDAS, agree
from records.test_odd_records import COLUMNS, SECONDS, with_odd

pytestmark = [pytest.mark.filterwarnings(PANDAS)]
FORMATS = ("time_format", "record_path")


def arguments(options):
    """Return the arguments of Python for options of the command."""
    found = {}
    for option, value in zip(options[::2], options[1::2], strict=True):
        name, _, field = value.partition("=") if option == "--set" else (option[2:], "", value)
        found.setdefault(name.rpartition(".")[2].replace("-", "_"), []).append(field)
    found = {name: one[0] if len(one) == 1 else one for name, one in found.items()}
    declared = {name: found.pop(name) for name in FORMATS if name in found}
    return found | {"format": RecordFormat(**declared)}


def test_options_are_arguments():
    """Of the command and of Python alike."""
    found = arguments(("--user", "bus", *APART, "--time", "a", "--time", "b", *TIME[:0]))
    assert found["time"] == ["a", "b"]
    assert found["lat"] == "lat"


@pytest.mark.parametrize(
    "shape",
    ["WKT.csv", "pair.parquet", "microseconds.parquet", "halves.csv", "features.geojson",
     "nested.json"],
)  # fmt: skip
def test_shapes_are_read_alike(spark, tmp_path, shape):
    """Users, cells, counts and sums."""
    write, rows, options = SHAPES[shape]
    write(tmp_path / shape, rows)
    told = agree(
        read, str(tmp_path / shape), spark, bounds=(0, 65), select=Select(min_users=1),
        cells=Cells(6, timezone="Asia/Kolkata"), accept_single_records=True, **arguments(options),
    )  # fmt: skip
    assert told["sizes"] == (3, 30)


@pytest.mark.parametrize(
    "odd", [name for name in COLUMNS if "UTF-8" in name or "calendars" in name or "NUL" in name]
)
def test_odd_records_are_read_alike(spark, tmp_path, odd):
    """From a file and from memory; no byte and no time stops a reading."""
    _, rows = with_odd(*COLUMNS[odd])
    pq.write_table(rows, tmp_path / "r.parquet")
    for source in (rows, str(tmp_path / "r.parquet")):
        told = agree(
            read, source, spark, user="bus", value="speed", bounds=(0, 65), time="time",
            timezone="UTC", cells=Labels("ward"), select=Select(min_users=1), max_bad_rows=0.5,
            max_repeats=0.5,
        )  # fmt: skip
        assert len(told["ids"]) >= 3, told


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
    """Each by one: with columns of folders, with other types, and with a cache."""
    source = foreign_files(tmp_path / "days")
    given = {
        "user": "bus", "value": "speed", "bounds": (0, 65), "time": "time", "timezone": "UTC",
        "cells": Labels("day"), "select": Select(min_users=1), "max_bad_rows": 0.5,
        "max_repeats": 1,
    }  # fmt: skip
    told = agree(read, source, spark, **given)
    assert told["labels"] == {"day": ("0", "1")}
    cached = given | {"cache": tmp_path / "cache", "version": "1"}
    assert agree(read, source, spark, **cached)["totals"] == told["totals"]


def test_no_time_stops_a_reading_under_private_presence(spark, tmp_path):
    """Whether a file has times in milliseconds beyond calendars is not told."""
    told = []
    for rows in with_odd(*COLUMNS["milliseconds beyond calendars"]):
        pq.write_table(rows, tmp_path / "r.parquet")
        found = [
            read(
                tmp_path / "r.parquet", engine=engine, protect="presence", user="bus",
                value="speed", bounds=(0, 65), time="time", cells=Labels("ward", values=["x", "y"]),
            )
            for engine in (None, spark)
        ]  # fmt: skip
        there = found[1].pairs.collect()
        assert sorted(there.mean) == sorted(found[0].pairs.mean)
        told.append(sorted(there.mean))
        found[1].close()
    assert told[0] == told[1]
