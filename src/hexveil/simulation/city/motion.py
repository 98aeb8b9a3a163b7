"""How buses move on a day: the legs they drive, and the halts between.

A run is a chain of legs. On a leg a bus speeds up to its cruising speed, brakes, and halts or
passes; a halt (passengers, a red light, the terminal) has speed exactly 0. Positions are the
integral of speeds.

The cruising speed is a product: the free speed of the street; the hour (rush hours are slower); the
street at that hour of that day; the bus and its driver; the trip; and the last few legs. So speeds
are alike along a street, along a trip and from one moment to the next. Everything is computed for
all legs at once; nothing steps through time.

Fixes: where each bus is at its moments of reporting, and which of them arrive.

A unit reports every so many seconds. Some fixes are missing, of some buses most; of some runs none
arrives at all; a few are sent twice, exactly alike. Speeds come as whole km/h, of a few buses with
a decimal; a bus that halts reports exactly 0.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hexveil.base.arrays import Bools, Floats, Ints
from hexveil.simulation.city import fleet
from hexveil.simulation.city.fleet import HOUR, Duties, Ground, Runs
from hexveil.simulation.city.streets import DOWN, Legs

RUSH_HOURS = np.interp(
    np.arange(48) % 24,
    [0, 5, 7, 8, 9, 10, 12, 15, 17, 18, 19, 20, 22, 24],
    [1.25, 1.25, 1.05, 0.86, 0.78, 0.86, 0.98, 0.95, 0.8, 0.76, 0.82, 0.95, 1.1, 1.25],
)
"""Factor of the speed by local hour; hours past midnight are those of the next day."""

TRIP_SD, LEG_SD, STREET_SD, STREET_HOUR_SD = 0.2, 0.26, 0.15, 0.15
"""Standard deviations of the logarithm of the speed."""

MEMORY = np.array([0.3, 0.5, 0.65, 0.5, 0.3])
"""Weights by which the noise of a leg is shared with the legs before and after it."""

SLOWEST, FASTEST = 7.0, 63.0
"""Cruising speeds in km/h."""

ACCELERATION = 0.75
"""Metres per second squared, speeding up and braking."""

CORNER = 0.7
"""Share of the slower leg's cruising speed at which a bus passes from leg to leg."""

BUSY_BELOW = 26.0
"""Free speed in km/h; on slower streets there are more halts than said below, on faster fewer."""

SERVED, BOARDING = 0.75, (6.0, 9.0)
"""Chance that a bus serves a stop, and for how many seconds: at least, and more on average."""

RED, RED_SECONDS = 0.5, (4.0, 45.0)
"""Chance that lights are red, and for how many seconds."""

HOLD_UP, HOLD_UP_SECONDS = 0.12, 14.0
"""Chance to come to a stand at the end of any other leg, and seconds there on average."""

LAYOVER = (150.0, 190.0)
"""Seconds at a terminal: at least, and more on average."""


@dataclass(frozen=True, eq=False)
class Drive:
    """The legs driven, in order of time within each duty. Times in seconds since local midnight.

    Attributes
    ----------
    leg, run : ndarray of int, shape (n_driven,)
        Which leg of the network, in which run.
    start, end : ndarray of float, shape (n_driven,)
        When it begins, and when the halt at its end is over.
    moving : ndarray of float, shape (n_driven,)
        Seconds from its beginning to its end; then the bus halts.
    entry, top, leave : ndarray of float32, shape (n_driven,)
        Speeds in metres per second: at the beginning, at most, at the end.
    """

    leg: Ints
    run: Ints
    start: Floats
    end: Floats
    moving: Floats
    entry: NDArray[np.float32]
    top: NDArray[np.float32]
    leave: NDArray[np.float32]


def drive(
    city: Ground, duties: Duties, streets_today: NDArray[np.float32], generator: np.random.Generator
) -> tuple[Runs, Drive]:
    """Return the runs and the driven legs of some duties on one day.

    Parameters
    ----------
    city : Ground
    duties : Duties
        At least one.
    streets_today : ndarray of float32, shape (n_streets, 24)
        Factor of the speed on each street in each hour of this day: see `street_factors`.
    generator : numpy.random.Generator
    """
    legs = city.network.legs
    seconds = fleet.leg_seconds(city)
    runs = fleet.plan(city, duties, seconds)
    chain = _chain(runs, duties)
    leg = chain.leg
    at_terminal = chain.last_of_run & (runs.way[chain.run] <= DOWN)
    # Due at the terminal, not at the end of the layover there.
    wait = fleet.LAYOVER * at_terminal
    due = chain.clock(seconds[leg] + wait) - wait
    street, hour = legs.street[leg], np.minimum(due / HOUR, RUSH_HOURS.size - 1).astype(np.int64)
    cruise = city.streets.speed[street] * RUSH_HOURS[hour] * streets_today[street, hour % 24]
    cruise *= city.fleet.pace[duties.user][runs.duty][chain.run]
    cruise *= np.exp(_unevenness(runs.count.size, chain.run, generator))
    cruise = np.clip(cruise, SLOWEST, FASTEST) / 3.6
    halt = _halts(city, leg, at_terminal, generator)
    # No bus corners faster than the slower of two legs allows.
    passing = CORNER * np.minimum(cruise, np.append(cruise[1:], 0.0))
    # A halt has speed exactly 0, as in real feeds, where zeros are a spike of their own.
    leave = np.where((halt > 0) | chain.last_of_run, 0.0, passing)
    # The speed at which a leg is left is that at which the next one is entered.
    entry = np.append(0.0, leave[:-1])
    top, moving = _top_speed(legs.length[leg].astype(np.float64), entry, cruise, leave)
    end = chain.clock(moving + halt)
    start = np.where(chain.first_of_duty, chain.start, np.append(0.0, end[:-1]))
    speeds = (speed.astype(np.float32) for speed in (entry, top, leave))
    return runs, Drive(leg, chain.run, start, end, moving, *speeds)


@dataclass(frozen=True, eq=False)
class _Chain:
    """The legs of some duties one after the other, before it is known how long each takes."""

    leg: Ints
    run: Ints
    start: Floats
    first_of_duty: Bools
    last_of_run: Bools

    def clock(self, seconds: Floats) -> Floats:
        """Return when each leg is done if it takes so many seconds."""
        elapsed = np.cumsum(seconds)
        begins = np.flatnonzero(self.first_of_duty)
        # One cumulative sum for all duties, less what had passed when each began.
        passed = elapsed[begins] - seconds[begins]
        return elapsed - np.repeat(passed, np.diff(np.append(begins, elapsed.size))) + self.start


def _chain(runs: Runs, duties: Duties) -> _Chain:
    """Return the legs of some runs; every duty has a trip, and every trip a leg."""
    run = np.repeat(np.arange(runs.count.size), runs.count)
    preceding = np.cumsum(runs.count) - runs.count
    duty = runs.duty[run]
    return _Chain(
        leg=np.arange(run.size) + (runs.first - preceding)[run],
        run=run,
        start=duties.start[duty],
        first_of_duty=np.append(np.ones(1, dtype=bool), duty[1:] != duty[:-1]),
        last_of_run=np.append(run[1:] != run[:-1], np.ones(1, dtype=bool)),
    )


def _unevenness(n_runs: int, run: Ints, generator: np.random.Generator) -> Floats:
    """Return the noise of the logarithm of each leg's speed: of its trip, and of legs near it."""
    log = generator.standard_normal(run.size + MEMORY.size - 1, dtype=np.float32)
    # Scaled so that sharing noise between legs leaves its standard deviation unchanged.
    weights = LEG_SD * MEMORY / np.sqrt((MEMORY**2).sum())
    log = np.convolve(log, weights.astype(np.float32), "valid")
    return np.asarray(log + generator.normal(0.0, TRIP_SD, n_runs)[run])


def street_factors(n_streets: int, generator: np.random.Generator) -> NDArray[np.float32]:
    """Return the factor of the speed on each street in each hour of a day: (n_streets, 24)."""
    whole_day = generator.standard_normal((n_streets, 1), dtype=np.float32)
    factors = generator.standard_normal((n_streets, 24), dtype=np.float32)
    factors *= np.float32(STREET_HOUR_SD)
    factors += np.float32(STREET_SD) * whole_day
    return np.exp(factors, out=factors)


def _halts(city: Ground, leg: Ints, at_terminal: Bools, generator: np.random.Generator) -> Floats:
    """Return the seconds of the halt at the end of each leg, 0 for none."""
    legs = city.network.legs
    busy = np.clip((BUSY_BELOW / city.streets.speed) ** 1.5, 0.15, 1.5)[legs.street[leg]]
    # One number decides all kinds of halts of a leg: busy streets have more of each.
    chance = generator.random(leg.size, dtype=np.float32) / busy
    longer = generator.standard_exponential(leg.size, dtype=np.float32)
    at_stop = (legs.stop[leg] >= 0) & (chance < SERVED)
    at_red = legs.light[leg] & (chance < RED)
    red = RED_SECONDS[0] + (RED_SECONDS[1] - RED_SECONDS[0]) * chance / RED
    halt = np.where(chance < HOLD_UP, HOLD_UP_SECONDS * longer, 0.0)
    halt = np.where(at_red, red, np.where(at_stop, BOARDING[0] + BOARDING[1] * longer, halt))
    return np.asarray(np.where(at_terminal, LAYOVER[0] + LAYOVER[1] * longer, halt))


def _top_speed(
    length: Floats, enter: Floats, cruise: Floats, leave: Floats
) -> tuple[Floats, Floats]:
    """Return the highest speed on each leg, and the seconds that it takes.

    On a short leg a bus has to brake before it cruises: v² = a d + (enter² + leave²)/2.
    """
    reached = np.sqrt(ACCELERATION * length + (enter**2 + leave**2) / 2)
    top = np.maximum(np.minimum(cruise, reached), np.maximum(enter, leave))
    remaining = length - (2 * top**2 - enter**2 - leave**2) / (2 * ACCELERATION)
    seconds = (2 * top - enter - leave) / ACCELERATION + np.maximum(remaining, 0.0) / top
    return top, seconds


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

    of: Ints
    second: Ints
    x: Floats
    y: Floats
    speed: Floats


def arriving(
    city: Ground, day: tuple[Duties, Runs, Drive], interval: int, generator: np.random.Generator
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


def reported(speed: NDArray[np.float32], decimals: Bools, generator: np.random.Generator) -> Floats:
    """Return km/h as units report them: a little off, whole or with a decimal, 0 at a stand."""
    noise = generator.standard_normal(speed.size, dtype=np.float32) * np.float32(JITTER)
    kmh = np.where(speed > 0, np.clip(speed * np.float32(3.6) + noise, 0, LIMIT), 0)
    return np.where(decimals, np.rint(kmh * 10) / 10.0, np.rint(kmh)).astype(np.float64)


def moments(driven: Drive, phase: Ints, interval: int) -> tuple[Ints, Ints]:
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
    legs: Legs, driven: Drive, leg: Ints, second: Ints
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
