"""Several value columns with private presence: every source has the numbers of one reading.

Read in one pass, with a cache, or each column by itself: the same contributions and counts by bin.
"""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hexveil as hv
from hexveil import ColumnError
from records.test_binned_sources import units_of

FIRST = 1_767_225_600
"""First second of 2026, UTC."""
BOUNDS = {"speed": (-5, 60), "load": (0, 8)}
STATISTICS = ("mean", "p50")
READ = {
    "user": "car", "value": (*BOUNDS,), "bounds": BOUNDS, "quantum": "0.125", "time": "time",
    "timezone": "UTC", "cells": hv.Labels("road", values=["r0", "r1", "r2"]),
    "protect": "presence", "privacy_unit": "user-day", "statistics": STATISTICS,
    "select": hv.Select(dates=("2026-01-01", "2026-01-02")),
}  # fmt: skip


@pytest.fixture(scope="module")
def records():
    """Return records of cars: repeats, values that are none in one column, roads elsewhere."""
    draw, n = np.random.default_rng(11), 400
    whole = draw.integers(-64, 520, n) / 8
    return pa.table(
        {
            "car": pa.array(
                [f"car {i}" for i in draw.integers(0, 20, n)], mask=draw.random(n) < 0.05
            ),
            "road": [f"r{i}" for i in draw.integers(0, 4, n)],
            "time": FIRST + draw.integers(0, 3 * 24 * 4, n) * 900,
            "speed": pa.array(whole, mask=draw.random(n) < 0.1),
            "load": np.where(draw.random(n) < 0.3, np.nan, draw.integers(0, 80, n) / 8),
        }
    )


@pytest.fixture(scope="module")
def source(records, tmp_path_factory):
    """Return a folder with the records in two files."""
    folder = tmp_path_factory.mktemp("cars")
    for number in range(2):
        pq.write_table(records.slice(200 * number, 200), folder / f"{number}.parquet")
    return folder


def alone(column):
    """Return what is declared of one column by itself."""
    return READ | {"value": column, "bounds": BOUNDS[column]}


WAYS = {
    "cache": lambda source, tmp_path: hv.read(
        source, cache=tmp_path / "cache", version="1", **READ
    ),
    "apart": lambda source, tmp_path: hv.combine_columns(
        {
            "speed": hv.read(source, **alone("speed")),
            "load": hv.read(source, cache=tmp_path / "cache", version="1", **alone("load")),
        }
    ),
}


@pytest.fixture(scope="module")
def expected(source):
    """Return what one pass reads."""
    return told(hv.read(source, **READ))


def told(dataset):
    """Return the private numbers of each column, and what is declared."""
    return {
        column: (units_of(one), one.public.bins.identity(), one.public.value)
        for column, one in dataset.datasets.items()
    }


def left_after(dataset, folder):
    """Return what a release leaves of a budget of 5."""
    plan = hv.plan(dataset, epsilon=3, fleet=900, statistics="mean", advise=False)
    book = hv.Ledger(folder / "book.sqlite", dataset="cars", budget=5)
    hv.release(dataset, plan, ledger=book, accept_noise=True)
    return book.remaining


@pytest.mark.parametrize("way", WAYS)
def test_every_source_has_the_same_columns(way, source, expected, tmp_path):
    """Bit for bit: contributions, counts by bin; and one booked loss."""
    made = WAYS[way](source, tmp_path)
    assert told(made) == expected
    assert repr(made) == (
        "PrivateColumns('speed', 'load', privacy_unit='user-day', n_cells=3 declared, "
        "records private)"
    )
    assert max(map(len, expected["load"][0])) > 1
    assert left_after(made, tmp_path) == 2


def test_a_missing_column_is_named(source, tmp_path):
    """With a cache too, after pairs of another column were kept."""
    options = READ | {"value": ("speed", "weight"), "bounds": (0, 9)}
    with pytest.raises(ColumnError, match="weight"):
        hv.read(source, **options, cache=tmp_path / "cache", version="1")
