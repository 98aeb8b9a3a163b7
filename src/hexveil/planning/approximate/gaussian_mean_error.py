"""Joint plan of least average error under (ε, δ): Gaussian noise, squares that add up.

Symbols: p share of a user in a cell's records, a = 1/r the inverse deviation of a statistic of a
cell for bounds of width 1, f a user's factor, M the square of μ that (ε, δ) allows, κ = √(2/π). A
user costs at most f² Σ (a p)² over cells and statistics (it moves a variance by at most f p), so
that its largest factor is f = min(1, √M / √Σ (a p)²). With d = 1 - Σ f p a cell is off by at most
d/2 in its mean, `variance_bias` in its variance, and expects |noise| κ / a: the class is that of
planning/optimizers/minimax.py, with the L2 norm of a user's rates in place of their sum. The
average error is a smooth function of log a but for users just held, minimised by L-BFGS from
several places; statistics of cells that would do better as constants are made so, and it is
minimised again.

Where each user is in k cells alike and nobody is held, a = √M / (p √k).

Of pairs that stay elsewhere some users are fetched, a part q of all. A cell's share of a fetched
user is about 1/q times its share among all, so that the rates of these users at M / q² are about
those of all at M. From there a few steps are taken with all users, unless all were fetched.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hexveil.accounting.error_model import MAX_CONSTANT_ERROR, mean_bias, variance_bias
from hexveil.accounting.noise_law import GAUSSIAN
from hexveil.planning.optimizers import user_sample
from hexveil.planning.optimizers.bounded_descent import descend
from hexveil.planning.optimizers.distributed_mean_error import DISTRIBUTED_SEARCH, to_all_cells
from hexveil.planning.optimizers.mean_error import (
    CONSTANT_ROUNDS,
    FULL_SEARCH,
    LOG_SCALE_RANGE,
    ObjectiveWeights,
)
from hexveil.planning.optimizers.pair_sums import share_sums

if TYPE_CHECKING:
    from hexveil.base.arrays import Bools, Floats
    from hexveil.model.occupancy import Occupancy
    from hexveil.planning.optimizers.mean_error import SearchLimits


FEW_CELLS = 8
"""Cells up to which searches also begin with single cells, and without them."""
START_QUANTILES = (0.5, 0.9, 1.0)
"""Quantiles of what users cost at equal rates, where searches begin."""


CONSTANTS = np.array([[MAX_CONSTANT_ERROR["mean"]], [MAX_CONSTANT_ERROR["variance"]]])
"""What constants can miss, for bounds of width 1."""


@dataclass(frozen=True, eq=False)
class GaussianSolution:
    """Rates and factors.

    Attributes
    ----------
    rate : ndarray of float, shape (2, n_cells)
        1/r of means and variances for bounds of width 1; 0 where a cell publishes a constant.
    factor : ndarray of float, shape (n_users,)
    error : float
        Weighted sum of errors.
    """

    rate: Floats
    factor: Floats
    error: float


class GaussianProblem:
    """Average error of means and variances under Gaussian noise, with its slope.

    Parameters
    ----------
    occupancy : Occupancy
    weights : ObjectiveWeights
    square : float
        M.
    """

    def __init__(self, occupancy: Occupancy, weights: ObjectiveWeights, square: float) -> None:
        self.weight, self.root = np.stack((weights.mean, weights.variance)), math.sqrt(square)
        self.shares, self.squares = share_sums(occupancy)

    def norms(self, rate: Floats) -> Floats:
        """Return √Σ (a p)² of each user, over cells and statistics."""
        return np.asarray(np.sqrt(self.squares.per_user((rate**2).sum(axis=0))))

    def factors(self, rate: Floats) -> Floats:
        """Return the largest factor of each user."""
        norms = self.norms(rate)
        return np.where(norms > self.root, self.root / np.maximum(norms, 1e-300), 1.0)

    def cell_errors(self, rate: Floats, factor: Floats) -> Floats:
        """Return the error of both statistics of each cell, for bounds of width 1."""
        live = rate > 0
        noise = np.divide(GAUSSIAN.mean_absolute, rate, out=np.zeros_like(rate), where=live)
        shortfall = np.maximum(1.0 - self.shares.per_cell(factor), 0.0)
        bias = np.stack((mean_bias(shortfall), variance_bias(shortfall)))
        return np.where(live, bias + noise, CONSTANTS)

    def weighted_error(self, rate: Floats, factor: Floats) -> float:
        """Return the weighted sum of errors."""
        return float((self.weight * self.cell_errors(rate, factor)).sum())

    def value(self, rate: Floats) -> tuple[float, Floats]:
        """Return the weighted error and its slope in the rates."""
        live, norms = rate > 0, self.norms(rate)
        is_limited = norms > self.root
        factor = np.where(is_limited, self.root / np.maximum(norms, 1e-300), 1.0)
        shortfall = np.maximum(1.0 - self.shares.per_cell(factor), 0.0)
        # What a share put at the middle costs, and how fast a factor falls with its squared norm.
        price = np.stack((np.full(shortfall.size, 0.5), 0.5 - np.minimum(shortfall, 0.5)))
        worth = self.shares.per_user(np.where(live, self.weight * price, 0.0).sum(axis=0))
        fall = np.where(is_limited, self.root / np.maximum(norms, 1e-90) ** 3, 0.0)
        noise = np.divide(1.0, rate**2, out=np.zeros_like(rate), where=live)
        slope = rate * self.squares.per_cell(worth * fall)
        slope -= GAUSSIAN.mean_absolute * self.weight * noise
        return self.weighted_error(rate, factor), np.where(live, slope, 0.0)


def minimize_gaussian_error(
    occupancy: Occupancy, weights: ObjectiveWeights, square: float
) -> GaussianSolution:
    """Return the rates and factors of least weighted error.

    Parameters
    ----------
    occupancy : Occupancy
    weights : ObjectiveWeights
    square : float
        Square of μ that no user may exceed.

    Examples
    --------
    >>> from hexveil.model.occupancy import LocalOccupancy
    >>> from hexveil.planning.optimizers.mean_error import ObjectiveWeights
    >>> crowd = LocalOccupancy.from_dense([[1, 1]] * 50)
    >>> means = ObjectiveWeights(np.full(2, 0.5), np.zeros(2))
    >>> found = minimize_gaussian_error(crowd, means, 0.08)
    >>> 1.0 / found.rate[0]  # (1/50) √2 / √0.08
    array([0.1, 0.1])
    """
    problem = GaussianProblem(occupancy, weights, square)
    if not occupancy.is_local:
        return _from_sample(problem, occupancy, weights, square)
    constants = GaussianSolution(
        np.zeros_like(problem.weight), np.ones(occupancy.n_users), weights.constant_error()
    )
    solutions = [
        _with_constants(problem, live * (problem.root / typical), FULL_SEARCH)
        for live in _live_statistics(problem.weight > 0)
        for typical in _typical_norms(problem, live)
    ]
    return min([constants, *solutions], key=lambda solution: solution.error)


def _from_sample(
    problem: GaussianProblem, occupancy: Occupancy, weights: ObjectiveWeights, square: float
) -> GaussianSolution:
    """Return the solution to which some users lead, and a few steps with all of them."""
    sample, cells, part = user_sample.fetch_sample(occupancy)
    weighed = ObjectiveWeights(weights.mean[cells], weights.variance[cells])
    found = minimize_gaussian_error(sample, weighed, square / part**2)
    rate = np.stack([to_all_cells(own, cells, occupancy.n_cells) for own in found.rate])
    # Between constants alone there is nothing to descend.
    if part < 1.0 and rate.any():
        rate, _ = _descend(problem, rate, rate > 0, DISTRIBUTED_SEARCH)
    factor = problem.factors(rate)
    return GaussianSolution(rate, factor, problem.weighted_error(rate, factor))


def _live_statistics(weighted: Bools) -> list[Floats]:
    """Return which numbers begin with noise, as 1: all; of few cells also all but one, or one.

    Of two statistics also either alone. Between constants and noise lies a barrier, which matters
    where little can be said at all.
    """
    everywhere = weighted.astype(np.float64)
    rows = [row for row in np.eye(2)[:, :, None] * everywhere if row.any()]
    starts = [everywhere, *(rows if len(rows) > 1 else ())]
    n_cells = weighted.shape[1]
    if 1 < n_cells <= FEW_CELLS:
        alone = [everywhere * indicator for indicator in np.eye(n_cells)]
        starts += [*alone, *(everywhere - indicator for indicator in alone if n_cells > 2)]
    return [indicator for indicator in starts if indicator.any()]


def _typical_norms(problem: GaussianProblem, live: Floats) -> list[float]:
    """Return quantiles of the norms of users in these cells at equal rates."""
    norms = problem.norms(live)
    typical: list[float] = np.unique(np.quantile(norms[norms > 0], START_QUANTILES)).tolist()
    return typical


def _with_constants(
    problem: GaussianProblem, begin: Floats, effort: SearchLimits
) -> GaussianSolution:
    """Return the best of descents, between which numbers that do better so become constants."""
    live, rate, best = begin > 0, begin, None
    for _ in range(CONSTANT_ROUNDS):
        rate, error = _descend(problem, rate, live, effort)
        factor = problem.factors(rate)
        if best is None or error < best.error:
            best = GaussianSolution(rate, factor, error)
        worse = live & (problem.cell_errors(rate, factor) >= CONSTANTS)
        live = live & ~worse
        if not worse.any() or not live.any():
            break
        rate = np.where(live, rate, 0.0)
    assert best is not None  # noqa: S101  there is a round
    return best


def _descend(
    problem: GaussianProblem, begin: Floats, live: Bools, effort: SearchLimits
) -> tuple[Floats, float]:
    """Return the rates that L-BFGS finds, and the error there."""

    def unpack(logs: Floats) -> Floats:
        rate = np.zeros(live.shape)
        rate[live] = np.exp(logs)
        return rate

    def value(logs: Floats) -> tuple[float, Floats]:
        rate = unpack(logs)
        error, slope = problem.value(rate)
        return error, (slope * rate)[live]

    start = np.log(begin[live])
    optimum, error = descend(value, start, LOG_SCALE_RANGE, effort.stop_rule())
    return unpack(optimum), error
