"""Means and variances planned by the method of their request: from public facts to a component.

Every method ends by calibrating its noise: the loss of the allocation is computed as the plan
states it, and where it is above the request, all noise is scaled up by that ratio.
"""

import math
from fractions import Fraction

import numpy as np

from hexveil.accounting.clip_user import clip_user, initial_errors
from hexveil.accounting.error_model import has_single_record
from hexveil.accounting.promise import Promise, Pure, check_units, promised
from hexveil.base.arrays import Floats
from hexveil.base.blas_threads import single_blas_thread
from hexveil.base.errors import InputError
from hexveil.base.rational import to_bounds
from hexveil.base.work_share import SEARCH, parts_of_work
from hexveil.mechanisms import ThresholdMechanism
from hexveil.mechanisms.looks.cell_ranges import allocate_cell_ranges
from hexveil.mechanisms.looks.range_search import allocate_with_range
from hexveil.mechanisms.looks.remembered_ranges import allocate_remembered
from hexveil.model.occupancy import Occupancy
from hexveil.model.pair_columns import SuppressedPairs
from hexveil.model.public_metadata import PublicMetadata
from hexveil.planning.allocation import PlanAllocation, PlanningProblem
from hexveil.planning.feasibility.utility_test import default_baseline_error
from hexveil.planning.moment_component import MomentComponent
from hexveil.planning.optimizers import cell_mechanisms, joint
from hexveil.planning.optimizers.calibration import fit_noise, least_allocation
from hexveil.planning.optimizers.per_cell import (
    ROUNDING_MARGIN,
    allocate_independently,
    largest_cell_epsilon,
)
from hexveil.planning.plan_arguments import PlanArguments

HALVINGS = 40
SUPPRESSION_ROUNDS = 4
"""Suppressions that are compared, each at the cell loss to which the one before it led."""


def plan_moments(source: Occupancy | PublicMetadata, options: PlanArguments) -> MomentComponent:
    """Return a plan of means and variances for all cells together; see `hexveil.plan`.

    Raises
    ------
    InputError
        On a bad option, named.
    """
    facts = source if isinstance(source, PublicMetadata) else None
    occupancy = source if facts is None else facts.occupancy
    if not isinstance(occupancy, Occupancy):
        raise InputError(
            f"a plan is made for a data set or an occupancy, got {type(source).__name__}."
        )
    if not occupancy.n_cells:
        raise InputError("there is no cell to plan.")
    lower, upper = _bounds_of_cells(options.bounds, facts, occupancy)
    # Checked before planning: a bad argument must not cost minutes first.
    ends, declared = (float(lower.min()), float(upper.max())), options.baseline_error
    miss = default_baseline_error(*ends, declared)  # type: ignore[arg-type]
    request = options.request(upper - lower)
    problem = PlanningProblem(occupancy, upper - lower, request, facts)
    if options.history is not None:
        problem = problem.with_forecast(options.history)
    allocation = allocate(problem)
    return MomentComponent(occupancy, lower, upper, allocation, problem.request, miss, facts)


def _bounds_of_cells(
    bounds: object, facts: PublicMetadata | None, occupancy: Occupancy
) -> tuple[Floats, Floats]:
    """Return lower and upper bound of each cell."""
    if bounds is None and facts is None:
        raise InputError("bounds are needed to plan a bare occupancy, like bounds=(0, 65).")
    if bounds is None and facts is not None:
        bounds = facts.lattice.lower, facts.lattice.upper
    ends = low, high = to_bounds(bounds)
    if facts is not None:
        facts.lattice.to_quanta(low, "lower bound")
        facts.lattice.to_quanta(high, "upper bound")
    lower, upper = (np.full(occupancy.n_cells, float(end)) for end in ends)
    return lower, upper


@single_blas_thread()
def allocate(problem: PlanningProblem) -> PlanAllocation:
    """Return the allocation that the request's method decides.

    Raises
    ------
    InputError
        If the method cannot do what is asked, or the loss is too small for any plan.
    """
    request, occupancy = problem.request, problem.occupancy
    check_units(request.delta, occupancy.n_users)
    if (epsilon := request.epsilon) is not None:
        kind = "remembered" if problem.forecast else request.resolve_range(occupancy, epsilon)
        return _BY_RANGE[kind](problem, promised(epsilon, request.delta))
    targets = request.target or {}
    if request.method == "joint":
        return joint.allocate_within_errors(problem, targets)
    bare = problem.without_metadata()
    return least_allocation(bare, targets, lambda epsilon: allocate(bare.within(epsilon)))[1]


def _within_bounds(problem: PlanningProblem, promise: Promise) -> PlanAllocation:
    method = problem.request.method
    if method == "joint":
        return joint.allocate_within(problem, promise)
    return _METHODS[method](problem, promise.epsilon)


def _private_range(problem: PlanningProblem, promise: Promise) -> PlanAllocation:
    # The variance of one record is known: a map of such cells needs neither range nor noise.
    existing = has_single_record(problem.occupancy).all()
    if problem.request.noised == ("variance",) and existing:
        return _within_bounds(problem, promise)
    return allocate_with_range(problem, promise)


def _per_cell(problem: PlanningProblem, epsilon: Fraction) -> PlanAllocation:
    """Return every cell planned alone at the largest common loss that fits."""
    occupancy, request = problem.occupancy, problem.request
    if not isinstance(request.mechanism, ThresholdMechanism):
        return cell_mechanisms.allocate_per_cell(problem, epsilon)
    if request.noised == ("mean",):
        low = largest_cell_epsilon(occupancy, epsilon, request.mechanism)
        return _within(problem, epsilon, low)
    low, high = epsilon / occupancy.n_cells / 4, epsilon * 4
    for _ in parts_of_work(SEARCH, range(HALVINGS)):
        middle = Fraction(math.sqrt(low * high))
        allocation = allocate_independently(occupancy, problem.span, request, middle)
        fits = allocation.most_booked(problem.without_metadata()) <= epsilon
        low, high = (middle, high) if fits else (low, middle)
    return _within(problem, epsilon, low)


def _within(problem: PlanningProblem, epsilon: Fraction, cell_loss: Fraction) -> PlanAllocation:
    """Return cells at a loss each, with more noise if the most exposed user loses more than ε."""
    bare = problem.without_metadata()
    allocation = allocate_independently(bare.occupancy, bare.span, bare.request, cell_loss)
    is_within = allocation.most_booked(bare) <= epsilon
    return allocation if is_within else fit_noise(bare, Pure(epsilon), allocation)


def _equal_split(problem: PlanningProblem, epsilon: Fraction) -> PlanAllocation:
    """Return every cell planned alone at ε / (most cells of a user) (COMP Theorem II.3)."""
    cell_loss = epsilon / int(problem.occupancy.cells_per_user.max())
    if not isinstance(problem.request.mechanism, ThresholdMechanism):
        return cell_mechanisms.allocate_at(problem, cell_loss)
    return _within(problem, epsilon, cell_loss * ROUNDING_MARGIN)


def _clip_user(problem: PlanningProblem, epsilon: Fraction) -> PlanAllocation:
    """Return the best plan of CLIP-USER's suppressions, each with all of ε spent.

    A suppression is made for one loss per cell. As a user is suppressed or not, the loss that it
    leaves over all cells jumps, up or down, so that no loss per cell needs to lead to ε: noise
    makes up what is missing or left. Suppressing nobody is a candidate, too.
    """
    occupancy, span, request = problem.occupancy, problem.span, problem.request
    cell_loss, width = epsilon, float(span[0])
    nobody = SuppressedPairs.nothing(occupancy)
    allocations = [allocate_independently(occupancy, span, request, cell_loss, nobody)]
    for _ in parts_of_work(SEARCH, range(SUPPRESSION_ROUNDS)):
        targets = _initial_errors(problem, cell_loss)
        if targets == (math.inf, math.inf):  # only variances of one record
            return allocate_independently(occupancy, span, request, cell_loss)
        gone = clip_user(occupancy, width, cell_loss, error="separate", bound=targets).suppressed
        allocation = allocate_independently(occupancy, span, request, cell_loss, gone)
        allocations.append(allocation)
        # The ratio of exact loss to cell loss is that of the suppression at hand.
        cell_loss = cell_loss * epsilon / allocation.most_booked(problem.without_metadata())

    def max_error(allocation: PlanAllocation) -> float:
        models = allocation.error_models(problem.without_metadata())
        return float(problem.objective_errors(models).max())

    bare, promise = problem.without_metadata(), Pure(epsilon)
    candidates = [fit_noise(bare, promise, allocation) for allocation in allocations]
    return min(candidates, key=max_error)


def _initial_errors(problem: PlanningProblem, cell_loss: Fraction) -> tuple[float, float]:
    """Return CLIP-USER's targets: the largest first error of each requested statistic."""
    start = initial_errors(problem.occupancy, float(problem.span[0]), cell_loss)
    names = problem.request.noised
    return (
        start[0] if "mean" in names else math.inf,
        start[1] if "variance" in names and start[1] else math.inf,
    )


_BY_RANGE = {
    "bounds": _within_bounds,
    "private": _private_range,
    "per-cell": allocate_cell_ranges,
    "remembered": allocate_remembered,
}
_METHODS = {"per-cell": _per_cell, "equal-split": _equal_split, "clip-user": _clip_user}
METHODS = ("joint", *_METHODS)
"""How cells are planned together, by the name a caller writes."""
