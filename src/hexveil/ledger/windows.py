"""Windows of a budget: the lifetime, or a refill with each day or month.

The clock is the machine's, in UTC, but never goes back: an event happens at the time of the one
before it, at the earliest. So setting the clock back refills nothing.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal, get_args

from hexveil.base.errors import InputError

Window = Literal["lifetime", "month", "day"]
LIFETIME = ""
"""Label of the window that never ends."""
_LETTERS = {"lifetime": 0, "month": 7, "day": 10}
"""Letters of an ISO time that name its window."""


def check(window: str) -> Window:
    """Return a valid window; refuse any other text."""
    if window not in get_args(Window):
        choices = ", ".join(get_args(Window))
        raise InputError(f"window must be one of {choices}, got {window!r}.")
    return window  # type: ignore[return-value]  # checked


def label(window: str, moment: str) -> str:
    """Return the window that contains a moment; the empty text for a lifetime.

    Examples
    --------
    >>> label("month", "2026-11-20T09:00:00Z"), label("lifetime", "2026-11-20T09:00:00Z")
    ('2026-11', '')
    """
    return moment[: _LETTERS[window]]


def now(previous: str | None, clock: datetime | None = None) -> str:
    """Return the time of the next event: the clock's, or the previous event's if that is later.

    Examples
    --------
    >>> now("2026-11-20T09:00:00Z", datetime(2026, 11, 19, tzinfo=UTC))
    '2026-11-20T09:00:00Z'
    """
    read = (clock or datetime.now(UTC)).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    # ISO times in UTC of one length sort as text.
    return max(read, previous or read)
