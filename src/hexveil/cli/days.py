"""Days of a series: as they are asked for, and their plans under either privacy model."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING

from hexveil.base.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable
    from fractions import Fraction

    from hexveil.ledger import Ledger
    from hexveil.publishing import Release


LONGEST = 3_700
"""Days of one command."""


def requested_days(day: str | None, first_day: str | None, last_day: str | None) -> list[date]:
    """Return the days, oldest first."""
    if (day is None) == (first_day is None) or (first_day is None) != (last_day is None):
        raise InputError("name a day (--date), or the first and the last day (--from and --to).")
    ends = [_date(text) for text in ((day, day) if day is not None else (first_day, last_day))]
    if not ends[0] <= ends[1] or (ends[1] - ends[0]).days >= LONGEST:
        raise InputError(f"--from {ends[0]} --to {ends[1]} must be a span of 1 to {LONGEST} days.")
    return [ends[0] + timedelta(k) for k in range((ends[1] - ends[0]).days + 1)]


def _date(text: str | None) -> date:
    try:
        return date.fromisoformat(text or "")
    except ValueError:
        raise InputError(f"a day must look like 2026-11-20, got {text!r}.") from None


@dataclass(frozen=True)
class PlannedDay:
    """A planned day: its request, its price, and the way to publish it.

    Attributes
    ----------
    request : str
        Fingerprint of the request.
    epsilon : Fraction
        Loss of the most exposed unit.
    privacy_unit : str
    publish : callable
        From a ledger to the release: books, draws, or replays what was drawn.
    """

    request: str
    epsilon: Fraction
    privacy_unit: str
    publish: Callable[[Ledger], Release]

    @property
    def price(self) -> float:
        """Loss of the most exposed unit."""
        return float(self.epsilon)
