"""The timetable: which runs a bus makes on a duty, and how long each leg should take.

A duty is a chain of runs: from the depot to the first terminal, trips to and fro, home.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hexveil.simulation.city.routes import DOWN, HOME_FROM_FIRST, HOME_FROM_LAST, OUT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hexveil.simulation.city.fleet import Duties, Fleet
    from hexveil.simulation.city.routes import Network
    from hexveil.simulation.city.streets import Streets

LAYOVER = 340.0
"""Seconds between two trips, on average."""

HALT = 16.0
"""Seconds of a halt, per leg that ends at a stop or at lights."""

SHARE = 0.8
"""Of the free speed."""


@dataclass(frozen=True, eq=False)
class Ground:
    """Permanent parts of the city: streets, routes, buses."""

    streets: Streets
    network: Network
    fleet: Fleet


@dataclass(frozen=True, eq=False)
class Runs:
    """The runs of some duties, in order of time within each duty.

    Attributes
    ----------
    duty : ndarray of int, shape (n_runs,)
    way : ndarray of int, shape (n_runs,)
        UP, DOWN, OUT or one of the ways home.
    first, count : ndarray of int, shape (n_runs,)
        Which legs of the network it takes.
    """

    duty: NDArray[np.int64]
    way: NDArray[np.int64]
    first: NDArray[np.int64]
    count: NDArray[np.int64]


def leg_seconds(city: Ground) -> NDArray[np.float64]:
    """Return how long each leg of the network should take, the halt at its end included."""
    legs = city.network.legs
    halts = (legs.stop >= 0) | legs.light
    return np.asarray(legs.length * 3.6 / (SHARE * city.streets.speed[legs.street]) + HALT * halts)


def plan(city: Ground, duties: Duties, seconds: NDArray[np.float64]) -> Runs:
    """Return the runs of some duties: as many trips as fit between leaving and coming home.

    Parameters
    ----------
    city : Ground
    duties : Duties
    seconds : ndarray of float, shape (n_legs,)
        How long each leg should take.
    """
    legs, route = city.network.legs, city.fleet.route[duties.user]
    passed = np.append(0.0, np.cumsum(seconds))
    of_way = (passed[legs.first + legs.count] - passed[legs.first])[route]
    trip = of_way[:, : DOWN + 1].mean(axis=1) + LAYOVER
    outbound = of_way[:, OUT] + of_way[:, HOME_FROM_FIRST : HOME_FROM_LAST + 1].mean(axis=1)
    room = (duties.end - duties.start) * city.fleet.pace[duties.user] - outbound
    # Every duty has a trip, however short it is: a bus never leaves the depot for nothing.
    trips = np.maximum(room // trip, 1).astype(np.int64)
    duty = np.repeat(np.arange(trips.size), trips + 2)
    number = np.arange(duty.size) - np.searchsorted(duty, duty)
    # After an even number of trips a bus is back where it began.
    home = np.where(trips % 2 == 0, HOME_FROM_FIRST, HOME_FROM_LAST)[duty]
    way = np.where(number == 0, OUT, np.where(number > trips[duty], home, (number - 1) % 2))
    key = route[duty], way
    return Runs(duty, way, legs.first[key], legs.count[key])
