"""Where a map is of, when, and who publishes it: lines under the titles of page and README.txt.

The period has one home: the calendar slots of the cells, else the selected `dates`, else `temporal`
in `[catalogue]`, which the holder declares. Publisher, licence and contact are those of
`[catalogue]`. Nothing here is taken from the records.
"""

import re
from collections.abc import Mapping
from datetime import date
from typing import Any

import pyarrow as pa

from hexveil.report.templates import render_sentence

Days = tuple[str, str]

_DAY = r"\d{4}-\d{2}-\d{2}"
_DATES = re.compile(rf"(?:^|; )dates ({_DAY}) to ({_DAY})(?:;|$)")
_TEMPLATE = "origin.txt"


def clock_name(manifest: Mapping[str, Any]) -> str:
    """Return the local clock of slots, else that of selected days; "" without any."""
    selection = manifest.get("selection") or {}
    name = manifest["grid"].get("timezone") or selection.get("timezone", "none")
    return "" if name == "none" else str(name)


def stated_days(manifest: Mapping[str, Any]) -> Days | None:
    """Return the first and last day that were selected, or else those that the holder declares."""
    selected = _DATES.search((manifest.get("selection") or {}).get("select", ""))
    if selected is not None:
        return selected[1], selected[2]
    stated = (manifest.get("catalogue") or {}).get("temporal")
    return None if stated is None else (stated[0], stated[1])


def slot_days(table: pa.Table) -> list[str]:
    """Return the local day of each row's timeslot; empty without calendar slots."""
    slots = table["slot"].to_pylist() if "slot" in table.column_names else []
    # A pooled slot is a time of day.
    return [slot[:10] for slot in slots] if slots and "-" in slots[0] else []


def days_of(table: pa.Table, manifest: Mapping[str, Any]) -> Days | None:
    """Return the first and last local day of the records; None where no period is known."""
    days = slot_days(table)
    return (min(days), max(days)) if days else stated_days(manifest)


def period(days: Days | None, clock: str, *, brief: bool = False) -> str:
    """Return the period of the records in words, on one line.

    Examples
    --------
    >>> period(("2025-03-05", "2025-03-05"), "Asia/Kolkata")
    'Records of Wednesday 5 March 2025 (Asia/Kolkata)'
    >>> period(("2025-03-03", "2025-03-09"), "", brief=True)
    '3 March to 9 March 2025'
    >>> period(None, "Asia/Kolkata")
    'The publisher declared no period of the records'
    """
    ends = [] if days is None else [date.fromisoformat(day) for day in days]
    calendar_days = [
        {"weekday": end.weekday(), "day": end.day, "month": end.month, "year": end.year}
        for end in (ends[:1] if len(set(ends)) == 1 else ends)
    ]
    return render_sentence(_TEMPLATE, "period", days=calendar_days, clock=clock, brief=brief)


def describe_origin(table: pa.Table, manifest: Mapping[str, Any]) -> dict[str, str]:
    """Return the lines under the title: the period, for titles too, and the publisher.

    Parameters
    ----------
    table : pyarrow.Table
        The released table.
    manifest : mapping
        With the facts that the holder states.
    """
    days, clock = days_of(table, manifest), clock_name(manifest)
    stated = manifest.get("catalogue") or {}
    facts = {name: stated.get(name, "") for name in ("publisher", "license", "contact")}
    return {
        "period": period(days, clock),
        "brief_period": "" if days is None else period(days, clock, brief=True),
        "publisher": render_sentence(_TEMPLATE, "publisher", **facts),
    }
