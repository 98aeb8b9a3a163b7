"""From a plan to the allocation that a release runs: the one place that knows kinds of plans."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from hexveil.accounting.moves import PairMoves
from hexveil.accounting.promise import choices_worth
from hexveil.base.errors import InputError
from hexveil.mechanisms.cell_ranges.cell_range_allocation import CellRangeAllocation
from hexveil.mechanisms.clipped import clipped_mean
from hexveil.mechanisms.clipped.clipped_allocation import (
    ClippedAllocation,
    ClippedStage,
    MappedMoves,
)
from hexveil.mechanisms.clipped.clipped_mean import GRAIN, ROOM, CellLattice, ClippedMean
from hexveil.mechanisms.clipped.clipped_variance import ClippedVariance
from hexveil.mechanisms.clipped.renormalised_mean import RenormalisedMean
from hexveil.mechanisms.published_cells import PublishedCells
from hexveil.mechanisms.weighted.weighted_allocation import WeightedAllocation
from hexveil.mechanisms.weighted.weighted_mean import WeightedMean
from hexveil.mechanisms.weighted.weighted_variance import WeightedVariance
from hexveil.model.pair_columns import WEIGHT_RESOLUTION
from hexveil.planning.allocation import (
    CellMechanisms,
    PerCellRange,
    PrivateRange,
    WithinBounds,
)
from hexveil.planning.clipping_range.cell_range_release import (
    cell_range_allocation,
    with_cell_ranges,
)
from hexveil.planning.guarantees import plan_losses, planning_problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hexveil.accounting.error_model import ErrorModel
    from hexveil.base.arrays import Floats
    from hexveil.mechanisms.clipped.clipped_allocation import ClippedStatistic
    from hexveil.mechanisms.contract import EstimateGrid, Outputs
    from hexveil.model.public_metadata import ValueLattice
    from hexveil.planning.allocation import Clipping
    from hexveil.planning.clipping_range.private_range import PrivateClippingRange
    from hexveil.planning.plan import Plan


ReleaseAllocation: TypeAlias = (
    ClippedAllocation | WeightedAllocation | CellRangeAllocation | PublishedCells
)
"""Kinds of plans, as a release runs them."""


def allocation_of(plan: Plan, scale: ValueLattice) -> ReleaseAllocation:
    """Return the allocation of a plan on the lattice of the records.

    Raises
    ------
    InputError
        If a bound of the plan is off the lattice, a sum or its noise could leave 64 bits, or a
        cell keeps records without noise.
    """
    match plan.allocation.clipping:
        case WithinBounds():
            return _clipped(plan, scale)
        case PrivateRange(interval):
            return _weighted(plan, scale, interval)
        case PerCellRange(cell_ranges):
            lattice = lattice_of(plan, scale)
            return cell_range_allocation(plan, cell_ranges, lattice, scale.span_quanta)
        case CellMechanisms(cells=cells):
            return PublishedCells(cells, plan.error_models["mean"])


def check_allocation(
    allocation: ReleaseAllocation, plan: Plan, scale: ValueLattice, *, has_squares: bool
) -> None:
    """Refuse, from public facts, an allocation that cannot be computed or noised as stated.

    Raises
    ------
    InputError
        If weights or noise would not have the stated loss, the plan's bounds are not the records',
        a variance has no sums of squares, or numbers could leave 64 bits.
    """
    # Before the booking, and from public facts alone: a refusal after it would be paid for.
    epsilon = float(plan.requested_epsilon)
    match allocation:
        case ClippedAllocation():
            for statistic in allocation.stage.statistics:
                if isinstance(statistic, ClippedVariance):
                    statistic.check(scale.span_quanta, epsilon, has_squares=has_squares)
        case WeightedAllocation():
            _check_range(plan, scale)
            allocation.mean.check_room(allocation.lattice_steps, epsilon)
            for variance in allocation.variances:
                variance.check(epsilon, has_squares=has_squares)
        case CellRangeAllocation():
            _check_range(plan, scale)
            allocation.check_room(epsilon)
        case PublishedCells():
            _check_cells(allocation, plan, scale)


def refuse_undrawable(plan: Plan) -> None:
    """Refuse a plan on a lattice of which no sum, or no noise, fits 64 bits; at hand alone.

    Raises
    ------
    InputError
        As `allocation_of` and `check_allocation`, but for sums of squares, which a plan knows not.
    """
    if plan.facts is not None and plan.occupancy.is_local:
        scale = plan.facts.lattice
        check_allocation(allocation_of(plan, scale), plan, scale, has_squares=True)


def with_outputs(plan: Plan, allocation: ReleaseAllocation, outputs: Outputs) -> Plan:
    """Return the plan with the ranges that its private stages released."""
    match allocation:
        case ClippedAllocation():
            return plan
        case PublishedCells():
            return _with_released_ranges(plan, allocation, outputs)
        case WeightedAllocation():
            found = _with_range(plan, allocation.lattice_steps, allocation.released_range(outputs))
            votes = tuple(allocation.votes(outputs).tolist())
            return _with_votes(found, votes, allocation.pooled_means.total)
        case CellRangeAllocation():
            released = allocation.released(outputs)
            return with_cell_ranges(plan, allocation.lattice_steps, released)


def grids_of(plan: Plan, scale: ValueLattice) -> dict[str, EstimateGrid]:
    """Return where published numbers can lie, by statistic; of a plan with its released ranges."""
    # Built anew from the released ranges: a grid read off the plan could differ from the draw.
    allocation = allocation_of(plan, scale)
    match allocation:
        case ClippedAllocation():
            return {one.name: one.grid() for one in allocation.stage.statistics}
        case WeightedAllocation():
            grids = {"mean": allocation.mean.grid(allocation.lattice)}
            for variance in allocation.variances:
                grids["variance"] = variance.grid(plan.error_models["variance"].unit)
            return grids
        case CellRangeAllocation() | PublishedCells():
            return {"mean": allocation.grid()}


# ---- clipped statistics ----


def lattice_of(plan: Plan, scale: ValueLattice) -> CellLattice:
    """Return where the plan's cells stand on the lattice of the records.

    Raises
    ------
    InputError
        If a bound of the plan is off the lattice, or a sum could leave 64 bits.
    """
    _check_sums(plan, scale)
    bounds = np.stack([plan.lower, plan.upper], 1)
    # Exact fractions are slow, and most maps have one pair of bounds.
    pairs, which = np.unique(bounds, axis=0, return_inverse=True)
    ends = np.array(
        [
            [scale.to_quanta(low, "lower bound"), scale.to_quanta(high, "upper bound")]
            for low, high in pairs.tolist()
        ],
        dtype=np.int64,
    )[which.reshape(-1)]
    return CellLattice(ends[:, 0], ends[:, 1] - ends[:, 0], plan.lower, float(scale.quantum))


def _clipped(plan: Plan, scale: ValueLattice) -> ClippedAllocation:
    _check_rows(plan)
    lattice, rows = lattice_of(plan, scale), plan.allocation
    statistics: list[ClippedStatistic] = []
    # In lattice steps and rounded up: the scale that is drawn is the scale that is booked.
    noise = clipped_mean.laplace_scales(lattice.width, plan.noise_scale_records)
    if rows.normaliser == "contributions":
        statistics.append(_renormalised_mean(plan, lattice, noise))
    elif "mean" in plan.error_models:
        caps = planning_problem.caps_and_quanta(plan.problem, rows, "mean")
        mean = ClippedMean(
            plan.occupancy,
            lattice,
            noise,
            *caps,
            rows.contribution_factor,
            rows.suppressed,
            plan.error_models["mean"],
        )
        # 64-bit overflow would wrap around silently, and with it the sensitivity.
        mean.check_room(float(plan.requested_epsilon))
        statistics.append(mean)
    if "variance" in plan.error_models:
        variance = ClippedVariance(
            plan.occupancy,
            lattice,
            rows.variance_noise,
            rows.variance_cap,
            rows.contribution_factor,
            rows.suppressed,
            plan.error_models["variance"],
            planning_problem.divisors(plan.problem, rows),
            plan_losses.variance_unclipped(plan.problem, rows, plan.error_models["variance"]),
        )
        statistics.append(variance)
    # The meter adds the losses up again from the integers of these very statistics.
    moves = tuple(statistic.moves for statistic in statistics)
    report = MappedMoves(
        PairMoves(plan.occupancy, moves, (rows.contribution_factor,), rows.suppressed)
    )
    stage = ClippedStage(tuple(statistics), report, law=plan.request.law)
    return ClippedAllocation(stage, plan.booked_losses)


def _renormalised_mean(plan: Plan, lattice: CellLattice, noise: Floats) -> RenormalisedMean:
    rows, error = plan.allocation, plan.error_models["mean"]
    totals = planning_problem.divisors(plan.problem, rows)
    kept = rows.contribution_cap, rows.suppressed, totals
    mean = RenormalisedMean(plan.occupancy, lattice, noise, *kept, error)
    mean.check_room(float(plan.requested_epsilon))
    return mean


def _check_rows(plan: Plan) -> None:
    """Refuse rows under which the loss that the plan states would not hold."""
    noise, caps = plan.noise_scale_records, plan.contribution_cap
    # A stranger may have built the plan: its stated loss holds only if its arrays are sane.
    if not (np.isfinite(noise) & np.where(caps > 0, noise > 0, noise >= 0)).all():
        raise InputError("the plan has a cell that keeps records without noise; plan again.")
    if (caps < 0).any() or (plan.allocation.variance_cap < 0).any():
        raise InputError("the plan has a cell that keeps fewer than no records; plan again.")
    # Exact in doubles, so that kept records are exact integers in units of 2^-30.
    parts = plan.allocation.contribution_factor * GRAIN
    if not ((parts >= 0) & (parts <= GRAIN) & (parts == np.floor(parts))).all():
        raise InputError(
            "the plan has a factor that is not a multiple of 2^-30 from 0 to 1; plan again."
        )


def _check_sums(plan: Plan, scale: ValueLattice) -> None:
    most = int(plan.occupancy.records_per_cell.max())
    # Sums are counted in half quanta, and noise needs room beside them.
    if 4 * scale.span_quanta * most >= ROOM:
        raise InputError(
            f"a cell of {most} records on a lattice of {scale.span_quanta} steps does not fit "
            "whole numbers of 64 bits; use a coarser quantum."
        )


# ---- private clipping ranges ----


@dataclass(frozen=True, eq=False)
class _PlannedErrors:
    """Error models of a plan with a released range."""

    plan: Plan
    lattice_steps: int

    def __call__(self, ends: tuple[int, int]) -> Mapping[str, ErrorModel]:
        return _with_range(self.plan, self.lattice_steps, ends).error_models


def _weighted(
    plan: Plan, scale: ValueLattice, interval: PrivateClippingRange
) -> WeightedAllocation:
    occupancy = plan.occupancy
    mean = WeightedMean(occupancy, interval.weight, plan.mean_noise)
    mean.check()
    variances: tuple[WeightedVariance, ...] = ()
    if "variance" in plan.error_models:
        # A range for means alone has no radius; the squares are then those within the range.
        radius = interval.radius or 1
        noise, law = plan.allocation.variance_noise, plan.request.law
        variances = (WeightedVariance(mean, noise, Fraction(radius), law),)
    return WeightedAllocation(
        choices_worth(interval.epsilon, plan.delta),
        interval.quantiles,
        interval.widening,
        mean,
        variances,
        tuple(plan.error_models),
        lattice_of(plan, scale),
        scale.span_quanta,
        plan.booked_losses,
        _PlannedErrors(plan, scale.span_quanta),
        law=plan.request.law,
    )


def _check_range(plan: Plan, scale: ValueLattice) -> None:
    """Refuse narrower bounds, and records of one user that do not fit with their weight."""
    if ((plan.lower != float(scale.lower)) | (plan.upper != float(scale.upper))).any():
        raise InputError(
            "a private clipping range is found within the bounds that the records were read with; "
            "leave bounds out of the plan."
        )
    records = plan.occupancy.records_per_user
    if WEIGHT_RESOLUTION * int(records.max()) >= ROOM:
        raise InputError(
            "so many records of one user do not fit whole numbers of 64 bits with their weight; "
            'ask for clipping_range "bounds".'
        )


def _check_cells(allocation: PublishedCells, plan: Plan, scale: ValueLattice) -> None:
    """Refuse stages that were built for other records or bounds than the plan's."""
    planned = allocation.cells.problem
    lattice = planned.lower, planned.quantum, planned.span
    if (
        planned.occupancy.fingerprint != plan.occupancy.fingerprint
        or lattice != (scale.lower, scale.quantum, scale.span_quanta)
        or (plan.lower != float(scale.lower)).any()
        or (plan.upper != float(scale.upper)).any()
    ):
        raise InputError(
            "the stages of the plan are those of other records or bounds; plan these records again."
        )


def _with_range(plan: Plan, lattice_steps: int, ends: tuple[int, int]) -> Plan:
    match plan.allocation.clipping:
        case PrivateRange(interval):
            return _with_clipping(plan, PrivateRange(interval.with_ends(ends, lattice_steps)))
    return plan


def _with_votes(plan: Plan, votes: tuple[int, ...], total: int) -> Plan:
    match plan.allocation.clipping:
        case PrivateRange(interval):
            return _with_clipping(plan, PrivateRange(replace(interval, votes=votes, total=total)))
    return plan


def _with_clipping(plan: Plan, clipping: Clipping) -> Plan:
    return replace(plan, allocation=replace(plan.allocation, clipping=clipping))


# ---- mechanisms of one cell ----


def _with_released_ranges(plan: Plan, allocation: PublishedCells, outputs: Outputs) -> Plan:
    match plan.allocation.clipping:
        case CellMechanisms() as cells:
            released = allocation.released_ranges(outputs)
            return _with_clipping(plan, replace(cells, released=released))
    return plan
