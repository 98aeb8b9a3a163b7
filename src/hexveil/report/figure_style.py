"""Colours of the map: value-suppressing palettes, for light and dark pages, and in notebooks.

A palette shows a value and how sure it is at once: good cells have eight classes of colour, cells
to be read with care four paler ones, and noise a single grey, so that a map cannot show a
difference that its numbers do not (Correll, Moritz and Heer, CHI 2018,
doi:10.1145/3173574.3174216). Colours run along viridis (CC0), in which lightness grows with the
value: readers with any colour vision, and printers without colour, keep the order. Differences of
two slots run from blue to orange, as sure ones alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hexveil.base.arrays import Bools, Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable


GOOD = ["#461768", "#413f84", "#33628d", "#27808e", "#20a088", "#40bb73", "#84d34a", "#d4e228"]
"""Classes of viridis, in the middle of equal parts."""
CAUTION = {
    "light": ["#aa9fc1", "#9fbdc9", "#9fd6c3", "#d5e9a2"],
    "dark": ["#362e52", "#2b4b5a", "#2b6454", "#617833"],
}
"""Fewer classes, with 42 percent of their own colour; the rest is the grey of the ground."""
NOISE = {"light": "#cfd3d7", "dark": "#4a5058"}
DIFFERENCES = {
    "light": ["#0b4f8a", "#4a90c8", "#a8cfe8", "#f7c48d", "#e0832c", "#9c4a07"],
    "dark": ["#b4daf3", "#5b9fd4", "#2c6699", "#a3560f", "#e58f3e", "#fbd3a6"],
}
"""Sure differences, from the most negative one; the smallest are nearest to the ground."""


def palette(mode: str) -> dict[str, list[str]]:
    """Return the colours of each grade, of differences and of doubtful differences.

    Parameters
    ----------
    mode : str
        "light" or "dark".
    """
    return {
        "good": GOOD,
        "caution": CAUTION[mode],
        "cut off": CAUTION[mode],
        "noise": [NOISE[mode]],
        "difference": DIFFERENCES[mode],
        "lower": DIFFERENCES[mode][:3],
        "higher": DIFFERENCES[mode][3:],
        "unsure": [NOISE[mode]],
    }


def colours_of(
    values: NDArray[np.float64],
    grades: Sequence[str],
    scale: tuple[float, float],
    mode: str = "light",
) -> list[str]:
    """Return the colour of each number: of its class among the colours of its grade.

    Parameters
    ----------
    values : ndarray of float, shape (n,)
    grades : sequence of str
        "good", "caution", "cut off" or "noise".
    scale : tuple of float
        Ends of the scale; numbers beyond it have the colour of its end.
    mode : str
        "light" or "dark".

    Examples
    --------
    >>> colours_of(np.array([5.0, 99.0]), ["noise", "noise"], (0.0, 10.0))
    ['#cfd3d7', '#cfd3d7']
    """
    colours, (low, high) = palette(mode), scale
    shares = (np.asarray(values, dtype=np.float64) - low) / (high - low)
    return [
        colours[grade][
            max(0, min(len(colours[grade]) - 1, math.floor(share * len(colours[grade]))))
        ]
        for share, grade in zip(shares.tolist(), grades, strict=True)
    ]


def colour_rules() -> str:
    """Return the style rules of the swatches, for light pages and paper and for dark screens."""
    dark = _swatch_rules("dark", "[data-scheme=dark] ")
    return f"{_swatch_rules('light')}@media screen {{\n{dark}}}\n"


def _swatch_rules(mode: str, within: str = "") -> str:
    return "".join(
        f"{within}.steps.{grade.replace(' ', '-')} {{ background: {_steps(colours)}; }}\n"
        for grade, colours in palette(mode).items()
    )


def _steps(colours: list[str]) -> str:
    """Return classes of colour side by side, without a gradient between them."""
    if len(colours) == 1:
        return colours[0]
    share = 100 / len(colours)
    stops = [
        f"{colour} {number * share:g}% {(number + 1) * share:g}%"
        for number, colour in enumerate(colours)
    ]
    return f"linear-gradient(to right, {', '.join(stops)})"


INK = "#4b535b"
_MARKS: dict[str, dict[str, Any]] = {
    "caution": {"marker": "h", "color": CAUTION["light"][1]},
    "cut off": {"marker": "^", "color": INK, "markerfacecolor": "none"},
    "noise": {"marker": "x", "color": INK},
}
"""Marks of the grades that a legend explains."""
_MAX_MARK_AREA = 22.0
"""Of a mark, in square points; marks of small hexagons are smaller."""
_MANY = 400
"""Hexagons from which on marks become smaller."""


def add_hexagons(
    axes: Axes,
    outlines: Sequence[Any],
    *,
    values: Floats,
    grades: Sequence[str],
    scale: tuple[float, float],
    lies_above: Bools,
) -> None:
    """Draw hexagons in the colours of their numbers, each with the mark of its grade.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
    outlines : sequence of array-like, shape (n_corners, 2)
    values : ndarray of float, shape (n_cells,)
    grades : sequence of str
    scale : tuple of float
    lies_above : ndarray of bool, shape (n_cells,)
        Whether a cell that is cut off may have a larger true number than the one shown.
    """
    from matplotlib.collections import PolyCollection  # noqa: PLC0415  an extra

    fills = colours_of(values, grades, scale)
    axes.add_collection(
        PolyCollection(list(outlines), facecolors=fills, edgecolors="white", linewidths=0.6)
    )
    middle = np.array([(np.max(ring, axis=0) + np.min(ring, axis=0)) / 2 for ring in outlines])
    area, grade = _MAX_MARK_AREA * min(1.0, _MANY / max(1, len(fills))), np.array(grades)
    # A cross has no face.
    cross: dict[str, Any] = {"c": INK}
    hollow: dict[str, Any] = {"facecolors": "none", "edgecolors": INK}
    for sign, has_sign, colours in (
        ("x", grade == "noise", cross),
        ("^", (grade == "cut off") & lies_above, hollow),
        ("v", (grade == "cut off") & ~lies_above, hollow),
    ):
        if has_sign.any():
            east, north = middle[has_sign].T
            axes.scatter(east, north, s=area, marker=sign, linewidths=0.8, zorder=3, **colours)


def colour_scale(scale: tuple[float, float]) -> ScalarMappable:
    """Return the content of a colour bar: the classes of good cells from end to end."""
    from matplotlib.cm import ScalarMappable  # noqa: PLC0415  an extra
    from matplotlib.colors import BoundaryNorm, ListedColormap  # noqa: PLC0415

    colours = palette("light")["good"]
    classes = ListedColormap(colours)
    return ScalarMappable(BoundaryNorm(np.linspace(*scale, len(colours) + 1), classes.N), classes)


def legend_entries(grades: Sequence[str]) -> dict[str, Any]:
    """Return the entries of those grades that are present, as arguments of `legend`; or none."""
    from matplotlib.lines import Line2D  # noqa: PLC0415  an extra

    present = [grade for grade in _MARKS if grade in grades]
    handles = [Line2D([], [], linestyle="none", **_MARKS[grade]) for grade in present]
    return {"handles": handles, "labels": present} if present else {}
