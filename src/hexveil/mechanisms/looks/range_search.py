"""Search for the private range of least predicted error, and fast predictions of a plan's errors.

A table of many grids needs no last digits, so the searches of the joint plan of least average error
(planning/optimizers/mean_error.py) and of the weights under a private interval (`user_weights`) are
cut short. What comes out is the error of a plan that could be made, a little worse than the best.
Under an interval one set of weights is found; the quantiles and the widening are judged by it, and
it is found again for the best of them. Plans choose their interval in the same way; the share of ε
so that an end is rarely chosen where there are no user means.

Radius and split of variances (`variance_range`) are chosen so that the predicted error is least: of
the variance, or of mean and variance as shares of what a constant can miss where both are asked
for. Weights are those of a mean with half of the loss.
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from operator import itemgetter

import numpy as np

from hexveil.accounting.error_model import MAX_CONSTANT_ERROR, has_single_record
from hexveil.accounting.promise import Promise, Pure, choices_worth
from hexveil.base.arrays import Floats
from hexveil.mechanisms.looks import cell_ranges, user_weights
from hexveil.mechanisms.looks.one_range import PrivateRange
from hexveil.mechanisms.looks.weighted_variance import errors_without_noise, split_noise
from hexveil.model.occupancy import Occupancy
from hexveil.planning.allocation import PlanAllocation, PlanningProblem, weighted_rows
from hexveil.planning.optimizers.calibration import fit_noise
from hexveil.planning.optimizers.mean_error import minimize_mean_error, objective_weights
from hexveil.planning.optimizers.pair_sums import fetch_sample
from hexveil.planning.optimizers.user_factors import ClippingProblem
from hexveil.planning.request import Request

QUANTILES = tuple(Fraction(n, 100) for n in (2, 5, 10, 15, 20))
WIDENINGS = tuple(Fraction(n, 4) for n in (4, 5, 6, 8, 10))
MIN_RANGE_SHARE, MAX_RANGE_SHARE = Fraction(1, 50), Fraction(1, 5)
"""Shares of ε for the interval."""
MEAN_PART = 0.5
"""Part of the loss of the cells for which users are weighed, whatever the split."""
RADII = tuple(Fraction(n, 4) for n in (4, 5, 6, 7, 8, 10, 12, 16))
SPLITS = tuple(Fraction(n, 20) for n in range(1, 20))
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
    """A quantile with its counterpart, and the widening of the interval between them.

    Attributes
    ----------
    quantile, widening : Fraction
    """

    quantile: Fraction
    widening: Fraction

    @property
    def half_width_sd(self) -> float:
        """How far the upper end is from the centre, in standard deviations of the prior."""
        return user_weights.half_width_sd(self.quantile, self.widening)

    @property
    def width(self) -> float:
        """Width that is assumed, as a part of the span."""
        return 2.0 * self.half_width_sd * user_weights.PRIOR_SD

    @property
    def prior(self) -> user_weights.UserMeanPrior:
        """Prior of user means in the interval."""
        return user_weights.user_mean_prior(self.half_width_sd)

    @cached_property
    def clipping_error(self) -> float:
        """Expected clipping error, as a share of the span."""
        return self.width * user_weights.expected_clipping_error(self.half_width_sd)


def range_epsilon_share(quantile: Fraction, n_users: int, epsilon: Fraction) -> Fraction:
    """Return the part of ε that finding the interval takes.

    Examples
    --------
    >>> range_epsilon_share(Fraction(1, 10), 4000, Fraction(1))
    Fraction(2, 25)
    >>> range_epsilon_share(Fraction(1, 10), 50, Fraction(1))
    Fraction(1, 5)
    """
    # Thousandths, rounded up: a share is printed and booked as a short exact number.
    required = user_weights.MIN_RANK_PRECISION / (quantile * n_users * epsilon)
    share = Fraction(math.ceil(required * 1000), 1000)
    return min(max(share, MIN_RANGE_SHARE), MAX_RANGE_SHARE)


@dataclass(frozen=True, eq=False)
class RangeSearch:
    """Search for the interval of least predicted error, within a promise.

    Attributes
    ----------
    occupancy : Occupancy
    promise : Pure or Squares
    epsilon : Fraction
        The promise as it was asked for.
    share : Fraction or None
        Part of the promise for the interval.
    """

    occupancy: Occupancy
    promise: Promise
    epsilon: Fraction
    share: Fraction | None

    def epsilon_of(self, candidate: RangeCandidate) -> Fraction:
        """Return the pure loss of every user by an interval."""
        if self.share is not None:
            return self.promise.part(self.share).choices()
        users, most = self.occupancy.n_users, self.promise.part(MAX_RANGE_SHARE)
        usual = range_epsilon_share(candidate.quantile, users, self.epsilon)
        # A choice of small pure loss ε costs 1.57 ε² as a square: often as much as without a δ.
        return min(self.epsilon * usual, most.choices())

    def remaining(self, candidate: RangeCandidate) -> float:
        """Return the loss left to the cells by an interval: all users are charged it in full."""
        cost = choices_worth(self.epsilon_of(candidate), self.promise.delta)
        return float(self.promise.amount - cost.amount)

    @cached_property
    def candidates(self) -> list[RangeCandidate]:
        """Intervals to choose from: each precise quantile, the most precise also widened."""
        alone = [RangeCandidate(q, Fraction(1)) for q in QUANTILES]
        users, precision = self.occupancy.n_users, user_weights.MIN_RANK_PRECISION
        sure = [one for one in alone if one.quantile * users * self.epsilon_of(one) >= precision]
        # If none is precise the innermost is the least imprecise.
        *others, last = sure or alone[-1:]
        return [*others, *(RangeCandidate(last.quantile, widening) for widening in WIDENINGS)]

    def interval(
        self,
        candidate: RangeCandidate,
        iterations: int = user_weights.ITERATIONS,
        begin: Floats | None = None,
        *,
        part: float = 1.0,
        users: tuple[Occupancy, float] | None = None,
    ) -> tuple[PrivateRange, user_weights.UserWeights]:
        """Return an interval with weights, and the noise of means that have all that is left.

        Parameters
        ----------
        candidate : RangeCandidate
        iterations : int
            Of the search for weights; fewer are good enough for a prediction.
        begin : ndarray of float, shape (n_cells,), optional
            Rates that were found for others; see `find_user_weights`.
        part : float
            Part of what is left for which users are weighed.
        users : pair of Occupancy and float, optional
            Some users, and their part of all: at an amount larger by this part, to the power of
            the law, they have about the noise that all have.
        """
        law = self.promise.law
        occupancy, sampled = users or (self.occupancy, 1.0)
        limit = self.remaining(candidate) / sampled**law.power * part
        weights = user_weights.find_user_weights(
            occupancy, limit, candidate.prior, iterations, begin, law=law
        )
        weights = replace(weights, noise=weights.noise * part ** (1.0 / law.power))
        interval = PrivateRange(
            self.epsilon_of(candidate),
            (candidate.quantile, 1 - candidate.quantile),
            candidate.widening,
            candidate.width,
            user_weights.expected_clipping_error(candidate.half_width_sd),
            weights.weight,
        )
        return interval, weights

    def rough(self) -> tuple[RangeCandidate, user_weights.UserWeights]:
        """Return the candidate of least predicted error by the weights of the widest, and these."""
        widest = self.candidates[-1]
        weights = self.interval(widest, ITERATIONS)[1]
        best = min(self.candidates, key=lambda one: self.predict(weights, widest, one).mean_error)
        return best, weights

    def predict(
        self, weights: user_weights.UserWeights, weighed: RangeCandidate, candidate: RangeCandidate
    ) -> ErrorPrediction:
        """Predict errors in an interval by the weights of another one, for bounds of width 1."""
        law, bias = self.promise.law, user_weights.expected_bias(weights.weight, candidate.prior)
        times = (self.remaining(weighed) / self.remaining(candidate)) ** (1.0 / law.power)
        noise = candidate.width * law.mean_absolute * weights.noise * times
        # Weights and clipping err independently by the prior: their sizes add as squares.
        return ErrorPrediction(noise, np.hypot(candidate.width * bias, candidate.clipping_error))


# ---- plans ----


def allocate_with_range(problem: PlanningProblem, promise: Promise) -> PlanAllocation:
    """Return weights and noise under one range, for means, or for variances too."""
    occupancy, request = problem.occupancy, problem.request
    assert request.epsilon is not None  # noqa: S101  targets are met at an epsilon that is tried
    search = RangeSearch(occupancy, promise, request.epsilon, request.range_share)
    if "variance" in request.noised:
        rows = weighted_rows(occupancy, *plan_variance_range(search, problem))
    else:
        best, rough = search.rough()
        interval, weights = search.interval(best, begin=rough.rates)
        rows = weighted_rows(occupancy, interval, weights.noise)
    return fit_noise(problem, promise, rows)


def plan_variance_range(
    search: RangeSearch, problem: PlanningProblem
) -> tuple[PrivateRange, Floats, Floats]:
    """Return the interval, and noise of both statistics, of least predicted error.

    Of pairs that stay elsewhere some users' are fetched, and lead to interval, radius and split;
    the weights are then found for all users. If all pairs are fetched, the plan is that of pairs at
    hand.
    """
    occupancy = search.occupancy
    some, _, part = fetch_sample(occupancy)
    local, tried = replace(problem, occupancy=some), []
    for candidate in search.candidates:
        interval, weights = search.interval(candidate, part=MEAN_PART, users=(some, part))
        tried.append((*_best_radius(local, interval, weights.noise), candidate, interval, weights))
    _, radius, split, candidate, interval, weights = min(tried, key=itemgetter(0))
    if some is not occupancy:
        interval, weights = search.interval(candidate, part=MEAN_PART)
    known = has_single_record(occupancy)
    noises = split_noise(weights.noise, split, known, problem.request.law)
    return replace(interval, radius=radius), *noises


def _best_radius(
    problem: PlanningProblem, interval: PrivateRange, noise: Floats
) -> tuple[float, Fraction, float]:
    """Return the least predicted error for an interval and its weights, its radius and split.

    The error is a share of what a constant can miss, the split the mean's part of the loss in cells
    that have both statistics.
    """
    request, expected = problem.request, interval.expected_bias()
    known, law = has_single_record(problem.occupancy), request.law
    tried, ranges = [], [replace(interval, radius=radius) for radius in RADII]
    without_noise = errors_without_noise(interval.weight, tuple(one.radius_sd for one in ranges))
    for radius, one, fixed in zip(RADII, ranges, without_noise, strict=True):
        for split in map(float, SPLITS):
            mean, square = split_noise(noise, split, known, law)
            error = fixed + one.through_mean(mean, problem) + law.mean_absolute * square
            missed = float(np.where(known, 0.0, error).mean())
            value = one.half_width_and_radius()[1] ** 2 * missed / MAX_CONSTANT_ERROR["variance"]
            if "mean" in request.noised:
                missed = float((law.mean_absolute * mean + expected).mean())
                value += one.width * missed / MAX_CONSTANT_ERROR["mean"]
            tried.append((value, radius, split))
    return min(tried, key=itemgetter(0))


# ---- predictions ----


def predict_without_range(
    exposure: ClippingProblem, span: float, request: Request, epsilon: Fraction
) -> ErrorPrediction:
    """Predict the joint plan of least average error without a private range."""
    spans = np.full(exposure.occupancy.n_cells, span)
    weights = objective_weights(request, spans, exposure.occupancy)
    prediction = minimize_mean_error(exposure, weights, float(epsilon), {"maxiter": ITERATIONS})
    rate, clipped_share = prediction.rates[0], exposure.clipped_share_in_quanta(prediction.factor)
    live = rate > 0
    noise = np.divide(1.0, rate, out=np.zeros_like(rate), where=live)
    # A cell without noise publishes the middle, which misses half of the span at most.
    return ErrorPrediction(span * noise, span * np.where(live, clipped_share / 2.0, 0.5))


def predict_with_range(
    occupancy: Occupancy, span: float, epsilon: Fraction, share: Fraction | None
) -> ErrorPrediction:
    """Predict the plan under a private range."""
    search = RangeSearch(occupancy, Pure(epsilon), epsilon, share)
    best, weights = search.rough()
    weighed = search.candidates[-1]
    # Weights of another width are judged well but fit less: they are searched again, from there.
    if best != weighed:
        weighed, weights = best, search.interval(best, ITERATIONS, weights.rates)[1]
    prediction = search.predict(weights, weighed, best)
    return ErrorPrediction(span * prediction.noise, span * prediction.bias)


def predict_with_cell_ranges(
    occupancy: Occupancy, span: float, epsilon: Fraction, share: Fraction | None
) -> ErrorPrediction:
    """Predict the plan with a range per cell."""
    plan, noise = cell_ranges.plan_cell_ranges(occupancy, Pure(epsilon), epsilon, share, ITERATIONS)
    model = plan.mean_model(np.full(occupancy.n_cells, span), noise)
    return ErrorPrediction(model.scale, model.error - model.scale)
