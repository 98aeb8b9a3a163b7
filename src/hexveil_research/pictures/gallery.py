"""The gallery's pictures as files: records, releases, drawing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from hexveil.base import hexagons
from hexveil_research.pictures import labels, maps, releases, settings
from hexveil_research.pictures.files import save

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hexveil_research.pictures.settings import MapPanel

NAMES = (*(picture.name for picture in settings.MAPS), settings.LABELS.name)


def make(out: Path, work: Path, names: Sequence[str]) -> None:
    """Write the named pictures into a folder; records and releases go to another."""
    pictures = [picture for picture in settings.MAPS if picture.name in names]
    if pictures:
        releases.prepare_city(work, settings.CITY, settings.BUSES)
        streets = json.loads((work / "streets.geojson").read_text("utf-8"))
    for picture in pictures:
        shown = [_shown(work, panel) for panel in picture.panels]
        save(maps.draw(picture, shown, streets), out / f"{picture.name}.png")
    if settings.LABELS.name in names:
        releases.prepare_flights(work, settings.FLIGHTS)
        (panel,) = settings.LABELS.panels
        table = releases.release(work, "flights.toml", panel.options)
        save(labels.draw(settings.LABELS, table), out / f"{settings.LABELS.name}.png")


def _shown(work: Path, panel: MapPanel) -> maps.Shown:
    """Return the content of a panel: outlines, numbers and how sure they are, of one slot."""
    table = releases.release(work, "buses.toml", panel.options)
    table = table.filter(np.equal(table["slot"].to_pylist(), settings.SLOT))
    names = table["hexagon"].to_pylist()
    places = [int(name, 16) for name in names]
    if panel.column in releases.TRUE:
        found = releases.truth(work, table["cell"].to_pylist(), hexagons.resolution_of(places[0]))
        return maps.Shown(panel.title, places, found[panel.column], ["good"] * len(places))
    kind = panel.column.split("_", maxsplit=1)[0]
    values = np.asarray(table[panel.column].to_numpy(), dtype=np.float64)
    return maps.Shown(panel.title, places, values, table[f"{kind}_quality"].to_pylist())
