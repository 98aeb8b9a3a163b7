"""The first line of a CSV file: a header, or a record that no message may show.

Nothing marks a header as such, and a misnamed or headerless file has a record in its place. Fields
of a first line therefore leave the program only if they are known to be column names: configured
columns are among them, or they look like a header by the strict rule of `looks_like_header`.
"""

import codecs
import contextlib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from hexveil.base.errors import InputError
from hexveil.records.sources.record_format import RecordFormat
from hexveil.records.sources.source_files import read_bytes, safe_path
from hexveil.records.sources.text_lines import as_text, split_line, whole_lines
from hexveil.records.sources.vocabulary import is_known_name

MARKS = ",;\t|"
"""Separators of columns; the one that a first line has most of is taken."""
MIN_KNOWN_NAMES = 2
"""Known names that a header must contain: a single one could stand in a record by chance."""
MANY_KNOWN_NAMES = 4
"""Known names beside which names may hold small numbers, or be there twice."""
FIRST_BYTES = 1 << 20
"""Bytes of a file in which its first lines are."""
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
_NUMBERED_NAME = re.compile(r"(?!(\D*\d){3})[^\W\d]\w*([ ./:-]+\w+)*( ?\([^()]{0,12}\))?")
"""Words with two digits at most: an id, or its end, could be one of more."""


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
    Beside four known names a word may have two digits, a name be there twice, or be missing.

    Examples
    --------
    >>> looks_like_header(["bus", "line", "speed"], [["kr7731", "north", "31.5"]])
    True
    >>> looks_like_header(["kr7731", "north", "31.5"], [["kr7732", "south", "28.0"]])
    False
    >>> looks_like_header(["bus", "line", "driver"], [["kr7731", "north", "Ann"]])
    False
    >>> looks_like_header(["id", "lat", "lon", "timestamp", "durP1"], [["7", "1", "2", "3", "4"]])
    True
    """
    n_known = len({name.casefold() for name in fields if is_known_name(name)})
    # A record may well repeat a text, a header seldom.
    distinct = len({name.casefold() for name in fields}) == len(fields)
    worded = all(is_known_name(name) or _NAME.fullmatch(name) for name in fields)
    if n_known >= MANY_KNOWN_NAMES:
        distinct = True
        worded = all(
            not name or is_known_name(name) or _NUMBERED_NAME.fullmatch(name)
            for name in map(str.strip, fields)
        )
    if not distinct or not worded or n_known < MIN_KNOWN_NAMES or looks_like_record(fields):
        return False
    # Malformed lines are no evidence for or against.
    complete = [row for row in rows if len(row) == len(fields)]
    return any(_holds_data(column) for column in zip(*complete, strict=True))


def _holds_data(column: Sequence[str]) -> bool:
    """Return whether all fields of a column that are filled are numbers or times."""
    filled = [field for field in column if field.strip()]
    return bool(filled) and all(_DATUM.fullmatch(field) for field in filled)


def first_line(path: str, among: Sequence[str], record_format: RecordFormat) -> FirstLine:
    """Return the separator and the fields of a CSV file's first line; some may be empty.

    `among` are all files of the source, for messages.

    Raises
    ------
    InputError
        If it cannot be read, or names no column.
    """
    mark, lines = _lines(path, 1, among, record_format)
    label = safe_path(path, among)
    if not lines or not any(lines[0]):
        raise InputError(f"source: the file {label} has no line of column names.")
    with contextlib.suppress(UnicodeDecodeError):
        return FirstLine(mark, tuple(field.decode() for field in lines[0]))
    raise InputError(
        f"source: the first line of {label} is not in UTF-8; save the file as UTF-8 (in Excel "
        '"CSV UTF-8"; not "Unicode", which is UTF-16), or if it is in Latin-1, add encoding = '
        '"latin-1" (in [format], or --set format.encoding=latin-1).'
    )


def has_rows(path: str, record_format: RecordFormat) -> bool:
    """Return whether a CSV file has a line below its first one."""
    return len(_lines(path, 2, (path,), record_format)[1]) > 1


def has_header(path: str, record_format: RecordFormat) -> bool:
    """Return whether the first line of a CSV file passes `looks_like_header`."""
    _, lines = _lines(path, 1 + _ROWS, (path,), record_format)
    texts = [[field.decode(errors="replace") for field in line] for line in lines]
    return bool(texts) and looks_like_header(texts[0], texts[1:])


def duplicates(fields: Iterable[str]) -> frozenset[str]:
    """Return the names that several fields of a first line have, and that of none.

    Examples
    --------
    >>> sorted(duplicates(["", "bus", "speed", "speed"]))
    ['', 'speed']
    """
    return frozenset(name for name, n in Counter(fields).items() if n > 1 or not name)


def _lines(
    path: str, number: int, among: Sequence[str], record_format: RecordFormat
) -> tuple[str, list[list[bytes]]]:
    """Return the separator and the fields of the first lines, as they are split as records."""
    data = read_bytes(path, among, FIRST_BYTES)
    text = b"".join(as_text([data], record_format)).removeprefix(codecs.BOM_UTF8)
    lines = [line for block, _ in whole_lines([text], FIRST_BYTES) for line in block.splitlines()]
    lines = [line for line in lines if line][:number]
    if not lines:
        return ",", []
    # Of equal counts the first of MARKS; a line without any is a single column.
    outside = re.sub(rb'"[^"]*"', b"", lines[0]).decode("latin-1")
    mark = max(MARKS, key=outside.count)
    # Quotes within fields tell of a first line that is none, which is refused by its fields.
    return mark, [split_line(line, mark) or line.split(mark.encode()) for line in lines]
