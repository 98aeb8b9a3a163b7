"""Mean absolute errors that a prior predicts for the plans of one cell, by simulation.

All plans see the same user means, and noise of the same seed, so that their difference is known
better than either error. A plan with an error clearly above the least is eliminated before the
trials are through. Where a plan adds one Laplace noise of scale b to an estimate that misses by d,
the error over the noise is known, E|d + Laplace(b)| = |d| + b exp(-|d|/b), and no noise is drawn.
Only public facts are read: counts, bounds, ε and the prior; no record.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hexveil.base.errors import InputError
from hexveil.mechanisms.contract import PrivateSums, ProvenError
from hexveil.mechanisms.priors import ValueDistribution, draw_user_means, numbers_per_trial

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hexveil.base.arrays import Floats
    from hexveil.mechanisms.single_cell.cell_allocation import CellProblem
    from hexveil.mechanisms.single_cell.cell_plan import CellPlan

SEED = 1
"""Fixed and public: a prediction depends on nothing but its arguments."""
FIRST_TRIALS = 64
"""Trials before any plan is eliminated, and the fewest that a large cell gets."""
ELIMINATION_SIGMAS = 4.0
"""Standard errors of the difference to the best that eliminate a plan."""
MAX_DRAWN = 8_000_000
"""Numbers drawn for a cell, unless FIRST_TRIALS need more."""
MAX_PER_TRIAL = 10**8
"""Numbers of one trial: 800 MB."""
_BLOCK = 500_000
"""Numbers drawn at once: 4 MB."""
_CHUNK = 250_000
"""User means that a plan is given at once: 2 MB."""


@dataclass(frozen=True)
class Prediction:
    """Expected error of a candidate, in value units; public.

    Attributes
    ----------
    mae : float
        Mean absolute error against the mean of the cell's samples.
    standard_error : float
        Of `mae`, by the simulation.
    trials : int
        Fewer than those of the best if the candidate was eliminated.
    """

    mae: float
    standard_error: float
    trials: int


def compare_candidates(
    plans: Sequence[CellPlan], cell: CellProblem, prior: ValueDistribution, trials: int
) -> list[Prediction]:
    """Return the error to expect of each plan, in value units.

    Parameters
    ----------
    plans : sequence of CellPlan
        Plans of the same cell.
    cell : CellProblem
    prior : ValueDistribution
    trials : int
        At least 2.

    Raises
    ------
    InputError
        If one trial of the prior's samples would not fit into memory.
    """
    numbers = numbers_per_trial(prior, cell.counts)
    if numbers > MAX_PER_TRIAL:
        raise InputError(
            f"the cell has {numbers:,} samples, more than the {MAX_PER_TRIAL:,} that can be drawn "
            "at once; state a prior per user, like PerUser(Normal(20, 10))."
        )
    errors = [np.empty(0) for _ in plans]
    running = list(range(len(plans)))
    affordable = min(trials, max(FIRST_TRIALS, MAX_DRAWN // numbers))
    for number, rows in enumerate(_chunks(affordable, cell)):
        # Streams of values and of noise are apart and start anew with each chunk, so that
        # eliminating one plan changes nothing that another one sees.
        means = _drawn(prior, cell, np.random.default_rng([SEED, 0, number]), rows)
        sums, truth = cell.sums(means), means @ (cell.counts / cell.total)
        for i in running:
            fresh = np.random.default_rng([SEED, 1, number])
            errors[i] = np.append(errors[i], _errors(plans[i], sums, truth, fresh))
        running = _still_running(errors, running)
    return [_prediction(sample) for sample in errors]


def _chunks(trials: int, cell: CellProblem) -> Iterator[int]:
    """Yield trials to take at once: FIRST_TRIALS, then as many as before, if memory allows."""
    limit, n_drawn = max(1, _CHUNK // cell.counts.size), 0
    while n_drawn < trials:
        rows = min(max(n_drawn, FIRST_TRIALS), limit, trials - n_drawn)
        yield rows
        n_drawn += rows


def _drawn(
    prior: ValueDistribution, cell: CellProblem, generator: np.random.Generator, trials: int
) -> Floats:
    """Return user means of each trial, drawn in blocks that a processor's cache holds."""
    means = np.empty((trials, cell.counts.size))
    step = max(1, _BLOCK // numbers_per_trial(prior, cell.counts))
    for start in range(0, trials, step):
        rows = means[start : start + step]
        rows[:] = draw_user_means(prior, cell.counts, cell.bounds, generator, len(rows))
    return means


def _errors(
    plan: CellPlan, sums: PrivateSums, truth: Floats, generator: np.random.Generator
) -> Floats:
    """Return |estimate - truth| of each trial, over the noise where its mean is known."""
    if not isinstance(plan.error, ProvenError):
        from hexveil.mechanisms.simulated_noise import (  # noqa: PLC0415  a release never loads it
            SimulatedNoise,
        )

        return np.abs(plan.estimates(sums, SimulatedNoise(generator, truth.size)) - truth)
    # The mean over the noise is known: E|d + Laplace(b)| = |d| + b exp(-|d|/b).
    gap, scale = np.abs(plan.noiseless_estimates(sums) - truth), plan.noise_scale
    return np.asarray(gap + scale * np.exp(-gap / scale) if scale else gap, dtype=np.float64)


def _still_running(errors: list[Floats], running: list[int]) -> list[int]:
    """Return the plans that are not clearly worse than the best, trial by trial."""
    trials = errors[running[0]].size
    if trials < FIRST_TRIALS:
        return running
    best = min(running, key=lambda i: float(errors[i].mean()))
    survivors = []
    for i in running:
        # Trial by trial: what the values and the noise have in common cancels.
        behind = errors[i] - errors[best]
        if behind.mean() <= ELIMINATION_SIGMAS * behind.std(ddof=1) / math.sqrt(trials):
            survivors.append(i)
    return survivors


def _prediction(errors: Floats) -> Prediction:
    deviation = float(errors.std(ddof=1)) / math.sqrt(errors.size)
    return Prediction(float(errors.mean()), deviation, errors.size)
