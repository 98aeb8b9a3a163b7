"""One private range for the whole map: decisions, errors, losses, and what a release states.

Two quantiles of user means far from the ends of the bounds are found at a small price, but would
clip much; so the interval is widened around its middle. What a cell is off by has three parts:
noise for the width after that, what the weights cost (`user_weights`, with the prior), and what
clipping costs for cells whose middle is off the centre. Quantiles and widening are chosen so that
the sum is least (`range_search`).

The interval's loss is charged in full to every user of the map (`pooled_means`). A prior that does
not fit costs accuracy, never privacy. Stages: `weighted_ranges`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np

from hexveil.accounting.error_model import (
    LN20,
    ErrorModel,
    WeightedVarianceErrorModel,
    constant_error,
    has_single_record,
)
from hexveil.accounting.promise import PARTS, Promise, choices_worth
from hexveil.base.arrays import Bools, Floats, Ints
from hexveil.base.errors import InputError
from hexveil.base.rational import decimal_text
from hexveil.mechanisms.looks import Planned, PrivateStep, Shown, lattice_of, misfit, user_weights
from hexveil.mechanisms.looks.weighted_ranges import OneRangeStages, WeightedRanges
from hexveil.mechanisms.looks.weighted_variance import (
    BITS,
    error_through_mean,
    errors_without_noise,
)
from hexveil.mechanisms.stage_data import CutOff, Outputs, centre_and_radius, to_value_units
from hexveil.model.occupancy import Occupancy
from hexveil.model.pair_columns import Weights
from hexveil.model.public_metadata import ValueLattice
from hexveil.planning.allocation import PlanAllocation, PlanningProblem
from hexveil.planning.request import Request

MAX_WIDTH = 1e6
"""Widths, errors and radii of a range are below this, in spans."""


@dataclass(frozen=True, eq=False)
class PrivateRange(WeightedRanges):
    """User means are clipped to a range that a release finds privately.

    Attributes
    ----------
    epsilon : Fraction
        What finding the interval costs every user.
    quantiles : pair of Fraction
        Shares of user means wanted at or below its ends.
    widening : Fraction
        By how much the interval between them is made wider, around its middle.
    width : float
        Width that is assumed after that, as a part of the span.
    clipping_error : float
        What clipping is assumed to cost on average, for an interval of width 1.
    weight : Weights
        Whole weights of user means; a user's part of a cell's number is its weight over their sum.
    ends : pair of int, or None
        The interval that was found, in quanta above the records' lower bound: after a release.
    span_quanta : int or None
        Width of the records' bounds in quanta: after a release.
    votes : tuple of int
        Noisy votes of the bins of the pooled histogram: after a release.
    total : int
        Votes of all users.
    radius : Fraction or None
        For variances: how far from the interval's middle a user's samples may be on quadratic
        average before they are cut, in halves of its width; at least 1.
    """

    epsilon: Fraction
    quantiles: tuple[Fraction, Fraction]
    widening: Fraction
    width: float
    clipping_error: float
    weight: Weights
    ends: tuple[int, int] | None = None
    span_quanta: int | None = None
    votes: tuple[int, ...] = ()
    total: int = 0
    radius: Fraction | None = None
    mode: ClassVar[Literal["private"]] = "private"
    strategy: ClassVar[str] = "single_stage"

    # ---- checks ----

    def check(self) -> None:
        """Refuse numbers that no plan has: a stranger may have written them."""
        (low, high), numbers = self.quantiles, (self.width, self.clipping_error)
        sane = 0 < low < high < 1 and 1 <= self.widening < MAX_WIDTH and self.width > 0
        if not sane or not all(0 <= number < MAX_WIDTH for number in numbers):
            raise InputError("its interval has quantiles or a width that no plan has.")
        if self.epsilon <= 0:
            raise InputError("the epsilon of its interval must be above 0.")
        if self.radius is not None and not 1 <= self.radius < MAX_WIDTH:
            raise InputError("its interval has a radius that no plan has.")
        if (self.ends, self.span_quanta, self.votes, self.total) != (None, None, (), 0):
            raise InputError("its interval has the outputs of a release, which no plan has.")

    def check_plan(self, rows: PlanAllocation, occupancy: Occupancy, request: Request) -> None:
        """Refuse weights, noise or a radius that no such plan has."""
        self.check_weights(rows)
        has_variance = "variance" in request.noised
        if (self.radius is not None) != has_variance:
            raise misfit()
        if has_variance and ((rows.variance_noise > 0) == has_single_record(occupancy)).any():
            raise InputError("it has a cell without noise for its variance.")

    # ---- errors and losses ----

    def half_width_and_radius(self) -> tuple[float, float]:
        """Return how far samples may be from the middle, as parts of the span: means, and squares.

        Before a release the middle is taken for that of the bounds.
        """
        radius = self.radius or Fraction(1)
        if self.ends is None or self.span_quanta is None:
            half = self.width / 2.0
            return half, max(half, min(float(radius) * half, 0.5))
        _, whole, reached = centre_and_radius(self.ends, self.span_quanta, radius)
        return whole / self.span_quanta, reached / self.span_quanta

    @property
    def half_width_sd(self) -> float:
        """How far an end is assumed from the centre, in deviations of user means."""
        return user_weights.half_width_sd(self.quantiles[0], self.widening)

    @property
    def radius_sd(self) -> float:
        """The radius in deviations of user means, by the prior."""
        half, radius = self.half_width_and_radius()
        return self.half_width_sd * radius / half

    def expected_bias(self) -> Floats:
        """Return the expected bias of each cell under the prior, for a range of width 1."""
        prior = user_weights.user_mean_prior(self.half_width_sd)
        by_weights = user_weights.expected_bias(self.weight, prior)
        return np.asarray(np.hypot(by_weights, self.clipping_error))

    def through_mean(self, noise: Floats, problem: PlanningProblem) -> Floats:
        """Return the expected error of variances by the means' noise and bias, in units of r²."""
        half, radius = self.half_width_and_radius()
        bias, law = self.expected_bias(), problem.request.law
        return error_through_mean(half / radius, self.radius_sd, noise, bias, law)

    def mean_error(self, problem: PlanningProblem, rows: PlanAllocation) -> ErrorModel:
        """Return the error model of the means."""
        width, noise = problem.span * self.width, rows.mean_noise(problem)
        return self.mean_in_width(width, noise, self.expected_bias(), problem.request.law)

    def variance_error(self, problem: PlanningProblem, rows: PlanAllocation) -> ErrorModel:
        """Return the error model of the variances."""
        half, radius = self.half_width_and_radius()
        mean, square = rows.mean_noise(problem), rows.variance_noise
        (expected,) = errors_without_noise(self.weight, (self.radius_sd,))
        return WeightedVarianceErrorModel(
            "variance",
            (problem.span * radius) ** 2,
            square,
            np.zeros_like(square),
            constant_error("variance", problem.occupancy),
            max_bias=user_weights.max_bias(self.weight),
            expected_bias=expected + self.through_mean(mean, problem),
            half_width=half / radius,
            mean_noise=mean,
            # Less than a quantum for each user, and h is a quantum at least.
            rounding=problem.occupancy.users_per_cell / self.weight.totals,
            law=problem.request.law,
        )

    def shared(self, delta: Fraction) -> Promise:
        """Return the loss of every user of the map: whoever is in it may move the range."""
        return choices_worth(self.epsilon, delta)

    def noises(self, problem: PlanningProblem, rows: PlanAllocation) -> tuple[Floats, ...]:
        """Return the noise of each statistic that is drawn."""
        # The mean is needed for the variance as well, and its loss adds to the variance's.
        noises = (rows.mean_noise(problem), rows.variance_noise)
        return noises if "variance" in problem.request.noised else noises[:1]

    # ---- stages ----

    def stages(self, plan: Planned, scale: ValueLattice) -> OneRangeStages:
        """Return the pooled histogram and the cells' numbers, on the lattice of the records."""
        given = self.weighted_mean(plan), lattice_of(plan, scale), plan.booked_losses
        return OneRangeStages(*given, self.shared(plan.request.delta), self, plan)

    def with_ends(self, ends: tuple[int, int], steps: int) -> PrivateRange:
        """Return the same with the ends that a release found."""
        return replace(self, ends=ends, span_quanta=steps, width=(ends[1] - ends[0]) / steps)

    def with_outputs(self, stages: Any, outputs: Outputs) -> PrivateRange:  # noqa: ANN401  its own
        """Return the same with the range and the votes that were released."""
        entries = self.with_ends(stages.released_range(outputs), stages.lattice.steps)
        votes = tuple(stages.histogram.noisy(outputs).tolist())
        return replace(entries, votes=votes, total=stages.pooled_means.total)

    # ---- what a release states ----

    def steps(self, plan: Planned, total: Fraction) -> list[PrivateStep]:
        """Return the histogram with its range, then the cells."""
        span = float(plan.span[0])
        shared = self.shared(plan.request.delta).amount
        ends = self._in_units(plan)
        entries = {
            "epsilon": decimal_text(self.epsilon),
            "quantiles": [decimal_text(quantile) for quantile in self.quantiles],
            "widening": decimal_text(self.widening),
            "lower": ends[0],
            "upper": ends[1],
            "votes": [votes / PARTS for votes in self.votes],
            "total": self.total / PARTS,
        }
        split = {}
        if "variance" in plan.request.noised:
            entries["radius"] = span * self.half_width_and_radius()[1]
            split = {"mean_share": _mean_share(plan)}
        return [
            PrivateStep("clipping_range", shared, entries),
            PrivateStep("cells", total - shared, split),
        ]

    def words(self, plan: Planned, price: Shown, part: Shown) -> str:  # noqa: ARG002
        """Return the price and the assumptions of the range."""
        low, high = (f"{float(quantile):.0%}" for quantile in self.quantiles)
        factor = float(self.widening)
        wider = "" if factor == 1 else f" and widened {factor:g} times"
        squares = ""
        if self.radius is not None:
            squares = (
                f" Second moments are clipped at {float(self.radius):g} half-widths from its "
                f"centre; the mean takes {_mean_share(plan):.0%} of a cell's loss."
            )
        return (
            f"vehicles' averages are clipped to their quantiles {low} and {high}, by a histogram "
            f"released at {price(self.epsilon)}{wider}; assumed width: {self.width:.0%} "
            f"of the span.{squares}"
        )

    def cut_off(self, plan: Planned, numbers: Mapping[str, Ints]) -> dict[str, CutOff]:
        """Return the cells with a number within its noise of an end of the range, or beyond it.

        The noise that is exceeded once in twenty times. An end that is a bound of the records cuts
        nothing off.
        """
        (low, high), steps, totals = *self._found(), self.weight.totals
        noise = plan.request.law.limit95 * plan.mean_noise * (high - low)
        number = numbers["mean"] / totals
        mean = CutOff(
            (number <= low + noise) & (low > 0), (number >= high - noise) & (high < steps)
        )
        entries = {"mean": mean} if "mean" in plan.request.noised else {}
        if "variance" in plan.request.noised:
            entries["variance"] = self._cut_off_squares(plan, numbers["variance"], mean.either)
        return entries

    def _cut_off_squares(self, plan: Planned, noisy: Ints, mean: Bools) -> CutOff:
        """Return the cells with a second moment or a mean that is cut off.

        A mean that is cut off can make the variance too small or too large.
        """
        ends, steps = self._found()
        middle, _, radius = centre_and_radius(ends, steps, self.radius or Fraction(1))
        second_moment = noisy / (self.weight.totals * 2.0**BITS)
        # Only the upper end of second moments is clipped: their lower end is 0.
        reached = second_moment >= 1.0 - LN20 * plan.allocation.variance_noise
        return CutOff(mean, mean | (reached & (radius < max(middle, steps - middle))))

    def _in_units(self, plan: Planned) -> tuple[float, float]:
        """Return the ends that a release found in value units."""
        ends, steps = self._found()
        low, high = (
            to_value_units(end, steps, float(plan.lower[0]), float(plan.span[0])) for end in ends
        )
        return low, high

    def _found(self) -> tuple[tuple[int, int], int]:
        """Return the ends that a release found, and the width of the bounds; in quanta."""
        if self.ends is None or self.span_quanta is None:
            raise InputError("the interval is found by a release, not before.")
        return self.ends, self.span_quanta


def _mean_share(plan: Planned) -> float:
    """Return the share of the cells' cost that their means take, requested or not."""
    # Under a δ shares of squares of μ, which fall with the square of the noise.
    power = plan.request.law.power
    mean, square = plan.mean_noise**power, plan.allocation.variance_noise**power
    # The variance of one record is known: such a cell spends all on its mean.
    return float(np.where(square > 0, square / (mean + square), 1.0).mean())
