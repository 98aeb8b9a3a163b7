"""Counts by bin: the same whole numbers from every engine and source, in both privacy models."""

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hexveil import Labels, Select, from_sums, read
from records.duckdb.test_fast_path import copied
from records.engines import PANDAS, pairs_of
from records.printed import sums_query

pytestmark = [pytest.mark.filterwarnings(PANDAS)]

ASKED = ("p50", "share<10", "share>30.5", "histogram")
DAY, FIRST, DAYS = 86_400, 19_800 * 86_400, 4
WARDS = ["x", "y", "z", "rare"]
COLUMNS = {
    "user": "bus", "value": "speed", "bounds": (-5, 65), "time": "t", "timezone": "UTC",
    "statistics": ASKED,
}  # fmt: skip
VALUES = COLUMNS | {"cells": Labels("ward"), "select": Select(min_users=11)}
PRESENCE = COLUMNS | {"cells": Labels("ward", values=WARDS[:3]), "protect": "presence"}


def day(number):
    """Return a day's records: values at and beyond edges, unusable ones, repeats, a rare ward."""
    rng = np.random.default_rng([7, number])
    odd = [10.0, 9.9995, 9.999, 30.5, 65.0, -5.0, 1e9, -1e9, float("nan")]
    speeds = np.concatenate([rng.uniform(-8, 70, 90), np.resize(odd, 20)])
    wards = rng.choice(WARDS[:3], speeds.size)
    wards[:3] = "rare"
    return pa.table(
        {
            "bus": [f"bus {i}" for i in rng.integers(0, 12, speeds.size)],
            "ward": wards,
            "speed": speeds,
            "t": FIRST + number * DAY + rng.integers(0, 24 * 30, speeds.size) * 120,
        }
    )


@pytest.fixture(scope="module")
def days(tmp_path_factory):
    """Return a folder with a file for each day."""
    folder = tmp_path_factory.mktemp("days")
    for number in range(DAYS):
        pq.write_table(day(number), folder / f"{number}.parquet")
    return folder


@pytest.fixture(scope="module")
def records():
    """Return the same records as one table."""
    return pa.concat_tables(day(number) for number in range(DAYS))


@pytest.fixture(scope="module")
def expected(records):
    """Return what one machine counts, by repeats and by privacy model."""
    return {
        ("values", "drop"): told(read(records, **VALUES)),
        ("values", "keep"): told(read(records, **VALUES, repeats="keep")),
        ("presence", "drop"): units_of(read(records, **PRESENCE)),
    }


def told(dataset):
    """Return a data set's numbers by ward and id, those of bins last; and its public bins."""
    pairs, bins = {key: [*rest] for key, rest in pairs_of(dataset).items()}, dataset.sums.bins
    rows = list(pairs.values())
    for pair, place, count in zip(bins.pair, bins.bin, bins.count, strict=True):
        rows[pair].append((place, count))
    return pairs, dataset.public.bins.identity()


def units_of(dataset):
    """Return the numbers of each unit, in an order that does not depend on its number."""
    pairs = dataset.pairs
    end = [*pairs.begin.tolist(), pairs.cell.size][1:]
    rows = [[] for _ in range(pairs.cell.size)]
    bins = pairs.bins
    for pair, place, count in zip(bins.pair, bins.bin, bins.count, strict=True):
        rows[pair].append((int(place), int(count)))
    numbers = list(
        zip(pairs.cell.tolist(), pairs.records.tolist(), pairs.mean.tolist(), rows, strict=True)
    )
    return sorted(numbers[a:b] for a, b in zip(pairs.begin.tolist(), end, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("way", ["memory", "cache"])
def test_the_engine_and_packing_agree(records, expected, tmp_path, way):
    """So many records that they are packed and sorted have the counts of few, by the engine."""
    times, copies = copied(records, "bus")
    source, options = copies, {"repeats": "keep"}
    if way == "cache":
        source = tmp_path / "r.parquet"
        pq.write_table(copies, source)
        options |= {"cache": tmp_path / "cache", "version": "1"}
    one, edges = expected["values", "keep"]
    options_of_all = VALUES | {"select": Select(min_users=11 * times)} | options
    assert told(read(source, **options_of_all)) == (
        {(ward, f"{k:03d} {i}"): all_ for (ward, i), all_ in one.items() for k in range(times)},
        edges,
    )
    private = units_of(read(source, **PRESENCE, **options))
    assert private == sorted(units_of(read(records, **PRESENCE, repeats="keep")) * times)
    # Counted by hand in tests/records/test_bins.py; here, that something is left out and dropped.
    assert expected["values", "drop"] != expected["values", "keep"]
    assert {ward for ward, _ in one} == set("xyz")


@pytest.mark.slow
def test_a_cache_keeps_counts_by_bin(days, expected, tmp_path):
    """Days that are added up; what was kept with other bins, or without, is read again."""
    cached = {"cache": tmp_path / "cache", "version": "1"}

    def entries():
        return len(list((tmp_path / "cache").glob("*.entry")))

    for _ in range(2):
        assert told(read(days, **VALUES, **cached)) == expected["values", "drop"]
        assert units_of(read(days, **PRESENCE, **cached)) == expected["presence", "drop"]
    # The second model finds what the first one cached.
    assert entries() == DAYS
    plain = read(days, **(VALUES | cached | {"statistics": ()}))
    assert plain.sums.bins is None
    known = expected["values", "drop"][0]
    assert pairs_of(plain) == {key: tuple(numbers[:3]) for key, numbers in known.items()}
    assert entries() == 2 * DAYS
    other = read(days, **(VALUES | cached | {"statistics": "share<20"}))
    assert other.sums.bins.count.sum() == other.occupancy.n_records
    assert entries() == 3 * DAYS


@pytest.mark.parametrize("repeats", ["drop", pytest.param("keep", marks=pytest.mark.slow)])
def test_spark_counts_by_bin(spark, records, expected, repeats):
    """Tasks count their own records; a pair's lists are put together by its unit."""
    frame = spark.createDataFrame(records).repartition(3)
    assert told(read(frame, **VALUES, repeats=repeats)) == expected["values", repeats]


@pytest.mark.slow
def test_the_query_makes_the_same_counts(records, expected):
    """The printed query, run by DuckDB, and the sums it makes."""
    query = sums_query(source="clocked", **VALUES, dialect="duckdb")
    assert "statistics=['p50', 'share<10', 'share>30.5', 'histogram']" in query
    connection = duckdb.connect()
    connection.register("records", records)
    connection.execute("SET TimeZone='UTC'")
    connection.execute(
        "CREATE VIEW clocked AS SELECT * REPLACE (to_timestamp(t) AS t) FROM records"
    )
    table = connection.sql(query.rstrip().removesuffix(";")).to_arrow_table()
    given = {"bounds": (-5, 65), "cells": VALUES["cells"], "statistics": ASKED}
    made = from_sums(table, **given, min_users=11)
    assert told(made) == expected["values", "drop"]
    # The number of rows is that of bins with a value, which is private.
    assert "rows read" not in made.public.rules
    assert made.public.rules["records left"] == made.occupancy.n_records
