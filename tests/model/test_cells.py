"""Timeslots, time zones, first instants of slots, and names of cells."""

import zoneinfo
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import hexveil as hv
from hexveil import Cells, InputError, Labels, OneCell
from hexveil.model.cells import CellTable, slot_seconds

HEXAGON = int("85608b3bfffffff", 16)


def seconds_of(text):
    """Return the seconds of a local wall clock since 1970-01-01T00:00 local."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


def table(timezone, *starts, timeslot="1h", slot="calendar"):
    """Return a table of one hexagon at the given local starts."""
    grid = Cells(resolution=5, timeslot=timeslot, timezone=timezone, slot=slot)
    seconds = [s if isinstance(s, int) else seconds_of(s) for s in starts]
    hexagon = np.full(len(seconds), HEXAGON, dtype=np.uint64)
    return CellTable(grid, hexagon, np.array(seconds, dtype=np.int64))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("15min", 900), ("90min", 5400), ("1h", 3600), (" 6 h ", 21600), ("1d", 86400),
        ("24h", 86400),
    ],
)  # fmt: skip
def test_timeslots_are_read(text, seconds):
    """A timeslot is a number of minutes, hours or days."""
    assert slot_seconds(text) == seconds
    assert Cells(timeslot=text, timezone="UTC").seconds == seconds


@pytest.mark.parametrize(
    "text", ["", "1", "h", "10min", "14min", "7h", "2d", "0h", "-1h", "1.5h", "1H", "25h", 3600]
)
def test_bad_timeslots_are_refused(text):
    """A slot that is too short, too long or does not divide the day says what would do."""
    with pytest.raises(InputError, match="timeslot must run from 15min to 1d and divide the day"):
        Cells(timeslot=text, timezone="UTC")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"resolution": 16}, "resolution must be from 0 to 15, got 16"),
        ({"resolution": -1}, "resolution must be from 0 to 15, got -1"),
        ({"resolution": 7.0}, r"resolution must be a whole number, got 7\.0"),
        ({"resolution": True}, "resolution must be a whole number, got True"),
        ({"slot": "weekly"}, 'slot must be "calendar" or "pooled"'),
        ({"timezone": None}, "timezone is needed for timeslots"),
        ({"timezone": "Europe/Warsow"}, "did you mean 'Europe/Warsaw'"),
        ({"timezone": "../etc/passwd"}, "is not known; write a name like"),
        ({"timezone": ""}, "is not known"),
        ({"timezone": 7}, "timezone must be the name of a time zone"),
    ],
)
def test_bad_cells_are_refused(arguments, message):
    """Each wrong field of a grid is one sentence that names it."""
    with pytest.raises(InputError, match=message):
        Cells(**{"timezone": "UTC"} | arguments)


def test_cells_without_slots_need_no_clock():
    """Pooling all times needs no time zone and has no slots."""
    cells = Cells(resolution=3, timeslot=None)
    assert cells.seconds is None
    pooled = CellTable(cells, np.array([HEXAGON], dtype=np.uint64))
    assert pooled.slot_names() is pooled.starts_at_utc() is None
    assert pooled.names() == ("85608b3bfffffff",)


def test_labels_are_named_once():
    """Labels keep the order of their columns; none, twice the same or an empty one is refused."""
    assert Labels("route_id", "hour").columns == ("route_id", "hour")
    for columns, message in [
        ((), "at least one"),
        (("",), "at least one"),
        (("a", "a"), "twice: a, a"),
    ]:
        with pytest.raises(InputError, match=message):
            Labels(*columns)


def test_slots_are_named_by_their_local_start():
    """A calendar slot is named by its day and start, a pooled one by its start alone."""
    days = table("Asia/Kolkata", "2024-02-19T23:00", "1970-01-01T00:00")
    assert days.slot_names() == ("2024-02-19T23:00", "1970-01-01T00:00")
    assert days.slot_names(end=True) == ("2024-02-20T00:00", "1970-01-01T01:00")
    pooled = table("Asia/Kolkata", 0, 23 * 3600 + 45 * 60, timeslot="15min", slot="pooled")
    assert pooled.slot_names() == ("00:00", "23:45")
    assert pooled.slot_names(end=True) == ("00:15", "00:00")
    assert pooled.starts_at_utc() is None
    assert days.names()[0] == "85608b3bfffffff/2024-02-19T23:00"


@pytest.mark.parametrize(
    ("timezone", "local", "timeslot", "utc"),
    [
        ("Asia/Kolkata", "2024-02-19T00:00", "1h", "2024-02-18T18:30"),
        # Warsaw, spring: 02:00 to 03:00 does not exist, a three-hour slot at 00:00 does.
        ("Europe/Warsaw", "2024-03-31T02:00", "1h", "2024-03-31T01:00"),
        ("Europe/Warsaw", "2024-03-31T02:30", "30min", "2024-03-31T01:00"),
        ("Europe/Warsaw", "2024-03-31T00:00", "3h", "2024-03-30T23:00"),
        # Warsaw, autumn: 02:00 comes twice, the first counts.
        ("Europe/Warsaw", "2024-10-27T02:00", "1h", "2024-10-27T00:00"),
        ("Europe/Warsaw", "2024-10-27T03:00", "1h", "2024-10-27T02:00"),
        # Santiago: the day starts at 01:00 in spring, and 23:00 comes twice in autumn.
        ("America/Santiago", "2024-09-08T00:00", "1d", "2024-09-08T04:00"),
        ("America/Santiago", "2024-04-06T23:00", "1h", "2024-04-07T02:00"),
        ("America/Santiago", "2024-04-07T00:00", "1d", "2024-04-07T04:00"),
        # Lord Howe moves by half an hour.
        ("Australia/Lord_Howe", "2024-10-06T02:00", "30min", "2024-10-05T15:30"),
        ("Australia/Lord_Howe", "2024-10-06T02:15", "15min", "2024-10-05T15:30"),
        ("Australia/Lord_Howe", "2024-04-07T01:30", "30min", "2024-04-06T14:30"),
        ("Australia/Lord_Howe", "2024-04-07T02:00", "30min", "2024-04-06T15:30"),
        # Apia left out a whole day.
        ("Pacific/Apia", "2011-12-30T00:00", "1d", "2011-12-30T10:00"),
        ("Pacific/Apia", "2011-12-31T00:00", "1d", "2011-12-30T10:00"),
    ],
)
def test_first_instant_of_a_slot(timezone, local, timeslot, utc):
    """A slot starts at the first instant at which the local clock shows its start or later."""
    start = table(timezone, local, timeslot=timeslot).starts_at_utc()
    assert start == (datetime.fromisoformat(utc).replace(tzinfo=UTC),)


LABEL = st.text(st.sampled_from(["a", "/", "\\", "é", " ", "0"]), max_size=4)


@given(st.lists(st.tuples(LABEL, LABEL), min_size=1, max_size=30, unique=True))
@example([("x\\", "/y"), ("x/\\", "y")])
def test_names_of_odd_labels_are_unique(pairs):
    """Labels with separators, backslashes and blanks never make two cells of one name."""
    first, second = zip(*pairs, strict=True)
    cells = CellTable(Labels("a", "b"), labels={"a": first, "b": second})
    assert len(cells) == len(pairs) == len(set(cells.names()))


def test_one_cell_is_not_a_column_of_that_name():
    """One cell of all records equals itself, and no grid by a column named cell."""
    assert OneCell() == OneCell()
    assert OneCell() != Labels("cell")
    assert len({OneCell(), OneCell(), Labels("cell")}) == 2


def test_objects_and_none_are_names():
    """A `ZoneInfo` is its name, and "none" is None: requests are equal."""
    clock = zoneinfo.ZoneInfo("Asia/Kolkata")
    assert hv.Cells(6, timezone=clock) == hv.Cells(6, timezone="Asia/Kolkata")
    assert hv.Cells(6, timeslot="none", timezone="none") == hv.Cells(6, timeslot=None)
