"""Calibration of noise to a promise, and of the promise to target errors.

Target errors of a request: planning errors per cell, and the noise that they allow.

Errors are for bounds of width 1. With a share d of a cell at the middle, an error of at most e is
met by noise whose expected size is e - d/2 (mean) or e - d (1 - d)/2 (variance); a target that a
constant meets (1/2, and 1/8) needs no noise and costs nothing.

The one search for the least loss. Losses are numbers of a few decimal figures, so that what is
found is the same wherever it is looked for, and can be named. Error falls as the loss grows.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any, TypeVar

import numpy as np

from hexveil.accounting.error_model import (
    MAX_CONSTANT_ERROR,
    WORST_CASE_BIAS,
    ErrorModel,
    has_single_record,
)
from hexveil.accounting.noise_law import NoiseLaw
from hexveil.accounting.privacy_loss import VARIANCE_LATTICE
from hexveil.accounting.promise import Promise
from hexveil.base.arrays import Floats
from hexveil.base.errors import InputError
from hexveil.base.rational import round_up
from hexveil.base.work_share import SEARCH, part_of_work
from hexveil.model.occupancy import Occupancy
from hexveil.model.public_metadata import ValueLattice
from hexveil.planning.allocation import PlanAllocation, PlanningProblem
from hexveil.planning.optimizers.user_factors import RatesAt
from hexveil.planning.plan_arguments import PlanArguments
from hexveil.planning.request import targets_of

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

    def look(epsilon: Fraction) -> bool:
        allocation = at(epsilon)
        meets = target_ratio(problem, targets, allocation.error_models(problem)) <= 1.0
        # The last one that meets them is the one of the least loss.
        allocations[:] = [allocation] if meets else allocations
        return meets

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


def rates_within(
    shares: Mapping[str, Floats | float], occupancy: Occupancy, law: NoiseLaw, times: float = 1.0
) -> RatesAt:
    """Return the least rates that meet shares of a constant's errors, times a number near 1.

    Those that a constant meets stay as they are; any is met by the variance of one record.
    """
    targets = np.full((2, occupancy.n_cells), np.inf)
    for target, (name, largest) in zip(targets, MAX_CONSTANT_ERROR.items(), strict=True):
        if name in shares:
            met = np.greater_equal(shares[name], 1.0 - 2.0**-48)  # a constant's error, as rounded
            times_share = np.multiply(shares[name], times)
            target[:] = np.where(met, np.maximum(shares[name], 1.0), times_share) * largest
    targets[1, has_single_record(occupancy)] = np.inf
    return partial(least_rates, targets=targets, law=law)


def least_rates(remote: Floats, *, targets: Floats, law: NoiseLaw) -> Floats | None:
    """Return the least rates that meet targets of mean and variance; None if none do.

    They grow with every entry of `remote`, the share of each cell at the middle. Targets are for
    bounds of width 1, shape (2, n_cells): infinity for a statistic that is not asked for.
    """
    rates = np.zeros_like(targets)
    for rate, target, (name, largest) in zip(
        rates, targets, MAX_CONSTANT_ERROR.items(), strict=True
    ):
        # A target that a constant meets needs no noise, hence no loss.
        live = target < largest
        room = np.where(live, target - WORST_CASE_BIAS[name](remote), 1.0)
        if not (room > 0).all():
            return None
        rate[live] = law.mean_absolute / room[live]
    return rates


# ---- the least loss ----

SMALLEST, LARGEST = 1e-6, 100.0
"""No loss beyond these is looked at, unless it is asked for."""
USUAL_LOOKS, MOST_LOOKS = 8, 200
USERS = "users"
ComponentT = TypeVar("ComponentT")


def least_epsilon(
    look: Callable[[Fraction], bool],
    begin: float | Fraction,
    *,
    figures: int = 2,
    smallest: float = SMALLEST,
    largest: float = LARGEST,
) -> Fraction | None:
    """Return the least loss of a few figures at which the error is small enough; None without one.

    Parameters
    ----------
    look : callable
        Whether the error is small enough at a loss.
    begin : number
        The loss that is looked at first, rounded up.
    figures : int
        Decimal figures of losses.
    smallest, largest : float
        Losses that are looked at.

    Examples
    --------
    >>> str(least_epsilon(lambda epsilon: epsilon >= 0.314, 1))
    '8/25'
    """
    per_decade = 9 * 10 ** (figures - 1)
    low, high = place_of(smallest, figures) - 1, None
    final = place_of(largest, figures)
    place, stride = min(max(place_of(begin, figures), low + 1), final), per_decade // 2
    for number in range(MOST_LOOKS):
        with part_of_work(SEARCH, min(number, USUAL_LOOKS - 1), USUAL_LOOKS):
            meets = look(loss_at(place, figures))
        low, high = (low, place) if meets else (place, high)
        if low >= final or (high is not None and high - low <= 1):
            break
        if high is None:
            place, stride = min(place + stride, final), 2 * stride
        else:
            # Where nothing failed yet, the lowest loss is far away.
            place = max((low + high) // 2, high - stride)
            stride *= 2
    return None if high is None else loss_at(high, figures)


def place_of(loss: float | Fraction, figures: int) -> int:
    """Return the place of the least loss of some figures that is not below a number."""
    item: int = 10 ** (figures - 1)
    exponent = math.floor(math.log10(loss)) - figures + 1
    scaled = float(loss) / 10.0**exponent
    # Rounding must not lift 2.3 to 2.4.
    return 9 * item * exponent + max(math.ceil(scaled - 1e-9 * scaled), item) - item


def loss_at(place: int, figures: int) -> Fraction:
    """Return the loss at a place.

    Examples
    --------
    >>> [float(loss_at(place_of(loss, 2), 2)) for loss in (2.31, 0.0041, 9.95, 100)]
    [2.4, 0.0041, 10.0, 100.0]
    """
    item: int = 10 ** (figures - 1)
    exponent, remainder = divmod(place, 9 * item)
    return Fraction(item + remainder) * Fraction(10 ** abs(exponent)) ** (1 if exponent > 0 else -1)


def two_figures_up(loss: float) -> float:
    """Return a loss rounded up to two figures."""
    return float(loss_at(place_of(loss, 2), 2)) if loss > 0 else 0.0


# ---- targets of predicted errors ----


def within_predictions(
    planned_at: Callable[[PlanArguments], ComponentT], options: PlanArguments, lattice: ValueLattice
) -> tuple[ComponentT, dict[str, str]]:
    """Return the component at the least ε of two figures predicted to meet targets, and these.

    Targets are exact text, by statistic: a request is identified by them, and not by what a search
    found.

    The errors of distributions, and under private presence, depend on the values and are predicted
    by stated priors: other than those of means and variances within the bounds, which hold for all
    values.

    Parameters
    ----------
    planned_at : callable
        The component of options with an ε.
    options : PlanArguments
        With target errors.
    lattice : ValueLattice
        Bounds of the values.

    Raises
    ------
    InputError
        If a target names no statistic of the plan, or is out of reach.
    """
    within: list[ComponentT] = []
    targets: dict[str, float] = {}

    def look(epsilon: Fraction) -> bool:
        built = planned_at(replace(options, epsilon=epsilon, target_error=None))
        errors = predicted_errors(built)
        targets.update(targets_of(options.target_error, tuple(errors), float(lattice.span)))
        meets = all(errors[name] <= target for name, target in targets.items())
        within[:] = [built] if meets else within
        return meets

    if least_epsilon(look, 1) is None:
        raise InputError(
            f"no epsilon up to {LARGEST:g} is predicted to meet target_error; ask for larger "
            "errors, or for larger cells."
        )
    return within[0], {name: repr(target) for name, target in sorted(targets.items())}


def predicted_errors(plan: Any) -> dict[str, float]:  # noqa: ANN401  as above
    """Return the predicted error of each statistic of a plan, on average over cells."""
    errors = {item.statistic: item.error for item in plan.statistic_errors}
    errors |= {name: error for name, error in getattr(plan, "expected_error", {}).items()
               if name != "share"}  # fmt: skip
    counts = getattr(getattr(plan, "prediction", None), "counts", None)
    return errors if counts is None else errors | {USERS: counts.count_error}
