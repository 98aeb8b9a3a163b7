"""Fixes as records of the ITMS feed: 13 columns, some nulls, some exact repeats.

The columns are those of Surat's bus feed (IUDX class TransitManagement). Text is dictionary-encoded
and times are instants with the city's time zone; `texts` turns both into what CSV and JSON hold.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hexveil.base.arrays import Bools, Ints
from hexveil.simulation.city import fleet, motion
from hexveil.simulation.city.fleet import Duties, Ground, Runs
from hexveil.simulation.city.motion import Drive
from hexveil.simulation.city.streets import OUT, UP, to_degrees

TIMEZONE, OFFSET = "Asia/Kolkata", 19_800
"""Of the city, and its seconds ahead of UTC, all year."""

FEED = "hexveil.invented/simulated-city/bus-feed"
"""Identifier of the feed, the same in every record."""

NO_DELAY, NO_STOP_TIME = 0.005, 0.1
"""Share of legs whose records lack trip_delay, or last_stop_arrival_time."""

FIRST_STOP, FIRST_TRIP = 1_000, 10_000_000
"""Lowest numbers of a stop and of a trip."""

MOST_RUNS = 1000
"""Of one bus on one day, so that numbers of trips do not meet."""

# Texts repeat in thousands of records: a dictionary holds each once.
_TEXT = pa.dictionary(pa.int32(), pa.string())
_TIME = pa.timestamp("ms", TIMEZONE)
SCHEMA = pa.schema(
    [
        ("id", _TEXT),
        ("observationDateTime", _TIME),
        ("license_plate", _TEXT),
        ("vehicle_label", _TEXT),
        ("route_id", _TEXT),
        ("trip_id", _TEXT),
        ("trip_direction", _TEXT),
        ("actual_trip_start_time", _TIME),
        ("trip_delay", pa.int32()),
        ("last_stop_id", _TEXT),
        ("last_stop_arrival_time", _TEXT),
        ("location", pa.struct([("type", pa.string()), ("coordinates", pa.list_(pa.float64()))])),
        ("speed", pa.float64()),
    ]
)
"""Columns of a record in Arrow and Parquet."""


@dataclass(frozen=True)
class Sheet:
    """Reporting of a block of buses on one day: who, when, and how often.

    Attributes
    ----------
    users : slice
        Numbers of the buses.
    day : int
        Days since the first.
    midnight : int
        Unix time of the day's first second, local.
    interval : int
        Seconds from fix to fix.
    """

    users: slice
    day: int
    midnight: int
    interval: int


def records(
    city: Ground, sheet: Sheet, streets_today: NDArray[np.float32], generator: np.random.Generator
) -> pa.RecordBatch:
    """Return the records of some buses on one day, bus by bus, in order of time."""
    sunday = is_sunday(sheet.midnight)
    duties = fleet.duties(city.fleet, sheet.users, sunday=sunday, generator=generator)
    if not duties.user.size:
        return pa.RecordBatch.from_pylist([], schema=SCHEMA)
    runs, driven = motion.drive(city, duties, streets_today, generator)
    fixes = motion.arriving(city, (duties, runs, driven), sheet.interval, generator)
    columns = {
        **_of_bus(city, sheet, duties.user[runs.duty][driven.run], fixes),
        **_of_run(city, sheet, (duties, runs, driven), fixes),
        **_of_stop(city, (runs, driven), fixes, generator),
        "observationDateTime": _times(sheet.midnight + fixes.second),
        "location": _places(fixes),
        "speed": pa.array(fixes.speed),
    }
    return pa.record_batch([columns[name] for name in SCHEMA.names], schema=SCHEMA)


def is_sunday(midnight: int) -> bool:
    """Return whether a local day, named by its first second in Unix time, is a Sunday."""
    return (midnight + OFFSET) // 86_400 % 7 == 3  # Unix time begins on a Thursday


def _of_bus(city: Ground, sheet: Sheet, user: Ints, fixes: motion.Seen) -> dict[str, pa.Array]:
    """Return the columns that stay the same of a bus."""
    users = range(sheet.users.start, sheet.users.stop)
    depots = city.network.depot[city.fleet.route[sheet.users]]
    labels = [fleet.label(*bus) for bus in zip(users, depots.tolist(), strict=True)]
    code = (user - sheet.users.start).astype(np.int32)[fixes.of]
    return {
        "id": _coded(np.zeros(code.size, dtype=np.int32), [FEED]),
        "license_plate": _coded(code, [fleet.plate(user) for user in users]),
        "vehicle_label": _coded(code, labels),
    }


def _of_run(
    city: Ground, sheet: Sheet, day: tuple[Duties, Runs, Drive], fixes: motion.Seen
) -> dict[str, pa.Array]:
    """Return the columns that stay the same during a run; the way to the depot is one, too."""
    duties, runs, driven = day
    run = driven.run[fixes.of]
    up = (runs.way == UP) | (runs.way == OUT)
    bus = duties.user[runs.duty]
    route = 2 * city.fleet.route[bus] + up
    names = [
        f"{number // 2 + 1}{'DU'[number % 2]}" for number in range(2 * city.network.share.size)
    ]
    started = np.zeros(runs.way.size)
    begins = np.flatnonzero(np.diff(driven.run, prepend=-1))
    started[driven.run[begins]] = driven.start[begins]
    number = np.arange(bus.size) - np.searchsorted(bus, bus)
    trip = FIRST_TRIP + (sheet.day * fleet.MOST_USERS + bus) * MOST_RUNS + number
    return {
        "route_id": _coded(route.astype(np.int32)[run], names),
        "trip_id": _coded(run.astype(np.int32), _digits(trip)),
        "trip_direction": _coded(up.astype(np.int32)[run], ["DN", "UP"]),
        "actual_trip_start_time": _times(sheet.midnight + started.astype(np.int64)[run]),
    }


def _of_stop(
    city: Ground, day: tuple[Runs, Drive], fixes: motion.Seen, generator: np.random.Generator
) -> dict[str, pa.Array]:
    """Return the columns of the last stop that was passed in the run; null before the first."""
    runs, driven = day
    number = city.network.legs.stop[driven.leg]
    last_stop, first_stop = _last_stop(number, driven.run)
    has_stop = last_stop >= first_stop
    last_stop = np.maximum(last_stop, 0)
    arrival = driven.start[last_stop] + driven.moving[last_stop]
    late = generator.normal(60.0, 120.0, runs.way.size)[driven.run]
    # Late when it set out, and by how much more it has taken than the timetable says.
    delay = (
        late
        + (arrival - driven.start[first_stop])
        - (driven.due[last_stop] - driven.due[first_stop])
    )
    # Missing per leg, not per record: a real feed lacks a field for a while.
    lacks = generator.random((2, last_stop.size), dtype=np.float32)
    no_delay = (~has_stop | (lacks[0] < NO_DELAY))[fixes.of]
    no_time = (~has_stop | (lacks[1] < NO_STOP_TIME))[fixes.of]
    stop, stop_code = _distinct(np.maximum(number[last_stop], 0)[fixes.of])
    clock, clock_code = _distinct((arrival.astype(np.int64) % 86_400)[fixes.of])
    clock_words = pa.array(clock.astype(np.int32), pa.time32("s")).cast(pa.string())
    return {
        "trip_delay": pa.array(np.rint(delay).astype(np.int32)[fixes.of], mask=no_delay),
        "last_stop_id": _coded(stop_code, _digits(FIRST_STOP + stop), ~has_stop[fixes.of]),
        "last_stop_arrival_time": _coded(clock_code, clock_words, no_time),
    }


def _distinct(numbers: Ints) -> tuple[Ints, NDArray[np.int32]]:
    """Return the distinct small numbers in order, and for each number its place among them."""
    # Small numbers: a table of flags is much faster than sorting, as np.unique does.
    occurs = np.zeros(int(numbers.max(initial=0)) + 1, dtype=bool)
    occurs[numbers] = True
    return np.flatnonzero(occurs), (np.cumsum(occurs, dtype=np.int32) - 1)[numbers]


def _last_stop(stop: Ints, run: Ints) -> tuple[Ints, Ints]:
    """Return the last driven leg before each that ends at a stop, and the first of its run."""
    place = np.arange(stop.size)
    begins = np.flatnonzero(np.diff(run, prepend=-1))
    first_stop = np.repeat(begins, np.diff(np.append(begins, stop.size)))
    ended = np.maximum.accumulate(np.where(stop >= 0, place, -1))
    return np.append(-1, ended[:-1]), first_stop


def _coded(
    code: NDArray[np.int32], words: Sequence[str] | pa.Array, null: Bools | None = None
) -> pa.Array:
    """Return text by its number in a list of words."""
    return pa.DictionaryArray.from_arrays(pa.array(code, mask=null), pa.array(words, pa.string()))


def _digits(numbers: Ints) -> pa.Array:
    return pc.cast(pa.array(numbers), pa.string())


def _times(unix: Ints) -> pa.Array:
    return pa.array(unix * 1000).view(_TIME)


def _places(fixes: motion.Seen) -> pa.Array:
    """Return GeoJSON points: longitude first, six decimals."""
    places = np.empty((fixes.x.size, 2))
    places[:, 1], places[:, 0] = to_degrees(fixes.x, fixes.y)
    # Six decimals, as in the real feed; in place, because this is the largest array.
    np.rint(np.multiply(places, 1e6, out=places), out=places)
    places /= 1e6
    ends = pa.array(np.arange(0, places.size + 1, 2, dtype=np.int32))
    kind = pa.repeat(pa.scalar("Point"), fixes.x.size)
    pairs = pa.ListArray.from_arrays(ends, pa.array(places.ravel()))
    return pa.StructArray.from_arrays([kind, pairs], ["type", "coordinates"])
