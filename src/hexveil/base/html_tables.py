"""Tables as HTML for notebooks: the first rows, every text escaped, no script and no style sheet.

Names and labels come from records or from a stranger's folder: none may become markup.
"""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

MAX_ROWS = 20
"""Rows that a notebook shows."""
MAX_LETTERS = 80
"""Letters of a text that it shows."""


def html_table(table: pa.Table, titles: Mapping[str, str] | None = None) -> str:
    """Return the first rows of an Arrow table as an HTML table, with a line if there are more.

    Parameters
    ----------
    table : pyarrow.Table
    titles : mapping of str to str, optional
        Headings by column; default the name of the column.
    """
    titles = titles or {}
    head = "".join(f"<th>{_text(titles.get(name, name))}</th>" for name in table.column_names)
    rows = table.slice(0, MAX_ROWS).to_pylist()
    body = "".join(
        "<tr>" + "".join(f"<td>{_text(value)}</td>" for value in row.values()) + "</tr>"
        for row in rows
    )
    shown = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    if table.num_rows > MAX_ROWS:
        shown += f"<p>The first {MAX_ROWS} of {table.num_rows:,} rows.</p>"
    return shown


def paragraph(text: str) -> str:
    """Return text as a paragraph.

    Examples
    --------
    >>> paragraph("a < b")
    '<p>a &lt; b</p>'
    """
    return f"<p>{html.escape(text)}</p>"


def _text(value: object) -> str:
    """Return a value as escaped text: four significant digits, nothing for a missing one."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else ""
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return html.escape(text if len(text) <= MAX_LETTERS else f"{text[:MAX_LETTERS]}...")
