"""Order of rows, files, row groups, folders and threads change nothing, to the last bit."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import hexveil as hv
from attack import leak_canaries as canaries
from hexveil.planning.component import goal
from hexveil.planning.saved_plans import encode
from hexveil.publishing.manifest import fingerprint, request_of
from hexveil.records.duckdb import session
from mechanisms import measuring


def records():
    """Return records of which some repeat a user and time with another place or value."""
    rows = canaries.rows()
    again = [{**row, "speed": row["speed"] - 2.5} for row in rows[::7]]
    moved = [{**row, "lat": 21.25, "lon": 72.85} for row in rows[::11]]
    return pa.Table.from_pylist([*rows, *again, *moved])


def shuffled(table):
    """Return the rows in another order."""
    return table.take(np.random.default_rng(11).permutation(len(table)))


def parts(folder, table, *names):
    """Write every so manieth row into a file of each of these names; return the folder."""
    for number, name in enumerate(names):
        (folder / name).parent.mkdir(exist_ok=True)
        canaries.write(folder / name, table.take(np.arange(number, len(table), len(names))))
    return folder


def by(folder, table, column):
    """Write a folder per value of a column, which is left out of the files; return the folder."""
    for name in sorted(set(table[column].to_pylist())):
        part = table.filter(pc.equal(table[column], name)).drop_columns([column])
        parts(folder, part, f"{column}={name}/part.parquet")
    return folder


def small_groups(folder, table):
    """Write one file in many row groups."""
    pq.write_table(shuffled(table), folder / "one.parquet", row_group_size=7, use_dictionary=False)
    return folder / "one.parquet"


def csvs(folder, table):
    """Write folders that are called after a column of the records, with other values."""
    return parts(folder, shuffled(table), *(f"speed={k}/part.csv" for k in range(3)))


def polars(table):
    """Return the rows as a frame of polars."""
    import polars as pl  # noqa: PLC0415  an extra

    return pl.from_arrow(shuffled(table))


FIVE = [f"{k}.parquet" for k in range(5)]
LAYOUTS = {
    "one file": lambda at, rows: canaries.write(at / "one.parquet", rows),
    "in any order": lambda at, rows: canaries.write(at / "one.parquet", shuffled(rows)),
    "small groups": small_groups,
    "many files": lambda at, rows: parts(at, shuffled(rows), *FIVE),
    "folders of a column": lambda at, rows: by(at, rows, "line"),
    "folders of users": lambda at, rows: by(at, rows, "bus"),
    "folders of one key": lambda at, rows: parts(
        at, rows, "speed=0/one.parquet", "speed=1/one.parquet"
    ),
    "csv": lambda at, rows: canaries.write(at / "one.csv", shuffled(rows)),
    "csvs": csvs,
    "packed": lambda at, rows: canaries.write(at / "one.csv.gz", shuffled(rows)),
    "array": lambda at, rows: canaries.write(at / "one.json", shuffled(rows)),
    "lines": lambda at, rows: parts(
        at, shuffled(rows), *(f"speed={k}/part.jsonl" for k in range(3))
    ),
    "memory": lambda _, rows: shuffled(rows),
    "chunks": lambda _, rows: pa.concat_tables(
        [shuffled(rows).slice(start, 13) for start in range(0, len(rows), 13)]
    ),
    "polars": lambda _, rows: polars(rows),
}
"""The same records: orders of rows, files, folders, row groups, formats."""
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


@pytest.fixture(scope="module")
def known():
    """Return what the records in memory are, in the order they were made."""
    return {grid: everything(reading(records(), grid)) for grid in GRIDS}


@pytest.mark.slow
@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_no_layout_changes_anything(tmp_path, known, layout, grid):
    """One file or many, in any order and format, packed, in folders called after columns."""
    source = LAYOUTS[layout](tmp_path, records())
    assert everything(reading(source, grid)) == known[grid]


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_no_number_of_threads_changes_anything(tmp_path, monkeypatch, known, threads, grid):
    """The engine takes as many threads as there are cores; how many does not matter."""
    real = session._connection
    monkeypatch.setattr(
        session, "_connection", lambda memory, _, folder: real(memory, threads, folder)
    )
    with session.Session("100MB") as one:
        assert one.rows("SELECT current_setting('threads')") == [(threads,)]
    source = small_groups(tmp_path, records())
    assert everything(reading(source, grid)) == known[grid]
