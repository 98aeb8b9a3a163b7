"""Users' weights in each cell, and the noise of each cell, for means of projected user means.

A cell's number is Σ_l w_gl clip(user mean) with weights that sum to one, plus noise. For an
interval of width 1 a user moves it by w_gl. Under Laplace noise it loses Σ_g w_gl / b_g over all
its cells, b the noise scales; under Gaussian noise Σ_g (w_gl / r_g)² as a square of μ, r the
deviations (accounting/moves.py; mechanisms/looks/weighted_mean.py for the whole numbers).
Weights that differ from the shares p_gl = m/N of the records make noise smaller and the number
another one: it is off by Σ (w - p)(user mean), at most half of Σ |w - p| for an interval of width
1. What it is off by in fact depends on values, so a stated prior says it: user means within a
cell are independent with standard deviation `spread`, and users whose weight rises differ from
those whose weight falls by `drift`; both as parts of the interval's width. Then a cell is off by at
most

    √(2/π) spread √(Σ (w - p)²) + drift Σ |w - p| / 2

on average. Weights are w ∝ f_l p_gl, f_l a factor of the user. With the limit L^k on what a user
may lose, k = 1 for Laplace noise (L an ε) and k = 2 for Gaussian noise (L² a square of μ), T_g the
sum of f p in a cell and rates a_g = 1 / (L T_g r_g), a user loses f^k L^k Σ_g (a_g p_gl)^k: so f_l
is 1 where the norm (Σ_g (a_g p_gl)^k)^(1/k) is at most 1, and else what brings it there. Noise and
what a cell is off by, averaged over cells, are a smooth function of log a, and minimised by L-BFGS.

Where pairs stay elsewhere each look at the objective takes some jobs of the engine, so the search
begins with a part q of the users, and takes a few steps with all of them. A cell's share of a
fetched user is about 1 / q times its share among all, so that the fetched users' rates at the limit
(L / q)^k, divided by q, are about those of all users at L^k. If all pairs are fetched, these are
the rates, and no step is taken.

The prior: user means within the bounds are taken as normal around a centre that nobody knows, with
a standard deviation of an eighth of the span, so that between the quantiles q and 1 - q lies a
width of 2 z(q)/8 of it. Half of the variance is within cells, and half between them, so that
clipping costs cells whose middle is off the centre (`expected_clipping_error`).

A prior that does not fit costs accuracy, never privacy.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np

from hexveil.accounting.noise_law import GAUSSIAN, LAPLACE, NoiseLaw
from hexveil.base.arrays import Floats, Ints
from hexveil.base.work_share import SEARCH, parts_of_work
from hexveil.mechanisms.stage_data import STANDARD_NORMAL
from hexveil.model.occupancy import Occupancy, PairColumn, Pairs
from hexveil.model.pair_columns import FactoredWeights, Weights
from hexveil.planning.optimizers.pair_sums import descend, fetch_sample, share_sums

ITERATIONS = 200
DISTRIBUTED_ITERATIONS = 8
"""Steps with all users after the search with some; each asks for about five sums of all pairs."""
LOG_SCALE_RANGE = 30.0
"""How far the logarithms of the rates may go from where they began."""
SLOPE_TOLERANCE, GAIN_TOLERANCE = 1e-3, 1e-6
"""The search ends where a cell's slope is below `SLOPE_TOLERANCE` of its part of the objective at
the start, or where a step betters the objective by less than `GAIN_TOLERANCE` of it."""
START_QUANTILES = {LAPLACE: (0.9,), GAUSSIAN: (0.5, 0.9)}
EXTRA_START_QUANTILES, SMALL_PROBLEM_PAIRS = {LAPLACE: (0.5, 1.0), GAUSSIAN: ()}, 2_000
"""Quantiles of users' norms at equal rates, where the search begins; of few pairs, where the
objective is rough, at the others too."""
FIRST_STEP = 0.3
"""What the first step changes the logarithm of some rate by, at least: it would be the slope, which
is next to nothing on maps of many cells or of little noise."""
ABS_SMOOTHING = 1e-3
"""Below this part of its share a weight's distance from it is rounded off: a slope is needed."""
PRIOR_SD = 1.0 / 8.0
"""Standard deviation of user means, as a part of the span."""
WITHIN_CELL_SHARE = math.sqrt(0.5)
"""The part of it that is within a cell; the same is between cells."""
WEIGHT_CONFOUNDING = 0.1
"""By how much users whose weight rises differ from others, as a part of the interval's width."""
MIN_RANK_PRECISION = 32
"""The scale of a choice is 4 / (share ε) users, and a quantile is eight of them away from the end
of the bounds: else one of the many points beyond all user means would often be chosen."""
HERMITE = np.polynomial.hermite_e.hermegauss(31)
MEAN_ABS_NORMAL = math.sqrt(2.0 / math.pi)
"""Expected distance from its mean of a normal number, in standard deviations."""


@dataclass(frozen=True)
class UserMeanPrior:
    """Prior of user means, in units of the width of their clipping range.

    Attributes
    ----------
    within_cell_sd : float, or ndarray of float, shape (n_cells,)
        Standard deviation of user means within a cell.
    weight_confounding : float, or ndarray of float, shape (n_cells,)
        By how much users whose weight rises differ from those whose weight falls.
    """

    within_cell_sd: Floats | float
    weight_confounding: Floats | float


def user_mean_prior(end: float) -> UserMeanPrior:
    """Return the prior of user means, as fractions of the width of a range of this half width."""
    return UserMeanPrior(WITHIN_CELL_SHARE / (2.0 * end), WEIGHT_CONFOUNDING)


def expected_clipping_error(end: float) -> float:
    """Return the expected clipping error of a cell under the prior, for a range of width 1.

    Examples
    --------
    >>> round(expected_clipping_error(1.28), 3), expected_clipping_error(2.05) < 0.01
    (0.035, True)
    """
    # Gauss-Hermite nodes: the middles of cells are normal by the prior, and 31 are exact enough.
    nodes, weights = HERMITE
    middle, spread = nodes * math.sqrt(1.0 - WITHIN_CELL_SHARE**2), WITHIN_CELL_SHARE
    below, above = (-end - middle) / spread, (end - middle) / spread
    cdf, pdf = np.vectorize(STANDARD_NORMAL.cdf), np.vectorize(STANDARD_NORMAL.pdf)
    inside = middle * (cdf(above) - cdf(below)) + spread * (pdf(below) - pdf(above))
    clipped = inside - end * cdf(below) + end * (1.0 - cdf(above))
    cost = float(np.abs(clipped - middle) @ weights / weights.sum())
    return cost / (2.0 * end)


def half_width_sd(quantile: Fraction, widening: Fraction) -> float:
    """Return how far the upper end is from the centre, in standard deviations of the prior."""
    return STANDARD_NORMAL.inv_cdf(1.0 - float(quantile)) * float(widening)


@dataclass(frozen=True, eq=False)
class UserWeights:
    """Weights and noise for an interval of width 1.

    Attributes
    ----------
    weight : FactoredWeights
        In whole parts.
    noise : ndarray of float, shape (n_cells,)
        Scale at which no user loses more than was allowed, up to rounding.
    rates : ndarray of float, shape (n_cells,)
        What the search found; another one of nearly the same question begins well from there.
    """

    weight: FactoredWeights
    noise: Floats
    rates: Floats


class WeightProblem:
    """Objective: average noise plus the expected bias by weights, with its gradient.

    Parameters
    ----------
    occupancy : Occupancy
    limit : float
        The most that the cells may cost a user: an epsilon, or under Gaussian noise a square of μ.
    prior : UserMeanPrior
    law : NoiseLaw
    price : float, or ndarray of float, shape (n_cells,)
        What noise of a cell counts, for a range of width 1.
    """

    def __init__(
        self,
        occupancy: Occupancy,
        limit: float,
        prior: UserMeanPrior,
        law: NoiseLaw = LAPLACE,
        price: Floats | float = 1.0,
    ) -> None:
        self.occupancy, self.prior, self.law, self.price = occupancy, prior, law, price
        self.power = law.power
        self.loss, self.shares = limit ** (1.0 / self.power), share_sums(occupancy)

    def norms(self, rates: Floats) -> Floats:
        """Return (Σ (a p)^k)^(1/k) of each user."""
        # A user whose cells all have a rate near 0 must not divide by it.
        sums = np.maximum(self.shares.per_user(rates**self.power, self.power), 1e-300)
        return np.asarray(sums ** (1.0 / self.power))

    def weighing(self, rates: Floats) -> UserWeights:
        """Return the weights of these rates, and the noise."""
        factor = np.minimum(1.0, 1.0 / self.norms(rates))
        total = self.shares.per_cell(factor)
        weights = FactoredWeights(self.occupancy, factor, total)
        return UserWeights(weights, 1.0 / (self.loss * rates * total), rates)

    def value(self, logs: Floats) -> tuple[float, Floats]:
        """Return the objective and its slope in the logarithms of the rates."""
        rates, power = np.exp(logs), self.power
        norms = self.norms(rates)
        factor = np.minimum(1.0, 1.0 / norms)
        # The factor's derivative by the k-th part of the norm's k-th power.
        fall = np.where(norms > 1.0, -1.0 / norms ** (power + 1), 0.0)
        total = self.shares.per_cell(factor)
        noise = self.law.mean_absolute * self.price / (self.loss * rates * total)
        each = 1.0 / total
        make = partial(_BiasLook, each=each, noise=noise, factor=factor, prior=self.prior)
        # A rate acts on a cell twice: by the noise, and by the factors of its users.
        (bias, *_), rise = self.shares.look(make, each)
        through = self.shares.per_cell(fall * rise, power)
        by_rate = rates ** (power - 1) * through - noise / rates
        return float((noise + bias).mean()), by_rate * rates / rates.size


class _BiasLook:
    """Expected bias of a block's cells by weights, and its slope in each pair's weight.

    Parameters
    ----------
    pairs : Pairs
    share : ndarray of float, shape (n_pairs,)
    each, noise : ndarray of float, shape (n_cells,)
        Weight of a factor of 1 by its share, and noise.
    factor : ndarray of float, shape (n_users,)
    prior : UserMeanPrior
    """

    def __init__(
        self,
        pairs: Pairs,
        share: Floats,
        *,
        each: Floats,
        noise: Floats,
        factor: Floats,
        prior: UserMeanPrior,
    ) -> None:
        self.pairs, self.share, self.noise = pairs, share, noise
        figures = MEAN_ABS_NORMAL * prior.within_cell_sd, 0.5 * prior.weight_confounding
        # By pair where cells differ.
        self.sd, self.confounding = (
            pairs.spread(figure) if isinstance(figure, np.ndarray) else figure for figure in figures
        )
        # How far a weight is from its share, as a part of it; each line below is one look.
        part = factor.take(pairs.user, mode="clip")
        part *= pairs.spread(each)
        part -= 1.0
        distance = np.square(part)
        distance += ABS_SMOOTHING**2
        self.part, self.distance = part, np.sqrt(distance, out=distance)
        self.slope: Floats | None = None

    def of_cells(self) -> tuple[Floats, Floats, Floats]:
        """Return each cell's expected bias, the length of its differences, and its common slope."""
        first, share = self.pairs.start[:-1], self.share
        squares = np.add.reduceat(np.square(share * self.part), first)
        length = np.sqrt(squares + ABS_SMOOTHING**2 * np.add.reduceat(np.square(share), first))
        sd = self.sd[first] if isinstance(self.sd, np.ndarray) else self.sd
        bias = sd * length + np.add.reduceat(self.confounding * share * self.distance, first)
        self.slope = slope = self._slopes(self.pairs.repeat(sd / length))
        common = np.add.reduceat((self.part + 1.0) * slope, first) + self.pairs.own(self.noise)
        return bias, length, common

    def of_pairs(self, *figures: Floats) -> Floats:
        """Return the slope of a cell's bias and noise in f p / Σ f p, times p."""
        _, length, common = figures
        slope = self._slopes(self.sd / length) if self.slope is None else self.slope
        # Weights sum to one: what all of a cell's slopes have in common does not count.
        return np.asarray(slope - self.share * common)

    def _slopes(self, by_length: Floats) -> Floats:
        """Return how fast a cell's bias rises with each pair's weight, times its share."""
        slope = self.share * self.part
        slope *= by_length
        slope += self.confounding * (self.part / self.distance)
        slope *= self.share
        return slope


def find_user_weights(
    occupancy: Occupancy,
    limit: float,
    prior: UserMeanPrior,
    iterations: int = ITERATIONS,
    begin: Floats | None = None,
    *,
    law: NoiseLaw = LAPLACE,
    price: Floats | float = 1.0,
) -> UserWeights:
    """Return weights and noise that make the average predicted error small.

    Parameters
    ----------
    occupancy : Occupancy
    limit : float
        The most that the cells may cost a user: an epsilon, or under Gaussian noise a square of μ.
    prior : UserMeanPrior
    iterations : int
        Fewer of them are good enough for a prediction.
    begin : ndarray of float, shape (n_cells,), optional
        Rates that were found for another limit or prior. Not used where there are few pairs, and
        the search begins at several points.
    law : NoiseLaw
    price : float, or ndarray of float, shape (n_cells,)
        What noise of a cell counts, for a range of width 1.

    Examples
    --------
    >>> from hexveil.model.occupancy import LocalOccupancy
    >>> crowd = LocalOccupancy.from_dense([[1, 1]] * 50)
    >>> prior = UserMeanPrior(0.3, 0.1)
    >>> find_user_weights(crowd, 1.0, prior).noise  # span G / (epsilon L), in both cells
    array([0.04, 0.04])
    >>> find_user_weights(crowd, 0.08, prior, law=GAUSSIAN).noise.round(6)
    array([0.1, 0.1])
    """
    problem = WeightProblem(occupancy, limit, prior, law, price)
    if problem.shares.cheap:
        begins = parts_of_work(SEARCH, _begins(problem, begin))
        optima = (search_rates(problem, start, iterations) for start in begins)
        return problem.weighing(np.exp(min(optima, key=lambda optimum: optimum[1])[0]))
    sample, cells, part = fetch_sample(occupancy)
    known = None if begin is None else begin[cells] * part
    of_sample = limit / part**problem.power
    *figures, price = (
        one[cells] if isinstance(one, np.ndarray) else one
        for one in (prior.within_cell_sd, prior.weight_confounding, price)
    )
    some = UserMeanPrior(*figures)
    weights = find_user_weights(sample, of_sample, some, iterations, known, law=law, price=price)
    found = weights.rates / part
    rates = np.full(occupancy.n_cells, float(np.median(found)))
    rates[cells] = found
    if part < 1.0:
        steps = min(iterations, DISTRIBUTED_ITERATIONS)
        rates = np.exp(search_rates(problem, np.log(rates), steps)[0])
    return problem.weighing(rates)


def _begins(problem: WeightProblem, known: Floats | None) -> list[Floats]:
    """Return logarithms of rates to begin at."""
    is_small, law = problem.occupancy.n_pairs <= SMALL_PROBLEM_PAIRS, problem.law
    if known is not None and not is_small:
        return [np.log(known)]
    quantiles = START_QUANTILES[law] + (EXTRA_START_QUANTILES[law] if is_small else ())
    typical = np.quantile(problem.norms(np.ones(problem.occupancy.n_cells)), quantiles)
    return [np.full(problem.occupancy.n_cells, -math.log(one)) for one in typical]


def search_rates(problem: WeightProblem, begin: Floats, iterations: int) -> tuple[Floats, float]:
    """Return logarithms of rates that L-BFGS finds from here, and the objective there."""
    # L-BFGS takes a first step of the length of the slope, which is tiny on large maps.
    start, slope = problem.value(begin)
    scale = max(FIRST_STEP / max(float(np.abs(slope).max()), 1e-300), 1.0)

    def scaled(logs: Floats) -> tuple[float, Floats]:
        value, slope = problem.value(logs)
        return value * scale, slope * scale

    found, value = descend(
        scaled,
        begin,
        LOG_SCALE_RANGE,
        maxiter=iterations,
        # The search takes the gain of a value of 1 or more.
        ftol=GAIN_TOLERANCE * min(start * scale, 1.0),
        gtol=SLOPE_TOLERANCE * start * scale / begin.size,
    )
    return found, value / scale


def expected_bias(weight: Weights, prior: UserMeanPrior) -> Floats:
    """Return the expected bias of each cell by its weights, for a range of width 1."""
    length, distance = weight_distances(weight)
    return np.asarray(
        MEAN_ABS_NORMAL * prior.within_cell_sd * length + prior.weight_confounding / 2.0 * distance
    )


def max_bias(weight: Weights) -> Floats:
    """Return the most that weights can make each cell off by, for an interval of width 1."""
    return np.asarray(weight_distances(weight)[1] / 2.0)


def weight_distances(weight: Weights) -> tuple[Floats, Floats]:
    """Return how far each cell's weights are from the shares: √(Σ (w - p)²), and Σ |w - p|."""
    work = partial(
        _distances, weights=weight.column, totals=weight.totals,
        records=weight.occupancy.records_per_cell.astype(np.float64),
    )  # fmt: skip
    return weight.once("distances", lambda: weight.occupancy.map_cells(work))


def _distances(
    pairs: Pairs, *, weights: PairColumn, totals: Ints, records: Floats
) -> tuple[Floats, Floats]:
    """Return the same of some cells."""
    begin, away = pairs.start[:-1], weights.of(pairs) / pairs.spread(totals)
    away -= pairs.n / pairs.spread(records)
    length = np.sqrt(np.add.reduceat(np.square(away), begin))
    return length, np.add.reduceat(np.abs(away, out=away), begin)
