"""Hexagons of many places by a table of pixels: the same answer as `hexagons.of_places`, sooner.

A pixel is a rectangle of degrees, about an H3 edge / 16 across. If the 16 corners of the block of
3 x 3 pixels around it lie in one hexagon, so does the whole pixel: any other hexagon reaching
into the middle pixel would have to pass between two corners one pixel apart, but it is a convex
shape more than 20 pixels across with angles over 100 degrees, so where it is one pixel deep it is
more than two wide. Places in such pixels are looked up, all others are computed.

Tiles of pixels are filled where many places were seen. Nothing here depends on values or users.
"""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from hexveil import hexagons

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BITS = 6
TILE = 1 << _BITS
"""Pixels along a side of a tile."""
LARGEST_LATITUDE = 70.0
"""Beyond it a degree of longitude is short, and every place is computed."""
MOST_TILES = 2_000
_EDGE_DEGREES = 9.95
"""Average H3 edge at resolution 0, in degrees of a great circle; each finer is sqrt(7) shorter."""
_TABLE = 1 << 16
_FREQUENT = 1_500
"""Places seen in a tile before it is filled; filling it computes (TILE + 3)^2."""


class Pixels:
    """Hexagons of places at one resolution, learning where the places are.

    Parameters
    ----------
    resolution : int
    frequent : int
        Places seen in a tile before it is filled.
    """

    def __init__(self, resolution: int, frequent: int = _FREQUENT) -> None:
        self._resolution = resolution
        self._frequent = frequent
        self._per_degree = 16 / (_EDGE_DEGREES / math.sqrt(7) ** resolution)
        self._lock = threading.Lock()
        self._seen: dict[int, int] = {}
        # Which tile stands in each place of the hash table, and where its pixels are.
        self._tag = np.full(_TABLE, -1, dtype=np.int64)
        self._slot = np.zeros(_TABLE, dtype=np.int64)
        self._filled = 0
        self._hexagon = np.zeros((16, TILE * TILE), dtype=np.uint64)

    def of_places(self, lat: pa.Array, lon: pa.Array) -> pa.Array:
        """Return the hexagon of each place as uint64; null for a null place."""
        if self._resolution < 5 or not len(lat):
            # A coarse hexagon is cut by the icosahedron's edges; there are never many anyway.
            return hexagons.of_places(lat, lon, self._resolution)
        lats, lons = (np.asarray(part.to_numpy(zero_copy_only=False)) for part in _whole(lat, lon))
        if lat.null_count or lon.null_count:
            absent = np.isnan(lats) | np.isnan(lons)
            found = np.zeros(lats.size, dtype=np.uint64)
            found[~absent] = self._of_arrays(lats[~absent], lons[~absent])
            return pa.array(found, mask=absent)
        return pa.array(self._of_arrays(lats, lons))

    def _of_arrays(self, lat: NDArray[np.float64], lon: NDArray[np.float64]) -> NDArray[np.uint64]:
        # Both are 0 or more, so that cutting off the fraction rounds down.
        row = ((lat + 90.0) * self._per_degree).astype(np.int64)
        column = ((lon + 180.0) * self._per_degree).astype(np.int64)
        tile_row, tile_column = row >> _BITS, column >> _BITS
        tile = (tile_row << 32) + tile_column
        place = (tile_row * 251 + tile_column) & (_TABLE - 1)
        known = self._tag[place] == tile
        # Read before the pixels, which are there before a slot names them.
        start = self._slot[place] << 2 * _BITS
        inside = ((row & (TILE - 1)) << _BITS) + (column & (TILE - 1))
        found: NDArray[np.uint64] = self._hexagon.ravel()[start + inside]
        all_known = bool(known.all())
        if not all_known:
            found[~known] = 0
        rest = np.flatnonzero(found == 0)
        if rest.size:
            found[rest] = _direct(lat[rest], lon[rest], self._resolution)
            if not all_known:
                self._learn(tile[~known], lat[~known])
        return found

    def _learn(self, tiles: NDArray[np.int64], lat: NDArray[np.float64]) -> None:
        """Count places in tiles that are not filled, and fill those that are frequent."""
        usable = np.abs(lat) < LARGEST_LATITUDE
        names, counts = np.unique(tiles[usable], return_counts=True)
        with self._lock:
            for tile, count in zip(names.tolist(), counts.tolist(), strict=True):
                self._seen[tile] = self._seen.get(tile, 0) + count
                if self._seen[tile] >= self._frequent and self._filled < MOST_TILES:
                    self._fill(tile)
                    self._seen[tile] = 0
            if len(self._seen) > _TABLE:
                self._seen.clear()

    def _fill(self, tile: int) -> None:
        row, column = tile >> 32, tile & 0xFFFFFFFF
        place = (row * 251 + column) & (_TABLE - 1)
        if self._tag[place] >= 0:
            return
        if self._filled == len(self._hexagon):
            self._hexagon = np.concatenate([self._hexagon, np.zeros_like(self._hexagon)])
        self._hexagon[self._filled] = self._pixels(row * TILE, column * TILE)
        self._slot[place] = self._filled
        self._filled += 1
        # Last, so that another thread never finds a tile before its pixels.
        self._tag[place] = tile

    def _pixels(self, row: int, column: int) -> NDArray[np.uint64]:
        """Return the hexagon of each pixel of a tile, 0 where it may hold several."""
        side = np.arange(-1, TILE + 2)
        lat = (row + side) / self._per_degree - 90.0
        lon = (column + side) / self._per_degree - 180.0
        if lon[0] < -180 or lon[-1] > 180 or np.abs(lat).max() > LARGEST_LATITUDE + 1:
            return np.zeros(TILE * TILE, dtype=np.uint64)
        lats, lons = np.meshgrid(lat, lon, indexing="ij")
        corner = _direct(lats.ravel(), lons.ravel(), self._resolution).reshape(lats.shape)
        pixel = corner[1 : TILE + 1, 1 : TILE + 1]
        same = np.ones(pixel.shape, dtype=bool)
        for down in range(4):
            for right in range(4):
                same &= corner[down : down + TILE, right : right + TILE] == pixel
        return np.where(same, pixel, np.uint64(0)).ravel()


def _whole(*parts: pa.Array) -> list[pa.Array]:
    return [p.combine_chunks() if isinstance(p, pa.ChunkedArray) else p for p in parts]


def _direct(
    lat: NDArray[np.float64], lon: NDArray[np.float64], resolution: int
) -> NDArray[np.uint64]:
    found = hexagons.of_places(pa.array(lat), pa.array(lon), resolution)
    return np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.uint64)
