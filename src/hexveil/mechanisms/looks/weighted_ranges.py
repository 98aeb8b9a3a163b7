"""Weighted means of user means in clipping ranges: common base of their kinds and stages.

Ranges are found by a release, from a pooled histogram (`one_range`, `cell_ranges`), or follow from
earlier releases (`remembered_ranges`). A cell costs the same in every range: proofs in
`weighted_mean`, `weighted_variance`, `pooled_means` and `cell_stages`. A map is one data set: of a
batch there is one row.

One range for all cells (`OneRangeStages`) lies between two quantiles of a pooled histogram of user
means, widened around its middle; for means alone it is a wider one where that promises a tenth less
error (`pooled_means`).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from hexveil.accounting.error_model import MAX_CONSTANT_ERROR, ErrorModel, WeightedMeanErrorModel
from hexveil.accounting.noise_law import GAUSSIAN, NoiseLaw
from hexveil.accounting.promise import Promise
from hexveil.base.arrays import Floats, Ints
from hexveil.base.errors import InputError
from hexveil.mechanisms import looks, stage_data
from hexveil.mechanisms.contract import DONE, NoisyTotals
from hexveil.mechanisms.looks import pooled_means
from hexveil.mechanisms.looks.clipped_mean import CELLS, CellLattice
from hexveil.mechanisms.looks.user_weights import max_bias
from hexveil.mechanisms.looks.weighted_mean import WeightedMean, WeightedVotes
from hexveil.mechanisms.looks.weighted_variance import WeightedVariance
from hexveil.mechanisms.pooled_law import MeanView, PooledLaw
from hexveil.model.occupancy import Occupancy
from hexveil.model.pair_columns import Weights
from hexveil.planning.allocation import PlanAllocation, PlanningProblem
from hexveil.planning.request import Request
from hexveil.smoothing.user_mean_law import CellDesign, ClippedLook, UserMeanSpread

# ---- kinds ----


class WeightedRanges(looks.ClippingKind):
    """Base of kinds that publish weighted means of cells; of means alone by default.

    Attributes
    ----------
    weight : Weights
        Whole weights of user means; a user's part of a cell's number is its weight over their sum.
    """

    weight: Weights

    def fits(self, occupancy: Occupancy) -> bool:
        """Return whether its weights are those of these cells and users."""
        return self.weight.fits(occupancy)

    def check_plan(self, rows: PlanAllocation, occupancy: Occupancy, request: Request) -> None:  # noqa: ARG002
        """Refuse weights, noise or statistics that no such plan has."""
        self.check_weights(rows)
        if request.noised != ("mean",):
            raise looks.misfit()

    def check_weights(self, rows: PlanAllocation) -> None:
        """Refuse cells without weights or noise, and weights that leave 64 bits with sums."""
        if not self.weight.is_sound():
            raise InputError("it has weights that no plan has, or a cell without weights.")
        if not (rows.noise_scale_records > 0).all():
            raise InputError("it has a cell without noise.")

    def noises(self, problem: PlanningProblem, rows: PlanAllocation) -> tuple[Floats, ...]:
        """Return the noise of each statistic that is drawn."""
        return (rows.mean_noise(problem),)

    def losses(self, problem: PlanningProblem, rows: PlanAllocation) -> looks.StatedLosses:
        """Return the losses of the plan."""
        shared = self.shared(problem.request.delta)
        return looks.weighted_losses(
            problem.occupancy, self.weight, self.noises(problem, rows), shared
        )

    def mean_in_width(
        self, width: Floats, noise: Floats, expected_bias: Floats, law: NoiseLaw
    ) -> WeightedMeanErrorModel:
        """Return the error model of means in ranges of these widths, with noise for a width of 1.

        Worst-case bias and bound are about user means clipped to the range.
        """
        return WeightedMeanErrorModel(
            "mean",
            width,
            noise,
            np.zeros_like(noise),
            np.full(noise.size, MAX_CONSTANT_ERROR["mean"]),
            max_bias=max_bias(self.weight),
            expected_bias=expected_bias,
            law=law,
        )

    def weighted_mean(self, plan: looks.Planned) -> WeightedMean:
        """Return the means of a plan, checked."""
        mean = WeightedMean(plan.problem.occupancy, self.weight, plan.mean_noise)
        mean.check()
        return mean


# ---- stages ----


@dataclass(frozen=True, eq=False)
class WeightedStages(looks.ReleaseAllocation):
    """Base of stages of weighted means in clipping ranges.

    Attributes
    ----------
    mean : WeightedMean
        Its noise is that of cells with all of their loss for one number.
    lattice : CellLattice
        Of cells that all have the records' bounds.
    booked : ndarray of float, shape (n_users,)
        Loss of each user, rounded up.
    """

    mean: WeightedMean
    lattice: CellLattice
    booked: Floats

    @property
    def law(self) -> NoiseLaw:
        """Noise of all numbers."""
        raise NotImplementedError

    @property
    def bounds(self) -> tuple[float, float]:
        """Bounds of the records, in value units."""
        low = self.lattice.lower_value
        return low, low + self.lattice.quantum * self.lattice.steps

    def grids(self, models: Mapping[str, ErrorModel]) -> dict[str, stage_data.EstimateGrid]:  # noqa: ARG002
        """Return where published means can lie."""
        return {"mean": self.mean.grid(self.lattice)}

    def check_release(self, epsilon: float, *, has_squares: bool) -> None:  # noqa: ARG002
        """Refuse narrower bounds, and numbers that leave 64 bits."""
        self.mean.check_bounds(self.lattice)
        self.check_room(epsilon)

    def check_room(self, epsilon: float) -> None:
        """Refuse sums and noise that do not fit."""
        self.mean.check_room(self.lattice.steps, epsilon)

    def means(self, outputs: stage_data.Outputs) -> Floats:
        """Return the published means, with no clipping undone."""
        return self.lattice.in_units(self.mean.averages(self.numbers(outputs)["mean"]))

    def numbers(self, outputs: stage_data.Outputs) -> dict[str, Ints]:
        """Return the noisy integer of each cell."""
        return {"mean": outputs[CELLS][0]}

    def mean_errors(self, outputs: stage_data.Outputs) -> ErrorModel:
        """Return the error model of the means, for the ranges that were released."""
        raise NotImplementedError

    def decode(self, outputs: stage_data.Outputs) -> tuple[stage_data.Decoded, ...]:
        """Return the published means."""
        grid, errors = self.mean.grid(self.lattice), self.mean_errors(outputs)
        return (stage_data.Decoded("mean", self.means(outputs)[None], grid, errors),)

    # ---- what a posterior is made of ----

    def look(self, number: Ints, lower: Floats, upper: Floats, scale: Floats) -> ClippedLook:
        """Return noisy numbers of cells, with their ranges and their scales in value units."""
        noisy = self.lattice.in_units(self.mean.averages(number))
        return ClippedLook(noisy, lower, upper, scale, is_gaussian=self.law == GAUSSIAN)

    def looks(self, outputs: stage_data.Outputs) -> tuple[ClippedLook, ...]:
        """Return the independent noisy numbers of each cell, for its posterior."""
        raise NotImplementedError

    def user_mean_spread(self, outputs: stage_data.Outputs) -> UserMeanSpread:
        """Return the spread of user means that was released, in value units."""
        raise NotImplementedError

    def user_mean_law(self, outputs: stage_data.Outputs) -> PooledLaw | None:  # noqa: ARG002  of histograms
        """Return the released law of user means, in value units; None where there is none."""
        return None

    def view(self, outputs: stage_data.Outputs) -> MeanView | None:
        """Return all looks at the cells."""
        weight = self.mean.weight
        votes = WeightedVotes(weight).cell_votes
        return MeanView(
            self.looks(outputs), CellDesign.of(weight), self.user_mean_spread(outputs), self.bounds,
            votes / votes.sum(), self.user_mean_law(outputs),
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class PooledStages(WeightedStages):
    """Base of those in ranges that a pooled histogram of user means leads to: the first stage.

    Attributes
    ----------
    histogram_promise : Pure or Squares
        Loss of a user of all votes by the pooled histogram.
    """

    histogram_promise: Promise
    n_decided: ClassVar[int]
    """Whole numbers that are stored with the noisy votes."""

    @property
    def law(self) -> NoiseLaw:
        """Noise of all numbers."""
        return self.histogram_promise.law

    @cached_property
    def pooled_means(self) -> pooled_means.PooledMeans:
        """The pooled histogram, with votes and bins."""
        return pooled_means.PooledMeans.of(
            self.mean.weight, self.lattice.steps, self.histogram_promise
        )

    @cached_property
    def histogram(self) -> NoisyTotals:
        """The first stage, which decides by its law."""

        def decide(noisy: Ints) -> Ints:
            return self.decide(self.pooled_means.law(noisy))

        return replace(self.pooled_means.histogram, decide=decide, n_decided=self.n_decided)

    def decide(self, law: PooledLaw) -> Ints:
        """Return the figures that follow from the law of user means, in whole quanta."""
        raise NotImplementedError

    def decided(self, outputs: stage_data.Outputs) -> list[int]:
        """Return the numbers that were decided."""
        decided: list[int] = self.histogram.decisions(outputs).tolist()
        return decided

    def user_mean_law(self, outputs: stage_data.Outputs) -> PooledLaw:
        """Return the released law of user means, in value units."""
        law = self.pooled_means.law(self.histogram.noisy(outputs))
        return replace(law, edges=self.bounds[0] + self.lattice.quantum * law.edges)


@dataclass(frozen=True, eq=False)
class OneRangeStages(PooledStages):
    """Public plan of weighted means in a private clipping range.

    Attributes
    ----------
    kind : PrivateRange
        Quantiles of user means, widening and radius.
    plan : MomentComponent
        Statistics that are published; the mean is measured in any case.
    """

    kind: Any
    plan: looks.Planned
    n_decided: ClassVar[int] = 4

    @cached_property
    def variances(self) -> tuple[WeightedVariance, ...]:
        """One, or none."""
        if "variance" not in self.plan.error_models:
            return ()
        # A range for means alone has no radius; the squares are then those within the range.
        radius, noise = Fraction(self.kind.radius or 1), self.plan.allocation.variance_noise
        return (WeightedVariance(self.mean, noise, radius, self.law),)

    def check_release(self, epsilon: float, *, has_squares: bool) -> None:
        """Refuse the same, and missing sums of squares."""
        super().check_release(epsilon, has_squares=has_squares)
        for variance in self.variances:
            variance.check(epsilon, has_squares=has_squares)

    def grids(self, models: Mapping[str, ErrorModel]) -> dict[str, stage_data.EstimateGrid]:
        """Return where published numbers can lie, by statistic."""
        grids = super().grids(models)
        for variance in self.variances:
            grids["variance"] = variance.grid(models["variance"].unit)
        return grids

    def next_stage(self, earlier: stage_data.Outputs) -> NoisyTotals | None:
        """Return the pooled histogram, then the cells' own numbers."""
        if not earlier:
            return self.histogram
        return self._cells(self.released_range(earlier)) if len(earlier) == 1 else DONE

    def _cells(self, ends: tuple[int, int]) -> NoisyTotals:
        """Return weighted sums of user means in the range, and of second moments, in one draw."""
        mean, variances, width = self.mean, self.variances, ends[1] - ends[0]

        # Means first: the order of the stored row, which noise, sensitivity and measure share.
        def total(sums: stage_data.PrivateSums) -> Ints:
            squares = (item.measure(sums, ends, self.lattice.steps) for item in variances)
            return np.concatenate([mean.measure(sums, ends), *squares], axis=1)

        scales = np.concatenate([mean.scales(width), *(item.scales for item in variances)])
        report = mean.sensitivity(mean.moves(width), *(item.moves for item in variances))
        return NoisyTotals(CELLS, scales.size, self.law, report, total, scales=scales)

    def released_range(self, outputs: stage_data.Outputs) -> tuple[int, int]:
        """Return the ends in quanta above the lower bound of the records."""
        *_, low, high = self.decided(outputs)
        return low, high

    def view(self, outputs: stage_data.Outputs) -> MeanView | None:
        """Return one look at every cell in the range, if means are published."""
        return super().view(outputs) if "mean" in self.plan.error_models else None

    def looks(self, outputs: stage_data.Outputs) -> tuple[ClippedLook, ...]:
        """Return the look at every cell."""
        number, lower = self.numbers(outputs)["mean"], self.bounds[0]
        span = self.lattice.quantum * self.lattice.steps
        low, high = (
            np.full(number.size, stage_data.to_value_units(end, self.lattice.steps, lower, span))
            for end in self.released_range(outputs)
        )
        return (self.look(number, low, high, self.mean.noise * (high - low)),)

    def user_mean_spread(self, outputs: stage_data.Outputs) -> UserMeanSpread:
        """Return the spread that the quantiles show, before the range was widened."""
        lower, span = self.bounds[0], self.lattice.quantum * self.lattice.steps
        below, above, *_ = self.decided(outputs)
        deviations = stage_data.STANDARD_NORMAL.inv_cdf(1.0 - float(self.kind.quantiles[0]))
        deviation = span * (above - below) / (2.0 * deviations * self.lattice.steps)
        centre = lower + span * (below + above) / (2.0 * self.lattice.steps)
        return UserMeanSpread(centre, deviation, deviation)

    def decide(self, law: PooledLaw) -> Ints:
        """Return the quantiles, then the range."""
        steps = self.lattice.steps
        low, high = (law.quantile(float(item)) for item in self.kind.quantiles)
        first = min(max(math.floor(low), 0), steps - 1)
        found = first, max(min(math.ceil(high), steps), first + 1)
        ends = stage_data.widened(found, steps, self.kind.widening)
        if not self.variances:
            squares = CellDesign.of(self.mean.weight).weight_squares
            noise = self.mean.noise * math.sqrt(self.law.variance / 2.0)
            usual = pooled_means.to_bounds(law, float(ends[0]), float(ends[1]), float(steps))
            wider = pooled_means.wider_range(law, usual, noise, squares, float(steps))
            ends = math.floor(wider[0]), math.ceil(wider[1])
        return np.array([*found, *ends])

    def numbers(self, outputs: stage_data.Outputs) -> dict[str, Ints]:
        """Return the noisy integers of each statistic."""
        # The mean is drawn whether or not it is published: a variance is decoded with it.
        names = ("mean", "variance")[: 1 + len(self.variances)]
        columns = np.split(outputs[CELLS][0], len(names))
        return dict(zip(names, columns, strict=True))

    def decode(self, outputs: stage_data.Outputs) -> tuple[stage_data.Decoded, ...]:
        """Return the published statistics."""
        ends, steps = self.released_range(outputs), self.lattice.steps
        numbers = self.numbers(outputs)
        kind = self.kind.with_ends(ends, steps)
        errors = kind.error_models(self.plan.problem, self.plan.allocation)
        grids, decoded = self.grids(errors), {"mean": self.means(outputs)}
        for variance in self.variances:
            # A whole number of steps, so that the published variance lies on its grid.
            in_steps = variance.estimates(numbers["variance"], numbers["mean"], ends, steps)
            decoded["variance"] = in_steps * grids["variance"].step
        return tuple(
            stage_data.Decoded(name, decoded[name][None], grids[name], error)
            for name, error in errors.items()
        )
