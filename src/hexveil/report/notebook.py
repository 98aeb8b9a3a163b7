"""Released cells on axes of matplotlib, and the summary of a release for a notebook.

Hexagons are outlines on one projection and one colour scale for all slots, so that pictures of two
slots can be compared; labels are dots with intervals. Colours and marks are those of the page. The
less sure a number, the fewer and paler its colours; noise has a cross, and a cell that is cut off a
triangle towards the side on which the true number may lie. Names and labels are drawn as they are:
a dollar sign in one begins no formula.
"""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from hexveil.base.arrays import Floats, Ints
from hexveil.base.arrow_tables import html_table, paragraph
from hexveil.base.errors import InputError, suggest
from hexveil.base.optional_packages import is_installed
from hexveil.report.figure_style import INK, add_hexagons, colour_scale, legend_entries
from hexveil.report.geography.background import projected_rings
from hexveil.report.manifest_view import RANGE, ManifestView, column_prefixes, numbers_of
from hexveil.report.payload import colour_ends, slot_text, ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes


MAX_BARS = 40
"""Cells of labels that a picture has; with more, those with the most records are shown."""
MAX_HEXAGONS = 2_000
"""Hexagons of a notebook's map: more would make its file large."""
_NUMBERS = ("_estimate", "_smoothed", "_raw", "_noisy", "")
"""Endings of the columns that estimate a statistic; the first two have its interval."""
EMPTY, DOT = "#e9ebee", "#0072B2"


@dataclass(frozen=True, eq=False)
class CellPicture:
    """Cells of one slot with a number each, as they are drawn.

    Attributes
    ----------
    title, label : str
        Title of the picture; name of the number with its unit of measure.
    names : tuple of str
        Hexagon or labels of each cell.
    value : ndarray of float, shape (n_cells,)
    low, high : ndarray of float, shape (n_cells,)
        Ends of the intervals; the value itself where the column has none.
    quality : tuple of str
        Grade of each cell: "good", "caution", "cut off" or "noise".
    scale : tuple of float
        Ends of the colour scale.
    outlines : list of ndarray of float, shape (n_corners, 2), or None
        Corners of each cell in metres east and north of the map's middle; None for labels.
    others : list of ndarray of float
        Outlines of hexagons without a number: those that the release has in other slots alone, or
        closed ones.
    """

    title: str
    label: str
    names: tuple[str, ...]
    value: Floats
    low: Floats
    high: Floats
    quality: tuple[str, ...]
    scale: tuple[float, float]
    outlines: list[Floats] | None = None
    others: Sequence[Floats] = ()


def picture_of(
    table: pa.Table, view: ManifestView, name: str, slot: str | None = None
) -> CellPicture:
    """Return the picture of a column in a slot.

    Parameters
    ----------
    table : pyarrow.Table
        The released table, without outlines.
    view : ManifestView
    name : str
        Of a column of numbers.
    slot : str, optional
        As in the column `slot`; default the one with the most records, or the most open cells.

    Raises
    ------
    InputError
        If the column has no numbers, or the release does not have the slot.
    """
    kind = table.schema.field(name).type
    if not (pa.types.is_floating(kind) or pa.types.is_integer(kind)):
        raise InputError(
            f"plot draws numbers, and the column {name!r} has none; name a statistic, such as "
            f"{view.statistic!r}."
        )
    prefixes = (*column_prefixes(view.statistics), *RANGE)
    statistic = next((p for p in prefixes if name == p or name.startswith(f"{p}_")), "")
    view = replace(view, shown=statistic) if statistic else view
    value = numbers_of(table, name)
    low, high, grades = _intervals(table, view, name, statistic)
    has_number = ~np.isnan(value)
    counts = "records" if "records" in table.column_names else ""
    weights = numbers_of(table, counts) if counts else has_number.astype(np.float64)
    rows, when = _rows_of(table, slot, weights)
    drawn = rows[has_number[rows]]
    is_mapped = "hexagon" in table.column_names
    title = (view.heading if statistic else name.replace("_", " ").capitalize()) + when
    if closed := rows.size - drawn.size:
        grey = ": grey" if is_mapped else ""
        title += f" ({closed:,} {'cell' if closed == 1 else 'cells'} closed{grey})"
    if not is_mapped:
        unit = counts or ("units" if name == "users" else name)
        if drawn.size > MAX_BARS:
            title += f" ({MAX_BARS} of {drawn.size:,} cells, those with most {unit})"
        # Stable, so that equal input gives an equal picture; the largest numbers come first.
        largest = np.argsort(-(weights if counts else value)[drawn], kind="stable")[:MAX_BARS]
        drawn = drawn[np.sort(largest)]
        drawn = drawn[np.argsort(-value[drawn], kind="stable")]
    names = view.cell_names(table)
    outlines = _outlines_of(table) if is_mapped else None
    present = {table["hexagon"][row].as_py(): None for row in drawn} if is_mapped else {}
    return CellPicture(
        title=title,
        label=f"{name} ({view.unit_text})" if statistic and view.unit_text else name,
        names=tuple(names[row] for row in drawn),
        value=value[drawn],
        low=np.where(np.isnan(low), value, low)[drawn],
        high=np.where(np.isnan(high), value, high)[drawn],
        quality=tuple(grades[row] for row in drawn),
        # Of all slots: equal colours mean equal numbers in each of them.
        scale=colour_ends(value, grades),
        outlines=None if outlines is None else [outlines[name] for name in present],
        others=[ring for name, ring in (outlines or {}).items() if name not in present],
    )


def _rows_of(table: pa.Table, slot: str | None, weights: Floats) -> tuple[Ints, str]:
    """Return the rows of a slot, and its name: the one with the largest sum of weights by default.

    All rows without slots; InputError if the release does not have this one.
    """
    if "slot" not in table.column_names:
        if slot is not None:
            raise InputError("the release has no timeslots; leave slot out.")
        return np.arange(table.num_rows), ""
    names, position = np.unique(np.array(table["slot"].to_pylist()), return_inverse=True)
    slot = str(names[np.argmax(np.bincount(position, weights))]) if slot is None else slot
    if slot not in names:
        raise InputError(f"the release has no slot {slot!r}; {suggest(str(slot), names.tolist())}")
    rows = np.flatnonzero(names[position] == slot)
    end = table["slot_end"][rows[0]].as_py() if "slot_end" in table.column_names else ""
    return rows, f", {slot_text(slot, str(end))}"


def _intervals(
    table: pa.Table, view: ManifestView, name: str, statistic: str
) -> tuple[Floats, Floats, list[str]]:
    """Return the intervals and grades of a column; it is "good" where it estimates nothing."""
    prefix, is_number = statistic, statistic and name.removeprefix(statistic) in _NUMBERS
    if f"{name}_low" in table.column_names:
        prefix = name
    if statistic and name == f"{statistic}_raw":
        # Where estimates were smoothed, the ends in the table are not about the raw number.
        low, high = view.bound_limits(table)
    elif prefix == name or name.removeprefix(statistic) in _NUMBERS[:2]:
        low, high = numbers_of(table, f"{prefix}_low"), numbers_of(table, f"{prefix}_high")
    else:
        low = high = numbers_of(table, name)
    return low, high, view.grades(table) if is_number else ["good"] * table.num_rows


def _outlines_of(table: pa.Table) -> dict[str, Floats]:
    """Return the outlines of all hexagons: a projection of some would move the others."""
    names = list(dict.fromkeys(table["hexagon"].to_pylist()))
    projection, rings = projected_rings(names)
    corners = (np.multiply(ring, projection.unit, dtype=np.float64) for ring in rings)
    return dict(zip(names, corners, strict=True))


def draw_axes(picture: CellPicture, axes: Axes | None = None) -> Axes:
    """Draw the picture on axes, new ones without any, and return them."""
    axes = axes or _new_axes(_size(picture))
    if picture.outlines is None:
        _draw_intervals(picture, axes)
    else:
        _draw_hexagons(picture, picture.outlines, axes)
    axes.set_title(picture.title, parse_math=False)
    return axes


def _new_axes(size: tuple[float, float]) -> Axes:
    import matplotlib.pyplot as plt  # noqa: PLC0415  an extra, loaded where it draws

    axes: Axes = plt.subplots(figsize=size, layout="constrained")[1]
    return axes


def _size(picture: CellPicture) -> tuple[float, float]:
    """Return width and height in inches: of a map, or of a row for each label."""
    return (7.0, 5.5) if picture.outlines else (7.0, 1.2 + 0.25 * len(picture.names))


def _draw_hexagons(picture: CellPicture, outlines: list[Floats], axes: Axes) -> None:
    from matplotlib.collections import PolyCollection  # noqa: PLC0415  as above

    axes.add_collection(PolyCollection(list(picture.others), facecolors=EMPTY, edgecolors="white"))
    add_hexagons(
        axes,
        outlines,
        values=picture.value,
        grades=picture.quality,
        scale=picture.scale,
        lies_above=picture.high - picture.value >= picture.value - picture.low,
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
    value, position = picture.value, -np.arange(len(picture.names))
    lengths = np.maximum([value - picture.low, picture.high - value], 0.0)
    if lengths.any():
        axes.errorbar(
            value, position, xerr=lengths, fmt="none", ecolor=INK, elinewidth=1.5, capsize=3
        )
    is_noise = np.array(picture.quality) == "noise"
    axes.plot(value[~is_noise], position[~is_noise], "o", color=DOT)
    # A hollow dot: its number may be anything.
    axes.plot(value[is_noise], position[is_noise], "o", color=DOT, markerfacecolor="white")
    axes.set_yticks(position, picture.names, parse_math=False)
    axes.set_xlabel(picture.label, parse_math=False)
    axes.spines[["top", "right"]].set_visible(False)


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
    """Return the columns that the first rows have: those of the number shown, and of units."""
    statistic, key = view.statistic, view.estimator(table)
    shown = f"{statistic}_{key}" if key else statistic
    numbers = (f"{statistic}_low", f"{statistic}_high", f"{statistic}_quality")
    names = ("cell", "is_open", shown, *numbers, "weight", "users", "quality")
    return [name for name in names if name in table.column_names]


def _figure(table: pa.Table, view: ManifestView, column: str) -> str:
    # Counted before any outline is computed: a notebook shows a large release at once.
    if "hexagon" in table.column_names and len(table["hexagon"].unique()) > MAX_HEXAGONS:
        return paragraph("Too many hexagons for a notebook: .plot() draws them.")
    if not is_installed("matplotlib"):
        return paragraph('A picture needs matplotlib: pip install "hexveil[plots]"')
    from matplotlib.figure import Figure  # noqa: PLC0415  an extra

    picture, file = picture_of(table, view, column), io.BytesIO()
    figure = Figure(figsize=_size(picture), layout="constrained")
    draw_axes(picture, figure.subplots())
    figure.savefig(file, format="png")
    image = base64.b64encode(file.getvalue()).decode()
    n_slots = len(table["slot"].unique()) if "slot" in table.column_names else 1
    return (
        f'<img src="data:image/png;base64,{image}" alt="{html.escape(picture.title)}">'
        + paragraph(f"One of {n_slots} slots: .plot(slot=...)") * (n_slots > 1)
    )
