"""Coast, borders, rivers, lakes and places of the world, from two files of the package.

Lines: Natural Earth, public domain, coast and borders at 1:10 million, rivers, lakes and regions at
1:50 million; they are thinned, and off by up to a kilometre or two. Places: GeoNames, CC BY 4.0,
every place of 500 inhabitants or more. tools/page/geography.py makes both files: NumPy archives
compressed with xz, positions in whole steps, each as the difference from the one before.
"""

from __future__ import annotations

import io
import lzma
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from hexveil.base.arrays import Floats


STEP = 0.001
"""Degrees."""
AREAS = ("land", "lake")
LINES = ("border", "region", "river")
"""Borders of countries, of their regions (in four large countries), and rivers."""
ATTRIBUTION = "Natural Earth; GeoNames (CC BY 4.0)"


@dataclass(frozen=True)
class Box:
    """A part of the map, in degrees; longitudes may run past 180.

    Attributes
    ----------
    west, south, east, north : float
    """

    west: float
    south: float
    east: float
    north: float


@dataclass(frozen=True)
class Places:
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
        found = self.select(inside)
        return Places(found.names, np.column_stack([lon[inside], lat[inside]]), found.population)


@cache
def world_places() -> Places:
    """Return all places of the package."""
    data = _archive("places")
    names = data["names"].tobytes().decode().split("\n")
    position = np.cumsum(np.column_stack([data["x"], data["y"]]), axis=0) * STEP
    return Places(tuple(names), position, data["population"].astype(np.float64))


def areas_in(kind: str, box: Box) -> list[Floats]:
    """Return the outlines of land or lakes in a box, cut along its edges.

    Parameters
    ----------
    kind : str
        One of `AREAS`.
    box : Box

    Returns
    -------
    list of ndarray of float, shape (n, 2)
        Rings of longitude and latitude, not closed. A ring in another is a hole.
    """
    rings = (_cut_ring(ring, box) for ring in _touching(kind, box))
    return [ring for ring in rings if len(ring) > 2]


def lines_in(kind: str, box: Box) -> list[Floats]:
    """Return the borders or rivers that touch a box.

    Parameters
    ----------
    kind : str
        One of `LINES`.
    box : Box

    Returns
    -------
    list of ndarray of float, shape (n, 2)
        Longitude and latitude along each line.
    """
    return list(_touching(kind, box))


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
    file = resources.files("hexveil.report.geography") / "data" / f"{name}.npz.xz"
    with np.load(io.BytesIO(lzma.decompress(file.read_bytes()))) as archive:
        return dict(archive)


def _cut_ring(ring: Floats, box: Box) -> Floats:
    """Return the part of a ring in the box."""
    limits = ((0, box.west, 1), (0, box.east, -1), (1, box.south, 1), (1, box.north, -1))
    for axis, limit, sign in limits:
        if not len(ring):
            break
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
    kept: Floats = corners[np.stack([beyond >= 0, crosses], axis=1)]
    return kept
