"""Hexagons of many places by a table of pixels: the same answer as `hexagons.of_places`, sooner.

A pixel is a rectangle of degrees, about an H3 edge / 16 across. Let the 16 corners of the block of
3 x 3 pixels around it lie in the hexagons of a set S. Then so does the whole pixel. For any other
hexagon with a place in it reaches out of the block, and being convex it leaves between two corners
one pixel apart: a pixel from its farthest place it is less than a pixel wide. But its angles are
over 100 degrees and its edges far longer than a pixel, so there it is at least 2 tan(50 degrees) =
2.38 wide, times cos(lat) where it points east or west: more than one up to `LARGEST_LATITUDE`.
If S is one hexagon, the place is looked up.

If S is two, A and B, they meet in an edge, which H3 draws as a straight line on a face of the
icosahedron: an arc of a great circle between the two corners that they share. Where both have six
corners (those across an edge of the icosahedron may have more, pentagons fewer) a place is on A's
side of the arc or on B's. In degrees the arc is off its tangent in the middle by at most
l² tan(lat) / 2 radians, l half an edge: 0.01 pixels at resolution 5 and 65 degrees, and less at
finer ones or nearer the equator. Places more than `MARGIN` pixels from the tangent are decided by
its sign. The block's corners, of which the hexagons are known, must agree with it, or the pixel is
not decided. All other places are computed.

What H3 rounds is not in this: corners and places are each off by some 1e-9 degrees (3.5e-8 was the
most that was found), which is 0.0002 pixels at resolution 12 and 0.12 at 15. So lines are used up
to `FINEST_LINES`, while single hexagons, with a whole pixel to spare, are looked up at all.

Tiles of pixels are filled where many places were seen. Nothing here depends on values or users.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from hexveil import hexagons

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Codes = NDArray[np.int32]
    Floats = NDArray[np.float64]
    Names = NDArray[np.uint64]

_BITS = 6
TILE = 1 << _BITS
"""Pixels along a side of a tile."""
LARGEST_LATITUDE = 65.0
"""Beyond it a degree of longitude is short, and every place is computed."""
COARSEST = 5
"""Coarser hexagons are computed: edges of the icosahedron cut them."""
MOST_TILES = 4_000
MARGIN = 0.05
"""Pixels to either side of an edge in which places are computed."""
FINEST_LINES = 12
CORNERS = 6
_EDGE_DEGREES = 9.95
"""Average H3 edge at resolution 0, in degrees of a great circle; each finer is sqrt(7) shorter."""
_TABLE = 1 << 16
FREQUENT = 8_000
"""Places seen in a tile before it is filled, which costs as much as computing so many."""


@dataclass(frozen=True, eq=False)
class Known:
    """What codes of pixels stand for; made anew when it grows, so that threads see whole ones.

    Attributes
    ----------
    first, second : ndarray of int32
        The numbers of the hexagons of code -i < 0: where the line is above the margin, and below
        it. A code i > 0 is the number of a hexagon itself, and 0 decides none.
    line : ndarray of float, shape (3, n)
        Distance of a place from their edge in pixels: a constant, and factors of latitude and
        longitude.
    """

    first: Codes
    second: Codes
    line: Floats

    @classmethod
    def empty(cls) -> Known:
        """Return what stands for nothing but code 0."""
        none = np.zeros(1, dtype=np.int32)
        return cls(none, none, np.zeros((3, 1)))


class Numbers:
    """Hexagons numbered from 1 as they are met; number 0 is none.

    Attributes
    ----------
    names : ndarray of uint64
        The hexagon of each number; replaced when it grows, so that threads see whole ones.
    """

    def __init__(self) -> None:
        self.names: Names = np.zeros(1, dtype=np.uint64)
        self._number: dict[int, int] = {}

    def of(self, hexagon: Names) -> Codes:
        """Return the number of each hexagon, a new one if it has none; one thread at a time."""
        found, where = np.unique(hexagon, return_inverse=True)
        known = self._number
        new = [name for name in found.tolist() if name not in known]
        if new:
            known.update(zip(new, range(len(known) + 1, len(known) + 1 + len(new)), strict=True))
            self.names = np.concatenate((self.names, np.array(new, dtype=np.uint64)))
        number = np.array([known[name] for name in found.tolist()], dtype=np.int32)
        return np.asarray(number[where.ravel()])


class Pixels:
    """Hexagons of places at one resolution, learning where the places are.

    Parameters
    ----------
    resolution : int
    frequent : int
        Places seen in a tile before it is filled.
    """

    def __init__(self, resolution: int, frequent: int = FREQUENT) -> None:
        self._resolution = resolution
        self.frequent = frequent
        self._per_degree = 16 / (_EDGE_DEGREES / math.sqrt(7) ** resolution)
        self._lock = threading.Lock()
        self._seen: dict[int, int] = {}
        # Which tile stands in each place of the hash table, and where its pixels are.
        self._tag = np.full(_TABLE, -1, dtype=np.int64)
        self._slot = np.zeros(_TABLE, dtype=np.int64)
        self._filled = 0
        self._code = np.zeros((16, TILE * TILE), dtype=np.int32)
        self._known = Known.empty()
        self._numbers = Numbers()
        self._line_of: dict[int, int] = {}

    def of_places(self, lat: pa.Array, lon: pa.Array) -> pa.Array:
        """Return the hexagon of each place as uint64; null for a null place."""
        if self._resolution < COARSEST or not len(lat):
            return hexagons.of_places(lat, lon, self._resolution)
        lats, lons = (np.asarray(part.to_numpy(zero_copy_only=False)) for part in _whole(lat, lon))
        if lat.null_count or lon.null_count:
            absent = np.isnan(lats) | np.isnan(lons)
            found = np.zeros(lats.size, dtype=np.uint64)
            found[~absent] = self._of_arrays(lats[~absent], lons[~absent])
            return pa.array(found, mask=absent)
        return pa.array(self._of_arrays(lats, lons))

    @property
    def names(self) -> Names:
        """The hexagon of each number that `numbers` returned."""
        return self._numbers.names

    def numbers(self, lat: Floats, lon: Floats) -> Codes:
        """Return the number of each place's hexagon, which stays the same; see `names`."""
        if self._resolution < COARSEST:
            found = _direct(lat, lon, self._resolution)
            with self._lock:
                return self._numbers.of(found)
        number, rest, computed = self._decide(lat, lon)
        if rest.size:
            with self._lock:
                number[rest] = self._numbers.of(computed)
        return number

    def _of_arrays(self, lat: Floats, lon: Floats) -> Names:
        number, rest, computed = self._decide(lat, lon)
        # Read after the numbers, and grown before they are given out.
        found: Names = self._numbers.names[number]
        found[rest] = computed
        return found

    def _decide(self, lat: Floats, lon: Floats) -> tuple[Codes, NDArray[np.int64], Names]:
        """Return each place's number, 0 at those that were computed; which these are; theirs."""
        # Both are 0 or more, so that cutting off the fraction rounds down.
        row = ((lat + 90.0) * self._per_degree).astype(np.int64)
        column = ((lon + 180.0) * self._per_degree).astype(np.int64)
        tile_row, tile_column = row >> _BITS, column >> _BITS
        tile = (tile_row << 32) + tile_column
        place = (tile_row * 251 + tile_column) & (_TABLE - 1)
        there = self._tag[place] == tile
        # Read after the tags, and before what they stand for: that is made in the other order.
        start = self._slot[place] << 2 * _BITS
        inside = ((row & (TILE - 1)) << _BITS) + (column & (TILE - 1))
        code = self._code.ravel()[start + inside]
        all_there = bool(there.all())
        if not all_there:
            code[~there] = 0
        number = _decided(self._known, code, lat, lon)
        rest = np.flatnonzero(number == 0)
        computed = _direct(lat[rest], lon[rest], self._resolution)
        if not all_there:
            self._learn(tile[~there], lat[~there])
        return number, rest, computed

    def _learn(self, tiles: NDArray[np.int64], lat: Floats) -> None:
        """Count places in tiles that are not filled, and fill those that are frequent."""
        usable = np.abs(lat) < LARGEST_LATITUDE
        names, counts = np.unique(tiles[usable], return_counts=True)
        with self._lock:
            for tile, count in zip(names.tolist(), counts.tolist(), strict=True):
                self._seen[tile] = self._seen.get(tile, 0) + count
                if self._seen[tile] >= self.frequent and self._filled < MOST_TILES:
                    self._fill(tile)
                    self._seen[tile] = 0
            if len(self._seen) > _TABLE:
                self._seen.clear()

    def _fill(self, tile: int) -> None:
        row, column = tile >> 32, tile & 0xFFFFFFFF
        place = (row * 251 + column) & (_TABLE - 1)
        if self._tag[place] >= 0:
            return
        if self._filled == len(self._code):
            self._code = np.concatenate([self._code, np.zeros_like(self._code)])
        self._code[self._filled] = self._pixels(row * TILE, column * TILE)
        self._slot[place] = self._filled
        self._filled += 1
        # Last, so that another thread never finds a tile before its pixels.
        self._tag[place] = tile

    def _pixels(self, row: int, column: int) -> NDArray[np.int32]:
        """Return the code of each pixel of a tile, and keep what the codes stand for."""
        side = np.arange(-1, TILE + 2)
        lat = (row + side) / self._per_degree - 90.0
        lon = (column + side) / self._per_degree - 180.0
        if lon[0] < -180 or lon[-1] > 180 or np.abs(lat).max() > LARGEST_LATITUDE + 1:
            return np.zeros(TILE * TILE, dtype=np.int32)
        lats, lons = np.meshgrid(lat, lon, indexing="ij")
        corner = _direct(lats.ravel(), lons.ravel(), self._resolution).reshape(lats.shape)
        low, high = (
            _over_blocks(np.minimum, corner).ravel(),
            _over_blocks(np.maximum, corner).ravel(),
        )
        code = np.where(low == high, self._numbers.of(low), 0).astype(np.int32)
        if self._resolution <= FINEST_LINES:
            pixel = np.flatnonzero(low != high)
            blocks = _blocks(pixel)
            around = corner.ravel()[blocks]
            first = around == low[pixel, None]
            two = (first | (around == high[pixel, None])).all(axis=1)
            pixel, blocks, first = pixel[two], blocks[two], first[two]
            pair = self._pairs(low[pixel], high[pixel])
            away = _away(
                self._known.line[:, pair, None], lats.ravel()[blocks], lons.ravel()[blocks]
            )
            # False where there is no line.
            agreed = (np.where(first, away, -away) > -MARGIN).all(axis=1)
            code[pixel[agreed]] = -pair[agreed]
        return code

    def _pairs(self, first: Names, second: Names) -> NDArray[np.int64]:
        """Return which of the known lines is between each two hexagons; new ones get known."""
        low, high = self._numbers.of(first), self._numbers.of(second)
        key, where = np.unique((low.astype(np.int64) << 32) | high, return_inverse=True)
        new = np.array([one for one in key.tolist() if one not in self._line_of], dtype=np.int64)
        if new.size:
            sides = (new >> 32).astype(np.int32), (new & 0xFFFFFFFF).astype(np.int32)
            known, names = self._known, self._numbers.names
            self._line_of.update(
                zip(new.tolist(), range(known.first.size, known.first.size + new.size), strict=True)
            )
            line = _lines(np.stack([names[side] for side in sides]), self._per_degree)
            self._known = Known(
                np.concatenate((known.first, sides[0])),
                np.concatenate((known.second, sides[1])),
                np.concatenate((known.line, line), axis=1),
            )
        found = np.array([self._line_of[one] for one in key.tolist()], dtype=np.int64)
        return np.asarray(found[where.ravel()])


def _decided(known: Known, code: Codes, lat: Floats, lon: Floats) -> Codes:
    """Return the number of the hexagon that a pixel's code decides for each place; 0 is none."""
    pair = np.flatnonzero(code < 0)
    which = -code[pair]
    away = _away(known.line[:, which], lat[pair], lon[pair])
    side = np.where(away > MARGIN, known.first[which], known.second[which])
    side[np.abs(away) <= MARGIN] = 0
    code[pair] = side
    return code


def _away(line: Floats, lat: Floats, lon: Floats) -> Floats:
    """Return how far places are from an edge, in pixels: above zero on the first one's side."""
    return np.asarray(line[0] + line[1] * lat + line[2] * lon)


def _over_blocks(choose: np.ufunc, corner: Names) -> Names:
    """Return the least or largest of the 16 corners of the block around each pixel of a tile."""
    rows = choose.reduce([corner[a : a + TILE] for a in range(4)])
    return np.asarray(choose.reduce([rows[:, b : b + TILE] for b in range(4)]))


def _blocks(pixel: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return which corners of a tile's pixels are those of the block around each given pixel."""
    row, column = np.divmod(pixel, TILE)
    along = np.arange(4)
    block = (along[:, None] * (TILE + 3) + along).ravel()
    return np.asarray((row * (TILE + 3) + column)[:, None] + block)


def _lines(pairs: Names, per_degree: float) -> Floats:
    """Return the tangent of the edge between each two hexagons; not a number where there is none.

    Parameters
    ----------
    pairs : ndarray of uint64, shape (2, n)
    per_degree : float
        Pixels in a degree.

    Returns
    -------
    ndarray of float, shape (3, n)
    """
    names, place = np.unique(pairs, return_inverse=True)
    rings = _rings(names)
    first, second = (rings[one] for one in place.reshape(pairs.shape))
    apart = np.abs(first[:, :, None] - second[:, None]).max(axis=3).min(axis=2)
    shared = apart * per_degree < MARGIN / 100.0
    usable = shared.sum(axis=1) == 2
    ends = np.take_along_axis(first, np.argsort(~shared, kind="stable")[:, :2, None], axis=1)
    normal = np.cross(_vectors(ends[:, 0]), _vectors(ends[:, 1]))
    middle = ends.mean(axis=1)
    normal *= np.sign((normal * _vectors(first.mean(axis=1))).sum(axis=1))[:, None]
    value = (normal * _vectors(middle)).sum(axis=1)
    slope = _slopes(normal, middle)
    constant = value - slope[0] * middle[:, 1] - slope[1] * middle[:, 0]
    pixel = np.where(usable, np.hypot(*slope) / per_degree, np.nan)
    return np.asarray(np.stack((constant, *slope)) / pixel)


def _rings(names: Names) -> Floats:
    """Return the corners of hexagons, longitude and latitude; shape (n, 6, 2).

    Not numbers where there are more or fewer.
    """
    found = np.full((names.size, CORNERS, 2), np.nan)
    for i, name in enumerate(names.tolist()):
        ring = hexagons.outline(name)
        if len(ring) == CORNERS:
            found[i] = ring
    return found


def _vectors(places: Floats) -> Floats:
    """Return places, longitude and latitude, as unit vectors, a row each."""
    b, a = np.radians(places.T)
    return np.stack((np.cos(a) * np.cos(b), np.cos(a) * np.sin(b), np.sin(a)), axis=-1)


def _slopes(normal: Floats, places: Floats) -> Floats:
    """Return how normal @ place grows with a degree of latitude, and with one of longitude."""
    b, a = np.radians(places.T)
    north = np.stack((-np.sin(a) * np.cos(b), -np.sin(a) * np.sin(b), np.cos(a)), axis=-1)
    east = np.stack((-np.cos(a) * np.sin(b), np.cos(a) * np.cos(b), np.zeros_like(a)), axis=-1)
    return np.stack([(normal * one).sum(axis=1) for one in (north, east)]) * (math.pi / 180.0)


def _whole(*parts: pa.Array) -> list[pa.Array]:
    return [p.combine_chunks() if isinstance(p, pa.ChunkedArray) else p for p in parts]


def _direct(lat: Floats, lon: Floats, resolution: int) -> Names:
    found = hexagons.of_places(pa.array(lat), pa.array(lon), resolution)
    return np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.uint64)
