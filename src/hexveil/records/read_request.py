"""The request to read records: all arguments of `read`, checked before a file is opened."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from hexveil.base.errors import InputError
from hexveil.base.rational import decimal_text
from hexveil.model.cells import Cells, Labels, OneCell, zone, zone_name
from hexveil.model.public_metadata import UNITS, FineBins, Unit, ValueLattice
from hexveil.model.statistic_terms import Term, fine_bins
from hexveil.records.select import Select
from hexveil.records.sources.cache import Cache
from hexveil.records.sources.columns import strip_value_members
from hexveil.records.sources.record_format import NOT_DECLARED, PLAIN, RecordFormat, join_pairs

Protect = Literal["values", "presence"]
"""Privacy models."""
Repeats = Literal["drop", "keep"]
_MEMORY = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]i?B)\s*", re.IGNORECASE)
SMALLEST_MEMORY = 64 * 10**6
LARGEST_MEMORY = 10**15


class ArgumentCheck(NamedTuple):
    """What an argument must be: a test, and the same in words."""

    accepts: Callable[[Any], bool]
    expected: str


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _are_times(value: object) -> bool:
    """Return whether a value is a column or two: of dates, and of times of day."""
    names = value if isinstance(value, (list, tuple)) else (value,)
    return all(map(_is_name, names)) and len(names) == len(set(names)) in (1, 2)


def _is_share(value: object) -> bool:
    # True is an int in Python, and would allow every record to be unusable.
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and 0 <= value <= 1  # type: ignore[operator]


def _is_of(*kinds: type) -> Callable[[object], bool]:
    return lambda value: isinstance(value, kinds)


def _is_one_of(*words: str) -> Callable[[object], bool]:
    return lambda value: value in words


_COLUMN = ArgumentCheck(_is_name, "the name of a column")
_FACT_COLUMN = ArgumentCheck(lambda value: value is None or _is_name(value), _COLUMN.expected)
_SHARE = ArgumentCheck(_is_share, "a share from 0 to 1")
CHECKS: Mapping[str, ArgumentCheck] = {
    **dict.fromkeys(("user", "value"), _COLUMN),
    **dict.fromkeys(("lat", "lon", "location"), _FACT_COLUMN),
    "time": ArgumentCheck(
        lambda value: value is None or _are_times(value),
        'the name of a column, or of two, time = ["date", "time"]',
    ),
    "protect": ArgumentCheck(_is_one_of("values", "presence"), '"values" or "presence"'),
    "privacy_unit": ArgumentCheck(_is_one_of(*UNITS), f"one of {', '.join(UNITS)}"),
    "cells": ArgumentCheck(_is_of(Cells, Labels), "Cells(...), Labels(...) or OneCell()"),
    "select": ArgumentCheck(_is_of(Select), "Select(...)"),
    "repeats": ArgumentCheck(_is_one_of("drop", "keep"), '"drop" or "keep"'),
    **dict.fromkeys(("max_bad_rows", "max_repeats"), _SHARE),
    "accept_single_records": ArgumentCheck(_is_of(bool), "true or false"),
    "memory": ArgumentCheck(
        lambda value: SMALLEST_MEMORY <= memory_size(value) <= LARGEST_MEMORY,
        'a size of at least 64MB (and at most 1000TB), like "500MB" or "1GB"',
    ),
    "format": ArgumentCheck(_is_of(RecordFormat), "RecordFormat(...)"),
    "id_space": ArgumentCheck(
        lambda value: value is None or (_is_name(value) and value == value.strip()),
        'a name without spaces at its ends, such as "vehicle"',
    ),
}
"""What each argument of `read` must be; what arguments must be together, their classes check."""


def check_arguments(arguments: Mapping[str, object]) -> None:
    """Raise InputError if an argument is not what `CHECKS` states."""
    for name, (accepts, expected) in CHECKS.items():
        value = arguments.get(name)
        if name in arguments and not accepts(value):
            # Of an object the type is told: its text may show records.
            is_plain = value is None or isinstance(value, (str, int, float, list, tuple))
            got = repr(value) if is_plain else type(value).__name__
            raise InputError(f"{name} must be {expected}, got {got}.")


DAY_AND_TIME = ("date", "time of day")
"""Roles of two columns that are the time together."""
_DEGREE = re.compile(r"([./]value)?([./]coordinates)?([./][01])?")


def _contains(name: str, value: str) -> bool:
    """Return whether a column is the value's column, or contains it."""
    # An attribute and its value configure one field, whichever of them is named for which role.
    same = strip_value_members(name) == strip_value_members(value)
    return same or value.startswith(f"{name}.")


def _is_degree(location: str, value: str) -> bool:
    """Return whether the value's column is a location's, or one of its two numbers."""
    return value.startswith(location) and bool(_DEGREE.fullmatch(value[len(location) :]))


def label_columns(cells: Cells | Labels) -> tuple[str, ...]:
    """Return the columns of the records that are labels of cells."""
    # One cell of all records has a name, and no column.
    if isinstance(cells, Labels) and not isinstance(cells, OneCell):
        return cells.columns
    return ()


@dataclass(frozen=True)
class RecordColumns:
    """The configured column names; None where a role has no column."""

    user: str
    value: str
    lat: str | None = None
    lon: str | None = None
    location: str | None = None
    time: str | Sequence[str] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.time, (list, tuple)):
            # One spelling of a request, whether a list or a tuple was given.
            names = tuple(self.time)
            object.__setattr__(self, "time", names[0] if len(names) == 1 else names)
        if (self.lat is None) != (self.lon is None):
            raise InputError("lat and lon are named together; name both, or location.")
        if self.lat is not None and self.location is not None:
            raise InputError("lat, lon and location cannot be combined: name one kind of place.")

    @property
    def times(self) -> tuple[str, ...]:
        """The columns of the time: none, one, or those of date and time of day."""
        if self.time is None:
            return ()
        return (self.time,) if isinstance(self.time, str) else tuple(self.time)

    def by_role(self) -> dict[str, str]:
        """Return the configured columns by role."""
        columns: dict[str, str] = {
            role: name for role, name in vars(self).items() if name is not None and role != "time"
        }
        roles = ("time",) * len(self.times) if len(self.times) < len(DAY_AND_TIME) else DAY_AND_TIME
        return columns | dict(zip(roles, self.times, strict=True))

    @property
    def has_place(self) -> bool:
        """Whether a latitude and longitude are configured."""
        return self.lat is not None or self.location is not None

    def describe(self) -> str:
        """Return the mapping as one line of text, injectively."""
        return join_pairs(self.by_role())


def memory_size(memory: str) -> float:
    """Return the bytes in a size like "1GB"; 0 if it is none. A GiB counts as a GB."""
    match = _MEMORY.fullmatch(memory) if isinstance(memory, str) else None
    return float(match[1]) * 1000 ** ("KMGT".index(match[2][0].upper()) + 1) if match else 0.0


@dataclass(frozen=True)
class Rules:
    """How records are checked and counted; see `hexveil.records.read` for each field."""

    scale: ValueLattice
    cells: Cells | Labels
    select: Select = Select()  # noqa: RUF009  frozen
    privacy_unit: Unit = "user"
    repeats: Repeats = "drop"
    timezone: str | None = None
    max_bad_rows: float = 0.1
    accept_single_records: bool = False
    max_repeats: float = 0.2
    terms: tuple[Term, ...] = ()
    id_space: str | None = None

    def __post_init__(self) -> None:
        self.select.check_codes(self.scale.lower, self.scale.upper)
        object.__setattr__(self, "timezone", zone_name(self.timezone))
        if self.timezone is not None:
            zone(self.timezone)
        # Made for its refusals: a threshold that divides nothing is named before a file is opened.
        _ = self.bins

    @property
    def bins(self) -> FineBins | None:
        """Bins in which records are counted; None without statistics of distributions."""
        return fine_bins(self.scale, self.terms) if self.terms else None

    @property
    def clock(self) -> str | None:
        """The time zone of slots, hours, dates and days, or None."""
        # The clock of the grid goes first: hours and dates must be those that the slots show.
        map_cells = self.cells.timezone if isinstance(self.cells, Cells) else None
        return map_cells or self.timezone

    @property
    def naive(self) -> str | None:
        """The time zone of times without an offset, or None."""
        return self.timezone or self.clock

    @property
    def two_clocks(self) -> bool:
        """Whether days of units depend on a second clock, that of times without an offset."""
        return self.privacy_unit != "user" and self.naive != self.clock


@dataclass(frozen=True)
class ReadRequest:
    """One reading of records.

    Attributes
    ----------
    columns, rules, memory, format, value_unit, version, cache
        See `hexveil.records.read`; `version` is a line of `hexveil.records.sources.record_format`.
    offsets : bool
        Whether it is known that every kept record's time has an offset; looked at only under two
        clocks (`Rules.two_clocks`).
    """

    columns: RecordColumns
    rules: Rules
    memory: str = "1GB"
    format: RecordFormat = PLAIN
    value_unit: str = ""
    version: str | None = None
    cache: Cache | None = None
    offsets: bool = False
    scratch: str | None = None

    def __post_init__(self) -> None:
        columns, rules = self.columns, self.rules
        if isinstance(rules.cells, Cells):
            self._check_cells(rules.cells)
        self._check_value()
        if rules.select.box is not None and not columns.has_place:
            raise InputError("box needs places; name lat and lon, or location.")
        for name, is_used in (
            ("hours", rules.select.hours is not None),
            ("dates", rules.select.dates is not None),
            (f"privacy_unit {rules.privacy_unit!r}", rules.privacy_unit != "user"),
        ):
            if is_used and (columns.time is None or rules.clock is None):
                lacks = "time" if columns.time is None else "timezone"
                raise InputError(f"{name} needs the local time of records; name {lacks} too.")

    def _check_cells(self, cells: Cells) -> None:
        if not self.columns.has_place:
            raise InputError(
                "hexagons need places; name lat and lon, or location; or use Labels for cells, or "
                "OneCell (--set cells.one_cell=true) for one cell of all records."
            )
        if cells.timeslot is not None and self.columns.time is None:
            raise InputError("timeslots need times; name the time column or use timeslot none.")

    def _check_value(self) -> None:
        """Refuse a value column that is public in another role: no noise would protect it."""
        columns, cells = self.columns, self.rules.cells
        # Location is not in the list: a struct may hold the value beside the coordinates.
        public = [(role, getattr(columns, role)) for role in ("user", "lat", "lon")]
        public += [("time", name) for name in columns.times]
        public += [("label", name) for name in label_columns(cells)]
        roles = [
            role for role, name in public if name is not None and _contains(name, columns.value)
        ]
        if columns.location is not None and _is_degree(columns.location, columns.value):
            roles.append("location")
        if roles:
            raise InputError(
                f"value and {roles[0]} cannot be the same column: who reported when and where is "
                "public, the value is what is protected; name another column for one of them."
            )

    @property
    def drops_repeats(self) -> bool:
        """Whether repeats are dropped; without a time column they are kept."""
        return self.rules.repeats == "drop" and self.columns.time is not None

    @property
    def repeats_rule(self) -> str:
        """The rule of repeats: another one has another text, for entries of a cache as well."""
        return "drop, average of one place" if self.drops_repeats else "keep"

    @property
    def id_space(self) -> str:
        """Id space that accounts pin: the declared one, or the name of the user column."""
        return self.rules.id_space or strip_value_members(self.columns.user)

    @property
    def column_names(self) -> frozenset[str]:
        """The names of all configured columns."""
        return frozenset((*self.columns.by_role().values(), *label_columns(self.rules.cells)))

    def identity(self, source: str) -> dict[str, str]:
        """Return the public request as text, independent of all values."""
        rules, declared = self.rules, self.format.describe()
        return {
            "source": source,
            "version": self.version or NOT_DECLARED,
            "columns": self.columns.describe(),
            "value": self.columns.value,
            "value_unit": self.value_unit,
            "quantum": decimal_text(rules.scale.quantum),
            # Settings without any effect are normalised: equal readings must have equal identities.
            "repeats": self.repeats_rule,
            "select": rules.select.describe(),
            "drop_values": rules.select.describe_dropped(),
            "privacy_unit": rules.privacy_unit,
            "timezone": rules.clock or "none",
            # Another declared time zone reads other records, but only if some time lacks an offset.
            "naive_times": "none" if self.offsets else rules.naive or "not usable",
            # Absent where nothing is declared: requests from before have the same identity.
            **({"format": declared} if declared else {}),
        }
