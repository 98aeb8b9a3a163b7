"""Summary of a release for a notebook: its promise, a picture, and its first rows."""

from __future__ import annotations

import base64
import html

import pyarrow as pa

from hexveil.base.html_tables import html_table, paragraph
from hexveil.base.optional_packages import is_installed
from hexveil.report.manifest_view import ManifestView
from hexveil.report.notebook.axes_drawing import draw_png
from hexveil.report.notebook.cell_picture import picture_of

PRESENCE_COLUMNS = (
    *("cell", "is_open", "mean", "mean_low", "mean_high", "weight"),
    *("users", "users_low", "users_high", "quality"),
)
"""Columns of a release with private presence that a notebook shows."""
MAX_HEXAGONS = 2_000
"""Hexagons of a map: more would make a notebook's file large."""


def summarize(table: pa.Table, view: ManifestView, column: str) -> str:
    """Return a release as HTML that stands by itself: no script, every text escaped.

    Parameters
    ----------
    table : pyarrow.Table
        The released table; open cells come first.
    view : ManifestView
    column : str
        The column that is drawn.
    """
    cells = "1 cell" if table.num_rows == 1 else f"{table.num_rows:,} cells"
    is_drawn, rows = True, table
    if "is_open" in table.column_names:
        n_open = sum(table["is_open"].to_pylist())
        cells += f", {n_open:,} open"
        rows = table.sort_by([("is_open", "descending")])
        # Labels without an open cell leave nothing to draw.
        is_drawn = "hexagon" in table.column_names or n_open > 0
    return (
        paragraph(f"{cells}. {view.promise}")
        + (_figure(table, view, column) if is_drawn else "")
        + html_table(rows.select(_columns(table, view)))
    )


def _columns(table: pa.Table, view: ManifestView) -> list[str]:
    """Return the columns that the first rows have."""
    names, plan = table.column_names, view.manifest["plan"]
    if "is_open" in names:
        if "bins" in plan:
            return ["cell", "is_open", *plan["columns"]]
        return [name for name in PRESENCE_COLUMNS if name in names]
    # The interval in the table is that of the best number: see ManifestView.estimator.
    columns = [f"{view.statistic}_{key}" for key in ("estimate", "smoothed", "raw")]
    best = next(name for name in columns if name in names)
    ends = (f"{view.statistic}_{key}" for key in ("low", "high", "quality"))
    return ["cell", "users", best, *ends]


def _figure(table: pa.Table, view: ManifestView, column: str) -> str:
    # Counted before any outline is computed: a notebook shows a large release at once.
    if "hexagon" in table.column_names and len(table["hexagon"].unique()) > MAX_HEXAGONS:
        return paragraph("Too many hexagons for a notebook: .plot() draws them.")
    if not is_installed("matplotlib"):
        return paragraph('A picture needs matplotlib: pip install "hexveil[plots]"')
    picture = picture_of(table, view, column)
    image = base64.b64encode(draw_png(picture)).decode()
    n_slots = len(table["slot"].unique()) if "slot" in table.column_names else 1
    return (
        f'<img src="data:image/png;base64,{image}" alt="{html.escape(picture.title)}">'
        + paragraph(f"One of {n_slots} slots: .plot(slot=...)") * (n_slots > 1)
    )
