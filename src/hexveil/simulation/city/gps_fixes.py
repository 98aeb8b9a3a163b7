"""Fixes: where each bus is at its moments of reporting, and which of them arrive.

A unit reports every so many seconds. Some fixes are missing, of some buses most; of some runs none
arrives at all; a few are sent twice, exactly alike. Speeds come as whole km/h, of a few buses with
a decimal; a bus that halts reports exactly 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hexveil.simulation.city.motion import ACCELERATION

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hexveil.simulation.city.fleet import Duties
    from hexveil.simulation.city.motion import Drive
    from hexveil.simulation.city.routes import Legs
    from hexveil.simulation.city.timetable import Ground, Runs

REPEATED = 0.02
"""Share of records that are sent twice."""

DARK = 0.03
"""Share of runs of which no fix arrives: the unit is off, or there is no network."""

DRIFT = 6.0
"""Standard deviation of a position, in metres, each way."""

JITTER = 0.5
"""Standard deviation in km/h of the speed that a moving bus reports, before it is rounded."""

LIMIT = 65.0
"""The highest speed in km/h that is ever reported: the public bound."""


@dataclass(frozen=True, eq=False)
class Seen:
    """The fixes that arrive, those sent twice twice.

    Attributes
    ----------
    of : ndarray of int, shape (n_records,)
        The driven leg of each.
    second : ndarray of int, shape (n_records,)
        Since local midnight.
    x, y : ndarray of float, shape (n_records,)
        Metres east and north of the centre.
    speed : ndarray of float, shape (n_records,)
        As reported, km/h.
    """

    of: NDArray[np.int64]
    second: NDArray[np.int64]
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    speed: NDArray[np.float64]


def arriving(
    city: Ground,
    day: tuple[Duties, Runs, Drive],
    interval: int,
    generator: np.random.Generator,
) -> Seen:
    """Return the fixes that arrive."""
    duties, runs, driven = day
    bus = duties.user[runs.duty]
    # A bus reports at the same second of every interval all day, whatever its duties.
    phase = generator.integers(0, interval, bus[-1] - bus[0] + 1)[bus - bus[0]]
    drive_leg, second = moments(driven, phase[driven.run], interval)
    # 2 is above every random number below 1: of a dark run no fix arrives.
    missing = np.where(generator.random(bus.size) < DARK, 2, city.fleet.missing[bus])
    heard = (
        generator.random(drive_leg.size, dtype=np.float32)
        >= missing.astype(np.float32)[driven.run][drive_leg]
    )
    heard &= second < duties.until[runs.duty][driven.run][drive_leg]
    drive_leg, second = drive_leg[heard], second[heard]
    legs, network_leg = city.network.legs, driven.leg[drive_leg]
    share, speed = observe(legs, driven, drive_leg, second)
    drift = generator.standard_normal((2, drive_leg.size), dtype=np.float32) * np.float32(DRIFT)
    x = legs.x[network_leg] + share * legs.dx[network_leg] + drift[0]
    y = legs.y[network_leg] + share * legs.dy[network_leg] + drift[1]
    kmh = reported(speed, city.fleet.decimals[bus][driven.run][drive_leg], generator)
    # Repeated last, so that both copies are equal to the last digit.
    copies = 1 + (generator.random(drive_leg.size, dtype=np.float32) < REPEATED)
    return Seen(*(np.repeat(column, copies) for column in (drive_leg, second, x, y, kmh)))


def reported(
    speed: NDArray[np.float32], decimals: NDArray[np.bool_], generator: np.random.Generator
) -> NDArray[np.float64]:
    """Return km/h as units report them: a little off, whole or with a decimal, 0 at a stand."""
    noise = generator.standard_normal(speed.size, dtype=np.float32) * np.float32(JITTER)
    kmh = np.where(speed > 0, np.clip(speed * np.float32(3.6) + noise, 0, LIMIT), 0)
    return np.where(decimals, np.rint(kmh * 10) / 10.0, np.rint(kmh)).astype(np.float64)


def moments(
    driven: Drive, phase: NDArray[np.int64], interval: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the driven leg and the second of each fix: every `interval` seconds from a phase.

    Parameters
    ----------
    driven : Drive
    phase : ndarray of int, shape (n_driven,)
        Second at which the bus of each driven leg has a fix.
    interval : int
        Seconds.
    """
    first_tick = np.ceil((driven.start - phase) / interval).astype(np.int64)
    count = np.ceil((driven.end - phase) / interval).astype(np.int64) - first_tick
    leg = np.repeat(np.arange(count.size), count)
    number = np.arange(leg.size) + (first_tick - (np.cumsum(count) - count))[leg]
    return leg, phase[leg] + interval * number


def observe(
    legs: Legs, driven: Drive, leg: NDArray[np.int64], second: NDArray[np.int64]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return where on its leg a bus is (share, 0 to 1) and its speed (m/s; 0 in a halt).

    With a the acceleration, t the seconds since the leg began and r those until its end, the speed
    is top - max(top - entry - a t, 0) - max(top - leave - a r, 0), and the way is its integral.
    """
    a = np.float32(ACCELERATION)
    moving = driven.moving.astype(np.float32)[leg]
    passed = (second - driven.start[leg]).astype(np.float32)
    halts = passed >= moving
    # In a halt the bus stays where its leg ended.
    passed = np.minimum(passed, moving)
    top = driven.top[leg]
    gained = top - driven.entry[leg]
    missing_before = np.maximum(gained - a * passed, 0)
    missing_after = np.maximum(top - driven.leave[leg] - a * (moving - passed), 0)
    distance = top * passed - (gained**2 - missing_before**2 + missing_after**2) / (2 * a)
    share = np.clip(distance / legs.length[driven.leg[leg]], 0, 1)
    speed = np.where(halts, np.float32(0), top - missing_before - missing_after)
    return share, speed
