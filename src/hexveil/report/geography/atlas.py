"""Public geography, and words for the position of a hexagon.

Words: "Udhna", or "8 km south-east of Udhna".

A hexagon takes the name of the best known place in it, which no other hexagon has. Without one it
is named by distance and direction from a place nearby: the nearest, but a city may be further away
than a village. Distances are along a great circle, from the place to the hexagon's centre.

Geography: coast, borders, rivers, lakes and places, from two files of the package. Lines:
Natural Earth, public domain, coast and borders at 1:10 million, rivers, lakes and regions at 1:50
million; they are thinned, and off by up to a kilometre or two. Places: GeoNames, CC BY 4.0, every
place of 2,000 inhabitants or more. tools/page/geography.py makes both files: NumPy archives
compressed with xz, positions in whole steps, each as the difference from the one before.
"""

from __future__ import annotations

import io
import lzma
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hexveil.base import hexagons
from hexveil.base.arrays import Floats
from hexveil.report.templates import render_sentence

EARTH_KM = 6371.0088
FINE_KM = 2.0
"""Hexagons smaller than this need more digits, or neighbours would have the same words."""
NEIGHBOURS = 16
"""Places that are compared for a hexagon without one."""
RENOWN = 0.15
"""Exponent of the population: a place of a thousand times more people names 2.8 times as far."""


def describe_places(names: Sequence[str], places: Places) -> list[str]:
    """Return the location of each hexagon in words; empty without places.

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
    labels = _best_known(places, hexagons.resolution_of(indexes[0]))
    near = _neighbours(centres, places)
    result = []
    for row, index in enumerate(indexes):
        place = labels.get(index, near[row])
        distance, wind = _way(places.position[place], centres[row])
        corner, _ = _way(centres[row], np.array(hexagons.outline(index)[0]))
        far = "" if index in labels else format_distance(distance, fine=corner < FINE_KM)
        known = {"name": places.names[place], "distance": far, "wind": wind}
        result.append(render_sentence("page/location.txt", "location", **known))
    return result


def _best_known(places: Places, resolution: int) -> dict[int, int]:
    """Return the row of the place with the largest population in each hexagon that has one."""
    lon, lat = places.position.T
    where = zip(lat.tolist(), ((lon + 540) % 360 - 180).tolist(), strict=True)
    cells = [hexagons.of_place(*place, resolution) for place in where]
    # The last one wins: in order of population, and of equals the first in the list.
    order = np.lexsort((-np.arange(len(lon)), places.population))
    return dict(zip(np.asarray(cells)[order].tolist(), order.tolist(), strict=True))


def _neighbours(centres: NDArray[np.float64], places: Places) -> list[int]:
    """Return the row of the place that is near each centre and well known for its distance."""
    vectors, number = _vectors(places.position), min(NEIGHBOURS, len(places.names))
    result = []
    for centre in _vectors(centres):
        chord = np.linalg.norm(vectors - centre, axis=1)
        rows = np.argpartition(chord, number - 1)[:number]
        renown = np.maximum(places.population[rows], 1.0) ** RENOWN
        result.append(int(rows[np.argmin(chord[rows] / renown)]))
    return result


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


STEP = 0.001
"""Degrees."""
AREAS = ("land", "lake")
LINES = ("border", "region", "river")
"""Borders of countries, of their regions (in four large countries), and rivers."""
ATTRIBUTION = "Natural Earth; GeoNames (CC BY 4.0)"


class Box(NamedTuple):
    """A part of the map, in degrees; longitudes may run past 180.

    Attributes
    ----------
    west, south, east, north : float
    """

    west: float
    south: float
    east: float
    north: float


class Places(NamedTuple):
    """Named places.

    Attributes
    ----------
    names : tuple of str
    position : ndarray of float, shape (n, 2)
        Longitude and latitude, in degrees.
    population : ndarray of float, shape (n,)
        Inhabitants, or any other rank: the larger, the better known.
    """

    names: tuple[str, ...]
    position: NDArray[np.float64]
    population: NDArray[np.float64]

    def select(self, rows: NDArray[np.int64]) -> Places:
        """Return some of the places, in the order of `rows`."""
        names = tuple(self.names[row] for row in rows)
        return Places(names, self.position[rows], self.population[rows])

    def within(self, box: Box) -> Places:
        """Return the places in a box, moved by whole turns to where the box has them."""
        lon = box.west + np.mod(self.position[:, 0] - box.west, 360.0)
        lat = self.position[:, 1]
        inside = np.flatnonzero((lon <= box.east) & (lat >= box.south) & (lat <= box.north))
        result = self.select(inside)
        return Places(result.names, np.column_stack([lon[inside], lat[inside]]), result.population)


@cache
def world_places() -> Places:
    """Return all places of the package."""
    data = _archive("places")
    names = data["names"].tobytes().decode().split("\n")
    position = np.cumsum(np.column_stack([data["x"], data["y"]]), axis=0) * STEP
    # Four steps double a population.
    return Places(tuple(names), position, 2.0 ** (data["population"] / 4))


def outlines_in(kind: str, box: Box) -> list[Floats]:
    """Return the outlines of land or lakes in a box, cut along its edges; lines that touch it.

    Parameters
    ----------
    kind : str
        One of `AREAS` or `LINES`.
    box : Box

    Returns
    -------
    list of ndarray of float, shape (n, 2)
        Longitude and latitude. Rings of areas are not closed, and one in another is a hole.
    """
    if kind in LINES:
        return list(_touching(kind, box))
    return [ring for line in _touching(kind, box) if len(ring := _cut_ring(line, box)) > 2]


def _touching(kind: str, box: Box) -> Iterator[Floats]:
    """Yield the lines of a kind that meet the box, turned to where the box is."""
    lines, extent = _world_lines(kind)
    for turn in (-360.0, 0.0, 360.0):
        west, south, east, north = (extent + np.array([turn, 0.0, turn, 0.0])).T
        meets = (east >= box.west) & (west <= box.east)
        meets &= (north >= box.south) & (south <= box.north)
        for row in np.flatnonzero(meets):
            yield lines[row] + np.array([turn, 0.0])


@cache
def _world_lines(kind: str) -> tuple[list[Floats], NDArray[np.float64]]:
    """Return the lines of a kind, and west, south, east and north of each."""
    data = _archive("lines")
    moves = np.column_stack([data[f"{kind}_x"], data[f"{kind}_y"]])
    ends = np.cumsum(data[f"{kind}_corners"])
    lines = np.split(np.cumsum(moves, axis=0) * STEP, ends[:-1])
    extent = np.array([[*line.min(axis=0), *line.max(axis=0)] for line in lines])
    return lines, extent


@cache
def _archive(name: str) -> dict[str, NDArray[Any]]:
    file = resources.files("hexveil.report") / "assets" / "geography" / f"{name}.npz.xz"
    with np.load(io.BytesIO(lzma.decompress(file.read_bytes()))) as archive:
        return dict(archive)


def _cut_ring(ring: Floats, box: Box) -> Floats:
    """Return the part of a ring in the box."""
    limits = ((0, box.west, 1), (0, box.east, -1), (1, box.south, 1), (1, box.north, -1))
    for axis, limit, sign in limits:
        ring = _cut_side(ring, axis, limit, sign)
    return ring


def _cut_side(ring: Floats, axis: int, limit: float, sign: int) -> Floats:
    """Cut a ring along one side of the box (Sutherland and Hodgman's algorithm)."""
    after = np.roll(ring, -1, axis=0)
    beyond = sign * (ring[:, axis] - limit)
    beyond_after = sign * (after[:, axis] - limit)
    crosses = (beyond >= 0) != (beyond_after >= 0)
    # Where an edge does not cross the side, the share is not used.
    length = np.where(crosses, beyond - beyond_after, 1.0)
    crossing = ring + (beyond / length)[:, None] * (after - ring)
    crossing[:, axis] = limit
    corners = np.stack([ring, crossing], axis=1)
    remaining: Floats = corners[np.stack([beyond >= 0, crosses], axis=1)]
    return remaining
