"""The buses: which route and depot, how much they work, how they are driven, how well they report.

A few work double shifts all week (heavy users), many work one shift, some only in the rush hours,
some a few hours now and then (light users). All of it is drawn once, from the seed; what happens on
a day is drawn for that day.

The timetable: which runs a bus makes on a duty, and how long each leg should take.

A duty is a chain of runs: from the depot to the first terminal, trips to and fro, home.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hexveil.base.arrays import Bools, Floats, Ints
from hexveil.simulation.city.streets import (
    DOWN,
    HOME_FROM_FIRST,
    HOME_FROM_LAST,
    OUT,
    Network,
    Streets,
)

DOUBLE, SINGLE, RUSH, LIGHT = range(4)
"""How much a bus works: two shifts a day, one, the rush hours, a few hours now and then."""

SHARES = (0.3, 0.4, 0.2, 0.1)
OFF_DUTY = (0.05, 0.1, 0.05, 0.5)
"""Chance to stay in the depot, by kind, on a day from Monday to Saturday."""

SUNDAY_OFF = (0.25, 0.4, 0.9, 0.7)
BREAKDOWN = 0.015
"""Chance that a duty ends early, anywhere in it."""

HOUR = 3600.0
FIRST_HOUR, LAST_HOUR = 4.0, 27.0
"""No bus reports from 3 to 4 at night, so that no day's records run into the next day's."""

LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ"
NUMBERS = 9_000
MOST_USERS = NUMBERS * len(LETTERS) ** 2


@dataclass(frozen=True, eq=False)
class Fleet:
    """Permanent properties of each bus.

    Attributes
    ----------
    route : ndarray of int, shape (n_users,)
    kind : ndarray of int, shape (n_users,)
        DOUBLE, SINGLE, RUSH or LIGHT.
    pace : ndarray of float, shape (n_users,)
        Factor of the speed, for the bus and its driver.
    missing : ndarray of float32, shape (n_users,)
        Share of fixes that never arrive.
    decimals : ndarray of bool, shape (n_users,)
        Whether speeds come with a decimal; most come as whole km/h.
    """

    route: Ints
    kind: Ints
    pace: Floats
    missing: NDArray[np.float32]
    decimals: Bools


@dataclass(frozen=True, eq=False)
class Duties:
    """Pieces of work of one day: a bus leaves the depot, and is due back.

    Attributes
    ----------
    user : ndarray of int, shape (n_duties,)
        Number of the bus, ascending.
    start, end : ndarray of float, shape (n_duties,)
        Seconds since local midnight, when it leaves and when it is due back.
    until : ndarray of float, shape (n_duties,)
        When it no longer reports, however late it is: at 3 o'clock in the next night, or when its
        next duty begins.
    """

    user: Ints
    start: Floats
    end: Floats
    until: Floats


def buy(network: Network, users: int, generator: np.random.Generator) -> Fleet:
    """Return the buses of the city."""
    # A long tail: most units lose about a tenth of their fixes, a few a third.
    missing = generator.beta(1.2, 8.0, users)
    # One bus in 25 has a unit that is hardly ever heard.
    missing = np.where(generator.random(users) < 0.04, generator.uniform(0.6, 0.97, users), missing)
    return Fleet(
        route=generator.choice(network.share.size, users, p=network.share),
        kind=generator.choice(len(SHARES), users, p=SHARES),
        pace=np.exp(generator.normal(0.0, 0.18, users)),
        missing=missing.astype(np.float32),
        decimals=generator.random(users) < 0.02,
    )


def plate(user: int) -> str:
    """Return the licence plate of a bus; ZZ is no state of India.

    Examples
    --------
    >>> plate(0), plate(9_000)
    ('ZZ01AA1000', 'ZZ01AB1000')
    """
    series, number = divmod(user, NUMBERS)
    first_letter, second_letter = divmod(series, len(LETTERS))
    return f"ZZ01{LETTERS[first_letter]}{LETTERS[second_letter]}{number + 1000}"


def duties(fleet: Fleet, users: slice, *, sunday: bool, generator: np.random.Generator) -> Duties:
    """Return the activity of some buses on one day."""
    kind = fleet.kind[users]
    off_duty = np.array(SUNDAY_OFF if sunday else OFF_DUTY)[kind]
    works = generator.random(kind.size) >= off_duty
    late = generator.random(kind.size) < 0.5
    spread = generator.normal(0.0, 0.4, (4, kind.size))
    noon = generator.uniform(7.0, 19.0, kind.size)
    # Hours of the first duty, and of the second, which only the rush hours have.
    start = np.choose(kind, [5.7, np.where(late, 13.2, 5.9), 6.8, noon]) + spread[0]
    end = np.choose(kind, [22.4, np.where(late, 22.6, 14.2), 10.8, noon + 2.5]) + spread[1]
    # Rush-hour buses go back to the depot around noon: their day is two duties.
    second_shift = works & (kind == RUSH)
    user = np.arange(users.start, users.start + kind.size)
    user = np.concatenate([user[works], user[second_shift]])
    start = np.concatenate([start[works], 15.0 + spread[2][second_shift]])
    end = np.concatenate([end[works], 20.3 + spread[3][second_shift]])
    broken = generator.random(user.size) < BREAKDOWN
    end = np.where(broken, start + (end - start) * generator.random(user.size), end)
    # By bus, then by time: what follows compares a duty with the next one in the list.
    order = np.lexsort((start, user))
    user, start, end = user[order], np.clip(start[order], FIRST_HOUR, None), end[order]
    # A late bus stops reporting when its next duty begins, so that it is in one place at a time.
    next_start = np.where(
        np.append(user[1:] == user[:-1], [False]), np.append(start[1:], 0), LAST_HOUR
    )
    return Duties(user, start * HOUR, end * HOUR, next_start * HOUR)


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

    duty: Ints
    way: Ints
    first: Ints
    count: Ints


def leg_seconds(city: Ground) -> Floats:
    """Return how long each leg of the network should take, the halt at its end included."""
    legs = city.network.legs
    halts = (legs.stop >= 0) | legs.light
    return np.asarray(legs.length * 3.6 / (SHARE * city.streets.speed[legs.street]) + HALT * halts)


def plan(city: Ground, duties: Duties, seconds: Floats) -> Runs:
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
