"""Mean absolute errors that a prior predicts for the plans of one cell, by simulation.

All plans see the same user means, and noise of the same seed, so that their difference is known
better than either error. A plan whose error is clearly above the least is dropped before the trials
are through. Where a plan adds one Laplace noise of scale b to an estimate that misses by d, the
error over the noise is known, E|d + Laplace(b)| = |d| + b exp(-|d|/b), and no noise is drawn.
Only public facts are read: counts, bounds, ε and the prior; no record.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hexveil.base.errors import InputError
from hexveil.mechanisms.priors import Values, draw_user_means, numbers_per_trial
from hexveil.mechanisms.single_cell_plan import CellFacts, LaplacePlan

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from hexveil.mechanisms.cell_plan import CellPlan

    Floats = NDArray[np.float64]

SEED = 1
"""Fixed and public: a prediction depends on nothing but what it is handed."""
FIRST = 64
"""Trials before any plan is dropped, and the fewest that a large cell gets."""
CLEARLY = 4.0
"""Standard errors of the difference to the best that drop a plan."""
WORK = 8_000_000
"""Numbers drawn for a cell, unless FIRST trials need more."""
MOST = 10**8
"""Numbers of one trial: 800 MB."""
_BLOCK = 500_000
"""Numbers drawn at once: 4 MB."""
_CHUNK = 250_000
"""User means that a plan is handed at once: 2 MB."""


@dataclass(frozen=True)
class Prediction:
    """What a candidate is expected to miss by, in value units; public.

    Attributes
    ----------
    mae : float
        Mean absolute error against the mean of the cell's samples.
    standard_error : float
        Of `mae`, by the simulation.
    trials : int
        Fewer than those of the best if it was dropped on the way.
    """

    mae: float
    standard_error: float
    trials: int


def race(
    plans: Sequence[CellPlan], cell: CellFacts, prior: Values, trials: int
) -> list[Prediction]:
    """Return the error to expect of each plan, in value units.

    Parameters
    ----------
    plans : sequence of CellPlan
        Plans of the same cell.
    cell : CellFacts
    prior : Values
    trials : int
        At least 2.

    Raises
    ------
    InputError
        If one trial of the prior's samples would not fit into memory.
    """
    numbers = numbers_per_trial(prior, cell.counts)
    if numbers > MOST:
        raise InputError(
            f"the cell has {numbers:,} samples, more than the {MOST:,} that can be drawn at once; "
            "state a prior per user, like PerUser(Normal(20, 10))."
        )
    missed = [np.empty(0) for _ in plans]
    running = list(range(len(plans)))
    for number, rows in enumerate(_chunks(min(trials, max(FIRST, WORK // numbers)), cell)):
        means = _drawn(prior, cell, np.random.default_rng([SEED, 0, number]), rows)
        truth = means @ (cell.counts / cell.total)
        for i in running:
            fresh = np.random.default_rng([SEED, 1, number])
            missed[i] = np.append(missed[i], _missed(plans[i], means, truth, fresh))
        running = _still_running(missed, running)
    return [_prediction(errors) for errors in missed]


def _chunks(trials: int, cell: CellFacts) -> Iterator[int]:
    """Yield trials to take at once: FIRST, then as many as before, as far as memory allows."""
    most, done = max(1, _CHUNK // cell.counts.size), 0
    while done < trials:
        rows = min(max(done, FIRST), most, trials - done)
        yield rows
        done += rows


def _drawn(prior: Values, cell: CellFacts, generator: np.random.Generator, trials: int) -> Floats:
    """Return user means of each trial, drawn in blocks that a processor's cache holds."""
    means = np.empty((trials, cell.counts.size))
    step = max(1, _BLOCK // numbers_per_trial(prior, cell.counts))
    bounds = cell.lower, cell.upper
    for start in range(0, trials, step):
        rows = means[start : start + step]
        rows[:] = draw_user_means(prior, cell.counts, bounds, generator, len(rows))
    return means


def _missed(plan: CellPlan, means: Floats, truth: Floats, generator: np.random.Generator) -> Floats:
    """Return |estimate - truth| of each trial, over the noise where its mean is known."""
    if not isinstance(plan, LaplacePlan):
        return np.abs(plan.simulate(means, generator, len(means)) - truth)
    gap, scale = np.abs(plan.noiseless(means) - truth), plan.noise_scale
    return np.asarray(gap + scale * np.exp(-gap / scale) if scale else gap, dtype=np.float64)


def _still_running(missed: list[Floats], running: list[int]) -> list[int]:
    """Return the plans that are not clearly worse than the best, trial by trial."""
    trials = missed[running[0]].size
    if trials < FIRST:
        return running
    best = min(running, key=lambda i: float(missed[i].mean()))
    kept = []
    for i in running:
        behind = missed[i] - missed[best]
        if behind.mean() <= CLEARLY * behind.std(ddof=1) / math.sqrt(trials):
            kept.append(i)
    return kept


def _prediction(errors: Floats) -> Prediction:
    spread = float(errors.std(ddof=1)) / math.sqrt(errors.size)
    return Prediction(float(errors.mean()), spread, errors.size)
