"""Selection of records and cells by public facts.

Hours, dates and box act on records before repeats are resolved; `min_users`, then `top`, act on
cells after counting. `drop_values` is the exception that looks at values: it is asked for by name
and stated in what is published (ERRATA 13).
"""

from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from typing import Any

from hexveil.base.errors import InputError
from hexveil.base.rational import decimal_text, in_order, items_of, to_fraction


@dataclass(frozen=True)
class Select:
    """Which records and cells are used.

    Attributes
    ----------
    hours : tuple of int, or None
        Local hours of the day, 0 to 23; may also be text like "7-9,17".
    dates : (str, str) or None
        First and last local date, both included, as ISO text.
    box : (float, float, float, float) or None
        West, south, east and north end in degrees, ends included.
    min_users : int
        Users (privacy units) a cell must have, at least 1.
    top : int or None
        Only this many cells of most records; ties go to the smaller cell.
    drop_values : tuple of Fraction
        Codes of a missing reading, at most 8, such as -1 or 9999. Whether a record has one is then
        assumed to be public; an account takes one list of them.
    accept_value_dependent_counts : bool
        Whether such a code may lie strictly within the bounds, where it could be a reading: then
        counts tell exactly how many records have that value.

    Examples
    --------
    >>> Select(hours="7-9,17").hours
    (7, 8, 9, 17)
    """

    hours: tuple[int, ...] | None = None
    dates: tuple[str, str] | None = None
    box: tuple[float, float, float, float] | None = None
    min_users: int = 10
    top: int | None = None
    drop_values: tuple[Fraction, ...] = ()
    accept_value_dependent_counts: bool = False

    def __post_init__(self) -> None:
        for name, value in (
            ("hours", None if self.hours is None else _hours(self.hours)),
            ("dates", None if self.dates is None else _dates(self.dates)),
            ("box", None if self.box is None else _box(self.box)),
            ("drop_values", _values(self.drop_values)),
        ):
            # Normalised once, so that equal selections are equal objects and describe themselves
            # equally.
            object.__setattr__(self, name, value)
        if not isinstance(self.accept_value_dependent_counts, bool):
            raise InputError(
                "accept_value_dependent_counts must be true or false, got "
                f"{self.accept_value_dependent_counts!r}."
            )
        _check_integer(self.min_users, "min_users")
        if self.top is not None:
            _check_integer(self.top, "top")

    def check_codes(self, lower: Fraction, upper: Fraction) -> None:
        """Refuse missing-value codes that could be readings, unless that was accepted.

        Raises
        ------
        InputError
            If a code lies strictly within the bounds.
        """
        inside = [decimal_text(code) for code in self.drop_values if lower < code < upper]
        if inside and not self.accept_value_dependent_counts:
            raise InputError(
                f"drop_values: {inside[0]} lies within the bounds, so that it could be a reading, "
                "and the count of dropped records would tell exactly how many have it; name codes "
                "outside the bounds, or accept that these counts depend on values: "
                "accept_value_dependent_counts = true (in [select], or "
                "--set select.accept_value_dependent_counts=true)."
            )

    @property
    def days(self) -> tuple[int, int] | None:
        """First and last local day, counted from 1970-01-01, or None."""
        if self.dates is None:
            return None
        start, end = (date.fromisoformat(d).toordinal() for d in self.dates)
        return start - _EPOCH, end - _EPOCH

    def describe(self) -> str:
        """Return the selection by public facts as one line of canonical text."""
        return (
            f"hours {'all' if self.hours is None else ','.join(map(str, self.hours))}; "
            f"dates {'all' if self.dates is None else ' to '.join(self.dates)}; "
            f"box {'none' if self.box is None else ','.join(map(repr, self.box))}; "
            f"min_users {self.min_users}; top {'all' if self.top is None else self.top}"
        )

    def describe_dropped(self) -> str:
        """Return the values that mean no reading as text, "none" without any."""
        return ",".join(decimal_text(v) for v in self.drop_values) or "none"


def selection_counts(everything: int, used: int, records: int) -> dict[str, int]:
    """Return the public counts that come from the choice of cells.

    Parameters
    ----------
    everything, used : int
        Cells before selection, and those that are used.
    records : int
        In the used cells.
    """
    return {
        "cells before selection": everything,
        "cells left out by selection": everything - used,
        "records left": records,
    }


def refuse_no_cell(everything: int, enough: int, min_users: int) -> None:
    """Raise InputError if no cell has enough users; all three numbers are public."""
    if not enough:
        raise InputError(
            f"no cell is left after selection: none of {everything} cells has min_users="
            f"{min_users} users; use larger cells, longer timeslots or a smaller min_users."
        )


MAX_CODES = 8
"""Missing-value codes of a reading: each has an exact public count."""
_EPOCH = date(1970, 1, 1).toordinal()
LARGEST_INTEGER = 10**15
"""More cells or users than there can be, and still a number for the engine."""


def _check_integer(value: object, name: str) -> None:
    # Not 0: a cell without users has no mean.
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InputError(f"{name} must be a whole number of at least 1, got {value!r}.")
    if value > LARGEST_INTEGER:
        raise InputError(f"{name} must be a whole number of at most {LARGEST_INTEGER}.")


def _hours(value: object) -> tuple[int, ...]:
    hours: set[int] = set()
    for item in _items(value):
        start, dash, end = str(item).strip().partition("-")
        try:
            low, high = int(start), int(end if dash else start)
        except ValueError:
            low, high = -1, -1
        if not 0 <= low <= high <= 23:
            raise InputError(
                f'hours must be local hours from 0 to 23, like "7-9,17" or [7, 8], got {value!r}.'
            )
        hours.update(range(low, high + 1))
    if not hours:
        raise InputError("hours names no hour; leave it out to use all.")
    return tuple(sorted(hours))


def _items(value: object) -> list[Any]:
    """Return the parts of a text, or the items of any container."""
    if isinstance(value, str):
        return [item for item in value.split(",") if item.strip()]
    return items_of(value)


def _dates(value: object) -> tuple[str, str]:
    try:
        start, end = (str(date.fromisoformat(str(d))) for d in _items(value))
    except ValueError:
        # Out of order, for the refusal below.
        start, end = "1", "0"
    if start > end:
        raise InputError(
            "dates must be the first and last local date, as 2024-02-19,2024-02-25 (for one day "
            f"the same twice), got {','.join(map(str, _items(value)))}."
        )
    return start, end


def _box(value: object) -> tuple[float, float, float, float]:
    try:
        # Through the exact text, so that 72.6 and "72.6" select the same records.
        sides = _items(value) if isinstance(value, str) else in_order(value, "box")
        west, south, east, north = (float(to_fraction(side, "box")) for side in sides)
    except (ValueError, TypeError):
        raise InputError(
            "box must be four numbers, west, south, east, north in degrees, "
            f"like (72.6, 21.0, 73.0, 21.4), got {value!r}."
        ) from None
    if not (-180 <= west < east <= 180 and -90 <= south < north <= 90):
        raise InputError(
            "box must be west, south, east, north in degrees, with west below east "
            f"and south below north, got {value!r}."
        )
    return west, south, east, north


def _values(value: object) -> tuple[Fraction, ...]:
    codes = tuple(sorted({to_fraction(v, "drop_values") for v in _items(value)}))
    if len(codes) > MAX_CODES:
        raise InputError(
            f"drop_values takes at most {MAX_CODES} codes of a missing reading, got {len(codes)}; "
            "it is no filter of values, whose counts are private."
        )
    return codes
