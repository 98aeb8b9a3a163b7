"""Mean absolute error of mechanisms on one cell, by simulation.

The noise is simulated floating-point noise, for study only: nothing here is a release, and on
real user means the table is as private as the means are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from hexveil.errors import InputError
from hexveil.exact import Number, bounds_pair, exact
from hexveil.experiments.values import Values, draw_user_means

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import ArrayLike, NDArray

    from hexveil.mechanisms.contract import CellPlan, Mechanism

_CHUNK = 4_000_000
"""Samples drawn at once: 32 MB."""


def evaluate(  # noqa: PLR0913  the public signature; all but the first by name
    mechanisms: Sequence[Mechanism],
    *,
    counts: ArrayLike,
    user_means: ArrayLike | None = None,
    values: Values | None = None,
    bounds: object,
    epsilons: Sequence[Number],
    trials: int = 10_000,
    seed: int = 0,
) -> pa.Table:
    """Return each mechanism's mean absolute error against the mean of the cell's samples.

    Parameters
    ----------
    mechanisms : sequence of Mechanism
        What to compare.
    counts : array_like of int, shape (n_users,)
        Samples per user.
    user_means : array_like of float, optional
        Values that stay the same in every trial. Either these or `values`.
    values : Normal, Uniform or alike, optional
        Values redrawn in every trial, the same for all mechanisms.
    bounds : pair of numbers
        Of a value.
    epsilons : sequence of numbers
        Losses to compare at.
    trials : int
        At least 2.
    seed : int
        The same seed gives the same table.

    Returns
    -------
    pyarrow.Table
        mechanism, epsilon, mae, standard_error, trials.

    Raises
    ------
    InputError
        On an argument that is not as described.
    """
    if (user_means is None) == (values is None):
        raise InputError("evaluate needs either user_means or values; give exactly one of them.")
    if trials < 2 or seed < 0 or not mechanisms or not epsilons:
        raise InputError(
            "evaluate needs a mechanism, an epsilon, 2 trials or more and a seed of 0 or more."
        )
    rows = [(one, exact(epsilon, "epsilon")) for one in mechanisms for epsilon in epsilons]
    plans = [one.plan(counts, bounds=bounds, epsilon=epsilon) for one, epsilon in rows]
    sizes = np.asarray(counts, dtype=np.int64)
    lower, upper = (float(bound) for bound in bounds_pair(bounds))
    chunks = _chunks(user_means, values, sizes, (lower, upper), trials, seed)
    mae, error = _errors(plans, sizes, chunks, trials, seed)
    return pa.table(
        {
            "mechanism": [one.name for one, _ in rows],
            "epsilon": [float(epsilon) for _, epsilon in rows],
            "mae": mae,
            "standard_error": error,
            "trials": [trials] * len(rows),
        }
    )


def _chunks(
    user_means: ArrayLike | None,
    values: Values | None,
    counts: NDArray[np.int64],
    bounds: tuple[float, float],
    trials: int,
    seed: int,
) -> Iterator[tuple[NDArray[np.float64], int]]:
    if values is None:
        means = np.asarray(user_means, dtype=np.float64)
        inside = (means >= bounds[0]) & (means <= bounds[1])
        if means.shape != counts.shape or not inside.all():
            raise InputError("user_means needs one number per count, each within the bounds.")
        yield means, trials
        return
    generator = np.random.default_rng([seed, 0])
    step = max(1, _CHUNK // int(counts.sum()))
    for start in range(0, trials, step):
        size = min(step, trials - start)
        yield draw_user_means(values, counts, bounds, generator, size), size


def _errors(
    plans: list[CellPlan],
    counts: NDArray[np.int64],
    chunks: Iterator[tuple[NDArray[np.float64], int]],
    trials: int,
    seed: int,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    generators = [np.random.default_rng([seed, 1, i]) for i in range(len(plans))]
    absolute = np.empty((len(plans), trials))
    done = 0
    for means, size in chunks:
        truth = means @ (counts / counts.sum())
        for row, plan, generator in zip(absolute, plans, generators, strict=True):
            row[done : done + size] = np.abs(plan.simulate(means, generator, size) - truth)
        done += size
    return absolute.mean(axis=1), absolute.std(axis=1, ddof=1) / np.sqrt(trials)
