"""Hexagons on axes of matplotlib in the page's colours and marks, and their legend.

The less sure a number, the fewer and paler its colours; noise has a cross, and a cell that is cut
off a triangle towards the side on which the true number may lie.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.report.clipping_text import CUT_OFF
from hexveil.report.notebook.cell_picture import GRADES, NOISE
from hexveil.report.palette import colours_of, palette

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from numpy.typing import NDArray

    from hexveil.base.arrays import Floats


EDGE, MARK = "white", "#4b535b"
SIGNS = {CUT_OFF: "^", NOISE: "x"}
MAX_MARK_AREA = 22.0
"""Of a mark, in square points; marks of small hexagons are smaller."""
MANY = 400
"""Hexagons from which on marks become smaller."""


def add_hexagons(
    axes: Axes,
    outlines: Sequence[Any],
    *,
    values: Floats,
    grades: Sequence[str],
    scale: tuple[float, float],
    lies_above: NDArray[np.bool_],
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
        PolyCollection(list(outlines), facecolors=fills, edgecolors=EDGE, linewidths=0.6)
    )
    middle = np.array([(np.max(ring, axis=0) + np.min(ring, axis=0)) / 2 for ring in outlines])
    grade = np.array(grades)
    area = MAX_MARK_AREA * min(1.0, MANY / max(1, len(fills)))
    for sign, has_sign in (
        ("x", grade == NOISE),
        ("^", (grade == CUT_OFF) & lies_above),
        ("v", (grade == CUT_OFF) & ~lies_above),
    ):
        if has_sign.any():
            # A cross has no face.
            colours: dict[str, Any] = (
                {"c": MARK} if sign == "x" else {"facecolors": "none", "edgecolors": MARK}
            )
            axes.scatter(
                middle[has_sign, 0],
                middle[has_sign, 1],
                s=area,
                marker=sign,
                linewidths=0.8,
                zorder=3,
                **colours,
            )


def colour_scale(scale: tuple[float, float]) -> ScalarMappable:
    """Return the content of a colour bar: the classes of good cells from end to end."""
    from matplotlib.cm import ScalarMappable  # noqa: PLC0415  an extra
    from matplotlib.colors import BoundaryNorm, ListedColormap  # noqa: PLC0415

    colours = palette("light")["good"]
    classes = ListedColormap(colours)
    return ScalarMappable(BoundaryNorm(np.linspace(*scale, len(colours) + 1), classes.N), classes)


def legend_entries(grades: Sequence[str]) -> dict[str, Any]:
    """Return the entries of those grades that are present, as arguments of `legend`; or none."""
    from matplotlib.legend_handler import HandlerTuple  # noqa: PLC0415  an extra
    from matplotlib.lines import Line2D  # noqa: PLC0415
    from matplotlib.patches import Patch  # noqa: PLC0415

    present = [grade for grade in GRADES if grade in grades]
    handles, how = [], {}
    for grade in present:
        entry: tuple[Any, ...] = tuple(
            Patch(facecolor=colour) for colour in palette("light")[grade]
        )
        if grade in SIGNS:
            sign = Line2D([], [], color=MARK, marker=SIGNS[grade], markersize=4.5, linestyle="none")
            sign.set_markerfacecolor("none")
            entry = (*entry, sign)
        # Colours stand side by side, and the triangle beside them; the cross lies on its colour.
        how[entry] = HandlerTuple(ndivide=1 if grade == NOISE else None, pad=0)
        handles.append(entry)
    return {"handles": handles, "labels": present, "handler_map": how} if present else {}
