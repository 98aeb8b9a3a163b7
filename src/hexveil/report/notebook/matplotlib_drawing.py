"""Released cells on axes of matplotlib: a map of hexagons, or numbers of labels with intervals.

Colours and marks are those of the page. Names and labels are drawn as they are: a dollar sign in
one begins no formula.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.report.notebook import graded_hexagons
from hexveil.report.notebook.cell_picture import NOISE
from hexveil.report.payload import ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hexveil.report.notebook.cell_picture import CellPicture

EMPTY, INK = "#e9ebee", "#4b535b"
DOT = "#0072B2"


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
    graded_hexagons.add_hexagons(
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
    colours = graded_hexagons.colour_scale(picture.scale)
    bar = axes.figure.colorbar(colours, ax=axes, shrink=0.8, ticks=ticks(*picture.scale))
    bar.minorticks_off()
    bar.set_label(picture.label, parse_math=False)
    if entries := graded_hexagons.legend_entries(picture.quality):
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
