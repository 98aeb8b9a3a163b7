"""Sums made elsewhere: the nearest possible ones, public rules, and no error because of a sum."""

import itertools
import math

import h3
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from examples import examples
from hexveil import Cells, ColumnError, InputError, Labels, from_sums

ODD = [0.0, -0.0, 1.0, 64.9995, 0.0005, -3.0, 1e9, -1e300, 1.7e308, math.nan, math.inf, -math.inf]
sums = st.one_of(st.none(), st.sampled_from(ODD), st.floats(allow_nan=True))
rows = st.lists(
    st.tuples(
        st.sampled_from(["x", "y", "", None]),
        st.sampled_from(["7", "007", "é", "a/b", "", None]),
        st.integers(1, 4),
        sums,
        sums,
    ),
    min_size=1,
    max_size=25,
)
scales = st.sampled_from([((0, 65), "0.001"), ((-5, "2.5"), "0.5"), ((100, 101), 1)])


def table_of(found, *, squares=True):
    """Return rows as an Arrow table."""
    names = ["cell", "user", "n", "sum", "sum_sq"][: 5 if squares else 4]
    kinds = [pa.string(), pa.string(), pa.int64(), pa.float64(), pa.float64()]
    columns = list(zip(*found, strict=True)) or [()] * 5
    arrays = [pa.array(c, k) for c, k in zip(columns, kinds, strict=True)][: len(names)]
    return pa.table(arrays, names=names)


def pairs_of(dataset):
    """Return {(cell, user number): (n, total, total_sq)} by the cell's labels."""
    facts, squares = dataset.public, dataset.sums.total_sq
    names = facts.cells.names()
    squares = [None] * facts.occupancy.n_pairs if squares is None else squares.tolist()
    columns = (facts.occupancy.cell, facts.occupancy.user, facts.occupancy.n, dataset.sums.total)
    found = zip(*(c.tolist() for c in columns), squares, strict=True)
    return {(names[cell], user): rest for cell, user, *rest in found}


def usable(row):
    """Say whether a row is counted."""
    cell, user, _, *numbers = row
    return bool(cell and user and all(x is not None and math.isfinite(x) for x in numbers))


@pytest.mark.slow
@examples(80)
@given(rows, scales)
@example([("x", "7", 3, 1e300, -1e300), ("x", "7", 1, 0.0, 1.7e308)], ((100, 101), 1))
def test_no_sum_is_an_error_and_all_sums_are_possible(found, scale):
    """Whatever the sums are, each pair gets the sums that n values within the bounds can have."""
    bounds, quantum = scale
    kept = [row for row in found if usable(row)]
    if not kept:
        with pytest.raises(InputError, match="no row of sums can be used"):
            from_sums(table_of(found), bounds=bounds, quantum=quantum, min_users=1)
        return
    dataset = from_sums(table_of(found), bounds=bounds, quantum=quantum, min_users=1)
    steps = dataset.public.lattice.span_quanta
    for n, total, squares in pairs_of(dataset).values():
        assert 0 <= total <= n * steps
        # As equal as whole numbers can be, and as many as can at the upper bound.
        (each, more), (full, rest) = divmod(total, n), divmod(total, steps)
        least = (n - more) * each**2 + more * (each + 1) ** 2
        assert least <= squares <= full * steps**2 + rest**2
    counts = {}
    for cell, user, count, *_ in kept:
        counts[cell, user] = counts.get((cell, user), 0) + count
    users = sorted({user for _, user in counts}, key=str.encode)
    assert {(c, users[u]): rest[0] for (c, u), rest in pairs_of(dataset).items()} == counts
    rules = dict(dataset.public.rules)
    dropped = sum(v for k, v in rules.items() if k.startswith("without"))
    assert rules["rows read"] == len(found) == dropped + len(kept)


@pytest.mark.slow
@examples(60)
@given(rows, st.lists(st.tuples(sums, sums), min_size=25, max_size=25))
def test_other_sums_of_one_user_change_that_user_alone(found, others):
    """Other sums of one user, equally usable, leave every other user's pairs as they were."""
    changed = [
        (*row[:3], *(a if math.isfinite(a) else 5.0 for a in (x or 0.0 for x in other)))
        if row[1] == "7" and usable(row)
        else row
        for row, other in zip(found, others, strict=False)
    ]
    if not any(usable(row) for row in found):
        return
    one, two = (from_sums(table_of(f), bounds=(0, 65), min_users=1) for f in (found, changed))
    assert one.occupancy.fingerprint == two.occupancy.fingerprint
    assert one.public.rules == two.public.rules
    users = sorted({row[1] for row in found if usable(row)}, key=str.encode)
    before, after = pairs_of(one), pairs_of(two)
    odd = {users[user] for (_, user) in before if before[_, user] != after[_, user]}
    assert odd <= {"7"}


@pytest.mark.slow
@examples(50)
@given(st.lists(st.integers(-5000, 2500), min_size=1, max_size=8))
def test_sums_of_values_on_the_lattice_come_back_exactly(values):
    """Doubles of sums and sums of squares of values on the lattice give back whole quanta."""
    x = [v / 1000 for v in values]
    table = pa.table(
        {"cell": ["c"], "user": ["u"], "n": [len(x)], "sum": [math.fsum(x)]}
        | {"sum_sq": [math.fsum(v * v for v in x)]}
    )
    dataset = from_sums(table, bounds=(-5, "2.5"), min_users=1)
    assert dataset.sums.total.tolist() == [sum(v + 5000 for v in values)]
    assert dataset.sums.total_sq.tolist() == [sum((v + 5000) ** 2 for v in values)]


@pytest.mark.slow
def test_rows_of_one_pair_are_added_after_clamping():
    """Rows of the same cell and user are added up, each clamped by itself, in any order."""
    found = [("x", "a", 1, 100.0), ("x", "a", 2, -1.0), ("x", "b", 1, 7.0), ("x", "a", 1, 2.5)]
    for order in itertools.permutations(found):
        table = table_of([(*row, 0.0) for row in order], squares=False)
        dataset = from_sums(table, bounds=(0, 65), min_users=1)
        assert dataset.occupancy.n.tolist() == [4, 1]
        assert dataset.sums.total.tolist() == [67_500, 7_000]
        assert dataset.sums.total_sq is None


def test_min_users_and_top_choose_cells():
    """Cells below min_users go with their users; of the rest the ones of most records stay."""
    found = [("x", u, 1, 1.0, 0.0) for u in "abc"] + [("y", u, 5, 1.0, 0.0) for u in "ab"]
    found += [("w", u, 1, 1.0, 0.0) for u in "abz"] + [("v", "q", 99, 1.0, 0.0)]
    dataset = from_sums(table_of(found), bounds=(0, 65), min_users=2)
    assert dataset.public.cells.labels["cell"] == ("w", "x", "y")
    assert (dataset.occupancy.n_users, dataset.occupancy.n_pairs) == (4, 8)
    assert dataset.public.rules["cells left out by selection"] == 1
    two = from_sums(table_of(found), bounds=(0, 65), min_users=2, top=2)
    assert two.public.cells.labels["cell"] == ("w", "y")
    with pytest.raises(InputError, match="none of 4 cells has min_users=10"):
        from_sums(table_of(found), bounds=(0, 65))


def test_public_facts_say_what_was_asked():
    """Facts carry the unit, the value's name and the request, and no way to count again."""
    table = pa.table({"ward": ["x"], "hour": ["8"], "user": ["a"], "n": [1], "sum": [1.0]})
    grid = Labels("ward", "hour")
    dataset = from_sums(
        table, bounds=(0, 65), cells=grid, privacy_unit="user-day", value="speed",
        value_unit="km/h",
        min_users=1, version="v2",
    )  # fmt: skip
    facts = dataset.public
    assert (facts.privacy_unit, facts.value, facts.value_unit) == ("user-day", "speed", "km/h")
    assert facts.recount is None
    assert facts.cells.names() == ("x/8",)
    assert facts.identity["version"] == "v2"
    assert facts.identity["columns"] == "ward, hour, user, n, sum"
    assert facts.identity["select"] == "as in the sums; min_users 1; top all"


def cells_table(hexagon, slot=None):
    """Return one row of sums in a hexagon."""
    slots = {} if slot is None else {"slot": [slot]}
    return pa.table({"hexagon": [hexagon], **slots, "user": ["a"], "n": [1], "sum": [1.0]})


HEX = h3.latlng_to_cell(52.2, 21.0, 8)


@pytest.mark.parametrize("hexagon", [HEX, HEX.upper(), f"0x{HEX}", f"0{HEX}", h3.str_to_int(HEX)])
@pytest.mark.parametrize(
    ("slot", "kind", "second"),
    [
        ("2024-02-19T15:00", "calendar", 1_708_354_800),
        ("2024-02-19 15:00:00", "calendar", 1_708_354_800),
        ("1969-12-31T21:00", "calendar", -3 * 3600),
        ("15:00", "pooled", 54_000),
    ],
)
def test_hexagons_and_slots_are_read(hexagon, slot, kind, second):
    """Hexagons as hex text or whole numbers and slots by their local start name the same cells."""
    grid = Cells(resolution=8, timeslot="3h", timezone="Europe/Warsaw", slot=kind)
    dataset = from_sums(cells_table(hexagon, slot), bounds=(0, 65), cells=grid, min_users=1)
    assert dataset.public.cells.hexagon.tolist() == [h3.str_to_int(HEX)]
    assert dataset.public.cells.slot.tolist() == [second]
    assert dataset.public.identity["timezone"] == "Europe/Warsaw"


def test_squares_that_could_overflow_are_left_out_by_counts_alone():
    """Beyond 2^62 the sums stay and the squares go, whatever they are; rows of a pair add up."""
    for given_sq in (0.0, 1e300):
        found = [("x", "a", 2**29, 5.0, given_sq), ("x", "b", 1, 5.0, 25.0)]
        assert from_sums(table_of(found), bounds=(0, 65), min_users=1).has_squares
        crowded = from_sums(table_of([*found, found[0], found[0]]), bounds=(0, 65), min_users=1)
        assert not crowded.has_squares
        assert crowded.sums.total.tolist() == [15_000, 5_000]
    assert not from_sums(table_of(found, squares=False), bounds=(0, 65), min_users=1).has_squares


def counted(*n):
    """Return rows of sums with these counts."""
    users = [str(i) for i in range(len(n))]
    return pa.table({"cell": ["x"] * len(n), "user": users, "n": n, "sum": [1.0] * len(n)})


HEXAGONS = {"cells": Cells(resolution=8, timeslot=None)}
SLOTS = {"cells": Cells(resolution=8, timeslot="3h", timezone="Europe/Warsaw")}
SAMPLE = [("x", "007", 2, 30.5, 470.25), ("x", "7", 1, 9.0, 81.0), ("y", "7", 1, 2.0, None)]
REFUSED = [
    ({"cells": "ward"}, table_of(SAMPLE), "cells must be Cells"),
    ({"cells": Labels("user")}, table_of(SAMPLE), "the label 'user' has the name"),
    ({"privacy_unit": "month"}, table_of(SAMPLE), "unit must be one of"),
    ({"min_users": 0}, table_of(SAMPLE), "min_users must be a whole number"),
    ({"bounds": (0, 65.0005)}, table_of(SAMPLE), "not a multiple of the quantum"),
    ({}, table_of([]), "no row of sums in it"),
    ({}, "no.parquet", "there is no file"),
    # Whether whole numbers could overflow is decided by counts, bounds and quantum alone.
    ({}, counted(2**46), "sums of 70368744177664 records"),
    ({"bounds": (10**6, 10**6 + 1)}, counted(2**45), "sums of 35184372088832 records"),
    # Counts, hexagons and slots are public: how many are wrong is said, and the rule.
    *[
        ({}, counted(*n), "n: 1 of 2 rows have no whole number of at least 1")
        for n in ((0, 1), (-1, 1), (1.5, 1.0), (None, 1), ("two", "1"), (1e300, 1.0))
    ],
    *[
        (HEXAGONS, cells_table(name), r"1 are without a usable place|1 of 1 rows have no H3")
        for name in ("", "zz", "8" * 15, "12", h3.latlng_to_cell(52.2, 21.0, 7))
    ],
    *[
        (SLOTS, cells_table(HEX, slot), r"slot: 1 of 1 rows .* write for example \"2024-02-19")
        for slot in ("15:00", "2024-02-19T15:30", "2024-02-30T15:00", "x", "2200-01-01T00:00")
    ],
]


@pytest.mark.parametrize(("options", "table", "said"), REFUSED)
def test_what_cannot_be_used_is_refused(options, table, said):
    """In one sentence each, from arguments and public facts."""
    with pytest.raises(InputError, match=said):
        from_sums(table, **{"bounds": (0, 65), "min_users": 1, **options})


@pytest.mark.parametrize("missing", ["cell", "user", "n", "sum"])
def test_a_missing_column_is_named(missing):
    """A missing column is an error that names it."""
    with pytest.raises(ColumnError, match="the source has no column") as error:
        from_sums(table_of(SAMPLE).drop_columns([missing]), bounds=(0, 65), min_users=1)
    assert error.value.column == missing


def test_malformed_lines_are_counted(tmp_path):
    """A line of a CSV file with too many fields is left out and counted, never quoted."""
    path = tmp_path / "sums.csv"
    path.write_text("cell,user,n,sum\nx,a,1,2.5\nx,b,1,2.5,9,9\nx,c,1,\n")
    found = from_sums(path, bounds=(0, 65), min_users=1, accept_single_records=True)
    assert found.sums.total.tolist() == [2500]
    assert [*found.public.rules.items()][:5] == [
        ("rows read", 3),
        ("unparsable", 1),
        ("without a usable sum", 1),
        ("without a user", 0),
        ("without a usable place", 0),
    ]
