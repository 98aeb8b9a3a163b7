"""The streets of an invented city: a jittered grid with avenues, spokes and a ring.

Nothing here is a real street. The city lies at 21.2 degrees north, 74.9 degrees east, in the time
zone of India, and is large enough for its buses: its area grows with their number, as it does from
Surat (about 300 buses) to Warsaw (about 1,600), up to 60 km from the centre.

Routes over the streets: two terminals, a depot, the ways between them, the stops on the way.

A way is cut into legs of a few hundred metres, each on one street; a leg ends at a stop, at a
crossing with or without lights, or in the middle of nothing.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components, dijkstra

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


UP, DOWN, OUT, HOME_FROM_FIRST, HOME_FROM_LAST = range(5)
"""Ways of a route: to its last terminal and back; from the depot to the first, and home."""

WAYS = 5
LEG = 330.0
"""Metres of a leg, about."""

USERS_PER_ROUTE, MOST_ROUTES = 7, 400
USERS_PER_DEPOT, MOST_DEPOTS = 100, 24
SHORTEST, LONGEST = 5_000.0, 14_000.0
"""Metres from one terminal to the other, as the crow flies, in a city that is large enough."""

TURN = 0.9
"""Standard deviation, in radians, of a route's direction from straight to the centre."""

HUBS_WITHIN, HUB_REACH = 0.6, 0.12
"""Hubs lie in the inner share of the city, and gather terminals from so far, in radii."""

POPULARITY_SD, FRINGE = 0.7, 2.0
"""Of the logarithm of a route's number of buses: standard deviation, and fall to the outskirts."""

MOST_POPULAR = 3.0
"""Buses of a route, at most, as a multiple of the mean."""


@dataclass(frozen=True, eq=False)
class Legs:
    """The legs of every way of every route, one after the other.

    Attributes
    ----------
    x, y, dx, dy : ndarray of float32, shape (n_legs,)
        Where a leg begins, in metres, and how far it goes.
    length : ndarray of float32, shape (n_legs,)
        Metres.
    street : ndarray of int, shape (n_legs,)
        Number of the street it is on.
    stop : ndarray of int, shape (n_legs,)
        Number of the stop at its end; -1 for none.
    light : ndarray of bool, shape (n_legs,)
        Whether it ends at traffic lights.
    first, count : ndarray of int, shape (n_routes, WAYS)
        Where a way's legs begin, and how many they are.
    """

    x: NDArray[np.float32]
    y: NDArray[np.float32]
    dx: NDArray[np.float32]
    dy: NDArray[np.float32]
    length: NDArray[np.float32]
    street: Ints
    stop: Ints
    light: Bools
    first: Ints
    count: Ints


@dataclass(frozen=True, eq=False)
class Network:
    """Routes, and how many buses each has.

    Attributes
    ----------
    legs : Legs
    share : ndarray of float, shape (n_routes,)
        Of all buses; sums to one.
    """

    legs: Legs
    share: Floats


def draw(streets: Streets, users: int, generator: np.random.Generator) -> Network:
    """Return the routes of a city of so many buses."""
    n_routes = min(max(round(users / USERS_PER_ROUTE), 2), MOST_ROUTES)
    n_depots = min(max(round(users / USERS_PER_DEPOT), 1), MOST_DEPOTS)
    origin, destination = _terminals(streets, n_routes, generator)
    depots = _nearest(streets, *_scattered(streets, n_depots, generator))
    depot = depots[_closest(streets, origin, depots)]
    legs = _legs(streets, _shortest_paths(streets, origin, destination, depot))
    distance = np.hypot(streets.x[origin], streets.y[origin]) / streets.radius
    share = generator.lognormal(0.0, POPULARITY_SD, n_routes) * np.exp(-FRINGE * distance)
    # Cut off, or a single route could have half of all buses.
    share = np.minimum(share, MOST_POPULAR * share.mean())
    return Network(legs, share / share.sum())


def _scattered(
    streets: Streets, size: int, generator: np.random.Generator
) -> tuple[Floats, Floats]:
    """Return places all over the city, denser in the centre."""
    distance = streets.radius * generator.beta(1.5, 2.6, size)
    angle = generator.uniform(0.0, 2 * np.pi, size)
    return distance * np.cos(angle), distance * np.sin(angle)


def _nearest(streets: Streets, x: Floats, y: Floats, apart_from: Ints | None = None) -> Ints:
    """Return the crossing nearest to each place that is not the one to stay apart from."""
    nearest = np.empty(x.size, dtype=np.int64)
    for number in range(x.size):
        far = np.hypot(streets.x - x[number], streets.y - y[number])
        if apart_from is not None:
            far[apart_from[number]] = np.inf
        nearest[number] = far.argmin()
    return nearest


def _closest(streets: Streets, sources: Ints, among: Ints) -> Ints:
    """Return which of some crossings is closest to each of others."""
    x, y = streets.x, streets.y
    far = np.hypot(x[sources, None] - x[among], y[sources, None] - y[among])
    return np.asarray(far.argmin(axis=1))


def _terminals(streets: Streets, size: int, generator: np.random.Generator) -> tuple[Ints, Ints]:
    """Return the two terminals of each route: one anywhere, the other some way off, inward.

    Where the inward one falls near a hub of the city, such as its centre, it is that hub.
    """
    x, y = _scattered(streets, size, generator)
    longest = min(LONGEST, 1.2 * streets.radius)
    far = generator.uniform(min(SHORTEST, 0.6 * longest), longest, size)
    inward = np.arctan2(-y, -x) + generator.normal(0.0, TURN, size)
    to_x, to_y = x + far * np.cos(inward), y + far * np.sin(inward)
    hub_x, hub_y = (
        HUBS_WITHIN * coordinate for coordinate in _scattered(streets, size // 6, generator)
    )
    hub_x, hub_y = np.append(0.0, hub_x), np.append(0.0, hub_y)
    distance = np.hypot(to_x[:, None] - hub_x, to_y[:, None] - hub_y)
    near_hub, hub = distance.min(axis=1) < HUB_REACH * streets.radius, distance.argmin(axis=1)
    origin = _nearest(streets, x, y)
    to_x, to_y = np.where(near_hub, hub_x[hub], to_x), np.where(near_hub, hub_y[hub], to_y)
    return origin, _nearest(streets, to_x, to_y, origin)


def _shortest_paths(streets: Streets, origin: Ints, destination: Ints, depot: Ints) -> list[Ints]:
    """Return the crossings of each way of each route in turn, by the quickest streets."""
    # One search per distinct terminal and depot: routes share many of them.
    roots, row = np.unique(origin, return_inverse=True)
    matrix, paths = streets.matrix(), []
    _, predecessors = dijkstra(matrix, directed=False, indices=roots, return_predecessors=True)
    homes, home = np.unique(depot, return_inverse=True)
    _, homeward = dijkstra(matrix, directed=False, indices=homes, return_predecessors=True)
    for route, (start, end) in enumerate(zip(origin, destination, strict=True)):
        up = _path(predecessors[row[route]], end)
        out = _path(homeward[home[route]], start)
        from_last = _path(homeward[home[route]], end)[::-1]
        paths += [up, up[::-1], out, out[::-1], from_last]
    return paths


def _path(predecessors: NDArray[np.int32], end: int) -> Ints:
    """Return the crossings from a root to an end."""
    path = [int(end)]
    # The library marks a root by a negative predecessor.
    while (step := int(predecessors[path[-1]])) >= 0:
        path.append(step)
    return np.array(path[::-1], dtype=np.int64)


def _legs(streets: Streets, paths: list[Ints]) -> Legs:
    """Return the legs of all ways; a way of one crossing (a terminal at the depot) has none."""
    a, b = (
        np.concatenate([path_number[ends] for path_number in paths])
        for ends in (slice(-1), slice(1, None))
    )
    street = streets.between(a, b)
    # At least one leg per street, however short the street is.
    pieces = np.maximum(np.rint(streets.length[street] / LEG), 1).astype(np.int64)
    edge = np.repeat(np.arange(a.size), pieces)
    piece = np.arange(edge.size) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    of_edge = pieces[edge]
    dx, dy = (
        (coordinate[b] - coordinate[a])[edge] / of_edge for coordinate in (streets.x, streets.y)
    )
    path_number = np.repeat(np.arange(len(paths)), [path.size - 1 for path in paths])
    count = np.bincount(path_number, weights=pieces, minlength=len(paths)).astype(np.int64)
    served = (path_number % WAYS <= DOWN)[edge]
    at_end = piece == of_edge - 1
    # The stop of a street is in its middle, on either side another; a street of one leg has none.
    has_stop = served & (piece == (of_edge - 1) // 2) & ~at_end
    return Legs(
        x=(streets.x[a][edge] + dx * piece).astype(np.float32),
        y=(streets.y[a][edge] + dy * piece).astype(np.float32),
        dx=dx.astype(np.float32),
        dy=dy.astype(np.float32),
        length=np.hypot(dx, dy).astype(np.float32),
        street=street[edge],
        stop=np.where(has_stop, 2 * street[edge] + (a < b)[edge], -1),
        light=at_end & streets.lights[b][edge],
        first=(np.cumsum(count) - count).reshape(-1, WAYS),
        count=count.reshape(-1, WAYS),
    )
