"""PRIVATE. The privacy units: the ids that the ledger hashes, and their days or weeks.

Ids are in their canonical text, so that one vehicle is one unit in every release, whatever type a
column or a library gives its id:

- text, UUIDs and enumerations as they are, byte for byte, but for whole numbers that went through
  a column of floats or decimals: "7.0" and "7.00" are "7", and "-0.0" is "0" ("007", "007.0",
  "7.5" and "1e3" stay);
- dates as "2026-11-20"; bytes as DuckDB writes them;
- whole numbers in decimal digits, without a point; decimals too, where they are whole, and else
  without zeros that end their fraction: 7 and 7.00 are "7", 7.50 is "7.5";
- floats, where they are whole and below 2^53 in size (2^24 of 32 bits): 7.0 is "7", minus zero is
  "0", NaN is no id. Any other float is refused, for it names no vehicle exactly;
- numbers in JSON as whole numbers or floats, by whether they have a point or an exponent;
- empty text is no id, nor is true or false in JSON; times, booleans and nested fields are refused.

The expressions are in `records.duckdb.expressions` and `records.sql`; tables in
memory are prepared in `records.sources`.

The presence of a user is public by the promise, but an id still appears in no message, repr or
file: it leaves this type only for the ledger's keyed hash.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hexveil.base.arrow_tables import to_arrow
from hexveil.base.errors import HexveilError, InputError
from hexveil.model.public_metadata import Unit

CANONICAL_IDS = 2
"""The version of this canonical text; the ledger's `NORMALISATION` names it too."""
WHOLE_WITH_ZEROS = "-?(0|[1-9][0-9]*)[.]0+"
"""Pattern of a whole number's text that went through a column of floats or decimals."""
MIN_USERS_CHECKED = 30
"""Users below whom nothing is concluded from how many have a single record: a few rows that show
what records look like are often of as many vehicles."""
MAX_SINGLE_SHARE = 0.9
"""Share of users above which single records are taken for a wrong column."""
_NUMERIC = r"^\s*[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]{1,9})?\s*$"
_PLAIN = "^(0|-?[1-9][0-9]{0,39})$"
EPOCH = date(1970, 1, 1)
_DATE = len("2026-11-20")
_ENDING = re.compile(r" ([0-9]{4}-[0-9]{2}-[0-9]{2})\Z")


@dataclass(frozen=True, eq=False, repr=False)
class Units:
    """PRIVATE. The units of a data set, in the order of its occupancy's users.

    Attributes
    ----------
    users : pyarrow.Array of string, length n_units
        Canonical id of each unit's user.
    days : ndarray of int, shape (n_units,), or None
        First day of each unit, in days since 1970; None where the unit is a user, or where the
        ids of sums made elsewhere do not say their day: those cannot be booked.
    """

    users: pa.Array
    days: NDArray[np.int64] | None = None

    def __repr__(self) -> str:
        return f"Units(n_units={len(self.users)}, private)"

    def __reduce__(self) -> tuple[object, ...]:
        raise HexveilError("private ids are not pickled; read the records where they are used.")

    def take(self, rows: NDArray[np.int64]) -> Units:
        """Return some units, in the order of `rows`."""
        return Units(
            self.users.take(to_arrow(rows)), None if self.days is None else self.days[rows]
        )

    def ids(self) -> list[bytes]:
        """Return each unit's user id as bytes."""
        return [text.encode() for text in self.users.to_pylist()]

    def periods(self) -> list[str] | None:
        """Return each unit's first day as ISO text, or None where none is known."""
        if self.days is None:
            return None
        names = {
            int(day): (EPOCH + timedelta(int(day))).isoformat() for day in np.unique(self.days)
        }
        return [names[int(day)] for day in self.days]


def split_unit_ids(users: pa.Array, unit: Unit) -> Units:
    """Split ids of user-days or user-weeks into users and days, as the query of sums writes them.

    There an id is the user's id, a blank and the first day. So the ledger recognises the same user
    on another day, and the same unit in records that hexveil read itself. If any id does not
    contain its day, no day is known.

    Examples
    --------
    >>> split_unit_ids(pa.array(["bus 7 2026-11-20"]), "user-day").periods()
    ['2026-11-20']
    >>> split_unit_ids(pa.array(["bus 7"]), "user-day").periods() is None
    True
    """
    if unit == "user" or not len(users):
        return Units(users)
    texts = users.to_pylist()
    days = [_first_day(text, unit) for text in texts]
    valid = [day for day in days if day is not None]
    # All or none: under a mixture one user could be two units, with a day and without.
    if len(valid) < len(days):
        return Units(users)
    names = pa.array([text[: -_DATE - 1] for text in texts], users.type)
    return Units(names, np.array(valid, dtype=np.int64))


def _first_day(text: str, unit: Unit) -> int | None:
    """Return the first day of the unit that an id ends with, or None if it names none."""
    # From the end, since the user's own id may contain blanks.
    match = _ENDING.search(text)
    try:
        day = date.fromisoformat(match[1] if match else "")
    except ValueError:
        return None
    # weekday() is 0 on Mondays; a week that began elsewhere would overlap with ours.
    return None if unit == "user-week" and day.weekday() else (day - EPOCH).days


def first_days(keys: NDArray[np.int64], unit: Unit) -> NDArray[np.int64]:
    """Return the first day of user-days or user-weeks from their keys (`unit_keys`).

    Examples
    --------
    >>> first_days(np.array([1]), "user-day"), first_days(np.array([2]), "user-week")
    (array([0]), array([4]))
    """
    # The inverse of `unit_keys`, whose keys count from a day, and a Monday, before 1970.
    return keys - 1 if unit == "user-day" else 7 * keys - 10


def refuse_inexact_ids(n: int, column: str) -> None:
    """Raise InputError if ids are floats that do not identify a vehicle exactly.

    Parameters
    ----------
    n : int
        Records with such an id. Public.
    column : str
    """
    if n:
        raise InputError(
            f"user: the column {column!r} holds ids that are not whole, or too large to be exact "
            f"in their type (records: {n}), so that vehicles could be taken for one another; write "
            "ids as text or whole numbers."
        )


class SimilarIdsWarning(UserWarning):
    """Some ids are one number in several spellings, which may be one vehicle under several ids."""


def warn_of_similar_ids(users: pa.Array, column: str) -> None:
    """Warn of ids that are equal as numbers and differ as text; how many is public, not which."""
    number = similar_ids(users)
    if number:
        warnings.warn(
            f"user: {number} ids in the column {column!r} are equal as numbers and differ as text, "
            "such as 7 and 007: if they are one vehicle, it is several users here, and loses as "
            "much as all of them; write each id in one way.",
            SimilarIdsWarning,
            stacklevel=2,
        )


def similar_ids(users: pa.Array) -> int:
    """Return how many ids are equal to another one as numbers.

    Examples
    --------
    >>> similar_ids(pa.array(["7", "007", "+7", "bus 7", "8", "08.50"]))
    3
    """
    texts = users.cast(pa.large_string()).unique()
    numeric = texts.filter(pc.match_substring_regex(texts, _NUMERIC))
    # Numbers in their own text are told apart by it, however long they are.
    is_plain = pc.match_substring_regex(numeric, _PLAIN)
    if pc.all(is_plain, min_count=0).as_py():
        return 0
    numbers = np.array(numeric.to_pylist()).astype(np.float64)
    _, number, size = np.unique(numbers, return_inverse=True, return_counts=True)
    n_plain = np.bincount(number, np.asarray(is_plain), size.size)
    return int(size[(size > 1) & (n_plain < size)].sum())


def refuse_single_records(users: int, single: int, column: str) -> None:
    """Raise InputError if nearly every user has a single record: a sign of a wrong user column.

    A row number, a time or a latitude makes each record a user of its own; a release would then
    protect single records of vehicles, and say that it protects vehicles.

    Parameters
    ----------
    users, single : int
        Users of kept records, whatever their privacy units, and those with one such record.
        Public.
    column : str
    """
    if users >= MIN_USERS_CHECKED and single > MAX_SINGLE_SHARE * users:
        raise InputError(
            f"user: {single} of {users} ids in the column {column!r} have a single record, so that "
            "a release would protect records and not vehicles; name the column that says whose a "
            "record is, or confirm by accept_single_records (in [read], or "
            "--set read.accept_single_records=true) that each id is all there is of a user."
        )
