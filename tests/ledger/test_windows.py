"""Windows of a budget, and a clock that never goes back."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexveil.base.errors import InputError
from hexveil.ledger import windows

moments = st.datetimes(datetime(1970, 1, 1), datetime(9999, 12, 30)).map(  # noqa: DTZ001  made UTC
    lambda one: one.replace(tzinfo=UTC)
)


@pytest.mark.parametrize("window", ["lifetime", "month", "day"])
def test_known_windows_are_taken(window):
    """The three words are windows."""
    assert windows.check(window) == window


@pytest.mark.parametrize("window", ["", "year", "Month", "monthly"])
def test_other_words_are_refused(window):
    """The sentence names those there are."""
    with pytest.raises(InputError, match="must be one of lifetime, month, day, got"):
        windows.check(window)


@given(moments)
def test_a_label_is_the_start_of_the_date(moment):
    """A day's label is its date, a month's its year and month, a lifetime has none."""
    at = windows.now(None, moment)
    assert windows.label("day", at) == f"{moment:%Y-%m-%d}".rjust(10, "0")
    assert windows.label("month", at) == windows.label("day", at)[:7]
    assert windows.label("lifetime", at) == windows.LIFETIME


@given(moments, moments)
def test_time_never_goes_back(last, clock):
    """The next event is at the later of the clock and the event before."""
    before = windows.now(None, last)
    assert windows.now(before, clock) == max(before, windows.now(None, clock))
    assert windows.now(before, clock) == windows.now(None, max(last, clock))


def test_the_clock_is_read_in_utc():
    """A clock of another zone means the same moment."""
    there = datetime(2026, 12, 1, 0, 30, tzinfo=timezone(timedelta(hours=1)))
    assert windows.now(None, there) == "2026-11-30T23:30:00Z"
    assert windows.label("month", windows.now(None, there)) == "2026-11"


def test_without_a_clock_it_is_now():
    """The machine's clock is the default."""
    before = windows.now(None, datetime.now(UTC))
    assert before <= windows.now(None) <= windows.now(None, datetime.now(UTC))
