"""Maps of a release: hexagons as the page of a release draws them, and a table of labels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hexveil.base import hexagons
from hexveil.report import figure_style
from hexveil.report.payload import ticks
from hexveil_research import plot_style
from hexveil_research.pictures.gallery_settings import Picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GROUND, STREET = "#f5f6f7", "#c9ced4"
SIZE = 11.0
"""Of letters: a picture is shown at two thirds of its width on a phone."""
WORDS = {
    "caution": "caution: read with care",
    "cut off": "cut off: the true number may lie far beyond",
    "noise": "noise: says next to nothing",
}
MARGIN = 0.03
FINE = 1 / 150
"""Part of a map's longer side below which corners of a street are left out."""
WIDTH, AROUND, LINE = 5.8, 1.15, 0.22
"""Inches: of a picture; of titles and scale above and below its maps; of a line of the legend."""


class MapContent(NamedTuple):
    """One map: its title, hexagons and numbers; of each its grade, and where its truth may lie."""

    title: str
    hexagons: list[int]
    values: NDArray[np.float64]
    quality: list[str]
    lies_above: NDArray[np.bool_]


def draw(picture: Picture, contents: Sequence[MapContent], streets: Mapping[str, Any]) -> Figure:
    """Return the picture: a map for each part, side by side, with one scale for all."""
    from matplotlib.figure import Figure  # noqa: PLC0415  an extra, loaded where it draws

    with plot_style.style():
        grades = {grade for content in contents for grade in content.quality}
        entries = figure_style.legend_entries(sorted(grades))
        tall = max(_shape(content.hexagons) for content in contents) * WIDTH / len(contents)
        height = tall + AROUND + LINE * len(entries.get("labels", ()))
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        panels = figure.subplots(1, len(contents), squeeze=False)
        for axes, content in zip(panels.flat, contents, strict=True):
            figure_style.add_hexagons(
                axes,
                [hexagons.outline(place) for place in content.hexagons],
                values=content.values,
                grades=content.quality,
                scale=picture.ends,
                lies_above=content.lies_above,
            )
            lay_ground(axes, content.hexagons, streets)
            axes.set_title(content.title, fontsize=SIZE + 1)
        _scale(figure, picture)
        if entries:
            entries["labels"] = [WORDS[grade] for grade in entries["labels"]]
            entries |= {"loc": "outside lower center", "frameon": False, "fontsize": SIZE - 1}
            figure.legend(**entries, handlelength=3.0)
    return figure


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


def lay_ground(axes: Axes, places: Sequence[int], streets: Mapping[str, Any]) -> None:
    """Lay streets beneath the hexagons, and frame them so that a kilometre is one both ways."""
    from matplotlib.patches import PathPatch  # noqa: PLC0415  as above
    from matplotlib.path import Path  # noqa: PLC0415

    across, up, longer = _frame(places)
    low, high = np.transpose([across, up])
    near = [
        Path(_thinned(line, FINE * (high - low).max()))
        for line in map(np.asarray, lines_of(streets))
        if (line.max(axis=0) >= low).all() and (line.min(axis=0) <= high).all()
    ]
    if near:
        # One path of all streets: a file would repeat the style for each.
        path = Path.make_compound_path(*near)
        axes.add_patch(PathPatch(path, fill=False, edgecolor=STREET, linewidth=0.4, zorder=0))
    axes.set(xlim=across, ylim=up, xticks=[], yticks=[], facecolor=GROUND)
    axes.set_aspect(longer)
    axes.spines[:].set_visible(False)


def _thinned(line: NDArray[np.float64], step: float) -> NDArray[np.float64]:
    """Return a line without corners in the same square of a grid as the one before."""
    moves = np.any(np.diff(np.floor(line / step), axis=0) != 0, axis=1)
    # The last corner is where another street begins.
    moves[-1] = True
    return np.asarray(line[np.concatenate([[True], moves])], dtype=np.float64)


def lines_of(streets: Mapping[str, Any]) -> list[list[list[float]]]:
    """Return the lines of a GeoJSON document of lines."""
    kind = streets["type"]
    if kind == "FeatureCollection":
        return [line for feature in streets["features"] for line in lines_of(feature["geometry"])]
    inner = streets["coordinates"]
    return list(inner) if kind == "MultiLineString" else [inner]


def _scale(figure: Figure, picture: Picture) -> None:
    bar = figure.colorbar(
        figure_style.colour_scale(picture.ends),
        ax=figure.axes,
        location="bottom",
        shrink=0.9,
        aspect=40,
        pad=0.02,
        ticks=ticks(*picture.ends),
    )
    bar.minorticks_off()
    bar.set_label(picture.label, fontsize=SIZE)
    bar.ax.tick_params(labelsize=SIZE - 1)
    bar.outline.set_visible(False)
