"""The estimates of a day that remember earlier days.

A forecast of each cell, from earlier days and from the day's other cells, times the likelihood of
the cell's own number, gives the posterior of what the cell would show without noise. Of that the
lasting error L is taken off, of which a part s goes with what is shown (`Forecast`):

    estimate = median - E L,
    end = estimate ± √((1 - s)² (quantile - median)² + 1.96² (sd² L + r²)).

Which users a day has moves its average, but hardly a number whose range clips most of them: r is
room for a part of the deviation that they have by sampling, which no number shows. The deviation of
the forecast is multiplied by a factor under which the numbers of all days are likely.

Deviations of the model are fitted on the first days of a series (`FITTING`). A later day takes them
from the one before, and states them with one of them fitted, for the next: each has its turn.

Averages of cells over days, by all published numbers of these days. Numbers of single days are too
noisy to be averaged, and estimates of days share their errors. So the average of each cell over
some days is a part of the state: A = Σ w T, w the cell's records of a day as a part of those of all
days. Whatever a number says about levels, days or what clipping hides, it says about A too, and its
deviation is that of the joint law.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import astuple, dataclass, fields, replace
from functools import lru_cache

import numpy as np

from hexveil.base.arrays import Floats, Ints
from hexveil.base.blas_threads import single_blas_thread
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.learning.joint_law import bin_masses, update
from hexveil.learning.memory import Deviations, Forecast, LevelShift, Memory, usual_deviation
from hexveil.learning.published_day import FACTORS, PublishedDay, blank_day
from hexveil.smoothing.user_mean_law import invert_rows

MOST_DAYS = 42
"""Newest earlier days that an estimate rests on."""
FITTING = (1, 2, 3, 5, 8, 12, 17)
"""Numbers of days at which all deviations are fitted; with more, one for the next day, by turns."""
TURNS = 17
"""Days of a round of turns: a prime, so that in a series of every other day each has its own."""
DAYS_OF_A_FIT = 7
PRIOR_SDS = Deviations(1.0, 1.0, 0.25, 1.0, 1.0, 0.5, 0.3, 1.5)
"""Standard deviations of the priors, of logarithms."""
OWN_SHARE = 0.7
"""Part of a day's sampling deviation of users that intervals have room for."""
LOG_FACTOR_SD = 0.5
"""Deviation of the logarithm of the factor of forecasts, before any day."""
NORMAL_95 = 1.96
LEVELS: Floats = np.array([[0.025, 0.5, 0.975]])


@dataclass(frozen=True, eq=False)
class DayEstimates(ReadOnlyArrays):
    """Estimates of the cells of a day, value units.

    Attributes
    ----------
    estimate, low, high, expected_error : ndarray of float, shape (n_cells,)
        With 95% intervals.
    """

    estimate: Floats
    low: Floats
    high: Floats
    expected_error: Floats


@dataclass(frozen=True, eq=False)
class Remembered:
    """Forecast of the last of some days, and the model behind it.

    Attributes
    ----------
    forecast : Forecast
    deviations : Deviations
        Those that the next day begins with.
    changes : tuple of LevelShift
    """

    forecast: Forecast
    deviations: Deviations
    changes: tuple[LevelShift, ...]


@single_blas_thread()
def remember(days: Sequence[PublishedDay], stated: Deviations | None = None) -> Remembered:
    """Return the forecast of the last of some days.

    Parameters
    ----------
    days : sequence of PublishedDay
        By date; the last one is the day itself.
    stated : Deviations, optional
        Those of the newest earlier day.
    """
    days, by = days[-MOST_DAYS - 1 :], stated
    if by is None or len(days) in FITTING:
        by = fit(days, by)
    memory, forecast = _run(days, by)
    forecast = replace(forecast, deviation=factor(memory.log_factors) * forecast.deviation)
    if len(days) > FITTING[-1]:
        by = fit(days, by, days[-1].day % TURNS)
    return Remembered(forecast, by, tuple(memory.changes))


@single_blas_thread()
def forecast_day(
    days: Sequence[PublishedDay], blank: PublishedDay, stated: Deviations | None = None
) -> Forecast:
    """Return the forecast of a day without numbers by the days before it.

    Parameters
    ----------
    days : sequence of PublishedDay
        By date.
    blank : PublishedDay
    stated : Deviations, optional
        Those of the newest day; they are fitted where it has none.
    """
    days = days[-MOST_DAYS:]
    by = fit(days, None) if stated is None else stated
    return _run([*days, blank], by)[1]


def _run(days: Sequence[PublishedDay], by: Deviations) -> tuple[Memory, Forecast]:
    """Return the memory of some days, and the forecast of the last one."""
    today = days[-1]
    morning = today.day, tuple(today.place.tolist()), tuple(today.slot.tolist())
    memory = copy(_earlier(tuple(days[:-1]), morning, today.bounds, by))
    return memory, memory.finish(by, today)


@lru_cache(maxsize=1)  # where both the forecast of a day and its estimates begin
def _earlier(
    days: tuple[PublishedDay, ...],
    morning: tuple[int, tuple[str, ...], tuple[int, ...]],
    bounds: tuple[float, float],
    by: Deviations,
) -> Memory:
    """Return the memory of some days on the morning of another, of which the cells are known."""
    day, *cells = morning
    place, slot = np.array(cells[0], dtype=str), np.array(cells[1], dtype=np.int64)
    memory = Memory([*days, blank_day((day, place, slot), bounds, 1.0, np.ones(slot.size))])
    memory.run(by, len(days))
    return memory


def fit(days: Sequence[PublishedDay], by: Deviations | None, turn: int | None = None) -> Deviations:
    """Return deviations that some of the days have more evidence for.

    One after the other, or that of a turn alone, up or down by half an e-fold.
    """
    low, high = days[-1].bounds
    usual, n_days = Deviations.usual(high - low, usual_deviation(days)), len(days)
    memory, _ = _run(days, by := by or usual)
    numbers = range(n_days - 1, -1, -max(1, n_days // DAYS_OF_A_FIT))[::-1]
    best, change = _evidence(memory, by, usual, numbers), 0.5
    weekends = any(days[number].is_weekend for number in numbers)
    idle = ["slot"] * (memory.n_slots == 1) + ["weekend"] * (not weekends)
    names = [field.name for field in fields(by) if field.name not in idle]
    names = names if turn is None else [names[turn % len(names)]]
    for _ in range(2 if n_days < 5 else 1):
        for name in names:
            for step in np.exp([change, -change]):
                before = by
                while True:
                    moved = replace(by, **{name: float(getattr(by, name) * step)})
                    if (evidence := _evidence(memory, moved, usual, numbers)) <= best:
                        break
                    best, by = evidence, moved
                if by is not before:
                    break
        change /= 2.0
    return by


def _evidence(memory: Memory, by: Deviations, usual: Deviations, numbers: Sequence[int]) -> float:
    """Return the log evidence of some days, with the priors of the deviations."""
    state, total = memory.prior(by), 0.0
    for number in numbers:
        state, step, _ = memory.update_state(state, by, number, is_first=number == numbers[0])
        total += step.evidence
    pulls = np.log(np.array(astuple(by)) / np.array(astuple(usual))) / np.array(astuple(PRIOR_SDS))
    return total - 0.5 * float(pulls @ pulls)


def factor(log_factors: Floats) -> float:
    """Return the root of the expected square of the factor of forecasts, by all days."""
    logs = log_factors.sum(axis=0) - 0.5 * (np.log(FACTORS) / LOG_FACTOR_SD) ** 2
    weight = np.exp(logs - logs.max())
    return float(np.sqrt(weight @ FACTORS**2 / weight.sum()))


def estimate_day(
    day: PublishedDay, forecast: Forecast, own_share: float = OWN_SHARE
) -> DayEstimates:
    """Return the estimates of a day, by its own numbers and a forecast of them."""
    masses = bin_masses(forecast.mean, forecast.deviation**2, day.edges, day.density)
    ends = invert_rows(day.edges, masses, np.repeat(LEVELS, len(masses), axis=0))
    low, middle, high = ends.T
    sampling = own_share * day.user_deviation * np.sqrt(day.share_squares)
    lasting = NORMAL_95 * np.hypot(forecast.lasting_deviation, sampling)
    slope = forecast.lasting_slope
    hidden = forecast.lasting_mean + slope * (middle - forecast.mean)
    estimate = np.clip(middle - hidden, *day.bounds)
    below, above = (
        np.hypot((1.0 - slope) * (b - a), lasting) for a, b in ((low, middle), (middle, high))
    )
    return DayEstimates(
        estimate,
        np.maximum(estimate - below, day.bounds[0]),
        np.minimum(estimate + above, day.bounds[1]),
        0.8 * (below + above) / (2.0 * NORMAL_95),
    )


# ---- averages over days ----


@dataclass(frozen=True, eq=False)
class DayAverages(ReadOnlyArrays):
    """Averages over days of the cells that have any of these days, value units.

    Attributes
    ----------
    place : ndarray of str, shape (n_cells,)
    slot : ndarray of int64, shape (n_cells,)
        Start of the slot, in seconds of the day.
    days : ndarray of int64, shape (n_cells,)
        Days with numbers.
    mean, deviation : ndarray of float, shape (n_cells,)
    """

    place: np.typing.NDArray[np.str_]
    slot: Ints
    days: Ints
    mean: Floats
    deviation: Floats


@single_blas_thread()
def average_days(
    days: Sequence[PublishedDay],
    records: Sequence[Ints],
    groups: Sequence[Ints],
    stated: Deviations | None = None,
) -> list[DayAverages]:
    """Return averages over groups of days.

    Parameters
    ----------
    days : sequence of PublishedDay
        By date.
    records : sequence of ndarray of int64
        Records of each cell of each day: its weight in the average.
    groups : sequence of ndarray of int64
        Numbers of the days of each group.
    stated : Deviations, optional
        Those of the newest day; they are fitted where it has none.
    """
    memory = Memory(days)
    by = fit(days, None) if stated is None else stated
    memory.run(by, len(days))  # which notices changes
    return [_average(memory, by, records, group) for group in groups]


def _average(memory: Memory, by: Deviations, records: Sequence[Ints], group: Ints) -> DayAverages:
    """Return the averages over some of the days, by the numbers of all of them."""
    total, n_days = np.zeros(memory.n_cells), np.zeros(memory.n_cells, np.int64)
    for number in group:
        total[memory.days[number].cells] += records[number]
        n_days[memory.days[number].cells] += 1
    state = memory.prior(by, n_parts=3)
    for number, day in enumerate(memory.days):
        state, law = memory.predict(memory.advance(state, by, number), by, day)
        if number in group:
            weight = records[number] / total[day.cells]
            state, law = memory.add_truth(state, law, day, weight)
        step = update(law, day.published.edges, day.published.density, is_first=not number)
        state = memory.condition(state, law, day, step.posterior)
    averaged = np.flatnonzero(total)
    rows = memory.rows(averaged, 3)[:, 2]
    variance = np.sum(state.roots[rows] ** 2, axis=1) + state.residual[averaged, 2, 2]
    names = memory.place[averaged], memory.slot[averaged]
    return DayAverages(*names, n_days[averaged], state.mean[rows], np.sqrt(variance))
