"""Pairs of so many records that they are sorted: those that the engine's grouping finds of few."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from hexveil import Cells, InputError, Labels
from records.test_engines_agree import many
from records.test_read import WARSAW, agreed, read_table
from records.watched_engine import once, watch

MANY = 100_000
"""Records from which they are sorted."""
KEEP = {"repeats": "keep"}
"""Which of some repeats counts depends on the id, and so differs by copy."""


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


def copied(rows, user="u"):
    """Return so many copies of records, each under ids of its own, that they are sorted."""
    number = MANY // len(rows) + 1
    ids = [pc.binary_join_element_wise(f"{k:03d} ", rows[user], "") for k in range(number)]
    place = rows.column_names.index(user)
    return number, pa.concat_tables(rows.set_column(place, user, names) for names in ids)


def numbers(dataset):
    """Return (cell, unit, n, sum, sum of squares) rows, in order."""
    pairs, sums = dataset.occupancy, dataset.sums
    squares = sums.total * 0 if sums.total_sq is None else sums.total_sq
    return np.stack([pairs.cell, pairs.user, pairs.n, sums.total, squares])


def check_copies(rows, grid, rule, **more):
    """Check that copies of records give what the records do, each under its own ids."""
    rule = {"min_users": 1} | rule
    one = read_table(rows, grid, rule, **more)
    times, copies = copied(rows)
    found = read_table(copies, grid, rule | {"min_users": times * rule["min_users"]}, **more)
    expected = np.repeat(numbers(one), times, axis=1)
    expected[1] += np.tile(np.arange(times), one.occupancy.n_pairs) * one.occupancy.n_users
    order = np.lexsort((expected[1], expected[0]))
    np.testing.assert_array_equal(numbers(found), expected[:, order])
    assert repr(found.public.cells) == repr(one.public.cells)
    assert found.public.cells.names() == one.public.cells.names()
    assert found.public.rules == {
        name: n if name.startswith("cells") else times * n for name, n in one.public.rules.items()
    }
    prefixes = [f"{k:03d} ".encode() for k in range(times)]
    assert found.units.ids() == [prefix + name for prefix in prefixes for name in one.units.ids()]
    assert found.units.periods() == (one.units.periods() and one.units.periods() * times)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("grid", "rule"),
    [
        (Cells(7, "1h", WARSAW), {"privacy_unit": "user-day"}),
        (Cells(4, "6h", WARSAW, "pooled"), {"repeats": "keep", "privacy_unit": "user-week"}),
        (
            Cells(0, None, WARSAW),
            {"repeats": "keep", "hours": (0, 1, 2, 3), "box": (-180, -10, 21.2, 60)},
        ),
    ],
)
def test_sorted_pairs_agree_with_the_oracle(grid, rule):
    """Counts, sums, squares and cells are the plain oracle's, with and without repeats."""
    plain = {"hours": None, "dates": None, "box": None, "drop_values": (), "top": None}
    plain |= {"min_users": 2, "bounds": (-5, "2.5"), "quantum": "0.5"}
    found, _ = agreed(many(MANY), grid, plain | rule)
    assert found.public.rules["records read"] > MANY


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["user", "user-day", "user-week"])
def test_sorted_is_grouped(unit):
    """Ids, counts of rules, cells, sums: all is as the engine groups it; some cells are left."""
    rule = KEEP | {"privacy_unit": unit, "min_users": 2}
    found = check_copies(table(), Cells(7, "1h", WARSAW), rule)
    assert found.public.rules["cells left out by selection"] > 0


@pytest.mark.slow
def test_sums_of_many_records_are_cut_between_pairs():
    """Pairs with more records than are added up at once are still one pair."""
    rows, rule = table(MANY, users=2, spread=0.0), KEEP | {"min_users": 1}
    halves = [rows.slice(0, MANY // 2), rows.slice(MANY // 2)]
    whole, *parts = (read_table(half, Cells(5, None), rule) for half in (rows, *halves))
    expected = numbers(parts[0])
    expected[2:] += numbers(parts[1])[2:]
    np.testing.assert_array_equal(numbers(whole), expected)
    assert min(expected[2]) > 2**15


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
@pytest.mark.parametrize(
    ("columns", "rule"),
    [
        (("ward",), {"min_users": 2}),
        (("ward", "line"), {"privacy_unit": "user-day"}),
        (("line",), {"top": 3}),
    ],
)
def test_sorted_labels_are_grouped(columns, rule):
    """Text is kept apart byte for byte and put in its order; a record without a label is left."""
    check_copies(labelled(), Labels(*columns), KEEP | rule, timezone=WARSAW, lat=None, lon=None)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["hexagons", "labels"])
def test_what_does_not_fit_is_grouped(way):
    """Too many bits for the numbers of hexagons, or without any: the engine groups."""
    fine = KEEP | {"quantum": "0.000000000004"}
    if way == "hexagons":
        check_copies(table(), Cells(8, "1h", WARSAW), fine)
    else:
        check_copies(labelled(), Labels("ward", "line"), fine, timezone=WARSAW, lat=None, lon=None)


@pytest.mark.slow
def test_many_records_without_a_time_are_refused():
    """As few are: of no usable time there is neither a first nor a last."""
    rows = table(MANY)
    rows = rows.set_column(1, "t", pa.array([-1.0] * MANY))
    with pytest.raises(InputError, match="no record has a usable time"):
        read_table(rows, Cells(8, "1h", WARSAW), KEEP)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("grid", "unit"),
    [
        (Cells(7, "1h", WARSAW), "user"),
        (Cells(7, None, WARSAW), "user-day"),
        (Cells(7, None, WARSAW), "user-week"),
    ],
)
@pytest.mark.parametrize("later", [-30, 30])
def test_what_lies_beyond_what_was_looked_up_is_refused(grid, unit, later, tmp_path, monkeypatch):
    """A slot, day or week of records that change meanwhile is in no other's place."""
    rows, path = table(MANY), tmp_path / "r.parquet"
    pq.write_table(rows, path)
    times = pc.add(rows["t"], 86_400.0 * later)
    watch(
        monkeypatch, once(lambda: pq.write_table(rows.set_column(1, "t", times), path), " AS below")
    )
    with pytest.raises(InputError, match="changed while they were read"):
        read_table(path, grid, KEEP | {"min_users": 1, "privacy_unit": unit})
