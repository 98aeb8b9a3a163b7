"""Users' weights under (ε, δ): the search of `user_weights`, with squares in place of sums.

For an interval of width 1 a user moves a cell's number by its weight w, and costs Σ (w/r)² over all
cells, r the deviations of Gaussian noise (accounting/moves.py). With w ∝ f p and rates
a = 1 / (r √M T), T the sum of f p in the cell, that is at most M where f² Σ (a p)² is at most 1: f
is 1 where the norm √Σ (a p)² is at most 1, and else what brings it there. Noise is expected to be
√(2/π) r in size. What a cell is off by is as in `user_weights`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from hexveil.accounting.noise_law import GAUSSIAN
from hexveil.planning.clipping_range.user_weights import (
    ITERATIONS,
    UserMeanPrior,
    UserWeights,
    WeightProblem,
    search_rates,
)
from hexveil.planning.optimizers.pair_sums import PairFigureSums

if TYPE_CHECKING:
    from hexveil.base.arrays import Floats
    from hexveil.model.occupancy import LocalOccupancy


START_QUANTILES = (0.5, 0.9)
"""Quantiles of users' norms at equal rates, where the search begins."""


class GaussianWeightProblem(WeightProblem):
    """Average noise plus the expected bias by weights, with its gradient, under Gaussian noise.

    Parameters
    ----------
    occupancy : LocalOccupancy
    square : float
        M, the square of μ that no user may exceed by the cells.
    prior : UserMeanPrior
    """

    def __init__(self, occupancy: LocalOccupancy, square: float, prior: UserMeanPrior) -> None:
        super().__init__(occupancy, math.sqrt(square), prior)
        self.squared_shares = PairFigureSums(occupancy, self.share**2)

    def norms(self, rates: Floats) -> Floats:
        """Return √Σ (a p)² of each user."""
        # A user whose cells all have a rate near 0 must not divide by it.
        return np.asarray(np.sqrt(np.maximum(self.squared_shares.per_user(rates**2), 1e-300)))

    def _factors(self, rates: Floats) -> tuple[Floats, Floats]:
        """Return each user's factor, and its derivative by half the square of the norm."""
        norms = self.norms(rates)
        return np.minimum(1.0, 1.0 / norms), np.where(norms > 1.0, -1.0 / norms**3, 0.0)

    def value(self, logs: Floats) -> tuple[float, Floats]:
        """Return the objective and its slope in the logarithms of the rates."""
        rates = np.exp(logs)
        factor, fall = self._factors(rates)
        total = self.shares.per_cell(factor)
        noise = GAUSSIAN.mean_absolute / (self.loss * rates * total)
        bias = np.empty_like(total)
        for run in self.runs:
            bias[run.cells] = self._look(run, factor, total[run.cells], noise[run.cells])
        through = fall * (self.slopes.per_user(1.0 / total))
        # Half the square of a norm rises with a rate as the rate times the squared share.
        by_rate = rates * (self.squared_shares.per_cell(through)) - noise / rates
        return float((noise + bias).mean()), by_rate * rates / rates.size


def optimize_gaussian_weights(
    occupancy: LocalOccupancy,
    square: float,
    prior: UserMeanPrior,
    iterations: int = ITERATIONS,
    begin: Floats | None = None,
) -> UserWeights:
    """Return weights, and deviations of the noise, of small average predicted error.

    Parameters
    ----------
    occupancy : LocalOccupancy
    square : float
        The most that the cells may cost a user, as a square of μ.
    prior : UserMeanPrior
    iterations : int
    begin : ndarray of float, shape (n_cells,), optional
        Rates that were found for nearly the same question.

    Examples
    --------
    >>> from hexveil.model.occupancy import LocalOccupancy
    >>> crowd = LocalOccupancy.from_dense([[1, 1]] * 50)
    >>> optimize_gaussian_weights(crowd, 0.08, UserMeanPrior(0.3, 0.1)).noise.round(6)
    array([0.1, 0.1])
    """
    problem = GaussianWeightProblem(occupancy, square, prior)
    if begin is None:
        norms = problem.norms(np.ones(occupancy.n_cells))
        starts = [
            np.full(occupancy.n_cells, -math.log(start_norm))
            for start_norm in np.quantile(norms, START_QUANTILES).tolist()
        ]
    else:
        starts = [np.log(begin)]
    optima = (search_rates(problem, start, iterations) for start in starts)
    return problem.weighing(np.exp(min(optima, key=lambda optimum: optimum[1])[0]))
