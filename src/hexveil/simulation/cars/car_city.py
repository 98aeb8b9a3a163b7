"""The public door to simulated private cars: their records batch by batch, and their statistics."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from hexveil.base import atomic_files
from hexveil.base.errors import InputError, StorageError
from hexveil.simulation.cars.journeys import CITY_KM, CarHabits, Journeys, quarter_levels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

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
        ("time", pa.timestamp("s", "UTC")),
        ("lat", pa.float64()),
        ("lon", pa.float64()),
        ("speed", pa.float64()),
    ]
)
ENDINGS = (".parquet", ".csv")
_CITY, _HABITS, _DAY = range(3)
"""What a stream of random numbers is for; the first part of its key."""


@dataclass(frozen=True)
class CarStatistics:
    """Facts of simulated records, which everybody may know.

    Attributes
    ----------
    records, cars : int
        Cars with at least one record.
    median_records, mean_records : float
        Of these cars.
    busiest_tenth : float
        Share of the records that the busiest tenth of these cars has.
    """

    records: int
    cars: int
    median_records: float
    mean_records: float
    busiest_tenth: float


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
        limits = (("cars", 1, MOST_CARS), ("days", 1, MOST_DAYS), ("seed", 0, 2**63 - 1))
        for name, low, high in limits:
            given = getattr(self, name)
            if isinstance(given, bool) or not isinstance(given, int) or not low <= given <= high:
                raise InputError(f"{name} must be a whole number from {low} to {high:,}.")
        if not isinstance(self.start, dt.date):
            try:
                object.__setattr__(self, "start", dt.date.fromisoformat(self.start))
            except ValueError:
                raise InputError(
                    f"start must be a date such as 2024-01-01, got {self.start!r}."
                ) from None

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
        n_cars = min(BLOCK, self.cars - begin)
        habits = CarHabits.drawn(n_cars, self._stream(_HABITS, begin))
        date = dt.date.fromisoformat(str(self.start)) + dt.timedelta(days=day)
        rng = self._stream(_DAY, day, begin)
        fixes = Journeys.drawn(habits, rng, is_weekend=date.weekday() >= 5).fixes()
        speed = fixes.speeds(habits, quarter_levels(self._stream(_CITY)), rng)
        east, north = (fixes.place - CITY_KM / 2).T / KM_PER_DEGREE
        midnight = (date - dt.date(1970, 1, 1)).days * 86_400 - UTC_OFFSET
        seconds = np.floor(midnight + 3600 * fixes.hour).astype(np.int64)
        # Small files would name no car in two ways: ids have a fixed length.
        names = pa.array([f"C{begin + number:07d}" for number in range(n_cars)])
        columns = [
            names.take(pa.array(fixes.car)),
            pa.array(seconds).cast(pa.timestamp("s", "UTC")),
            pa.array(np.round(LATITUDE + north, 6)),
            pa.array(np.round(LONGITUDE + east / np.cos(np.radians(LATITUDE)), 6)),
            pa.array(np.round(speed, 1)),
        ]
        return pa.record_batch(columns, schema=SCHEMA)

    def write(self, path: Path, progress: Callable[[int], None] = lambda _: None) -> CarStatistics:
        """Write the records to a Parquet or CSV file; `progress` is told the batches done.

        Raises
        ------
        InputError
            If no file of records can have this name.
        StorageError
            If the file cannot be written; then nothing of it stays.
        """
        if path.suffix not in ENDINGS:
            raise InputError(
                f"{path.name}: the name of the file must end in one of .parquet, .csv."
            )
        if path.is_dir():
            raise InputError(f"{path} is a folder; name a file.")
        if not path.parent.is_dir():
            raise InputError(f"there is no folder {path.parent}; make it, or name another.")
        of_cars = np.zeros(self.cars, dtype=np.int64)
        kind = pa.parquet.ParquetWriter if path.suffix == ".parquet" else pa.csv.CSVWriter
        try:
            with atomic_files.file(path) as temporary, kind(temporary, SCHEMA) as writer:
                for number, batch in enumerate(self.batches(), start=1):
                    writer.write_batch(batch)
                    name, count = _counts(batch)
                    of_cars[name] += count
                    progress(number)
        except OSError as error:
            raise StorageError(
                f"{path} cannot be written ({atomic_files.reason(error)}); make room or name "
                "another file."
            ) from None
        return _statistics(of_cars)

    def _stream(self, purpose: int, *key: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, purpose, *key])


def _counts(batch: pa.RecordBatch) -> tuple[np.typing.NDArray[np.int64], ...]:
    """Return the numbers of the cars of a batch, and their records."""
    found = batch["car"].value_counts()
    cars = [int(name[1:]) for name in found.field("values").to_pylist()]
    return np.array(cars, dtype=np.int64), found.field("counts").to_numpy()


def _statistics(of_cars: np.typing.NDArray[np.int64]) -> CarStatistics:
    """Return the facts of records per car."""
    used = np.sort(of_cars[of_cars > 0])[::-1]
    if not used.size:
        return CarStatistics(0, 0, 0.0, 0.0, 0.0)
    top = used[: max(used.size // 10, 1)].sum() / used.sum()
    return CarStatistics(
        int(used.sum()), used.size, float(np.median(used)), float(used.mean()), float(top)
    )
