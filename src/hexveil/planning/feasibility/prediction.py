"""Prediction of a request on other public metadata, and the ε it needs there.

Means by the joint plan of least average error are predicted quickly
(mechanisms/looks/range_search.py); every other request is planned in full.

Bound. Planning errors are U (d/2 + b), d the share of a cell that is put at the middle and b the
noise for bounds of width 1. The users' losses add up to Σ_g (1 - d_g)/b_g <= L ε, so that, by
Cauchy and Schwarz, an average error below E U needs L ε / G >= (1 - δ)²/(E - δ/2), δ the average of
d. For E < 1/4 that grows with δ, so it is least at δ = 0: ε >= G / (L E). Under a range weights sum
to one in each cell and nothing is put at the middle: the same with the width of the range for U,
which is at best `NARROWEST` times narrower. A grid whose noise floor is that many times above one
constant's error need not be planned.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np

from hexveil.accounting.error_model import ErrorModel, span_in_quanta
from hexveil.accounting.gaussian_composition import calibrated_square, square_epsilon
from hexveil.base.blas_threads import single_blas_thread
from hexveil.mechanisms.looks import range_search
from hexveil.mechanisms.looks.range_search import ErrorPrediction
from hexveil.model.public_metadata import PublicMetadata
from hexveil.planning.allocation import PlanningProblem
from hexveil.planning.feasibility.grids import NARROWEST
from hexveil.planning.feasibility.utility_test import default_baseline_error, small_map_factor
from hexveil.planning.methods import allocate
from hexveil.planning.moment_component import MomentComponent
from hexveil.planning.optimizers.calibration import LARGEST, SMALLEST, two_figures_up
from hexveil.planning.optimizers.user_factors import ClippingProblem
from hexveil.theory import noise_floor

MOST_LOOKS = 20
"""Losses at which a map is predicted to find the one that it needs, at most."""
UNDER = 1.0 - 1e-9
"""At a loss that is named the error is this much below what is wanted."""


def prediction_of(model: ErrorModel) -> ErrorPrediction:
    """Return noise and bias of a planned statistic."""
    return ErrorPrediction(model.scale, model.error - model.scale)


def predict_in_full(problem: PlanningProblem) -> ErrorPrediction:
    """Return the errors of the first statistic by the full optimizer, without losses or a plan."""
    return prediction_of(next(iter(allocate(problem).error_models(problem).values())))


def scaled_epsilon(prediction: ErrorPrediction, epsilon: Fraction, error: float) -> float:
    """Return a loss at which the average error is `error`, by scaling the noise of one plan.

    The loss that is needed is at most this, because the plan of that loss is at least as good as
    the scaled one. Infinite where bias alone is above the error.
    """
    noise, bias = float(prediction.noise.mean()), float(prediction.bias.mean())
    return float(epsilon) * noise / (error - bias) if bias < error else math.inf


def epsilon_needed(plan: MomentComponent) -> float | None:
    """Return the loss, rounded up to two figures, at which the map says more than one constant.

    What plans, releases, tables of grids and their warnings name for this grid. None if 100 is not
    enough.
    """
    miss, requested = plan.support.baseline_error, plan.requested_epsilon or Fraction(1)
    if plan.facts is not None and plan.occupancy.is_local and not plan.delta:
        return ErrorPredictor(plan, plan.facts).epsilon_needed(miss)
    # Of distributed pairs each plan tried would be a search of its own, and under a δ too: the
    # plan's own noise, scaled, is enough.
    scaled = scaled_epsilon(prediction_of(plan.primary_statistic), requested, miss * UNDER)
    if plan.delta and math.isfinite(scaled):
        # It falls with the root of the square of μ, which is not in proportion to ε.
        times = Fraction(scaled) / requested
        square = calibrated_square(requested, plan.delta) * times**2
        scaled = square_epsilon(square, plan.delta)
    return two_figures_up(scaled) if scaled <= LARGEST else None


@dataclass(frozen=True, eq=False)
class ErrorPredictor:
    """Predicts the request of a plan on other public facts, at any loss.

    Attributes
    ----------
    plan : MomentComponent
        What is asked for; its widest bounds are taken for all cells.
    facts : PublicMetadata
    """

    plan: MomentComponent
    facts: PublicMetadata
    _seen: dict[Fraction, ErrorPrediction] = field(default_factory=dict, repr=False)

    @property
    def is_fast(self) -> bool:
        """Whether the request can be predicted quickly, not only planned in full."""
        requested = self.plan.request
        options = requested.method, requested.statistics, requested.objective
        return requested.target is None and options == ("joint", ("mean",), "mean")

    @property
    def span(self) -> float:
        """Width of the bounds."""
        return float(self.plan.upper.max() - self.plan.lower.min())

    @property
    def is_planned(self) -> bool:
        """Whether these are the facts that the plan was made of."""
        planned = self.plan.facts
        return planned is not None and self.facts.occupancy is planned.occupancy

    @cached_property
    def baseline_error(self) -> float:
        """Error of one constant on these cells by the prior: smaller on a map of few cells."""
        plan, miss = self.plan, self.plan.support.baseline_error
        # A number from outside is about the caller's own map, and stays as it is given.
        ends = float(plan.lower.min()), float(plan.upper.max())
        assumed = plan.baseline_error == default_baseline_error(*ends, None)
        return miss * small_map_factor(self.facts.occupancy.n_cells) if assumed else miss

    def predict(self, epsilon: Fraction) -> ErrorPrediction:
        """Predict errors at an epsilon."""
        # Newton comes back to the losses at which other errors were looked for.
        if epsilon not in self._seen:
            self._seen[epsilon] = self._at(epsilon)
        return self._seen[epsilon]

    @single_blas_thread()
    def _at(self, epsilon: Fraction) -> ErrorPrediction:
        occupancy, requested = self.facts.occupancy, self.plan.request
        spans = np.full(occupancy.n_cells, self.span)
        if not self.is_fast:
            within = requested.within(epsilon)
            return predict_in_full(PlanningProblem(occupancy, spans, within, self.facts))
        options = occupancy, self.span, epsilon, requested.range_share
        match requested.resolve_range(occupancy, epsilon):
            case "private":
                return range_search.predict_with_range(*options)
            case "per-cell":
                return range_search.predict_with_cell_ranges(*options)
        return range_search.predict_without_range(self._exposure, self.span, requested, epsilon)

    @cached_property
    def _exposure(self) -> ClippingProblem:
        spans = np.full(self.facts.occupancy.n_cells, self.span)
        return ClippingProblem(self.facts.occupancy, span_in_quanta(spans, self.facts))

    def epsilon_needed(self, error: float) -> float | None:
        """Return the loss, rounded up to two figures, at which the average error is this small.

        What every table, proposal and sentence names for a grid that was not planned itself. None
        if 100 is not enough.
        """
        # Where the plan's loss was looked at, the search begins with what is known there.
        epsilon, found = self.plan.requested_epsilon or Fraction(1), None
        for _ in range(MOST_LOOKS):
            prediction = self.predict(epsilon)
            if prediction.mean_error <= error * UNDER:
                found = epsilon
            # Enough by the noise that was found, so that the least is no larger: Newton's step.
            scaled = scaled_epsilon(prediction, epsilon, error * UNDER)
            nearest = 4 * epsilon
            if math.isfinite(scaled):
                nearest = Fraction(two_figures_up(max(scaled, SMALLEST)))
            if nearest > LARGEST or (found is not None and nearest >= found):
                break
            epsilon = nearest
        return None if found is None else two_figures_up(float(found))

    def error_lower_bound(self, epsilon: float) -> float:
        """Return about what no plan of means is below at an epsilon; 0 for other statistics."""
        if self.plan.request.noised != ("mean",):
            return 0.0
        # At a loss of 0 only constants can be published.
        sizes = self.facts.occupancy.n_cells, self.facts.occupancy.n_users
        floor = noise_floor(self.span, *sizes, epsilon) if epsilon else math.inf
        return min(floor / NARROWEST, self.span / 4.0)
