"""Reading records: the rules against a plain oracle, every kind of source, real figures."""

import datetime as dt
import gzip
import json
import math
import os
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from hexveil import Cells, InputError, Labels, OneCell, Select, read
from records import oracle

NAMES = ["v", "u", "t", "lat", "lon"]
USERS = ["7", "007", "", "a,b", 'q"x', "é", "z\n", None]
WARSAW = "Europe/Warsaw"
# Around both changes of the clock in 2024, and ordinary days either side of a week's end.
TIMES = [
    int(dt.datetime.fromisoformat(text).timestamp()) * 10**6 + micros
    for text in (
        "2024-03-31T00:59:59Z", "2024-03-31T01:00:00Z", "2024-10-27T00:30:00Z",
        "2024-10-27T01:30:00Z", "2024-10-27T02:30:00Z", "2024-02-18T22:59:59Z",
        "2024-02-18T23:00:00Z", "1970-01-01T00:00:00Z", "2099-12-31T23:59:59Z",
    )
    for micros in (0, 5)
] + [-1, oracle.LAST * 10**6, None]  # fmt: skip
PLACES = [52.1, 52.1004, 52.4, -0.0, 0.0, 90.0, 95.0, math.nan, math.inf, None]
LONGITUDES = [21.0, 21.0004, 21.5, -180.0, 180.0, 200.0, math.nan, None]
VALUES = [0.0, 0.0005, 1.0005, 30.0, 89.9995, 90.0, 1e9, -3.5, math.nan, -math.inf, None]

records = st.lists(
    st.tuples(
        st.sampled_from(VALUES),
        st.sampled_from(USERS),
        st.sampled_from(TIMES),
        st.sampled_from(PLACES),
        st.sampled_from(LONGITUDES),
    ),
    min_size=1,
    max_size=60,
)
grids = st.builds(
    Cells,
    resolution=st.sampled_from([0, 4, 7]),
    timeslot=st.sampled_from(["15min", "1h", "6h", "1d", None]),
    timezone=st.just(WARSAW),
    slot=st.sampled_from(["calendar", "pooled"]),
)
rules = st.fixed_dictionaries(
    {
        "privacy_unit": st.sampled_from(["user", "user-day", "user-week"]),
        "repeats": st.sampled_from(["drop", "keep"]),
        "min_users": st.sampled_from([1, 2]),
        "top": st.sampled_from([None, 1, 2]),
        "hours": st.sampled_from([None, (0, 1, 2, 3)]),
        "dates": st.sampled_from([None, ("2024-02-19", "2024-10-27")]),
        "box": st.sampled_from([None, (-180.0, -10.0, 21.2, 60.0)]),
        "drop_values": st.sampled_from([(), (0,), ("30", 90)]),
        "bounds": st.sampled_from([(0, 90), (-5, "2.5")]),
        "quantum": st.sampled_from(["0.001", "0.5"]),
    }
)


def arrow(rows):
    """Return records as a typed table."""
    columns = [list(column) for column in zip(*rows, strict=True)]
    types = [pa.float64(), pa.string(), pa.timestamp("us", "UTC"), pa.float64(), pa.float64()]
    arrays = [pa.array(c, t, from_pandas=False) for c, t in zip(columns, types, strict=True)]
    return pa.table(arrays, names=NAMES)


def read_table(source, grid, rule, **more):
    """Read records by the names above."""
    chosen = ("hours", "dates", "box", "min_users", "top", "drop_values")
    arguments = {
        "user": "u",
        "value": "v",
        "lat": "lat",
        "lon": "lon",
        "time": "t",
        "cells": grid,
        "bounds": rule.get("bounds", (0, 90)),
        "quantum": rule.get("quantum", "0.001"),
        "privacy_unit": rule.get("privacy_unit", "user"),
        "repeats": rule.get("repeats", "drop"),
        "select": Select(
            accept_value_dependent_counts=True, **{k: rule[k] for k in chosen if k in rule}
        ),
        "max_bad_rows": 1,
        "max_repeats": 1,
    }
    return read(source, **(arguments | more))


def rows_of(dataset):
    """Return (cell, unit, n, sum, sum of squares) rows."""
    o, sums = dataset.occupancy, dataset.sums
    columns = (o.cell, o.user, o.n, sums.total, sums.total_sq)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def cells_of(dataset):
    """Return (hexagon, slot) of each cell."""
    cells = dataset.public.cells
    slots = [None] * len(cells) if cells.slot is None else cells.slot.tolist()
    return list(zip(cells.hexagon.tolist(), slots, strict=True))


def oracle_rules(rule):
    """Return the same rules as the oracle wants them."""
    quantum = Fraction(rule["quantum"])
    lower, upper = (Fraction(b) for b in rule["bounds"])
    odd = tuple(Fraction(v) for v in rule["drop_values"])
    return rule | {"timezone": WARSAW, "scale": (lower, upper, quantum), "drop_values": odd}


def agreed(rows, grid, rule):
    """Assert that reading finds what the oracle does; return it and what each rule left out.

    The data set is None where no cell is left: both refuse such records.
    """
    expected, left_out = oracle.count(rows, grid, oracle_rules(rule))
    if not expected:
        with pytest.raises(InputError):
            read_table(arrow(rows), grid, rule)
        return None, left_out
    found = read_table(arrow(rows), grid, rule)
    cells, pairs = oracle.as_arrays(expected)
    assert cells_of(found) == cells
    assert rows_of(found) == pairs
    return found, left_out


@pytest.mark.slow
@examples(60)
@given(records, grids, rules)
def test_rules_agree_with_the_oracle(rows, grid, rule):
    """Counts, sums, squares, cells and what each rule left out are the plain oracle's."""
    found, left_out = agreed(rows, grid, rule)
    if found is None:
        return
    counts = found.public.rules
    assert counts["records read"] == len(rows)
    for name, why in (
        ("without a usable value", "value"),
        ("without a user", "user"),
        ("without a usable time", "time"),
        ("without a usable place", "place"),
        ("outside the hours", "hours"),
        ("outside the dates", "dates"),
        ("outside the box", "box"),
        ("values that mean no reading", "drop"),
    ):
        assert counts.get(name, 0) == left_out.get(why, 0), name
    assert counts["records left"] == sum(n for _, _, n, *_ in rows_of(found))


@pytest.mark.slow
@examples(8)
@given(records, grids, rules)
def test_recount_agrees_with_reading_again(rows, grid, rule):
    """Counting on other grids and units gives what reading with them gives, in any order."""
    everything = rule | {"min_users": 1, "top": None, "hours": None, "dates": None, "box": None}
    good = [(1.0, "x", TIMES[0], 52.1, 21.0)]
    dataset = read_table(arrow(rows + good), grid, everything | {"drop_values": ()})
    others = (Cells(5, "3h", WARSAW), grid, Cells(0, None), Cells(5, "1d", WARSAW, "pooled"))
    recounted = dataset.public.recount(others, "user-day")
    for other, facts in zip(others, recounted, strict=True):
        again = read_table(
            arrow(rows + good),
            other,
            everything | {"drop_values": (), "privacy_unit": "user-day"},
            timezone=WARSAW,
        ).public
        assert facts.occupancy.fingerprint == again.occupancy.fingerprint
        assert facts.cells.hexagon.tolist() == again.cells.hexagon.tolist()
        assert facts.rules == again.rules
        assert facts.privacy_unit == "user-day"
        assert facts.identity["privacy_unit"] == "user-day"


def test_without_a_time_column_repeats_are_kept():
    """Records that only look alike all count where there is no time."""
    rows = [(1.0, "a", TIMES[0], 52.1, 21.0)] * 3
    found = read_table(arrow(rows), Cells(4, None), {"min_users": 1}, time=None)
    assert found.occupancy.n.tolist() == [3]
    assert found.public.identity["repeats"] == "keep"


GOOD = [
    (12.5, "007", TIMES[10], 52.1, 21.0),
    (30.0, "7", TIMES[10], 52.1, 21.0),
    (1.25, "é,\"x'", TIMES[12], 52.4, 21.5),
    (2.0, "a/b\\c", TIMES[12], 52.4, 21.5),
    (None, "7", TIMES[13], 52.1, 21.0),
]
ONE_SLOT = Cells(6, "1h", WARSAW)


def iso(micros):
    """Return an instant as text with an offset."""
    return dt.datetime.fromtimestamp(micros / 1e6, dt.UTC).isoformat()


def documents():
    """Return the good records as JSON documents."""
    return [{"v": v, "u": u, "t": iso(t), "lat": lat, "lon": lon} for v, u, t, lat, lon in GOOD]


def text_table():
    """Return the good records as text."""
    rows = documents()
    return pa.table({n: [None if r[n] is None else str(r[n]) for r in rows] for n in NAMES})


def sources(folder):
    """Yield the same records in every kind of source, with the name of the kind."""
    import pandas as pd  # noqa: PLC0415  only here
    import polars as pl  # noqa: PLC0415  only here

    table = arrow(GOOD)
    pq.write_table(table, folder / "r.parquet")
    pc.write_csv(text_table(), folder / "r.csv")
    (folder / "r.csv.gz").write_bytes(gzip.compress((folder / "r.csv").read_bytes()))
    lines = "".join(json.dumps(d, ensure_ascii=False) + "\n" for d in documents())
    (folder / "r.ndjson").write_text(lines, "utf-8")
    (folder / "r.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    (folder / "array.json").write_text(json.dumps(documents()), "utf-8")
    split = folder / "split"
    split.mkdir()
    pq.write_table(table.slice(0, 2), split / "1.parquet")
    pq.write_table(table.slice(2), split / "2.parquet")
    files = ("r.parquet", "r.csv", "r.csv.gz", "r.ndjson", "r.jsonl.gz", "array.json")
    for name in files:
        yield name, str(folder / name)
    yield "path", folder / "r.parquet"
    yield "folder", str(split)
    yield "glob", str(split / "*.parquet")
    yield "list", [str(split / "2.parquet"), split / "1.parquet"]
    yield "arrow", table
    yield "batch", table.to_batches()[0]
    yield (
        "pandas",
        pd.DataFrame({n: [getattr(r, "as_py", lambda r=r: r)() for r in table[n]] for n in NAMES}),
    )
    yield "polars", pl.from_arrow(table)


@pytest.mark.slow
def test_every_kind_of_source_gives_the_same_data_set(tmp_path):
    """Files, folders, globs and tables in memory with the same records read the same."""
    expected = read_table(arrow(GOOD), ONE_SLOT, {"min_users": 1})
    assert expected.occupancy.n_users == 4
    for name, source in sources(tmp_path):
        found = read_table(source, ONE_SLOT, {"min_users": 1})
        assert rows_of(found) == rows_of(expected), name
        assert cells_of(found) == cells_of(expected), name
        assert found.public.rules == expected.public.rules, name


@pytest.mark.parametrize("kind", ["list", "point", "text", "flat"])
def test_places_in_one_field_read_like_two_columns(kind):
    """A list, a GeoJSON point, text of one and flattened columns are all longitude first."""
    rows = [r for r in GOOD if r[0] is not None]
    table = arrow(rows)
    pairs = [[lon, lat] for *_, lat, lon in rows]
    if kind == "list":
        table = table.append_column("p", pa.array(pairs))
    elif kind == "point":
        table = table.append_column(
            "p", pa.array([{"type": "Point", "coordinates": p} for p in pairs])
        )
    elif kind == "text":
        table = table.append_column("p", pa.array([json.dumps(p) for p in pairs]))
    else:
        for i in (0, 1):
            table = table.append_column(f"p/{i}", pa.array([p[i] for p in pairs]))
    names = ["p.coordinates", "p"] if kind == "point" else ["p"]
    expected = read_table(arrow(rows), ONE_SLOT, {"min_users": 1})
    for name in names:
        found = read_table(table, ONE_SLOT, {"min_users": 1}, lat=None, lon=None, location=name)
        assert rows_of(found) == rows_of(expected)
        assert cells_of(found) == cells_of(expected)


@pytest.mark.parametrize(
    ("times", "zone"),
    [
        (pa.array([1708300800, 1708300801]), None),
        (pa.array([1708300800000, 1708300801000]), None),
        (pa.array(["1708300800", "1708300801000"]), None),
        (pa.array(["2024-02-19T00:00:00Z", "2024-02-19 01:00:01+01:00"]), None),
        (pa.array(["2024-02-19T01:00:00", "2024-02-19 01:00:01"]), WARSAW),
        (pa.array(["2024-02-19 05:30", "2024-02-19T05:30:01.0"]), "Asia/Kolkata"),
        (pa.array([1708300800, 1708300801], pa.timestamp("s", "UTC")), None),
        (pa.array([1708300800 * 10**9, 1708300801 * 10**9], pa.timestamp("ns", "UTC")), None),
        (pa.array([1708304400, 1708304401], pa.timestamp("s")), WARSAW),
        (pa.array([1708304400_000, 1708304401_000], pa.timestamp("ms")), WARSAW),
    ],
)
def test_every_form_of_time_is_the_same_instant(times, zone):
    """Epoch seconds or milliseconds, text with and without offset, and timestamps agree."""
    table = pa.table({"v": [1.0, 2.0], "u": ["a", "b"], "lat": [52.1] * 2, "lon": [21.0] * 2})
    found = read_table(
        table.append_column("t", times), Cells(4, "15min", WARSAW), {"min_users": 2}, timezone=zone
    )
    assert found.public.cells.slot_names() == ("2024-02-19T01:00",)


def labelled(**more):
    """Return a small table with labels."""
    columns = {
        "u": ["a", "b", "b", "c", "c"],
        "v": [1.0, 2.0, 2.0, 4.0, 5.0],
        "route": ["10", "10", "9", "é", None],
        "hour": [7, 7, 8, 7, 7],
        "t": ["2024-02-19T07:00:00Z"] * 5,
    }
    return pa.table(columns | more)


def test_dropping_by_value_makes_counts_depend_on_values():
    """ERRATA 13: one user's zero changes the counts if zeros are removed before counting."""
    with_zero = [(0.0, "a"), (5.0, "a"), (7.0, "b")]
    without = [(3.0, "a"), (5.0, "a"), (7.0, "b")]

    def counts(rows, dropped):
        table = pa.table({"v": [v for v, _ in rows], "u": [u for _, u in rows], "k": ["x"] * 3})
        cells = Labels("k")
        chosen = Select(min_users=1, drop_values=dropped)
        found = read(table, user="u", value="v", bounds=(0, 10), cells=cells, select=chosen)
        return found.occupancy.n.tolist()

    assert counts(with_zero, ()) == counts(without, ()) == [2, 1]
    assert counts(with_zero, (0,)) == [1, 1]
    assert counts(without, (0,)) == [2, 1]


def test_labels_need_neither_place_nor_time():
    """Cells are the combinations of public columns, ordered by bytes; a null label is no place."""
    found = read(
        labelled(),
        user="u",
        value="v",
        bounds=(0, 9),
        cells=Labels("route", "hour"),
        select=Select(min_users=1),
        max_bad_rows=1,
        max_repeats=1,
    )
    assert found.public.cells.labels == {"route": ("10", "9", "é"), "hour": ("7", "8", "7")}
    totals = [(0, 0, 1, 1000), (0, 1, 1, 2000), (1, 1, 1, 2000), (2, 2, 1, 4000)]
    assert rows_of(found) == [(*row, row[-1] ** 2) for row in totals]
    assert found.public.rules["without a usable place"] == 1


def test_one_cell_holds_all_records():
    """Neither place nor label: one cell of the name all, with the sums of one constant label."""
    table = labelled()
    shared = {"user": "u", "value": "v", "bounds": (0, 9), "select": Select(min_users=1)}
    found = read(table, cells=OneCell(), **shared)
    constant = table.append_column("cell", pa.array(["all"] * len(table)))
    known = read(constant, cells=Labels("cell"), **shared)
    assert found.public.cells.names() == ("all",)
    assert found.public.cells.grid == OneCell()
    assert rows_of(found) == rows_of(known)
    assert found.public.rules == known.public.rules
    assert found.public.identity == known.public.identity


def spread(**given):
    """Return records of four users in two months around Warsaw, by place or by label."""
    rng = np.random.default_rng(4)
    size = 300
    table = pa.table({
        "u": rng.choice(["b", "a", "é", "10"], size), "v": np.ones(size),
        "t": pa.array(rng.integers(1_708_300, 1_708_560, size) * 10**9, pa.timestamp("us", "UTC")),
        "lat": rng.uniform(52.0, 52.4, size), "lon": rng.uniform(20.8, 21.2, size),
        "route": rng.choice(["9", "10", "ü"], size), "side": rng.choice(["x", "y"], size),
    })  # fmt: skip
    return read(table, user="u", value="v", time="t", bounds=(0, 9), timezone=WARSAW, **given)


def test_labels_are_recounted_as_reading_again_does():
    """Some of the columns, for another unit too: the facts that reading by them gives."""
    levels = tuple(Labels(*columns) for columns in (("route",), ("side", "route"), ("side",)))
    asked = {"select": Select(min_users=2, top=4), "repeats": "keep"}
    facts = spread(cells=Labels("route", "side"), **asked).public
    for level, found in zip(levels, facts.recount(levels, "user-day"), strict=True):
        again = spread(cells=level, privacy_unit="user-day", **asked)
        assert found.occupancy.fingerprint == again.occupancy.fingerprint
        assert found.cells.labels == again.public.cells.labels
        assert (found.cells.grid, found.privacy_unit) == (level, "user-day")
        assert found.rules["records left"] == again.public.rules["records left"]


@pytest.mark.slow
def test_reading_prints_nothing_and_leaves_nothing_behind(tmp_path):
    """No line on either stream, not even at exit, and no file but the scratch folder's note."""
    # Ids that are one number in two spellings would be warned of.
    pq.write_table(arrow([row for row in GOOD if row[1] != "007"]), tmp_path / "r.parquet")
    code = (
        "import hexveil as hv;"
        f"hv.read({str(tmp_path / 'r.parquet')!r}, user='u', value='v', lat='lat', lon='lon',"
        "time='t', bounds=(0, 9), cells=hv.Cells(6, None), select=hv.Select(min_users=1),"
        "max_bad_rows=1)"
    )
    spill = tmp_path / "tmp"
    spill.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={k: v for k, v in os.environ.items() if k != "HEXVEIL_SCRATCH"}
        | {"TMPDIR": str(spill)},
    )
    assert (done.stdout, done.stderr) == ("", "")
    (root,) = spill.iterdir()
    assert [path.name for path in root.iterdir()] == ["README.txt"]


STEPS = 2**30


def stacked(n, value=STEPS):
    """Return a reading in which one user has n records of a value, by default the largest."""
    rows = pa.table({"u": ["a"] * n + ["b"], "v": [value] * n + [0], "w": ["x"] * (n + 1)})
    return read(
        rows, user="u", value="v", bounds=(0, STEPS), quantum=1, cells=Labels("w"),
        select=Select(min_users=1),
    )  # fmt: skip


def test_squares_are_kept_to_the_last_that_fit():
    """Sums of squares just below 2^62 are exact; one record more, and there are none.

    Counts decide it: small values of as many records are treated like large ones.
    """
    fit, too_many = stacked(3), stacked(4)
    assert fit.sums.total_sq.tolist() == [3 * 2**60, 0]
    assert too_many.sums.total_sq is None
    assert too_many.sums.total.tolist() == [4 * STEPS, 0]
    for value in (0, STEPS):
        assert [stacked(n, value).has_squares for n in (3, 4)] == [True, False]


def test_a_crowded_pair_counts_even_if_its_cell_is_left_out():
    """The largest count of any pair decides, before cells are chosen."""
    columns = {"u": ["a"] * 4 + ["b", "c"], "v": [1.0] * 6, "w": ["x"] * 4 + ["y"] * 2}
    found = read(
        pa.table(columns), user="u", value="v", bounds=(0, 2**30), quantum=1, cells=Labels("w"),
        select=Select(min_users=2),
    )  # fmt: skip
    assert found.public.cells.labels == {"w": ("y",)}
    assert not found.has_squares
