"""One private range for the whole map: weights and noise, errors, losses and stages."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np

from hexveil.accounting.error_model import (
    LN20,
    ErrorModel,
    WeightedMeanErrorModel,
    constant_error,
    has_single_record,
)
from hexveil.accounting.promise import PARTS, Promise, choices_worth
from hexveil.base.arrays import Bools, Floats, Ints
from hexveil.base.errors import InputError
from hexveil.base.rational import decimal_text
from hexveil.mechanisms.contract import Outputs
from hexveil.mechanisms.estimates import CutOff, centre_and_radius
from hexveil.mechanisms.weighted.weighted_allocation import WeightedAllocation
from hexveil.mechanisms.weighted.weighted_mean import WeightedMean
from hexveil.mechanisms.weighted.weighted_variance import BITS, WeightedVariance
from hexveil.model.occupancy import Occupancy
from hexveil.model.public_metadata import ValueLattice
from hexveil.planning.allocation import PlanAllocation, weighted_rows
from hexveil.planning.calibration import fit_noise
from hexveil.planning.clipping_range.clipping import (
    SD_PER_MEAN_ABS,
    ClippingKind,
    Decisions,
    Planned,
    PrivateStep,
    Shown,
    StatedLosses,
    check_weights,
    lattice_of,
    misfit,
    weighted_losses,
)
from hexveil.planning.clipping_range.fast_prediction import RangeSearch
from hexveil.planning.clipping_range.private_range import (
    PRIOR_SD,
    PrivateClippingRange,
    half_width_sd,
    user_mean_prior,
)
from hexveil.planning.clipping_range.variance_range import (
    plan_variance_range,
    variance_error_model,
)
from hexveil.planning.plan_rows import PlanningProblem, PlanRows
from hexveil.planning.request import Request
from hexveil.smoothing import ClippingRange, skewness_bias


@dataclass(frozen=True, eq=False)
class PrivateRange(ClippingKind):
    """User means are clipped to a range that a release finds privately."""

    range: PrivateClippingRange
    mode: ClassVar[Literal["private"]] = "private"
    strategy: ClassVar[str] = "single_stage"

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

    def with_outputs(self, stages: Any, outputs: Outputs) -> PrivateRange:
        """Return the same with the range and the votes that were released."""
        found = self.range.with_ends(stages.released_range(outputs), stages.lattice_steps)
        votes = tuple(stages.votes(outputs).tolist())
        return PrivateRange(replace(found, votes=votes, total=stages.pooled_means.total))

    # ---- what a release states ----

    def steps(self, plan: Planned, total: Fraction) -> list[PrivateStep]:
        """Return the histogram with its range, then the cells."""
        interval, span = self.range, float(plan.span[0])
        shared = self.shared(plan.request.delta).amount
        ends = interval.ends_in_units(float(plan.lower[0]), span)
        found = {
            "epsilon": decimal_text(interval.epsilon),
            "quantiles": [decimal_text(quantile) for quantile in interval.quantiles],
            "widening": decimal_text(interval.widening),
            "lower": ends[0],
            "upper": ends[1],
            "votes": [votes / PARTS for votes in interval.votes],
            "total": interval.total / PARTS,
        }
        split = {}
        if "variance" in plan.request.noised:
            found["radius"] = span * interval.half_width_and_radius()[1]
            split = {"mean_share": self._mean_share(plan)}
        return [
            PrivateStep("clipping_range", shared, found),
            PrivateStep("cells", total - shared, split),
        ]

    @staticmethod
    def _mean_share(plan: Planned) -> float:
        """Return the share of the cells' cost that their means take, requested or not."""
        # Under a δ shares of squares of μ, which fall with the square of the noise.
        power = plan.request.law.power
        mean, square = plan.mean_noise**power, plan.allocation.variance_noise**power
        # The variance of one record is known: such a cell spends all on its mean.
        return float(np.where(square > 0, square / (mean + square), 1.0).mean())

    def words(self, plan: Planned, price: Shown, part: Shown) -> str:  # noqa: ARG002
        """Return the price and the assumptions of the range."""
        interval = self.range
        low, high = (f"{float(quantile):.0%}" for quantile in interval.quantiles)
        factor = float(interval.widening)
        wider = "" if factor == 1 else f" and widened {factor:g} times"
        squares = ""
        if interval.radius is not None:
            # The scales of both have the same ratio in every cell, and so have their losses.
            mean, square = float(plan.mean_noise[0]), float(plan.allocation.variance_noise[0])
            squares = (
                f" Second moments are clipped at {float(interval.radius):g} half-widths from its "
                f"centre; the mean takes {square / (mean + square):.0%} of a cell's loss."
            )
        return (
            f"users' averages are clipped to their quantiles {low} and {high}, by a histogram "
            f"released at {price(interval.epsilon)}{wider}; assumed width: {interval.width:.0%} "
            f"of the span.{squares}"
        )

    def cut_off(self, plan: Planned, numbers: Mapping[str, Ints]) -> dict[str, CutOff]:
        """Return the cells with a number within its noise of an end of the range, or beyond it.

        The noise that is exceeded once in twenty times. An end that is a bound of the records cuts
        nothing off.
        """
        (low, high), steps, totals = *self._found(), self.range.weight.totals
        noise = plan.request.law.limit95 * plan.mean_noise * (high - low)
        number = numbers["mean"] / totals
        mean = CutOff(
            (number <= low + noise) & (low > 0), (number >= high - noise) & (high < steps)
        )
        found = {"mean": mean} if "mean" in plan.request.noised else {}
        if "variance" in plan.request.noised:
            found["variance"] = self._cut_off_squares(plan, numbers["variance"], mean.either)
        return found

    def _cut_off_squares(self, plan: Planned, noisy: Ints, mean: Bools) -> CutOff:
        """Return the cells with a second moment or a mean that is cut off.

        A mean that is cut off can make the variance too small or too large.
        """
        ends, steps = self._found()
        middle, _, radius = centre_and_radius(ends, steps, self.range.radius or Fraction(1))
        second_moment = noisy / (self.range.weight.totals * 2.0**BITS)
        # Only the upper end of second moments is clipped: their lower end is 0.
        reached = second_moment >= 1.0 - LN20 * plan.allocation.variance_noise
        return CutOff(mean, mean | (reached & (radius < max(middle, steps - middle))))

    def _found(self) -> tuple[tuple[int, int], int]:
        """Return the ends that a release found, and the width of the bounds; in quanta."""
        assert self.range.ends is not None and self.range.span_quanta is not None  # noqa: S101, PT018
        return self.range.ends, self.range.span_quanta

    def smoothing_bias(
        self, plan: Planned, error: WeightedMeanErrorModel
    ) -> tuple[Floats, ClippingRange | None]:
        """Return bias and range of means that were clipped to a single released range."""
        interval, ends = self.range, self.range.ends
        if error.name != "mean" or ends is None:
            return super().smoothing_bias(plan, error)
        quantile, widening = interval.quantiles[0], interval.widening
        half_width = half_width_sd(quantile, widening)
        width, span = error.unit[0], float(plan.span[0])
        # The expected bias has both; that of clipping is modelled by the range, so it is taken out.
        weights = SD_PER_MEAN_ABS * np.sqrt(
            np.maximum(error.expected_bias**2 - interval.clipping_error**2, 0.0)
        )
        # Nothing was clipped: users' averages are as wide as the prior says, not as the bounds.
        if ends == (0, interval.span_quanta):
            return weights * min(width, 2.0 * half_width * PRIOR_SD * span), None
        low, high = interval.ends_in_units(float(plan.lower[0]), span)
        clipping_range = ClippingRange(
            low if ends[0] > 0 else -math.inf,
            high if ends[1] != interval.span_quanta else math.inf,
            width * user_mean_prior(half_width).within_cell_sd,
        )
        skewness = skewness_bias(float(quantile), float(widening))
        return width * np.hypot(weights, skewness), clipping_range


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
