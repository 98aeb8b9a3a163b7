"""Summary of a release for a notebook: its promise, a picture, and its first rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hexveil.base.html_tables import html_table, paragraph
from hexveil.report.notebook.cell_picture import picture_of
from hexveil.report.notebook.svg_drawing import draw_svg, is_drawable

if TYPE_CHECKING:
    import pyarrow as pa

    from hexveil.report.manifest_view import ManifestView
    from hexveil.report.notebook.cell_picture import PlottedColumn

TABLE_KEYS = ("raw", "bound95", "quality")
"""Columns of a statistic that the rows have."""


def summarize(table: pa.Table, view: ManifestView, column: PlottedColumn) -> str:
    """Return a release as HTML that stands by itself: no script, every text escaped.

    Parameters
    ----------
    table : pyarrow.Table
        The released table.
    view : ManifestView
    column : PlottedColumn
        The column that is drawn.
    """
    cells = "1 cell" if table.num_rows == 1 else f"{table.num_rows:,} cells"
    names = ["cell", "users", *(f"{column.statistic}_{key}" for key in TABLE_KEYS)]
    return (
        paragraph(f"{cells}. {view.promise}")
        + _figure(table, view, column)
        + html_table(table.select(names))
    )


def _figure(table: pa.Table, view: ManifestView, column: PlottedColumn) -> str:
    picture = picture_of(table, view, column)
    if not is_drawable(picture):
        return paragraph(f"{picture.title}: too many hexagons for a notebook; .plot() draws them.")
    caption = picture.title
    if "slot" in table.column_names:
        n_slots = len(set(table["slot"].to_pylist()))
        if n_slots > 1:
            caption += f" (one of {n_slots} slots: .plot(slot=...))"
    return f"{paragraph(caption)}{draw_svg(picture)}"
