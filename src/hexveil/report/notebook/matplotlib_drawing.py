"""Released cells on axes of matplotlib: a map of hexagons, or numbers of labels with intervals.

Colours and hatching are those of the page. Names and labels are drawn as they are: a dollar sign
in one begins no formula.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.report.notebook.cell_picture import NOISE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hexveil.report.notebook.cell_picture import CellPicture

HATCHES = {"caution": "//", "cut off": "---", NOISE: "xxx"}
"""Hatching of each grade but "good"."""
EMPTY, INK = "#e9ebee", "#4b535b"
DOT = "#0072B2"
_NOISE_OPACITY = 0.22


def draw_axes(picture: CellPicture, axes: Axes | None = None) -> Axes:
    """Draw the picture on axes, new ones without any, and return them."""
    import matplotlib.pyplot as plt  # noqa: PLC0415  an extra, loaded where it draws

    if axes is None:
        size = (7.0, 5.5) if picture.outlines else (7.0, 1.2 + 0.25 * len(picture.names))
        axes = plt.subplots(figsize=size, layout="constrained")[1]
    if picture.outlines is None:
        _draw_intervals(picture, axes)
    else:
        _draw_hexagons(picture, axes)
    axes.set_title(picture.title, parse_math=False)
    return axes


def _draw_hexagons(picture: CellPicture, axes: Axes) -> None:
    from matplotlib.collections import PolyCollection  # noqa: PLC0415  as above
    from matplotlib.patches import Patch  # noqa: PLC0415

    outlines: list[Any] = list(picture.outlines or ())
    if picture.others:
        others: list[Any] = list(picture.others)
        axes.add_collection(PolyCollection(others, facecolors=EMPTY, edgecolors="white"))
    cells = PolyCollection(
        outlines,
        array=picture.value,
        cmap="viridis",
        edgecolors="white",
        linewidths=0.6,
        alpha=np.where(np.array(picture.quality) == NOISE, _NOISE_OPACITY, 1.0),
    )
    cells.set_clim(*picture.scale)
    axes.add_collection(cells)
    graded = [grade for grade in HATCHES if grade in picture.quality]
    # A layer per hatching: a collection has one pattern for all its shapes.
    for grade in graded:
        rings = [ring for ring, q in zip(outlines, picture.quality, strict=True) if q == grade]
        axes.add_collection(
            PolyCollection(
                rings, facecolors="none", edgecolors=INK, linewidths=0, hatch=HATCHES[grade]
            )
        )
    axes.autoscale_view()
    axes.set_aspect("equal")
    axes.set_axis_off()
    assert axes.figure is not None  # noqa: S101  axes belong to a figure
    axes.figure.colorbar(cells, ax=axes, shrink=0.8).set_label(picture.label, parse_math=False)
    if graded:
        keys = [
            Patch(facecolor="none", edgecolor=INK, hatch=HATCHES[grade], label=grade)
            for grade in graded
        ]
        axes.legend(handles=keys, loc="upper left", frameon=False, fontsize="small")


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
