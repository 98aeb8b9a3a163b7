"""The first line of a text file: names of columns, or a record that no message may show.

Nothing marks a line of names as such, and a misnamed or headerless file has a record there. So
what stands in a first line leaves the program only if it is known to be names: configured columns
are among them, or they are usual names above rows of another kind.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import re
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING

from hexveil.errors import InputError
from hexveil.records.sources import told
from hexveil.records.vocabulary import is_usual

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

MARKS = ",;\t|"
"""Separators of columns; the one that a first line has most of is taken."""
ENOUGH = 2
"""Names that must be known in a line of names: one could be there by chance."""
_ROWS = 20
"""Rows that are compared with the line above them."""

_DATUM = re.compile(
    r"\s*([+-]?(\d[\d.,' ]*|[.,]\d+)(e[+-]?\d+)?|nan|[+-]?inf(inity)?"
    r"|\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([T ].*)?|\d{1,2}:\d{2}.*)\s*",
    re.IGNORECASE,
)
"""A number or a time as text."""
_NAME = re.compile(r"[^\W\d]+([ ./:-][^\W\d]+)*( ?\([^\W\d]+(/[^\W\d]+)?\))?")
"""Words in letters, perhaps with a unit in brackets: no id with a number in it."""


@dataclass(frozen=True, repr=False)
class FirstLine:
    """PRIVATE. What stands in the first line of a CSV file: names, or a record."""

    mark: str
    fields: tuple[str, ...]

    def __repr__(self) -> str:
        return f"FirstLine(n_fields={len(self.fields)}, private)"


def is_record(names: Iterable[str]) -> bool:
    """Return whether names seem to be a record's fields: one of them is a number or a time.

    Examples
    --------
    >>> is_record(["bus 7", "31,4"]), is_record(["bus", "speed", "pm2.5"])
    (True, False)
    """
    return any(_DATUM.fullmatch(name) for name in names)


def confirmed(names: Collection[str], asked: Collection[str]) -> bool:
    """Return whether configured columns show that these are names, and may be told.

    Examples
    --------
    >>> confirmed(["bus", "lat", "speed"], {"bus", "lat", "sped"})
    True
    >>> confirmed(["kr7731", "bus", "fast"], {"bus", "lat", "speed"})
    False
    """
    return not is_record(names) and len(set(names).intersection(asked)) >= ENOUGH


def are_names(fields: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the fields of a first line are names beyond doubt; if not, they are not shown.

    They are distinct words without a number among them, at least two of them usual names, and
    the rows below have a column of numbers or times.

    Examples
    --------
    >>> are_names(["bus", "line", "speed"], [["kr7731", "north", "31.5"]])
    True
    >>> are_names(["kr7731", "north", "31.5"], [["kr7732", "south", "28.0"]])
    False
    >>> are_names(["bus", "line", "driver"], [["kr7731", "north", "Ann"]])
    False
    """
    distinct = len({name.casefold() for name in fields}) == len(fields)
    usual = [is_usual(name) for name in fields]
    worded = all(known or _NAME.fullmatch(name) for known, name in zip(usual, fields, strict=True))
    if not distinct or not worded or sum(usual) < ENOUGH or is_record(fields):
        return False
    whole = [row for row in rows if len(row) == len(fields)]
    return any(_is_measured(column) for column in zip(*whole, strict=True))


def _is_measured(column: Sequence[str]) -> bool:
    """Return whether a column's fields are numbers or times, as far as there are any."""
    filled = [field for field in column if field.strip()]
    return bool(filled) and all(_DATUM.fullmatch(field) for field in filled)


def first_line(path: str, among: Sequence[str] = ()) -> FirstLine:
    """Return the separator and the fields of a CSV file's first line.

    `among` are all files of the source, for messages.

    Raises
    ------
    InputError
        If it cannot be read, or does not name every column.
    """
    found = _lines(path, 1)
    if found is None or not found[1] or not all(found[1][0]):
        raise _unnamed(told(path, among), None if found is None else found[1])
    return FirstLine(found[0], tuple(found[1][0]))


def _unnamed(shown: str, lines: Sequence[Sequence[str]] | None) -> InputError:
    """Return the error of a file whose first line names no columns."""
    if lines is None:
        return InputError(f"source: {shown} is not a readable CSV file in UTF-8.")
    if not lines or not any(lines[0]):
        return InputError(f"source: the file {shown} has no line of column names.")
    return InputError(f"source: the first line of {shown} must name every column.")


def has_names(path: str) -> bool:
    """Return whether the first line of a CSV file holds names beyond doubt: see `are_names`."""
    found = _lines(path, 1 + _ROWS)
    return found is not None and bool(found[1]) and are_names(found[1][0], found[1][1:])


def _lines(path: str, number: int) -> tuple[str, list[list[str]]] | None:
    """Return the separator and the fields of the first lines; None if the first is not text.

    The error is not kept, not even as the context of ours: one about letters holds the records.
    """
    with (
        contextlib.suppress(OSError, EOFError, UnicodeEncodeError, csv.Error),
        _opened(path) as packed,
        # More than these lines is decoded at once, and records may be malformed: they are counted.
        io.TextIOWrapper(packed, "utf-8-sig", "surrogateescape", newline="") as text,
    ):
        first = text.readline()
        mark = max(MARKS, key=first.count)
        text.seek(0)
        lines = list(islice(csv.reader(text, delimiter=mark), number))
        "".join(lines[0] if lines else ()).encode()  # fails if the line itself is not UTF-8
        return mark, lines
    return None


def _opened(path: str) -> IO[bytes] | gzip.GzipFile:
    if path.lower().endswith(".gz"):
        return gzip.GzipFile(path)
    return Path(path).open("rb")
