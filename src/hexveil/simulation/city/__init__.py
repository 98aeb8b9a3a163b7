"""A simulated city of buses, to try things on that real records are too private or too few for.

Everything in it is invented: streets, routes, buses, speeds. `City` makes the records, in columns
named as those of the feed of Surat's buses (ITMS); `hexveil_research.city` compares them with real
ones. Text is dictionary-encoded, and times are instants with the city's time zone.
"""

import datetime as dt
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

from hexveil.base import atomic_files
from hexveil.base.arrays import Ints
from hexveil.base.errors import InputError
from hexveil.simulation.city import fleet, motion, streets
from hexveil.simulation.city.fleet import Ground
from hexveil.simulation.city.streets import OUT, UP

ROWS = 200_000
"""Records of a batch, about: a day of as many buses as that takes."""

MOST_BUSES = 250
SECONDS_ON_DUTY = 45_000
TIMEZONE, OFFSET = "Asia/Kolkata", 19_800
"""Of the city, and its seconds ahead of UTC, all year."""

# Texts repeat in thousands of records: a dictionary holds each once.
_TEXT = pa.dictionary(pa.int32(), pa.string())
_TIME = pa.timestamp("ms", TIMEZONE)
SCHEMA = pa.schema(
    [
        ("observationDateTime", _TIME),
        ("license_plate", _TEXT),
        ("route_id", _TEXT),
        ("location", pa.struct([("type", pa.string()), ("coordinates", pa.list_(pa.float64()))])),
        ("speed", pa.float64()),
    ]
)
"""Columns of a record in Arrow and Parquet."""

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
    interval : int
        Seconds between two fixes of a bus; at most an hour.
    start : datetime.date
        First day.

    Examples
    --------
    >>> city = City(users=20, days=1, seed=1, interval=60)
    >>> batch = next(city.batches())
    >>> batch.schema.names
    ['observationDateTime', 'license_plate', 'route_id', 'location', 'speed']
    """

    users: int
    days: int
    seed: int
    interval: int
    start: dt.date = dt.date(2024, 1, 1)

    @property
    def block(self) -> int:
        """Return how many buses a batch has, at most."""
        # A batch keeps its size in records, whatever the interval: memory must not depend on it.
        per_bus = SECONDS_ON_DUTY // self.interval + 1
        return min(max(ROWS // per_bus, 1), MOST_BUSES)

    @property
    def n_batches(self) -> int:
        """Return how many batches there are."""
        return self.days * -(-self.users // self.block)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the records, a day of a block of buses at a time; memory stays bounded."""
        for day in range(self.days):
            n_streets = self._ground.streets.length.size
            today = motion.street_factors(n_streets, self._generator(_STREETS, day))
            for block in range(-(-self.users // self.block)):
                yield self._batch(day, block, today)

    def write(self, path: Path, *, progress: Callable[[float], None] = lambda _: None) -> int:
        """Write the records to a file, in place of one of that name; return how many they are.

        Parameters
        ----------
        path : Path
        progress : callable, optional
            Receives the completed share of the work, 0 to 1.
        """
        batches = self.batches()
        return write_parquet(path, SCHEMA, batches, lambda done: progress(done / self.n_batches))

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

    def _batch(self, day: int, block: int, today: NDArray[np.float32]) -> pa.RecordBatch:
        """Return the records of some buses on one day, bus by bus, in order of time."""
        city, generator = self._ground, self._generator(_RECORDS, day, block)
        users = slice(block * self.block, min((block + 1) * self.block, self.users))
        date = self.start + dt.timedelta(days=day)
        is_sunday = date.weekday() == 6
        duties = fleet.duties(city.fleet, users, sunday=is_sunday, generator=generator)
        if not duties.user.size:
            return pa.RecordBatch.from_pylist([], schema=SCHEMA)
        runs, driven = motion.drive(city, duties, today, generator)
        fixes = motion.arriving(city, (duties, runs, driven), self.interval, generator)
        run = driven.run[fixes.of]
        bus = duties.user[runs.duty]
        # The way to the depot is a run, too.
        route = 2 * city.fleet.route[bus] + ((runs.way == UP) | (runs.way == OUT))
        plates = [fleet.plate(user) for user in range(users.start, users.stop)]
        n_routes = city.network.share.size
        midnight = (date - dt.date(1970, 1, 1)).days * 86_400 - OFFSET
        columns = [
            pa.array((midnight + fixes.second) * 1000).view(_TIME),
            _coded((bus - users.start)[run], plates),
            _coded(route[run], [f"{n // 2 + 1}{'DU'[n % 2]}" for n in range(2 * n_routes)]),
            _places(fixes),
            pa.array(fixes.speed),
        ]
        return pa.record_batch(columns, schema=SCHEMA)

    def _generator(self, *key: int) -> np.random.Generator:
        return np.random.Generator(
            # Spawned keys give independent streams, whatever the order in which they are used.
            np.random.SFC64(np.random.SeedSequence(self.seed, spawn_key=key))
        )


def write_parquet(
    path: Path,
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    progress: Callable[[int], None],
) -> int:
    """Write all records to a file and return how many; `progress` is told the batches done.

    The file has a temporary name until it is whole, and then takes the place of any before it.
    """
    rows = 0
    with (
        atomic_files.file(path) as temporary,
        pyarrow.parquet.ParquetWriter(temporary, schema, compression="zstd") as writer,
    ):
        for number, batch in enumerate(batches, start=1):
            # An empty row group would be one more for every reader to open.
            if batch.num_rows:
                writer.write_batch(batch)
            rows += batch.num_rows
            progress(number)
    return rows


def _coded(code: Ints, words: list[str]) -> pa.Array:
    """Return text by its number in a list of words."""
    return pa.DictionaryArray.from_arrays(pa.array(code.astype(np.int32)), pa.array(words))


def _places(fixes: motion.Seen) -> pa.Array:
    """Return GeoJSON points: longitude first, six decimals."""
    places = np.empty((fixes.x.size, 2))
    places[:, 1], places[:, 0] = streets.to_degrees(fixes.x, fixes.y)
    # Six decimals, as in the real feed; in place, because this is the largest array.
    np.rint(np.multiply(places, 1e6, out=places), out=places)
    places /= 1e6
    ends = pa.array(np.arange(0, places.size + 1, 2, dtype=np.int32))
    kind = pa.repeat(pa.scalar("Point"), fixes.x.size)
    pairs = pa.ListArray.from_arrays(ends, pa.array(places.ravel()))
    return pa.StructArray.from_arrays([kind, pairs], ["type", "coordinates"])


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
    feed = pa.Table.from_batches(City(users=300, days=7, seed=1, interval=300).batches())
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
