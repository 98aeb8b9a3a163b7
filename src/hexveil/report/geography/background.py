"""Background of the hexagons: public lines, names of places, words for hexagons.

Geography comes with the package (geography.py) and is cut to the surroundings of the map,
so that a page names its places without asking another host. The holder's context, if there is one,
is drawn on top, and its names come first.

The street that each hexagon is known by: of the named lines through it, the longest there.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hexveil.base import hexagons
from hexveil.base.arrays import Ints
from hexveil.report.geography.atlas import (
    AREAS,
    ATTRIBUTION,
    LINES,
    Box,
    Places,
    areas_in,
    describe_location,
    lines_in,
    locate,
    world_places,
)
from hexveil.report.geography.context import lines_of, named_lines, named_positions
from hexveil.report.geography.projection import Projection, align_with, projected_rings

MAX_GEOGRAPHY_BYTES = 90_000
"""Of the lines of the package in a page; they are thinned until they fit."""
MAX_CONTEXT_BYTES = 150_000
"""Of the lines of the context in a page, likewise."""
MAX_LABELS, MAX_STREETS = 300, 400
"""Names on the map: of places, and of lines in the context."""
SPACING = 90
"""Names of places have at least a distance of this part of the map."""
SURROUNDINGS = 0.9
"""Half of the drawn square, as a share of the map's larger side."""
LEAST_WIDTH = 25_000
"""Metres: on a smaller map the lines of the package are further off than they help."""
DETAIL = 1500
"""Steps across the map that lines are drawn in."""
FAME = 1e9
"""Rank of a name in the context, above every population."""
_LEAST_BYTES, _LAST_STEP = 4, 1 << 24
"""Of a corner as JSON: two digits and two commas; and the step from which nothing is drawn."""


def draw_map(
    names: Sequence[str], context: dict[str, Any] | None, *, geography: bool
) -> dict[str, Any] | None:
    """Return the outlines, lines, labels and words of a map, as plain JSON values.

    None without hexagons.

    Parameters
    ----------
    names : sequence of str
        H3 indexes of the hexagons.
    context : dict or None
        As `read_context` returns it.
    geography : bool
        Whether to use the lines and names of the package.
    """
    if not names:
        return None
    projection, rings = projected_rings(names)
    low, high, box = _surroundings(projection, rings)
    places, streets = _context_places(context, projection)
    if geography:
        places = _joined(places, world_places().within(box))
    labels = _labels(places.within(box), (box.north - box.south) / SPACING)
    width = (high[0] - low[0]) * projection.unit
    return {
        "unit": projection.unit,
        "rings": [encode(ring) for ring in rings],
        "extent": [int(v) for v in (*low, *high)],
        "detail": max(1, round((high[0] - low[0]) / (2 * SURROUNDINGS) / DETAIL)),
        "layers": _layers(projection, box, width) if geography and width >= LEAST_WIDTH else {},
        "labels": _placed(labels, projection),
        "streets": _placed(_labels(streets.within(box), 0.0, MAX_STREETS), projection),
        "context": _context(projection, rings, context) if context else [],
        "words": _words(names, places, context),
        "attribution": ATTRIBUTION if geography else "",
    }


def _words(names: Sequence[str], places: Places, context: dict[str, Any] | None) -> list[str]:
    """Return the location of each hexagon in words; streets of the context belong to them."""
    streets = streets_through(names, named_lines(context)) if context else {}
    return [
        # A hexagon with a name of its own needs no street.
        describe_location(
            entry, places.names[entry.place], streets.get(name, "") * bool(entry.distance)
        )
        for name, entry in zip(names, locate(names, places), strict=False)
    ]


def words_of(names: Sequence[str]) -> list[str]:
    """Return the location of each hexagon in words, as a page without context has them.

    Empty where the package knows no place around them.

    Parameters
    ----------
    names : sequence of str
        H3 indexes of the hexagons of a map.
    """
    *_, box = _surroundings(*projected_rings(names))
    return _words(names, world_places().within(box), None)


def encode(line: Ints) -> list[int]:
    """Return a line as its first corner and the moves to each next one: x, y, x, y, ..."""
    moves = np.concatenate([line[:1], np.diff(line, axis=0)])
    return [int(step) for step in moves.ravel()]


def _surroundings(projection: Projection, rings: Sequence[Ints]) -> tuple[Ints, Ints, Box]:
    """Return the lower and the upper corner of the square that is drawn, in steps and degrees."""
    corners = np.concatenate(rings)
    low, high = corners.min(axis=0), corners.max(axis=0)
    sizes = np.sort([np.ptp(ring[:, 0]) for ring in rings])
    # A lone hexagon has surroundings too.
    side = max(float((high - low).max()), 3.0 * float(sizes[len(sizes) // 2]))
    middle, half = (low + high) / 2, np.full(2, SURROUNDINGS * side)
    half[0] = min(half[0], projection.half_turn)
    low, high = (np.rint(corner).astype(np.int64) for corner in (middle - half, middle + half))
    return low, high, Box(*projection.degrees(*low), *projection.degrees(*high))


def _layers(projection: Projection, box: Box, width: float) -> dict[str, list[list[int]]]:
    """Return the lines of the package by kind, in steps, thinned until they fit into the page."""
    lines = {kind: areas_in(kind, box) for kind in AREAS}
    lines |= {kind: lines_in(kind, box) for kind in LINES}
    low, high = projection.steps(np.array([box.west, box.east]), np.array([box.south, box.north]))
    steps = {
        kind: [
            stretch for line in group for stretch in _inside(projection.steps(*line.T), low, high)
        ]
        for kind, group in lines.items()
    }
    fewest = {kind: 3 if kind in AREAS else 2 for kind in steps}
    step = max(1, round(width / projection.unit / DETAIL))
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


def _context_places(
    context: dict[str, Any] | None, projection: Projection
) -> tuple[Places, Places]:
    """Return the named points and areas of the context, and its named lines."""
    result = named_positions(context) if context else []
    groups: list[Places] = []
    for wanted in (False, True):
        # A street in many pieces is named once.
        group = {name: place for name, place, is_line in result if is_line is wanted}
        turned = align_with([[place] for place in group.values()], projection.lon)
        groups.append(
            Places(
                tuple(group),
                np.array([line[0] for line in turned], dtype=np.float64).reshape(-1, 2),
                # In the order of the file: the first is the best known.
                FAME * np.linspace(2, 1, len(group)),
            )
        )
    return groups[0], groups[1]


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
    if not places.names:
        return []
    steps = projection.steps(*places.position.T)
    return [[int(x), int(y), name] for (x, y), name in zip(steps, places.names, strict=True)]


def _context(
    projection: Projection, rings: Sequence[Ints], context: dict[str, Any]
) -> list[list[int]]:
    """Return the public lines near the map, thinned until the page can carry them."""
    # Lines far from the map are left out: a country of streets would not fit into the page.
    corners = np.concatenate(rings)
    low, high = corners.min(axis=0), corners.max(axis=0)
    margin = np.maximum(high - low, np.max(high - low) / 4)
    lines = [
        projection.steps(*np.array(line, dtype=np.float64).T)
        for line in align_with(lines_of(context), projection.lon)
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
    if line.shape[0] == 1:
        return line
    coarse = line // step
    moves = np.concatenate([[True], (np.diff(coarse, axis=0) != 0).any(axis=1)])
    moves[-1] = True
    thin: Ints = line[moves]
    return thin


SAMPLES = 8
"""Points that a street has across a hexagon."""
COARSEST = 7
"""Hexagons larger than these are crossed by so many streets that none describes them."""
MAX_SAMPLES = 2_000_000
_METRES = 111_195.0
"""Of a degree of latitude."""


def streets_through(
    names: Sequence[str], lines: Sequence[tuple[str, Sequence[tuple[float, float]]]]
) -> dict[str, str]:
    """Return the street of each hexagon that has one.

    Parameters
    ----------
    names : sequence of str
        H3 indexes of one resolution, as hex text.
    lines : sequence of (str, line)
        Names of streets with longitude and latitude along each; a street may have many lines.

    Returns
    -------
    dict of str to str
        The street with the greatest length in each hexagon; of equals the first of the list.
    """
    if not names or not lines or (level := hexagons.resolution_of(int(names[0], 16))) < COARSEST:
        return {}
    number = {name: row for row, name in enumerate(dict.fromkeys(name for name, _ in lines))}
    width = float(np.ptp([lat for _, lat in hexagons.outline(int(names[0], 16))]))
    name_of = {int(name, 16): name for name in names}
    steps = [_sampled(np.array(line, dtype=np.float64), width / SAMPLES) for _, line in lines]
    place, length = (np.concatenate(pieces) for pieces in zip(*steps, strict=True))
    street = np.repeat([number[name] for name, _ in lines], [len(entry) for entry, _ in steps])
    lat, lon = pa.array(place[:, 1]), pa.array((place[:, 0] + 540) % 360 - 180)
    cells = np.asarray(hexagons.of_places(lat, lon, level), dtype=np.uint64)
    inside = np.isin(cells, np.array(list(name_of), dtype=np.uint64))
    # In one type: a mixture would become floats, which do not hold an index.
    keys = np.column_stack([cells, street.astype(np.uint64)])[inside]
    pairs, row = np.unique(keys, axis=0, return_inverse=True)
    total = np.bincount(row.ravel(), length[inside], minlength=len(pairs))
    texts = list(number)
    # The last one wins: by length, and of equals the first street.
    order = np.lexsort((-pairs[:, 1].astype(np.int64), np.round(total, 3)))
    return {name_of[int(cell)]: texts[int(of)] for cell, of in pairs[order]}


def _sampled(
    line: NDArray[np.float64], step: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return points along a line, at most `step` degrees apart, and the metres that each has."""
    ends = np.diff(line, axis=0)
    shrink = math.cos(math.radians(float(line[:, 1].mean())))
    metres = np.hypot(ends[:, 0] * shrink, ends[:, 1]) * _METRES
    number = np.maximum(1, np.ceil(metres / (step * _METRES))).astype(np.int64)
    if number.sum() > MAX_SAMPLES:
        return np.empty((0, 2)), np.empty(0)
    segment = np.repeat(np.arange(len(ends)), number)
    # The middle of each part of a segment.
    first = np.repeat(np.cumsum(number) - number, number)
    share = (np.arange(len(segment)) - first + 0.5) / number[segment]
    return line[segment] + share[:, None] * ends[segment], metres[segment] / number[segment]
