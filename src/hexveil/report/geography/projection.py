"""Positions of the hexagons on the map: Mercator metres around the middle of the data.

Mercator keeps hexagons hexagonal. It is scaled by the cosine of the middle latitude, so that a
metre of the drawing is a metre of ground in the middle of the map (exact for a city, a fiction
for a continent, where no scale bar is shown). The middle is chosen so that no data lie across the
edge: the map is cut in the widest band of longitudes without hexagons.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hexveil.base import hexagons
from hexveil.base.arrays import Ints

EARTH = 6_371_008.8
LAST_LATITUDE = 85.0  # Mercator has no poles
Ring = list[tuple[float, float]]


@dataclass(frozen=True)
class Projection:
    """Mercator around a middle, in whole steps of `unit` metres.

    Attributes
    ----------
    lon, lat : float
        The middle, in degrees.
    unit : float
        Metres a step; small against a hexagon, so that rounding is not seen.
    """

    lon: float
    lat: float
    unit: float

    def steps(self, lon: NDArray[np.float64], lat: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return (x, y) in whole steps from the middle, shape (n, 2)."""
        scale = self.half_turn / math.pi
        x = np.radians(lon - self.lon)
        y = _mercator(lat) - float(_mercator(np.array([self.lat]))[0])
        return np.rint(np.column_stack([x, y]) * scale).astype(np.int64)

    @property
    def half_turn(self) -> float:
        """Half the width of a map of the whole world, in steps."""
        return math.pi * EARTH * math.cos(math.radians(self.lat)) / self.unit

    def degrees(self, x: float, y: float) -> tuple[float, float]:
        """Return longitude and latitude of a position in steps from the middle."""
        scale = self.half_turn / math.pi
        middle = float(_mercator(np.array([self.lat]))[0])
        lat = math.degrees(math.asin(math.tanh(y / scale + middle)))
        return self.lon + math.degrees(x / scale), lat


def _mercator(lat: NDArray[np.float64]) -> NDArray[np.float64]:
    inside = np.radians(np.clip(lat, -LAST_LATITUDE, LAST_LATITUDE))
    return np.asarray(np.arctanh(np.sin(inside)), dtype=np.float64)


def unwrapped_rings(names: Sequence[str]) -> list[Ring]:
    """Return the outline of each hexagon, all on one map: longitudes run on past 180."""
    rings = [_unwound(hexagons.outline(int(name, 16))) for name in names]
    west = _widest_gap([sum(lon for lon, _ in ring) / len(ring) for ring in rings])
    return [_move_east_of(ring, west) for ring in rings]


def projected_rings(names: Sequence[str]) -> tuple[Projection, list[Ints]]:
    """Return a projection of hexagons, and their outlines in its steps."""
    outlines = unwrapped_rings(names)
    projection = centred_projection(outlines)
    rings = [projection.steps(*np.array(ring, dtype=np.float64).T) for ring in outlines]
    return projection, rings


def centred_projection(rings: Sequence[Ring]) -> Projection:
    """Return the projection centred on the middle of the outlines."""
    lons = [lon for ring in rings for lon, _ in ring]
    lats = [max(-LAST_LATITUDE, min(LAST_LATITUDE, lat)) for ring in rings for _, lat in ring]
    low, high = _mercator(np.array([min(lats), max(lats)]))
    lat = math.degrees(math.asin(math.tanh((low + high) / 2)))
    height = min(max(y for _, y in ring) - min(y for _, y in ring) for ring in rings)
    metres = math.radians(height) * EARTH
    # A unit is at most a two-hundredth of a hexagon, so that rounding to it is invisible.
    unit = 10.0 ** math.floor(math.log10(max(metres, 1e-6) / 200))
    return Projection((min(lons) + max(lons)) / 2, lat, unit)


def align_with(lines: Iterable[Sequence[tuple[float, float]]], middle: float) -> list[Ring]:
    """Return lines moved by whole turns to within half a turn of the middle longitude."""
    aligned = []
    for line in lines:
        ring = _along(line)
        turn = 360.0 * round((middle - ring[0][0]) / 360.0)
        aligned.append([(lon + turn, lat) for lon, lat in ring])
    return aligned


def _along(line: Sequence[tuple[float, float]]) -> Ring:
    """Follow a line over the 180th meridian instead of jumping back."""
    lons = np.unwrap(np.array([lon for lon, _ in line]), period=360.0)
    return [(float(lon), lat) for lon, (_, lat) in zip(lons, line, strict=True)]


def _unwound(ring: Ring) -> Ring:
    """Follow an outline; one that runs around a pole is closed along the map's edge."""
    closed = _along([*ring, ring[0]])
    if abs(closed[-1][0] - closed[0][0]) < 180:
        return closed[:-1]
    edge = math.copysign(LAST_LATITUDE, closed[0][1])
    return [*closed, (closed[-1][0], edge), (closed[0][0], edge)]


def _widest_gap(middles: Sequence[float]) -> float:
    """Return the longitude in the middle of the widest empty band."""
    # The widest empty band is where the map is cut: no data lie across its edge.
    sorted_lons = np.sort(np.mod(middles, 360.0))
    gaps = np.diff(np.append(sorted_lons, sorted_lons[0] + 360.0))
    widest = int(np.argmax(gaps))
    return float(sorted_lons[widest] + gaps[widest] / 2)


def _move_east_of(ring: Ring, west: float) -> Ring:
    """Move an outline by whole turns so that its middle lies within a turn east of `west`."""
    middle = sum(lon for lon, _ in ring) / len(ring)
    turn = math.floor((middle - west) / 360.0) * 360.0
    # The window's middle goes back to within half a turn, where longitudes are ordinary.
    base = 360.0 * round((west + 180.0) / 360.0)
    return [(lon - turn - base, lat) for lon, lat in ring]
