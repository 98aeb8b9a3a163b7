"""Calibration of noise to a privacy loss, and of the loss to target errors.

Target errors of a request: planning errors per cell, and the noise that they allow.

Errors are for bounds of width 1. With a share d of a cell at the middle, an error of at most e is
met by noise of scale e - d/2 (mean) or e - d (1 - d)/2 (variance); a target that a constant meets
(1/2, and 1/8) needs no noise and costs nothing. With one target for the sum of both errors,
U e_mean + U² e_var <= E (COMP eq. (12)), each cell publishes a constant for one of them where that
leaves less total rate, else both with noise in the proportion that makes the sum of rates least:
scales as 1/√U to 1/U.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np

from hexveil.accounting.error_model import (
    MAX_CONSTANT_ERROR,
    WORST_CASE_BIAS,
    ErrorModel,
    mean_bias,
    variance_bias,
)
from hexveil.accounting.privacy_loss import VARIANCE_LATTICE
from hexveil.accounting.promise import Promise
from hexveil.base.arrays import Floats
from hexveil.base.errors import InputError
from hexveil.base.rational import round_up
from hexveil.planning.allocation import PlanAllocation
from hexveil.planning.least_loss import Trial, least_epsilon
from hexveil.planning.optimizers.user_factors import InverseScales
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


class Targets(Protocol):
    """Errors not to be exceeded."""

    def rates(self, remote: Floats) -> InverseScales | None:
        """Return the least rates that meet the targets; None if none do.

        For targets of each statistic both grow with every entry of `remote`.
        """

    def least_rates(self, remote: Floats, largest: Floats) -> InverseScales | None:
        """Return rates that no plan meeting the targets goes below, for the lower bound.

        `largest` is each cell's largest share of a user.
        """


@dataclass(frozen=True, eq=False)
class SeparateTargets:
    """A target for each statistic.

    Attributes
    ----------
    mean, variance : ndarray of float, shape (n_cells,)
        For bounds of width 1; infinity for a statistic that is not asked for.
    """

    mean: Floats
    variance: Floats

    def rates(self, remote: Floats) -> InverseScales | None:
        """Return the least rates that meet the targets: see `Targets.rates`."""
        mean = _rate("mean", self.mean, remote)
        variance = _rate("variance", self.variance, remote)
        return None if mean is None or variance is None else InverseScales(mean, variance)

    def least_rates(self, remote: Floats, largest: Floats) -> InverseScales | None:
        """Return the same: nothing is left to choose."""
        del largest
        return self.rates(remote)


def _rate(name: str, target: Floats, remote: Floats) -> Floats | None:
    # A target that a constant meets needs no noise, hence no loss.
    live = target < MAX_CONSTANT_ERROR[name]
    room = np.where(live, target - WORST_CASE_BIAS[name](remote), 1.0)
    if not (room > 0).all():
        return None
    return np.where(live, 1.0 / room, 0.0)


@dataclass(frozen=True, eq=False)
class SumTarget:
    """One target for the sum of both errors, in value units plus squared value units.

    Attributes
    ----------
    error : ndarray of float, shape (n_cells,)
    span : ndarray of float, shape (n_cells,)
    square : ndarray of float, shape (n_cells,)
        Its square; 0 where the variance is known, so that the mean has all of the target.
    """

    error: Floats
    span: Floats
    square: Floats

    def rates(self, remote: Floats) -> InverseScales | None:
        """Return the least rates that meet the targets: see `Targets.rates`."""
        mean_only, variance_only, both = self._options(remote)
        # A constant for one statistic can leave the other so much room that both cost less.
        best = np.minimum(np.minimum(mean_only, variance_only), both)
        if not np.isfinite(best).all():
            return None
        root = np.sqrt(self.span)
        first = both / (1.0 + root)  # of scales 1/√U to 1/U the rates are as 1 to √U
        mean = np.where(best == mean_only, mean_only, np.where(best == variance_only, 0.0, first))
        variance = np.where(
            best == mean_only, 0.0, np.where(best == variance_only, variance_only, both - first)
        )
        return InverseScales(mean, variance)

    def least_rates(self, remote: Floats, largest: Floats) -> InverseScales | None:
        """Return inverse scales with a loss not above that of any choice in the cell.

        Of a share x a variance costs a user v, at least x (1 - largest) and at most x. Noise for
        both statistics costs at least (√(U x) + U √v)² / room, which is v times the least total
        rate or more. So where the variance alone has no larger total rate, it is the cheapest for
        every user; elsewhere what both cost at least at v = x (1 - largest) is charged as if it
        were the mean's. The proof is in docs/understand/plan-class.md.
        """
        mean_only, variance_only, both = self._options(remote)
        root, left = np.sqrt(self.span), 1.0 - largest
        mixed = ((root + self.span * np.sqrt(left)) / (root + self.span)) ** 2
        best = np.minimum(np.minimum(mean_only, _part(variance_only, left)), _part(both, mixed))
        if not np.isfinite(best).all():
            return None
        alone = variance_only <= np.minimum(mean_only, both)
        return InverseScales(np.where(alone, 0.0, best), np.where(alone, variance_only, 0.0))

    def _options(self, remote: Floats) -> tuple[Floats, Floats, Floats]:
        """Return total rates: only the mean with noise, only the variance, and both."""
        span, square = self.span, self.square
        nothing = (
            self.error
            >= span * MAX_CONSTANT_ERROR["mean"] + square * MAX_CONSTANT_ERROR["variance"]
        )
        mean, variance = span * mean_bias(remote), square * variance_bias(remote)
        mean_only = _least(span, self.error - square * MAX_CONSTANT_ERROR["variance"] - mean)
        variance_only = _least(square, self.error - span * MAX_CONSTANT_ERROR["mean"] - variance)
        both = _least((np.sqrt(span) + span) ** 2, self.error - mean - variance)
        return (
            np.where(nothing, 0.0, mean_only),
            np.where(nothing, 0.0, variance_only),
            np.where(nothing, 0.0, both),
        )


def _part(rate: Floats, part: Floats) -> Floats:
    """Return a part of each rate; infinity stays so."""
    return np.multiply(rate, part, out=rate.copy(), where=np.isfinite(rate))


def _least(weight: Floats, room: Floats) -> Floats:
    return np.divide(weight, room, out=np.full_like(room, np.inf), where=room > 0)
