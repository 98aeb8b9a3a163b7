"""A month of an invented city's buses: mean speed by hexagon and time of day.

The choices, made from public knowledge and the capacity table:

- bounds 0 to 65 km/h: the largest speed that the devices report.
- the privacy unit is a bus on one day, as in a daily publication.
- resolution 7, six-hour slots of all days together, 500 bus-days a cell: at epsilon 1 hexagons of
  about 1.2 km with a predicted error well below the baseline error (3.25 km/h).
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from hexveil.base import hexagons
from hexveil.cli.demos.demonstration import Show
from hexveil.simulation.city import City
from hexveil.simulation.city.streets import LATITUDE, LONGITUDE, METRES_PER_DEGREE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hexveil.cli.demos.demonstration import Where

CITY = City(users=350, days=30, seed=1, interval="60s")

WINDS = ("east", "north-east", "north", "north-west", "west", "south-west", "south", "south-east")


def write(folder: Path, tell: Callable[[float], None]) -> Where:
    """Write the records and the streets; return the function that names places."""
    CITY.write(folder / "city.parquet", progress=tell)
    (folder / "streets.geojson").write_text(json.dumps(streets_and_centre()), "utf-8")
    return place_name


def streets_and_centre() -> dict[str, Any]:
    """Return the streets, and the centre as a named place: hexagons are named relative to it."""
    centre = {"type": "Point", "coordinates": [LONGITUDE, LATITUDE]}
    return {
        "type": "FeatureCollection",
        "features": [
            {"type": "Feature", "properties": {}, "geometry": CITY.streets_geojson()},
            {"type": "Feature", "properties": {"name": "the centre"}, "geometry": centre},
        ],
    }


def place_name(row: dict[str, Any]) -> str:
    """Return the place of a row's hexagon relative to the city centre."""
    lat, lon = hexagons.centre(int(row["hexagon"], 16))
    north = (lat - LATITUDE) * METRES_PER_DEGREE
    east = (lon - LONGITUDE) * METRES_PER_DEGREE * math.cos(math.radians(LATITUDE))
    distance_km = math.hypot(north, east) / 1000
    # Within a hexagon of the centre a direction says nothing.
    if distance_km < 1:
        return "in the centre"
    wind = WINDS[round(math.atan2(north, east) / (math.pi / 4)) % len(WINDS)]
    return f"{distance_km:.0f} km {wind} of the centre"


SHOW = Show(
    "city",
    "city.parquet, streets.geojson, ledger.sqlite, ledger.sqlite.key",
    (
        "The city",
        f"is invented: {CITY.users} buses, {CITY.days} days, a record a minute (hexveil simulate).",
    ),
    write,
)
