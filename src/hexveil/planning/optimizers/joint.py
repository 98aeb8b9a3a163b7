"""The joint plan of a request: from a planning problem to an allocation, by the right optimizer.

What the optimizers decide are real numbers; here they become those of a release: few noise scales,
factors of few digits, and noise calibrated to the loss that the rows really have.

A release of many cells draws its noise in groups of equal scale: a draw of a scale of its own costs
the noise library about fifteen times one of many of a scale. So where a plan would have very many
scales its noise is rounded to eight binary digits, before factors and noise are fitted to the loss
that was asked: what the plan states, what is booked and what is drawn are then one number. A noise
moves by at most a 256th of itself where it is rounded to the nearest, by less than a 128th where it
is rounded to one side. Times one factor they are as few as before.

One code serves both promises: under (ε, δ) losses are squares of μ, which fall with the square of
the noise (accounting/moves.py).
"""

from collections.abc import Mapping
from fractions import Fraction
from functools import partial

import numpy as np

from hexveil.accounting.error_model import MAX_CONSTANT_ERROR, has_single_record, span_in_quanta
from hexveil.accounting.gaussian_composition import square_epsilon
from hexveil.accounting.promise import Promise, promised
from hexveil.base.arrays import Floats
from hexveil.base.errors import InputError
from hexveil.mechanisms.looks.bounds import WithinBounds
from hexveil.model.occupancy import Occupancy
from hexveil.planning.allocation import PlanAllocation, PlanningProblem, full_factors
from hexveil.planning.optimizers.calibration import (
    LARGEST_EPSILON,
    fit_noise,
    least_allocation,
    rates_within,
)
from hexveil.planning.optimizers.mean_error import minimize_mean_error, objective_weights
from hexveil.planning.optimizers.user_factors import (
    ClippingProblem,
    JointSolution,
    RatesAt,
    SearchResult,
    minimize_loss,
    minimize_max_error,
)

FACTOR_RESOLUTION = 2.0**30
"""Factors are multiples of its inverse, so that a user's kept samples are exact numbers."""
SAFETY_MARGIN = 1.0 - 2.0**-30
"""The joint plan aims this much below the asked loss; fitting would otherwise add noise."""
MAX_DISTINCT_SCALES = 1_000
"""Scales that are drawn apart without much ado."""
SIGNIFICANT_BITS = 8
"""Binary digits that are kept of more: at most 128 scales between a scale and its double."""


def allocate_within(problem: PlanningProblem, promise: Promise) -> PlanAllocation:
    """Return the allocation of least error, largest or average, within a promise."""
    exposure, loss = _clipping(problem), float(promise.amount) * SAFETY_MARGIN
    bound = None
    if problem.request.objective == "mean":
        weights = objective_weights(problem.request, problem.span, problem.occupancy)
        solution = minimize_mean_error(exposure, weights, loss)
    else:
        result = _minimize_max_error(exposure, problem, loss)
        solution, bound = result.solution, result.bound
    certifies = None if promise.delta else f"{problem.request.objective} error"
    solution = in_few_scales(exposure, solution, loss)
    rows = bounded_rows(problem.occupancy, solution, bound, certifies)
    # A loss in ε that holds for fractions of quanta holds for whole ones, so that such a plan does
    # not depend on the lattice.
    return fit_noise(problem if promise.delta else problem.without_metadata(), promise, rows)


def _minimize_max_error(
    exposure: ClippingProblem, problem: PlanningProblem, loss: float
) -> SearchResult:
    """Minimize the largest of `Plan.objective_errors`: in units, or as a share of a constant's."""
    noised, occupancy = problem.request.noised, problem.occupancy
    one = np.ones(problem.span.size)
    unit = _constant_errors(problem) if len(noised) == 1 else dict.fromkeys(noised, one)
    largest = 0.0
    for name in noised:
        # The variance of one record is known.
        varies = True if name == "mean" else ~has_single_record(occupancy)
        largest = max(largest, float(np.max(unit[name] * varies)))

    def targets_at(error: float) -> RatesAt:
        shares = {name: error / unit[name] for name in noised}
        return rates_within(shares, occupancy, exposure.law)

    return minimize_max_error(exposure, targets_at, loss, largest)


def _constant_errors(problem: PlanningProblem) -> dict[str, Floats]:
    """Return the error of constants in each cell, by statistic."""
    spans = {"mean": problem.span, "variance": problem.span**2}
    return {name: spans[name] * MAX_CONSTANT_ERROR[name] for name in problem.request.noised}


def allocate_within_errors(
    problem: PlanningProblem, targets: Mapping[str, Floats]
) -> PlanAllocation:
    """Return the allocation of the least ε that meets the targets.

    Each cell its own; with objective "mean" all of them on average.
    """
    if problem.request.delta and not problem.occupancy.is_local:
        raise InputError(
            "target_error with a delta needs all pairs in one machine's memory: its search takes "
            "hundreds of sums over them; name epsilon, or leave delta out."
        )
    exposure, delta = _clipping(problem), problem.request.delta
    if problem.request.objective == "mean":
        return least_allocation(problem, targets, partial(_within, problem))[1]
    asked, aim = (_aim(problem, targets, times) for times in (1.0, SAFETY_MARGIN))
    search = minimize_loss(exposure, aim, asked)
    # Once the factors have few digits the noise is set anew, from what they keep.
    joint = in_quanta(exposure, aim, search.solution.factor)
    bound, kind = (None, None) if delta else (search.bound, "loss")
    # Targets allow less noise but no more: rounding down keeps them.
    rows = bounded_rows(problem.occupancy, joint, bound, kind, np.floor)
    if delta and square_epsilon(rows.most_booked(problem), delta) > LARGEST_EPSILON:
        raise InputError(
            "no noise of a loss that can be told meets target_error in every cell; ask for a "
            'larger error, or for objective "mean".'
        )
    return rows


def _within(problem: PlanningProblem, epsilon: Fraction) -> PlanAllocation:
    """Return the allocation of least error within an ε; constants where it is too small."""
    try:
        promise = promised(epsilon, problem.request.delta)
    except InputError:  # so small an ε leaves nothing to measure with
        occupancy = problem.occupancy
        rates = np.zeros((2, occupancy.n_cells))
        return bounded_rows(occupancy, JointSolution(rates, full_factors(occupancy)))
    return allocate_within(problem.within(epsilon), promise)


def _aim(problem: PlanningProblem, targets: Mapping[str, Floats], times: float) -> RatesAt:
    """Return the rates that meet the targets, times a number near 1."""
    constant = _constant_errors(problem)
    shares = {name: target / constant[name] for name, target in targets.items()}
    return rates_within(shares, problem.occupancy, problem.request.law, times)


def _clipping(problem: PlanningProblem) -> ClippingProblem:
    facts = problem.facts
    quanta = None if facts is None else span_in_quanta(problem.span, facts)
    return ClippingProblem(problem.occupancy, quanta, problem.request.law)


def in_quanta(exposure: ClippingProblem, aim: RatesAt, factor: Floats) -> JointSolution:
    """Return the factors that a release can keep, raised where their rounding leaves no room."""
    # Rounded factors keep a little less; larger ones leave the targets room again.
    for raised in (0.0, 0.25, 0.5, 0.75, 1.0):
        rounded = _few_digits(factor + raised * (1.0 - factor))
        rates = aim(exposure.clipped_share_in_quanta(rounded))
        if rates is not None:
            return JointSolution(rates, rounded)
    raise InputError("target_error leaves too little room for numbers of ordinary size.")


def _few_digits(factor: Floats) -> Floats:
    return np.asarray(np.floor(factor * FACTOR_RESOLUTION) / FACTOR_RESOLUTION, dtype=np.float64)


def in_few_scales(exposure: ClippingProblem, joint: JointSolution, loss: float) -> JointSolution:
    """Return few noise scales for very many, and the factors that keep users within the loss."""
    total, (rate, variance) = exposure.occupancy.records_per_cell, joint.rates
    live = rate > 0
    noise = np.divide(total, rate, out=np.zeros_like(rate), where=live)
    quantized = quantize_noise_scales(noise)
    # The same object comes back where nothing was rounded.
    if quantized is noise:
        return joint
    mean = np.divide(total, quantized, out=np.zeros_like(quantized), where=live)
    rates = np.stack((mean, variance))
    return JointSolution(rates, exposure.largest_factors(rates, loss))


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
    (mean, variance), largest = joint.rates, occupancy.largest_count

    def scale(rate: Floats) -> Floats:
        live = rate > 0
        noise = np.divide(1.0, rate, out=np.zeros_like(rate), where=live)
        # Division rounds to nearest, and a scale must not be below 1 / rate.
        return np.where(live, np.nextafter(noise, np.inf), 0.0)

    return PlanAllocation(
        mechanism="factors",
        contribution_cap=np.where(mean > 0, largest, 0),
        noise_scale_records=quantize_noise_scales(
            scale(mean) * occupancy.records_per_cell, rounding
        ),
        variance_cap=np.where(variance > 0, largest, 0),
        variance_noise=scale(variance),
        contribution_factor=_few_digits(joint.factor),
        clipping=WithinBounds(),
        lower_bound=bound,
        bound_kind=certifies,
    )
