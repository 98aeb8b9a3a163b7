"""Averages of cells over days, by all published numbers of these days.

Numbers of single days are too noisy to be averaged, and estimates of days share their errors. So
the average of each cell over some days is a part of the state: A = Σ w T, w the cell's records of a
day as a part of those of all days. Whatever a number says about levels, days or what clipping
hides, it says about A too, and its deviation is that of the joint law.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hexveil.base.arrays import Floats, Ints
from hexveil.base.blas_threads import single_blas_thread
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.learning.memory import Deviations, Memory
from hexveil.learning.normal_update import update
from hexveil.learning.published_day import PublishedDay
from hexveil.learning.remembering import fit


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
