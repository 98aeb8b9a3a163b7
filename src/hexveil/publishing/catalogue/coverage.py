"""Area and period that a release covers, from its cells and its declared selection."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.base import hexagons
from hexveil.model.time_zones import zone
from hexveil.report.origin import clock_name, days_of, stated_days

if TYPE_CHECKING:
    import zoneinfo

    import pyarrow as pa

    Box = tuple[float, float, float, float]

_DIGITS = 6
"""Of degrees: about ten centimetres."""


@dataclass(frozen=True)
class Coverage:
    """Area and period of a release.

    Attributes
    ----------
    box : (float, float, float, float) or None
        West, south, east and north end in degrees; west is larger than east where the area crosses
        the 180th meridian. None for labels.
    start, end : datetime or None
        First instant, and the instant after the last, UTC; None where the local clock is not known.
    days : (str, str) or None
        First and last local day.
    """

    box: Box | None
    start: datetime | None
    end: datetime | None
    days: tuple[str, str] | None


def find_coverage(table: pa.Table, manifest: dict[str, Any]) -> Coverage:
    """Return the coverage of a release: by its cells, its selection, or as the holder states it."""
    start, end, days = _period(table, manifest)
    return Coverage(_box(table), start, end, days)


def _box(table: pa.Table) -> Box | None:
    """Return the smallest box around all hexagons, across the 180th meridian if need be."""
    if "hexagon" not in table.column_names:
        return None
    names = sorted(set(table["hexagon"].to_pylist()))
    corners = np.array([corner for name in names for corner in hexagons.outline(int(name, 16))])
    around = np.unique(corners[:, 0] % 360.0)
    # The widest gap between meridians of corners lies outside of the area.
    gaps = np.diff(np.append(around, around[0] + 360.0))
    gap = int(np.argmax(gaps))
    west, east = around[(gap + 1) % around.size], around[gap]
    low, high = corners[:, 1].min(), corners[:, 1].max()
    return (_degrees(west), _rounded(low), _degrees(east), _rounded(high))


def _degrees(longitude: float) -> float:
    """Return a longitude from -180 to 180."""
    return _rounded((longitude + 180.0) % 360.0 - 180.0)


def _rounded(degrees: float) -> float:
    return round(float(degrees), _DIGITS)


def _period(
    table: pa.Table, manifest: dict[str, Any]
) -> tuple[datetime | None, datetime | None, tuple[str, str] | None]:
    clock = _clock(manifest)
    if "starts_at_utc" in table.column_names and clock is not None:
        starts = table["starts_at_utc"].to_pylist()
        ends = table["slot_end"].to_pylist()
        last = datetime.fromisoformat(max(ends)).replace(tzinfo=clock)
        return min(starts).astimezone(UTC), last.astimezone(UTC), days_of(table, manifest)
    stated = stated_days(manifest)
    if stated is None or clock is None:
        return None, None, stated
    first, last_day = map(date.fromisoformat, stated)
    return _midnight(first, clock), _midnight(last_day + timedelta(1), clock), stated


def _clock(manifest: dict[str, Any]) -> zoneinfo.ZoneInfo | None:
    """Return the local clock of slots, else that of selected days; None without any."""
    name = clock_name(manifest)
    return zone(name) if name else None


def _midnight(day: date, clock: zoneinfo.ZoneInfo) -> datetime:
    return datetime.combine(day, datetime.min.time(), clock).astimezone(UTC)
