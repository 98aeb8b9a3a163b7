"""Fast prediction of a plan's mean errors, without planning.

A table of many grids needs no last digits, so the searches of the joint plan of least average error
(planning/optimizers/mean_error.py) and of the weights under a private interval
(planning/clipping_range/private_range.py) are cut short. What comes out is the error of a plan that
could be made, a little worse than the best. Under an interval one set of weights is found; the
quantiles and the widening are judged by it, and it is found anew for the best of them: plans choose
their interval in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from hexveil.mechanisms.cell_ranges.first_range import HALF_WIDTH
from hexveil.planning.clipping_range import cell_ranges, private_range
from hexveil.planning.clipping_range.user_weights import (
    MEAN_ABS_NORMAL,
    find_user_weights,
    weight_distances,
)
from hexveil.planning.optimizers.mean_error import (
    ObjectiveWeights,
    SearchLimits,
    minimize_mean_error,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexveil.base.arrays import Floats
    from hexveil.model.occupancy import Occupancy
    from hexveil.planning.optimizers.user_factors import ClippingProblem
    from hexveil.planning.request import Request


ITERATIONS = 15
"""Of a search that is cut short."""


@dataclass(frozen=True, eq=False)
class ErrorPrediction:
    """Predicted errors of each cell, in value units.

    Attributes
    ----------
    noise : ndarray of float, shape (n_cells,)
        Expected |noise|.
    bias : ndarray of float, shape (n_cells,)
        What the cell is off by besides.
    """

    noise: Floats
    bias: Floats

    @property
    def error(self) -> Floats:
        """Error to expect of each cell."""
        return np.asarray(self.noise + self.bias)

    @property
    def mean_error(self) -> float:
        """Average error to expect."""
        return float(self.error.mean())


@dataclass(frozen=True)
class RangeCandidate:
    """A pair of quantiles, and the widening of the interval between them.

    Attributes
    ----------
    quantile, widening : Fraction
    """

    quantile: Fraction
    widening: Fraction

    @property
    def ends(self) -> tuple[Fraction, Fraction]:
        """The lower quantile, and the widening."""
        return self.quantile, self.widening

    @property
    def half_width_sd(self) -> float:
        """How far the upper end is from the centre, in standard deviations of the prior."""
        return private_range.half_width_sd(self.quantile, self.widening)

    @property
    def width(self) -> float:
        """Width that is assumed, as a part of the span."""
        return 2.0 * self.half_width_sd * private_range.PRIOR_SD

    @cached_property
    def clipping_error(self) -> float:
        """Expected clipping error, as a share of the span."""
        return self.width * private_range.expected_clipping_error(self.half_width_sd)

    def remaining_epsilon(self, n_users: int, epsilon: Fraction, share: Fraction | None) -> float:
        """Return the loss that is left to the cells."""
        part = (
            private_range.range_epsilon_share(self.quantile, n_users, epsilon)
            if share is None
            else share
        )
        return float(epsilon * (1 - part))


CELL_RANGE_FLOOR = (
    cell_ranges.expected_width(HALF_WIDTH),
    cell_ranges.expected_width(HALF_WIDTH) * private_range.expected_clipping_error(HALF_WIDTH),
)
"""Width and clipping error of cells with ranges of their own, as parts of the span."""
ALL_CANDIDATES = tuple(
    RangeCandidate(q, s) for q in private_range.QUANTILES for s in private_range.WIDENINGS
)
"""All that an interval could be."""


def candidates_for(n_users: int, epsilon: Fraction, share: Fraction | None) -> list[RangeCandidate]:
    """Return the candidates of a plan: each precise quantile, the most precise also widened."""
    largest = private_range.MAX_RANGE_SHARE if share is None else share
    sure = [
        q
        for q in private_range.QUANTILES
        if largest * q * n_users * epsilon >= private_range.MIN_RANK_PRECISION
    ]
    # If none is precise the innermost is the least imprecise.
    quantiles = sure or list(private_range.QUANTILES[-1:])
    return [RangeCandidate(q, Fraction(1)) for q in quantiles[:-1]] + [
        RangeCandidate(quantiles[-1], widening) for widening in private_range.WIDENINGS
    ]


def predict_without_range(
    exposure: ClippingProblem, span: float, request: Request, epsilon: Fraction
) -> ErrorPrediction:
    """Predict the joint plan of least average error without a private range."""
    spans = np.full(exposure.occupancy.n_cells, span)
    weights = ObjectiveWeights.of(request, spans, exposure.occupancy)
    prediction = minimize_mean_error(exposure, weights, float(epsilon), SearchLimits(ITERATIONS))
    rate, clipped_share = prediction.rates.mean, exposure.clipped_share_in_quanta(prediction.factor)
    live = rate > 0
    noise = np.divide(1.0, rate, out=np.zeros_like(rate), where=live)
    # A cell without noise publishes the middle, which misses half of the span at most.
    return ErrorPrediction(span * noise, span * np.where(live, clipped_share / 2.0, 0.5))


def predict_with_range(
    occupancy: Occupancy, span: float, epsilon: Fraction, share: Fraction | None
) -> ErrorPrediction:
    """Predict the plan under a private range."""
    candidates = candidates_for(occupancy.n_users, epsilon, share)
    weighed = _Weighed.of(occupancy, candidates[-1], epsilon, share)
    candidate = weighed.best(candidates, epsilon, share)
    # Weights of another width are judged well but fit less: they are searched again, from there.
    if candidate != candidates[-1]:
        weighed = _Weighed.of(occupancy, candidate, epsilon, share, weighed.rates)
    prediction = weighed.seen(candidate, epsilon, share)
    return ErrorPrediction(span * prediction.noise, span * prediction.bias)


def predict_with_cell_ranges(
    occupancy: Occupancy, span: float, epsilon: Fraction, share: Fraction | None
) -> ErrorPrediction:
    """Predict the plan with a range per cell."""
    plan, noise = cell_ranges.plan_cell_ranges(occupancy, epsilon, share, ITERATIONS)
    spans = np.full(occupancy.n_cells, span)
    model = cell_ranges.mean_error_model(spans, plan, noise)
    return ErrorPrediction(model.scale, model.error - model.scale)


def select_candidate(
    occupancy: Occupancy,
    tried: Sequence[RangeCandidate],
    epsilon: Fraction,
    share: Fraction | None,
) -> tuple[RangeCandidate, Floats]:
    """Return the candidate of least predicted error, all judged by the weights of the last one.

    With it come the rates of those weights, from where the candidate's own are soon found.
    """
    weighed = _Weighed.of(occupancy, tried[-1], epsilon, share)
    return weighed.best(tried, epsilon, share), weighed.rates


@dataclass(frozen=True, eq=False)
class _Weighed:
    """User weights of one candidate range, and their cost under any.

    `noise` is at a loss of 1 for the cells; `within` and `between` are what the weights make a
    cell off by where users differ by 1 within it, or by 1 with their weight. All for width 1.
    `rates` are those of the weights.
    """

    n_users: int
    noise: Floats
    within: Floats
    between: Floats
    rates: Floats

    @classmethod
    def of(
        cls,
        occupancy: Occupancy,
        one: RangeCandidate,
        epsilon: Fraction,
        share: Fraction | None,
        begin: Floats | None = None,
    ) -> _Weighed:
        remaining = one.remaining_epsilon(occupancy.n_users, epsilon, share)
        weights = find_user_weights(
            occupancy,
            remaining,
            private_range.user_mean_prior(one.half_width_sd),
            ITERATIONS,
            begin,
        )
        length, distances = weight_distances(weights.weight)
        noise, within, between = (
            weights.noise * remaining,
            MEAN_ABS_NORMAL * length,
            distances / 2.0,
        )
        return cls(occupancy.n_users, noise, within, between, weights.rates)

    def best(
        self, tried: Sequence[RangeCandidate], epsilon: Fraction, share: Fraction | None
    ) -> RangeCandidate:
        """Return the candidate of least predicted error by these weights."""
        return min(tried, key=lambda one: self.seen(one, epsilon, share).mean_error)

    def seen(
        self, one: RangeCandidate, epsilon: Fraction, share: Fraction | None
    ) -> ErrorPrediction:
        """Predict errors under a candidate range, for bounds of width 1."""
        prior = private_range.user_mean_prior(one.half_width_sd)
        weights = one.width * (
            prior.within_cell_sd * self.within + prior.weight_confounding * self.between
        )
        noise = one.width * self.noise / one.remaining_epsilon(self.n_users, epsilon, share)
        # Weights and clipping err independently by the prior: their sizes add as squares.
        return ErrorPrediction(noise, np.hypot(weights, one.clipping_error))
