"""The gallery's pictures as files: records, releases, drawing.

A release of labels as a table of colours: one column per airport, one row per hour.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from hexveil.base import hexagons
from hexveil.report import figure_style
from hexveil.report.figure_style import colours_of
from hexveil.report.payload import ticks
from hexveil_research import plot_style
from hexveil_research.pictures import gallery_settings, maps, releases
from hexveil_research.pictures.gallery_settings import MapPanel, Picture
from hexveil_research.pictures.maps import SIZE
from hexveil_research.pictures.releases import published_average
from hexveil_research.pictures.svg_files import save

if TYPE_CHECKING:
    from matplotlib.figure import Figure


NAMES = (*(picture.name for picture in gallery_settings.MAPS), gallery_settings.LABELS.name)


def make(out: Path, work: Path, names: Sequence[str]) -> None:
    """Write the named pictures into a folder; records and releases go to another."""
    pictures = [picture for picture in gallery_settings.MAPS if picture.name in names]
    # The city takes a while to simulate: only where a map shows it.
    if pictures:
        releases.prepare_city(work, gallery_settings.CITY, gallery_settings.BUSES)
        streets = json.loads((work / "streets.geojson").read_text("utf-8"))
    for picture in pictures:
        contents = [_map_content(work, panel) for panel in picture.panels]
        save(maps.draw(picture, contents, streets), out / f"{picture.name}.svg")
    if gallery_settings.LABELS.name in names:
        releases.prepare_flights(work, gallery_settings.FLIGHTS)
        (panel,) = gallery_settings.LABELS.panels
        table = releases.release(work, "flights.toml", panel.options)
        save(draw(gallery_settings.LABELS, table), out / f"{gallery_settings.LABELS.name}.svg")


def _map_content(work: Path, panel: MapPanel) -> maps.MapContent:
    """Return the content of a panel: outlines, numbers and how sure they are, of one slot."""
    table = releases.release(work, "buses.toml", panel.options)
    table = table.filter(np.equal(table["slot"].to_pylist(), gallery_settings.SLOT))
    names = table["hexagon"].to_pylist()
    places = [int(name, 16) for name in names]
    if panel.column in releases.TRUE:
        statistics = releases.truth(
            work, table["cell"].to_pylist(), hexagons.resolution_of(places[0])
        )
        true = statistics[panel.column]
        return maps.MapContent(
            panel.title, places, true, ["good"] * len(places), np.zeros(len(places), dtype=bool)
        )
    kind = panel.column.split("_", maxsplit=1)[0]
    column = releases.published_average(table) if panel.column == "mean" else panel.column
    values = np.asarray(table[column].to_numpy(), dtype=np.float64)
    low, high = (table[f"{kind}_{end}"].to_numpy() for end in ("low", "high"))
    quality = table[f"{kind}_quality"].to_pylist()
    return maps.MapContent(panel.title, places, values, quality, high - values >= values - low)


DARK = 0.18
"""Luminance below which white letters have the higher contrast."""


def draw(picture: Picture, table: pa.Table) -> Figure:
    """Return the picture: each published average, with half of its 95% interval, rounded up."""
    from matplotlib.figure import Figure  # noqa: PLC0415  an extra, loaded where it draws
    from matplotlib.patches import Rectangle  # noqa: PLC0415  as above

    origins = sorted(set(table["origin"].to_pylist()))
    # Labels are text, in which 10 sorts before 5.
    hours = sorted({int(hour) for hour in table["hour"].to_pylist()})
    with plot_style.style():
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
            figure_style.colour_scale(picture.ends),
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
