"""The search for users' weights under (ε, δ), wherever pairs are: at hand, or in blocks elsewhere.

Objective and proof are those of `gaussian_weights`; the search over blocks is that of
`hexveil.planning.clipping_range.weight_search`, with squares in place of sums. With a part q of the
users fetched, their rates at the square M / q², divided by q, are about those of all users at M.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from hexveil.accounting.noise_law import GAUSSIAN
from hexveil.planning.approximate.gaussian_weights import optimize_gaussian_weights
from hexveil.planning.clipping_range.user_weights import ITERATIONS
from hexveil.planning.clipping_range.weight_search import (
    DistributedUserWeights,
    DistributedWeightProblem,
    search_from_sample,
)
from hexveil.planning.optimizers.pair_sums import MappedShareSums

if TYPE_CHECKING:
    from hexveil.base.arrays import Floats
    from hexveil.model.occupancy import LocalOccupancy, Occupancy
    from hexveil.planning.clipping_range.user_weights import UserMeanPrior, UserWeights


class DistributedGaussianWeightProblem(DistributedWeightProblem):
    """Objective of weights under Gaussian noise, asked of pairs that stay elsewhere.

    Parameters
    ----------
    occupancy : Occupancy
    square : float
        M, the square of μ that no user may exceed by the cells.
    prior : UserMeanPrior
    """

    noise_size = GAUSSIAN.mean_absolute

    def __init__(self, occupancy: Occupancy, square: float, prior: UserMeanPrior) -> None:
        super().__init__(occupancy, math.sqrt(square), prior)
        self.squared_shares = MappedShareSums(occupancy, squared=True)

    def _factors(self, rates: Floats) -> tuple[Floats, Floats]:
        """Return each user's factor, and its derivative by half the square of the norm."""
        norms = np.sqrt(np.maximum(self.squared_shares.per_user(rates**2), 1e-300))
        return np.minimum(1.0, 1.0 / norms), np.where(norms > 1.0, -1.0 / norms**3, 0.0)

    def _by_rate(self, rates: Floats, through: Floats) -> Floats:
        """Return per cell how the objective rises with its rate, by the factors of its users."""
        return rates * self.squared_shares.per_cell(through)


def find_gaussian_weights(
    occupancy: Occupancy,
    square: float,
    prior: UserMeanPrior,
    iterations: int = ITERATIONS,
    begin: Floats | None = None,
) -> UserWeights | DistributedUserWeights:
    """Return weights, and deviations of the noise, of small average predicted error.

    Parameters
    ----------
    occupancy : Occupancy
    square : float
        The most that the cells may cost a user, as a square of μ.
    prior : UserMeanPrior
    iterations : int
        Of the search where pairs are at hand.
    begin : ndarray of float, shape (n_cells,), optional
        Rates that were found for nearly the same question.
    """
    if occupancy.is_local:
        return optimize_gaussian_weights(occupancy.local(), square, prior, iterations, begin)

    def optimize_sample(sample: LocalOccupancy, part: float, known: Floats | None) -> UserWeights:
        return optimize_gaussian_weights(sample, square / part**2, prior, iterations, known)

    problem = DistributedGaussianWeightProblem(occupancy, square, prior)
    return search_from_sample(problem, occupancy, optimize_sample, iterations, begin)
