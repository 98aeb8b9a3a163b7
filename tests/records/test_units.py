"""Who the units of a data set are: never shown, never confused, the same whatever the route."""

import datetime as dt
import sqlite3
import zoneinfo
from contextlib import closing

import pyarrow as pa
import pytest

import hexveil as hv

NEAR = [
    "a", "A", "a ", " a", "a\n", "a\u0301", "\u00e1", "a\x1f", "a\x00", "\U0001f68c", "x" * 9999,
]  # fmt: skip


def records(n_rows=60):
    """Return records of vehicles with odd ids, on three days in Kolkata, in any order."""
    start = 1_708_300_800  # a Monday, 05:30 in Kolkata
    rows = [
        {"bus": NEAR[k % len(NEAR)], "route": "r", "at": start + 9_000 * k, "v": float(k % 50)}
        for k in range(n_rows)
    ]
    table = pa.Table.from_pylist(rows)
    return table.set_column(2, "at", table["at"].cast(pa.timestamp("s", "UTC")))


def as_read(source, unit, clock="Asia/Kolkata"):
    """Return records as read."""
    return hv.read(
        source, user="bus", value="v", time="at", cells=hv.Labels("route"), bounds=(0, 60),
        privacy_unit=unit, timezone=clock, select=hv.Select(min_users=1),
    )  # fmt: skip


@pytest.mark.parametrize("unit", ["user", "user-day", "user-week"])
def test_ids_that_differ_in_a_byte_are_different_units(unit, tmp_path):
    """Case, blanks, control characters, composed and decomposed letters and length keep apart.

    In the ledger, too, each unit has a loss of its own.
    """
    dataset = as_read(records(), unit)
    assert set(dataset.units.ids()) == {name.encode() for name in NEAR}
    book = hv.Ledger(tmp_path / "book.sqlite", dataset="buses", budget=5)
    hv.release(dataset, hv.plan(dataset, epsilon=3, advise=False), ledger=book, accept_noise=True)
    with closing(sqlite3.connect(tmp_path / "book.sqlite")) as file:
        rows = file.execute("SELECT count(DISTINCT unit) FROM hexveil_balances").fetchone()
    assert rows == (dataset.occupancy.n_users,)


@pytest.mark.parametrize("unit", ["user-day", "user-week"])
def test_first_days_are_days_and_mondays(unit):
    """Units have the local day, or the Monday of its week, of their records; before 1970, too."""
    zone = zoneinfo.ZoneInfo("America/New_York")
    seconds = [0, 4 * 3600, 5 * 3600, *range(86_400, 4_102_444_800, 86_400 * 501 + 3_601)]
    table = pa.table({"bus": ["a"] * len(seconds), "route": ["r"] * len(seconds), "at": seconds})
    table = table.append_column("v", pa.array([1.0] * len(seconds)))
    days = {dt.datetime.fromtimestamp(second, zone).date() for second in seconds}
    if unit == "user-week":
        days = {day - dt.timedelta(day.weekday()) for day in days}
    found = as_read(table, unit, clock="America/New_York").units.periods()
    assert found == sorted(map(str, days))


@pytest.mark.parametrize("unit", ["user", "user-day", "user-week"])
def test_sums_made_by_the_query_are_of_the_same_units(unit):
    """Ids of sums as hexveil's own query writes them are users and days of records as read."""
    known = as_read(records(), unit).units
    periods = known.periods()
    ids = [
        name.decode() + ("" if periods is None else f" {periods[k]}")
        for k, name in enumerate(known.ids())
    ]
    ones = [1] * len(ids)
    table = pa.table({"cell": ["x"] * len(ids), "user": ids, "n": ones, "sum": ones})
    made = hv.from_sums(table, bounds=(0, 60), privacy_unit=unit, min_users=1)
    both = [(units.ids(), units.periods() or units.ids()) for units in (made.units, known)]
    assert sorted(zip(*both[0], strict=True)) == sorted(zip(*both[1], strict=True))


@pytest.mark.parametrize(
    "name",
    [
        "bus 7", "2026-11-20", "bus2026-11-20", "bus 2026-02-30", "bus 20261120",
        "bus 2026-11-2\u0665",
    ],
)  # fmt: skip
@pytest.mark.parametrize("unit", ["user-day", "user-week"])
def test_an_id_that_does_not_say_its_day_leaves_all_unknown(name, unit):
    """Where one id has no day, ids stay as they are and no day is known."""
    ids = sorted(["bus 2026-11-16", name])
    table = pa.table({"cell": ["x"] * 2, "user": ids, "n": [1] * 2, "sum": [1.0] * 2})
    units = hv.from_sums(table, bounds=(0, 9), privacy_unit=unit, min_users=1).units
    assert units.periods() is None
    assert units.ids() == [text.encode() for text in ids]
