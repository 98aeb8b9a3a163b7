"""CSV that spreadsheets open as text and numbers, never as formulas.

A spreadsheet treats a text that begins with `=`, `+`, `-`, `@`, a tab or a line break as a formula
or a command, and the labels come from others. An apostrophe in front keeps it a text; numbers are
unchanged. A text that already begins with apostrophes gets one more, so that the escaping is
injective: removing one apostrophe restores the text.
"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

_FORMULA_START = "'*[=+@\t\r\n\uff1d\uff0b\uff0d\uff20-]"
APOSTROPHE = "'"


def escape_formulas(table: pa.Table) -> pa.Table:
    """Escape the texts and column names of a table that a spreadsheet would run.

    Examples
    --------
    >>> table = pa.table({"ward": ["=1+1", "-", "'=", "north"], "n": [-1, 2, 3, 4]})
    >>> escape_formulas(table).to_pydict()
    {'ward': ["'=1+1", "'-", "''=", 'north'], 'n': [-1, 2, 3, 4]}
    """
    columns = [_escape_column(table[i]) for i in range(table.num_columns)]
    return pa.table(columns, names=[escape_formula(name) for name in table.column_names])


def escape_formula(text: str) -> str:
    """Escape a text that a spreadsheet would run as a formula.

    Examples
    --------
    >>> escape_formula("=1+1"), escape_formula("1=1")
    ("'=1+1", '1=1')
    """
    return APOSTROPHE + text if re.match(_FORMULA_START, text) else text


def write(table: pa.Table, sink: object) -> None:
    """Write a table as CSV, its texts escaped; see `pyarrow.csv.write_csv`."""
    pa.csv.write_csv(escape_formulas(table), sink)


def _escape_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return column
    needs_escape = pc.match_substring_regex(column, f"^(?:{_FORMULA_START})")
    apostrophe = pa.scalar(APOSTROPHE, column.type)
    empty = pa.scalar("", column.type)
    prefix = pc.if_else(needs_escape, apostrophe, empty)
    joined = pc.binary_join_element_wise(prefix, column, empty)
    # Of a column with a single chunk the kernel returns a plain array.
    return joined if isinstance(joined, pa.ChunkedArray) else pa.chunked_array([joined])
