"""Released histogram of one cell on axes of matplotlib: shares of its bins, with their intervals.

Everything comes from the released table and the manifest, of either privacy model.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from hexveil.base.errors import InputError
from hexveil.model.statistic_terms import column_names

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.axes import Axes

    from hexveil.base.arrays import Floats
    from hexveil.report.manifest_view import ManifestView


BAR, ENDS = "#8fb3cc", "#4a6f8a"


@dataclass(frozen=True, eq=False)
class CellHistogram:
    """Shares of the bins of one cell.

    Attributes
    ----------
    title, label : str
        The cell, and the value with its unit of measure.
    edges : ndarray of float, shape (n_bins + 1,)
        Ends of the bins, in value units.
    share, low, high : ndarray of float, shape (n_bins,)
        Shares of records, and their 95 % intervals.
    """

    title: str
    label: str
    edges: Floats
    share: Floats
    low: Floats
    high: Floats


def histogram_of(table: pa.Table, view: ManifestView, cell: str) -> CellHistogram:
    """Return the histogram of a cell.

    Parameters
    ----------
    table : pyarrow.Table
        The released table.
    view : ManifestView
    cell : str
        As in the column `cell`.

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
    row = cells.index(cell)

    def column(end: str) -> Floats:
        # Estimates have a name of their own where values alone are private.
        fields = [f"{name}{end}" for name in names]
        fields = (
            fields if fields[0] in table.column_names else [f"{field}_estimate" for field in fields]
        )
        return np.array([table[field][row].as_py() for field in fields], dtype=np.float64)

    share, low, high = column(""), column("_low"), column("_high")
    if np.isnan(share).any():
        raise InputError(f"the cell {cell!r} is closed: nothing is published for it.")
    ends = [replace(view, shown=name).bin_ends for name in names]
    edges = [pair[0] for pair in ends if pair] + [pair[1] for pair in ends[-1:] if pair]
    label = f"{view.value}, {view.value_unit}" if view.value_unit else view.value
    return CellHistogram(cell, label, np.array(edges), share, low, high)


def draw_histogram(histogram: CellHistogram, axes: Axes | None = None) -> Axes:
    """Draw a histogram on axes, new ones without any, and return them."""
    import matplotlib.pyplot as plt  # noqa: PLC0415  an extra, loaded where it draws

    if axes is None:
        axes = plt.subplots(figsize=(7.0, 4.0), layout="constrained")[1]
    widths = np.diff(histogram.edges)
    middles = histogram.edges[:-1] + widths / 2.0
    share = histogram.share
    axes.bar(middles, share, 0.9 * widths, color=BAR, label="released")
    around = np.maximum([share - histogram.low, histogram.high - share], 0.0)
    axes.errorbar(middles, share, around, fmt="none", ecolor=ENDS, label="95% interval")
    axes.set(xlim=(histogram.edges[0], histogram.edges[-1]), ylim=(0.0, None))
    axes.set_xlabel(histogram.label, parse_math=False)
    axes.set_ylabel("Share of records")
    axes.set_title(histogram.title, parse_math=False)
    return axes
