"""The gallery's pictures as files: records, releases, drawing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hexveil.base import hexagons
from hexveil_research.pictures import gallery_settings, labels, maps, releases
from hexveil_research.pictures.gallery_settings import MapPanel
from hexveil_research.pictures.svg_files import save

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
        save(
            labels.draw(gallery_settings.LABELS, table), out / f"{gallery_settings.LABELS.name}.svg"
        )


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
