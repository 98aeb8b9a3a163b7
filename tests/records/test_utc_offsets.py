"""The public table of clock changes, against zoneinfo itself."""

import datetime as dt
import zoneinfo

from hypothesis import example, given
from hypothesis import strategies as st

from hexveil.records.duckdb.times import END_OF_TIMES, clock

ZONES = ["Europe/Warsaw", "Asia/Kolkata", "America/St_Johns", "Africa/Casablanca", "UTC"]


def value(steps, second):
    """Return a step function's value."""
    return next((v for at, v in reversed(steps) if second >= at), steps[0][1])


@given(st.sampled_from(ZONES), st.integers(0, END_OF_TIMES - 1))
def test_offsets_are_the_time_zone_s(name, second):
    """At every instant the offset is the one zoneinfo gives."""
    at = dt.datetime.fromtimestamp(second, zoneinfo.ZoneInfo(name))
    assert value(clock(name).offsets, second) == at.utcoffset().total_seconds()


@given(st.sampled_from(ZONES), st.integers(0, END_OF_TIMES - 1))
@example("Europe/Warsaw", 1729996200)
@example("Europe/Warsaw", 1711852200)
def test_wall_offsets_mean_the_first_of_two(name, second):
    """At every wall-clock reading, also a skipped or repeated one, as fold=0 says."""
    wall = dt.datetime(1970, 1, 1) + dt.timedelta(seconds=second)  # noqa: DTZ001  a wall clock
    expected = wall.replace(tzinfo=zoneinfo.ZoneInfo(name)).utcoffset().total_seconds()
    assert value(clock(name).wall_offsets, second) == expected


def test_summer_time_of_a_week_is_found():
    """The shortest time between two changes since 1970: Boa Vista in October 2000."""
    last_two = [change for change, _ in clock("America/Boa_Vista").offsets][-2:]
    assert [dt.datetime.fromtimestamp(change, dt.UTC) for change in last_two] == [
        dt.datetime(2000, 10, 8, 4, tzinfo=dt.UTC),
        dt.datetime(2000, 10, 15, 3, tzinfo=dt.UTC),
    ]
