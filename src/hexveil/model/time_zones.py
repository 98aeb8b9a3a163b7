"""Time zones by name."""

import difflib
import importlib.resources
import re
import zoneinfo
from functools import lru_cache

from hexveil.base.errors import InputError


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


def zone(timezone: str) -> zoneinfo.ZoneInfo:
    """Return the named time zone.

    Raises
    ------
    InputError
        If there is none of this name, with the nearest name; abbreviations have several meanings.
    """
    try:
        return zoneinfo.ZoneInfo(timezone)
    # A folder of zones, such as Europe, is an OSError; a path that leaves the folder a ValueError.
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        pass
    # Letters alone resemble many names, none of which is meant.
    near = "/" in timezone and difflib.get_close_matches(
        timezone, zoneinfo.available_timezones(), n=1
    )
    hint = f"did you mean {near[0]!r}?" if near else 'write a name like "Europe/Warsaw".'
    raise InputError(f"timezone {timezone!r} is not known; {hint}")


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
