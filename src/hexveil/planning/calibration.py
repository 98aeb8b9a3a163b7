"""Calibration of noise to a privacy loss, and of the loss to target errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction

import numpy as np

from hexveil.accounting.error_model import ErrorModel
from hexveil.accounting.privacy_loss import VARIANCE_LATTICE
from hexveil.accounting.promise import Promise
from hexveil.base.arrays import Floats
from hexveil.base.errors import InputError
from hexveil.base.rational import round_up
from hexveil.planning.allocation import PlanAllocation
from hexveil.planning.least_loss import Trial, least_epsilon
from hexveil.planning.plan_rows import PlanningProblem

FIGURES = 4
"""Of the least loss that meets targets."""
ROUNDING = 1.0 + 2.0**-40
"""More than the rounding of a ratio of losses, and of the scales, so that once is enough."""
SMALLEST_EPSILON, LARGEST_EPSILON = 2.0**-20, 2.0**40
"""Range of the search for the least loss that meets targets."""


def calibrate_noise(
    problem: PlanningProblem, epsilon: Fraction, allocation: PlanAllocation
) -> PlanAllocation:
    """Return the allocation, with more noise if the most exposed user loses more than ε.

    Raises
    ------
    InputError
        If users are charged more than ε for the lattice of the variances alone.
    """
    losses = _fractional_loss(problem, allocation)
    return allocation if losses <= epsilon else _scaled_to(problem, epsilon, allocation, losses)


def spend_epsilon(
    problem: PlanningProblem, epsilon: Fraction, allocation: PlanAllocation
) -> PlanAllocation:
    """Return the allocation with as much noise that the most exposed user loses all of ε.

    Losses are inverse to a factor of all noise, so that one step is exact; nothing changes where
    nobody loses anything.

    Raises
    ------
    InputError
        If users are charged more than ε for the lattice of the variances alone.
    """
    losses = _fractional_loss(problem, allocation)
    return _scaled_to(problem, epsilon, allocation, losses) if losses else allocation


def _fractional_loss(problem: PlanningProblem, allocation: PlanAllocation) -> Fraction:
    # Whole quanta are never more than the fractions that are charged here: a loss that holds
    # without metadata holds with it, and the plan does not depend on the lattice.
    return allocation.most_booked(problem.without_metadata())


def _scaled_to(
    problem: PlanningProblem, epsilon: Fraction, allocation: PlanAllocation, losses: Fraction
) -> PlanAllocation:
    """Return the allocation with its noise scaled from one loss to another."""
    # A user is charged the lattice of each published variance, which noise does not change.
    fixed, occupancy = 0.0, problem.occupancy
    if "variance" in problem.request.noised:
        fixed = VARIANCE_LATTICE * float(occupancy.cells_per_user.max())
    room = float(epsilon) - fixed
    if room <= 0:
        raise InputError(
            f"epsilon {float(epsilon):.3g} is too small to publish variances of "
            f"{occupancy.n_cells} cells; ask for more than {fixed:.3g}."
        )
    return allocation.with_noise_scaled(float(losses) / room * ROUNDING)


def fit_noise(
    problem: PlanningProblem, promise: Promise, allocation: PlanAllocation
) -> PlanAllocation:
    """Return the allocation with noise at which the most exposed user spends the promise.

    What is spent on ranges of the whole map stays as it is; nothing changes where nobody spends
    anything on the cells.
    """
    shared = Fraction(round_up(allocation.clipping.shared(promise.delta).amount))
    booked, room = allocation.most_booked(problem), promise.amount - shared
    if booked <= shared:
        return allocation
    while True:
        ratio = float((booked - shared) / room) ** (1.0 / promise.law.power)
        allocation = allocation.with_noise_scaled(ratio * ROUNDING)
        # Rounded contributions and steps of a lattice may keep the ratio from holding exactly.
        booked = allocation.most_booked(problem)
        if booked <= promise.amount:
            return allocation


def least_allocation(
    problem: PlanningProblem,
    targets: Mapping[str, Floats],
    at: Callable[[Fraction], PlanAllocation],
) -> tuple[Fraction, PlanAllocation]:
    """Return the smallest ε of four figures that meets the targets, and its allocation.

    Parameters
    ----------
    problem : PlanningProblem
    targets : mapping of statistic (or "sum") to ndarray of float, shape (n_cells,)
    at : callable
        The allocation at an ε.

    Raises
    ------
    InputError
        If none is found at any ε.
    """
    allocations: list[PlanAllocation] = []

    def look(epsilon: Fraction) -> Trial:
        allocation = at(epsilon)
        meets = target_ratio(problem, targets, allocation.error_models(problem)) <= 1.0
        # The last one that meets them is the one of the least loss.
        allocations[:] = [allocation] if meets else allocations
        return Trial(meets)

    epsilon = least_epsilon(
        look, 1, figures=FIGURES, smallest=SMALLEST_EPSILON, largest=LARGEST_EPSILON
    )
    if epsilon is None:
        raise InputError(
            f"no plan by method {problem.request.method!r} meets target_error at any loss; "
            'ask for a larger error, or use method "joint" with objective "max".'
        )
    return epsilon, allocations[0]


def target_ratio(
    problem: PlanningProblem, targets: Mapping[str, Floats], models: Mapping[str, ErrorModel]
) -> float:
    """Return the largest ratio of an error to its target; with objective "mean" the average one."""
    summed = problem.objective_errors(models)
    ratios = [
        (summed if name == "sum" else models[name].error) / target
        for name, target in targets.items()
    ]
    worst = np.max(ratios, axis=0)
    return float(worst.max() if problem.request.objective == "max" else worst.mean())
