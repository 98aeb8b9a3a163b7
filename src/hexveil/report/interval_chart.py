"""Chart in place of the map, for labels: a dot and its interval for each of a few cells."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from hexveil.base.arrays import Floats
from hexveil.report.accuracy_text import describe_known_end
from hexveil.report.cell_differences import unknown_ends
from hexveil.report.manifest_view import ManifestView

MAX_CELLS = 40


@dataclass(frozen=True)
class Bar:
    """A cell of the chart: its name, number and interval in words, and positions in per cent."""

    name: str
    said: str
    quality: str
    dot: float
    start: float
    width: float


@dataclass(frozen=True)
class Chart:
    """The bars, largest value first, and the two ends of the axis as text."""

    bars: tuple[Bar, ...]
    low: str
    high: str


def interval_chart(table: pa.Table, view: ManifestView) -> Chart | None:
    """Return the chart of cells with a number; None for hexagons, none, or too many to draw."""
    value, (low, high) = view.shown_numbers(table), view.shown_limits(table)
    rows = np.flatnonzero(np.isfinite(value))
    # More bars than that are no overview any more: the table has them all.
    if "hexagon" in table.column_names or not 1 <= rows.size <= MAX_CELLS:
        return None
    grades, said = view.grades(table), _describe_known_ends(table, view)
    names = view.cell_names(table)
    return draw_bars(
        [names[row] for row in rows],
        (value[rows], low[rows], high[rows]),
        [grades[row] for row in rows],
        view.amount,
        view.interval,
        {number: said[row] for number, row in enumerate(rows.tolist()) if row in said},
    )


def _describe_known_ends(table: pa.Table, view: ManifestView) -> dict[int, str]:
    """Return the words for each cell that a range cut off, by its row."""
    unknown, (low, high) = unknown_ends(table, view), view.shown_limits(table)
    return {
        int(row): describe_known_end(
            view.interval(float(low[row]), float(high[row])),
            (bool(unknown[0][row]), bool(unknown[1][row])),
        )
        for row in np.flatnonzero(unknown[0] | unknown[1])
    }


def draw_bars(
    names: Sequence[str],
    numbers: tuple[Floats, Floats, Floats],
    qualities: Sequence[object],
    amount: Callable[[float], str],
    interval: Callable[[float, float], tuple[str, str]],
    said: Mapping[int, str] | None = None,
) -> Chart:
    """Return the chart of some cells, largest number first.

    Parameters
    ----------
    names : sequence of str
    numbers : tuple of ndarray of float, shape (n_cells,) each
        Number, lower and upper end of each cell.
    qualities : sequence
    amount, interval : callable
        Texts of a number and of the ends of an interval.
    said : mapping of int to str, optional
        By row, what is known of a cell without an interval.
    """
    value, low, high = numbers
    axis_start, axis_end = float(min(low.min(), value.min())), float(max(high.max(), value.max()))
    # A single constant has an axis without length.
    width = (axis_end - axis_start) or 1.0
    bars = tuple(
        Bar(
            name=names[i],
            said=(said or {}).get(int(i))
            or "{}, {} to {}".format(
                amount(float(value[i])), *interval(float(low[i]), float(high[i]))
            ),
            quality=str(qualities[i]),
            dot=_percent(value[i] - axis_start, width),
            start=_percent(low[i] - axis_start, width),
            width=_percent(high[i] - low[i], width),
        )
        # Stable, so that equal input gives an equal page.
        for i in np.argsort(-value, kind="stable")
    )
    return Chart(bars, amount(axis_start), amount(axis_end))


def _percent(length: float, width: float) -> float:
    return round(100.0 * float(length) / width, 2)
