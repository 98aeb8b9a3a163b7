"""Pairs found by sorting are those that the engine's grouping finds; where sorting is used."""

from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hexveil.cells import Cells, Labels
from hexveil.errors import InputError
from hexveil.records.duckdb import counting, packed, session
from hexveil.records.duckdb.packed import pack
from hexveil.records.read import read
from hexveil.records.select import Select
from records import oracle
from records.test_read import (
    WARSAW,
    arrow,
    cells_of,
    grids,
    oracle_rules,
    read_table,
    records,
    rows_of,
    rules,
)

MEMORY = 1e9
"""Bytes that reading may use unless it is told otherwise."""


@contextmanager
def sorting(at_once=10**6):
    """Let few records be sorted, so many at once; yield the list of what packing returned."""
    found = []

    def kept(*given, **named):
        found.append(pack(*given, **named))
        return found[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packed, "FEWEST", 1)
        patch.setattr(session, "SORTED", at_once / MEMORY)
        patch.setattr(counting, "pack", kept)
        yield found


@settings(max_examples=25, deadline=None)
@given(records, grids, rules, st.sampled_from([20, 10**6]))
def test_sorted_pairs_agree_with_the_oracle(rows, grid, rule, at_once):
    """Counts, sums, squares and cells are the plain oracle's, at once or in parts."""
    expected, _ = oracle.count(rows, grid, oracle_rules(rule))
    with sorting(at_once):
        if not expected:
            with pytest.raises(InputError):
                read_table(arrow(rows), grid, rule)
            return
        found = read_table(arrow(rows), grid, rule)
    cells, pairs = oracle.as_arrays(expected)
    assert cells_of(found) == cells
    assert rows_of(found) == pairs


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


@pytest.mark.parametrize("unit", ["user", "user-day", "user-week"])
@pytest.mark.parametrize("repeats", ["drop", "keep"])
@pytest.mark.parametrize("parts", [1, 3])
def test_sorted_is_grouped(unit, repeats, parts):
    """Ids, counts of rules, cells, sums: all is as the engine groups it, in parts too."""
    rule = {"unit": unit, "repeats": repeats, "min_users": 2}
    grid = Cells(7, "1h", WARSAW)
    grouped = read_table(table(), grid, rule)
    with sorting(6_000 if parts == 1 else 2_500) as found:
        same(read_table(table(), grid, rule), grouped)
    assert found[0].cells.num_rows > grouped.occupancy.n_cells  # min_users left some out
    assert sum(found[0].left_out.values()) + grouped.public.rules.get(
        "repeats of a user and time", 0
    ) == len(table())


def test_sums_of_many_records_are_cut_between_pairs(monkeypatch):
    """Pairs with more records than are added up at once are still one pair."""
    rule = {"repeats": "keep", "min_users": 1}
    grouped = read_table(table(users=3, spread=0.0), Cells(5, None), rule)
    monkeypatch.setattr(packed, "_REDUCED", 16)
    with sorting() as found:
        same(read_table(table(users=3, spread=0.0), Cells(5, None), rule), grouped)
    assert found[0].sums["n"].tolist() == grouped.occupancy.n.tolist()


def test_few_records_labels_and_text_are_grouped(tmp_path):
    """Below the size where sorting pays, of labels, and of text that is dear to scan twice."""
    rule = {"repeats": "keep", "min_users": 1}
    place = tmp_path / "records.csv"
    pc.write_csv(table(), place)
    with sorting() as found:
        read_table(place, Cells(7, None), rule)
        read(
            pa.table({"u": ["a", "b"], "v": [1.0, 2.0], "w": ["x", "x"]}),
            user="u", value="v", bounds=(0, 90), cells=Labels("w"), select=Select(min_users=1),
        )  # fmt: skip
        packed.FEWEST = 10**9
        read_table(table(), Cells(7, None), rule)
    assert found == [None, None, None]


@pytest.mark.parametrize("why", ["one user's records", "bits", "hexagons", "parts", "no time"])
def test_what_does_not_fit_is_grouped(why, monkeypatch):
    """Too many records of one user, bits, hexagons, parts, or no usable time: the engine groups."""
    rule, given, size = {"repeats": "keep", "min_users": 1}, table(), 6_000
    if why == "one user's records":
        given, size = table(users=3), 1_900
    elif why == "bits":
        monkeypatch.setattr(packed, "HEXAGON_BITS", 60)
    elif why == "hexagons":
        monkeypatch.setattr(packed, "_BITS", 22)
        monkeypatch.setattr(packed, "HEXAGON_BITS", 0)
        rule |= {"quantum": "1"}
    elif why == "parts":
        size = 700
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


def test_records_that_change_while_read_are_refused(monkeypatch):
    """More records than were counted, or users that were not there, are no result."""
    rule = {"repeats": "keep", "min_users": 1}
    monkeypatch.setattr(packed, "_parts", lambda *_: [packed._Part(0, 10**6, 10, last=True)])
    with sorting(), pytest.raises(InputError, match="changed while they were read"):
        read_table(table(), Cells(7, None), rule)


def test_pairs_are_private():
    """Nothing of the pairs is in what is printed."""
    with sorting() as found:
        read_table(table(), Cells(7, None), {"repeats": "keep", "min_users": 1})
    assert "bus" not in repr(found[0])
    assert "array" not in repr(found[0])
