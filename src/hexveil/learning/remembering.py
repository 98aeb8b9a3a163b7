"""The estimates of a day that remember earlier days.

A forecast of each cell, from earlier days and from the day's other cells, times the likelihood of
the cell's own number, gives the posterior of what the cell would show without noise. Of that the
lasting error L is taken off, of which a part s goes with what is shown (`Forecast`):

    estimate = median - E L,
    end = estimate ± √((1 - s)² (quantile - median)² + 1.96² (sd² L + r²)).

Which users a day has moves its average, but hardly a number whose range clips most of them: r is
room for a part of the deviation that they have by sampling, which no number shows. The deviation of
the forecast is multiplied by a factor under which the numbers of all days are likely.

Deviations of the model are fitted on some days of a series (`FITTING`), and taken from the newest
earlier day on others.

Averages of cells over days, by all published numbers of these days. Numbers of single days are too
noisy to be averaged, and estimates of days share their errors. So the average of each cell over
some days is a part of the state: A = Σ w T, w the cell's records of a day as a part of those of all
days. Whatever a number says about levels, days or what clipping hides, it says about A too, and its
deviation is that of the joint law.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hexveil.base.arrays import Floats, Ints
from hexveil.base.blas_threads import single_blas_thread
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.learning.memory import Deviations, Forecast, LevelShift, Memory
from hexveil.learning.published_day import FACTORS, PublishedDay, bin_masses, update
from hexveil.smoothing.user_mean_law import invert_rows

MOST_DAYS = 60
"""Newest earlier days that an estimate rests on."""
FITTING = frozenset((1, 2, 3, 5, 8, 12, 17, 23, 30, 37, 45, 53, 61))
"""Numbers of days at which deviations are fitted; 61 is every day from then on."""
DAYS_OF_A_FIT = 7
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
    memory = Memory(days[-MOST_DAYS - 1 :])
    by = stated
    if by is None or len(memory.days) in FITTING:
        by = fit(memory, by)
    forecast = memory.run(by)
    forecast = replace(forecast, deviation=factor(memory.log_factors) * forecast.deviation)
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
    by = fit(Memory(days), None) if stated is None else stated
    return Memory([*days, blank]).run(by)


def fit(memory: Memory, by: Deviations | None) -> Deviations:
    """Return the deviations that some of the days have most evidence for."""
    by = by or Deviations.usual(memory.span, memory.user)
    memory.run(by)
    n_days = len(memory.days)
    numbers = range(n_days - 1, -1, -max(1, n_days // DAYS_OF_A_FIT))[::-1]
    return memory.fitted(by, numbers, 2 if n_days < 5 else 1)


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
    by = fit(memory, None) if stated is None else stated
    memory.run(by)  # which notices changes
    return [_average(memory, by, records, group) for group in groups]


def _average(memory: Memory, by: Deviations, records: Sequence[Ints], group: Ints) -> DayAverages:
    """Return the averages over some of the days, by the numbers of all of them."""
    n, total, n_days = memory.n_cells, np.zeros(memory.n_cells), np.zeros(memory.n_cells, np.int64)
    for number in group:
        total[memory.days[number].cells] += records[number]
        n_days[memory.days[number].cells] += 1
    state = memory.prior(by, n_more=n)
    begin = state.mean.size - n
    for number, day in enumerate(memory.days):
        state = memory.advance(state, by, number)
        mean, covariance, with_state = memory.predict(state, by, day)
        if number in group:
            weight = records[number] / total[day.cells]
            truth = memory.without_lasting(state, day, (mean, covariance, with_state))
            rows = begin + day.cells
            state.mean[rows] += weight * truth.mean
            state.covariance[rows] += weight[:, None] * truth.with_state.T
            state.covariance[:, rows] += weight * truth.with_state
            state.covariance[np.ix_(rows, rows)] += np.outer(weight, weight) * truth.covariance
            with_state[rows] += weight[:, None] * truth.with_shown
        step = update(covariance, mean, day.published.edges, day.published.density)
        state.mean[:] = state.mean + with_state @ step.gain
        state.covariance[:] = state.covariance - with_state @ step.loss @ with_state.T
    rows_averaged = np.flatnonzero(total)
    variance = np.diag(state.covariance)[begin:][rows_averaged]
    names = memory.place[rows_averaged], memory.slot[rows_averaged]
    numbers = state.mean[begin:][rows_averaged], np.sqrt(np.maximum(variance, 0.0))
    return DayAverages(*names, n_days[rows_averaged], *numbers)
