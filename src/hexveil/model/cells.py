"""Cells: an H3 hexagon in a timeslot, any public label, or one cell. All of it is public.

A slot is named by its local start. `slot` numbers are seconds of the local wall clock: since
1970-01-01T00:00 local for calendar slots, since midnight for pooled ones.
"""

import difflib
import re
import zoneinfo
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hexveil.base import hexagons
from hexveil.base.arrays import Ints
from hexveil.base.errors import InputError
from hexveil.base.rational import items_of, natural_order
from hexveil.model.areas import Area, area_of

DeclaredValues = Collection[str] | Collection[Collection[str]] | Mapping[str, Collection[str]]


DAY = 86_400
_STEP = {"min": 60, "h": 3_600, "d": DAY}
SlotKind = Literal["calendar", "pooled"]


def slot_seconds(timeslot: str) -> int:
    """Return the length of a timeslot like "15min", "1h" or "1d" in seconds.

    Raises
    ------
    InputError
        Unless it is from 15 minutes to a day and divides the day evenly.
    """
    match = re.fullmatch(r"\s*(\d{1,4})\s*(min|h|d)\s*", str(timeslot))
    seconds = int(match[1]) * _STEP[match[2]] if match else 0
    if not 900 <= seconds <= DAY or DAY % seconds:
        raise InputError(
            f"timeslot must run from 15min to 1d and divide the day evenly, got {timeslot!r}; "
            'write for example "15min", "1h", "6h", "1d", or leave it out ("none").'
        )
    return seconds


def _slot_text(seconds: int) -> str:
    """Return the length of a slot as text, in the largest unit that is whole."""
    unit = next(name for name, step in reversed(_STEP.items()) if seconds % step == 0)
    return f"{seconds // _STEP[unit]}{unit}"


@dataclass(frozen=True)
class Cells:
    """Cells that are H3 hexagons in timeslots of the local clock.

    Attributes
    ----------
    resolution : int
        H3 resolution, 0 (continents) to 15 (under a square metre).
    timeslot : str or None
        Length of a slot, "15min" to "1d"; None pools all times.
    timezone : str or None
        IANA name of the local clock, needed with a timeslot.
    slot : "calendar" or "pooled"
        Whether the same hour of two days is two slots or one.
    area : Polygon, HexagonList or None
        Declared area, for private presence alone; see `hexveil.model.areas.area_of`. It is no part
        of what a cell is, so neither of the repr.
    """

    resolution: int = 8
    timeslot: str | None = "1h"
    timezone: str | None = None
    slot: SlotKind = "calendar"
    area: Area | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.area is not None:
            object.__setattr__(self, "area", area_of(self.area))
        # One spelling of a request, whether a name or an object was given.
        object.__setattr__(self, "timezone", zone_name(self.timezone))
        if self.timeslot == "none":
            object.__setattr__(self, "timeslot", None)
        if isinstance(self.resolution, bool) or not isinstance(self.resolution, int):
            raise InputError(f"resolution must be a whole number, got {self.resolution!r}.")
        if not 0 <= self.resolution <= 15:
            raise InputError(f"resolution must be from 0 to 15, got {self.resolution}.")
        if self.slot not in ("calendar", "pooled"):
            raise InputError(f'slot must be "calendar" or "pooled", got {self.slot!r}.')
        if self.timeslot is not None:
            # One text for one length: cells of "60min" and of "1h" are the same.
            object.__setattr__(self, "timeslot", _slot_text(slot_seconds(self.timeslot)))
            if self.timezone is None:
                raise InputError(
                    "timezone is needed for timeslots: name the local clock (--timezone), "
                    'for example timezone="Asia/Kolkata".'
                )
        if self.timezone is not None:
            zone(self.timezone)

    @property
    def seconds(self) -> int | None:
        """Length of a slot in seconds, or None."""
        return None if self.timeslot is None else slot_seconds(self.timeslot)


@dataclass(frozen=True)
class Labels:
    """Cells that are combinations of public columns: route, ward, origin and hour.

    `values` declares the values of each column, for private presence alone: a list for each column
    in their order, or a mapping of column to list; of one column its list may stand alone. In
    whichever order values are written, cells are in the order of numbers and letters.

    Examples
    --------
    >>> Labels("route_id", "hour").columns
    ('route_id', 'hour')
    >>> Labels("ward", values={"ward": ["x", "a"]}).values
    (('a', 'x'),)
    """

    columns: tuple[str, ...]
    values: tuple[tuple[str, ...], ...] | None = field(default=None, repr=False)

    def __init__(self, *columns: str, values: DeclaredValues | None = None) -> None:
        if not columns or not all(isinstance(c, str) and c for c in columns):
            raise InputError(
                'Labels needs at least one column name, like Labels("route_id"); OneCell() makes '
                "one cell of all records."
            )
        if len(set(columns)) != len(columns):
            raise InputError(f"Labels names a column twice: {', '.join(columns)}.")
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "values", _declared_values(columns, values))


def _declared_values(
    columns: tuple[str, ...], values: DeclaredValues | None
) -> tuple[tuple[str, ...], ...] | None:
    """Return the declared values of each column; those of a single column may stand alone."""
    if values is None:
        return None
    refusal = InputError(
        f"values must list the values of each label column ({', '.join(columns)}), as a list per "
        f"column in their order, got {values!r}."[:400]
    )
    lists = [] if isinstance(values, (str, Mapping)) else items_of(values)
    if isinstance(values, Mapping) and set(values) == set(columns):
        lists = [values[column] for column in columns]
    elif len(columns) == 1 and lists and not any(map(_is_list, lists)):
        # One column: its values may be written without a list around them.
        lists = [lists]
    # A set of lists has no order.
    elif len(lists) != len(columns) or isinstance(values, (set, frozenset)):
        raise refusal
    if not all(map(_is_list, lists)) or not all(map(items_of, lists)):
        raise refusal
    texts = (tuple(map(str, items_of(column))) for column in lists)
    return tuple(tuple(sorted(column, key=natural_order)) for column in texts)


def _is_list(value: object) -> bool:
    """Return whether a value holds several ones: no text, number or mapping."""
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping))


ALL_RECORDS = "all"
"""Label of the one cell that holds all records."""


@dataclass(frozen=True, init=False)
class OneCell(Labels):
    """One cell of all records: a single HAT, with neither places nor columns of labels.

    It is named "all", under a column `cell` that the records need not have.

    Examples
    --------
    >>> OneCell().columns
    ('cell',)
    """

    def __init__(self) -> None:
        super().__init__("cell")


@dataclass(frozen=True, eq=False)
class CellTable:
    """The public description of each cell of a data set, in cell order.

    Attributes
    ----------
    grid : Cells or Labels
        What a cell is.
    hexagon : ndarray of uint64, shape (n_cells,), or None
        H3 index, with `Cells`.
    slot : ndarray of int64, shape (n_cells,), or None
        Local start of the slot in seconds, with `Cells` that have a timeslot.
    labels : mapping of column name to tuple of str
        With `Labels`.
    """

    grid: Cells | Labels
    hexagon: NDArray[np.uint64] | None = None
    slot: Ints | None = None
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __len__(self) -> int:
        if self.hexagon is not None:
            return int(self.hexagon.size)
        return len(next(iter(self.labels.values()), ()))

    @property
    def n_places(self) -> int | None:
        """Number of different hexagons; None without hexagons."""
        return None if self.hexagon is None else int(np.unique(self.hexagon).size)

    def hexagon_names(self) -> tuple[str, ...] | None:
        """Return each hexagon as a hex string, or None without hexagons."""
        return None if self.hexagon is None else tuple(hexagons.names(self.hexagon))

    def slot_names(self, *, end: bool = False) -> tuple[str, ...] | None:
        """Return each slot's local start (or end) as ISO text, or None without slots.

        The day's last pooled slot ends at "00:00": "24:00" is no time to most programs.
        """
        if self.slot is None or not isinstance(self.grid, Cells):
            return None
        shift = (self.grid.seconds or 0) if end else 0
        pooled = self.grid.slot == "pooled"
        return tuple(_clock(int(s) + shift, pooled=pooled) for s in self.slot)

    def starts_at_utc(self) -> tuple[datetime, ...] | None:
        """Return the first instant of each calendar slot; None for pooled slots or labels."""
        if self.slot is None or not isinstance(self.grid, Cells) or self.grid.slot == "pooled":
            return None
        assert self.grid.timezone is not None  # noqa: S101  Cells checks it
        clock = zone(self.grid.timezone)
        instants = {int(s): _first_instant(int(s), clock) for s in np.unique(self.slot)}
        return tuple(instants[int(s)] for s in self.slot)

    def names(self) -> tuple[str, ...]:
        """Return one readable name per cell, unique within the table."""
        parts = [p for p in (self.hexagon_names(), self.slot_names()) if p is not None]
        columns = tuple(self.labels.values())
        # A name of one part needs nothing that keeps parts apart: it is the label itself.
        parts += columns if len(columns) == 1 else [tuple(map(_escape, c)) for c in columns]
        return tuple("/".join(p) for p in zip(*parts, strict=True))

    def groupings(self) -> tuple[Ints, ...]:
        """Return codes of shared attributes: place and slot, or each label; none of a single one.

        Examples
        --------
        >>> labels = {"route": ("4", "4", "15"), "hour": ("08", "09", "08")}
        >>> table = CellTable(Labels("route", "hour"), labels=labels)
        >>> [codes.tolist() for codes in table.groupings()]
        [[1, 1, 0], [0, 1, 0]]
        """
        columns = [column for column in (self.hexagon, self.slot) if column is not None]
        columns += [np.array(column, dtype=str) for column in self.labels.values()]
        return attribute_codes(columns)

    def take(self, rows: Ints) -> "CellTable":
        """Return the table of the given rows, in that order."""
        return CellTable(
            self.grid,
            None if self.hexagon is None else self.hexagon[rows],
            None if self.slot is None else self.slot[rows],
            {name: tuple(column[i] for i in rows) for name, column in self.labels.items()},
        )


def _escape(label: str) -> str:
    """Keep labels that hold the separator apart from two labels."""
    return label.replace("\\", "\\\\").replace("/", "\\/")


def _clock(seconds: int, *, pooled: bool) -> str:
    if pooled:
        return f"{seconds % DAY // 3600:02d}:{seconds % 3600 // 60:02d}"
    start = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    return start.strftime("%Y-%m-%dT%H:%M")


def _first_instant(local_seconds: int, clock: zoneinfo.ZoneInfo) -> datetime:
    """Return the first UTC instant with a local wall clock at or after `local_seconds`.

    Where the clock skips the slot's start (spring), that is the instant of the skip; where it
    shows the start twice (autumn), the earlier of the two.
    """
    wall = datetime(1970, 1, 1) + timedelta(seconds=local_seconds)  # noqa: DTZ001  a wall clock
    low, high = sorted(wall.replace(tzinfo=clock, fold=f).astimezone(UTC) for f in (0, 1))

    def reading(seconds: int) -> datetime:
        """Return the wall clock so many seconds after `low`."""
        return (low + timedelta(seconds=seconds)).astimezone(clock).replace(tzinfo=None)

    if reading(0) == wall:
        return low
    # Skipped: the two offsets give instants on both sides of the skip, and the clock only rises
    # between them.
    gap = range(int((high - low).total_seconds()))
    return low + timedelta(seconds=bisect_left(gap, wall, key=reading))


# ---- time zones by name ----


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
    closest = "/" in timezone and difflib.get_close_matches(
        timezone, zoneinfo.available_timezones(), n=1
    )
    hint = f"did you mean {closest[0]!r}?" if closest else 'write a name like "Europe/Warsaw".'
    raise InputError(f"timezone {timezone!r} is not known; {hint}")


def attribute_codes(columns: Sequence[NDArray[Any]]) -> tuple[Ints, ...]:
    """Return the codes of attributes that cells share; none of a single one."""
    if len(columns) < 2:
        return ()
    return tuple(np.unique(column, return_inverse=True)[1].astype(np.int64) for column in columns)
