"""What a plan books: the moves of its stages in the noise that it draws, added up and rounded up.

The accountant of all kinds of plans is accounting/moves.py. A release books exactly these numbers,
and its meter adds the same terms up again from the scales that go to the noise library. Where a
range is chosen privately the cells cost the same in every range (mechanisms/weighted/
weighted_mean.py, cell_ranges/cell_range_allocation.py), and the choices cost all users alike.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from hexveil.accounting import moves
from hexveil.accounting.contributions import contributes_wholly
from hexveil.accounting.moves import PairMoves, StatisticMoves
from hexveil.accounting.promise import of_amount
from hexveil.base.rational import round_up
from hexveil.base.read_only import read_only
from hexveil.mechanisms.clipped import clipped_mean
from hexveil.mechanisms.clipped.clipped_variance import variance_moves
from hexveil.mechanisms.per_cell_allocation import PerCellAllocation
from hexveil.planning.allocation import CellMechanisms, PerCellRange, PrivateRange, WithinBounds
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
    from hexveil.mechanisms.distribution.combined_stages import CombinedStages
    from hexveil.model.occupancy import Pairs
    from hexveil.planning.allocation import PlanAllocation


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
    return moves.losses if problem.request.law.power == 1 else moves.squares


def shared_cost(allocation: PlanAllocation, delta: Fraction) -> float:
    """Return what every user spends beside the cells, on what is found in the whole map."""
    match allocation.clipping:
        case PrivateRange() | PerCellRange() as clipping:
            return round_up(clipping.shared(delta).amount)
    return 0.0


def _with_shared(losses: Floats, allocation: PlanAllocation, delta: Fraction) -> Floats:
    """Return losses by cells with what every user spends beside them, rounded up."""
    shared = shared_cost(allocation, delta)
    return np.nextafter(losses + shared, np.inf) if shared else losses


def booked_per_user(
    problem: PlanningProblem, allocation: PlanAllocation, stated: PairMoves | None = None
) -> Floats:
    """Return the booking of each user, rounded up: ε, or a square of μ under a δ."""
    if isinstance(allocation.clipping, CellMechanisms):
        return allocation.clipping.cells.losses()
    cells = (stated or moves_of(problem, allocation)).per_user(currency_of(problem), up=True)
    return _with_shared(cells, allocation, problem.request.delta)


def losses_per_pair(problem: PlanningProblem, allocation: PlanAllocation) -> Floats:
    """Return the privacy loss of each (cell, user) pair, not yet rounded up.

    Under a δ these are squares of μ.
    """
    if isinstance(allocation.clipping, CellMechanisms):
        cells = allocation.clipping.cells
        cells.problem.occupancy.local()  # refuses, and says what to do
        assert isinstance(cells, PerCellAllocation)  # noqa: S101  its pairs are at hand
        return np.concatenate([plan.losses() for plan in cells.plans])
    problem.occupancy.local()
    return moves_of(problem, allocation).per_pair(currency_of(problem))


def max_user_loss(problem: PlanningProblem, allocation: PlanAllocation) -> Fraction:
    """Return the booking of the most exposed user, rounded up."""
    return Fraction(float(booked_per_user(problem, allocation).max(initial=0.0)))


def l0_loss(
    problem: PlanningProblem, allocation: PlanAllocation, stated: PairMoves | None = None
) -> Fraction | float:
    """Return the loss that counting cells claims: each cell's largest loss, for all its users."""
    clipping, delta = allocation.clipping, problem.request.delta
    if isinstance(clipping, CellMechanisms):
        return float(clipping.cells.claimed_losses().max(initial=0.0))
    stated = stated or moves_of(problem, allocation)
    if allocation.cell_epsilon is not None and isinstance(clipping, WithinBounds):
        return allocation.cell_epsilon * int(stated.charged_cells().max(initial=0))
    claimed = _with_shared(stated.claimed(currency_of(problem)), allocation, delta)
    largest = Fraction(float(claimed.max(initial=0.0)))
    return float(of_amount(largest, delta).epsilon)


class PartsBooking:
    """Losses over all parts of a plan, and the figures that follow from them."""

    @property
    def delta(self) -> Fraction:
        """δ of the promise, the same for all parts; 0 of a pure one."""
        raise NotImplementedError

    def allocation(self) -> CombinedStages:
        """Return the stages of all parts."""
        raise NotImplementedError

    @cached_property
    def booked_losses(self) -> Floats:
        """Booking of each unit over all parts: its loss, or its square of μ."""
        booked: Floats = read_only(self.allocation().losses())
        return booked

    @cached_property
    def user_losses(self) -> Floats:
        """Loss of each unit over all parts, at `delta`, rounded up; shape (n_units,)."""
        promise = of_amount(self.booked_limit, self.delta)
        losses: Floats = read_only(promise.losses(self.booked_losses))
        return losses

    def losses(self) -> Floats:
        """Return the loss of each unit over all parts, rounded up."""
        return self.user_losses

    @property
    def epsilon(self) -> Fraction:
        """Privacy loss of the most exposed unit: the cost of the release."""
        return Fraction(float(self.user_losses.max(initial=0.0)))

    @property
    def booked_limit(self) -> Fraction:
        """Most that the ledger books for a unit: its loss, or under a δ its square of μ."""
        return Fraction(float(self.booked_losses.max(initial=0.0)))
