"""Words for the position of a hexagon: "Udhna", or "8 km south-east of Udhna".

A hexagon takes the name of the best known place in it, which no other hexagon has. Without one it
is named by distance and direction from a place nearby: the nearest, but a city may be further away
than a village. Distances are along a great circle, from the place to the hexagon's centre.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from hexveil.base import hexagons
from hexveil.report.templates import render_sentence

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hexveil.report.geography.world import Places

EARTH_KM = 6371.0088
FINE_KM = 2.0
"""Hexagons smaller than this need more digits, or neighbours would have the same words."""
NEIGHBOURS = 16
"""Places that are compared for a hexagon without one."""
RENOWN = 0.15
"""Exponent of the population: a place of a thousand times more people names 2.8 times as far."""


@dataclass(frozen=True)
class Location:
    """Position of a hexagon relative to a place.

    Attributes
    ----------
    place : int
        Row of the place.
    distance : str
        From the place to the centre of the hexagon; "" where the name alone says it.
    wind : int
        Direction seen from the place, in eighths of a turn clockwise from north.
    """

    place: int
    distance: str
    wind: int


def locate(names: Sequence[str], places: Places) -> list[Location]:
    """Return the position of each hexagon; empty without places.

    Parameters
    ----------
    names : sequence of str
        H3 indexes of one resolution, as hex text.
    places : Places
    """
    if not places.names or not names:
        return []
    indexes = [int(name, 16) for name in names]
    centres = np.array([hexagons.centre(index)[::-1] for index in indexes])
    named = _best_known(places, hexagons.resolution_of(indexes[0]))
    near = _neighbours(centres, places)
    found = []
    for row, index in enumerate(indexes):
        place = named.get(index, near[row])
        distance, wind = _way(places.position[place], centres[row])
        corner, _ = _way(centres[row], np.array(hexagons.outline(index)[0]))
        text = "" if index in named else format_distance(distance, fine=corner < FINE_KM)
        found.append(Location(place, text, wind))
    return found


def _best_known(places: Places, resolution: int) -> dict[int, int]:
    """Return the row of the place with the largest population in each hexagon that has one."""
    lon, lat = places.position.T
    cells = hexagons.of_places(pa.array(lat), pa.array((lon + 540) % 360 - 180), resolution)
    # The last one wins: in order of population, and of equals the first in the list.
    order = np.lexsort((-np.arange(len(lon)), places.population))
    return dict(zip(np.asarray(cells)[order].tolist(), order.tolist(), strict=True))


def _neighbours(centres: NDArray[np.float64], places: Places) -> list[int]:
    """Return the row of the place that is near each centre and well known for its distance."""
    from scipy.spatial import cKDTree  # noqa: PLC0415  slow to import

    tree = cKDTree(_vectors(places.position))
    number = min(NEIGHBOURS, len(places.names))
    chord, rows = tree.query(_vectors(centres), k=np.arange(1, number + 1))
    renown = np.maximum(places.population[rows], 1.0) ** RENOWN
    best = np.argmin(chord / renown, axis=1)
    return [int(row) for row in rows[np.arange(len(rows)), best]]


def _vectors(position: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return unit vectors of longitudes and latitudes."""
    lon, lat = np.radians(position).T
    return np.column_stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)])


def _way(start: NDArray[np.float64], end: NDArray[np.float64]) -> tuple[float, int]:
    """Return the distance in kilometres and the first direction, in eighths from north."""
    (lon, lat), (to_lon, to_lat) = np.radians(start), np.radians(end)
    turn = to_lon - lon
    east = np.cos(to_lat) * np.sin(turn)
    north = np.cos(lat) * np.sin(to_lat) - np.sin(lat) * np.cos(to_lat) * np.cos(turn)
    up = np.sin(lat) * np.sin(to_lat) + np.cos(lat) * np.cos(to_lat) * np.cos(turn)
    distance = EARTH_KM * np.arctan2(np.hypot(east, north), up)
    return float(distance), round(float(np.arctan2(east, north)) / (np.pi / 4)) % 8


def describe_location(location: Location, name: str, street: str = "") -> str:
    """Return a location in words, from the name of its place, and of a street through it.

    Examples
    --------
    >>> describe_location(Location(0, "8 km", 3), "Udhna")
    '8 km south-east of Udhna'
    >>> describe_location(Location(0, "", 0), "Udhna")
    'Udhna'
    >>> describe_location(Location(0, "800 m", 4), "Udhna", "Ring Road")
    '800 m south of Udhna, on Ring Road'
    """
    return render_sentence(
        "page/location.txt",
        "location",
        name=name,
        distance=location.distance,
        wind=location.wind,
        street=street,
    )


def format_distance(kilometres: float, *, fine: bool = False) -> str:
    """Return a distance for people, with one more digit if it is to be fine.

    Examples
    --------
    >>> format_distance(123.4), format_distance(8.24), format_distance(8.24, fine=True)
    ('120 km', '8 km', '8.2 km')
    >>> format_distance(0.44)
    '400 m'
    """
    if kilometres < 0.95:
        return f"{max(1, round(10 * kilometres)) * 100} m"
    if fine and kilometres < 9.95:
        return f"{kilometres:.1f} km"
    return f"{kilometres:.0f} km" if kilometres < 100 else f"{round(kilometres, -1):.0f} km"
