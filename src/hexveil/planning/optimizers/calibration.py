"""Calibration of noise to a promise, and of the promise to target errors.

Target errors of a request: planning errors per cell, and the noise that they allow.

Errors are for bounds of width 1. With a share d of a cell at the middle, an error of at most e is
met by noise whose expected size is e - d/2 (mean) or e - d (1 - d)/2 (variance); a target that a
constant meets (1/2, and 1/8) needs no noise and costs nothing.

The one search for the least loss. Losses are numbers of a few decimal figures, so that what is
found is the same wherever it is looked for, and can be named. Error falls as the loss grows. Where
noise alone depends on the loss it is in proportion to 1/ε: a straight line in 1/ε, on or above the
least error, which it touches. Where it crosses the wanted error is Newton's next step, and the
error there is small enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hexveil.accounting.error_model import (
    MAX_CONSTANT_ERROR,
    WORST_CASE_BIAS,
    has_single_record,
)
from hexveil.accounting.noise_law import LAPLACE, NoiseLaw
from hexveil.accounting.privacy_loss import VARIANCE_LATTICE
from hexveil.accounting.promise import Promise
from hexveil.base.arrays import Floats
from hexveil.base.errors import InputError
from hexveil.base.rational import round_up
from hexveil.base.work_share import SEARCH, part_of_work
from hexveil.model.occupancy import Occupancy
from hexveil.planning.allocation import PlanAllocation, PlanningProblem
from hexveil.planning.optimizers.user_factors import InverseScales

MARGINS = tuple(2.0**power for power in range(-40, 1, 5))
"""Parts by which noise is larger than a ratio of losses asks for: the first is more than its
rounding, so that once is enough where losses have no steps."""
LARGEST_EPSILON = 2.0**40
"""Largest loss at which targets may be met."""


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
        targets: Mapping[str, Floats],
        span: Floats,
        occupancy: Occupancy,
        law: NoiseLaw,
        times: float = 1.0,
    ) -> ErrorTargets:
        """Return targets in value units, times a number near 1, for bounds of width 1.

        Those that a constant meets stay as they are; any is met by the variance of one record.
        """
        aims = {name: np.full(occupancy.n_cells, np.inf) for name in MAX_CONSTANT_ERROR}
        for name, target in targets.items():
            constant = MAX_CONSTANT_ERROR[name]
            share = target / ((span if name == "mean" else span**2) * constant)
            met = share >= 1.0 - 2.0**-48  # a constant's error, as rounded
            aims[name] = np.where(met, np.maximum(share, 1.0), share * times) * constant
        variance = np.where(has_single_record(occupancy), np.inf, aims["variance"])
        return cls(aims["mean"], variance, law)

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


# ---- the least loss ----

SMALLEST, LARGEST = 1e-6, 100.0
"""No loss beyond these is looked at, unless it is asked for."""
USUAL_LOOKS, MOST_LOOKS = 8, 200


@dataclass(frozen=True)
class Trial:
    """Finding at a loss.

    Attributes
    ----------
    meets : bool
        Whether the error is small enough.
    crossing : float or None
        A loss that is enough, by scaling the noise that was found; infinite where none is, None
        where none is known.
    """

    meets: bool
    crossing: float | None = None


def least_epsilon(look: Callable[[Fraction], Trial], begin: float | Fraction) -> Fraction | None:
    """Return the least loss of two figures at which the error is small enough; None without one.

    Parameters
    ----------
    look : callable
        What is found at a loss.
    begin : number
        The loss that is looked at first, rounded up.

    Examples
    --------
    >>> str(least_epsilon(lambda epsilon: Trial(epsilon >= 0.314), 1))
    '8/25'
    """
    low, high = place_of(SMALLEST) - 1, None
    final = place_of(LARGEST)
    place, stride = min(max(place_of(begin), low + 1), final), 45
    for number in range(MOST_LOOKS):
        with part_of_work(SEARCH, min(number, USUAL_LOOKS - 1), USUAL_LOOKS):
            result = look(loss_at(place))
        low, high = (low, place) if result.meets else (place, high)
        if low >= final or (high is not None and high - low <= 1):
            break
        crossing = result.crossing
        nearest = None
        if crossing is not None and math.isfinite(crossing):
            nearest = place_of(max(crossing, SMALLEST))
            if result.meets and nearest >= place:
                break  # less noise than this is not enough, by the line
        if nearest is not None and low < nearest < (final + 1 if high is None else high):
            place = nearest
        elif high is None:
            place, stride = min(place + stride, final), 2 * stride
        else:
            # Where nothing failed yet, the lowest loss is far away.
            place = max((low + high) // 2, high - stride)
            stride *= 2
    return None if high is None else loss_at(high)


def place_of(loss: float | Fraction) -> int:
    """Return the place of the least loss of two figures that is not below a number."""
    exponent = math.floor(math.log10(loss)) - 1
    scaled = float(loss) / 10.0**exponent
    # Rounding must not lift 2.3 to 2.4.
    return 90 * exponent + max(math.ceil(scaled - 1e-9 * scaled), 10) - 10


def loss_at(place: int) -> Fraction:
    """Return the loss at a place.

    Examples
    --------
    >>> [float(loss_at(place_of(loss))) for loss in (2.31, 0.0041, 9.95, 100)]
    [2.4, 0.0041, 10.0, 100.0]
    """
    exponent, remainder = divmod(place, 90)
    return Fraction(10 + remainder) * Fraction(10 ** abs(exponent)) ** (1 if exponent > 0 else -1)


def two_figures_up(loss: float) -> float:
    """Return a loss rounded up to two figures."""
    return float(loss_at(place_of(loss))) if loss > 0 else 0.0
