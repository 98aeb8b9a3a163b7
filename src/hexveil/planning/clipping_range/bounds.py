"""Values clipped to the public bounds alone: caps and factors, or whole contributions.

Of a (cell, user) pair with m records f min(m, t) are kept; the rest is put at the middle of the
bounds. In a plan whose sums are divided by contributing samples (CLIP-USER as printed) users are
kept or left out instead. Proofs: mechanisms/clipped/.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

import numpy as np

from hexveil.accounting.contributions import contributes_wholly, lost_shares
from hexveil.accounting.error_model import (
    ErrorModel,
    RenormalisedErrorModel,
    constant_error,
)
from hexveil.accounting.moves import PairMoves, StatisticMoves
from hexveil.accounting.sensitivity import variance_sensitivity_bound, variance_share
from hexveil.base.arrays import Bools, Floats
from hexveil.base.errors import InputError
from hexveil.mechanisms.clipped import clipped_mean
from hexveil.mechanisms.clipped.clipped_allocation import (
    ClippedAllocation,
    ClippedStage,
    ClippedStatistic,
)
from hexveil.mechanisms.clipped.clipped_mean import GRAIN, CellLattice, ClippedMean
from hexveil.mechanisms.clipped.clipped_variance import ClippedVariance, variance_moves
from hexveil.mechanisms.clipped.renormalised_mean import RenormalisedMean
from hexveil.mechanisms.sensitivity_report import MappedMoves
from hexveil.model.public_metadata import ValueLattice
from hexveil.planning.clipping_range.clipping import (
    ClippingKind,
    Decisions,
    StatedLosses,
    lattice_of,
)
from hexveil.planning.plan_rows import PlanningProblem, PlanRows


@dataclass(frozen=True)
class WithinBounds(ClippingKind):
    """Values are clipped to the public bounds alone."""

    mode: ClassVar[Literal["bounds"]] = "bounds"

    def mean_error(self, problem: PlanningProblem, rows: PlanRows) -> ErrorModel:
        """Return the error model of the means."""
        span, noise = problem.span, rows.mean_noise(problem)
        if rows.normaliser == "contributions":
            moved = _lost(problem, rows)
            return _renormalised("mean", span, noise, moved)
        share, constant = (
            rows.clipped_share(problem, "mean"),
            constant_error("mean", problem.occupancy),
        )
        return ErrorModel("mean", span, noise, share, constant, law=problem.request.law)

    def variance_error(self, problem: PlanningProblem, rows: PlanRows) -> ErrorModel:
        """Return the error model of the variances."""
        unit, noise, occupancy = problem.span**2, rows.variance_noise, problem.occupancy
        if rows.normaliser == "contributions":
            records = occupancy.records_per_cell
            max_bias = np.where(
                _contributes_wholly(problem, rows),
                variance_share(records - rows.divisors(problem), records),
                variance_sensitivity_bound(_lost(problem, rows)),
            )
            return _renormalised("variance", unit, noise, max_bias)
        share, constant = (
            rows.clipped_share(problem, "variance"),
            constant_error("variance", occupancy),
        )
        return ErrorModel("variance", unit, noise, share, constant, law=problem.request.law)

    def losses(
        self, problem: PlanningProblem, rows: PlanRows, variance: ErrorModel | None = None
    ) -> StatedLosses:
        """Return the losses of the plan."""
        statistics = []
        if "mean" in problem.request.noised:
            statistics.append(_mean_moves(problem, rows))
        if "variance" in problem.request.noised:
            given = rows.divisors(problem), rows.kept(problem, "variance"), rows.variance_noise
            statistics.append(variance_moves(*given, _unclipped(problem, rows, variance)))
        moves = PairMoves(problem.occupancy, tuple(statistics))
        return StatedLosses(moves, self.shared(problem.request.delta), rows.cell_epsilon)

    def stages(self, plan: Decisions, scale: ValueLattice) -> ClippedAllocation:
        """Return the one stage of the plan on the lattice of the records."""
        _check_rows(plan)
        lattice, rows, models = lattice_of(plan, scale), plan.rows, plan.models
        statistics: list[ClippedStatistic] = []
        if "mean" in models:
            mean = _mean(plan, lattice)
            # 64-bit overflow would wrap around silently, and with it the sensitivity.
            mean.check(scale.span_quanta, plan.epsilon, has_squares=False)
            statistics.append(mean)
        if "variance" in models:
            variance = ClippedVariance(
                plan.problem.occupancy,
                lattice,
                rows.variance_noise,
                rows.kept(plan.problem, "variance"),
                models["variance"],
                rows.divisors(plan.problem),
                _unclipped(plan.problem, rows, models["variance"]),
            )
            statistics.append(variance)
        # The meter adds the losses up again from the integers of these very statistics.
        moves = tuple(statistic.moves for statistic in statistics)
        report = MappedMoves(PairMoves(plan.problem.occupancy, moves))
        stage = ClippedStage(tuple(statistics), report, law=plan.problem.request.law)
        return ClippedAllocation(stage, plan.booked)


def _mean(plan: Decisions, lattice: CellLattice) -> ClippedMean | RenormalisedMean:
    """Return the means of a plan."""
    rows, error = plan.rows, plan.models["mean"]
    # In lattice steps and rounded up: the scale that is drawn is the scale that is booked.
    noise = clipped_mean.laplace_scales(lattice.width, rows.noise_scale_records)
    if rows.normaliser == "contributions":
        kept, totals = rows.kept(plan.problem), rows.divisors(plan.problem)
        return RenormalisedMean(plan.problem.occupancy, lattice, noise, kept, totals, error)
    kept = rows.kept(plan.problem, "mean")
    return ClippedMean(plan.problem.occupancy, lattice, noise, kept, error)


def _lost(problem: PlanningProblem, rows: PlanRows) -> Floats:
    """Return the share of each cell that those who are left out can move."""
    work = partial(
        lost_shares, total=problem.occupancy.records_per_cell, contributed=rows.divisors(problem)
    )
    return problem.occupancy.map_cells(partial(work, kept=rows.kept(problem)))


def _renormalised(
    statistic: str, unit: Floats, noise: Floats, max_bias: Floats
) -> RenormalisedErrorModel:
    """Return the error model of a statistic of contributing samples."""
    nothing = np.zeros(noise.size)
    return RenormalisedErrorModel(statistic, unit, noise, nothing, nothing, max_bias=max_bias)


def _contributes_wholly(problem: PlanningProblem, rows: PlanRows) -> Bools:
    """Return in which cells each user contributes all of its records or none."""
    return problem.occupancy.map_cells(partial(contributes_wholly, kept=rows.kept(problem)))


def _mean_moves(problem: PlanningProblem, rows: PlanRows) -> StatisticMoves:
    """Return how far each pair moves its cell's mean."""
    kept, noise = rows.kept(problem, "mean"), rows.noise_scale_records
    if problem.facts is None:
        return clipped_mean.unrounded_mean_moves(kept, noise)
    width = np.maximum(kept.span_quanta, 1.0).astype(np.int64)
    return clipped_mean.mean_moves(width, kept, clipped_mean.laplace_scales(width, noise))


def _unclipped(problem: PlanningProblem, rows: PlanRows, variance: ErrorModel | None) -> Bools:
    """Return in which cells each user contributes all of its samples, or none and is left out."""
    if rows.normaliser == "contributions":
        return _contributes_wholly(problem, rows)
    known = rows.clipped_share(problem, "variance") if variance is None else variance.clipped_share
    return np.equal(known, 0.0)


def _check_rows(plan: Decisions) -> None:
    """Refuse rows under which the loss that the plan states would not hold."""
    noise, caps = plan.rows.noise_scale_records, plan.rows.contribution_cap
    # A stranger may have built the plan: its stated loss holds only if its arrays are sane.
    if not (np.isfinite(noise) & np.where(caps > 0, noise > 0, noise >= 0)).all():
        raise InputError("the plan has a cell that keeps records without noise; plan again.")
    if (caps < 0).any() or (plan.rows.variance_cap < 0).any():
        raise InputError("the plan has a cell that keeps fewer than no records; plan again.")
    # Exact in doubles, so that kept records are exact integers in units of 2^-30.
    parts = plan.rows.contribution_factor * GRAIN
    if not ((parts >= 0) & (parts <= GRAIN) & (parts == np.floor(parts))).all():
        raise InputError(
            "the plan has a factor that is not a multiple of 2^-30 from 0 to 1; plan again."
        )
