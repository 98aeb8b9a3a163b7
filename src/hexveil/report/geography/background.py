"""Background of the hexagons: public lines, names of places, words for hexagons.

Geography comes with the package (atlas.py) and is cut to the surroundings of the map,
so that a page names its places without asking another host. The holder's context, if there is one,
is drawn on top, and its names come first.

Positions on the map are Mercator metres around the middle of the data. Mercator keeps hexagons
hexagonal. It is scaled by the cosine of the middle latitude, so that a metre of the drawing is a
metre of ground in the middle of the map (exact for a city, a fiction for a continent, where no
scale bar is shown). The middle is chosen so that no data lie across the edge: the map is cut in the
widest band of longitudes without hexagons.
"""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hexveil.base import hexagons
from hexveil.base.arrays import Floats, Ints
from hexveil.report.geography import atlas
from hexveil.report.geography.atlas import Box, Places, describe_places
from hexveil.report.geography.context import Layer

MAX_GEOGRAPHY_BYTES = 90_000
"""Of the lines of the package in a page; they are thinned until they fit."""
MAX_CONTEXT_BYTES = 150_000
"""Of the lines of the context in a page, likewise."""
MAX_LABELS, MAX_STREETS = 300, 400
"""Names on the map: of places, and of lines in the context."""
SPACING = 90
"""Names of places have at least a distance of this part of the map."""
SURROUNDINGS, WIDER = 0.9, 1.75
"""Half of what is drawn, as a share of the map's larger side; by how much it is wider than high, as
the frames of maps are."""
LEAST_HEIGHT = 25_000
"""Metres: on a smaller map the lines of the package are further off than they help."""
DETAIL = 1500
"""Steps across the map that lines are drawn in."""
EARTH = 6_371_008.8
LAST_LATITUDE = 85.0  # Mercator has no poles
FAME = 1e9
"""Rank of a name in the context, above every population."""
_LEAST_BYTES, _LAST_STEP = 4, 1 << 24
"""Of a corner as JSON: two digits and two commas; and the step from which nothing is drawn."""


class Projection(NamedTuple):
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


def projected_rings(names: Sequence[str]) -> tuple[Projection, list[Ints]]:
    """Return a projection of hexagons, and their outlines in its steps."""
    rings = [_unwound(np.array(hexagons.outline(int(name, 16)))) for name in names]
    middles = np.array([ring[:, 0].mean() for ring in rings])
    # The widest empty band is where the map is cut: no data lie across its edge.
    around = np.sort(np.mod(middles, 360.0))
    gaps = np.diff(np.append(around, around[0] + 360.0))
    west = around[np.argmax(gaps)] + gaps.max() / 2
    # The window's middle goes back to within half a turn, where longitudes are ordinary.
    turns = np.floor((middles - west) / 360.0) + np.rint((west + 180.0) / 360.0)
    rings = [ring - [360.0 * turn, 0.0] for ring, turn in zip(rings, turns, strict=True)]
    lons, lats = np.concatenate(rings).T
    low, high = _mercator(np.array([lats.min(), lats.max()]))
    lat = math.degrees(math.asin(math.tanh((low + high) / 2)))
    metres = math.radians(min(np.ptp(ring[:, 1]) for ring in rings)) * EARTH
    # A unit is at most a two-hundredth of a hexagon, so that rounding to it is invisible.
    unit = 10.0 ** math.floor(math.log10(max(metres, 1e-6) / 200))
    projection = Projection(float(lons.min() + lons.max()) / 2, lat, unit)
    return projection, [projection.steps(*ring.T) for ring in rings]


def _along(line: Sequence[tuple[float, float]] | Floats) -> Floats:
    """Follow a line over the 180th meridian instead of jumping back."""
    lons, lats = np.array(line, dtype=np.float64).T
    return np.column_stack([np.unwrap(lons, period=360.0), lats])


def _near(line: Sequence[tuple[float, float]], middle: float) -> Floats:
    """Return a line moved by whole turns to within half a turn of a longitude."""
    along = _along(line)
    along[:, 0] += 360.0 * np.rint((middle - along[0, 0]) / 360.0)
    return along


def _unwound(ring: Floats) -> Floats:
    """Follow an outline; one that runs around a pole is closed along the map's edge."""
    closed = _along(np.concatenate([ring, ring[:1]]))
    if abs(closed[-1, 0] - closed[0, 0]) < 180:
        return closed[:-1]
    edge = math.copysign(LAST_LATITUDE, closed[0, 1])
    return np.concatenate([closed, [[closed[-1, 0], edge], [closed[0, 0], edge]]])


def draw_map(
    names: Sequence[str], context: Layer | None, *, geography: bool
) -> dict[str, Any] | None:
    """Return the outlines, lines, labels and words of a map, as plain JSON values.

    None without hexagons.

    Parameters
    ----------
    names : sequence of str
        H3 indexes of the hexagons.
    context : Layer or None
        As `read_context` returns it.
    geography : bool
        Whether to use the lines and names of the package.
    """
    if not names:
        return None
    projection, rings = projected_rings(names)
    low, high, box = _surroundings(projection, rings)
    context = context or Layer([])
    places, streets = (_context_places(context, projection, is_line=kind) for kind in (False, True))
    if geography:
        places = _joined(places, atlas.world_places().within(box))
    labels = _labels(places.within(box), (box.north - box.south) / SPACING)
    height = (high[1] - low[1]) * projection.unit
    return {
        "unit": projection.unit,
        "rings": [encode(ring) for ring in rings],
        "extent": [int(v) for v in (*low, *high)],
        "detail": max(1, round((high[0] - low[0]) / (2 * WIDER * SURROUNDINGS) / DETAIL)),
        "layers": _layers(projection, box, height) if geography and height >= LEAST_HEIGHT else {},
        "labels": _placed(labels, projection),
        "streets": _placed(_labels(streets.within(box), 0.0, MAX_STREETS), projection),
        "context": _context(projection, rings, context),
        "words": describe_places(names, places),
        "attribution": atlas.ATTRIBUTION if geography else "",
    }


def words_of(names: Sequence[str]) -> list[str]:
    """Return the location of each hexagon in words, as a page without context has them.

    Empty where the package knows no place around them.

    Parameters
    ----------
    names : sequence of str
        H3 indexes of the hexagons of a map.
    """
    *_, box = _surroundings(*projected_rings(names))
    return describe_places(names, atlas.world_places().within(box))


def encode(line: Ints) -> list[int]:
    """Return a line as its first corner and the moves to each next one: x, y, x, y, ..."""
    moves = np.concatenate([line[:1], np.diff(line, axis=0)])
    return [int(step) for step in moves.ravel()]


def _surroundings(projection: Projection, rings: Sequence[Ints]) -> tuple[Ints, Ints, Box]:
    """Return the lower and the upper corner of what is drawn, in steps and degrees."""
    corners = np.concatenate(rings)
    low, high = corners.min(axis=0), corners.max(axis=0)
    sizes = np.sort([np.ptp(ring[:, 0]) for ring in rings])
    # A lone hexagon has surroundings too.
    side = max(float((high - low).max()), 3.0 * float(sizes[len(sizes) // 2]))
    middle, half = (low + high) / 2, SURROUNDINGS * side * np.array([WIDER, 1.0])
    half[0] = min(half[0], projection.half_turn)
    low, high = (np.rint(corner).astype(np.int64) for corner in (middle - half, middle + half))
    return low, high, Box(*projection.degrees(*low), *projection.degrees(*high))


def _layers(projection: Projection, box: Box, height: float) -> dict[str, list[list[int]]]:
    """Return the lines of the package by kind, in steps, thinned until they fit into the page."""
    lines = {kind: atlas.outlines_in(kind, box) for kind in (*atlas.AREAS, *atlas.LINES)}
    low, high = projection.steps(np.array([box.west, box.east]), np.array([box.south, box.north]))
    steps = {
        kind: [
            stretch for line in group for stretch in _inside(projection.steps(*line.T), low, high)
        ]
        for kind, group in lines.items()
    }
    fewest = {kind: 3 if kind in atlas.AREAS else 2 for kind in steps}
    step = max(1, round(height / projection.unit / DETAIL))
    return _fitted(steps, fewest, step, MAX_GEOGRAPHY_BYTES)


def _fitted(
    lines: dict[str, list[Ints]], fewest: Mapping[str, int], step: int, limit: int
) -> dict[str, list[list[int]]]:
    """Return lines by kind, thinned by a step that is doubled until they fit into the page.

    Lines that are no longer than the step, or are left with too few corners, are left out.
    """
    while step <= _LAST_STEP:
        lines = {
            kind: [
                thin
                for line in group
                if (len(line) == 1 or np.ptp(line, axis=0).max() > step)
                and len(thin := _thinned(line, step)) >= fewest[kind]
            ]
            for kind, group in lines.items()
        }
        # To write lines that are far too long would take longer than to thin them.
        corners = sum(len(line) for group in lines.values() for line in group)
        if corners * _LEAST_BYTES <= limit:
            drawn = {kind: [encode(line) for line in group] for kind, group in lines.items()}
            if len(json.dumps(drawn, separators=(",", ":"))) <= limit:
                return drawn
        step *= 2
    return {kind: [] for kind in lines}


def _context_places(context: Layer, projection: Projection, *, is_line: bool) -> Places:
    """Return the named lines of the context, or its named points and areas."""
    # A street in many pieces is named once.
    shapes = [shape for shape in context.shapes if shape.name and shape.is_line is is_line]
    middles = {shape.name: shape.middle for shape in shapes}
    position = [_near([place], projection.lon)[0] for place in middles.values()]
    # In the order of the file: the first is the best known.
    fame = FAME * np.linspace(2, 1, len(middles))
    return Places(tuple(middles), np.array(position, dtype=np.float64).reshape(-1, 2), fame)


def _joined(first: Places, second: Places) -> Places:
    return Places(
        first.names + second.names,
        np.concatenate([first.position, second.position]),
        np.concatenate([first.population, second.population]),
    )


def _labels(places: Places, spacing: float, most: int = MAX_LABELS) -> Places:
    """Return the best known places, none close to a better known one."""
    remaining: list[int] = []
    occupied = np.empty((0, 2))
    shrink = np.array([np.cos(np.radians(places.position[:, 1].mean() if places.names else 0)), 1])
    for row in np.argsort(-places.population, kind="stable"):
        here = places.position[row] * shrink
        if spacing and len(occupied) and np.abs(occupied - here).max(axis=1).min() < spacing:
            continue
        remaining.append(int(row))
        occupied = np.concatenate([occupied, here[None]])
        if len(remaining) == most:
            break
    return places.select(np.array(remaining, dtype=np.int64))


def _placed(places: Places, projection: Projection) -> list[list[Any]]:
    """Return x, y and name of each place."""
    steps = projection.steps(*places.position.T)
    return [[int(x), int(y), name] for (x, y), name in zip(steps, places.names, strict=True)]


def _context(projection: Projection, rings: Sequence[Ints], context: Layer) -> list[list[int]]:
    """Return the public lines near the map, thinned until the page can carry them."""
    # Lines far from the map are left out: a country of streets would not fit into the page.
    corners = np.concatenate(rings)
    low, high = corners.min(axis=0), corners.max(axis=0)
    margin = np.maximum(high - low, np.max(high - low) / 4)
    lines = [
        projection.steps(*_near(line, projection.lon).T)
        for shape in context.shapes
        for line in shape.lines
    ]
    stretches = [
        stretch for line in lines for stretch in _inside(line, low - margin, high + margin)
    ]
    return _fitted({"": stretches}, {"": 1}, 1, MAX_CONTEXT_BYTES)[""]


def _inside(line: Ints, low: Ints, high: Ints) -> list[Ints]:
    """Return the stretches of a line with segments that touch the box."""
    if line.shape[0] == 1:
        return [line] if bool(((line >= low) & (line <= high)).all()) else []
    west, east = np.minimum(line[:-1], line[1:]), np.maximum(line[:-1], line[1:])
    touches = ((east >= low) & (west <= high)).all(axis=1)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], touches, [False]]).astype(np.int8)))
    return [line[a : b + 1] for a, b in zip(edges[::2], edges[1::2], strict=True)]


def _thinned(line: Ints, step: int) -> Ints:
    """Return the line without corners closer than a step to the one before."""
    coarse = line // step
    moves = np.concatenate([[True], (np.diff(coarse, axis=0) != 0).any(axis=1)])
    moves[-1] = True
    thin: Ints = line[moves]
    return thin
