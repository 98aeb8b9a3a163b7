"""The methods by name: from an occupancy, spans and a request to the rows of a plan.

Every method ends by fitting its noise: the loss of the rows is computed as the plan states it, and
where it is above what was asked, all noise is made louder by that ratio.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from hexveil.accounting.error_model import MAX_CONSTANT_ERROR, has_single_record, span_in_quanta
from hexveil.accounting.privacy_loss import VARIANCE_LATTICE
from hexveil.base.errors import InputError
from hexveil.planning.allocation import PlanAllocation
from hexveil.planning.clipping_range import private_range, range_allocations
from hexveil.planning.guarantees import (
    PlanningProblem,
    error_models,
    max_user_loss,
    objective_errors,
)
from hexveil.planning.optimizers import per_cell
from hexveil.planning.optimizers.distributed_mean_error import minimize_mean_error_distributed
from hexveil.planning.optimizers.independent_mean_variance import allocate_independently
from hexveil.planning.optimizers.mean_error import ObjectiveWeights, minimize_mean_error
from hexveil.planning.optimizers.minimax import JointSolution, minimize_loss, minimize_max_error
from hexveil.planning.optimizers.noise_quantization import quantize_noise_scales
from hexveil.planning.optimizers.user_factors import (
    ClippingProblem,
    DistributedClippingProblem,
    InverseScales,
    clipping_problem,
)
from hexveil.planning.target_errors import SeparateTargets, SumTarget, Targets
from hexveil.theory import clip_user

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from hexveil.model.occupancy import Occupancy
    from hexveil.model.public_metadata import PublicMetadata
    from hexveil.planning.request import ErrorKind, Request

    Floats = NDArray[np.float64]

FACTOR_RESOLUTION = 2.0**30
"""Factors are multiples of 1 / GRAIN, so that a user's kept samples are exact numbers."""
SAFETY_MARGIN = 1.0 - 2.0**-30
"""The joint plan aims this much below the asked loss; fitting would otherwise add noise."""
HALVINGS = 40


def allocate(
    occupancy: Occupancy, span: Floats, request: Request, facts: PublicMetadata | None = None
) -> PlanAllocation:
    """Return the rows that the request's method decides.

    Parameters
    ----------
    occupancy : Occupancy
    span : ndarray of float, shape (n_cells,)
    request : Request
    facts : PublicMetadata, optional
        Where there are records: a reduced user keeps whole quanta, which targets must allow for.

    Raises
    ------
    InputError
        If the method cannot do what is asked, or the loss is too small for any plan.
    """
    allocators = request.noised == ("variance",) and has_single_record(occupancy).all()
    if request.clipping_range == "private" and not allocators:
        return range_allocations.allocate_with_range(occupancy.local(), request)
    if request.clipping_range == "two-stage":
        return range_allocations.allocate_two_stage(occupancy.local(), request)
    if request.clipping_range == "auto":
        return _better(occupancy, span, request, facts)
    if request.epsilon is None and request.method != "joint":
        return _least_loss_apart(occupancy, span, request)
    if request.method == "joint":
        return _joint(occupancy, span, request, facts)
    return _METHODS[request.method](occupancy, span, request)


def _joint(
    occupancy: Occupancy, span: Floats, request: Request, facts: PublicMetadata | None = None
) -> PlanAllocation:
    exposure = clipping_problem(occupancy, None if facts is None else span_in_quanta(span, facts))
    if request.epsilon is None:
        if request.objective == "mean":
            return _least_loss_on_average(exposure, span, request, facts)
        return _least_loss(exposure, span, request)
    loss = float(request.epsilon) * SAFETY_MARGIN
    if request.objective == "mean":
        return _average(exposure, span, request, loss)
    top, targets_at = _error_scale(request, span, occupancy)
    allocation = minimize_max_error(exposure, targets_at, loss, top)
    joint = _in_few_scales(exposure, allocation.solution, loss)
    return _used_up(exposure, span, request, _rows(exposure, joint, allocation.bound, "max error"))


def _better(
    occupancy: Occupancy, span: Floats, request: Request, facts: PublicMetadata | None
) -> PlanAllocation:
    """Return the rows of least predicted error; an interval only where it would be found."""
    requested = request.epsilon
    assert requested is not None  # noqa: S101  see api
    candidates = [allocate(occupancy, span, replace(request, clipping_range="bounds"), facts)]
    if not occupancy.is_local:  # weights of pairs need the pairs at hand
        return candidates[0]
    if private_range.range_is_affordable(occupancy.n_users, requested):
        local = occupancy.local()
        candidates.append(range_allocations.allocate_with_range(local, request))
        if range_allocations.supports_two_stages(local, request):
            candidates.append(range_allocations.allocate_two_stage(local, request))

    def error(rows: PlanAllocation) -> float:
        return float(_objective_errors(PlanningProblem(occupancy, span, request), rows).mean())

    return min(candidates, key=error)


def _least_loss(exposure: ClippingProblem, span: Floats, request: Request) -> PlanAllocation:
    """Return the plan of least loss that meets the targets in every cell.

    It aims a little below the targets; once the factors are numbers of few digits the noise is set
    anew, from what they keep.
    """
    requested, aim = (
        _targets(request, span, exposure.occupancy, times) for times in (1.0, SAFETY_MARGIN)
    )
    allocation = minimize_loss(exposure, aim, requested)
    return _rows(
        exposure, _in_quanta(exposure, aim, allocation.solution.factor), allocation.bound, "loss"
    )


def _in_quanta(exposure: ClippingProblem, aim: Targets, factor: Floats) -> JointSolution:
    """Return the factors that a release can keep, raised where their rounding leaves no room."""
    for raised in (0.0, 0.25, 0.5, 0.75, 1.0):
        rounded = _few_digits(factor + raised * (1.0 - factor))
        rates = aim.rates(exposure.clipped_share_in_quanta(rounded))
        if rates is not None:
            return JointSolution(rates, rounded)
    raise InputError("target_error leaves too little room for numbers of ordinary size.")


def _few_digits(factor: Floats) -> Floats:
    return np.asarray(np.floor(factor * FACTOR_RESOLUTION) / FACTOR_RESOLUTION, dtype=np.float64)


def _average(
    exposure: ClippingProblem, span: Floats, request: Request, loss: float
) -> PlanAllocation:
    allocation = (
        minimize_mean_error_distributed
        if isinstance(exposure, DistributedClippingProblem)
        else minimize_mean_error
    )
    weights = ObjectiveWeights.of(request, span, exposure.occupancy)
    joint = _in_few_scales(exposure, allocation(exposure, weights, loss), loss)
    return _used_up(exposure, span, request, _rows(exposure, joint, None, "mean error"))


def _in_few_scales(exposure: ClippingProblem, joint: JointSolution, loss: float) -> JointSolution:
    """Return few noise scales for very many, and the factors that keep users within the loss."""
    total, rates = exposure.occupancy.records_per_cell, joint.rates
    live = rates.mean > 0
    noise = np.divide(total, rates.mean, out=np.zeros_like(rates.mean), where=live)
    quantized = quantize_noise_scales(noise)
    if quantized is noise:
        return joint
    mean = np.divide(total, quantized, out=np.zeros_like(quantized), where=live)
    allocation = InverseScales(mean, rates.variance)
    return JointSolution(allocation, exposure.largest_factors(allocation, loss))


def _used_up(
    exposure: ClippingProblem, span: Floats, request: Request, rows: PlanAllocation
) -> PlanAllocation:
    """Return the rows fitted to the loss that was asked for, with less noise where it leaves room.

    Less noise by the ratio of both losses makes no loss larger than asked: the part that is
    charged for the lattice does not grow.
    """
    occupancy, requested = exposure.occupancy, request.epsilon
    assert requested is not None  # noqa: S101
    problem = PlanningProblem(occupancy, span, request)
    fit = calibrate_noise(occupancy, span, request, rows)
    loss = max_user_loss(problem, fit)
    quieter = fit.with_noise_scaled(float(loss / requested) * (1.0 + 2.0**-40)) if loss else fit
    return quieter if max_user_loss(problem, quieter) <= requested else fit


def _rows(
    exposure: ClippingProblem, joint: JointSolution, bound: float | None, certifies: str
) -> PlanAllocation:
    """Return rows from rates and factors; a cell where nobody loses anything keeps nothing.

    Of very many scales of noise few are made: where targets must be met, by less noise.
    """
    occupancy, rates = exposure.occupancy, joint.rates
    factor = _few_digits(joint.factor)
    largest = occupancy.largest_count
    total = occupancy.records_per_cell

    def scale(rate: Floats) -> Floats:
        live = rate > 0
        noise = np.divide(1.0, rate, out=np.zeros_like(rate), where=live)
        return np.where(live, np.nextafter(noise, np.inf), 0.0)

    return PlanAllocation(
        mechanism="factors",
        contribution_cap=np.where(rates.mean > 0, largest, 0),
        noise_scale_records=quantize_noise_scales(
            scale(rates.mean) * total, np.floor if certifies == "loss" else np.rint
        ),
        variance_cap=np.where(rates.variance > 0, largest, 0),
        variance_noise=scale(rates.variance),
        contribution_factor=factor,
        lower_bound=bound,
        bound_kind=certifies,
    )


def _targets(request: Request, span: Floats, occupancy: Occupancy, times: float) -> Targets:
    """Return the request's targets for bounds of width 1, times a number near 1.

    Those that a constant meets stay as they are; any is met by the variance of one record.
    """
    target, targets_by_name = request.target or {}, has_single_record(occupancy)
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


def _least_loss_on_average(
    exposure: ClippingProblem, span: Floats, request: Request, facts: PublicMetadata | None
) -> PlanAllocation:
    """Return the plan of least loss that meets one target for the average error."""

    def at(loss: float) -> PlanAllocation:
        return _average(exposure, span, _at(request, loss), loss * SAFETY_MARGIN)

    return _smallest(PlanningProblem(exposure.occupancy, span, request, facts), at)


def _least_loss_apart(occupancy: Occupancy, span: Floats, request: Request) -> PlanAllocation:
    """Return the plan of least loss, by a method that is given a loss, that meets the targets."""
    return _smallest(
        PlanningProblem(occupancy, span, request),
        lambda loss: allocate(occupancy, span, _at(request, loss)),
    )


def _smallest(problem: PlanningProblem, at: Callable[[float], PlanAllocation]) -> PlanAllocation:
    """Return the rows of the smallest loss that meets the targets, by halving its logarithm."""
    request = problem.request

    def meets(rows: PlanAllocation) -> bool:
        models = error_models(problem, rows)
        ratios = [
            (
                objective_errors(request, problem.span, models)
                if name == "sum"
                else models[name].error
            )
            / target
            for name, target in (request.target or {}).items()
        ]
        worst = np.max(ratios, axis=0)
        return bool((worst.max() if request.objective == "max" else worst.mean()) <= 1.0)

    low, high = 2.0**-20, 2.0**-20
    rows = at(high)
    if meets(rows):
        return rows
    while not meets(rows):
        low, high = high, high * 4.0
        if high > 2.0**40:
            raise InputError(
                f"no plan by method {request.method!r} meets target_error at any loss; ask for a "
                'larger error, or use method "joint" with objective "max".'
            )
        rows = at(high)
    for _ in range(HALVINGS):
        if high / low < 1.001:
            break
        middle = math.sqrt(low * high)
        upper = at(middle)
        if meets(upper):
            high, rows = middle, upper
        else:
            low = middle
    return rows


def _objective_errors(problem: PlanningProblem, rows: PlanAllocation) -> Floats:
    return objective_errors(problem.request, problem.span, error_models(problem, rows))


def _at(request: Request, loss: float) -> Request:
    """Return the same request with a loss in place of its targets."""
    return replace(request, epsilon=Fraction(loss), target=None)


def _apart(occupancy: Occupancy, span: Floats, request: Request) -> PlanAllocation:
    """Return every cell planned alone at the largest common loss that fits."""
    assert request.epsilon is not None  # noqa: S101
    if request.noised == ("mean",):
        return per_cell.allocate_per_cell(occupancy, request.epsilon, request.mechanism)
    low, high = Fraction(request.epsilon) / occupancy.n_cells / 4, Fraction(request.epsilon) * 4
    for _ in range(HALVINGS):
        middle = Fraction(math.sqrt(low * high))
        rows = allocate_independently(occupancy, span, request, middle)
        fits = max_user_loss(PlanningProblem(occupancy, span, request), rows) <= request.epsilon
        low, high = (middle, high) if fits else (low, middle)
    return calibrate_noise(
        occupancy, span, request, allocate_independently(occupancy, span, request, low)
    )


def _composition(occupancy: Occupancy, span: Floats, request: Request) -> PlanAllocation:
    """Return every cell planned alone at ε / (most cells of a user) (COMP Theorem II.3)."""
    assert request.epsilon is not None  # noqa: S101
    if request.noised == ("mean",):
        return per_cell.allocate_equal_split(occupancy, request.epsilon, request.mechanism)
    largest = int(occupancy.cells_per_user.max())
    cell_loss = request.epsilon * per_cell.ROUNDING_MARGIN / largest
    return calibrate_noise(
        occupancy, span, request, allocate_independently(occupancy, span, request, cell_loss)
    )


def _clip_user(occupancy: Occupancy, span: Floats, request: Request) -> PlanAllocation:
    """Return CLIP-USER's suppression at the cell loss at which its exact loss is about ε.

    The suppression at one cell loss fixes the ratio of exact loss to cell loss; a few rounds
    bring the cell loss to ε divided by it, and what is then missing or left is made up by noise.
    """
    assert request.epsilon is not None  # noqa: S101
    if span.min() < span.max():
        raise InputError('method "clip-user" needs the same bounds in every cell.')
    cell_loss, rows = request.epsilon, None
    error: ErrorKind = "sum" if request.error == "sum" and len(request.noised) == 2 else "separate"
    for _ in range(4):
        targets = (
            None if error == "sum" else _initial(occupancy, float(span[0]), request, cell_loss)
        )
        if targets == (math.inf, math.inf):  # only variances of one record
            return allocate_independently(occupancy, span, request, cell_loss)
        suppression = clip_user(
            occupancy.local(), float(span[0]), cell_loss, error=error, targets=targets
        )
        rows = allocate_independently(
            occupancy, span, request, cell_loss, suppression.contributing_pairs
        )
        losses = max_user_loss(PlanningProblem(occupancy, span, request), rows)
        cell_loss = cell_loss * request.epsilon / losses
    assert rows is not None  # noqa: S101
    return calibrate_noise(occupancy, span, request, rows)


def _initial(
    occupancy: Occupancy, span: float, request: Request, cell_loss: Fraction
) -> tuple[float, float]:
    """Return CLIP-USER's targets: the largest first error of each statistic that is wanted."""
    start = clip_user(occupancy.local(), span, cell_loss, error="separate", targets=None).bound
    assert isinstance(start, tuple)  # noqa: S101
    names = request.noised
    return (
        start[0] if "mean" in names else math.inf,
        start[1] if "variance" in names and start[1] else math.inf,
    )


def calibrate_noise(
    occupancy: Occupancy, span: Floats, request: Request, rows: PlanAllocation
) -> PlanAllocation:
    """Return the allocation with more noise wherever its loss exceeds the request.

    Raises
    ------
    InputError
        If what a user is charged for the lattice of the variances alone is above it.
    """
    if request.epsilon is None:
        return rows
    losses = max_user_loss(PlanningProblem(occupancy, span, request), rows)
    if losses <= request.epsilon:
        return rows
    fixed = 0.0
    if "variance" in request.noised:
        fixed = VARIANCE_LATTICE * float(occupancy.cells_per_user.max())
    room = float(request.epsilon) - fixed
    if room <= 0:
        raise InputError(
            f"epsilon {float(request.epsilon):.3g} is too small to publish variances of "
            f"{occupancy.n_cells} cells; ask for more than {fixed:.3g}."
        )
    return rows.with_noise_scaled(float(losses) / room * (1.0 + 2.0**-40))


_METHODS = {
    "joint": _joint,
    "per-cell": _apart,
    "equal-split": _composition,
    "clip-user": _clip_user,
}
METHODS = tuple(_METHODS)
"""How cells are planned together, by the name a caller writes."""
