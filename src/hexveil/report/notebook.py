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
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from hexveil.base.arrays import Bools, Floats, Ints
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


def draw_cells(
    table: pa.Table,
    view: ManifestView,
    name: str,
    *,
    slot: str | None = None,
    axes: Axes | None = None,
) -> Axes:
    """Draw a column in a slot on axes, new ones without any, and return them.

    Parameters
    ----------
    table : pyarrow.Table
        The released table, without outlines.
    view : ManifestView
    name : str
        Of a column of numbers.
    slot : str, optional
        As in the column `slot`; default the one with the most records, or the most open cells.
    axes : matplotlib.axes.Axes, optional

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
    value, is_mapped = numbers_of(table, name), "hexagon" in table.column_names
    has_records, has_number = "records" in table.column_names, ~np.isnan(value)
    weights = numbers_of(table, "records") if has_records else has_number.astype(np.float64)
    rows, when = _rows_of(table, slot, weights)
    drawn = rows[has_number[rows]]
    title = (view.heading if statistic else name.replace("_", " ").capitalize()) + when
    if closed := rows.size - drawn.size:
        grey = ": grey" if is_mapped else ""
        title += f" ({closed:,} {'cell' if closed == 1 else 'cells'} closed{grey})"
    if not is_mapped:
        if drawn.size > MAX_BARS:
            unit = "records" if has_records else "units" if name == "users" else name
            title += f" ({MAX_BARS} of {drawn.size:,} cells, those with most {unit})"
        # Stable, so that equal input gives an equal picture; the largest numbers come first.
        largest = np.argsort(-(weights if has_records else value)[drawn], kind="stable")[:MAX_BARS]
        drawn = drawn[np.sort(largest)]
        drawn = drawn[np.argsort(-value[drawn], kind="stable")]
    if axes is None:
        import matplotlib.pyplot as plt  # noqa: PLC0415  an extra, loaded where it draws

        axes = plt.subplots(figsize=_size(table, drawn), layout="constrained")[1]
    low, high, grades = _intervals(table, view, name, statistic)
    # A cell without an interval has its number alone.
    low, high = (np.where(np.isnan(end), value, end)[drawn] for end in (low, high))
    label = f"{name} ({view.unit_text})" if statistic and view.unit_text else name
    if is_mapped:
        # The scale of all slots: equal colours mean equal numbers in each of them.
        scale = colour_ends(value, grades)
        lies_above = high - value[drawn] >= value[drawn] - low
        _draw_hexagons(axes, table, drawn, (value, grades, scale), lies_above, label)
    else:
        names, is_noise = view.cell_names(table), np.array(grades)[drawn] == "noise"
        _draw_intervals(axes, [names[row] for row in drawn], (value[drawn], low, high), is_noise)
        axes.set_xlabel(label, parse_math=False)
    axes.set_title(title, parse_math=False)
    return axes


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
    ending = name.removeprefix(statistic)
    is_number = bool(statistic) and ending in _NUMBERS
    grades = view.grades(table) if is_number else ["good"] * table.num_rows
    if is_number and ending == "_raw":
        # Where estimates were smoothed, the ends in the table are not about the raw number.
        return *view.bound_limits(table), grades
    has_own = f"{name}_low" in table.column_names
    prefix = name if has_own else statistic if is_number and ending in _NUMBERS[:2] else ""
    ends = (f"{prefix}{end}" if prefix else name for end in ("_low", "_high"))
    low, high = (numbers_of(table, end) for end in ends)
    return low, high, grades


def _size(table: pa.Table, drawn: Ints) -> tuple[float, float]:
    """Return width and height in inches: of a map, or of a row for each label."""
    return (7.0, 5.5) if "hexagon" in table.column_names else (7.0, 1.2 + 0.25 * drawn.size)


def _draw_hexagons(
    axes: Axes,
    table: pa.Table,
    drawn: Ints,
    numbers: tuple[Floats, Sequence[str], tuple[float, float]],
    lies_above: Bools,
    label: str,
) -> None:
    """Draw the hexagons of some rows by their numbers, grades and scale; all others are grey."""
    from matplotlib.collections import PolyCollection  # noqa: PLC0415  as above

    value, grades, scale = numbers
    names = table["hexagon"].to_pylist()
    # Outlines of all hexagons: a projection of some would move the others.
    distinct = list(dict.fromkeys(names))
    projection, rings = projected_rings(distinct)
    corners = (np.multiply(ring, projection.unit, dtype=np.float64) for ring in rings)
    outlines = dict(zip(distinct, corners, strict=True))
    hexagons = [outlines.pop(names[row]) for row in drawn]
    axes.add_collection(PolyCollection([*outlines.values()], facecolors=EMPTY, edgecolors="white"))
    shown_grades = [grades[row] for row in drawn]
    add_hexagons(
        axes, hexagons, values=value[drawn], grades=shown_grades, scale=scale, lies_above=lies_above
    )
    axes.autoscale_view()
    axes.set_aspect("equal")
    axes.set_axis_off()
    assert axes.figure is not None  # noqa: S101  axes belong to a figure
    bar = axes.figure.colorbar(colour_scale(scale), ax=axes, shrink=0.8, ticks=ticks(*scale))
    bar.minorticks_off()
    bar.set_label(label, parse_math=False)
    if entries := legend_entries(shown_grades):
        axes.legend(**entries, loc="upper left", frameon=False, fontsize="small", handlelength=3.0)


def _draw_intervals(
    axes: Axes, names: list[str], numbers: tuple[Floats, Floats, Floats], is_noise: Bools
) -> None:
    # The first row is the uppermost.
    (value, low, high), position = numbers, -np.arange(len(names))
    lengths = np.maximum([value - low, high - value], 0.0)
    if lengths.any():
        axes.errorbar(
            value, position, xerr=lengths, fmt="none", ecolor=INK, elinewidth=1.5, capsize=3
        )
    axes.plot(value[~is_noise], position[~is_noise], "o", color=DOT)
    # A hollow dot: its number may be anything.
    axes.plot(value[is_noise], position[is_noise], "o", color=DOT, markerfacecolor="white")
    axes.set_yticks(position, names, parse_math=False)
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

    file, figure = io.BytesIO(), Figure(layout="constrained")
    axes = draw_cells(table, view, column, axes=figure.subplots())
    figure.set_size_inches(_size(table, np.array(axes.get_yticks())))
    figure.savefig(file, format="png")
    image = base64.b64encode(file.getvalue()).decode()
    n_slots = len(table["slot"].unique()) if "slot" in table.column_names else 1
    return (
        f'<img src="data:image/png;base64,{image}" alt="{html.escape(axes.get_title())}">'
        + paragraph(f"One of {n_slots} slots: .plot(slot=...)") * (n_slots > 1)
    )
