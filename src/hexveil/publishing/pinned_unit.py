"""The unit of privacy that an account pins, with the clocks by which its days begin."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hexveil.model.public_metadata import PublicMetadata

_NO_CLOCK = ("none", "not usable")


def unit_of(facts: PublicMetadata) -> str:
    """Return the unit of privacy in the words that an account pins.

    A day by one clock overlaps two days by another: a reading may count in both, so that what
    units of one clock lose says nothing about units of the other. The days of units are by the
    clock of slots. Where some times have no offset and are read on another clock, this one decides
    too to which day a reading belongs, so it is named; where all have an offset it is not.
    So the words are like "user", "user-day (Europe/Warsaw)" or "user-week (Asia/Kolkata; times
    without an offset: UTC)".
    """
    if facts.privacy_unit == "user":
        return facts.privacy_unit
    clock = facts.identity.get("timezone", "none")
    named = "clock not named" if clock == "none" else clock
    second = facts.identity.get("naive_times", "none")
    if second not in (*_NO_CLOCK, clock):
        named += f"; times without an offset: {second}"
    return f"{facts.privacy_unit} ({named})"
