"""The privacy unit that an account pins, with its clocks, and the balance of any unit."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta

from hexveil.model.declared_grid import ColumnFacts, DeclaredColumns, DeclaredFacts
from hexveil.model.public_metadata import PublicMetadata

PRIVATE = "presence is private"
PRIVACY_UNIT = f"user; {PRIVATE}"
"""Unit that an account pins: releases of the other model are refused in it, and the reverse."""
ANY_UNIT = b"any unit, present or not"
_NO_CLOCK = ("none", "not usable")
_EPOCH = date(1970, 1, 1)
_THURSDAY = 3
"""Days from the Monday before 1970-01-01 to it."""


def unit_of(facts: PublicMetadata | DeclaredFacts | ColumnFacts) -> str:
    """Return the privacy unit as the text that an account pins.

    A day by one clock overlaps two days by another, and a reading may count in both: losses of
    units by one clock say nothing about units by the other. Days of units follow the clock of
    slots. Where some times have no offset and are read on another clock, that clock decides the
    day of a reading as well, so it is named; where all times have an offset it is not.
    The text is "user", "user-day (Europe/Warsaw)" or "user-week (Asia/Kolkata; times
    without an offset: UTC)".
    """
    if facts.privacy_unit == "user":
        return facts.privacy_unit
    clock = facts.identity.get("timezone", "none")
    clock_text = "clock not named" if clock == "none" else clock
    other_clock = facts.identity.get("naive_times", "none")
    # Times that all have an offset are instants: no second clock decides their day.
    if other_clock not in (*_NO_CLOCK, clock):
        clock_text += f"; times without an offset: {other_clock}"
    return f"{facts.privacy_unit} ({clock_text})"


@dataclass(frozen=True)
class BalanceKey:
    """Units of a booking under private presence: public, and the same for any records.

    Attributes
    ----------
    unit : str
        The privacy unit as the account pins it.
    periods : tuple of str
        Declared days, or first days of weeks; one empty text where the unit is a user.
    id_space, missing_values : str
        Name of what an id names, and codes of missing readings; "" if not known.
    """

    unit: str = PRIVACY_UNIT
    periods: tuple[str, ...] = ("",)
    id_space: str = ""
    missing_values: str = ""


def balance_of(facts: DeclaredFacts | DeclaredColumns) -> BalanceKey:
    """Return the units of a booking: any unit, on its declared days or weeks.

    Units of a day begin by a clock, which is part of what the account pins (`pinned_unit`).
    """
    if isinstance(facts, DeclaredColumns):
        return balance_of(facts.leading)  # days and clock are common to all columns
    unit, codes = f"{unit_of(facts)}; {PRIVATE}", facts.identity.get("drop_values", "")
    if facts.privacy_unit == "user" or facts.days is None:
        return BalanceKey(unit, ("",), facts.id_space, codes)
    first_day, last_day = facts.days
    if facts.privacy_unit == "user-day":
        days = range(first_day, last_day + 1)
    else:
        # Weeks begin on Mondays, as for units that are counted.
        days = range(first_day - (first_day + _THURSDAY) % 7, last_day + 1, 7)
    periods = tuple((_EPOCH + timedelta(day)).isoformat() for day in days)
    return BalanceKey(unit, periods, facts.id_space, codes)
