"""The joint plan under (ε, δ): least average error, or the least ε at which target errors are met.

Losses are squares of μ here (accounting/moves.py), and fall with the square of the noise.

Symbols: planning/optimizers/mean_error.py. With a share d of a cell at the middle a target e is met
by rates of at least κ / (e - bias(d)), which rise with d. The largest factors that users may have
at a square M fall as rates rise, and d rises as factors fall.

*Pairs at hand.* The least ε is found by halving. `least_rates` begins at d = 0 and computes rates,
factors and d in turn. Let a plan of the class meet the targets at M. Its d is at least 0; so its
rates are at least the first ones, its factors at most those that these allow, its d at least the
next one, and so on: no round goes beyond any such plan. If a round leaves a target no room, there
is none. Else the rounds rise towards the plan of least rates.

*Pairs elsewhere.* Each ε takes up to hundreds of sums over pairs. So some users find the least ε at
M / q², q their part of all users, at which they have about the noise that all have at M. Where
these are all users their plan is the plan.

Each cell its own target: any factors make a plan that meets the targets: they decide the share d
of each cell at the middle, d the rates, and rates and factors what users lose. So factors are those
of a few rounds from the sampled users' rates, at several limits M around theirs, and the plan that
costs least is taken. What a limit gives up for being off costs ε, never a target.

All targets on average: the error of a plan is bias plus noise, so that noise can be scaled until
the targets are met exactly. The plan of least error is searched for at the sampled users' ε,
scaled, searched for at what it costs then, and scaled again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from hexveil.accounting.gaussian_composition import calibrated_square, square_epsilon
from hexveil.accounting.noise_law import GAUSSIAN
from hexveil.accounting.promise import Promise, promised
from hexveil.base.arrays import Floats
from hexveil.base.errors import InputError
from hexveil.model.occupancy import Occupancy
from hexveil.planning.allocation import PlanAllocation
from hexveil.planning.calibration import (
    LARGEST_EPSILON,
    Targets,
    fit_noise,
    least_allocation,
    target_ratio,
)
from hexveil.planning.optimizers.joint import bounded_rows, relative_targets
from hexveil.planning.optimizers.mean_error import ObjectiveWeights, minimize_mean_error
from hexveil.planning.optimizers.minimax import JointSolution
from hexveil.planning.optimizers.pair_sums import fetch_sample, to_all_cells
from hexveil.planning.optimizers.user_factors import GaussianClippingProblem, InverseScales
from hexveil.planning.plan_rows import PlanningProblem

AIM = 1.0 - 2.0**-16
"""Part of each target that is aimed at: rounds end, and factors are rounded."""
SETTLED = 2.0**-20
"""Rounds end where no cell moves more of its records to the middle than this part of all."""
MOST_ROUNDS = 200
"""Rounds after which a square is taken to be too small."""
ROUNDS = 3
"""Rounds from rates to factors and back, at each limit."""
FIRST_STEP, LAST_STEP = 1.2, 1.01
"""Ratios of the roots of limits that are compared."""
MOST_LIMITS = 16
"""Limits that are compared at most."""
HALVINGS = 40


def allocate_within(problem: PlanningProblem, promise: Promise) -> PlanAllocation:
    """Return the allocation of least average error within a promise."""
    occupancy = problem.occupancy
    weights = ObjectiveWeights.of(problem.request, problem.span, occupancy)
    exposure = GaussianClippingProblem(occupancy)
    solution = minimize_mean_error(exposure, weights, float(promise.amount))
    return fit_noise(problem, promise, bounded_rows(occupancy, solution))


def allocate_within_errors(
    problem: PlanningProblem, targets: Mapping[str, Floats]
) -> PlanAllocation:
    """Return the allocation of the least ε at which the targets are met.

    Each cell its own; with objective "mean" all of them on average.
    """
    local, cells, part = fetch_sample(problem.occupancy)
    some = replace(problem, occupancy=local, span=problem.span[cells])
    own = {name: target[cells] for name, target in targets.items()}
    near, rows = _least_allocation(some, own, part)
    if part == 1.0:
        return rows
    if problem.request.objective == "mean":
        return _meet_average_targets(problem, targets, near)
    noise = rows.noise_scale_records / local.records_per_cell, rows.variance_noise
    rates = (np.divide(1.0, b, out=np.zeros_like(b), where=b > 0) for b in noise)
    return _meet_each_target(problem, targets, near, InverseScales(*rates), cells)


def _least_allocation(
    problem: PlanningProblem, targets: Mapping[str, Floats], part: float
) -> tuple[Fraction, PlanAllocation]:
    """Return the least ε at which these users meet the targets as a part of all, and the rows."""
    occupancy, request = problem.occupancy, problem.request
    aim = relative_targets(targets, problem.span, occupancy, AIM)
    nothing, everybody = np.zeros(occupancy.n_cells), np.ones(occupancy.n_users)
    constants = bounded_rows(occupancy, JointSolution(InverseScales(nothing, nothing), everybody))

    def at(epsilon: Fraction) -> PlanAllocation:
        try:
            whole = promised(epsilon, request.delta)
        except InputError:  # so small an ε leaves nothing to measure with
            return constants
        promise = whole.part(1 / Fraction(part) ** 2)
        if request.objective == "mean":
            return allocate_within(problem, promise)
        found = least_rates(occupancy, aim, float(promise.amount))
        if found is None:
            return constants
        return fit_noise(problem, promise, bounded_rows(occupancy, found))

    return least_allocation(problem, targets, at)


# ---- pairs at hand ----


def least_rates(occupancy: Occupancy, targets: Targets, square: float) -> JointSolution | None:
    """Return the least rates that meet targets of bounds of width 1 at a square; None if none."""
    exposure = GaussianClippingProblem(occupancy)
    away = np.zeros(occupancy.n_cells)
    for _ in range(MOST_ROUNDS):
        rates = _rates(targets, away)
        if rates is None:
            return None
        factor = exposure.largest_factors(rates, square)
        before, away = away, exposure.clipped_share(factor)
        if float((away - before).max()) <= SETTLED * _smallest_room(rates):
            return JointSolution(rates, factor)
    return None


def least_rates_by(
    exposure: GaussianClippingProblem,
    targets: Targets,
    begin: InverseScales,
    square: float,
    rounds: int,
) -> JointSolution | None:
    """Return rates that meet the targets by some rounds from other rates, and factors.

    Whatever the rates begin with, those returned meet the targets with the factors returned. None
    if a round leaves a target no room.
    """
    rates, factor = begin, exposure.largest_factors(begin, square)
    for round_number in range(rounds):
        factor = exposure.largest_factors(rates, square) if round_number else factor
        found = _rates(targets, exposure.clipped_share(factor))
        if found is None:
            return None
        rates = found
    return JointSolution(rates, factor)


def _rates(targets: Targets, away: Floats) -> InverseScales | None:
    """Return the least rates of Gaussian noise that meet the targets; None if none do."""
    found, size = targets.rates(away), GAUSSIAN.mean_absolute
    return None if found is None else InverseScales(size * found.mean, size * found.variance)


def _smallest_room(rates: InverseScales) -> float:
    """Return the least expected noise that some target asks for, at most 1."""
    largest = max(float(rates.mean.max()), float(rates.variance.max()))
    return min(GAUSSIAN.mean_absolute / max(largest, 1e-300), 1.0)


# ---- pairs elsewhere: each cell its own target ----


def _meet_each_target(
    problem: PlanningProblem,
    targets: Mapping[str, Floats],
    epsilon: Fraction,
    begin: InverseScales,
    cells: NDArray[np.int64],
) -> PlanAllocation:
    """Return rows that meet each cell's targets, at about the least loss.

    It begins at the ε and the rates, of a part of the cells, at which some users met theirs.
    """
    occupancy = problem.occupancy
    aim = relative_targets(targets, problem.span, occupancy, AIM)
    exposure = GaussianClippingProblem(occupancy)
    start = InverseScales(
        *(to_all_cells(one, cells, occupancy.n_cells) for one in (begin.mean, begin.variance))
    )
    root = math.sqrt(calibrated_square(epsilon, problem.request.delta))

    def tried(times: float) -> tuple[float, PlanAllocation | None]:
        found = least_rates_by(exposure, aim, start, (times * root) ** 2, ROUNDS)
        if found is None:
            return math.inf, None
        rows = bounded_rows(occupancy, found, rounding=np.floor)
        return float(rows.most_booked(problem)), rows

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


# ---- pairs elsewhere: all targets on average ----


def _meet_average_targets(
    problem: PlanningProblem, targets: Mapping[str, Floats], epsilon: Fraction
) -> PlanAllocation:
    """Return rows that meet the targets on average, at about the least loss.

    It begins at the ε at which some users met theirs.
    """
    delta, found = problem.request.delta, None
    tried, cost = float(epsilon), math.inf
    for _ in range(HALVINGS):
        if tried > LARGEST_EPSILON:
            break
        rows = allocate_within(problem, promised(Fraction(tried), delta))
        scaled = _with_targets_met(problem, targets, rows)
        if scaled is None:  # bias alone is too large
            tried *= 2.0
            continue
        own = square_epsilon(scaled.most_booked(problem), delta)
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
    models = rows.error_models(problem)

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
