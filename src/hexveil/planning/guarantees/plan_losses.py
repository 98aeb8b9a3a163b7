"""Privacy losses of an allocation: functions of public facts that solvers and plans ask.

Formulas and their proof: accounting/privacy_loss.py. A plan states exactly these numbers, and a
release books them.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from hexveil.accounting import privacy_loss, unit_squares, weighted_losses
from hexveil.accounting.contributions import contributes_wholly
from hexveil.accounting.gaussian_composition import square_epsilon
from hexveil.accounting.privacy_loss import LossParameters
from hexveil.base.errors import InputError
from hexveil.base.rational import round_up, sum_upper_bounds
from hexveil.base.read_only import read_only
from hexveil.model.factored_weights import FactoredWeights
from hexveil.planning import cell_mechanism_errors
from hexveil.planning.allocation import (
    CellMechanisms,
    PerCellRange,
    PrivateRange,
    WithinBounds,
    factored_weights,
)
from hexveil.planning.guarantees.planning_problem import (
    PlanningProblem,
    caps_and_quanta,
    clipped_share,
    divisors,
    map_contributions,
    mean_noise,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from numpy.typing import NDArray

    from hexveil.accounting.error_model import ErrorModel
    from hexveil.base.arrays import Floats
    from hexveil.model.distributed_occupancy import WholeGroup
    from hexveil.model.occupancy import Pairs
    from hexveil.model.suppressed_pairs import Suppressed
    from hexveil.planning.allocation import PlanAllocation
    from hexveil.planning.clipping_range.cell_range_plan import CellRangePlan

    Parameters = tuple[LossParameters, tuple[Floats, ...], tuple[Suppressed, ...]]


def loss_function(allocation: PlanAllocation, work: Callable[..., Any], before: int = 0) -> Any:  # noqa: ANN401  a function of pairs
    """Return a function of losses, of contributed samples where sums are divided by these."""
    if allocation.normaliser == "records":
        return work
    return partial(privacy_loss.apply_to_contributed, work=work, before=before)


def loss_parameters(
    problem: PlanningProblem,
    allocation: PlanAllocation,
    models: Mapping[str, ErrorModel] | None = None,
) -> Parameters:
    """Return the arrays that decide the loss of pairs: per cell, per user, and per pair.

    Error models that are at hand save a pass over the pairs.
    """
    n_cells, noised = problem.occupancy.n_cells, problem.request.noised

    variance_unclipped = np.ones(n_cells, dtype=bool)
    if "variance" in noised and isinstance(allocation.clipping, WithinBounds):
        if allocation.normaliser == "contributions":
            variance_unclipped = map_contributions(problem, allocation, contributes_wholly)
        else:
            known = None if models is None else models["variance"].clipped_share
            share = clipped_share(problem, allocation, "variance") if known is None else known
            variance_unclipped = np.equal(share, 0.0)
    cells = LossParameters(
        records=divisors(problem, allocation),
        cap=allocation.contribution_cap,
        noise=allocation.noise_scale_records,
        span_quanta=caps_and_quanta(problem, allocation, "mean")[1],
        variance_cap=allocation.variance_cap,
        variance_noise=allocation.variance_noise,
        variance_unclipped=variance_unclipped,
        publishes_mean=np.full(n_cells, "mean" in noised),
        publishes_variance=np.full(n_cells, "variance" in noised),
    )
    # A release hands these arrays to its meter: nobody may change them after the booking.
    cells = LossParameters(*map(read_only, cells))
    return cells, (allocation.contribution_factor,), allocation.suppressed


def _map_squares(
    problem: PlanningProblem,
    allocation: PlanAllocation,
    whole: WholeGroup,
    work: Callable[..., Any],
    claims: tuple[Floats, ...] = (),
) -> Any:  # noqa: ANN401  what the work returns
    """Apply a function of `unit_squares` to pairs, of which it gets μ² by `terms`."""
    occupancy, cells = problem.occupancy, (*claims, *_square_parameters(problem, allocation))
    match allocation.clipping:
        case WithinBounds():
            work = partial(work, terms=unit_squares.clipped_squares)
            mapped = occupancy.map_cells if whole == "cells" else occupancy.map_users
            return mapped(work, cells, (allocation.contribution_factor,))
        # Squares of both looks at a cell add up to this, in whatever ranges.
        case PrivateRange(range=ranged) | PerCellRange(plan=ranged):
            work = partial(work, terms=unit_squares.weighted_squares)
            weight = ranged.weight
            if not isinstance(weight, FactoredWeights):
                return work(occupancy.local(), weight, *cells)
            if whole == "cells":
                return weight.map_cells(work, cells)
            return weight.map_users(work, cells)
        case _:
            raise InputError("delta goes with the public bounds, one range, or ranges of cells.")


def _square_parameters(
    problem: PlanningProblem, allocation: PlanAllocation
) -> tuple[NDArray[Any], ...]:
    """Return the arrays per cell from which squares of μ follow."""
    occupancy, noised = problem.occupancy, problem.request.noised
    match allocation.clipping:
        case PrivateRange(range=ranged) | PerCellRange(plan=ranged):
            return ranged.totals(occupancy), *_weighted_noises(problem, allocation)
    everywhere = np.ones(occupancy.n_cells, dtype=np.bool_)
    unclipped = everywhere
    if "variance" in noised:
        unclipped = np.equal(clipped_share(problem, allocation, "variance"), 0.0)
    return LossParameters(
        records=occupancy.records_per_cell,
        cap=allocation.contribution_cap,
        noise=allocation.noise_scale_records,
        span_quanta=caps_and_quanta(problem, allocation, "mean")[1],
        variance_cap=allocation.variance_cap,
        variance_noise=allocation.variance_noise,
        variance_unclipped=unclipped,
        publishes_mean=everywhere & ("mean" in noised),
        publishes_variance=everywhere & ("variance" in noised),
    )


def _pair_squares(pairs: Pairs, *given: NDArray[Any], terms: Callable[..., Any]) -> Floats:
    """Return μ² of each pair at hand."""
    squares: Floats = terms(pairs, *given)[0]
    return squares


def _shared_square(allocation: PlanAllocation) -> float:
    """Return the square of μ that every user spends beside the cells."""
    match allocation.clipping:
        case PrivateRange() as clipping:
            return unit_squares.range_square(clipping.shared_epsilon)
        case PerCellRange(plan=plan):
            return choices_square(plan)
    return 0.0


def choices_square(plan: CellRangePlan) -> float:
    """Return the square of μ of the stages before the looks at cells."""
    # What a root rounds down in a deviation is rounded up here.
    pooled = round_up(plan.histogram_loss) * unit_squares.ROUNDING
    return math.nextafter(pooled + unit_squares.range_square(plan.spread_epsilon, 1), math.inf)


def booked_per_user(
    problem: PlanningProblem, allocation: PlanAllocation, parameters: Parameters | None = None
) -> Floats:
    """Return the booking of each user, rounded up: ε, or a square of μ under a δ."""
    if not problem.request.delta:
        return losses_per_user(problem, allocation, parameters)
    work = partial(unit_squares.user_squares, shared=_shared_square(allocation))
    return np.asarray(_map_squares(problem, allocation, "users", work))


def _claimed_square(problem: PlanningProblem, allocation: PlanAllocation) -> float:
    """Return the largest square of μ if each cell costs all of its users its largest cost."""
    claims = _map_squares(problem, allocation, "cells", unit_squares.largest_squares)
    weights = 0 if isinstance(allocation.clipping, WithinBounds) else 1
    work = partial(unit_squares.claimed_squares, shared=_shared_square(allocation), weights=weights)
    booked = _map_squares(problem, allocation, "users", work, claims)
    return float(booked.max(initial=0.0))


def losses_per_pair(problem: PlanningProblem, allocation: PlanAllocation) -> Floats:
    """Return the privacy loss of each (cell, user) pair, not yet rounded up.

    Under a δ these are squares of μ.
    """
    if problem.request.delta:
        return np.asarray(_map_squares(problem, allocation, "users", _pair_squares))
    occupancy = problem.occupancy.local()
    match allocation.clipping:
        case WithinBounds():
            cells, users, pairs = loss_parameters(problem, allocation)
            losses = loss_function(allocation, privacy_loss.pair_losses)
            return np.asarray(losses(occupancy, *cells, *users, *pairs))
        case PrivateRange(range=clipping_range):
            noises = _weighted_noises(problem, allocation)
            shares = clipping_range.shares(occupancy)
            inverse = [np.divide(1.0, b, out=np.zeros_like(b), where=b > 0) for b in noises]
            return np.asarray(sum(shares * scale[occupancy.cell] for scale in inverse))
        case PerCellRange(plan=plan):
            # Whether a cell keeps its first range or gets another: the shares of the loss add up.
            noise = mean_noise(problem, allocation)
            return np.asarray(plan.shares(occupancy) / noise[occupancy.cell])
        case CellMechanisms() as clipping:
            return cell_mechanism_errors.losses_per_pair(clipping)


def _weighted_noises(problem: PlanningProblem, allocation: PlanAllocation) -> tuple[Floats, ...]:
    """Return the noise of each statistic that is drawn in a range of the whole map."""
    # The mean is needed for the variance as well, and its loss adds to the variance's.
    noise = mean_noise(problem, allocation)
    return (noise, allocation.variance_noise) if "variance" in problem.request.noised else (noise,)


def losses_per_user(
    problem: PlanningProblem, allocation: PlanAllocation, parameters: Parameters | None = None
) -> Floats:
    """Return the privacy loss of each user over all cells, rounded up."""
    occupancy, clipping = problem.occupancy, allocation.clipping
    if isinstance(clipping, WithinBounds):
        parameters = parameters or loss_parameters(problem, allocation)
        work = loss_function(allocation, privacy_loss.user_losses)
        return np.asarray(occupancy.map_users(work, *parameters))
    if isinstance(clipping, CellMechanisms):
        return clipping.cells.losses()
    if (weights := factored_weights(clipping)) is not None:
        cells = weights.totals, *_weighted_noises(problem, allocation)
        losses = weights.map_users(weighted_losses.weighted_user_losses, cells)
    else:
        terms = losses_per_pair(problem, allocation)
        losses = privacy_loss.compose_losses(occupancy.local().user, terms, occupancy.n_users)
    return np.asarray(np.nextafter(losses + round_up(clipping.shared_epsilon), np.inf))


def max_user_loss(problem: PlanningProblem, allocation: PlanAllocation) -> Fraction:
    """Return the privacy loss of the most exposed user, rounded up."""
    return Fraction(float(losses_per_user(problem, allocation).max(initial=0.0)))


def l0_loss(
    problem: PlanningProblem, allocation: PlanAllocation, parameters: Parameters | None = None
) -> Fraction | float:
    """Return the loss that counting cells claims: each cell's largest loss, for all its users."""
    occupancy, clipping = problem.occupancy, allocation.clipping
    if problem.request.delta:
        claimed_square = Fraction(_claimed_square(problem, allocation))
        return square_epsilon(claimed_square, problem.request.delta)
    if isinstance(clipping, WithinBounds):
        cells, users, pairs = parameters or loss_parameters(problem, allocation)
        if allocation.cell_epsilon is not None:
            work = loss_function(allocation, privacy_loss.count_charged_cells)
            most = int(occupancy.map_users(work, cells, users, pairs).max(initial=0))
            return allocation.cell_epsilon * most
        work = loss_function(allocation, privacy_loss.max_pair_loss)
        largest = occupancy.map_cells(work, cells, users, pairs)
        work = loss_function(allocation, privacy_loss.composed_losses, before=1)
        per_user = occupancy.map_users(work, (largest, *cells), users, pairs)
        return float(per_user.max(initial=0.0))
    if isinstance(clipping, CellMechanisms):
        return float(clipping.cells.claimed_losses().max(initial=0.0))
    if (weights := factored_weights(clipping)) is not None:
        by_cell = weights.totals, *_weighted_noises(problem, allocation)
        claims = weights.map_cells(weighted_losses.largest_weighted_losses, by_cell)
        per_user = weights.map_users(weighted_losses.claimed_user_losses, (claims,))
    else:
        terms, local = losses_per_pair(problem, allocation), occupancy.local()
        largest = np.maximum.reduceat(terms, local.start[:-1])[local.cell]
        # A user without weight in a cell is not charged there, whatever the others lose.
        composed = np.where(terms > 0, largest, 0.0)
        per_user = sum_upper_bounds(local.user, composed, occupancy.n_users)
    claimed = float(per_user.max(initial=0.0))
    return math.nextafter(claimed + round_up(clipping.shared_epsilon), math.inf)
