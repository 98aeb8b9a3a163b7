"""What a plan books: the moves of its stages in the noise that it draws, added up and rounded up.

The accountant of all kinds of plans is accounting/moves.py. A release books exactly these numbers,
and its meter adds the same terms up again from the scales that go to the noise library. Where a
range is chosen privately the cells cost the same in every range (mechanisms/weighted/
weighted_mean.py, cell_ranges/cell_range_allocation.py), and the choices cost all users alike.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from hexveil.accounting import moves
from hexveil.accounting.contributions import contributes_wholly
from hexveil.accounting.gaussian_composition import range_square, square_epsilon
from hexveil.accounting.moves import PairMoves, StatisticMoves
from hexveil.base.rational import round_up
from hexveil.mechanisms.clipped import clipped_mean
from hexveil.mechanisms.clipped.clipped_variance import variance_moves
from hexveil.planning import cell_mechanism_errors
from hexveil.planning.allocation import (
    CellMechanisms,
    PerCellRange,
    PrivateRange,
    WithinBounds,
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
    from hexveil.accounting.error_model import ErrorModel
    from hexveil.accounting.moves import Currency
    from hexveil.base.arrays import Bools, Floats, Ints
    from hexveil.model.occupancy import Pairs
    from hexveil.planning.allocation import PlanAllocation
    from hexveil.planning.clipping_range.cell_ranges import CellRangePlan


# ---- moves ----


def moves_of(
    problem: PlanningProblem, allocation: PlanAllocation, variance: ErrorModel | None = None
) -> PairMoves:
    """Return how far each pair moves the numbers of its cell, of plans with one such stage.

    The error model of the variance, if it is at hand, saves a pass over the pairs.
    """
    match allocation.clipping:
        case PrivateRange(range=ranged) | PerCellRange(plan=ranged):
            totals = ranged.weight.totals
            weighted = tuple(
                StatisticMoves.of(_weight_moved, (), noise * totals)
                for noise in _weighted_noises(problem, allocation)
            )
            return PairMoves(problem.occupancy, weighted, weight=ranged.weight)
    statistics = []
    if "mean" in problem.request.noised:
        statistics.append(_mean_moves(problem, allocation))
    if "variance" in problem.request.noised:
        cells = divisors(problem, allocation), allocation.variance_cap, allocation.variance_noise
        unclipped = variance_unclipped(problem, allocation, variance)
        statistics.append(variance_moves(*cells, unclipped))
    factors = (allocation.contribution_factor,)
    return PairMoves(problem.occupancy, tuple(statistics), factors, allocation.suppressed)


def stated_moves(
    problem: PlanningProblem, allocation: PlanAllocation, variance: ErrorModel | None
) -> PairMoves | None:
    """Return the same; None for mechanisms of single cells, which have stages of their own."""
    is_apart = isinstance(allocation.clipping, CellMechanisms)
    return None if is_apart else moves_of(problem, allocation, variance)


def _mean_moves(problem: PlanningProblem, allocation: PlanAllocation) -> StatisticMoves:
    cap, quanta = caps_and_quanta(problem, allocation, "mean")
    noise = allocation.noise_scale_records
    if problem.facts is None:
        return clipped_mean.unrounded_mean_moves(cap, noise)
    width = np.maximum(quanta, 1.0).astype(np.int64)
    return clipped_mean.mean_moves(width, cap, quanta, clipped_mean.laplace_scales(width, noise))


def variance_unclipped(
    problem: PlanningProblem, allocation: PlanAllocation, model: ErrorModel | None = None
) -> Bools:
    """Return in which cells each user contributes all of its samples, or none and is left out."""
    if allocation.normaliser == "contributions":
        wholly: Bools = map_contributions(problem, allocation, contributes_wholly)
        return wholly
    known = clipped_share(problem, allocation, "variance") if model is None else model.clipped_share
    return np.equal(known, 0.0)


def _weighted_noises(problem: PlanningProblem, allocation: PlanAllocation) -> tuple[Floats, ...]:
    """Return the noise of each statistic that is drawn in a range of the whole map."""
    # The mean is needed for the variance as well, and its loss adds to the variance's.
    noise = mean_noise(problem, allocation)
    return (noise, allocation.variance_noise) if "variance" in problem.request.noised else (noise,)


def _weight_moved(_pairs: Pairs, weight: Ints) -> Ints:
    """Return how far a pair moves its cell in a range of width 1; noise grows with the width."""
    return weight


# ---- losses ----


def currency_of(problem: PlanningProblem) -> Currency:
    """Return in what a promise is kept: pure losses, or squares of μ under a δ."""
    return moves.squares if problem.request.delta else moves.losses


def _shared_cost(allocation: PlanAllocation, currency: Currency) -> float:
    """Return what every user spends beside the cells, on what is found in the whole map."""
    clipping = allocation.clipping
    if not isinstance(clipping, (PrivateRange, PerCellRange)):
        return 0.0
    if currency is moves.losses:
        return round_up(clipping.shared_epsilon)
    if isinstance(clipping, PerCellRange):
        return choices_square(clipping.plan)
    return range_square(clipping.shared_epsilon)


def choices_square(plan: CellRangePlan) -> float:
    """Return the square of μ of the stages before the looks at cells."""
    # What a root rounds down in a deviation is rounded up here.
    pooled = round_up(plan.histogram_loss) * (1.0 + 2.0**-46)
    return math.nextafter(pooled + range_square(plan.spread_epsilon, 1), math.inf)


def _with_shared(losses: Floats, allocation: PlanAllocation, currency: Currency) -> Floats:
    """Return losses by cells with what every user spends beside them, rounded up."""
    shared = _shared_cost(allocation, currency)
    return np.nextafter(losses + shared, np.inf) if shared else losses


def booked_per_user(
    problem: PlanningProblem, allocation: PlanAllocation, stated: PairMoves | None = None
) -> Floats:
    """Return the booking of each user, rounded up: ε, or a square of μ under a δ."""
    return _per_user(problem, allocation, currency_of(problem), stated)


def _per_user(
    problem: PlanningProblem,
    allocation: PlanAllocation,
    currency: Currency,
    stated: PairMoves | None = None,
) -> Floats:
    if isinstance(allocation.clipping, CellMechanisms):
        return allocation.clipping.cells.losses()
    cells = (stated or moves_of(problem, allocation)).per_user(currency, up=True)
    return _with_shared(cells, allocation, currency)


def losses_per_pair(problem: PlanningProblem, allocation: PlanAllocation) -> Floats:
    """Return the privacy loss of each (cell, user) pair, not yet rounded up.

    Under a δ these are squares of μ.
    """
    if isinstance(allocation.clipping, CellMechanisms):
        return cell_mechanism_errors.losses_per_pair(allocation.clipping)
    problem.occupancy.local()
    return moves_of(problem, allocation).per_pair(currency_of(problem))


def max_user_loss(problem: PlanningProblem, allocation: PlanAllocation) -> Fraction:
    """Return the privacy loss of the most exposed user, rounded up."""
    return Fraction(float(_per_user(problem, allocation, moves.losses).max(initial=0.0)))


def l0_loss(
    problem: PlanningProblem, allocation: PlanAllocation, stated: PairMoves | None = None
) -> Fraction | float:
    """Return the loss that counting cells claims: each cell's largest loss, for all its users."""
    clipping, currency = allocation.clipping, currency_of(problem)
    if isinstance(clipping, CellMechanisms):
        return float(clipping.cells.claimed_losses().max(initial=0.0))
    stated = stated or moves_of(problem, allocation)
    if allocation.cell_epsilon is not None and isinstance(clipping, WithinBounds):
        return allocation.cell_epsilon * int(stated.charged_cells().max(initial=0))
    claimed = _with_shared(stated.claimed(currency), allocation, currency)
    largest = float(claimed.max(initial=0.0))
    if problem.request.delta:
        return square_epsilon(Fraction(largest), problem.request.delta)
    return largest
