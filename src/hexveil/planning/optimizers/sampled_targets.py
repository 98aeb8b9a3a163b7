"""Target errors under (ε, δ) for pairs that stay elsewhere, in few questions.

The search for pairs at hand takes hundreds of sums over all pairs for each square of μ. So some
users find theirs: at the square M / q², q their part of all users, they have about the noise that
all have at M. Where these are all users their plan is the plan.

Each cell its own target: any factors make a plan that meets the targets: they decide the share of
each cell at the middle, that the rates, and both what users lose. So factors are those of a few
rounds from the sampled users' rates, at several limits M around theirs, and the plan that costs
least is taken. What a limit gives up for being off costs ε, never a target.

All targets on average: the error of a plan is bias plus noise, so that noise can be scaled until
the targets are met exactly. The plan of least error is searched for at the sampled users' ε,
scaled, searched for at what it costs then, and scaled again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import TypeAlias

import numpy as np

from hexveil.accounting.gaussian_composition import square_epsilon
from hexveil.base.arrays import Floats
from hexveil.base.errors import InputError
from hexveil.planning.allocation import PlanAllocation, PlanningProblem
from hexveil.planning.calibration import LARGEST_EPSILON, target_ratio
from hexveil.planning.optimizers.pair_sums import fetch_sample, to_all_cells
from hexveil.planning.optimizers.user_factors import (
    ClippingProblem,
    InverseScales,
    JointSolution,
    RatesAt,
)

ToRows: TypeAlias = Callable[[JointSolution], PlanAllocation]
AIM = 1.0 - 2.0**-16
"""Part of each target that is aimed at, as factors are rounded."""
ROUNDS = 3
"""Rounds from rates to factors and back, at each limit."""
FIRST_STEP, LAST_STEP = 1.2, 1.01
"""Ratios of the roots of limits that are compared."""
MOST_LIMITS = 16
"""Limits that are compared at most."""
HALVINGS = 40


def sampled(
    problem: PlanningProblem, targets: Mapping[str, Floats]
) -> tuple[PlanningProblem, dict[str, Floats], Callable[[Floats], Floats], float]:
    """Return the problem of some users with their targets, rates on all cells, and their part."""
    local, cells, part = fetch_sample(problem.occupancy)
    sample = replace(problem, occupancy=local, span=problem.span[cells])
    sample_targets = {name: target[cells] for name, target in targets.items()}
    return (
        sample,
        sample_targets,
        lambda rate: to_all_cells(rate, cells, problem.occupancy.n_cells),
        part,
    )


def meet_each_target(
    problem: PlanningProblem,
    aim: RatesAt,
    square: float,
    begin: InverseScales,
    to_rows: ToRows,
) -> PlanAllocation:
    """Return rows that meet each cell's targets at about the least loss.

    The search begins at the square and the rates at which some users met theirs.
    """
    exposure = ClippingProblem(problem.occupancy, law=problem.request.law)
    root = math.sqrt(square)

    def tried(times: float) -> tuple[float, PlanAllocation | None]:
        solution = _after_rounds(exposure, aim, begin, (times * root) ** 2)
        if solution is None:
            return math.inf, None
        rows = to_rows(solution)
        return float(rows.most_booked(problem)), rows

    centre, step, (cost, best) = 1.0, FIRST_STEP, tried(1.0)
    for _ in range(MOST_LIMITS // 2):
        if best is None:  # so low a limit leaves some cell no room
            centre *= 2.0
            cost, best = tried(centre)
            continue
        if step < LAST_STEP:
            break
        neighbours = [(tried(times), times) for times in (centre / step, centre * step)]
        (lowest, rows), times = min(neighbours, key=lambda pair: pair[0][0])
        if lowest < cost:
            cost, best, centre = lowest, rows, times
        else:
            step = math.sqrt(step)
    if best is None:
        raise InputError(
            "no noise meets target_error in every cell; ask for a larger error, or for objective "
            '"mean".'
        )
    return best


def _after_rounds(
    exposure: ClippingProblem, aim: RatesAt, begin: InverseScales, square: float
) -> JointSolution | None:
    """Return rates that meet the targets with their factors; None if a target has no room."""
    solution = JointSolution(begin, np.ones(exposure.occupancy.n_users))
    for _ in range(ROUNDS):
        factor = exposure.largest_factors(solution.rates, square)
        rates = aim(exposure.clipped_share(factor))
        if rates is None:
            return None
        solution = JointSolution(rates, factor)
    return solution


def meet_average_targets(
    problem: PlanningProblem,
    targets: Mapping[str, Floats],
    square: float,
    within: Callable[[Fraction], PlanAllocation],
) -> PlanAllocation:
    """Return rows that meet the targets on average at about the least loss.

    The search begins at the square at which some users met theirs.
    """
    delta, best = problem.request.delta, None
    tried, cost = square_epsilon(Fraction(square), delta), math.inf
    for _ in range(HALVINGS):
        if tried > LARGEST_EPSILON:
            break
        scaled = _with_targets_met(problem, targets, within(Fraction(tried)))
        if scaled is None:  # bias alone is too large
            tried *= 2.0
            continue
        epsilon = square_epsilon(scaled.most_booked(problem), delta)
        is_second, better = best is not None, epsilon < cost
        if better:
            best, cost = scaled, epsilon
        if is_second or not better:
            break
        tried = epsilon
    if best is None:
        raise InputError(
            "no plan within bounds meets target_error on average at any loss; ask for a larger "
            "error."
        )
    return best


def _with_targets_met(
    problem: PlanningProblem, targets: Mapping[str, Floats], rows: PlanAllocation
) -> PlanAllocation | None:
    """Return the rows with the most noise that meets the targets; None if none does."""
    models = rows.error_models(problem)

    def ratio(times: float) -> float:
        scaled = {name: replace(m, noise=m.noise * times) for name, m in models.items()}
        return target_ratio(problem, targets, scaled)

    low, high = 2.0**-20, 2.0**20
    if ratio(low) > AIM:
        return None
    for _ in range(HALVINGS):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if ratio(middle) <= AIM else (low, middle)
    return rows.with_noise_scaled(low)
