"""Time zones by name, and the meaning of other names of them."""

import difflib
import importlib.resources
import re
import zoneinfo
from datetime import UTC, datetime
from functools import lru_cache

from hexveil.base.errors import InputError

_ABBREVIATION = re.compile(r"[A-Za-z]{2,5}")
_SEASONS = (datetime(2024, 1, 15, tzinfo=UTC), datetime(2024, 7, 15, tzinfo=UTC))
_MOST = 4
"""Time zones that a message names at most."""


def zone_name(timezone: object) -> str | None:
    """Return the name of a time zone given as a name or a `ZoneInfo`; None for "none" too.

    Raises
    ------
    InputError
        If it is neither, or a `ZoneInfo` without a name.

    Examples
    --------
    >>> zone_name(zoneinfo.ZoneInfo("Asia/Kolkata")), zone_name("none")
    ('Asia/Kolkata', None)
    """
    name = timezone.key if isinstance(timezone, zoneinfo.ZoneInfo) else timezone
    if name is None or name == "none":
        return None
    if not isinstance(name, str):
        raise InputError(
            'timezone must be the name of a time zone, such as "Europe/Warsaw", got '
            f"{type(timezone).__name__}."
        )
    return name


def zone(timezone: str, near: tuple[float, float] | None = None) -> zoneinfo.ZoneInfo:
    """Return the named time zone.

    Parameters
    ----------
    timezone : str
    near : (float, float), optional
        Latitude and longitude of a public place: of several time zones that could be meant, the
        message names the one that lies there first.

    Raises
    ------
    InputError
        If there is none of this name, with those that are meant by an abbreviation, or the nearest
        name.
    """
    try:
        return zoneinfo.ZoneInfo(timezone)
    # A folder of zones, such as Europe, is an OSError; a path that leaves the folder a ValueError.
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise InputError(f"timezone {timezone!r} is not known; {_hint(timezone, near)}") from None


def _hint(timezone: str, near: tuple[float, float] | None) -> str:
    if _ABBREVIATION.fullmatch(timezone):
        meant = _abbreviated(timezone.upper())
        if not meant:
            # Letters alone resemble many names, none of which is meant.
            return 'write a name like "Europe/Warsaw".'
        ranked = sorted(meant, key=lambda name: _distance(name, near)) if near else meant
        examples = ", ".join(map(repr, ranked[:_MOST]))
        if len(meant) == 1:
            return f"it is an abbreviation: write {examples}."
        remainder = f" or {len(meant) - _MOST} others" if len(meant) > _MOST else ""
        nearest = f"; the hexagons lie nearest to {ranked[0]!r}" if near else ""
        return f"it is an abbreviation of several: write {examples}{remainder}{nearest}."
    similar = difflib.get_close_matches(timezone, sorted(zoneinfo.available_timezones()), n=1)
    return f"did you mean {similar[0]!r}?" if similar else 'write a name like "Europe/Warsaw".'


def _abbreviated(letters: str) -> list[str]:
    """Return the time zones of an abbreviation, those that have it all year first."""
    names = sorted(_zone_places())
    counts = {name: _names_of(name).count(letters) for name in names}
    return sorted((name for name in counts if counts[name]), key=lambda name: -counts[name])


def _names_of(name: str) -> list[str | None]:
    place = zoneinfo.ZoneInfo(name)
    return [instant.astimezone(place).tzname() for instant in _SEASONS]


def _distance(name: str, near: tuple[float, float]) -> float:
    """Return how far a time zone's city is, by degrees and only to compare."""
    lat, lon = _zone_places()[name]
    east = abs(lon - near[1]) % 360
    return (lat - near[0]) ** 2 + min(east, 360 - east) ** 2


@lru_cache(maxsize=1)
def _zone_places() -> dict[str, tuple[float, float]]:
    text = (importlib.resources.files("tzdata") / "zoneinfo" / "zone.tab").read_text("utf-8")
    rows = (line.split("\t") for line in text.splitlines() if line and line[0] != "#")
    return {row[2]: _degrees(row[1]) for row in rows}


def _degrees(written: str) -> tuple[float, float]:
    """Return latitude and longitude written as +DDMM+DDDMM or +DDMMSS+DDDMMSS."""
    match = re.fullmatch(r"([+-])(\d{2})(\d{2})(?:\d{2})?([+-])(\d{3})(\d{2})(?:\d{2})?", written)
    if match is None:
        return 0.0, 0.0
    lat, lon = (int(match[i + 1]) + int(match[i + 2]) / 60 for i in (1, 4))
    return (-lat if match[1] == "-" else lat), (-lon if match[4] == "-" else lon)


def zone_place(timezone: str) -> tuple[float, float] | None:
    """Return latitude and longitude of the city a time zone is named for, or None.

    From the public table zone.tab of the time zone data.
    """
    return _zone_places().get(timezone)
