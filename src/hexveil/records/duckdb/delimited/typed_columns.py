r"""Columns of a plain block with declared types, where these provably are the values of the text.

Text is what `hexveil.records.duckdb.expressions` reads; a declared type is accepted for a column of
a block only if each field of it has a form that both read alike, and the column stays text else:

- Numbers: what Arrow converts, if all are finite: an optional minus sign, digits with at most one
  decimal point, an optional exponent, blanks around it. Such a text has one nearest double, which
  Arrow and the engine both return. A plus sign, hexadecimal digits, `1_000`, infinities and NaN are
  not converted or not finite.
- Times: ISO 8601 with seconds, perhaps 3 or 6 digits of a fraction, and `Z`, an offset with a colon
  of at most 14:59, or none; all fields of a block in the form of the first, between 1970 and 2100.
  Each byte is checked against that form; the calendar is then Gregorian in both.
- Seconds or milliseconds since 1970: numbers, as above.
- Ids and labels are always text, byte for byte.

An empty field is null in both. tests/records/duckdb/test_typed_columns.py compares both ways.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from hexveil.records.duckdb.delimited.plain_blocks import NotPlainError, buffer
from hexveil.records.sources.columns import ColumnType
from hexveil.records.utc_offsets import END_OF_TIMES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hexveil.records.duckdb.delimited.plain_blocks import Block
    from hexveil.records.sources.columns import TypeName
    from hexveil.records.sources.headers import FirstLine

TYPES: Mapping[TypeName, ColumnType] = {
    "text": ColumnType("text"),
    "number": ColumnType("number", float_bits=53),
    "time": ColumnType("time"),
    "naive time": ColumnType("naive time"),
}
"""Types that a column may have."""
_FORM = re.compile(rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{3}|\.\d{6})?(Z|[+-]\d\d:\d\d)?")
_LARGEST_OFFSET = 14
_PARSED_AT_ONCE = 1 << 20
"""Bytes of a block that are parsed at once: what is made of them stays in a processor's memory."""

_TEXTS_AT_ONCE = 4096
"""Times of which the form is compared at once."""


@dataclass(frozen=True)
class Declarations:
    """Columns to read, and those of them that may have a declared type.

    Attributes
    ----------
    columns : tuple of str
    numbers : frozenset of str
    time : str or None
    has_zone : bool
        Whether times without an offset have a declared time zone; without one they stay text.
    coded : str or None
        A column of text that becomes a dictionary: each text once, and its number in each row.
    roles : mapping of str to str
        The column of each role of a record.
    """

    columns: tuple[str, ...]
    numbers: frozenset[str]
    time: str | None
    has_zone: bool
    coded: str | None = None
    roles: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, repr=False)
class TypedBlock:
    """PRIVATE. The columns of a block, and their types."""

    table: pa.Table
    types: tuple[tuple[str, TypeName], ...]


def typed_block(block: Block, header: FirstLine, declared: Declarations) -> TypedBlock:
    """Return the columns of a block, with declared types where all fields fit.

    Raises
    ------
    NotPlainError
        If a line has another number of fields than the header.
    """
    types: dict[str, pa.DataType] = dict.fromkeys(declared.columns, pa.string())
    types |= dict.fromkeys(declared.numbers, pa.float64())
    form = None
    if declared.time is not None:
        form = _first_field(block.text, header, declared.time)
        types[declared.time] = _expected_type(form, has_zone=declared.has_zone)
    table = None
    # A field that does not fit, or a line: read as text, the second fails again.
    with contextlib.suppress(pa.ArrowInvalid):
        table = _parse(block, header, types)
    if table is not None:
        columns = {name: _declared(table[name], types[name], form) for name in declared.columns}
        if all(column is not None for column in columns.values()):
            found = {name: column for name, column in columns.items() if column is not None}
            return _block(found, declared)
    texts = _parse(block, header, dict.fromkeys(declared.columns, pa.string()), is_text=True)
    fitted = {name: _fitted(texts[name], types[name], form) for name in declared.columns}
    return _block(fitted, declared)


def _parse(
    block: Block, header: FirstLine, types: dict[str, pa.DataType], *, is_text: bool = False
) -> pa.Table:
    names = [f"{i}" for i in range(len(header.fields))]
    places = {name: header.fields.index(name) for name in types}
    try:
        table = csv.read_csv(
            buffer(block),
            csv.ReadOptions(column_names=names, use_threads=False, block_size=_PARSED_AT_ONCE),
            # Lines without a letter are none, as to the engine.
            csv.ParseOptions(delimiter=header.mark, quote_char=False, ignore_empty_lines=True),
            csv.ConvertOptions(
                check_utf8=False,  # checked already
                column_types={names[place]: types[name] for name, place in places.items()},
                include_columns=[names[place] for place in places.values()],
                null_values=[""],
                strings_can_be_null=True,
            ),
        )
    except pa.ArrowInvalid:
        if not is_text:
            raise
    else:
        return table.rename_columns(list(types))
    # Outside: Arrow's error quotes the field, and must not be the context of another.
    raise NotPlainError


def _first_field(text: bytes | bytearray, header: FirstLine, name: str) -> bytes:
    """Return a column's field in the first line of a block."""
    line = bytes(text[: text.find(b"\n") % (len(text) + 1)])
    fields = line.rstrip(b"\r").split(header.mark.encode())
    return fields[header.fields.index(name)] if len(fields) == len(header.fields) else b""


def _expected_type(field: bytes, *, has_zone: bool) -> pa.DataType:
    """Return the type of a column of times by its first field."""
    match = _FORM.fullmatch(field)
    if match is None:
        is_number = re.fullmatch(rb"\d+(\.\d*)?", field)
        return pa.float64() if is_number else pa.string()
    return pa.binary(len(field)) if match[2] or has_zone else pa.string()


def _declared(
    column: pa.ChunkedArray, kind: pa.DataType, form: bytes | None
) -> pa.ChunkedArray | None:
    """Return a column that Arrow converted, or None if a field could be read in two ways."""
    if kind == pa.float64():
        return column if pc.all(pc.is_finite(column)).as_py() is not False else None
    if kind == pa.string() or form is None:
        return column
    chunks = [_instants(chunk, form) for chunk in column.chunks]
    found = [chunk for chunk in chunks if chunk is not None]
    return pa.chunked_array(found, found[0].type) if len(found) == len(chunks) and found else None


def _fitted(column: pa.ChunkedArray, kind: pa.DataType, form: bytes | None) -> pa.ChunkedArray:
    """Return a column of text with its declared type if all fields fit, else as it is."""
    if kind == pa.string():
        return column
    with contextlib.suppress(pa.ArrowInvalid):
        typed = column.cast(pa.binary()).cast(kind) if form and kind != pa.float64() else None
        declared = _declared(column.cast(kind) if typed is None else typed, kind, form)
        return column if declared is None else declared
    return column


def _instants(chunk: pa.FixedSizeBinaryArray, form: bytes) -> pa.TimestampArray | None:
    """Return the times in texts of equal length; None if one has not the given form."""
    width = len(form)
    if chunk.null_count or not len(chunk):
        return None
    start = chunk.offset * width
    data = np.frombuffer(chunk.buffers()[1], np.uint8)[start : start + len(chunk) * width]
    texts = data.reshape(len(chunk), width)
    if not _has_form(texts, form):
        return None
    ends = pa.py_buffer(np.arange(len(chunk) + 1, dtype=np.int32) * width)
    has_offset = form.endswith(b"Z") or form[-6:-5] in (b"+", b"-")
    kind = pa.timestamp("us", "UTC" if has_offset else None)
    with contextlib.suppress(pa.ArrowInvalid):  # no day of the calendar, or no time of a day
        times = pa.StringArray.from_buffers(len(chunk), ends, pa.py_buffer(data)).cast(kind)
        # Beyond them other rules hold, and no record is usable.
        numbers = np.frombuffer(times.buffers()[1], np.int64)
        usable = numbers.min() >= 0 and numbers.max() < END_OF_TIMES * 10**6
        return times if usable else None
    return None


def _has_form(texts: np.ndarray, form: bytes) -> bool:
    """Return whether each text has digits where the form has, the same other bytes, any sign."""
    lowest = np.array([ord("0") if chr(b).isdigit() else b for b in form], dtype=np.uint8)
    reach = np.array([9 if chr(b).isdigit() else 0 for b in form], dtype=np.uint8)
    has_sign = form[-6:-5] in (b"+", b"-")
    if has_sign:
        lowest[-6], reach[-6] = ord("+"), 2
    # Many texts as one row of bytes: rows of single ones would take seven times as long.
    rows = min(len(texts), _TEXTS_AT_ONCE)
    lowest, reach, data = np.tile(lowest, rows), np.tile(reach, rows), texts.reshape(-1)
    above, is_beyond = np.empty_like(lowest), np.empty(lowest.size, dtype=np.bool_)
    for start in range(0, data.size, lowest.size):
        part = data[start : start + lowest.size]
        end = part.size
        # One comparison: subtracting the lowest byte wraps below it.
        np.subtract(part, lowest[:end], out=above[:end])
        if np.greater(above[:end], reach[:end], out=is_beyond[:end]).any():
            return False
    if not has_sign:
        return True
    hours = (texts[:, -5] - ord("0")) * 10 + (texts[:, -4] - ord("0"))
    # Between the two signs stands a comma.
    signed = (texts[:, -6] != ord(",")).all()
    return bool(signed and (hours <= _LARGEST_OFFSET).all() and (texts[:, -2] <= ord("5")).all())


def _block(columns: dict[str, pa.ChunkedArray], declared: Declarations) -> TypedBlock:
    types = tuple((name, _kind(column.type)) for name, column in columns.items())
    if declared.coded is not None:
        coded = columns[declared.coded].combine_chunks().dictionary_encode()
        columns[declared.coded] = pa.chunked_array([coded])
    return TypedBlock(pa.table(columns), types)


def _kind(kind: pa.DataType) -> TypeName:
    if kind == pa.float64():
        return "number"
    if pa.types.is_timestamp(kind):
        return "naive time" if kind.tz is None else "time"
    return "text"
