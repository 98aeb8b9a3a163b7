"""Codes of the pixels of a tile, with the proof that they are exact.

A square is a rectangle of degrees, about an H3 edge / 8 across. Let the 16 corners of the block of
3 x 3 squares around it lie in the hexagons of a set S. Then so does the whole square. For any other
hexagon with a place in it reaches out of the block, and being convex it leaves between two corners
one square apart: a square from its farthest place it is less than a square wide. But its angles are
over 100 degrees and its edges several squares long, so there it is at least 2 tan(50 degrees) =
2.38 wide, times cos(lat) where it points east or west: more than one up to `LARGEST_LATITUDE`.
If S is one hexagon, the place is looked up.

If S is two or three, each two that meet do so in an edge, which H3 draws as a straight line on a
face of the icosahedron: an arc of a great circle between the two corners that they share. Where
both have six corners (those across an edge of the icosahedron may have more, pentagons fewer) each
is convex and lies on its side of the whole circle: a place on A's side is not in B. In degrees the
circle is off its tangent in the middle of the edge, l away from there, by at most l² tan(lat) / 2
radians. Places of the square are within a block's diagonal of the edge, so l is at most 1.2 edges,
and this 0.04 pixels (half a square) at resolution 5 and 65 degrees, less at finer ones or nearer
the equator. Places more than `MARGIN` pixels from the tangent are told apart by its sign. The
block's corners, of which the hexagons are known, must agree with it, or the square is not decided.

So each of the four pixels of a square is left with those of S on whose side of a tangent, or within
the margin, it has a corner, the tangents being straight in degrees: with one, all its places are
looked up; with two, they are decided by the sign, or computed if within the margin; with three,
computed.

What H3 rounds is not in this: corners and places are each off by some 1e-9 degrees (3.5e-8 was the
most that was found), which is 0.0002 pixels at resolution 12 and 0.12 at 15. So lines are used up
to `FINEST_LINES`; at finer resolutions a square is one pixel, and single hexagons alone, with a
whole square to spare, are looked up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hexveil.base import hexagons
from hexveil.base.arrow_numbers import to_arrow, to_numpy
from hexveil.records.duckdb.hexagons.borders import tangents

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hexveil.base.arrays import Bools, Floats

    Codes = NDArray[np.int32]
    Names = NDArray[np.uint64]

TILE_BITS = 6
TILE = 1 << TILE_BITS
"""Pixels along a side of a tile."""
LARGEST_LATITUDE = 65.0
"""Beyond it a degree of longitude is short, and every place is computed."""
MARGIN = 0.05
"""Pixels to either side of an edge in which places are computed."""
FINEST_LINES = 12
_EDGE_DEGREES = 9.95
"""Average H3 edge at resolution 0, in degrees of a great circle; each finer is sqrt(7) shorter."""
_NEAR_BITS = 14
_SPREADING = np.uint64(0x9E3779B97F4A7C15)
"""An odd number: multiplied by it, the highest bits depend on all lower ones."""


@dataclass(frozen=True, eq=False)
class BorderLines:
    """Meaning of pixel codes; replaced as a whole when it grows, so that threads see no half.

    Attributes
    ----------
    hexagon_a, hexagon_b : ndarray of int32
        The numbers of the hexagons of code -i < 0: where the line is above the margin, and below
        it. A code i > 0 is the number of a hexagon itself, and 0 decides none.
    line : ndarray of float, shape (3, n)
        Distance of a place from their edge in pixels: a constant, and factors of latitude and
        longitude.
    """

    hexagon_a: Codes
    hexagon_b: Codes
    line: Floats

    @classmethod
    def empty(cls) -> BorderLines:
        """Return the meaning of code 0 alone."""
        none = np.zeros(1, dtype=np.int32)
        return cls(none, none, np.zeros((3, 1)))


class HexagonNumbers:
    """Hexagons numbered from 1 as they are met; number 0 is none.

    Attributes
    ----------
    names : ndarray of uint64
        The hexagon of each number; replaced when it grows, so that threads see whole ones.
    """

    def __init__(self) -> None:
        self.names: Names = np.zeros(1, dtype=np.uint64)
        self._number: dict[int, int] = {}
        # Some of them at a place that their bits tell, so that most are found without sorting.
        self._near: Names = np.zeros(1 << _NEAR_BITS, dtype=np.uint64)
        self._near_number: Codes = np.zeros(1 << _NEAR_BITS, dtype=np.int32)

    def number(self, hexagon: Names) -> Codes:
        """Return the number of each hexagon, a new one if it has none; one thread at a time."""
        place = (hexagon * _SPREADING) >> np.uint64(64 - _NEAR_BITS)
        number: Codes = self._near_number[place]
        far = np.flatnonzero(self._near[place] != hexagon)
        if far.size:
            number[far] = self._sought(hexagon[far])
            self._near[place[far]] = hexagon[far]
            # Of several at one place the last is kept, in both: the same order writes them.
            self._near_number[place[far]] = number[far]
        return number

    def _sought(self, hexagon: Names) -> Codes:
        distinct, inverse = np.unique(hexagon, return_inverse=True)
        number_of = self._number
        new = [name for name in distinct.tolist() if name not in number_of]
        if new:
            number_of.update(
                zip(new, range(len(number_of) + 1, len(number_of) + 1 + len(new)), strict=True)
            )
            self.names = np.concatenate((self.names, np.array(new, dtype=np.uint64)))
        number = np.array([number_of[name] for name in distinct.tolist()], dtype=np.int32)
        return np.asarray(number[inverse.ravel()])


class Raster:
    """Pixels of one resolution: which hexagons their places may be in.

    Parameters
    ----------
    resolution : int

    Attributes
    ----------
    per_degree : float
        Pixels in a degree.
    lines : BorderLines
    numbers : HexagonNumbers
    """

    def __init__(self, resolution: int) -> None:
        self._resolution = resolution
        # Two pixels a square and eight squares an edge, as the proof above takes them.
        self.per_degree = 16 / (_EDGE_DEGREES / math.sqrt(7) ** resolution)
        self.lines = BorderLines.empty()
        self.numbers = HexagonNumbers()
        self._line_of: dict[int, int] = {}

    def codes(self, tiles: NDArray[np.int64]) -> Codes:
        """Return the code of each pixel of tiles, and remember its meaning."""
        lines = self._resolution <= FINEST_LINES
        size = 2 if lines else 1
        row, column = (tiles >> 32) * TILE, (tiles & 0xFFFFFFFF) * TILE
        side = np.arange(-size, TILE + 2 * size, size)
        lat, lon = self._degrees(row, side, 90.0), self._degrees(column, side, 180.0)
        fit = (lon[:, 0] >= -180) & (lon[:, -1] <= 180)
        fit &= np.abs(lat).max(axis=1) <= LARGEST_LATITUDE + 1
        code = np.zeros((tiles.size, TILE, TILE), dtype=np.int32)
        if fit.any():
            row, column, lat, lon = row[fit], column[fit], lat[fit], lon[fit]
            shape = (row.size, side.size, side.size)
            lats = np.broadcast_to(lat[:, :, None], shape).ravel()
            lons = np.broadcast_to(lon[:, None, :], shape).ravel()
            corner = self.numbers.number(compute_hexagons(lats, lons, self._resolution)).reshape(
                shape
            )
            # Smallest equals largest where all 16 corners are in one hexagon.
            low, high = _over_blocks(np.minimum, corner), _over_blocks(np.maximum, corner)
            pixel_code = np.where(low == high, low, 0).repeat(size, axis=1).repeat(size, axis=2)
            if lines:
                squares = _squares(corner, low, high)
                ends = [
                    (self._degrees(start[squares.tile] + 2 * index, np.arange(-2, 5), offset))
                    for start, index, offset in (
                        (row, squares.row, 90.0),
                        (column, squares.column, 180.0),
                    )
                ]
                split = self._split(squares, *ends)
                for i, j in np.ndindex(2, 2):
                    index = squares.tile, 2 * squares.row + i, 2 * squares.column + j
                    pixel_code[index] = split[:, i, j]
            code[fit] = pixel_code
        return code.reshape(tiles.size, TILE * TILE)

    def _degrees(self, start: NDArray[np.int64], steps: NDArray[np.int64], over: float) -> Floats:
        """Return the degrees of lines between pixels, some steps from each start."""
        return np.asarray((start[:, None] + steps) / self.per_degree - over)

    def _split(self, squares: _Squares, lat: Floats, lon: Floats) -> Codes:
        """Return the codes of the four pixels of squares that two or three hexagons share."""
        names = squares.hexagons
        three = np.flatnonzero(names[:, 2] != names[:, 1])
        agreed = np.ones(len(names), dtype=np.bool_)
        possible = np.ones((3, len(names), 2, 2), dtype=np.bool_)
        possible[2] = False
        possible[2, three] = True
        pairs = np.zeros((3, len(names)), dtype=np.int64)
        for a, b, selected in ((0, 1, slice(None)), (1, 2, three), (0, 2, three)):
            pair = self._pairs(names[selected, a], names[selected, b])
            pairs[a + b - 1, selected] = pair
            line = self.lines.line[:, pair, None]
            north, east = line[0] + line[1] * lat[selected], line[2] * lon[selected]
            agreed[selected] &= _lines_agree(
                squares.corner[selected], names[selected, a], names[selected, b], north, east
            )
            # Both are false where there is no line.
            possible[b, selected] &= ~(_over_pixels(np.minimum, north, east) > MARGIN)
            possible[a, selected] &= ~(_over_pixels(np.maximum, north, east) < -MARGIN)
        n_possible = possible.sum(axis=0) * agreed[:, None, None]
        code = np.zeros((len(names), 2, 2), dtype=np.int32)
        for i in range(3):
            index = np.nonzero(possible[i] & (n_possible == 1))
            code[index] = names[index[0], i]
        lined = np.isfinite(self.lines.line[0, pairs])
        for a, b in ((0, 1), (1, 2), (0, 2)):
            index = np.nonzero(
                possible[a] & possible[b] & (n_possible == 2) & lined[a + b - 1, :, None, None]
            )
            code[index] = -pairs[a + b - 1, index[0]]
        return code

    def _pairs(self, low: Codes, high: Codes) -> NDArray[np.int64]:
        """Return which of the known lines is between each two hexagons; new ones get known."""
        key, inverse = np.unique((low.astype(np.int64) << 32) | high, return_inverse=True)
        new = np.array([pair for pair in key.tolist() if pair not in self._line_of], dtype=np.int64)
        if new.size:
            sides = (new >> 32).astype(np.int32), (new & 0xFFFFFFFF).astype(np.int32)
            lines, names = self.lines, self.numbers.names
            self._line_of.update(
                zip(
                    new.tolist(),
                    range(lines.hexagon_a.size, lines.hexagon_a.size + new.size),
                    strict=True,
                )
            )
            line = tangents(
                np.stack([names[side] for side in sides]), self.per_degree, MARGIN / 100.0
            )
            self.lines = BorderLines(
                np.concatenate((lines.hexagon_a, sides[0])),
                np.concatenate((lines.hexagon_b, sides[1])),
                np.concatenate((lines.line, line), axis=1),
            )
        number = np.array([self._line_of[pair] for pair in key.tolist()], dtype=np.int64)
        return np.asarray(number[inverse.ravel()])


@dataclass(frozen=True, eq=False)
class _Squares:
    """Squares with blocks in two or three hexagons."""

    tile: NDArray[np.int64]
    row: NDArray[np.int64]
    column: NDArray[np.int64]
    corner: Codes
    hexagons: Codes


def _squares(corner: Codes, low: Codes, high: Codes) -> _Squares:
    """Return the shared squares; `low` and `high` are the extreme hexagons of each block."""
    tile, row, column = np.nonzero(low != high)
    low, high = low[tile, row, column][:, None], high[tile, row, column][:, None]
    four = np.arange(4)
    rows, columns = row[:, None] + four.repeat(4), column[:, None] + np.tile(four, 4)
    around = corner[tile[:, None], rows, columns]
    middle = np.where(around > low, around, high).min(axis=1, keepdims=True)
    at_most_three = ((around == low) | (around == middle) | (around == high)).all(axis=1)
    names = np.concatenate((low, middle, high), axis=1)
    return _Squares(
        tile[at_most_three],
        row[at_most_three],
        column[at_most_three],
        around[at_most_three],
        names[at_most_three],
    )


def _lines_agree(corner: Codes, low: Codes, high: Codes, north: Floats, east: Floats) -> Bools:
    """Return whether a line has the corners of blocks that are in its hexagons on their sides."""
    distance = north[:, ::2, None] + east[:, None, ::2]
    corner = corner.reshape(distance.shape)
    contradicts = (distance < -MARGIN) & (corner == low[:, None, None])
    contradicts |= (distance > MARGIN) & (corner == high[:, None, None])
    return np.asarray(~contradicts.any(axis=(1, 2)))


def _over_pixels(choose: np.ufunc, north: Floats, east: Floats) -> Floats:
    """Return the least or largest of north + east in each pixel of the square amid a block."""
    rows, columns = (choose(slope[:, 2:4], slope[:, 3:5]) for slope in (north, east))
    return np.asarray(rows[:, :, None] + columns[:, None, :])


def _over_blocks(choose: np.ufunc, corner: Codes) -> Codes:
    """Return the least or largest of the 16 corners of the block around each square of tiles."""
    n = corner.shape[1] - 3
    rows = choose.reduce([corner[:, a : a + n] for a in range(4)])
    return np.asarray(choose.reduce([rows[:, :, b : b + n] for b in range(4)]))


def compute_hexagons(lat: Floats, lon: Floats, resolution: int) -> Names:
    """Return the hexagon of each place, computed."""
    hexagon = hexagons.of_places(to_arrow(lat), to_arrow(lon), resolution)
    return np.asarray(to_numpy(hexagon), dtype=np.uint64)
