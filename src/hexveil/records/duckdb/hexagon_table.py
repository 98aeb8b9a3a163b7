"""Hexagons of many places by a table of pixels: what `hexagons.of_places` gives, sooner.

A pixel is a rectangle of degrees whose height is an H3 edge / `FINER`. Where its four corners lie
in one hexagon of six corners, every place in it does that is not within a margin of its sides: H3
draws an edge of such a hexagon on one face of the icosahedron, as an arc of a great circle, and its
angles are below 180 degrees. On a map of degrees an arc is off its chord by less than d = 0.65 l²
for an edge of l radians, up to `LARGEST_LATITUDE`. Shift the line of each chord outwards by d: the
region within all these lines is convex and has the four corners, so it has the pixel. A place that
is 2 d or more from all sides is the centre of a disc in the pixel, hence in the region: it is 2 d
from each line, d from each chord, and so inside of each arc. For edges of twice their average, 2 d
is 5.2 edge² radians, or 5.2 `FINER` edge pixels; the margin is 5.4, and 1e-7 degrees for what H3
and additions round (3.5e-8 was the most that was found). Other places are computed.

Tiles of pixels are filled where many places were seen, or are to be expected, within a window
around the first places. Nothing here depends on values or users.
"""

from __future__ import annotations

import math
import threading

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hexveil.base import hexagons
from hexveil.base.arrays import Floats
from hexveil.base.arrow_numbers import to_arrow, to_numpy

Codes = NDArray[np.int32]
Names = NDArray[np.uint64]

RESOLUTIONS = range(6, 13)
"""Where edges are short enough to be nearly straight, and long beside what is rounded."""
LARGEST_LATITUDE = 65.0
FINER, TILE_BITS, SIDE_BITS = 12, 6, 10
"""Pixels of an edge; bits of the pixels across a tile, and of the tiles across the window."""
FILL_THRESHOLD = 6_000
"""Places expected in a tile before it is filled, which costs as much as computing so many."""
MAX_TILES = 4_000
_EDGE = 0.1724
"""Average edge at resolution 0, in radians."""
_BLOCK = 1 << 15
"""Places looked up at once: what is made of them stays in a processor's own memory."""


class HexagonTable:
    """Hexagons of places at one resolution, learning where the places are.

    Parameters
    ----------
    resolution : int
    expected : int
        How many places will be asked for, if that is known: then a tile is filled as soon as
        enough of them are expected in it.
    """

    def __init__(self, resolution: int, expected: int = 0) -> None:
        self._resolution, self._expected, self._asked = resolution, expected, 0
        edge = _EDGE / math.sqrt(7) ** resolution
        self._per_degree = FINER / math.degrees(edge)
        self._margin = 5.4 * FINER * edge + 1e-7 * self._per_degree
        self._origin: tuple[float, float] | None = None
        self._known: dict[int, int] = {}
        self.names: Names = np.zeros(1, dtype=np.uint64)
        """The hexagon of each number that `numbers` returned; number 0 is none."""
        self._slot = np.zeros(1 << 2 * SIDE_BITS, dtype=np.int32)
        self._seen = np.zeros(1 << 2 * SIDE_BITS, dtype=np.int32)
        # Tile 0 decides nothing.
        self._code: list[Codes] = [np.zeros(1 << 2 * TILE_BITS, dtype=np.int32)]
        self._codes = self._code[0]
        self._lock = threading.Lock()

    def of_places(self, lat: pa.Array, lon: pa.Array) -> pa.Array:
        """Return the hexagon of each place as uint64; null for a null place."""
        lats, lons = (np.asarray(to_numpy(column)) for column in (lat, lon))
        absent = np.isnan(lats) | np.isnan(lons)
        number = np.zeros(lats.size, dtype=np.int32)
        number[~absent] = self.numbers(lats[~absent], lons[~absent])
        # Read after the numbers: names grow, and stay what they are.
        hexagon = self.names[number]
        return pa.array(hexagon, mask=absent) if absent.any() else to_arrow(hexagon)

    def numbers(self, lat: Floats, lon: Floats) -> Codes:
        """Return the number of each place's hexagon, which stays the same; see `names`."""
        number = np.zeros(lat.size, dtype=np.int32)
        with self._lock:
            if self._resolution in RESOLUTIONS and lat.size:
                for start in range(0, lat.size, _BLOCK):
                    block = slice(start, start + _BLOCK)
                    number[block] = self._looked_up(lat[block], lon[block])
            unknown = np.flatnonzero(number == 0)
            number[unknown] = self._computed(lat[unknown], lon[unknown])
        return number

    def _computed(self, lat: Floats, lon: Floats) -> Codes:
        """Return the numbers of hexagons that H3 computes."""
        found = hexagons.of_places(to_arrow(lat), to_arrow(lon), self._resolution)
        encoded, known = found.dictionary_encode(), self._known
        names = encoded.dictionary.to_pylist()
        number = np.array([known.setdefault(name, len(known) + 1) for name in names], np.int32)
        if len(known) >= self.names.size:
            self.names = np.fromiter((0, *known), np.uint64, len(known) + 1)
        return np.asarray(number[to_numpy(encoded.indices)])

    def _looked_up(self, lat: Floats, lon: Floats) -> Codes:
        """Return the numbers of hexagons that pixels tell, and 0."""
        if self._origin is None:
            half = (1 << (TILE_BITS + SIDE_BITS)) / 2.0 / self._per_degree
            self._origin = float(np.median(lat)) - half, float(np.median(lon)) - half
        tile, pixel = np.zeros(lat.size, dtype=np.int32), np.zeros(lat.size, dtype=np.int32)
        decided = np.ones(lat.size, dtype=np.bool_)
        for degrees, origin in zip((lat, lon), self._origin, strict=True):
            place = (degrees - origin) * self._per_degree
            # Of a place before the window the fraction is below 0, and decides nothing.
            whole = place.astype(np.int32)
            place -= whole
            place -= 0.5
            decided &= np.abs(place) < 0.5 - self._margin
            decided &= whole < 1 << (TILE_BITS + SIDE_BITS)
            whole &= (1 << (TILE_BITS + SIDE_BITS)) - 1
            tile = (tile << SIDE_BITS) | (whole >> TILE_BITS)
            pixel = (pixel << TILE_BITS) | (whole & ((1 << TILE_BITS) - 1))
        slot = self._slot[tile]
        code: Codes = self._codes[(slot << 2 * TILE_BITS) | pixel]
        code[~decided] = 0
        self._asked += lat.size
        if not slot.all():
            self._learn(tile[decided & (slot == 0)])
        return code

    def _learn(self, tile: NDArray[np.int32]) -> None:
        """Count places in tiles that are not filled, and fill those that are frequent."""
        tiles, counts = np.unique(tile, return_counts=True)
        self._seen[tiles] += counts.astype(np.int32)
        to_come = max(self._expected / self._asked, 1.0)
        frequent = tiles[self._seen[tiles] * to_come >= FILL_THRESHOLD]
        for number in frequent[: MAX_TILES - len(self._code)].tolist():
            self._slot[number] = len(self._code)
            self._code.append(self._filled(*divmod(number, 1 << SIDE_BITS)))
        if frequent.size:
            self._codes = np.concatenate(self._code)

    def _filled(self, row: int, column: int) -> Codes:
        """Return the number of the hexagon that each pixel of a tile lies in; 0 is none."""
        assert self._origin is not None  # noqa: S101  known since the first places
        side = np.arange((1 << TILE_BITS) + 1)
        lat, lon = (
            origin + ((index << TILE_BITS) + side) / self._per_degree
            for origin, index in zip(self._origin, (row, column), strict=True)
        )
        if np.abs(lat).max() > LARGEST_LATITUDE or np.abs(lon).max() > 180.0:
            return np.zeros(1 << 2 * TILE_BITS, dtype=np.int32)
        lats, lons = np.meshgrid(lat, lon, indexing="ij")
        corner = self._computed(lats.ravel(), lons.ravel()).reshape(lats.shape)
        one = corner[1:, 1:]
        alike = (one == corner[:-1, 1:]) & (one == corner[1:, :-1]) & (one == corner[:-1, :-1])
        for number in np.unique(one):
            if len(hexagons.outline(int(self.names[number]))) != 6:
                alike &= one != number
        return np.where(alike, one, 0).astype(np.int32).ravel()
