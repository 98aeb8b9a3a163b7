"""A release of labels as a table of colours: one column per airport, one row per hour."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from hexveil.report import figure_style
from hexveil.report.figure_style import colours_of
from hexveil.report.notebook import axes_drawing
from hexveil.report.payload import ticks
from hexveil_research.pictures.gallery_settings import Picture
from hexveil_research.pictures.maps import SIZE
from hexveil_research.pictures.releases import published_average

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DARK = 0.18
"""Luminance below which white letters have the higher contrast."""


def draw(picture: Picture, table: pa.Table) -> Figure:
    """Return the picture: each published average, with half of its 95% interval, rounded up."""
    from matplotlib.figure import Figure  # noqa: PLC0415  an extra, loaded where it draws
    from matplotlib.patches import Rectangle  # noqa: PLC0415  as above

    origins = sorted(set(table["origin"].to_pylist()))
    # Labels are text, in which 10 sorts before 5.
    hours = sorted({int(hour) for hour in table["hour"].to_pylist()})
    with figure_style.style():
        figure = Figure(figsize=(5.8, 6.2), layout="constrained")
        axes = figure.subplots()
        column = published_average(table)
        names = ["origin", "hour", column, "mean_low", "mean_high", "mean_quality"]
        fills = colours_of(
            table[column].to_numpy(), table["mean_quality"].to_pylist(), picture.ends
        )
        for row, fill in zip(table.select(names).to_pylist(), fills, strict=True):
            x, y = origins.index(row["origin"]), hours.index(int(row["hour"]))
            half_width = max(row["mean_high"] - row[column], row[column] - row["mean_low"])
            text = f"{row[column]:.0f} ± {np.ceil(half_width):.0f}"
            axes.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=fill, edgecolor="white"))
            ink = "white" if lightness(fill) < DARK else "black"
            axes.text(x, y, text, ha="center", va="center", color=ink, fontsize=SIZE - 1)
        axes.set(xlim=(-0.5, len(origins) - 0.5), ylim=(len(hours) - 0.5, -0.5))
        axes.set_xticks(range(len(origins)), origins, fontsize=SIZE)
        axes.set_yticks(range(len(hours)), [f"{hour}:00" for hour in hours], fontsize=SIZE - 1)
        axes.xaxis.tick_top()
        axes.spines[:].set_visible(False)
        bar = figure.colorbar(
            axes_drawing.colour_scale(picture.ends),
            ax=axes,
            location="bottom",
            aspect=40,
            pad=0.02,
            ticks=ticks(*picture.ends),
        )
        bar.minorticks_off()
        bar.set_label(picture.label, fontsize=SIZE)
    return figure


def lightness(colour: str) -> float:
    """Return the relative luminance of a colour (WCAG 2.2), from 0 to 1.

    Examples
    --------
    >>> lightness("#ffffff"), lightness("#000000")
    (1.0, 0.0)
    """
    parts = np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)]) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return round(float(linear @ [0.2126, 0.7152, 0.0722]), 6)
