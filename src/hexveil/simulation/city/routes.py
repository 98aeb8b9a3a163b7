"""Routes over the streets: two terminals, a depot, the ways between them, the stops on the way.

A way is cut into legs of a few hundred metres, each on one street; a leg ends at a stop, at a
crossing with or without lights, or in the middle of nothing.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import dijkstra

from hexveil.base.arrays import Bools, Floats, Ints
from hexveil.simulation.city.streets import Streets

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
    depot : ndarray of int, shape (n_routes,)
        Number of the depot that serves a route.
    share : ndarray of float, shape (n_routes,)
        Of all buses; sums to one.
    """

    legs: Legs
    depot: Ints
    share: Floats


def draw(streets: Streets, users: int, generator: np.random.Generator) -> Network:
    """Return the routes of a city of so many buses."""
    n_routes = min(max(round(users / USERS_PER_ROUTE), 2), MOST_ROUTES)
    n_depots = min(max(round(users / USERS_PER_DEPOT), 1), MOST_DEPOTS)
    origin, destination = _terminals(streets, n_routes, generator)
    depots = _nearest(streets, *_scattered(streets, n_depots, generator))
    depot = _closest(streets, origin, depots)
    legs = _legs(streets, _shortest_paths(streets, origin, destination, depots[depot]))
    distance = np.hypot(streets.x[origin], streets.y[origin]) / streets.radius
    share = generator.lognormal(0.0, POPULARITY_SD, n_routes) * np.exp(-FRINGE * distance)
    # Cut off, or a single route could have half of all buses.
    share = np.minimum(share, MOST_POPULAR * share.mean())
    return Network(legs, depot, share / share.sum())


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
