"""The privacy unit that an account pins, with the clocks by which its days begin."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hexveil.model.column_facts import ColumnFacts
    from hexveil.model.declared_grid import DeclaredFacts
    from hexveil.model.public_metadata import PublicMetadata

_NO_CLOCK = ("none", "not usable")


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
