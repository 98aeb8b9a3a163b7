"""For labels, what stands in the map's place: a dot and its interval for each of a few cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

    from hexveil.report.facts import ManifestView

MOST_CELLS = 40


@dataclass(frozen=True)
class Bar:
    """One cell of the chart: its name, what is said, and places in per cent of the width."""

    name: str
    text: str
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
    if "hexagon" in table.column_names or table.num_rows > MOST_CELLS:
        return None
    value = np.asarray(table[f"{view.statistic}_raw"].to_numpy(), dtype=np.float64)
    low, high = view.ends(table)
    left, right = float(min(low.min(), value.min())), float(max(high.max(), value.max()))
    width = (right - left) or 1.0
    names = [_name(table, view, row) for row in range(table.num_rows)]
    qualities = table[f"{view.statistic}_quality"].to_pylist()
    bars = tuple(
        Bar(
            name=names[i],
            text=f"{view.amount(float(value[i]))}, {view.interval(float(low[i]), float(high[i]))}",
            quality=str(qualities[i]),
            dot=_percent(value[i] - left, width),
            start=_percent(low[i] - left, width),
            width=_percent(high[i] - low[i], width),
        )
        for i in np.argsort(-value, kind="stable")
    )
    return Chart(bars, view.amount(left), view.amount(right))


def _percent(part: float, whole: float) -> float:
    return round(100.0 * float(part) / whole, 2)


def _name(table: pa.Table, view: ManifestView, row: int) -> str:
    columns = view.label_columns or ("cell",)
    return " \u00b7 ".join(str(table[column][row].as_py()) for column in columns)
