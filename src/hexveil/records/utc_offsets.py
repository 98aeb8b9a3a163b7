"""UTC offsets of a time zone as a public table of changes.

One table serves every engine and agrees with `cells.starts_at_utc`, which reads the same time
zone data. Where a wall clock shows a time twice, the first is meant; a time that the clock skips
is read with the offset before the skip (as Python's fold=0).
"""

from __future__ import annotations

import zoneinfo
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from hexveil.model.cells import DAY
from hexveil.model.time_zones import zone

END_OF_TIMES = 4_102_444_800
"""2100-01-01T00:00Z in seconds: usable times run from 1970 to before it."""

STEP = 3 * DAY
"""Step of the search for changes, in seconds: shorter than any time between two of a zone."""


@dataclass(frozen=True)
class Clock:
    """Offsets of one time zone from 1970 to 2100, in seconds east of UTC.

    Attributes
    ----------
    timezone : str
    initial : int
        Offset at 1970-01-01T00:00Z.
    changes : tuple of (int, int, int)
        Instant, offset before it, offset from it on; in order.
    """

    timezone: str
    initial: int
    changes: tuple[tuple[int, int, int], ...]

    def offsets(self) -> UtcOffsets:
        """Return the offset as a step function of the UTC second."""
        return UtcOffsets(self.initial, tuple((instant, new) for instant, _, new in self.changes))

    def wall_offsets(self) -> UtcOffsets:
        """Return the offset as a step function of the local wall-clock second."""
        return UtcOffsets(
            self.initial,
            # max: a repeated hour is read with the old offset to its end, a skipped one until it is
            # over.
            tuple((instant + max(old, new), new) for instant, old, new in self.changes),
        )


@dataclass(frozen=True)
class UtcOffsets:
    """Offsets as a step function: `initial` before all changes, then each from its start on."""

    initial: int
    steps: tuple[tuple[int, int], ...]


@lru_cache(maxsize=32)
def clock(timezone: str) -> Clock:
    """Return the offsets of a time zone; raise InputError if there is none of that name."""
    place = zone(timezone)
    # From one instant to the next: asking for the offset of a second alone takes four times as
    # long.
    instant, step = datetime(1970, 1, 1, tzinfo=place), timedelta(seconds=STEP)
    shift = place.fromutc(instant).utcoffset()
    changes = []
    # Past the end, for local clocks that are ahead of UTC.
    for utc_second in range(STEP, END_OF_TIMES + STEP, STEP):
        instant += step
        old, shift = shift, place.fromutc(instant).utcoffset()
        if shift != old:
            ends = _offset(place, utc_second - STEP), _offset(place, utc_second)
            changes.append((_change(place, utc_second - STEP, utc_second), *ends))
    return Clock(timezone, _offset(place, 0), tuple(changes))


def _offset(place: zoneinfo.ZoneInfo, utc_second: int) -> int:
    shift = datetime.fromtimestamp(utc_second, UTC).astimezone(place).utcoffset()
    return 0 if shift is None else int(shift.total_seconds())


def _change(place: zoneinfo.ZoneInfo, low: int, high: int) -> int:
    """Return the first second in (low, high] with the offset at `high`."""
    new = _offset(place, high)
    # Offsets change at whole seconds, fewer than once a step: bisection finds the change.
    while high - low > 1:
        middle = (low + high) // 2
        if _offset(place, middle) == new:
            high = middle
        else:
            low = middle
    return high
