"""Released cells on axes of matplotlib: hexagons, labels with intervals, the histogram of one cell.

Colours and marks are those of the page. The less sure a number, the fewer and paler its colours;
noise has a cross, and a cell that is cut off a triangle towards the side on which the true number
may lie. Names and labels are drawn as they are: a dollar sign in one begins no formula.

Summary of a release for a notebook: its promise, a picture, and its first rows.
"""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from hexveil.base.arrays import Bools, Floats
from hexveil.base.arrow_tables import html_table, paragraph
from hexveil.base.errors import InputError
from hexveil.base.optional_packages import is_installed
from hexveil.model.statistic_terms import column_names
from hexveil.report.accuracy_text import CUT_OFF
from hexveil.report.figure_style import colours_of, palette
from hexveil.report.manifest_view import ManifestView
from hexveil.report.notebook.cell_picture import GRADES, NOISE, CellPicture, picture_of
from hexveil.report.payload import ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable


BAR, ENDS = "#8fb3cc", "#4a6f8a"
EMPTY, INK = "#e9ebee", "#4b535b"
DOT = "#0072B2"
EDGE, MARK = "white", "#4b535b"
SIGNS = {CUT_OFF: "^", NOISE: "x"}
MAX_MARK_AREA = 22.0
"""Of a mark, in square points; marks of small hexagons are smaller."""
MANY = 400
"""Hexagons from which on marks become smaller."""


def draw_axes(picture: CellPicture, axes: Axes | None = None) -> Axes:
    """Draw the picture on axes, new ones without any, and return them."""
    if axes is None:
        import matplotlib.pyplot as plt  # noqa: PLC0415  an extra, loaded where it draws

        axes = plt.subplots(figsize=_size(picture), layout="constrained")[1]
    if picture.outlines is None:
        _draw_intervals(picture, axes)
    else:
        _draw_hexagons(picture, axes)
    axes.set_title(picture.title, parse_math=False)
    return axes


def draw_png(picture: CellPicture) -> bytes:
    """Return the picture as a PNG file."""
    from matplotlib.figure import Figure  # noqa: PLC0415  as above

    figure, file = Figure(figsize=_size(picture), layout="constrained"), io.BytesIO()
    draw_axes(picture, figure.subplots())
    figure.savefig(file, format="png")
    return file.getvalue()


def _size(picture: CellPicture) -> tuple[float, float]:
    """Return width and height in inches: of a map, or of a row for each label."""
    return (7.0, 5.5) if picture.outlines else (7.0, 1.2 + 0.25 * len(picture.names))


def _draw_hexagons(picture: CellPicture, axes: Axes) -> None:
    from matplotlib.collections import PolyCollection  # noqa: PLC0415  as above

    if picture.others:
        others: list[Any] = list(picture.others)
        axes.add_collection(PolyCollection(others, facecolors=EMPTY, edgecolors="white"))
    add_hexagons(
        axes,
        picture.outlines or (),
        values=picture.value,
        grades=picture.quality,
        scale=picture.scale,
        lies_above=picture.lies_above,
    )
    axes.autoscale_view()
    axes.set_aspect("equal")
    axes.set_axis_off()
    assert axes.figure is not None  # noqa: S101  axes belong to a figure
    colours = colour_scale(picture.scale)
    bar = axes.figure.colorbar(colours, ax=axes, shrink=0.8, ticks=ticks(*picture.scale))
    bar.minorticks_off()
    bar.set_label(picture.label, parse_math=False)
    if entries := legend_entries(picture.quality):
        axes.legend(**entries, loc="upper left", frameon=False, fontsize="small", handlelength=3.0)


def _draw_intervals(picture: CellPicture, axes: Axes) -> None:
    # The first row is the uppermost.
    position = -np.arange(len(picture.names))
    if picture.has_intervals:
        lengths = np.maximum([picture.value - picture.low, picture.high - picture.value], 0.0)
        axes.errorbar(
            picture.value, position, xerr=lengths, fmt="none", ecolor=INK, elinewidth=1.5, capsize=3
        )
    is_noise = np.array(picture.quality) == NOISE
    axes.plot(picture.value[~is_noise], position[~is_noise], "o", color=DOT)
    # A hollow dot: its number may be anything.
    axes.plot(picture.value[is_noise], position[is_noise], "o", color=DOT, markerfacecolor="white")
    axes.set_yticks(position, picture.names, parse_math=False)
    axes.set_xlabel(picture.label, parse_math=False)
    axes.spines[["top", "right"]].set_visible(False)


def add_hexagons(
    axes: Axes,
    outlines: Sequence[Any],
    *,
    values: Floats,
    grades: Sequence[str],
    scale: tuple[float, float],
    lies_above: Bools,
) -> None:
    """Draw hexagons in the colours of their numbers, each with the mark of its grade.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
    outlines : sequence of array-like, shape (n_corners, 2)
    values : ndarray of float, shape (n_cells,)
    grades : sequence of str
    scale : tuple of float
    lies_above : ndarray of bool, shape (n_cells,)
        Whether a cell that is cut off may have a larger true number than the one shown.
    """
    from matplotlib.collections import PolyCollection  # noqa: PLC0415  an extra

    fills = colours_of(values, grades, scale)
    axes.add_collection(
        PolyCollection(list(outlines), facecolors=fills, edgecolors=EDGE, linewidths=0.6)
    )
    middle = np.array([(np.max(ring, axis=0) + np.min(ring, axis=0)) / 2 for ring in outlines])
    grade = np.array(grades)
    area = MAX_MARK_AREA * min(1.0, MANY / max(1, len(fills)))
    for sign, has_sign in (
        ("x", grade == NOISE),
        ("^", (grade == CUT_OFF) & lies_above),
        ("v", (grade == CUT_OFF) & ~lies_above),
    ):
        if has_sign.any():
            # A cross has no face.
            colours: dict[str, Any] = (
                {"c": MARK} if sign == "x" else {"facecolors": "none", "edgecolors": MARK}
            )
            axes.scatter(
                middle[has_sign, 0],
                middle[has_sign, 1],
                s=area,
                marker=sign,
                linewidths=0.8,
                zorder=3,
                **colours,
            )


def colour_scale(scale: tuple[float, float]) -> ScalarMappable:
    """Return the content of a colour bar: the classes of good cells from end to end."""
    from matplotlib.cm import ScalarMappable  # noqa: PLC0415  an extra
    from matplotlib.colors import BoundaryNorm, ListedColormap  # noqa: PLC0415

    colours = palette("light")["good"]
    classes = ListedColormap(colours)
    return ScalarMappable(BoundaryNorm(np.linspace(*scale, len(colours) + 1), classes.N), classes)


def legend_entries(grades: Sequence[str]) -> dict[str, Any]:
    """Return the entries of those grades that are present, as arguments of `legend`; or none."""
    from matplotlib.legend_handler import HandlerTuple  # noqa: PLC0415  an extra
    from matplotlib.lines import Line2D  # noqa: PLC0415
    from matplotlib.patches import Patch  # noqa: PLC0415

    present = [grade for grade in GRADES if grade in grades]
    handles, how = [], {}
    for grade in present:
        entry: tuple[Any, ...] = tuple(
            Patch(facecolor=colour) for colour in palette("light")[grade]
        )
        if grade in SIGNS:
            sign = Line2D([], [], color=MARK, marker=SIGNS[grade], markersize=4.5, linestyle="none")
            sign.set_markerfacecolor("none")
            entry = (*entry, sign)
        # Colours stand side by side, and the triangle beside them; the cross lies on its colour.
        how[entry] = HandlerTuple(ndivide=1 if grade == NOISE else None, pad=0)
        handles.append(entry)
    return {"handles": handles, "labels": present, "handler_map": how} if present else {}


def draw_histogram(
    table: pa.Table, view: ManifestView, cell: str, axes: Axes | None = None
) -> Axes:
    """Draw the shares of the bins of a cell on axes, new ones without any, and return them.

    Parameters
    ----------
    table : pyarrow.Table
        The released table.
    view : ManifestView
    cell : str
        As in the column `cell`.
    axes : matplotlib.axes.Axes, optional

    Raises
    ------
    InputError
        If the release has no histogram or no such cell, or publishes nothing for the cell.
    """
    names = [] if view.histogram is None else column_names(view.histogram)
    if not names or f"{names[0]}_low" not in table.column_names:
        raise InputError('this release has no histogram; ask for "histogram" in its statistics.')
    cells = table["cell"].to_pylist()
    if cell not in cells:
        raise InputError(f"this release has no cell {cell!r}; name one such as {cells[0]!r}.")
    row = table.slice(cells.index(cell), 1)
    # Estimates have a name of their own where values alone are private.
    own = "" if names[0] in table.column_names else "_estimate"
    share, low, high = (
        np.array([row[f"{name}{end}"][0].as_py() for name in names], dtype=np.float64)
        for end in (own, "_low", "_high")
    )
    if np.isnan(share).any():
        raise InputError(f"the cell {cell!r} is closed: nothing is published for it.")
    ends = np.array([replace(view, shown=name).bin_ends for name in names], dtype=np.float64)
    widths, middles = ends[:, 1] - ends[:, 0], ends.mean(axis=1)
    if axes is None:
        import matplotlib.pyplot as plt  # noqa: PLC0415  an extra, loaded where it draws

        axes = plt.subplots(figsize=(7.0, 4.0), layout="constrained")[1]
    axes.bar(middles, share, 0.9 * widths, color=BAR, label="released")
    around = np.maximum([share - low, high - share], 0.0)
    axes.errorbar(middles, share, around, fmt="none", ecolor=ENDS, label="95% interval")
    axes.set(xlim=(ends[0, 0], ends[-1, 1]), ylim=(0.0, None))
    label = f"{view.value}, {view.value_unit}" if view.value_unit else view.value
    axes.set_xlabel(label, parse_math=False)
    axes.set_ylabel("Share of records")
    axes.set_title(cell, parse_math=False)
    return axes


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
