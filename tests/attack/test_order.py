"""Order of rows, files, row groups, folders and threads change nothing, to the last bit."""

import os

import pyarrow as pa
import pytest

import hexveil as hv
from attack import leak_canaries as canaries
from attack import leak_layouts as layouts
from hexveil.planning.component import goal
from hexveil.planning.saved_plans import encode
from hexveil.publishing.manifest import fingerprint, request_of
from hexveil.records.duckdb import session
from publishing import measuring

GRIDS = {
    "hexagons": {
        "lat": "lat", "lon": "lon", "cells": hv.Cells(6, "1h", "Asia/Kolkata"),
        "select": hv.Select(min_users=3, top=3), "privacy_unit": "user-day",
    },
    "labels": {"cells": hv.Labels("line"), "select": hv.Select(min_users=3)},
}  # fmt: skip


def reading(source, grid):
    """Return the records, read."""
    return hv.read(
        source, user="bus", value="speed", bounds=(0, 65), time="time", quantum="0.000001",
        timezone="Asia/Kolkata", **GRIDS[grid],
    )  # fmt: skip


def everything(ds):
    """Return all facts, sums, units and the plan of a data set, to the last bit."""
    plan = hv.plan(
        ds, epsilon=1, statistics=("mean", "variance"), advise=False, clipping_range="bounds"
    )
    return {
        "rules": dict(ds.public.rules),
        "occupancy": (ds.occupancy.fingerprint, ds.occupancy.n.tolist()),
        "cells": ds.public.cells.names(),
        "units": (ds.units.ids(), ds.units.periods()),
        "sums": (ds.sums.total.tolist(), ds.sums.total_sq.tolist()),
        "plan": (goal(plan), encode(plan), plan.table.to_pylist()),
        "losses": plan.losses().tobytes(),
        "request": fingerprint(request_of("buses", ds.public, plan)),
        "numbers": true_numbers(ds, plan),
    }


def true_numbers(ds, plan):
    """Return the whole numbers that the noise would be added to."""
    return [
        measured(ds, plan).tolist()
        for measured in (measuring.statistic, measuring.variance_statistic)
    ]


DAYS = 600 if os.environ.get("HEXVEIL_ATTACK") else 30
"""Of 180 records each, in the test of many."""


@pytest.fixture(scope="module")
def known():
    """Return what the records in memory are, in the order they were made."""
    return {grid: everything(reading(layouts.records(), grid)) for grid in GRIDS}


@pytest.mark.slow
@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("layout", layouts.LAYOUTS, ids=lambda one: one.__name__)
def test_no_layout_changes_anything(tmp_path, known, layout, grid):
    """One file or many, in any order and format, packed, in folders called after columns."""
    source = layout(tmp_path, layouts.records())
    assert everything(reading(source, grid)) == known[grid]


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_no_number_of_threads_changes_anything(tmp_path, monkeypatch, known, threads, grid):
    """The engine takes as many threads as there are cores; how many does not matter."""
    source = layouts.small_groups(tmp_path, layouts.records())
    monkeypatch.setattr(session.os, "sched_getaffinity", lambda _: set(range(threads)))
    assert everything(reading(source, grid)) == known[grid]


def test_the_engine_takes_the_threads_that_there_are(monkeypatch):
    """The seam of the test above is the one the engine uses."""
    monkeypatch.setattr(session.os, "sched_getaffinity", lambda _: {0, 1, 2})
    with session.Session("100MB") as one:
        assert one.rows("SELECT current_setting('threads')") == [(3,)]


@pytest.mark.slow
def test_many_records_in_many_threads(tmp_path, monkeypatch):
    """Many records, in row groups that threads share, give the same in any layout."""
    rows = [
        {
            **row,
            "speed": (row["speed"] * (day + 1)) % 65,
            "time": 1_641_000_000 + 977 * k + 90 * day,
        }
        for day in range(DAYS)
        for k, row in enumerate(canaries.rows())
    ]
    table = pa.Table.from_pylist(rows)
    found = []
    for threads, layout in ((1, layouts.one_file), (4, layouts.small_groups), (4, layouts.csvs)):
        folder = tmp_path / str(len(found))
        folder.mkdir()
        monkeypatch.setattr(session.os, "sched_getaffinity", lambda _, n=threads: set(range(n)))
        found.append(everything(reading(layout(folder, table), "hexagons")))
    assert found[0] == found[1] == found[2]
