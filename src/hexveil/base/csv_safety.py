"""CSV that a spreadsheet opens as text and numbers, never as a formula.

A spreadsheet takes a text that begins with `=`, `+`, `-`, `@`, a tab or a line break for a formula
or a command, and labels are written by others. One apostrophe before such a text keeps it a text;
numbers stay as they are. A text that already has apostrophes there gets one more, so that two
texts never become one, and whoever takes one apostrophe away has the text again.
"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

_BEGINNING = "'*[=+@\t\r\n\uff1d\uff0b\uff0d\uff20-]"
GUARD = "'"


def guarded(table: pa.Table) -> pa.Table:
    """Return a table whose texts and column names begin no formula.

    Examples
    --------
    >>> guarded(pa.table({"ward": ["=1+1", "-", "'=", "north"], "n": [-1, 2, 3, 4]})).to_pydict()
    {'ward': ["'=1+1", "'-", "''=", 'north'], 'n': [-1, 2, 3, 4]}
    """
    columns = [_guarded(table[i]) for i in range(table.num_columns)]
    return pa.table(columns, names=[guarded_text(name) for name in table.column_names])


def guarded_text(text: str) -> str:
    """Return a text that begins no formula.

    Examples
    --------
    >>> guarded_text("=1+1"), guarded_text("1=1")
    ("'=1+1", '1=1')
    """
    return GUARD + text if re.match(_BEGINNING, text) else text


def plain_text(text: str) -> str:
    """Return the text that `guarded_text` was given.

    Examples
    --------
    >>> plain_text("'=1+1"), plain_text("'tis")
    ('=1+1', "'tis")
    """
    return text.removeprefix(GUARD) if re.match(_BEGINNING, text) else text


def write(table: pa.Table, sink: object) -> None:
    """Write a table as CSV, its texts guarded; see `pyarrow.csv.write_csv`."""
    pa.csv.write_csv(guarded(table), sink)


def _guarded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return column
    opens = pc.match_substring_regex(column, f"^(?:{_BEGINNING})")
    marks = pa.scalar(GUARD, column.type)
    nothing = pa.scalar("", column.type)
    joined = pc.binary_join_element_wise(pc.if_else(opens, marks, nothing), column, nothing)
    return joined if isinstance(joined, pa.ChunkedArray) else pa.chunked_array([joined])
