"""One private range for the whole map: weights and noise, errors, losses and stages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar, Literal

import numpy as np

from hexveil.accounting.error_model import (
    ErrorModel,
    WeightedMeanErrorModel,
    constant_error,
    has_single_record,
)
from hexveil.accounting.promise import Promise, choices_worth
from hexveil.base.errors import InputError
from hexveil.mechanisms.contract import Outputs
from hexveil.mechanisms.weighted.weighted_allocation import WeightedAllocation
from hexveil.mechanisms.weighted.weighted_mean import WeightedMean
from hexveil.mechanisms.weighted.weighted_variance import WeightedVariance
from hexveil.model.occupancy import Occupancy
from hexveil.model.public_metadata import ValueLattice
from hexveil.planning.allocation import PlanAllocation, weighted_rows
from hexveil.planning.calibration import fit_noise
from hexveil.planning.clipping_range.clipping import (
    ClippingKind,
    Decisions,
    ReleaseAllocation,
    StatedLosses,
    check_weights,
    lattice_of,
    misfit,
    weighted_losses,
)
from hexveil.planning.clipping_range.fast_prediction import RangeSearch
from hexveil.planning.clipping_range.private_range import PrivateClippingRange
from hexveil.planning.clipping_range.variance_range import (
    plan_variance_range,
    variance_error_model,
)
from hexveil.planning.plan_rows import PlanningProblem, PlanRows
from hexveil.planning.request import Request


@dataclass(frozen=True, eq=False)
class PrivateRange(ClippingKind):
    """User means are clipped to a range that a release finds privately."""

    range: PrivateClippingRange
    mode: ClassVar[Literal["private"]] = "private"

    def fits(self, occupancy: Occupancy) -> bool:
        """Return whether its weights are those of these cells and users."""
        return self.range.weight.fits(occupancy)

    def check_plan(self, rows: PlanRows, occupancy: Occupancy, request: Request) -> None:
        """Refuse weights, noise or a radius that no such plan has."""
        check_weights(self.range.weight, rows)
        has_variance = "variance" in request.noised
        if (self.range.radius is not None) != has_variance:
            raise misfit()
        if has_variance and ((rows.variance_noise > 0) == has_single_record(occupancy)).any():
            raise InputError("it has a cell without noise for its variance.")

    def mean_error(self, problem: PlanningProblem, rows: PlanRows) -> ErrorModel:
        """Return the error model of the means."""
        noise = rows.mean_noise(problem)
        return WeightedMeanErrorModel(
            "mean",
            problem.span * self.range.width,
            noise,
            np.zeros_like(noise),
            constant_error("mean", problem.occupancy),
            max_bias=self.range.max_bias(),
            expected_bias=self.range.expected_bias(),
            law=problem.request.law,
        )

    def variance_error(self, problem: PlanningProblem, rows: PlanRows) -> ErrorModel:
        """Return the error model of the variances."""
        noises = rows.mean_noise(problem), rows.variance_noise
        facts = problem.occupancy, problem.span
        return variance_error_model(self.range, *facts, noises, problem.request.law)

    def shared(self, delta: Fraction) -> Promise:
        """Return the loss of every user of the map: whoever is in it may move the range."""
        return choices_worth(self.range.epsilon, delta)

    def losses(
        self,
        problem: PlanningProblem,
        rows: PlanRows,
        variance: ErrorModel | None = None,  # noqa: ARG002  as of other kinds
    ) -> StatedLosses:
        """Return the losses of the plan."""
        # The mean is needed for the variance as well, and its loss adds to the variance's.
        noises = (rows.mean_noise(problem), rows.variance_noise)
        drawn = noises if "variance" in problem.request.noised else noises[:1]
        shared = self.shared(problem.request.delta)
        return weighted_losses(problem.occupancy, self.range.weight, drawn, shared)

    def stages(self, plan: Decisions, scale: ValueLattice) -> WeightedAllocation:
        """Return the pooled histogram and the cells' numbers, on the lattice of the records."""
        interval, request = self.range, plan.problem.request
        occupancy, noise = plan.problem.occupancy, plan.rows.mean_noise(plan.problem)
        mean = WeightedMean(occupancy, interval.weight, noise)
        mean.check()
        variances: tuple[WeightedVariance, ...] = ()
        if "variance" in plan.models:
            # A range for means alone has no radius; the squares are then those within the range.
            radius, noise = Fraction(interval.radius or 1), plan.rows.variance_noise
            variances = (WeightedVariance(mean, noise, radius, request.law),)
        return WeightedAllocation(
            self.shared(request.delta),
            interval.quantiles,
            interval.widening,
            mean,
            variances,
            tuple(plan.models),
            lattice_of(plan, scale),
            scale.span_quanta,
            plan.booked,
            _FoundRangeErrors(plan, self, scale.span_quanta),
            law=request.law,
        )

    def with_outputs(self, stages: ReleaseAllocation, outputs: Outputs) -> PrivateRange:
        """Return the same with the range and the votes that were released."""
        assert isinstance(stages, WeightedAllocation)  # noqa: S101  made by `stages`
        found = self.range.with_ends(stages.released_range(outputs), stages.lattice_steps)
        votes = tuple(stages.votes(outputs).tolist())
        return PrivateRange(replace(found, votes=votes, total=stages.pooled_means.total))


@dataclass(frozen=True, eq=False)
class _FoundRangeErrors:
    """Error models of a plan with a released range."""

    plan: Decisions
    clipping: PrivateRange
    lattice_steps: int

    def __call__(self, ends: tuple[int, int]) -> Mapping[str, ErrorModel]:
        """Return the error model of each statistic for this range, in quanta."""
        found = PrivateRange(self.clipping.range.with_ends(ends, self.lattice_steps))
        return found.error_models(self.plan.problem, self.plan.rows)


def allocate_with_range(problem: PlanningProblem, promise: Promise) -> PlanAllocation:
    """Return weights and noise under one range, for means, or for variances too."""
    occupancy, request = problem.occupancy, problem.request
    assert request.epsilon is not None  # noqa: S101  targets are met at an epsilon that is tried
    search = RangeSearch(occupancy, promise, request.epsilon, request.range_share)
    if "variance" in request.noised:
        both = plan_variance_range(search, request)
        rows = weighted_rows(occupancy, PrivateRange(both.interval), both.mean, both.variance)
    else:
        best, rough = search.rough()
        interval, weights = search.interval(best, begin=rough.rates)
        rows = weighted_rows(occupancy, PrivateRange(interval), weights.noise)
    return fit_noise(problem, promise, rows)
