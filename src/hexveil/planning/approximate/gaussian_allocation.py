"""Rows of plans under (ε, δ): within bounds, in one private range, or of means in cells' ranges.

Within bounds also at the least ε, for a δ, at which target errors are met.

Losses are squares of μ here (accounting/moves.py), and fall with the square of the noise.
The range takes at most `MAX_RANGE_SQUARE` of them: a choice of small pure loss ε costs 1.57 ε², so
that the pure loss that a plan without δ gives it is often affordable.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from hexveil.accounting.error_model import has_single_record
from hexveil.accounting.noise_law import GAUSSIAN
from hexveil.accounting.promise import Squares, check_units, choices_worth, promised
from hexveil.base.errors import InputError
from hexveil.mechanisms.cell_ranges.first_range import HALF_WIDTH
from hexveil.mechanisms.cell_ranges.pooled_spread import distance_vote_ratio
from hexveil.planning.allocation import (
    PerCellRange,
    PlanAllocation,
    PrivateRange,
    full_factors,
)
from hexveil.planning.approximate.gaussian_targets import (
    AIM,
    least_rates,
    meet_average_targets,
    meet_each_target,
    rates_of_rows,
)
from hexveil.planning.calibration import least_allocation
from hexveil.planning.clipping_range import cell_ranges, private_range, variance_range
from hexveil.planning.clipping_range.cell_ranges import CellRangePlan
from hexveil.planning.clipping_range.fast_prediction import ITERATIONS, RangeCandidate
from hexveil.planning.clipping_range.private_range import PrivateClippingRange
from hexveil.planning.clipping_range.user_weights import find_user_weights, weight_distances
from hexveil.planning.guarantees.plan_losses import booked_per_user, shared_cost
from hexveil.planning.optimizers.joint import bounded_rows, relative_targets
from hexveil.planning.optimizers.mean_error import ObjectiveWeights, minimize_mean_error
from hexveil.planning.optimizers.minimax import JointSolution
from hexveil.planning.optimizers.pair_sums import fetch_sample
from hexveil.planning.optimizers.user_factors import GaussianClippingProblem, InverseScales
from hexveil.planning.request import WithinErrors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hexveil.base.arrays import Floats
    from hexveil.model.occupancy import Occupancy
    from hexveil.planning.clipping_range.user_weights import UserWeights
    from hexveil.planning.guarantees.planning_problem import PlanningProblem


MAX_RANGE_SQUARE = Fraction(1, 5)
"""Largest share of the square of μ for the choice of a range."""
MAX_SPREAD_SQUARE = Fraction(1, 20)
"""Largest share of it for the spread within cells."""
CELLS_EXPECTED = 0.85
"""Share of the square that is expected to be left to cells with ranges of their own."""
MARGIN = 1.0 + 2.0**-40
"""More than the rounding of a ratio of noise, and of the scales."""


def allocate_approximate(problem: PlanningProblem) -> PlanAllocation:
    """Return the allocation of least predicted average error under (ε, δ), or of least ε.

    Raises
    ------
    InputError
        If δ is not below one over the number of units, or nothing could be measured within so
        small an ε.
    """
    request, occupancy = problem.request, problem.occupancy
    check_units(request.delta, occupancy.n_users)
    if isinstance(request.limit, WithinErrors):
        return _within_errors(problem, request.limit.targets)
    assert request.epsilon is not None  # noqa: S101  see check_delta_request
    square = promised(request.epsilon, request.delta).amount
    match request.resolve_range(problem.occupancy, request.epsilon):
        case "bounds":
            return _within_bounds(problem, square)
        case "private":
            return _in_range(problem, square)
        case "per-cell":
            return _in_cell_ranges(problem, square)


def _within_bounds(problem: PlanningProblem, square: Fraction) -> PlanAllocation:
    occupancy = problem.occupancy
    weights = ObjectiveWeights.of(problem.request, problem.span, occupancy)
    solution = minimize_mean_error(GaussianClippingProblem(occupancy), weights, float(square))
    return _calibrated(problem, square, bounded_rows(occupancy, solution))


def _within_errors(problem: PlanningProblem, targets: Mapping[str, Floats]) -> PlanAllocation:
    """Return the allocation within bounds of the least ε at which the targets are met.

    Each cell its own; with objective "mean" all of them on average.
    """
    if problem.occupancy.is_local:
        return _least_allocation(problem, targets, 1.0)[1]
    local, cells, part = fetch_sample(problem.occupancy)
    some = replace(problem, occupancy=local, span=problem.span[cells])
    own = {name: target[cells] for name, target in targets.items()}
    near, rows = _least_allocation(some, own, part)
    if part == 1.0:
        return rows
    if problem.request.objective == "mean":
        return meet_average_targets(problem, targets, near, _within_bounds)
    return meet_each_target(problem, targets, near, rates_of_rows(local, rows), cells)


def _least_allocation(
    problem: PlanningProblem, targets: Mapping[str, Floats], part: float
) -> tuple[Fraction, PlanAllocation]:
    """Return the least ε at which these users meet the targets as a part of all, and the rows."""
    occupancy, request = problem.occupancy, problem.request
    aim = relative_targets(targets, problem.span, occupancy, AIM)
    nothing, everybody = np.zeros(occupancy.n_cells), np.ones(occupancy.n_users)
    silent = JointSolution(InverseScales(nothing, nothing), everybody)
    constants = bounded_rows(occupancy, silent)

    def at(epsilon: Fraction) -> PlanAllocation:
        try:
            square = promised(epsilon, request.delta).amount / Fraction(part) ** 2
        except InputError:  # so small an ε leaves nothing to measure with
            return constants
        if request.objective == "mean":
            return _within_bounds(problem, square)
        found = least_rates(occupancy, aim, float(square))
        if found is None:
            return constants
        return _calibrated(problem, square, bounded_rows(occupancy, found))

    return least_allocation(problem, targets, at)


def _calibrated(
    problem: PlanningProblem, square: Fraction, allocation: PlanAllocation
) -> PlanAllocation:
    """Return the allocation with noise at which the most exposed unit spends the square."""
    shared = shared_cost(allocation, problem.request.delta)
    room, fitted = float(square) - shared, allocation
    largest = float(booked_per_user(problem, fitted).max(initial=0.0))
    if not largest > shared:  # constants alone
        return allocation
    fitted = fitted.with_noise_scaled(math.sqrt((largest - shared) / room) * MARGIN)
    # Rounded contributions and steps of the lattice keep the ratio from holding exactly. Each time
    # the noise grows by what is still missing.
    while (largest := float(booked_per_user(problem, fitted).max())) > square:
        fitted = fitted.with_noise_scaled(math.sqrt((largest - shared) / room) * MARGIN)
    return fitted


# ---- in one private range ----


@dataclass(frozen=True)
class _RangeBudget:
    """The pure loss of a range's choices, and the square of μ left to the cells."""

    epsilon: Fraction
    cells: float


def _budget(problem: PlanningProblem, square: Fraction, quantile: Fraction) -> _RangeBudget:
    """Return the loss of choosing a range with this outer quantile."""
    request, n_users = problem.request, problem.occupancy.n_users
    whole = Squares(square, request.delta)
    assert request.epsilon is not None  # noqa: S101  see check_delta_request
    if request.range_share is None:
        share = private_range.range_epsilon_share(quantile, n_users, request.epsilon)
        epsilon = min(request.epsilon * share, whole.part(MAX_RANGE_SQUARE).choices())
    else:
        epsilon = whole.part(request.range_share).choices()
    return _RangeBudget(epsilon, float(square) - float(choices_worth(epsilon, whole.delta).amount))


def _in_range(problem: PlanningProblem, square: Fraction) -> PlanAllocation:
    """Return the plan in the range of least predicted error."""
    occupancy, noised = problem.occupancy, problem.request.noised
    # The variance of one record is known: a map of such cells needs neither range nor noise.
    if noised == ("variance",) and has_single_record(occupancy).all():
        return _within_bounds(problem, square)
    sure = [
        quantile
        for quantile in private_range.QUANTILES
        if quantile * occupancy.n_users * _budget(problem, square, quantile).epsilon
        >= private_range.MIN_RANK_PRECISION
    ]
    outer = (sure or list(private_range.QUANTILES[-1:]))[-1]
    candidates = [RangeCandidate(q, Fraction(1)) for q in sure[:-1]]
    candidates += [RangeCandidate(outer, widening) for widening in private_range.WIDENINGS]
    if "variance" in noised:
        return _with_variances(problem, square, candidates)
    largest = _budget(problem, square, outer).cells
    rough = _weights(occupancy, candidates[-1], largest, ITERATIONS)
    best = min(
        candidates,
        key=lambda candidate: _predicted(problem, square, rough, candidates[-1], candidate),
    )
    budget = _budget(problem, square, best.quantile)
    weights = _weights(occupancy, best, budget.cells, None, rough.rates)
    clipping = PrivateRange(_interval(best, budget, weights))
    return _calibrated(problem, square, _weighted_rows(occupancy, weights.noise, clipping))


def _with_variances(
    problem: PlanningProblem, square: Fraction, ranges: list[RangeCandidate]
) -> PlanAllocation:
    """Return the plan of variances, or of both, in the range of least predicted error."""
    occupancy, request = problem.occupancy, problem.request

    def weighed(
        of: Occupancy, one: RangeCandidate, part: float = 1.0
    ) -> tuple[PrivateClippingRange, Floats]:
        budget = _budget(problem, square, one.quantile)
        # Weights are those of means with a part of the square; noise, of one statistic with all.
        weights = _weights(of, one, budget.cells / part**2 * variance_range.MEAN_PART, None)
        noise = weights.noise * math.sqrt(variance_range.MEAN_PART)
        return _interval(one, budget, weights), noise

    # Of pairs that stay elsewhere a part of the users decides at M / part², where it has about the
    # noise that all have at M; weights are then found for all.
    local, part = occupancy, 1.0
    if not occupancy.is_local:
        local, _, part = fetch_sample(occupancy)
    found = [weighed(local, one, part) for one in ranges]
    best = variance_range.least_predicted(local.local(), request, found)
    noises, interval = (best.mean, best.variance), best.interval
    if not occupancy.is_local:
        (chosen,) = (
            one
            for one in ranges
            if (one.quantile, one.widening) == (interval.quantiles[0], interval.widening)
        )
        whole, noise = weighed(occupancy, chosen)
        interval = replace(whole, radius=interval.radius)
        known = has_single_record(occupancy)
        noises = variance_range.split_noise(noise, best.split, known, request.law)
    rows = _weighted_rows(occupancy, noises[0], PrivateRange(interval), noises[1])
    return _calibrated(problem, square, rows)


def _interval(
    candidate: RangeCandidate, budget: _RangeBudget, weights: UserWeights
) -> PrivateClippingRange:
    return PrivateClippingRange(
        budget.epsilon,
        (candidate.quantile, 1 - candidate.quantile),
        candidate.widening,
        candidate.width,
        private_range.expected_clipping_error(candidate.half_width_sd),
        weights.weight,
    )


def _weighted_rows(
    occupancy: Occupancy,
    noise: Floats,
    clipping: PrivateRange | PerCellRange,
    variance_noise: Floats | None = None,
) -> PlanAllocation:
    """Return rows with this noise of means for a range of width 1, of squares for a radius of 1."""
    largest = occupancy.largest_count
    squares = np.zeros(occupancy.n_cells) if variance_noise is None else variance_noise
    return PlanAllocation(
        mechanism="weights",
        contribution_cap=largest,
        noise_scale_records=noise * occupancy.records_per_cell,
        variance_cap=np.where(squares > 0, largest, 0),
        variance_noise=squares,
        contribution_factor=full_factors(occupancy),
        clipping=clipping,
    )


# ---- ranges of single cells ----


def _in_cell_ranges(problem: PlanningProblem, square: Fraction) -> PlanAllocation:
    """Return the plan with a range per cell."""
    request, occupancy = problem.request, problem.occupancy
    assert request.epsilon is not None  # noqa: S101  see check_delta_request
    prior = private_range.user_mean_prior(HALF_WIDTH)
    optimum = find_user_weights(occupancy, CELLS_EXPECTED * float(square), prior, law=GAUSSIAN)
    weight = optimum.weight
    votes = cell_ranges.total_votes(weight)
    inside = request.epsilon * cell_ranges.spread_share(
        distance_vote_ratio(weight), request.epsilon
    )
    # No more than a part of the square: a pure loss that is too small for it finds ranges by luck.
    inside = min(inside, Squares(square, request.delta).part(MAX_SPREAD_SQUARE).choices(1))
    if request.range_share is None:
        # As precise as in a pure plan of this epsilon: Gaussian noise of deviation √2/μ.
        wanted = request.epsilon * cell_ranges.histogram_share(votes, request.epsilon)
        pooled = min(wanted**2 / 4, square * MAX_RANGE_SQUARE)
    else:
        pooled = square * request.range_share
    ranged = CellRangePlan(pooled, inside, cell_ranges.FIRST_SHARE, weight)
    remaining = float(square - PerCellRange(ranged).shared(request.delta).amount)
    noise = optimum.noise * math.sqrt(CELLS_EXPECTED * float(square) / remaining)
    allocation = _weighted_rows(occupancy, noise, PerCellRange(ranged))
    return _calibrated(problem, square, allocation)


def _weights(
    occupancy: Occupancy,
    candidate: RangeCandidate,
    square: float,
    iterations: int | None,
    begin: Floats | None = None,
) -> UserWeights:
    prior = private_range.user_mean_prior(candidate.half_width_sd)
    limit = {} if iterations is None else {"iterations": iterations}
    return find_user_weights(occupancy, square, prior, begin=begin, law=GAUSSIAN, **limit)


def _predicted(
    problem: PlanningProblem,
    square: Fraction,
    weights: UserWeights,
    weighed: RangeCandidate,
    one: RangeCandidate,
) -> float:
    """Return the predicted average error under a candidate, by the weights of another one."""
    cells = (_budget(problem, square, compared.quantile).cells for compared in (weighed, one))
    times = math.sqrt(next(cells) / next(cells))
    length, distance = weight_distances(weights.weight)
    prior = private_range.user_mean_prior(one.half_width_sd)
    bias = GAUSSIAN.mean_absolute * prior.within_cell_sd * length
    bias += prior.weight_confounding * distance / 2.0
    noise = GAUSSIAN.mean_absolute * weights.noise * times
    return float((one.width * noise + np.hypot(one.width * bias, one.clipping_error)).mean())
