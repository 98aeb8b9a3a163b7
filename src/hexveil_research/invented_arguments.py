"""Arguments of invented cities, as a person writes them."""

import datetime as dt
import re

import numpy as np

from hexveil.base.errors import InputError

MOST_DAYS, LONGEST_INTERVAL = 3_660, 3_600
_SECONDS = {"": 1, "s": 1, "min": 60}


def check_integer(name: str, number: object, minimum: int, maximum: int) -> None:
    """Raise InputError unless an argument is a whole number within its limits."""
    is_integer = isinstance(number, (int, np.integer)) and not isinstance(number, bool)
    if not is_integer or not minimum <= int(number) <= maximum:  # type: ignore[call-overload]
        raise InputError(
            f"{name} must be a whole number from {minimum} to {maximum}, got {number!r}."
        )


def to_date(date: str | dt.date) -> dt.date:
    """Return a date, given as one or as text; refuse one that no reader of records takes."""
    try:
        day = date if isinstance(date, dt.date) else dt.date.fromisoformat(date)
        if 1971 <= day.year <= 2080:
            return dt.date(day.year, day.month, day.day)
    except (TypeError, ValueError):
        pass
    raise InputError(f"start must be a date from 1971 to 2080, as 2024-01-01, got {date!r}.")


def to_seconds(interval: str | int) -> int:
    """Return seconds."""
    match = (
        re.fullmatch(r"(\d{1,4})(s|min|)", str(interval))
        if not isinstance(interval, bool)
        else None
    )
    seconds = int(match[1]) * _SECONDS[match[2]] if match else 0
    if not 1 <= seconds <= LONGEST_INTERVAL:
        raise InputError(
            f"interval must be from 1 to {LONGEST_INTERVAL} seconds, as 20s or 1min, "
            f"got {interval!r}."
        )
    return seconds
