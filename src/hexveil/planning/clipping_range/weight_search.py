"""The search for user weights, wherever pairs are: at hand, or in blocks elsewhere.

The objective and its proof are those of planning/clipping_range/user_weights.py. Where pairs stay
elsewhere each look at the objective asks for four sums of them: what users would lose, what cells
are then off by, how that acts on users' factors, and how these act on rates. A look takes some jobs
of the engine, so the search begins with a part of the users, as the joint plan does
(planning/optimizers/distributed_mean_error.py), and takes a few steps with all of them. Let p be
that part. A cell's share of a fetched user is about 1 / p times its share among all, so that the
fetched users' rates at the loss L / p, divided by p, are about those of all users at L. If all
pairs are fetched, these are the rates, and no step is taken.

Fetched are at most about `FETCHED_PAIRS` pairs, however many there are. Weights are stated as a
number per user and one per cell (`hexveil.model.factored_weights`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from hexveil.accounting import contributions
from hexveil.model.factored_weights import WEIGHT_RESOLUTION, FactoredWeights
from hexveil.planning.clipping_range.user_weights import (
    ABS_SMOOTHING,
    ITERATIONS,
    MEAN_ABS_NORMAL,
    optimize_user_weights,
    search_rates,
)
from hexveil.planning.optimizers import user_sample

if TYPE_CHECKING:
    from collections.abc import Callable

    from hexveil.base.arrays import Floats, Ints
    from hexveil.model.factored_weights import Weights
    from hexveil.model.occupancy import LocalOccupancy, Occupancy, Pairs
    from hexveil.planning.clipping_range.user_weights import UserMeanPrior, UserWeights


DISTRIBUTED_ITERATIONS = 8
"""Steps with all users after the search with some; each asks for about five sums of all pairs."""


@dataclass(frozen=True, eq=False)
class DistributedUserWeights:
    """Weights and noise for an interval of width 1, of pairs that stay elsewhere.

    Attributes
    ----------
    weight : FactoredWeights
        In whole parts.
    noise, rates : ndarray of float, shape (n_cells,)
        As in `UserWeights`.
    """

    weight: FactoredWeights
    noise: Floats
    rates: Floats


def find_user_weights(
    occupancy: Occupancy,
    loss: float,
    prior: UserMeanPrior,
    iterations: int = ITERATIONS,
    begin: Floats | None = None,
) -> UserWeights | DistributedUserWeights:
    """Return weights and noise that make the average predicted error small.

    Parameters
    ----------
    occupancy : Occupancy
    loss : float
        The most that a user may lose, in epsilon.
    prior : UserMeanPrior
    iterations : int
        Of the search where pairs are at hand; fewer of them are good enough for a prediction.
    begin : ndarray of float, shape (n_cells,), optional
        Rates that were found for another loss or prior.
    """
    if occupancy.is_local:
        return optimize_user_weights(occupancy.local(), loss, prior, iterations, begin)

    def optimize_sample(sample: LocalOccupancy, part: float, known: Floats | None) -> UserWeights:
        return optimize_user_weights(sample, loss / part, prior, iterations, known)

    problem = DistributedWeightProblem(occupancy, loss, prior)
    return search_from_sample(problem, occupancy, optimize_sample, iterations, begin)


def in_whole_parts(weights: UserWeights | DistributedUserWeights) -> Weights:
    """Return the weights in whole parts of `WEIGHT_RESOLUTION`, rounded down."""
    if isinstance(weights, DistributedUserWeights):
        return weights.weight
    # Whole weights make whole contributions, whose sensitivity is an exact integer.
    return np.floor(weights.weight * WEIGHT_RESOLUTION).astype(np.int64)


def search_from_sample(
    problem: DistributedWeightProblem,
    occupancy: Occupancy,
    optimize_sample: Callable[[LocalOccupancy, float, Floats | None], UserWeights],
    iterations: int,
    begin: Floats | None,
) -> DistributedUserWeights:
    """Return weights of all users, searched from the rates that some users lead to.

    Parameters
    ----------
    problem : DistributedWeightProblem
        Of all users.
    occupancy : Occupancy
    optimize_sample : function
        Weights of the fetched pairs, given their part of all, and rates to begin with or None.
    iterations : int
    begin : ndarray of float, shape (n_cells,), or None
        Rates that were found for nearly the same question.
    """
    sample, cells, part = user_sample.fetch_sample(occupancy)
    known = None if begin is None else begin[cells] * part
    found = optimize_sample(sample, part, known).rates / part
    rates = np.full(occupancy.n_cells, float(np.median(found)))
    rates[cells] = found
    if part < 1.0:
        steps = min(iterations, DISTRIBUTED_ITERATIONS)
        rates = np.exp(search_rates(problem, np.log(rates), steps)[0])
    return problem.weighing(rates)


class DistributedWeightProblem:
    """Objective of user weights with its gradient, asked of pairs that stay elsewhere."""

    noise_size = 1.0
    """Expected size of noise of scale 1."""

    def __init__(self, occupancy: Occupancy, loss: float, prior: UserMeanPrior) -> None:
        self.occupancy, self.loss, self.prior = occupancy, loss, prior

    def weighing(self, rates: Floats) -> DistributedUserWeights:
        """Return the weights of these rates, and the noise."""
        factor, _ = self._factors(rates)
        total = self._of_cells(factor)
        weights = FactoredWeights(self.occupancy, factor, total)
        return DistributedUserWeights(weights, 1.0 / (self.loss * rates * total), rates)

    def value(self, logs: Floats) -> tuple[float, Floats]:
        """Return the objective and its slope in the logarithms of the rates."""
        rates, records = np.exp(logs), self.occupancy.records_per_cell
        factor, fall = self._factors(rates)
        total = self._of_cells(factor)
        noise = self.noise_size / (self.loss * rates * total)
        of_cells = partial(_bias_of_cells, prior=self.prior)
        bias, length, common = self.occupancy.map_cells(
            of_cells, (records, total, noise), (factor,)
        )
        of_users = partial(_slopes_of_users, prior=self.prior)
        cells = records, total, length, common
        through = fall * self.occupancy.map_users(of_users, cells, (factor,))
        by_rate = self._by_rate(rates, through) - noise / rates
        return float((noise + bias).mean()), by_rate * rates / rates.size

    def _by_rate(self, rates: Floats, through: Floats) -> Floats:  # noqa: ARG002  of squares
        """Return per cell how the objective rises with its rate, by the factors of its users."""
        return self._of_cells(through)

    def _factors(self, rates: Floats) -> tuple[Floats, Floats]:
        """Return each user's factor, and its derivative by the user's loss."""
        records = self.occupancy.records_per_cell
        asked = self.occupancy.map_users(contributions.sum_per_user, (records, rates))
        # A user whose cells all have a rate near 0 must not divide by it.
        losses = np.maximum(asked, 1e-300)
        return np.minimum(1.0, 1.0 / losses), np.where(losses > 1.0, -1.0 / losses**2, 0.0)

    def _of_cells(self, per_user: Floats) -> Floats:
        """Return per cell the sum over its users of their share times a figure of the user."""
        records = self.occupancy.records_per_cell
        asked = self.occupancy.map_cells(contributions.sum_per_cell, (records,), (per_user,))
        return np.asarray(asked)


def _bias_of_cells(
    pairs: Pairs,
    records: Ints,
    total: Floats,
    noise: Floats,
    factor: Floats,
    prior: UserMeanPrior,
) -> tuple[Floats, Floats, Floats]:
    """Return each cell's expected bias, the length of its differences, and its common slope."""
    share, part = _shares_and_parts(pairs, records, total, factor)
    begin = pairs.start[:-1]
    squares = np.add.reduceat((share * part) ** 2, begin)
    length = np.sqrt(squares + ABS_SMOOTHING**2 * np.add.reduceat(share**2, begin))
    distance = np.sqrt(part**2 + ABS_SMOOTHING**2)
    bias = (
        MEAN_ABS_NORMAL * prior.within_cell_sd * length
        + prior.weight_confounding / 2.0 * np.add.reduceat(share * distance, begin)
    )
    slope = _slopes(pairs, share, part, length, prior)
    return bias, length, np.add.reduceat((part + 1.0) * slope, begin) + noise


def _slopes_of_users(
    pairs: Pairs,
    records: Ints,
    total: Floats,
    length: Floats,
    common: Floats,
    factor: Floats,
    prior: UserMeanPrior,
) -> Floats:
    """Return how fast the objective rises with each user's factor."""
    share, part = _shares_and_parts(pairs, records, total, factor)
    # Weights sum to one: what all of a cell's slopes have in common does not count.
    slope = _slopes(pairs, share, part, length, prior) - share * common[pairs.cell]
    return contributions.sum_terms_per_user(pairs, slope / total[pairs.cell])


def _shares_and_parts(
    pairs: Pairs, records: Ints, total: Floats, factor: Floats
) -> tuple[Floats, Floats]:
    """Return each pair's share, and how far its weight is from it as a part of it."""
    share = contributions.record_shares(pairs, records)
    return share, factor[pairs.user] / total[pairs.cell] - 1.0


def _slopes(
    pairs: Pairs, share: Floats, part: Floats, length: Floats, prior: UserMeanPrior
) -> Floats:
    """Return how fast a cell's bias rises with each pair's weight, times its share."""
    distance = np.sqrt(part**2 + ABS_SMOOTHING**2)
    by_length = share * part * (MEAN_ABS_NORMAL * prior.within_cell_sd / length)[pairs.cell]
    return np.asarray(share * (by_length + prior.weight_confounding / 2.0 * part / distance))
