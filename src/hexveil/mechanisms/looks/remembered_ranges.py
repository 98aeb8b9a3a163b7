"""Ranges of cells from the forecast of earlier releases: nothing is spent on finding them.

Whoever publishes every day has released much about a cell already. A forecast by those numbers
(publishing/memory/) states where the cell's average will lie, and how surely; user means are
clipped to a range around it (`forecast_widths`). Weights
and noise are those of the other ranges (`user_weights`), in units of each cell's width; a cell
counts less the further its noise exceeds p, since the forecast alone will say as much.

One stage: the weighted sum of user means in the cell's range (`weighted_mean`), of sensitivity
W R and noise of scale R ΣW r, R the range in quanta.

Neighbours: all values of one user, in all its cells at once, change within the bounds; users and
counts stay. Loss: W / (r ΣW) for each cell, in whatever range, which is what is booked.
The ranges are part of the plan, and the plan is a function of public facts and of outputs of
earlier releases alone. Given these it is a plan like any other: losses add up over releases
whatever earlier outputs chose (docs/understand/guarantees.md). A wrong forecast costs accuracy,
never privacy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np

from hexveil.accounting.error_model import ErrorModel
from hexveil.accounting.noise_law import NoiseLaw
from hexveil.accounting.promise import Promise
from hexveil.base.arrays import Floats, Ints
from hexveil.base.errors import InputError
from hexveil.mechanisms import looks
from hexveil.mechanisms.contract import DONE, NoisyTotals
from hexveil.mechanisms.forecast_widths import MULTIPLES, SHAPES, choose_half_widths
from hexveil.mechanisms.looks import user_weights
from hexveil.mechanisms.looks.clipped_mean import CELLS
from hexveil.mechanisms.looks.weighted_ranges import WeightedRanges, WeightedStages
from hexveil.mechanisms.stage_data import Outputs
from hexveil.model.occupancy import Occupancy
from hexveil.model.pair_columns import Weights
from hexveil.model.public_metadata import ValueLattice
from hexveil.planning.allocation import PlanAllocation, PlanningProblem, weighted_rows
from hexveil.planning.optimizers.calibration import fit_noise
from hexveil.planning.request import Request
from hexveil.smoothing.user_mean_law import CellDesign, ClippedLook, UserMeanSpread

ROUNDS = 2
"""Searches for weights: for the widths and the importance of cells that the one before led to."""


@dataclass(frozen=True, eq=False)
class RememberedRanges(WeightedRanges):
    """User means are clipped to ranges of their cells that earlier releases led to.

    Attributes
    ----------
    weight : Weights
        Whole weights of user means; a user's part of a cell's number is its weight over their sum.
    lower, upper : ndarray of int64, shape (n_cells,)
        Range of each cell, in quanta above the records' lower bound.
    span_quanta : int
        Width of the records' bounds.
    centre, pooled, within : float
        Middle of the cells, deviation of all user means, and that within a cell, as earlier
        releases say; value units.
    """

    weight: Weights
    lower: Ints
    upper: Ints
    span_quanta: int
    centre: float
    pooled: float
    within: float
    mode: ClassVar[Literal["remembered"]] = "remembered"
    strategy: ClassVar[str] = "remembered_ranges"
    borrows: ClassVar[bool] = True

    def check(self) -> None:
        """Refuse numbers that no plan has: a stranger may have written them."""
        inside = (self.lower >= 0) & (self.upper <= self.span_quanta)
        if not (inside & (self.lower < self.upper)).all():
            raise InputError("it has a range of a cell that is empty, or not within the bounds.")
        if not (math.isfinite(self.centre) and 0 < self.within <= self.pooled < math.inf):
            raise InputError("its ranges rest on deviations that no forecast has.")

    def fits(self, occupancy: Occupancy) -> bool:
        """Return whether its arrays are those of these cells and users."""
        sizes = {self.lower.size, self.upper.size}
        return super().fits(occupancy) and sizes == {occupancy.n_cells}

    def check_plan(self, rows: PlanAllocation, occupancy: Occupancy, request: Request) -> None:
        """Refuse weights, noise, statistics or a history that no such plan has."""
        super().check_plan(rows, occupancy, request)
        if not request.history:
            raise looks.misfit()

    @property
    def width(self) -> Floats:
        """Width of each cell's range, as a part of the span."""
        return np.asarray((self.upper - self.lower) / self.span_quanta)

    def mean_error(self, problem: PlanningProblem, rows: PlanAllocation) -> ErrorModel:
        """Return the error model of the means."""
        noise, width = rows.mean_noise(problem), problem.span * self.width
        within = self.within / width
        # How much of the users' law a range of these multiples of S hides, between the tables'.
        hidden = np.exp(np.interp(0.5 / within, MULTIPLES, np.log(SHAPES)))
        shape = hidden * within * np.sqrt(CellDesign.of(self.weight).weight_squares)
        by_weights = user_weights.expected_bias(
            self.weight, user_weights.UserMeanPrior(within, user_weights.WEIGHT_CONFOUNDING)
        )
        return self.mean_in_width(width, noise, np.hypot(by_weights, shape), problem.request.law)

    def stages(self, plan: looks.Planned, scale: ValueLattice) -> RememberedStages:
        """Return the one stage, on the lattice of the records."""
        if scale.span_quanta != self.span_quanta:
            raise InputError("the ranges of the plan are for other bounds; plan again.")
        given = self.weighted_mean(plan), looks.lattice_of(plan, scale), plan.booked_losses
        return RememberedStages(*given, self, plan.error_models["mean"])

    # ---- what a release states ----

    def steps(self, plan: looks.Planned, total: Fraction) -> list[looks.PrivateStep]:
        """Return the cells: nothing else looks at values."""
        return [looks.PrivateStep("cells", total, {"remembered": len(plan.request.history)})]

    def cell_entries(self, plan: looks.Planned) -> dict[str, list[Any]]:
        """Return the clipping range of each cell, in value units."""
        moved = np.zeros(self.lower.size, dtype=bool)
        return looks.stated_ranges(plan, self.span_quanta, self.lower, self.upper, moved)

    def words(self, plan: looks.Planned, price: looks.Shown, part: looks.Shown) -> str:  # noqa: ARG002
        """Return the number of maps behind the ranges."""
        number = len(plan.request.history)
        maps = "an earlier map" if number == 1 else f"{number} earlier maps"
        return f"one for each cell, by the forecast of {maps}, at no cost."


@dataclass(frozen=True, eq=False)
class RememberedStages(WeightedStages):
    """The one stage of weighted means in ranges of cells that are public beforehand.

    Attributes
    ----------
    ranges : RememberedRanges
    error : ErrorModel
    """

    ranges: RememberedRanges
    error: ErrorModel

    @property
    def law(self) -> NoiseLaw:
        """Noise of all numbers."""
        return self.error.law

    def next_stage(self, earlier: Outputs) -> NoisyTotals | None:
        """Return the only stage."""
        ends = self.ranges.lower, self.ranges.upper
        scales = self.mean.scales(ends[1] - ends[0])
        return DONE if earlier else self.mean.stage(CELLS, self.law, ends, scales)

    def mean_errors(self, outputs: Outputs) -> ErrorModel:  # noqa: ARG002  of ranges found before
        """Return the error model of the means."""
        return self.error

    def looks(self, outputs: Outputs) -> tuple[ClippedLook, ...]:
        """Return the look at every cell."""
        low, high = (
            self.lattice.in_units(end.astype(np.float64))
            for end in (self.ranges.lower, self.ranges.upper)
        )
        return (self.look(outputs[CELLS][0], low, high, self.mean.noise * (high - low)),)

    def user_mean_spread(self, outputs: Outputs) -> UserMeanSpread:  # noqa: ARG002
        """Return the spread that earlier releases state."""
        ranges = self.ranges
        return UserMeanSpread(ranges.centre, ranges.pooled, ranges.pooled, ranges.within)


def allocate_remembered(problem: PlanningProblem, promise: Promise) -> PlanAllocation:
    """Return ranges by the problem's forecast, and weights and noise for their widths."""
    forecast, facts, law = problem.forecast, problem.facts, promise.law
    assert forecast is not None  # noqa: S101  see `PlanningProblem.with_forecast`
    assert facts is not None  # noqa: S101
    span = float(problem.span[0])
    within, deviation = forecast.within / span, forecast.deviation / span
    half, importance, rates = np.hypot(within, deviation), np.ones(deviation.size), None
    for _ in range(ROUNDS):
        weights = weights_for(problem.occupancy, promise, within, half, importance, rates)
        rates = weights.rates
        deviations = weights.noise * math.sqrt(law.variance)
        squares = CellDesign.of(weights.weight).weight_squares
        half, error = choose_half_widths(within, deviation, deviations, squares)
        importance = (deviation**2 / (deviation**2 + error**2)) ** 1.5
    centre = np.clip((forecast.mean - float(facts.lattice.lower)) / span, 0.0, 1.0)
    steps = facts.lattice.span_quanta
    lower = np.clip(np.floor((centre - half) * steps), 0, steps - 1).astype(np.int64)
    upper = np.clip(np.ceil((centre + half) * steps), lower + 1, steps).astype(np.int64)
    middle = float(np.mean(forecast.mean))
    pooled = float(np.hypot(np.std(forecast.mean), forecast.within))
    ranges = RememberedRanges(weights.weight, lower, upper, steps, middle, pooled, forecast.within)
    return fit_noise(problem, promise, weighted_rows(problem.occupancy, ranges, weights.noise))


def weights_for(
    occupancy: Occupancy,
    promise: Promise,
    within: float,
    half: Floats,
    importance: Floats | float = 1.0,
    begin: Floats | None = None,
) -> user_weights.UserWeights:
    """Return weights and noise for ranges of cells, at the promise.

    Parameters
    ----------
    occupancy : Occupancy
    promise : Pure or Squares
    within : float
        S, in any unit.
    half : ndarray of float, shape (n_cells,)
        Half the width of each range, in the same unit.
    importance : ndarray of float, shape (n_cells,), or float
        Of a cell's error in their sum.
    begin : ndarray of float, shape (n_cells,), optional
        Rates of a search before.
    """
    scaled = half * importance
    prior = user_weights.UserMeanPrior(
        within * (scaled / half), 2.0 * user_weights.WEIGHT_CONFOUNDING * scaled
    )
    return user_weights.find_user_weights(
        occupancy, float(promise.amount), prior, begin=begin, law=promise.law, price=2.0 * scaled
    )
