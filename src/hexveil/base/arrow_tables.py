"""Arrow tables: numbers to and from numpy, text that spreadsheets and notebooks show and never run.

Numbers go by their buffers: pyarrow's own conversions load pandas first, which takes a third of a
second of every command, wherever pandas happens to be installed.

A spreadsheet treats a text that begins with `=`, `+`, `-`, `@`, a tab or a line break as a formula
or a command, and the labels come from others. An apostrophe in front keeps it a text; numbers are
unchanged. A text that already begins with apostrophes gets one more, so that the escaping is
injective: removing one apostrophe restores the text.

In HTML every text is escaped, and there is no script and no style sheet: names and labels come from
records or from a stranger's folder, and none may become markup.
"""

import html
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

_FORMULA_START = "'*[=+@\t\r\n\uff1d\uff0b\uff0d\uff20-]"
APOSTROPHE = "'"
MAX_ROWS = 20
"""Rows that a notebook shows."""
MAX_LETTERS = 80
"""Letters of a text that it shows."""


def to_numpy(column: pa.Array | pa.ChunkedArray) -> NDArray[Any]:
    """Return the numbers of a column, shape (n,); read-only and not copied if it is one array.

    Columns with nulls, or of other types, are converted by pyarrow.

    Examples
    --------
    >>> to_numpy(pa.chunked_array([[1, 2], [3]])).tolist()
    [1, 2, 3]
    """
    if column.null_count or not _is_number(column.type):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    if len(chunks) == 1:
        return _view(chunks[0])
    return np.concatenate([_view(pa.array([], column.type)), *map(_view, chunks)])


def to_arrow(numbers: NDArray[Any]) -> pa.Array:
    """Return an array of numbers as Arrow's, without a copy if they are contiguous.

    Examples
    --------
    >>> to_arrow(np.array([1, 2])).to_pylist()
    [1, 2]
    """
    kind = pa.from_numpy_dtype(numbers.dtype)
    if not _is_number(kind):
        return pa.array(numbers)
    buffer = pa.py_buffer(np.ascontiguousarray(numbers))
    return pa.Array.from_buffers(kind, len(numbers), [None, buffer])


def to_table(columns: Mapping[str, Any]) -> pa.Table:
    """Return a table of numpy arrays and Arrow columns."""
    arrays = {n: to_arrow(c) if isinstance(c, np.ndarray) else c for n, c in columns.items()}
    return pa.table(arrays)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_float32(kind) or pa.types.is_float64(kind))


def _view(array: pa.Array) -> NDArray[Any]:
    dtype = np.dtype(array.type.to_pandas_dtype())
    data = array.buffers()[1]
    if data is None or not len(array):
        return np.zeros(0, dtype=dtype)
    return np.frombuffer(data, dtype, count=len(array), offset=array.offset * dtype.itemsize)


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


def write_csv(table: pa.Table, sink: object) -> None:
    """Write a table as CSV, its texts escaped; see `pyarrow.csv.write_csv`."""
    pyarrow.csv.write_csv(escape_formulas(table), sink)


def _escape_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return column
    return pc.replace_substring_regex(column, f"^({_FORMULA_START})", rf"{APOSTROPHE}\1")


def html_table(table: pa.Table, titles: Mapping[str, str] | None = None) -> str:
    """Return the first rows of an Arrow table as an HTML table, with a line if there are more.

    Parameters
    ----------
    table : pyarrow.Table
    titles : mapping of str to str, optional
        Headings by column; default the name of the column.
    """
    titles = titles or {}
    head = "".join(f"<th>{_cell_text(titles.get(name, name))}</th>" for name in table.column_names)
    rows = table.slice(0, MAX_ROWS).to_pylist()
    body = "".join(
        "<tr>" + "".join(f"<td>{_cell_text(value)}</td>" for value in row.values()) + "</tr>"
        for row in rows
    )
    markup = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    if table.num_rows > MAX_ROWS:
        markup += f"<p>The first {MAX_ROWS} of {table.num_rows:,} rows.</p>"
    return markup


def paragraph(text: str) -> str:
    """Return text as a paragraph.

    Examples
    --------
    >>> paragraph("a < b")
    '<p>a &lt; b</p>'
    """
    return f"<p>{html.escape(text)}</p>"


def _cell_text(value: object) -> str:
    """Return a value as escaped text: four significant digits, nothing for a missing one."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else ""
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return html.escape(text if len(text) <= MAX_LETTERS else f"{text[:MAX_LETTERS]}...")
