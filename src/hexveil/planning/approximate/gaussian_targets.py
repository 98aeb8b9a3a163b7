"""Least square of μ at which every cell meets its target errors, within bounds under (ε, δ).

Symbols: `gaussian_mean_error`. With a share d of a cell at the middle a target e is met by rates of
at least κ / (e - bias(d)), which rise with d. The largest factors that users may have at a square M
fall as rates rise, and d rises as factors fall.

`least_rates` begins at d = 0 and computes rates, factors and d in turn. Let a plan of the class
meet the targets at M. Its d is at least 0; so its rates are at least the first ones, its factors at
most those that these allow, its d at least the next one, and so on: no round goes beyond any such
plan. If a round leaves a target no room, there is none. Else the rounds rise towards the plan of
least rates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hexveil.accounting.noise_law import GAUSSIAN
from hexveil.planning.approximate.gaussian_mean_error import GaussianProblem, GaussianSolution

if TYPE_CHECKING:
    from hexveil.base.arrays import Floats
    from hexveil.model.occupancy import Occupancy
    from hexveil.planning.optimizers.mean_error import ObjectiveWeights
    from hexveil.planning.target_errors import Targets


AIM = 1.0 - 2.0**-16
"""Part of each target that is aimed at: rounds end, and factors are rounded."""
SETTLED = 2.0**-20
"""Rounds end where no cell moves more of its records to the middle than this part of all."""
MOST_ROUNDS = 200
"""Rounds after which a square is taken to be too small."""


def least_rates(
    occupancy: Occupancy, weights: ObjectiveWeights, targets: Targets, square: float
) -> GaussianSolution | None:
    """Return the least rates that meet the targets at a square of μ; None if none do.

    Parameters
    ----------
    occupancy : Occupancy
    weights : ObjectiveWeights
        Of the statistics; its errors are those of the solution.
    targets : Targets
        For bounds of width 1.
    square : float
        M.
    """
    problem = GaussianProblem(occupancy, weights, square)
    away = np.zeros(occupancy.n_cells)
    for _ in range(MOST_ROUNDS):
        rate = _rates(targets, away)
        if rate is None:
            return None
        factor = problem.factors(rate)
        before, away = away, np.maximum(1.0 - problem.shares.per_cell(factor), 0.0)
        if float((away - before).max()) <= SETTLED * _smallest_room(rate):
            return GaussianSolution(rate, factor, problem.weighted_error(rate, factor))
    return None


def least_rates_by(
    problem: GaussianProblem, targets: Targets, begin: Floats, rounds: int
) -> tuple[Floats, Floats] | None:
    """Return rates that meet the targets by some rounds from other rates, and factors.

    Whatever the rates begin with, those returned meet the targets with the factors returned. None
    if a round leaves a target no room.
    """
    rate, factor = begin, problem.factors(begin)
    for round_number in range(rounds):
        factor = problem.factors(rate) if round_number else factor
        found = _rates(targets, np.maximum(1.0 - problem.shares.per_cell(factor), 0.0))
        if found is None:
            return None
        rate = found
    return rate, factor


def _rates(targets: Targets, away: Floats) -> Floats | None:
    """Return the least rates of Gaussian noise that meet the targets; None if none do."""
    found = targets.rates(away)
    if found is None:
        return None
    return GAUSSIAN.mean_absolute * np.stack((found.mean, found.variance))


def _smallest_room(rate: Floats) -> float:
    """Return the least expected noise that some target asks for, at most 1."""
    return min(GAUSSIAN.mean_absolute / max(float(rate.max()), 1e-300), 1.0)
