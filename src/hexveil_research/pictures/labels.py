"""A release of labels as a table of colours: one column per airport, one row per hour."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hexveil.simulation import figure_style
from hexveil_research.pictures.maps import PALETTE, SIZE
from hexveil_research.pictures.releases import published_average

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.figure import Figure

    from hexveil_research.pictures.gallery_settings import Picture

DARK = 0.5
"""Part of the scale up to which letters on it are white."""


def draw(picture: Picture, table: pa.Table) -> Figure:
    """Return the picture: each published average, with half of its 95% interval, rounded up."""
    from matplotlib.figure import Figure  # noqa: PLC0415  an extra, loaded where it draws

    origins = sorted(set(table["origin"].to_pylist()))
    # Labels are text, in which 10 sorts before 5.
    hours = sorted({int(hour) for hour in table["hour"].to_pylist()})
    low, high = picture.ends
    with figure_style.style():
        figure = Figure(figsize=(5.8, 6.2), layout="constrained")
        axes = figure.subplots()
        column = published_average(table)
        for row in table.select(["origin", "hour", column, "mean_low", "mean_high"]).to_pylist():
            x, y = origins.index(row["origin"]), hours.index(int(row["hour"]))
            half_width = max(row["mean_high"] - row[column], row[column] - row["mean_low"])
            text = f"{row[column]:.0f} ± {np.ceil(half_width):.0f}"
            dark = row[column] < low + DARK * (high - low)
            ink = "white" if dark else "black"
            axes.text(x, y, text, ha="center", va="center", color=ink, fontsize=SIZE - 1)
        grid = np.full((len(hours), len(origins)), np.nan)
        for row in table.select(["origin", "hour", column]).to_pylist():
            grid[hours.index(int(row["hour"])), origins.index(row["origin"])] = row[column]
        image = axes.imshow(grid, cmap=PALETTE, vmin=low, vmax=high, aspect="auto")
        axes.set_xticks(range(len(origins)), origins, fontsize=SIZE)
        axes.set_yticks(range(len(hours)), [f"{hour}:00" for hour in hours], fontsize=SIZE - 1)
        axes.xaxis.tick_top()
        axes.spines[:].set_visible(False)
        bar = figure.colorbar(image, ax=axes, location="bottom", aspect=40, pad=0.02, extend="both")
        bar.set_label(picture.label, fontsize=SIZE)
    return figure
