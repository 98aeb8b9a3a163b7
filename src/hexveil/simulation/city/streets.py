"""The streets of an invented city: a jittered grid with avenues, spokes and a ring.

Nothing here is a real street. The city lies at 21.2 degrees north, 74.9 degrees east, in the time
zone of India, and is large enough for its buses: its area grows with their number, as it does from
Surat (about 300 buses) to Warsaw (about 1,600), up to 60 km from the centre.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components

from hexveil.base.arrays import Bools, Floats, Ints

LATITUDE, LONGITUDE = 21.2, 74.9
"""Of the centre, in degrees."""

METRES_PER_DEGREE = 111_195.0
"""Of latitude; of longitude times the cosine of the latitude."""

SPACING = 700.0
"""Metres from crossing to crossing, before they are moved at random."""

RADIUS, AT_USERS = 14_000.0, 300
"""Metres from the centre to the edge, of a city with so many buses."""

SMALLEST, LARGEST = 4_000.0, 60_000.0
"""Radius in metres of any city."""

AVENUE_EVERY = 4
"""Every so many lines of the grid are avenues."""

SIDE_STREET, AVENUE = 25.0, 41.0
"""Free speed in km/h at the edge of the city; in the centre it is the share `CENTRE` of that."""

KEPT = 0.88
"""Share of the side streets that the grid would have."""

WITH_LIGHTS = 0.35
"""Share of the crossings that have traffic lights."""

NEIGHBOURHOOD = 9_000.0
"""Metres over which free speeds change."""

CENTRE = 0.6


@dataclass(frozen=True, eq=False)
class Streets:
    """Crossings, and the streets between neighbouring ones.

    Attributes
    ----------
    radius : float
        Metres from the centre to the edge, about.
    x, y : ndarray of float, shape (n_crossings,)
        Metres east and north of the centre.
    lights : ndarray of bool, shape (n_crossings,)
        Whether a crossing has traffic lights.
    tail, head : ndarray of int, shape (n_streets,)
        The two crossings of a street, the smaller first; sorted by both.
    length : ndarray of float, shape (n_streets,)
        Metres.
    speed : ndarray of float, shape (n_streets,)
        Free speed in km/h.
    """

    radius: float
    x: Floats
    y: Floats
    lights: Bools
    tail: Ints
    head: Ints
    length: Floats
    speed: Floats

    def between(self, a: Ints, b: Ints) -> Ints:
        """Return the number of the street between each two neighbouring crossings."""
        # Streets are sorted by both ends, so their combined key is sorted, too.
        keys = self.tail * self.x.size + self.head
        return np.searchsorted(keys, np.minimum(a, b) * self.x.size + np.maximum(a, b))

    def matrix(self) -> Any:  # noqa: ANN401  scipy has no types
        """Return the free travel time of each street in seconds, as a sparse matrix."""
        size = self.x.size
        return csr_matrix((self.length * 3.6 / self.speed, (self.tail, self.head)), (size, size))


def radius_for(users: int) -> float:
    """Return how far in metres a city of so many buses reaches from its centre.

    Examples
    --------
    >>> radius_for(300), radius_for(1200), radius_for(1_000_000)
    (14000.0, 28000.0, 60000.0)
    """
    return min(max(RADIUS * math.sqrt(users / AT_USERS), SMALLEST), LARGEST)


def to_degrees(x: NDArray[Any], y: NDArray[Any]) -> tuple[Floats, Floats]:
    """Return latitude and longitude of metres north and east of the centre."""
    east = METRES_PER_DEGREE * math.cos(math.radians(LATITUDE))
    return LATITUDE + y / METRES_PER_DEGREE, LONGITUDE + x / east


def lay(users: int, generator: np.random.Generator) -> Streets:
    """Return the streets of a city of so many buses."""
    radius = radius_for(users)
    # Larger than the wavy edge of the city, which _inside then cuts out.
    side = 2 * math.ceil(1.2 * radius / SPACING) + 1
    column, row = (
        axis.ravel() - side // 2 for axis in np.meshgrid(np.arange(side), np.arange(side))
    )
    move = np.clip(generator.normal(0.0, 0.14, (2, column.size)), -0.35, 0.35)
    x, y = SPACING * (column + move[0]), SPACING * (row + move[1])
    inside = _inside(x, y, radius, generator.uniform(0, 2 * math.pi))
    tail, head, along = _neighbours(side)
    line = np.where(along, row[tail], column[tail])
    middle = (x[tail] + x[head]) / 2, (y[tail] + y[head]) / 2
    grand = (line % AVENUE_EVERY == 0) | _spoke_or_ring(*middle, radius)
    is_built = inside[tail] & inside[head] & (grand | (generator.random(tail.size) < KEPT))
    crossing, is_built = _one_piece(column.size, tail, head, is_built)
    tail, head = (np.searchsorted(crossing, end[is_built]) for end in (tail, head))
    middle = middle[0][is_built], middle[1][is_built]
    speed = _free_speed(middle, radius, generator) * np.where(grand[is_built], AVENUE, SIDE_STREET)
    lights = generator.random(crossing.size) < WITH_LIGHTS
    x, y = x[crossing], y[crossing]
    order = np.lexsort((head, tail))
    tail, head = tail[order], head[order]
    length = np.hypot(x[tail] - x[head], y[tail] - y[head])
    return Streets(radius, x, y, lights, tail, head, length, speed[order])


def _inside(x: Floats, y: Floats, radius: float, turn: float) -> Bools:
    """Return which crossings are in the city, a wavy circle."""
    angle = np.arctan2(y, x)
    wave = 1 + 0.12 * np.cos(3 * angle + turn) + 0.05 * np.cos(7 * angle - turn)
    return np.asarray(np.hypot(x, y) <= radius * wave)


def _neighbours(side: int) -> tuple[Ints, Ints, Bools]:
    """Return the two ends of every line of a grid, and whether it runs along a row."""
    number = np.arange(side * side).reshape(side, side)
    across = np.stack([number[:, :-1].ravel(), number[:, 1:].ravel()])
    down = np.stack([number[:-1].ravel(), number[1:].ravel()])
    tail, head = np.concatenate([across, down], axis=1)
    return tail, head, np.arange(tail.size) < across.shape[1]


def _spoke_or_ring(x: Floats, y: Floats, radius: float) -> Bools:
    """Return which streets lie on a spoke from the centre, or on the ring."""
    distance, angle = np.hypot(x, y), np.arctan2(y, x)
    spoke = np.abs(distance * np.sin(4 * (angle - 0.3)) / 4) < 0.5 * SPACING
    ring = np.abs(distance - 0.45 * radius) < 0.6 * SPACING
    return np.asarray(spoke | ring)


def _one_piece(size: int, tail: Ints, head: Ints, is_built: Bools) -> tuple[Ints, Ints]:
    """Return the crossings of the largest connected piece, and which kept streets are in it."""
    street = np.flatnonzero(is_built)
    graph = csr_matrix((np.ones(street.size), (tail[street], head[street])), (size, size))
    _, piece = connected_components(graph, directed=False)
    # A bus must reach every crossing: islands that chance has cut off are left out.
    inside = piece == np.bincount(piece).argmax()
    return np.flatnonzero(inside), street[inside[tail[street]]]


def _free_speed(
    middle: tuple[Floats, Floats], radius: float, generator: np.random.Generator
) -> Floats:
    """Return the factor of each street's speed: slow in the centre, alike in the neighbourhood."""
    x, y = middle
    slow = CENTRE + (1 - CENTRE) * np.minimum(np.hypot(x, y) / (0.7 * radius), 1.0)
    # A sum of a few random waves is smooth in space, and needs no covariance matrix.
    waves = generator.normal(0.0, 2 * math.pi / NEIGHBOURHOOD, (12, 2))
    turns = generator.uniform(0, 2 * math.pi, 12)
    smooth = np.cos(np.outer(x, waves[:, 0]) + np.outer(y, waves[:, 1]) + turns).mean(axis=1)
    return np.asarray(slow * np.exp(1.6 * smooth + generator.normal(0.0, 0.12, x.size)))
