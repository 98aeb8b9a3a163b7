"""Maps of a release: hexagons as the page of a release draws them, and a table of labels."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hexveil.base import hexagons
from hexveil.simulation import figure_style

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from hexveil_research.pictures.gallery_settings import Picture

GROUND, STREET = "#f5f6f7", "#c9ced4"
SIZE = 11.0
"""Of letters: a picture is shown at two thirds of its width on a phone."""
PALETTE = "viridis"
HATCHES = {"good": "", "caution": "///", "cut off": "---", "noise": "xxxx"}
WORDS = {
    "caution": "caution: read with care",
    "cut off": "cut off: the true number may lie far beyond",
    "noise": "noise: says next to nothing",
}
INK = {"caution": "#ffffffb0", "cut off": "#ffffffd0", "noise": "#4b535b"}
FAINT = 0.3
"""Opacity of a cell that is noise."""
MARGIN = 0.03
WIDTH, AROUND, LINE = 5.8, 1.15, 0.22
"""Inches: of a picture; of titles and scale above and below its maps; of a line of the legend."""


class MapContent(NamedTuple):
    """One map: its title, hexagons, numbers, and the grade of each."""

    title: str
    hexagons: list[int]
    values: NDArray[np.float64]
    quality: list[str]


def draw(picture: Picture, contents: Sequence[MapContent], streets: Mapping[str, Any]) -> Figure:
    """Return the picture: a map for each part, side by side, with one scale for all."""
    from matplotlib.figure import Figure  # noqa: PLC0415  an extra, loaded where it draws

    with figure_style.style():
        kinds = [kind for kind in WORDS if any(kind in content.quality for content in contents)]
        tall = max(_shape(content.hexagons) for content in contents) * WIDTH / len(contents)
        height = tall + AROUND + LINE * len(kinds)
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        panels = figure.subplots(1, len(contents), squeeze=False)
        for axes, content in zip(panels.flat, contents, strict=True):
            outlines = [hexagons.outline(place) for place in content.hexagons]
            # A hatch belongs to a whole collection in matplotlib: one for each grade.
            for kind in (kind for kind in HATCHES if kind in content.quality):
                of_kind = np.flatnonzero(np.equal(content.quality, kind))
                _cells(axes, [outlines[i] for i in of_kind], content.values[of_kind], kind, picture)
            _ground(axes, content.hexagons, streets)
            axes.set_title(content.title, fontsize=SIZE + 1)
        _scale(figure, picture)
        _legend(figure, kinds)
    return figure


def _cells(
    axes: Axes,
    outlines: list[list[tuple[float, float]]],
    values: NDArray[np.float64],
    kind: str,
    picture: Picture,
) -> None:
    """Draw the hexagons of one quality."""
    from matplotlib.collections import PolyCollection  # noqa: PLC0415  as above

    cells = PolyCollection(outlines, array=values, cmap=PALETTE, clim=picture.ends)
    cells.set(edgecolor="white", linewidth=0.7, alpha=FAINT if kind == "noise" else 1.0)
    axes.add_collection(cells)
    if HATCHES[kind]:
        lines = PolyCollection(outlines, facecolor="none", hatch=HATCHES[kind])
        lines.set(edgecolor=INK[kind], linewidth=0.0)
        axes.add_collection(lines)


def _frame(places: Sequence[int]) -> tuple[tuple[float, float], tuple[float, float], float]:
    """Return the ends in longitude and latitude, and how much longer a degree north is."""
    corners = np.concatenate([hexagons.outline(place) for place in places])
    (west, south), (east, north) = corners.min(axis=0), corners.max(axis=0)
    gap = MARGIN * max(east - west, north - south)
    # A degree of longitude shrinks with the cosine of the latitude.
    longer = 1 / math.cos(math.radians((south + north) / 2))
    return (west - gap, east + gap), (south - gap, north + gap), longer


def _shape(places: Sequence[int]) -> float:
    """Return the height of a map, of width 1."""
    (west, east), (south, north), longer = _frame(places)
    return longer * (north - south) / (east - west)


def _ground(axes: Axes, places: Sequence[int], streets: Mapping[str, Any]) -> None:
    """Lay streets beneath the hexagons, and frame them so that a kilometre is one both ways."""
    from matplotlib.collections import LineCollection  # noqa: PLC0415  as above

    across, up, longer = _frame(places)
    axes.add_collection(LineCollection(lines_of(streets), colors=STREET, linewidths=0.4, zorder=0))
    axes.set(xlim=across, ylim=up, xticks=[], yticks=[], facecolor=GROUND)
    axes.set_aspect(longer)
    axes.spines[:].set_visible(False)


def lines_of(streets: Mapping[str, Any]) -> list[list[list[float]]]:
    """Return the lines of a GeoJSON document of lines."""
    kind = streets["type"]
    if kind == "FeatureCollection":
        return [line for feature in streets["features"] for line in lines_of(feature["geometry"])]
    inner = streets["coordinates"]
    return list(inner) if kind == "MultiLineString" else [inner]


def _scale(figure: Figure, picture: Picture) -> None:
    from matplotlib.cm import ScalarMappable  # noqa: PLC0415  as above
    from matplotlib.colors import Normalize  # noqa: PLC0415  as above

    colours = ScalarMappable(Normalize(*picture.ends), PALETTE)
    bar = figure.colorbar(
        colours, ax=figure.axes, location="bottom", shrink=0.9, aspect=40, pad=0.02, extend="both"
    )
    bar.set_label(picture.label, fontsize=SIZE)
    bar.ax.tick_params(labelsize=SIZE - 1)
    bar.outline.set_visible(False)


def _legend(figure: Figure, kinds: Sequence[str]) -> None:
    from matplotlib.patches import Patch  # noqa: PLC0415  as above

    patches = [
        Patch(hatch=HATCHES[kind], facecolor="#d9dde2", edgecolor=INK["noise"], linewidth=0)
        for kind in kinds
    ]
    words = [WORDS[kind] for kind in kinds]
    if kinds:
        figure.legend(patches, words, loc="outside lower center", frameon=False, fontsize=SIZE - 1)
