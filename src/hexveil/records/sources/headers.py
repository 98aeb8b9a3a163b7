"""The first line of a CSV file: a header, or a record that no message may show.

Nothing marks a header as such, and a misnamed or headerless file has a record in its place. Fields
of a first line therefore leave the program only if they are known to be column names: configured
columns are among them, or they look like a header by the strict rule of `looks_like_header`.
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

from hexveil.base.errors import InputError
from hexveil.records.sources.source_files import ZSTD, first_bytes, safe_path
from hexveil.records.sources.vocabulary import is_known_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

MARKS = ",;\t|"
"""Separators of columns; the one that a first line has most of is taken."""
MIN_KNOWN_NAMES = 2
"""Known names that a header must contain: a single one could stand in a record by chance."""
_FIRST_BYTES = 1 << 20
"""Bytes of a file packed by Zstandard in which its first lines are."""
_ROWS = 20
"""Rows below the first line that are compared with it."""

_DATUM = re.compile(
    r"\s*([+-]?(\d[\d.,' ]*|[.,]\d+)(e[+-]?\d+)?|nan|[+-]?inf(inity)?"
    r"|\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([T ].*)?|\d{1,2}:\d{2}.*)\s*",
    re.IGNORECASE,
)
"""A number or a time as text."""
_NAME = re.compile(r"[^\W\d]+([ ./:-][^\W\d]+)*( ?\([^\W\d]+(/[^\W\d]+)?\))?")
"""Words without digits, with an optional unit in brackets."""


@dataclass(frozen=True, repr=False)
class FirstLine:
    """PRIVATE. Separator and fields of a CSV file's first line: a header, or a record."""

    mark: str
    fields: tuple[str, ...]

    def __repr__(self) -> str:
        return f"FirstLine(n_fields={len(self.fields)}, private)"


def looks_like_record(names: Iterable[str]) -> bool:
    """Return whether names seem to be a record's fields: one of them is a number or a time.

    Examples
    --------
    >>> looks_like_record(["bus 7", "31,4"]), looks_like_record(["bus", "speed", "pm2.5"])
    (True, False)
    """
    return any(_DATUM.fullmatch(name) for name in names)


def is_confirmed(names: Collection[str], configured: Collection[str]) -> bool:
    """Return whether enough configured columns are among the names, so that they may be shown.

    Examples
    --------
    >>> is_confirmed(["bus", "lat", "speed"], {"bus", "lat", "sped"})
    True
    >>> is_confirmed(["kr7731", "bus", "fast"], {"bus", "lat", "speed"})
    False
    """
    return (
        not looks_like_record(names) and len(set(names).intersection(configured)) >= MIN_KNOWN_NAMES
    )


def looks_like_header(fields: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the fields of a first line are column names beyond doubt.

    The strict rule: the fields are distinct words without digits (but for known names such as
    PM2.5), at least two of them are known names, and some column below holds only numbers or times.

    Examples
    --------
    >>> looks_like_header(["bus", "line", "speed"], [["kr7731", "north", "31.5"]])
    True
    >>> looks_like_header(["kr7731", "north", "31.5"], [["kr7732", "south", "28.0"]])
    False
    >>> looks_like_header(["bus", "line", "driver"], [["kr7731", "north", "Ann"]])
    False
    """
    # A record may well repeat a text, a header cannot.
    distinct = len({name.casefold() for name in fields}) == len(fields)
    n_known = sum(map(is_known_name, fields))
    worded = all(is_known_name(name) or _NAME.fullmatch(name) for name in fields)
    if not distinct or not worded or n_known < MIN_KNOWN_NAMES or looks_like_record(fields):
        return False
    # Malformed lines are no evidence for or against.
    complete = [row for row in rows if len(row) == len(fields)]
    return any(_holds_data(column) for column in zip(*complete, strict=True))


def _holds_data(column: Sequence[str]) -> bool:
    """Return whether all fields of a column that are filled are numbers or times."""
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
    parsed = _lines(path, 1)
    if parsed is None or not parsed[1] or not parsed[1][0] or not all(parsed[1][0]):
        raise _unnamed(safe_path(path, among), None if parsed is None else parsed[1])
    return FirstLine(parsed[0], tuple(parsed[1][0]))


def _unnamed(label: str, lines: Sequence[Sequence[str]] | None) -> InputError:
    """Return the error of a file without column names in its first line."""
    if lines is None:
        return InputError(f"source: {label} is not a readable CSV file in UTF-8.")
    if not lines or not any(lines[0]):
        return InputError(f"source: the file {label} has no line of column names.")
    return InputError(f"source: the first line of {label} must name every column.")


def has_header(path: str) -> bool:
    """Return whether the first line of a CSV file passes `looks_like_header`."""
    parsed = _lines(path, 1 + _ROWS)
    return parsed is not None and bool(parsed[1]) and looks_like_header(parsed[1][0], parsed[1][1:])


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
        header = text.readline()
        # Of equal counts the first of MARKS; a line without any is a single column.
        mark = max(MARKS, key=header.count)
        text.seek(0)
        lines = list(islice(csv.reader(text, delimiter=mark), number))
        "".join(lines[0] if lines else ()).encode()  # fails if the line itself is not UTF-8
        return mark, lines
    return None


def _opened(path: str) -> IO[bytes] | gzip.GzipFile:
    if path.lower().endswith(ZSTD):
        # Its reader cannot go back to the first line.
        return io.BytesIO(first_bytes(path, _FIRST_BYTES))
    if path.lower().endswith(".gz"):
        return gzip.GzipFile(path)
    return Path(path).open("rb")
