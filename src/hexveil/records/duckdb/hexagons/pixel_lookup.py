"""Hexagons of many places by a table of pixels: the same answer as `hexagons.of_places`, sooner.

What stands in a pixel, and why that is exact: `raster`. Tiles of pixels are filled where many
places were seen, or are to be expected. Nothing here depends on values or users.
"""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from hexveil.base import hexagons
from hexveil.base.arrow_numbers import to_arrow, to_numpy
from hexveil.records.duckdb.hexagons.raster import (
    LARGEST_LATITUDE,
    MARGIN,
    TILE,
    TILE_BITS,
    BorderLines,
    Raster,
    compute_hexagons,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hexveil.base.arrays import Floats

    Codes = NDArray[np.int32]
    Places = NDArray[np.uint32]
    Names = NDArray[np.uint64]

COARSEST = 5
"""Coarser hexagons are computed: edges of the icosahedron cut them."""
MAX_TILES = 4_000
_TABLE = 1 << 16
_NO_TAG = 2**32 - 1
FILL_THRESHOLD = 3_000
"""Places seen in a tile before it is filled, which costs as much as computing so many."""
_AT_ONCE = 32
"""Tiles that are filled together."""


class PixelLookup:
    """Hexagons of places at one resolution, learning where the places are.

    Parameters
    ----------
    resolution : int
    frequent : int
        Places seen in a tile before it is filled.

    Attributes
    ----------
    expected : int
        How many places will be asked for, if that is known: then a tile is filled as soon as so
        many of them are expected in it.
    """

    def __init__(self, resolution: int, frequent: int = FILL_THRESHOLD) -> None:
        self._resolution = resolution
        self._frequent = frequent
        self.expected = 0
        self._asked = 0
        self._raster = Raster(resolution)
        self._lock = threading.Lock()
        self._seen: dict[int, int] = {}
        # Which tile stands in each place of the hash table, and where its pixels are. The place
        # itself tells a column among so many that follow each other, if the row is known.
        self._strips = (int(360.0 * self._raster.per_degree) >> TILE_BITS) // _TABLE + 1
        self._tag = np.full(_TABLE, _NO_TAG, dtype=np.uint32)
        self._slot = np.zeros(_TABLE, dtype=np.int32)
        self._filled = 0
        self._code = np.zeros((16, TILE * TILE), dtype=np.int32)

    def of_places(self, lat: pa.Array, lon: pa.Array) -> pa.Array:
        """Return the hexagon of each place as uint64; null for a null place."""
        if self._resolution < COARSEST or not len(lat):
            return hexagons.of_places(lat, lon, self._resolution)
        lats, lons = (np.asarray(to_numpy(column)) for column in _contiguous(lat, lon))
        if lat.null_count or lon.null_count:
            absent = np.isnan(lats) | np.isnan(lons)
            hexagon = np.zeros(lats.size, dtype=np.uint64)
            hexagon[~absent] = self._of_arrays(lats[~absent], lons[~absent])
            return pa.array(hexagon, mask=absent)
        return to_arrow(self._of_arrays(lats, lons))

    @property
    def names(self) -> Names:
        """The hexagon of each number that `numbers` returned."""
        return self._raster.numbers.names

    def numbers(self, lat: Floats, lon: Floats) -> Codes:
        """Return the number of each place's hexagon, which stays the same; see `names`."""
        if self._resolution < COARSEST:
            hexagon = compute_hexagons(lat, lon, self._resolution)
            with self._lock:
                return self._raster.numbers.number(hexagon)
        number, undecided, computed = self._decide(lat, lon)
        if undecided.size:
            with self._lock:
                number[undecided] = self._raster.numbers.number(computed)
        return number

    def _of_arrays(self, lat: Floats, lon: Floats) -> Names:
        number, undecided, computed = self._decide(lat, lon)
        # Read after the numbers, and grown before they are given out.
        hexagon: Names = self._raster.numbers.names[number]
        hexagon[undecided] = computed
        return hexagon

    def _decide(self, lat: Floats, lon: Floats) -> tuple[Codes, NDArray[np.int64], Names]:
        """Return each place's hexagon number (0: undecided), undecided places, their hexagons."""
        # Both are 0 or more, so that cutting off the fraction rounds down.
        row: Places = ((lat + 90.0) * self._raster.per_degree).astype(np.uint32)
        column: Places = ((lon + 180.0) * self._raster.per_degree).astype(np.uint32)
        place, tag = self._place(row >> np.uint32(TILE_BITS), column >> np.uint32(TILE_BITS))
        is_filled = self._tag.take(place) == tag
        # Read after the tags, and before what they stand for: that is made in the other order.
        position = self._slot.take(place)
        position <<= 2 * TILE_BITS
        row &= TILE - 1
        row <<= TILE_BITS
        column &= TILE - 1
        position |= row.view(np.int32)
        position |= column.view(np.int32)
        code = self._code.take(position)
        all_there = bool(is_filled.all())
        if not all_there:
            code[~is_filled] = 0
        number = _decide_by_line(self._raster.lines, code, lat, lon)
        undecided = np.flatnonzero(number == 0)
        computed = compute_hexagons(lat[undecided], lon[undecided], self._resolution)
        self._asked += lat.size
        if not all_there:
            self._learn(lat[~is_filled], lon[~is_filled])
        return number, undecided, computed

    def _place(self, row: Places, column: Places) -> tuple[Places, Places]:
        """Return each tile's place in the hash table, and the tag that identifies it there."""
        place = row * np.uint32(251)
        place += column
        place &= np.uint32(_TABLE - 1)
        if self._strips == 1:
            return place, row
        return place, row * np.uint32(self._strips) + column // np.uint32(_TABLE)

    def _learn(self, lat: Floats, lon: Floats) -> None:
        """Count places in tiles that are not filled, and fill those that are frequent."""
        # Nearer the poles no tile is ever decided, however many places it has.
        usable = np.abs(lat) < LARGEST_LATITUDE
        row, column = (
            ((degrees[usable] + offset) * self._raster.per_degree).astype(np.int64) >> TILE_BITS
            for degrees, offset in ((lat, 90.0), (lon, 180.0))
        )
        names, counts = np.unique((row << 32) + column, return_counts=True)
        with self._lock:
            for tile, count in zip(names.tolist(), counts.tolist(), strict=True):
                self._seen[tile] = self._seen.get(tile, 0) + count
            to_come = max(self.expected - self._asked, 0) / self._asked
            enough = min(self._frequent, self._frequent / to_come if to_come else math.inf)
            frequent = [tile for tile in names.tolist() if self._seen[tile] >= enough]
            for tile in frequent:
                del self._seen[tile]
            for start in range(0, len(frequent), _AT_ONCE):
                self._fill(frequent[start : start + _AT_ONCE])
            if len(self._seen) > _TABLE:
                # A bound on memory: places scattered over the globe fill no tile.
                self._seen.clear()

    def _fill(self, tiles: list[int]) -> None:
        """Fill tiles, as many as the hash table has free places for."""
        free: dict[int, tuple[int, np.uint32]] = {}
        for tile in tiles[: max(MAX_TILES - self._filled, 0)]:
            row, column = divmod(tile, 1 << 32)
            (place,), (tag,) = self._place(
                np.array([row], np.uint32), np.array([column], np.uint32)
            )
            if self._tag[place] == _NO_TAG:
                free.setdefault(int(place), (tile, tag))
        if not free:
            return
        end = self._filled + len(free)
        if end > len(self._code):
            grown = np.zeros((max(end, 2 * len(self._code)), TILE * TILE), dtype=np.int32)
            grown[: self._filled] = self._code[: self._filled]
            self._code = grown
        self._code[self._filled : end] = self._raster.codes(
            np.array([tile for tile, _ in free.values()])
        )
        for place, (_, tag) in free.items():
            self._slot[place] = self._filled
            self._filled += 1
            # Last, so that another thread never finds a tile before its pixels.
            self._tag[place] = tag


def _decide_by_line(lines: BorderLines, code: Codes, lat: Floats, lon: Floats) -> Codes:
    """Return the number of the hexagon that a pixel's code decides for each place; 0 is none."""
    pair = np.flatnonzero(code < 0)
    line = -code[pair]
    distance = _signed_distance(lines.line[:, line], lat[pair], lon[pair])
    side = np.where(distance > MARGIN, lines.hexagon_a[line], lines.hexagon_b[line])
    side[np.abs(distance) <= MARGIN] = 0
    code[pair] = side
    return code


def _signed_distance(line: Floats, lat: Floats, lon: Floats) -> Floats:
    """Return how far places are from an edge, in pixels: above zero on the first one's side."""
    return np.asarray(line[0] + line[1] * lat + line[2] * lon)


def _contiguous(*parts: pa.Array) -> list[pa.Array]:
    return [p.combine_chunks() if isinstance(p, pa.ChunkedArray) else p for p in parts]
