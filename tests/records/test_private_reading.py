"""Reading with private presence: declared cells, no refusal by records, nothing shown."""

import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hexveil as hv
from hexveil import HexveilError, InputError

BOX = (20.8, 52.05, 21.3, 52.35)
GRID = hv.Cells(6, "6h", "Europe/Warsaw", "pooled", area=BOX)
TABLE = pa.table(
    {
        "car": ["a", "a", "a", "b", "b", "c", "d"],
        "route": ["7", "7", "4", "7", "9", "4", "4"],
        "speed": [10.0, 20.0, 5.0, 1.0, 2.0, float("nan"), 99.0],
    }
)


def read(table=TABLE, **changes):
    """Return a table read with private presence, by routes."""
    options = {
        "user": "car",
        "value": "speed",
        "bounds": (0, 50),
        "quantum": 1,
        "protect": "presence",
        "cells": hv.Labels("route", values=["12", "7", "4"]),
    }
    return hv.read(table, **options | changes)


def places(n, seed=1):
    """Return records of so many cars around Warsaw."""
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "car": [f"c{i % 9}" for i in range(n)],
            "speed": rng.uniform(0, 50, n),
            "lat": 52.2 + rng.normal(0, 0.05, n),
            "lon": 21.0 + rng.normal(0, 0.1, n),
            "time": 1767225600 + rng.integers(0, 86400, n),
        }
    )


def test_pairs_are_those_of_declared_cells():
    """Records of each unit in declared cells, by the number of the cell; others are left out."""
    pairs = read().pairs
    assert sorted(zip(pairs.cell, pairs.records, pairs.mean, strict=True)) == [
        (0, 1, 5.0),
        (0, 1, 50.0),
        (1, 1, 1.0),
        (1, 2, 15.0),
    ]


@pytest.mark.slow
def test_pairs_agree_with_the_other_model():
    """On a map, pairs are those that reading with public occupancy finds in the same cells."""
    columns = {"lat": "lat", "lon": "lon", "time": "time", "repeats": "keep"}
    asked = {"statistics": ("p50", "share<20")}
    private = read(places(400), cells=GRID, **columns, **asked)
    cells = hv.Cells(6, "6h", "Europe/Warsaw", "pooled")
    public = hv.read(
        places(400), user="car", value="speed", bounds=(0, 50), quantum=1, cells=cells,
        select=hv.Select(min_users=1), **columns, **asked,
    )  # fmt: skip
    number = {name: cell for cell, name in enumerate(private.public.cells.names())}
    occupancy, names = public.occupancy, public.public.cells.names()
    expected = sorted(
        (number[names[cell]], n, total / n)
        for cell, n, total in zip(occupancy.cell, occupancy.n, public.sums.total, strict=True)
        if names[cell] in number
    )
    pairs = private.pairs
    found = sorted(zip(pairs.cell.tolist(), pairs.records, pairs.mean, strict=True))
    assert len(found) > 50
    assert found == expected
    # Records by bin as well, of each cell: units have no names in common.
    rows, others = public.sums.bins, private.pairs.bins
    by_bin = [
        (number[names[cell]], fine, count)
        for cell, fine, count in zip(occupancy.cell[rows.pair], rows.bin, rows.count, strict=True)
        if names[cell] in number
    ]
    assert sorted(by_bin) == sorted(
        zip(pairs.cell[others.pair], others.bin, others.count, strict=True)
    )
    assert private.public.bins.identity() == public.public.bins.identity()


def test_records_are_counted_by_bin_only_if_that_was_asked():
    """Without quantiles, shares or histograms there are no bins; of no records there is none."""
    assert (read().pairs.bins, read(statistics=("mean",)).public.bins) == (None, None)
    assert read(TABLE.slice(0, 0), statistics="p50").pairs.bins.count.size == 0
    with pytest.raises(InputError, match="not 'variance'"):
        read(statistics=("mean", "variance"))


@pytest.mark.parametrize(
    "table",
    [
        TABLE.slice(0, 0),
        TABLE.slice(5, 1),  # no usable value
        TABLE.slice(4, 1),  # outside of the grid
        TABLE.slice(0, 1),
        pa.table({"car": [1.5, 2.0], "route": ["7", "7"], "speed": [1.0, 2.0]}),  # an inexact id
        pa.table({"car": ["a"] * 20, "route": ["7"] * 20, "speed": [None] * 19 + [1.0]}),
        pa.table({"car": [f"{i}" for i in range(50)], "route": ["7"] * 50, "speed": [1.0] * 50}),
    ],
)
def test_no_records_are_refused(table):
    """Empty, unusable, elsewhere, a record a user: every one of them is a data set."""
    assert repr(read(table)) == repr(read())


def test_nothing_of_the_records_is_shown():
    """The reprs of two data sets are equal, and neither counts nor pairs are pickled."""
    full, empty = read(), read(TABLE.slice(0, 0))
    assert repr(full) == repr(empty)
    assert repr(full.counts) == repr(empty.counts)
    assert full.public.identity == empty.public.identity
    for private in (full, full.pairs, full.counts):
        with pytest.raises(HexveilError, match="not pickled"):
            pickle.dumps(private)


def test_counts_are_marked():
    """Each line of the counts, which are for the holder alone, says that it is private."""
    lines = read().counts.lines()
    assert all(line.startswith("PRIVATE ") for line in lines)
    assert lines[-1].split()[-1] == "3"


def test_hours_leave_out_slots():
    """Slots without a selected hour are not in the grid."""
    everything = read(places(9), cells=GRID, lat="lat", lon="lon", time="time")
    morning = read(
        places(9), cells=GRID, lat="lat", lon="lon", time="time", select=hv.Select(hours="7-8,13")
    )
    assert set(morning.public.cells.slot_names()) == {"06:00", "12:00"}
    assert morning.public.grid.n_cells * 2 == everything.public.grid.n_cells


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cells": hv.Labels("route")}, "values is needed"),
        ({"cells": hv.Cells(6, None), "lat": "speed2", "lon": "x"}, "area is needed"),
        ({"protect": "all"}, "protect must be"),
        ({"protect": "values"}, "declare the cells of private presence"),
        ({"select": hv.Select(top=3)}, "min_users and top"),
        ({"select": hv.Select(min_users=3)}, "min_users and top"),
        ({"quantum": "0.000001"}, "too fine"),
        ({"max_bad_rows": 0.5}, "max_bad_rows has no meaning"),
        ({"accept_single_records": True}, "accept_single_records has no meaning"),
        ({"version": {"*.parquet": "1"}}, "one text for all files"),
    ],
)
def test_missing_declarations_are_refused(changes, message):
    """Whatever a release needs is declared before a file is opened."""
    with pytest.raises(InputError, match=message):
        read("no-such-file.csv", **changes)


def test_documents_are_refused(tmp_path):
    """The columns of documents are those of their records, so that a missing one would tell."""
    for content in ('{"car": "a", "route": "7", "speed": 1}\n', "{}\n"):
        (tmp_path / "cars.jsonl").write_text(content)
        with pytest.raises(InputError, match="reads records from Parquet, CSV and tables"):
            read(tmp_path / "cars.jsonl")


def test_units_of_days_need_declared_dates():
    """Without declared days the ledger could not name the days that are booked."""
    with pytest.raises(InputError, match="dates"):
        read(places(9), cells=GRID, lat="lat", lon="lon", time="time", privacy_unit="user-day")


# ---- the cache ----


def write(folder, *tables):
    """Write a file of records for each table."""
    folder.mkdir(exist_ok=True)
    for number, table in enumerate(tables):
        pq.write_table(table, folder / f"{number}.parquet")


@pytest.mark.slow
def test_a_cache_makes_the_pairs_of_its_files(tmp_path):
    """Files that share repeats, with and without dates, give what reading them gives."""
    source, kept = tmp_path / "cars", tmp_path / "cache"
    one, other = places(60), places(60, seed=2)
    # Some records are in both files; the last one has none.
    write(source, one, pa.concat_tables([other, one.slice(0, 20)]), one.slice(0, 0))
    columns = {"cells": GRID, "lat": "lat", "lon": "lon", "time": "time", "version": "1"}
    for dates in (None, ("2026-01-01", "2026-01-01"), ("2020-01-01", "2020-01-01")):
        options = columns | {"select": hv.Select(dates=dates)}
        private = read(source, **options)
        assert (private.pairs.cell.size > 50) == (dates is None or dates[0] > "2025")
        for _ in range(2):
            cached = read(source, cache=kept, **options)
            assert same_pairs(cached, private)
            assert cached.counts.lines() == private.counts.lines()
            assert cached.public.identity == private.public.identity


@pytest.mark.slow
def test_a_changed_file_is_read_again(tmp_path):
    """Records of a user that are added under the same version are no reason to refuse."""
    source, kept = tmp_path / "cars", tmp_path / "cache"
    for n, table in ((4, TABLE), (3, TABLE.slice(2)), (0, TABLE.slice(0, 0)), (4, TABLE)):
        write(source, table)
        cached = read(source, cache=kept, version="1")
        assert cached.pairs.cell.size == n
        assert same_pairs(cached, read(source, version="1"))


def same_pairs(one, other):
    """Return whether two data sets have the same contributions."""
    names = ("cell", "records", "mean", "begin")
    return all(np.array_equal(getattr(one.pairs, k), getattr(other.pairs, k)) for k in names)
