"""Private cars of an invented city, for maps in which presence is private.

`CarCity` makes the records batch by batch: homes, work places and trips, and the records along
them. Everything is invented.

The city is a square of `CITY_KM`. Homes crowd around its centre, work places more so. Cars differ
in use: the expected trips of a day follow a gamma distribution, so that some cars stand still on
most days. On a working day the first trip leads to work at about 8, the second back at about 17:30;
others, and those of a weekend, lie between 6 and 23, and a third of all trips lead elsewhere. A
car follows a street east or west and then one north or south, and sends a record each 250 m.

Speed has a level that grows with the distance from the centre and differs between quarters; it
falls in the rush hours, more in the centre than at the edge; cars differ, and records more.
"""

import datetime as dt
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from hexveil.base.arrays import Floats, Ints
from hexveil.simulation.city import write_parquet
from hexveil_research.invented_arguments import check_integer, to_date

LATITUDE, LONGITUDE, ZONE = 21.2, 74.9, "Asia/Kolkata"
"""Of the city's centre, and of its clock: UTC+05:30 all year."""
KM_PER_DEGREE = 111.195
BOX = (74.707, 21.020, 75.093, 21.380)
"""West, south, east, north: holds every record."""
MOST_CARS, MOST_DAYS, BLOCK = 10_000_000, 366, 5_000
UTC_OFFSET = 5.5 * 3600
SCHEMA = pa.schema(
    [
        ("car", pa.string()),
        ("time", pa.timestamp("s", ZONE)),
        ("lat", pa.float64()),
        ("lon", pa.float64()),
        ("speed", pa.float64()),
    ]
)
_CITY, _HABITS, _DAY = range(3)
"""What a stream of random numbers is for; the first part of its key."""


@dataclass(frozen=True)
class CarCity:
    """Private cars of an invented city of 40 by 40 km, and the records that they send.

    The same arguments give the same records; a longer period begins with the same days.

    Parameters
    ----------
    cars : int
    days : int
        Local days from `start`.
    seed : int
        At least 0.
    start : str or datetime.date
        First day; the default is a Monday.

    Raises
    ------
    InputError
        If one of them makes no sense; the message names it.

    Examples
    --------
    >>> next(CarCity(cars=10, days=1).batches()).schema.names
    ['car', 'time', 'lat', 'lon', 'speed']
    """

    cars: int = 10_000
    days: int = 1
    seed: int = 1
    start: str | dt.date = "2024-01-01"

    def __post_init__(self) -> None:
        for name, most in (("cars", MOST_CARS), ("days", MOST_DAYS), ("seed", 2**63 - 1)):
            check_integer(name, getattr(self, name), int(name != "seed"), most)
        # The class is frozen, and callers may write a date as text.
        object.__setattr__(self, "start", to_date(self.start))

    @property
    def n_batches(self) -> int:
        """Return how many batches there are."""
        return self.days * -(-self.cars // BLOCK)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the records, a day of a block of cars at a time; memory stays bounded."""
        for day in range(self.days):
            for begin in range(0, self.cars, BLOCK):
                yield self._batch(day, begin)

    def _batch(self, day: int, begin: int) -> pa.RecordBatch:
        n_cars, habits = min(BLOCK, self.cars - begin), self._stream(_HABITS, begin)
        home, work = (_places(n_cars, spread, habits) for spread in (HOMES_KM, WORK_KM))
        trips = habits.gamma(USE_SHAPE, TRIPS / USE_SHAPE, n_cars)
        faster = habits.normal(0.0, OF_CAR, n_cars)
        date, rng = to_date(self.start) + dt.timedelta(days=day), self._stream(_DAY, day, begin)
        trip_car, *trips_of_day = _journeys(home, work, trips, rng, is_weekend=date.weekday() >= 5)
        trip, place, hour = _fixes(*trips_of_day)
        car = trip_car[trip]
        across = int(np.ceil(CITY_KM / QUARTER_KM))
        quarters = self._stream(_CITY).normal(0.0, OF_QUARTER, (across, across))
        speed = _levels(place, hour, quarters) + faster[car] + rng.normal(0.0, OF_RECORD, hour.size)
        east, north = (place - CITY_KM / 2).T / KM_PER_DEGREE
        midnight = (date - dt.date(1970, 1, 1)).days * 86_400 - UTC_OFFSET
        seconds = np.floor(midnight + 3600 * hour).astype(np.int64)
        # Small files would name no car in two ways: ids have a fixed length.
        names = pa.array([f"C{begin + number:07d}" for number in range(n_cars)])
        columns = [
            names.take(pa.array(car)),
            pa.array(seconds).cast(pa.timestamp("s", ZONE)),
            pa.array(np.round(LATITUDE + north, 6)),
            pa.array(np.round(LONGITUDE + east / np.cos(np.radians(LATITUDE)), 6)),
            pa.array(np.round(np.clip(speed, 0.0, FASTEST), 1)),
        ]
        return pa.record_batch(columns, schema=SCHEMA)

    def write(self, path: Path, *, progress: Callable[[float], None] = lambda _: None) -> int:
        """Write the records to a file, and return how many they are: see `City.write`."""
        batches = self.batches()
        return write_parquet(path, SCHEMA, batches, lambda done: progress(done / self.n_batches))

    def _stream(self, purpose: int, *key: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, purpose, *key])


CITY_KM, RECORD_KM, TYPICAL_KMH = 40.0, 0.25, 28.0
HOMES_KM, WORK_KM, ELSEWHERE_KM = 7.0, 5.0, 8.0
"""Standard deviations of places about the centre, in each direction."""
TRIPS, USE_SHAPE = 2.7, 2.0
"""Mean trips of a car on a working day; shape of the gamma distribution of cars' use."""
WEEKEND = 0.7
ELSEWHERE = 0.3
QUARTER_KM = 4.0
OF_QUARTER, OF_CAR, OF_RECORD = 4.0, 4.0, 12.0
"""Standard deviations of speed in km/h."""
FASTEST = 130.0


def _places(n: int, spread: float, rng: np.random.Generator) -> Floats:
    """Return places around the centre of the city, in km from its south-western corner."""
    return np.clip(CITY_KM / 2 + rng.normal(0.0, spread, (n, 2)), 0.01, CITY_KM - 0.01)


def _journeys(
    home: Floats, work: Floats, trips: Floats, rng: np.random.Generator, *, is_weekend: bool
) -> tuple[Ints, Floats, Floats, Floats]:
    """Return the car, start, end and local hour of departure of the trips of a day."""
    n_trips = rng.poisson(trips * (WEEKEND if is_weekend else 1.0))
    car = np.repeat(np.arange(trips.size), n_trips)
    turn = np.arange(car.size) - np.repeat(np.cumsum(n_trips) - n_trips, n_trips)
    is_back = (turn % 2 == 1)[:, None]
    there, home = work[car], home[car]
    is_elsewhere = rng.random(car.size) < (1.0 if is_weekend else ELSEWHERE)
    there[is_elsewhere] = _places(int(is_elsewhere.sum()), ELSEWHERE_KM, rng)
    hour = rng.uniform(6.0, 23.0, car.size)
    if not is_weekend:
        hour = np.where(turn == 0, rng.normal(8.0, 1.2, car.size), hour)
        hour = np.where(turn == 1, rng.normal(17.5, 1.8, car.size), hour)
    start, end = np.where(is_back, there, home), np.where(is_back, home, there)
    return car, start, end, np.clip(hour, 0.0, 22.0)


def _fixes(start: Floats, end: Floats, hour: Floats) -> tuple[Ints, Floats, Floats]:
    """Return trip, place and local hour of the records along trips, one each `RECORD_KM`."""
    reach = np.abs(end - start)
    n = 1 + (reach.sum(axis=1) / RECORD_KM).astype(np.int64)
    trip = np.repeat(np.arange(n.size), n)
    driven = RECORD_KM * (np.arange(trip.size) - np.repeat(np.cumsum(n) - n, n))
    east = np.minimum(driven, reach[trip, 0])
    ahead = np.stack([east, driven - east], axis=1)
    return trip, start[trip] + np.sign(end - start)[trip] * ahead, hour[trip] + driven / TYPICAL_KMH


def _levels(place: Floats, hour: Floats, quarters: Floats) -> Floats:
    """Return the usual speed of a place and hour in km/h, by the levels of the city's quarters."""
    distance = np.hypot(*(place - CITY_KM / 2).T)
    east, north = np.clip(place // QUARTER_KM, 0, len(quarters) - 1).astype(np.int64).T
    rush = 9.0 * np.exp(-((hour - 8.5) ** 2) / 2.0) + 8.0 * np.exp(-((hour - 17.5) ** 2) / 3.0)
    level = 26.0 + 1.1 * distance + quarters[east, north] - rush * np.exp(-distance / 30.0)
    return np.asarray(level)
