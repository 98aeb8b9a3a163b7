"""Pairs found by sorting are those that the engine's grouping finds; where sorting is used."""

from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples, some
from hexveil import Cells, InputError, Labels
from hexveil.records.duckdb import fast_path, session
from hexveil.records.duckdb.fast_path import pack
from records.test_read import (
    WARSAW,
    agreed,
    grids,
    read_table,
    records,
    rows_of,
    rules,
)

MEMORY = 1e9
"""Bytes that reading may use unless it is told otherwise."""


@contextmanager
def sorting(at_once=10**6, fewest=1):
    """Let so few records be sorted, so many at once; yield what the fast path returned."""
    found = []

    def kept(*given, **named):
        found.append(pack(*given, **named))
        return found[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fast_path, "MIN_RECORDS", fewest)
        patch.setattr(session, "SORTABLE_PER_BYTE", at_once / MEMORY)
        patch.setattr(fast_path, "pack", kept)
        yield found


@pytest.mark.slow
@examples(25)
@given(records, grids, rules, st.sampled_from([20, 10**6]))
def test_sorted_pairs_agree_with_the_oracle(rows, grid, rule, at_once):
    """Counts, sums, squares and cells are the plain oracle's, at once or in parts."""
    with sorting(at_once):
        agreed(rows, grid, rule)


def table(size=6_000, *, users=40, spread=0.2):
    """Return records, a tenth of which some rule leaves out."""
    rng = np.random.default_rng(4)

    def some(column, odd):
        return np.where(rng.uniform(size=size) < 0.02, odd, column)

    user = [f"bus-{i}" for i in rng.integers(0, users, size)]
    return pa.table(
        {
            "u": [None if hidden else u for u, hidden in zip(user, some(0, 1), strict=True)],
            "t": some(rng.integers(0, 40_000, size) + 1_711_800_000.0, -1.0),
            "lat": some(52.2 + spread * rng.uniform(-1, 1, size), 95.0),
            "lon": some(21.0 + spread * rng.uniform(-1, 1, size), np.nan),
            "v": some(rng.uniform(0, 90, size), np.inf),
        }
    )


def same(one, other):
    """Check that two data sets are one, to the last id and count."""
    assert rows_of(one) == rows_of(other)
    assert repr(one.public.cells) == repr(other.public.cells)
    assert one.public.rules == other.public.rules
    assert one.units.ids() == other.units.ids()
    assert one.units.days is None or one.units.days.tolist() == other.units.days.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["user", "user-day", "user-week"])
@pytest.mark.parametrize("repeats", ["drop", "keep"])
@pytest.mark.parametrize("parts", [1, 3])
def test_sorted_is_grouped(unit, repeats, parts):
    """Ids, counts of rules, cells, sums: all is as the engine groups it, in parts too."""
    rule = {"privacy_unit": unit, "repeats": repeats, "min_users": 2}
    grid = Cells(7, "1h", WARSAW)
    grouped = read_table(table(), grid, rule)
    with sorting(6_000 if parts == 1 else 2_500) as found:
        same(read_table(table(), grid, rule), grouped)
    assert (
        int(found[0].columns["place"][-1]) + 1 > grouped.occupancy.n_cells
    )  # min_users left some out
    assert sum(found[0].left_out.values()) + grouped.public.rules.get(
        "repeats of a user and time", 0
    ) == len(table())


def test_sums_of_many_records_are_cut_between_pairs(monkeypatch):
    """Pairs with more records than are added up at once are still one pair."""
    rule = {"repeats": "keep", "min_users": 1}
    grouped = read_table(table(users=3, spread=0.0), Cells(5, None), rule)
    monkeypatch.setattr(fast_path, "_BLOCK", 16)
    with sorting() as found:
        same(read_table(table(users=3, spread=0.0), Cells(5, None), rule), grouped)
    assert found[0].columns["n"].tolist() == grouped.occupancy.n.tolist()


LABELS = ["x", "X", "x ", "é", "e\u0301", "10", "9", "", None, "\U0001f68c", "a\x00b", "'", '"']
"""Labels of which some differ by a letter's case, a blank, or bytes alone."""


def labelled(size=4_000):
    """Return records on labels, a few of which are none."""
    rng = np.random.default_rng(5)
    records = table(size)
    odd = [LABELS[i] for i in rng.integers(0, len(LABELS), size)]
    line = rng.integers(0, 12, size)
    return records.append_column("ward", pa.array(odd, pa.string())).append_column("line", [line])


@pytest.mark.slow
@pytest.mark.parametrize("columns", [("ward",), ("ward", "line"), ("line",)])
@pytest.mark.parametrize("rule", [{"repeats": "keep"}, {"privacy_unit": "user-day"}, {"top": 3}])
@pytest.mark.parametrize("parts", [1, 3])
def test_sorted_labels_are_grouped(columns, rule, parts):
    """Text is kept apart byte for byte and put in its order; a record without a label is left."""
    chosen = {"min_users": 2} | rule
    given, more = labelled(), {"timezone": WARSAW, "lat": None, "lon": None}
    grouped = read_table(given, Labels(*columns), chosen, **more)
    with sorting(4_000 if parts == 1 else 1_700) as found:
        same(read_table(given, Labels(*columns), chosen, **more), grouped)
    assert int(found[0].columns["place"][-1]) + 1 >= grouped.occupancy.n_cells


@pytest.mark.slow
@pytest.mark.parametrize("why", ["pairs", "bits", "hexagons", "no time"])
def test_what_does_not_fit_is_grouped(why, monkeypatch):
    """Too many pairs, bits or hexagons, or no usable time: the engine groups."""
    rule, given, size = {"repeats": "keep", "min_users": 1}, table(), 6_000
    if why == "pairs":
        monkeypatch.setattr(fast_path, "BYTES_OF_PAIR", 10**6)
        size = 700
    elif why == "bits":
        monkeypatch.setattr(fast_path, "BITS", 30)
    elif why == "hexagons":
        monkeypatch.setattr(fast_path, "BITS", 22)
        rule |= {"quantum": "1"}
    else:
        given = given.set_column(1, "t", pa.array([-1.0] * len(given)))
    with sorting(size) as found:
        if why == "no time":
            with pytest.raises(InputError):
                read_table(given, Cells(8, "1h", WARSAW), rule)
        else:
            got = read_table(given, Cells(8, "1h", WARSAW), rule)
            same(got, read_table(given, Cells(8, "1h", WARSAW), rule))
    assert set(found) == {None}


@pytest.mark.parametrize("unit", ["user-day", "user-week"])
@pytest.mark.parametrize("name", ["slot", "unit", "quanta"])
@pytest.mark.parametrize("end", some(["highest", "lowest"], 1))
def test_what_lies_beyond_what_was_looked_up_is_refused(name, unit, end, monkeypatch):
    """A slot, day, week or value that its bits were not made for is in no other's place."""
    given_layout = fast_path._layout
    step = {"slot": 3600, "unit": 1, "quanta": 45_000}[name]

    def narrower(field):
        by = step if end == "lowest" else -step
        return replace(field, **{end: getattr(field, end) + by})

    def patched(*given):
        found = given_layout(*given)
        if name == "quanta":
            return replace(found, value=narrower(found.value))
        kind, key = ("cell", "slot") if name == "slot" else ("unit", unit.removeprefix("user-"))
        fields = dict(getattr(found, kind))
        return replace(found, **{kind: fields | {key: narrower(fields[key])}})

    rule = {"repeats": "keep", "min_users": 1, "privacy_unit": unit}
    given = table()
    time = given["t"].to_numpy()
    weeks = np.where(time > 0, np.arange(len(given)) % 3 * 604_800.0, 0)
    given = given.set_column(1, "t", pa.array(time + weeks))
    monkeypatch.setattr(fast_path, "_layout", patched)
    with sorting(), pytest.raises(InputError, match="changed while they were read"):
        read_table(given, Cells(7, "1h", WARSAW), rule)
