"""Counts by bin: the same from records, from sums and by SQL; sparse, whole, and never an error."""

import math

import numpy as np
import pyarrow as pa
import pytest

from hexveil import InputError, Labels, Select, from_sums, read

ASKED = ("mean", "p50", "share<10", "share>30.5", "histogram")
COLUMNS = {"user": "bus", "value": "speed", "bounds": (-5, 65), "cells": Labels("ward")}


@pytest.fixture(scope="module")
def records():
    """Return records of 12 vehicles in three wards, some unusable, some at or beyond edges."""
    rng = np.random.default_rng(7)
    odd = [10.0, 9.9995, 9.999, 30.5, 65.0, -5.0, 1e9, -1e9, math.nan]
    speeds = np.concatenate([rng.uniform(-8, 70, 400), np.resize(odd, 90)])
    return pa.table(
        {
            "bus": rng.integers(0, 12, speeds.size).astype(str),
            "ward": rng.choice(["x", "y", "z"], speeds.size),
            "speed": speeds,
        }
    )


@pytest.fixture(scope="module")
def binned(records):
    """Return these records as read."""
    return read(records, **COLUMNS, select=Select(min_users=2), statistics=ASKED, max_bad_rows=0.5)


def rows_of(dataset):
    """Return {(cell, user number, bin): records}."""
    found, pairs = dataset.sums.bins, dataset.occupancy.local()
    keys = zip(pairs.cell[found.pair], pairs.user[found.pair], found.bin, strict=True)
    return dict(zip(((int(c), int(u), int(b)) for c, u, b in keys), found.count, strict=True))


def test_counts_are_those_of_a_loop(records, binned):
    """Clamped, rounded, put into (a, b]: counted by hand."""
    edges = binned.public.bins.edges
    names, users = sorted({*records["ward"].to_pylist()}), binned.units.ids()
    number = {user.decode(): i for i, user in enumerate(users)}
    expected = {}
    for row in records.to_pylist():
        if math.isnan(row["speed"]):
            continue
        quanta = math.floor(min(max(row["speed"], -5.0), 65.0) * 1000 + 0.5) + 5000
        place = next(j for j, edge in enumerate(edges) if quanta <= edge)
        key = names.index(row["ward"]), row["bus"], place
        expected[key] = expected.get(key, 0) + 1
    found = {}
    for (cell, user, place), count in rows_of(binned).items():
        found[cell, next(k for k, v in number.items() if v == user), place] = count
    assert found == expected
    assert binned.sums.bins.count.sum() == binned.occupancy.n_records


def test_no_bin_is_an_error():
    """A number of a bin that is none counts as the nearest, and drops no record."""
    odd = pa.table(
        {
            "cell": ["x"] * 5,
            "user": ["a", "a", "a", "b", "b"],
            "n": [2, 1, 1, 4, 1],
            "sum": [9.0, 3.0, 1.0, 8.0, 2.0],
            "bin": [1e300, -7.0, None, math.nan, 2.4],
        }
    )
    made = from_sums(odd, bounds=(0, 10), min_users=1, statistics="p50")
    assert rows_of(made) == {(0, 0, 0): 2, (0, 0, 63): 2, (0, 1, 0): 4, (0, 1, 2): 1}
    with pytest.raises(InputError, match="some rows have no whole number"):
        from_sums(
            odd.set_column(2, "n", pa.array([0, 1, 1, 4, 1])),
            bounds=(0, 10),
            min_users=1,
            statistics="p50",
        )


def test_mistakes_are_refused_before_reading(tmp_path):
    """Thresholds are checked first."""
    missing = str(tmp_path / "none.parquet")
    with pytest.raises(InputError, match="the same for all values"):
        read(missing, **COLUMNS, statistics="share<-5")
