"""Windows of a budget, and a clock that never goes back."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexveil.base.errors import InputError
from hexveil.ledger import events

moments = st.datetimes(datetime(1970, 1, 1), datetime(9999, 12, 30)).map(  # noqa: DTZ001  made UTC
    lambda one: one.replace(tzinfo=UTC)
)


@pytest.mark.parametrize("window", ["lifetime", "month", "day"])
def test_known_windows_are_taken(window):
    """The three words are windows."""
    assert events.check_window(window) == window


@pytest.mark.parametrize("window", ["", "year", "Month", "monthly"])
def test_other_words_are_refused(window):
    """The sentence names those there are."""
    with pytest.raises(InputError, match="must be one of lifetime, month, day, got"):
        events.check_window(window)


@given(moments)
def test_a_label_is_the_start_of_the_date(moment):
    """A day's label is its date, a month's its year and month, a lifetime has none."""
    at = events.next_time(None, moment)
    assert events.window_of("day", at) == f"{moment:%Y-%m-%d}".rjust(10, "0")
    assert events.window_of("month", at) == events.window_of("day", at)[:7]
    assert events.window_of("lifetime", at) == events.LIFETIME


@given(moments, moments)
def test_time_never_goes_back(last, clock):
    """The next event is at the later of the clock and the event before."""
    before = events.next_time(None, last)
    assert events.next_time(before, clock) == max(before, events.next_time(None, clock))
    assert events.next_time(before, clock) == events.next_time(None, max(last, clock))


def test_the_clock_is_read_in_utc():
    """A clock of another zone means the same moment."""
    there = datetime(2026, 12, 1, 0, 30, tzinfo=timezone(timedelta(hours=1)))
    assert events.next_time(None, there) == "2026-11-30T23:30:00Z"
    assert events.window_of("month", events.next_time(None, there)) == "2026-11"


def test_without_a_clock_it_is_now():
    """The machine's clock is the default."""
    before = events.next_time(None, datetime.now(UTC))
    assert before <= events.next_time(None) <= events.next_time(None, datetime.now(UTC))
