"""Chart in place of the map, for labels: a dot and its interval for each of a few cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

    from hexveil.report.manifest_view import ManifestView

MAX_CELLS = 40


@dataclass(frozen=True)
class Bar:
    """A cell of the chart: its name, its number and interval, and positions in per cent."""

    name: str
    amount: str
    interval: tuple[str, str]
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
    """Return the chart, or None where there are hexagons or too many cells to draw."""
    # More bars than that are no overview any more: the table has them all.
    if "hexagon" in table.column_names or table.num_rows > MAX_CELLS:
        return None
    value = view.shown_numbers(table)
    low, high = view.shown_limits(table)
    axis_start, axis_end = float(min(low.min(), value.min())), float(max(high.max(), value.max()))
    # A single constant has an axis without length.
    width = (axis_end - axis_start) or 1.0
    names = [_name(table, view, row) for row in range(table.num_rows)]
    qualities = table[f"{view.statistic}_quality"].to_pylist()
    bars = tuple(
        Bar(
            name=names[i],
            amount=view.amount(float(value[i])),
            interval=view.interval(float(low[i]), float(high[i])),
            quality=str(qualities[i]),
            dot=_percent(value[i] - axis_start, width),
            start=_percent(low[i] - axis_start, width),
            width=_percent(high[i] - low[i], width),
        )
        # Stable, so that equal input gives an equal page.
        for i in np.argsort(-value, kind="stable")
    )
    return Chart(bars, view.amount(axis_start), view.amount(axis_end))


def _percent(length: float, width: float) -> float:
    return round(100.0 * float(length) / width, 2)


def _name(table: pa.Table, view: ManifestView, row: int) -> str:
    columns = view.label_columns or ("cell",)
    return " \u00b7 ".join(str(table[column][row].as_py()) for column in columns)
