r"""Fields of delimited text with declared types, where these provably are the values of the text.

Text is what `hexveil.records.duckdb.expressions` reads; a declared type is accepted for a column of
a block only if each field of it has a form that both read alike, and the column stays text else:

- Numbers: what Arrow converts, if all are finite: an optional minus sign, digits with at most one
  decimal point, an optional exponent, blanks around it. Such a text has one nearest double, which
  Arrow and the engine both return. A plus sign, hexadecimal digits, `1_000`, infinities and NaN are
  not converted or not finite.
- Times: ISO 8601 with seconds, perhaps 3 or 6 digits of a fraction, and `Z`, an offset with a colon
  of at most 14:59, or none; all fields of a block in the form of the first, between 1970 and 2100.
  Each byte is checked against that form; the calendar is then Gregorian in both.

An empty field is null in both. tests/records/duckdb/test_typed_fields.py compares both ways.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hexveil.records.utc_offsets import END_OF_TIMES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexveil.records.sources.columns import ColumnRef
    from hexveil.records.sources.record_format import RecordFormat

NUMBER, UTC, WALL = "\x1fnumber", "\x1futc", "\x1fwall"
"""Endings of the names of typed columns: doubles, and microseconds as `expressions.Instant`."""
_FORM = re.compile(rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{3}|\.\d{6})?(Z|[+-]\d\d:\d\d)?")
_LARGEST_OFFSET = 14
_TEXTS_AT_ONCE = 4096
"""Times of which the form is compared at once."""


@dataclass(frozen=True)
class TypedFields:
    """Columns that may have a declared type.

    Attributes
    ----------
    numbers : frozenset of str
    time : str or None
    """

    numbers: frozenset[str] = frozenset()
    time: str | None = None

    @classmethod
    def of_roles(cls, used: Sequence[tuple[str, ColumnRef]], written: RecordFormat) -> Self:
        """Return the columns by their roles; none with two, nor one of which a part is read."""
        columns = [ref.column for _, ref in used]
        alone = {
            role: ref.column
            for role, ref in used
            if not ref.path and ref.point is None and columns.count(ref.column) == 1
        }
        roles = {"lat", "lon", "value"} if written.decimal == "." else set()
        if written.unit_suffix is not None:
            roles.discard("value")
        numbers = frozenset(column for role, column in alone.items() if role in roles)
        return cls(numbers, alone.get("time") if written.time_format is None else None)

    def fields(self) -> list[tuple[str, pa.DataType]]:
        """Return the names and types of the typed columns, null where a field stays text."""
        typed_columns = [(name + NUMBER, pa.float64()) for name in sorted(self.numbers)]
        if self.time is not None:
            typed_columns += [(self.time + ending, pa.int64()) for ending in (UTC, WALL)]
        return typed_columns

    def wanted(self, name: str, first: bytes) -> pa.DataType | None:
        """Return the type in which a column is parsed, by its first field; None for text."""
        if name in self.numbers:
            return pa.float64()
        if name == self.time and _FORM.fullmatch(first):
            return pa.binary(len(first))
        return None

    def typed(self, name: str, column: pa.ChunkedArray, first: bytes) -> dict[str, pa.ChunkedArray]:
        """Return a column of text, or parsed as wanted, by the name of the typed one, if all fit.

        It is empty where a field could be read in two ways.
        """
        kind = self.wanted(name, first)
        with contextlib.suppress(pa.ArrowInvalid):
            if kind == pa.float64():
                numbers = column.cast(kind)
                finite = pc.all(pc.is_finite(numbers)).as_py() is not False
                return {name + NUMBER: numbers} if finite else {}
            if kind is not None:
                fixed = column.cast(pa.binary()).cast(kind) if column.type != kind else column
                chunks = [_instants(chunk, first) for chunk in fixed.chunks]
                parsed = [chunk for chunk in chunks if chunk is not None]
                if len(parsed) == len(chunks):
                    ending = UTC if _has_offset(first) else WALL
                    return {name + ending: pa.chunked_array(parsed, pa.int64())}
        return {}


def _has_offset(form: bytes) -> bool:
    return form.endswith(b"Z") or form[-6:-5] in (b"+", b"-")


def _instants(chunk: pa.FixedSizeBinaryArray, form: bytes) -> pa.Int64Array | None:
    """Return the microseconds in texts of equal length; None if one has not the given form."""
    width = len(form)
    if chunk.null_count or not len(chunk):
        return None
    start = chunk.offset * width
    data = np.frombuffer(chunk.buffers()[1], np.uint8)[start : start + len(chunk) * width]
    if not _has_form(data.reshape(len(chunk), width), form):
        return None
    ends = pa.py_buffer(np.arange(len(chunk) + 1, dtype=np.int32) * width)
    kind = pa.timestamp("us", "UTC" if _has_offset(form) else None)
    with contextlib.suppress(pa.ArrowInvalid):  # no day of the calendar, or no time of a day
        times = pa.StringArray.from_buffers(len(chunk), ends, pa.py_buffer(data)).cast(kind)
        # Beyond them other rules hold, and no record is usable.
        numbers = np.frombuffer(times.buffers()[1], np.int64)
        usable = numbers.min() >= 0 and numbers.max() < END_OF_TIMES * 10**6
        return times.view(pa.int64()) if usable else None
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
        column = data[start : start + lowest.size]
        end = column.size
        # One comparison: subtracting the lowest byte wraps below it.
        np.subtract(column, lowest[:end], out=above[:end])
        if np.greater(above[:end], reach[:end], out=is_beyond[:end]).any():
            return False
    if not has_sign:
        return True
    hours = (texts[:, -5] - ord("0")) * 10 + (texts[:, -4] - ord("0"))
    # Between the two signs stands a comma.
    signed = (texts[:, -6] != ord(",")).all()
    return bool(signed and (hours <= _LARGEST_OFFSET).all() and (texts[:, -2] <= ord("5")).all())
