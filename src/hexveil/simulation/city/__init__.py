"""A simulated city of buses, to try things on that real records are too private or too few for.

Everything in it is invented: streets, routes, buses, speeds. `City` makes the records, in the
columns of the feed of Surat's buses (ITMS); `hexveil_research.city`
compares them with real ones.
"""

import datetime as dt
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hexveil.base.errors import InputError
from hexveil.simulation import writing
from hexveil.simulation.city import feed, fleet, streets
from hexveil.simulation.city.fleet import Ground
from hexveil.simulation.city.motion import street_factors

MOST_DAYS = 3_660
LONGEST_INTERVAL = 3_600
ROWS = 200_000
"""Records of a batch, about: a day of as many buses as that takes."""

MOST_BUSES = 250
SECONDS_ON_DUTY = 45_000
_SECONDS = {"": 1, "s": 1, "min": 60}

_GROUND, _STREETS, _RECORDS = range(3)
"""What a stream of random numbers is for; the first part of its key."""


@dataclass(frozen=True)
class City:
    """An invented city of buses, and the records that they send.

    The same arguments give the same records. Each day of each block of buses has a stream of random
    numbers of its own: the order in which blocks are made does not matter, and the first days of a
    longer simulation are those of a shorter one.

    Parameters
    ----------
    users : int
        Buses; some rest on any day.
    days : int
        Whole local days from `start`; records of the last night end at 3 o'clock.
    seed : int
        At least 0.
    start : str or datetime.date
        First day, as "2024-01-01".
    interval : str or int
        Seconds between two fixes of a bus, as 20, "20s" or "1min"; at most an hour.

    Raises
    ------
    InputError
        If one of them makes no sense; the message names it.

    Examples
    --------
    >>> city = City(users=20, days=1, seed=1, interval="60s")
    >>> batch = next(city.batches())
    >>> batch.schema.names[:3]
    ['id', 'observationDateTime', 'license_plate']
    """

    users: int = 300
    days: int = 7
    seed: int = 1
    start: str | dt.date = "2024-01-01"
    interval: str | int = "20s"

    def __post_init__(self) -> None:
        for name, minimum, maximum in (
            ("users", 1, fleet.MOST_USERS),
            ("days", 1, MOST_DAYS),
            ("seed", 0, 2**63 - 1),
        ):
            writing.check_integer(name, getattr(self, name), minimum, maximum)
        # The class is frozen, and callers may write dates and intervals as text.
        object.__setattr__(self, "start", writing.to_date(self.start))
        object.__setattr__(self, "interval", _interval(self.interval))

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of a record."""
        return feed.SCHEMA

    @property
    def block(self) -> int:
        """Return how many buses a batch has, at most."""
        # A batch keeps its size in records, whatever the interval: memory must not depend on it.
        per_bus = SECONDS_ON_DUTY // int(self.interval) + 1
        return min(max(ROWS // per_bus, 1), MOST_BUSES)

    @property
    def n_batches(self) -> int:
        """Return how many batches there are."""
        return self.days * -(-self.users // self.block)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the records, a day of a block of buses at a time; memory stays bounded."""
        for day in range(self.days):
            today = self._streets_on(day)
            for block in range(-(-self.users // self.block)):
                yield self._batch(day, block, today)

    def batch(self, day: int, block: int) -> pa.RecordBatch:
        """Return the records of one day, from 0, of one block of buses, from 0."""
        writing.check_integer("day", day, 0, self.days - 1)
        writing.check_integer("block", block, 0, self.n_batches // self.days - 1)
        return self._batch(day, block, self._streets_on(day))

    def write(self, path: str | Path, *, progress: Callable[[float], None] | None = None) -> int:
        """Write the records to a file and return how many they are.

        Parameters
        ----------
        path : str or Path
            Of a .parquet, .csv, .json, .ndjson or .jsonl file; one of that name is replaced.
        progress : callable, optional
            Receives the completed share of the work, 0 to 1.

        Raises
        ------
        InputError
            If the path has another suffix, or is a folder or in none.
        StorageError
            If the file cannot be written; then nothing of it stays.
        """
        tell = progress or (lambda _: None)
        return writing.write(
            Path(path), (feed.SCHEMA, self.batches()), lambda done: tell(done / self.n_batches)
        )

    def streets_geojson(self) -> dict[str, Any]:
        """Return every street as a line, as GeoJSON, to draw beneath a map."""
        laid = self._ground.streets
        lat, lon = (np.round(degrees, 6) for degrees in streets.to_degrees(laid.x, laid.y))
        ends = np.stack([np.stack([lon[k], lat[k]], axis=1) for k in (laid.tail, laid.head)], 1)
        return {"type": "MultiLineString", "coordinates": ends.tolist()}

    @cached_property
    def _ground(self) -> Ground:
        generator = self._generator(_GROUND)
        laid = streets.lay(self.users, generator)
        network = streets.draw(laid, self.users, generator)
        return Ground(laid, network, fleet.buy(network, self.users, generator))

    def _streets_on(self, day: int) -> np.ndarray[Any, np.dtype[np.float32]]:
        return street_factors(self._ground.streets.length.size, self._generator(_STREETS, day))

    def _batch(
        self, day: int, block: int, today: np.ndarray[Any, np.dtype[np.float32]]
    ) -> pa.RecordBatch:
        users = slice(block * self.block, min((block + 1) * self.block, self.users))
        days = writing.to_date(self.start).toordinal() - dt.date(1970, 1, 1).toordinal() + day
        sheet = feed.Sheet(users, day, days * 86_400 - feed.OFFSET, int(self.interval))
        return feed.records(self._ground, sheet, today, self._generator(_RECORDS, day, block))

    def _generator(self, *key: int) -> np.random.Generator:
        return np.random.Generator(
            # Spawned keys give independent streams, whatever the order in which they are used.
            np.random.SFC64(np.random.SeedSequence(self.seed, spawn_key=key))
        )


def _interval(interval: str | int) -> int:
    """Return seconds."""
    match = (
        re.fullmatch(r"(\d{1,4})(s|min|)", str(interval))
        if not isinstance(interval, bool)
        else None
    )
    seconds = int(match[1]) * _SECONDS[match[2]] if match else 0
    if not 1 <= seconds <= LONGEST_INTERVAL:
        raise InputError(
            f"interval must be from 1 to {LONGEST_INTERVAL} seconds, as 20s or 1min, "
            f"got {interval!r}."
        )
    return seconds


# ---- a small feed, for first steps without records ----


def example(name: str = "buses") -> pa.Table:
    """Return an invented feed: a week of 300 buses, a record every five minutes.

    The same records each time. Nothing in it is real; `hexveil simulate` makes longer ones.

    Parameters
    ----------
    name : "buses"

    Returns
    -------
    pyarrow.Table
        175,519 rows: bus (str), time (timestamp, UTC+5:30), lat, lon (degrees), speed (km/h, at
        most 65), line (str).

    Raises
    ------
    InputError
        For another name.

    Examples
    --------
    >>> example("buses").column_names
    ['bus', 'time', 'lat', 'lon', 'speed', 'line']
    """
    if name != "buses":
        raise InputError(f"there is one example, 'buses', and none called {name!r}.")
    feed = pa.Table.from_batches(City(users=300, days=7, seed=1, interval="5min").batches())
    places = feed["location"].combine_chunks().field("coordinates").flatten()
    return pa.table(
        {
            "bus": feed["license_plate"].cast(pa.string()),
            "time": feed["observationDateTime"],
            "lat": places[1::2],
            "lon": places[::2],
            "speed": feed["speed"],
            "line": feed["route_id"].cast(pa.string()),
        }
    )
