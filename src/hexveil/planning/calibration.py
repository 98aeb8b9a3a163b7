"""Calibration of noise to a promise, and of the promise to target errors.

Target errors of a request: planning errors per cell, and the noise that they allow.

Errors are for bounds of width 1. With a share d of a cell at the middle, an error of at most e is
met by noise whose expected size is e - d/2 (mean) or e - d (1 - d)/2 (variance); a target that a
constant meets (1/2, and 1/8) needs no noise and costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hexveil.accounting.error_model import (
    MAX_CONSTANT_ERROR,
    WORST_CASE_BIAS,
    ErrorModel,
    has_single_record,
)
from hexveil.accounting.noise_law import LAPLACE, NoiseLaw
from hexveil.accounting.privacy_loss import VARIANCE_LATTICE
from hexveil.accounting.promise import Promise
from hexveil.base.arrays import Floats
from hexveil.base.errors import InputError
from hexveil.base.rational import round_up
from hexveil.model.occupancy import Occupancy
from hexveil.planning.allocation import PlanAllocation, PlanningProblem
from hexveil.planning.least_loss import Trial, least_epsilon
from hexveil.planning.optimizers.user_factors import InverseScales

FIGURES = 4
"""Of the least loss that meets targets."""
MARGINS = tuple(2.0**power for power in range(-40, 1, 5))
"""Parts by which noise is larger than a ratio of losses asks for: the first is more than its
rounding, so that once is enough where losses have no steps."""
SMALLEST_EPSILON, LARGEST_EPSILON = 2.0**-20, 2.0**40
"""Range of the search for the least loss that meets targets."""


def fit_noise(
    problem: PlanningProblem, promise: Promise, allocation: PlanAllocation
) -> PlanAllocation:
    """Return the allocation with noise at which the most exposed user spends the promise.

    What is spent on ranges of the whole map stays as it is; nothing changes where nobody spends
    anything on the cells.

    Raises
    ------
    InputError
        If users are charged more than the promise for the lattice of the variances alone.
    """
    shared = Fraction(round_up(allocation.clipping.shared(promise.delta).amount))
    booked, fixed = allocation.most_booked(problem), Fraction(0)
    if booked <= shared:
        return allocation
    if "variance" in problem.request.noised and not promise.delta:
        # A user is charged the lattice of each published variance, which noise does not change.
        fixed = Fraction(VARIANCE_LATTICE) * int(problem.occupancy.cells_per_user.max())
    room = promise.amount - shared - fixed
    for margin in MARGINS if room > 0 else ():
        ratio = float((booked - shared) / room) ** (1.0 / promise.law.power)
        allocation = allocation.with_noise_scaled(ratio * (1.0 + margin))
        # Rounded contributions and steps of a lattice may keep the ratio from holding exactly.
        booked = allocation.most_booked(problem)
        if booked <= promise.amount:
            return allocation
    raise InputError(
        f"epsilon {float(promise.epsilon):.3g} is too small to publish variances of "
        f"{problem.occupancy.n_cells} cells; ask for more than {float(fixed):.3g}."
    )


def least_allocation(
    problem: PlanningProblem,
    targets: Mapping[str, Floats],
    at: Callable[[Fraction], PlanAllocation],
) -> tuple[Fraction, PlanAllocation]:
    """Return the smallest ε of four figures that meets the targets, and its allocation.

    Parameters
    ----------
    problem : PlanningProblem
    targets : mapping of statistic to ndarray of float, shape (n_cells,)
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
    ratios = [models[name].error / target for name, target in targets.items()]
    worst = np.max(ratios, axis=0)
    return float(worst.max() if problem.request.objective == "max" else worst.mean())


@dataclass(frozen=True, eq=False)
class ErrorTargets:
    """A target for each statistic.

    Attributes
    ----------
    mean, variance : ndarray of float, shape (n_cells,)
        For bounds of width 1; infinity for a statistic that is not asked for.
    law : NoiseLaw
    """

    mean: Floats
    variance: Floats
    law: NoiseLaw = LAPLACE

    @classmethod
    def of(
        cls,
        shares: Mapping[str, Floats | float],
        occupancy: Occupancy,
        law: NoiseLaw,
        times: float = 1.0,
    ) -> ErrorTargets:
        """Return targets that are shares of a constant's errors, times a number near 1.

        Those that a constant meets stay as they are; any is met by the variance of one record.
        """
        targets = {name: np.full(occupancy.n_cells, np.inf) for name in MAX_CONSTANT_ERROR}
        for name, share in shares.items():
            met = np.greater_equal(share, 1.0 - 2.0**-48)  # a constant's error, as rounded
            aimed = np.where(met, np.maximum(share, 1.0), np.multiply(share, times))
            targets[name] = np.broadcast_to(aimed * MAX_CONSTANT_ERROR[name], occupancy.n_cells)
        variance = np.where(has_single_record(occupancy), np.inf, targets["variance"])
        return cls(targets["mean"], variance, law)

    def rates(self, remote: Floats) -> InverseScales | None:
        """Return the least rates that meet the targets; None if none do.

        Both grow with every entry of `remote`, the share of each cell at the middle.
        """
        mean, variance = self._rate("mean", remote), self._rate("variance", remote)
        return None if mean is None or variance is None else InverseScales(mean, variance)

    def _rate(self, name: str, remote: Floats) -> Floats | None:
        target: Floats = getattr(self, name)
        # A target that a constant meets needs no noise, hence no loss.
        live = target < MAX_CONSTANT_ERROR[name]
        room = np.where(live, target - WORST_CASE_BIAS[name](remote), 1.0)
        if not (room > 0).all():
            return None
        return np.where(live, self.law.mean_absolute / room, 0.0)
