"""Summary of a release for a notebook: its promise, a picture, and its first rows."""

from __future__ import annotations

import base64
import html
from typing import TYPE_CHECKING

from hexveil.base.html_tables import html_table, paragraph
from hexveil.base.optional_packages import is_installed
from hexveil.report.notebook.cell_picture import picture_of
from hexveil.report.notebook.matplotlib_drawing import draw_png
from hexveil.report.notebook.presence_picture import presence_picture

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from hexveil.report.manifest_view import ManifestView
    from hexveil.report.notebook.cell_picture import CellPicture, PlottedColumn

INTERVAL = ("low", "high", "quality")
"""Columns of a statistic that the rows have beside its number."""
PRESENCE_COLUMNS = (
    *("cell", "is_open", "mean", "mean_low", "mean_high", "weight"),
    *("users", "users_low", "users_high", "quality"),
)
"""Columns of a release with private presence that a notebook shows."""
MAX_HEXAGONS = 2_000
"""Hexagons of a map: more would make a notebook's file large."""


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
    # The interval in the table is that of the best number: see ManifestView.estimator.
    keys = ("estimate", "smoothed", "raw")
    best = next(key for key in keys if f"{column.statistic}_{key}" in table.column_names)
    names = ["cell", "users", *(f"{column.statistic}_{key}" for key in (best, *INTERVAL))]
    return (
        paragraph(f"{cells}. {view.promise}")
        + _figure(table, view, column)
        + html_table(table.select(names))
    )


def summarize_presence(table: pa.Table, view: ManifestView, column: str) -> str:
    """Return a release with private presence as HTML: its promise, a picture, open cells first."""
    n_open = sum(table["is_open"].to_pylist())
    cells = "1 cell" if table.num_rows == 1 else f"{table.num_rows:,} cells"
    names = [name for name in PRESENCE_COLUMNS if name in table.column_names]
    plan = view.manifest["plan"]
    if "bins" in plan:
        names = ["cell", "is_open", *plan["columns"]]
    # Labels without an open cell leave nothing to draw.
    has_picture = "hexagon" in table.column_names or n_open > 0
    figure = _framed(table, lambda: presence_picture(table, view, column)) if has_picture else ""
    return (
        paragraph(f"{cells}, {n_open:,} open. {view.promise}")
        + figure
        + html_table(table.sort_by([("is_open", "descending")]).select(names))
    )


def _figure(table: pa.Table, view: ManifestView, column: PlottedColumn) -> str:
    return _framed(table, lambda: picture_of(table, view, column))


def _framed(table: pa.Table, draw: Callable[[], CellPicture]) -> str:
    # Counted before any outline is computed: a notebook shows a large release at once.
    if "hexagon" in table.column_names and len(table["hexagon"].unique()) > MAX_HEXAGONS:
        return paragraph("Too many hexagons for a notebook: .plot() draws them.")
    if not is_installed("matplotlib"):
        return paragraph('A picture needs matplotlib: pip install "hexveil[plots]"')
    picture = draw()
    image = base64.b64encode(draw_png(picture)).decode()
    n_slots = len(table["slot"].unique()) if "slot" in table.column_names else 1
    return (
        f'<img src="data:image/png;base64,{image}" alt="{html.escape(picture.title)}">'
        + paragraph(f"One of {n_slots} slots: .plot(slot=...)") * (n_slots > 1)
    )
