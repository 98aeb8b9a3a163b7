"""Target errors under (ε, δ) of pairs that stay elsewhere: from some users, few steps with all.

With pairs at hand the least ε is found by halving, and each ε takes up to hundreds of sums over
pairs. Of pairs elsewhere some users do so at M / q², q their part of all users, at which they have
about the noise that all have at M (distributed_weights.py). Where these are all users their plan is
the plan.

*Each cell its own target.* Any factors make a plan that meets the targets: they decide the share d
of each cell at the middle, d the rates, and rates and factors what users lose. So factors are those
of a few rounds (gaussian_targets.py) from the sampled users' rates, at several limits M around
theirs, and the plan that costs least is taken. What a limit gives up for being off costs ε, never a
target.

*All targets on average.* The error of a plan is bias plus noise, so that noise can be scaled until
the targets are met exactly. The plan of least error is searched for at the sampled users' ε,
scaled, searched for at what it costs then, and scaled again.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from hexveil.accounting.gaussian_composition import square_epsilon
from hexveil.accounting.promise import promised
from hexveil.base.errors import InputError
from hexveil.planning.allocation import PlanAllocation, WithinBounds
from hexveil.planning.approximate.gaussian_mean_error import GaussianProblem
from hexveil.planning.approximate.gaussian_targets import AIM, least_rates_by
from hexveil.planning.calibration import LARGEST_EPSILON, target_ratio
from hexveil.planning.guarantees.plan_errors import error_models
from hexveil.planning.guarantees.plan_losses import booked_per_user
from hexveil.planning.optimizers.distributed_mean_error import to_all_cells
from hexveil.planning.optimizers.joint import FACTOR_RESOLUTION, relative_targets
from hexveil.planning.optimizers.mean_error import ObjectiveWeights
from hexveil.planning.optimizers.noise_quantization import quantize_noise_scales

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from hexveil.base.arrays import Floats
    from hexveil.model.occupancy import Occupancy
    from hexveil.planning.guarantees.planning_problem import PlanningProblem


ROUNDS = 3
"""Rounds from rates to factors and back, at each limit."""
FIRST_STEP, LAST_STEP = 1.2, 1.01
"""Ratios of the roots of limits that are compared."""
MOST_LIMITS = 16
"""Limits that are compared at most."""
HALVINGS = 40


def bounded_rows(
    occupancy: Occupancy, rate: Floats, factor: Floats, rounding: np.ufunc = np.rint
) -> PlanAllocation:
    """Return rows within bounds from rates of both statistics, and factors."""
    live = rate > 0
    noise = np.divide(1.0, rate, out=np.zeros_like(rate), where=live)
    largest = occupancy.largest_count
    return PlanAllocation(
        mechanism="factors",
        contribution_cap=np.where(live[0], largest, 0),
        noise_scale_records=quantize_noise_scales(noise[0] * occupancy.records_per_cell, rounding),
        variance_cap=np.where(live[1], largest, 0),
        variance_noise=noise[1],
        contribution_factor=np.floor(factor * FACTOR_RESOLUTION) / FACTOR_RESOLUTION,
        clipping=WithinBounds(),
    )


def rates_of_rows(occupancy: Occupancy, rows: PlanAllocation) -> Floats:
    """Return the rates of both statistics, shape (2, n_cells)."""
    noise = rows.noise_scale_records / occupancy.records_per_cell, rows.variance_noise
    return np.stack([np.divide(1.0, b, out=np.zeros_like(b), where=b > 0) for b in noise])


# ---- each cell its own target ----


def meet_each_target(
    problem: PlanningProblem,
    targets: Mapping[str, Floats],
    epsilon: Fraction,
    begin: Floats,
    cells: NDArray[np.int64],
) -> PlanAllocation:
    """Return rows that meet each cell's targets, at about the least loss.

    Parameters
    ----------
    problem : PlanningProblem
    targets : mapping of statistic (or "sum") to ndarray of float, shape (n_cells,)
    epsilon : Fraction
        Where some users of theirs met them.
    begin : ndarray of float, shape (2, n_sampled_cells)
        Rates at which they did.
    cells : ndarray of int64, shape (n_sampled_cells,)
        Numbers of these cells.

    Raises
    ------
    InputError
        If no loss meets them.
    """
    occupancy = problem.occupancy
    aim = relative_targets(targets, problem.span, occupancy, AIM)
    weights = ObjectiveWeights.of(problem.request, problem.span, occupancy)
    start = np.stack([to_all_cells(own, cells, occupancy.n_cells) for own in begin])
    root = math.sqrt(promised(epsilon, problem.request.delta).amount)

    def tried(times: float) -> tuple[float, PlanAllocation | None]:
        limited = GaussianProblem(occupancy, weights, (times * root) ** 2)
        found = least_rates_by(limited, aim, start, ROUNDS)
        if found is None:
            return math.inf, None
        rows = bounded_rows(occupancy, *found, np.floor)
        return float(booked_per_user(problem, rows).max(initial=0.0)), rows

    centre, step, (cost, best) = 1.0, FIRST_STEP, tried(1.0)
    for _ in range(MOST_LIMITS // 2):
        if best is None:  # so low a limit leaves some cell no room
            centre *= 2.0
            cost, best = tried(centre)
            continue
        if step < LAST_STEP:
            break
        beside = [(tried(times), times) for times in (centre / step, centre * step)]
        (least, rows), times = min(beside, key=lambda one: one[0][0])
        if least < cost:
            cost, best, centre = least, rows, times
        else:
            step = math.sqrt(step)
    if best is None:
        raise InputError(
            "no noise meets target_error in every cell; ask for a larger error, or for objective "
            '"mean".'
        )
    return best


# ---- all targets on average ----


def meet_average_targets(
    problem: PlanningProblem,
    targets: Mapping[str, Floats],
    epsilon: Fraction,
    least_error: Callable[[PlanningProblem, Fraction], PlanAllocation],
) -> PlanAllocation:
    """Return rows that meet the targets on average, at about the least loss.

    Parameters
    ----------
    problem : PlanningProblem
    targets : mapping of statistic (or "sum") to ndarray of float, shape (n_cells,)
    epsilon : Fraction
        Where some users of theirs met them.
    least_error : callable
        The rows of least error at a square of μ.

    Raises
    ------
    InputError
        If no loss meets them.
    """
    delta, found = problem.request.delta, None
    tried, cost = float(epsilon), math.inf
    for _ in range(HALVINGS):
        if tried > LARGEST_EPSILON:
            break
        rows = least_error(problem, promised(Fraction(tried), delta).amount)
        scaled = _with_targets_met(problem, targets, rows)
        if scaled is None:  # bias alone is too large
            tried *= 2.0
            continue
        booked = Fraction(float(booked_per_user(problem, scaled).max(initial=0.0)))
        own = square_epsilon(booked, delta)
        is_second, better = found is not None, own < cost
        if better:
            found, cost = scaled, own
        if is_second or not better:
            break
        tried = own
    if found is None:
        raise InputError(
            "no plan within bounds meets target_error on average at any loss; ask for a larger "
            "error."
        )
    return found


def _with_targets_met(
    problem: PlanningProblem, targets: Mapping[str, Floats], rows: PlanAllocation
) -> PlanAllocation | None:
    """Return the rows with the most noise that meets the targets; None if none does."""
    models = error_models(problem, rows)

    def ratio(times: float) -> float:
        scaled = {name: replace(one, noise=one.noise * times) for name, one in models.items()}
        return target_ratio(problem, targets, scaled)

    low, high = 2.0**-20, 2.0**20
    if ratio(low) > AIM:
        return None
    for _ in range(HALVINGS):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if ratio(middle) <= AIM else (low, middle)
    return rows.with_noise_scaled(low)
