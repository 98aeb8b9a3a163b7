"""Who the units of a data set are: never shown, never confused, the same whatever the route."""

from datetime import date, timedelta
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hexveil as hv
from hexveil.ledger import Key, hash_losses
from hexveil.records.units import first_days, split_unit_ids

KEY = Key(b"k" * 32)
NEAR = [
    "a",
    "A",
    "a ",
    " a",
    "a\n",
    "a\u0301",
    "\u00e1",
    "a\x1f",
    "a\x00",
    "\U0001f68c",
    "x" * 9999,
]
days_of = st.dates(date(1900, 1, 1), date(2200, 1, 1))


def hashed(units):
    """Return each unit's hash, in the order of the units."""
    ids, periods = units.ids(), units.periods()
    one = np.array([1.0])
    return [
        hash_losses(
            [name], one, KEY, max_loss=Fraction(1), periods=None if periods is None else [day]
        ).hashes[0]
        for name, day in zip(ids, periods or [""] * len(ids), strict=True)
    ]


def records(n_rows=60):
    """Return records of vehicles with odd ids, on three days in Kolkata, in any order."""
    start = 1_708_300_800  # a Monday, 05:30 in Kolkata
    rows = [
        {"bus": NEAR[k % len(NEAR)], "route": "r", "at": start + 9_000 * k, "v": float(k % 50)}
        for k in range(n_rows)
    ]
    table = pa.Table.from_pylist(rows)
    return table.set_column(2, "at", table["at"].cast(pa.timestamp("s", "UTC")))


def as_read(source, unit, **more):
    """Return records as read."""
    return hv.read(
        source, user="bus", value="v", time="at", cells=hv.Labels("route"), bounds=(0, 60),
        privacy_unit=unit, timezone="Asia/Kolkata", select=hv.Select(min_users=1), **more,
    )  # fmt: skip


@pytest.mark.parametrize("unit", ["user", "user-day", "user-week"])
def test_ids_that_differ_in_a_byte_are_different_units(unit):
    """Case, blanks, control characters, composed and decomposed letters and length keep apart."""
    dataset = as_read(records(), unit)
    assert set(dataset.units.ids()) == {name.encode() for name in NEAR}
    found = hashed(dataset.units)
    assert len(set(found)) == len(found) == dataset.occupancy.n_users


@given(st.lists(days_of, min_size=1, max_size=5), st.sampled_from(["user-day", "user-week"]))
def test_first_days_are_days_and_mondays(days, unit):
    """Grouping keys come back as the day, or the Monday of its week, before 1970 too."""
    since = np.array([(day - date(1970, 1, 1)).days for day in days])
    keys = since + 1 if unit == "user-day" else (since + 10) // 7
    first = [date(1970, 1, 1) + timedelta(int(day)) for day in first_days(keys, unit)]
    back = [0 if unit == "user-day" else day.weekday() for day in days]
    assert first == [day - timedelta(less) for day, less in zip(days, back, strict=True)]


def test_user_days_carry_their_local_day():
    """The day of a unit is the one of the records' clock, not of UTC."""
    table = records(1).set_column(2, "at", pa.array([1_708_371_000], pa.timestamp("s", "UTC")))
    (day,) = as_read(table, "user-day").units.periods()
    assert day == "2024-02-20"  # 19:30 in UTC, 01:00 in Kolkata
    (week,) = as_read(table, "user-week").units.periods()
    assert week == "2024-02-19"
    assert as_read(table, "user").units.periods() is None


@pytest.mark.parametrize("unit", ["user", "user-day", "user-week"])
def test_sums_made_by_the_query_are_of_the_same_units(unit):
    """Ids of sums as hexveil's own query writes them are hashed like those of records as read."""
    known = as_read(records(), unit).units
    periods = known.periods()
    ids = [
        name.decode() + ("" if periods is None else f" {periods[k]}")
        for k, name in enumerate(known.ids())
    ]
    ones = [1] * len(ids)
    table = pa.table({"cell": ["x"] * len(ids), "user": ids, "n": ones, "sum": ones})
    made = hv.from_sums(table, bounds=(0, 60), privacy_unit=unit, min_users=1)
    assert sorted(hashed(made.units)) == sorted(hashed(known))


@pytest.mark.parametrize(
    "name",
    [
        "bus 7",
        "2026-11-20",
        "bus2026-11-20",
        "bus 2026-02-30",
        "bus 20261120",
        "bus 2026-11-2\u0665",
    ],
)
@pytest.mark.parametrize("unit", ["user-day", "user-week"])
def test_an_id_that_does_not_say_its_day_leaves_all_unknown(name, unit):
    """Where one id has no day, ids stay as they are and no day is known."""
    units = split_unit_ids(pa.array(["bus 2026-11-16", name]), unit)
    assert units.periods() is None
    assert units.ids() == [b"bus 2026-11-16", name.encode()]
