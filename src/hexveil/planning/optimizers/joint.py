"""The joint plan of a request: from a planning problem to an allocation, by the right optimizer.

What the optimizers decide are real numbers; here they become those of a release: few noise scales,
factors of few digits, and noise calibrated to the loss that the rows really have.

A release of many cells draws its noise in groups of equal scale: a draw of a scale of its own costs
the noise library about fifteen times one of many of a scale. So where a plan would have very many
scales its noise is rounded to eight binary digits, before factors and noise are fitted to the loss
that was asked: what the plan states, what is booked and what is drawn are then one number. A noise
moves by at most a 256th of itself where it is rounded to the nearest, by less than a 128th where it
is rounded to one side. Times one factor they are as few as before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction

import numpy as np

from hexveil.accounting.error_model import MAX_CONSTANT_ERROR, has_single_record, span_in_quanta
from hexveil.base.arrays import Floats
from hexveil.base.errors import InputError
from hexveil.model.occupancy import Occupancy
from hexveil.planning.allocation import PlanAllocation
from hexveil.planning.calibration import (
    ROUNDING,
    SeparateTargets,
    SumTarget,
    Targets,
    calibrate_noise,
    least_allocation,
)
from hexveil.planning.optimizers.mean_error import ObjectiveWeights, minimize_mean_error
from hexveil.planning.optimizers.minimax import JointSolution, minimize_loss, minimize_max_error
from hexveil.planning.optimizers.user_factors import ClippingProblem, InverseScales
from hexveil.planning.plan_rows import PlanningProblem
from hexveil.planning.request import Request

FACTOR_RESOLUTION = 2.0**30
"""Factors are multiples of its inverse, so that a user's kept samples are exact numbers."""
SAFETY_MARGIN = 1.0 - 2.0**-30
"""The joint plan aims this much below the asked loss; fitting would otherwise add noise."""


MAX_DISTINCT_SCALES = 1_000
"""Scales that are drawn apart without much ado."""
SIGNIFICANT_BITS = 8
"""Binary digits that are kept of more: at most 128 scales between a scale and its double."""


def allocate_within_epsilon(problem: PlanningProblem, epsilon: Fraction) -> PlanAllocation:
    """Return the allocation of least error, largest or average, within a privacy loss."""
    exposure, request, loss = _clipping(problem), problem.request, float(epsilon) * SAFETY_MARGIN
    if request.objective == "mean":
        return _minimize_mean_error(exposure, problem, epsilon, loss)
    top, targets_at = _error_scale(request, problem.span, problem.occupancy)
    search = minimize_max_error(exposure, targets_at, loss, top)
    joint = _in_few_scales(exposure, search.solution, loss)
    return _spend_all(
        problem, epsilon, bounded_rows(problem.occupancy, joint, search.bound, "max error")
    )


def allocate_within_errors(
    problem: PlanningProblem, targets: Mapping[str, Floats]
) -> PlanAllocation:
    """Return the allocation of least privacy loss that meets the targets."""
    exposure = _clipping(problem)
    if problem.request.objective == "mean":

        def at(epsilon: Fraction) -> PlanAllocation:
            # The aim is below the loss that is tried: rounding the factors adds a little.
            at_epsilon = problem.within(epsilon)
            return _minimize_mean_error(
                exposure, at_epsilon, epsilon, float(epsilon) * SAFETY_MARGIN
            )

        return least_allocation(problem, targets, at)[1]
    requested, aim = (
        relative_targets(targets, problem.span, problem.occupancy, times)
        for times in (1.0, SAFETY_MARGIN)
    )
    search = minimize_loss(exposure, aim, requested)
    # Once the factors have few digits the noise is set anew, from what they keep.
    joint = _in_quanta(exposure, aim, search.solution.factor)
    # Targets allow less noise but no more: rounding down keeps them.
    return bounded_rows(problem.occupancy, joint, search.bound, "loss", np.floor)


def _clipping(problem: PlanningProblem) -> ClippingProblem:
    facts = problem.facts
    quanta = None if facts is None else span_in_quanta(problem.span, facts)
    return ClippingProblem(problem.occupancy, quanta)


def _minimize_mean_error(
    exposure: ClippingProblem, problem: PlanningProblem, epsilon: Fraction, loss: float
) -> PlanAllocation:
    weights = ObjectiveWeights.of(problem.request, problem.span, exposure.occupancy)
    joint = _in_few_scales(exposure, minimize_mean_error(exposure, weights, loss), loss)
    return _spend_all(problem, epsilon, bounded_rows(problem.occupancy, joint, None, "mean error"))


def _in_quanta(exposure: ClippingProblem, aim: Targets, factor: Floats) -> JointSolution:
    """Return the factors that a release can keep, raised where their rounding leaves no room."""
    # Rounded factors keep a little less; larger ones leave the targets room again.
    for raised in (0.0, 0.25, 0.5, 0.75, 1.0):
        rounded = _few_digits(factor + raised * (1.0 - factor))
        rates = aim.rates(exposure.clipped_share_in_quanta(rounded))
        if rates is not None:
            return JointSolution(rates, rounded)
    raise InputError("target_error leaves too little room for numbers of ordinary size.")


def _few_digits(factor: Floats) -> Floats:
    return np.asarray(np.floor(factor * FACTOR_RESOLUTION) / FACTOR_RESOLUTION, dtype=np.float64)


def _in_few_scales(exposure: ClippingProblem, joint: JointSolution, loss: float) -> JointSolution:
    """Return few noise scales for very many, and the factors that keep users within the loss."""
    total, rates = exposure.occupancy.records_per_cell, joint.rates
    live = rates.mean > 0
    noise = np.divide(total, rates.mean, out=np.zeros_like(rates.mean), where=live)
    quantized = quantize_noise_scales(noise)
    # The same object comes back where nothing was rounded.
    if quantized is noise:
        return joint
    mean = np.divide(total, quantized, out=np.zeros_like(quantized), where=live)
    allocation = InverseScales(mean, rates.variance)
    return JointSolution(allocation, exposure.largest_factors(allocation, loss))


def _spend_all(
    problem: PlanningProblem, epsilon: Fraction, allocation: PlanAllocation
) -> PlanAllocation:
    """Return the allocation calibrated to the loss, with less noise where it leaves room."""
    problem = problem.without_metadata()
    fit = calibrate_noise(problem, epsilon, allocation)
    loss = fit.most_booked(problem)
    # Less noise by the ratio of both losses makes no loss larger than asked: the part that is
    # charged for the lattice of a variance does not grow.
    quieter = fit.with_noise_scaled(float(loss / epsilon) * ROUNDING) if loss else fit
    return quieter if quieter.most_booked(problem) <= epsilon else fit


def quantize_noise_scales(noise: Floats, rounding: np.ufunc = np.rint) -> Floats:
    """Return noise of few different sizes: as it is, or rounded to eight binary digits.

    Parameters
    ----------
    noise : ndarray of float, shape (n,)
        Zero or above; zeros stay.
    rounding : np.rint, np.floor or np.ceil
        Whether it may become a little larger and smaller, smaller only, or larger only.

    Examples
    --------
    >>> np.unique(quantize_noise_scales(np.linspace(1.0, 2.0, 5000))).size
    129
    >>> quantize_noise_scales(np.array([0.0, 1.001]))
    array([0.   , 1.001])
    """
    if np.unique(noise).size <= MAX_DISTINCT_SCALES:
        return noise
    mantissa, power = np.frexp(noise)
    # Only the rounding itself rounds: the other steps move the binary point.
    return np.asarray(
        np.ldexp(rounding(np.ldexp(mantissa, SIGNIFICANT_BITS)), power - SIGNIFICANT_BITS),
        dtype=np.float64,
    )


def bounded_rows(
    occupancy: Occupancy,
    joint: JointSolution,
    bound: float | None = None,
    certifies: str | None = None,
    rounding: np.ufunc = np.rint,
) -> PlanAllocation:
    """Return rows within bounds from rates and factors; a cell without noise keeps nothing.

    Of very many scales of noise few are made: where targets must be met, by less noise.
    """
    rates, largest = joint.rates, occupancy.largest_count

    def scale(rate: Floats) -> Floats:
        live = rate > 0
        noise = np.divide(1.0, rate, out=np.zeros_like(rate), where=live)
        # Division rounds to nearest, and a scale must not be below 1 / rate.
        return np.where(live, np.nextafter(noise, np.inf), 0.0)

    return PlanAllocation(
        mechanism="factors",
        contribution_cap=np.where(rates.mean > 0, largest, 0),
        noise_scale_records=quantize_noise_scales(
            scale(rates.mean) * occupancy.records_per_cell, rounding
        ),
        variance_cap=np.where(rates.variance > 0, largest, 0),
        variance_noise=scale(rates.variance),
        contribution_factor=_few_digits(joint.factor),
        lower_bound=bound,
        bound_kind=certifies,
    )


def relative_targets(
    target: Mapping[str, Floats], span: Floats, occupancy: Occupancy, times: float
) -> Targets:
    """Return the request's targets for bounds of width 1, times a number near 1.

    Those that a constant meets stay as they are; any is met by the variance of one record.
    """
    targets_by_name = has_single_record(occupancy)
    if "sum" in target:
        square = np.where(targets_by_name, 0.0, span**2)
        largest = MAX_CONSTANT_ERROR["mean"] * span + MAX_CONSTANT_ERROR["variance"] * square
        return SumTarget(_aimed(target["sum"] / largest, times) * largest, span, square)
    none = np.full(span.size, np.inf)
    targets = {
        name: _aimed(target[name] / (unit * MAX_CONSTANT_ERROR[name]), times)
        * MAX_CONSTANT_ERROR[name]
        for name, unit in (("mean", span), ("variance", span**2))
        if name in target
    }
    return SeparateTargets(
        targets.get("mean", none), np.where(targets_by_name, np.inf, targets.get("variance", none))
    )


def _aimed(share: Floats, times: float) -> Floats:
    """Return targets, as shares of a constant's error, times a number where below it."""
    met = share >= 1.0 - 2.0**-48  # a constant's error, as rounded
    return np.where(met, np.maximum(share, 1.0), share * times)


def _error_scale(
    request: Request, span: Floats, occupancy: Occupancy
) -> tuple[float, Callable[[float], Targets]]:
    """Return the error of constants, and the targets for any one number up to it.

    The number is what `Plan.objective_errors` gives: an error in units, or a share of a constant's.
    """
    names, none = request.noised, np.full(span.size, np.inf)
    # A variance of one record is known, so that any target for it is met.
    square = np.where(has_single_record(occupancy), 0.0, span**2)
    if len(names) == 2 and request.error == "sum":
        largest = MAX_CONSTANT_ERROR["mean"] * span + MAX_CONSTANT_ERROR["variance"] * square
        return float(largest.max()), lambda e: SumTarget(np.full(span.size, e), span, square)
    varies = np.where(square > 0, 1.0, np.inf)  # any target is met by the variance of one record
    if len(names) == 2:
        flat = np.ones(span.size)
        return 1.0, lambda e: SeparateTargets(
            flat * e * MAX_CONSTANT_ERROR["mean"], varies * e * MAX_CONSTANT_ERROR["variance"]
        )
    if names == ("mean",):
        return float(span.max() * MAX_CONSTANT_ERROR["mean"]), lambda e: SeparateTargets(
            e / span, none
        )
    top = float(square.max() * MAX_CONSTANT_ERROR["variance"])
    return top, lambda e: SeparateTargets(
        none, np.divide(e, square, out=none.copy(), where=square > 0)
    )
