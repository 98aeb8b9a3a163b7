"""Pooled quantiles of user means, and their spread within cells: private choices with one proof.

Both are rank choices of mechanisms/map_quantiles.py, whose proof needs no more than the votes that
a user moves: at most GRAIN of all its pairs together (`weighted_votes`).

The spread within cells is measured before any cell has a centre: as a quantile of the distances
between the means of two users of one cell. Who is compared with whom is public (`partners`), so a
distance is moved by both of its users alone. In a cell of k users each is compared with two others,
and a distance has half the votes of that user of both who has fewer: what a user moves in a cell is
at most its votes there. Distances from noisy centres of cells would contain the error of these,
which is larger than the spread where cells have few users.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from hexveil.base.errors import InputError
from hexveil.mechanisms.cell_ranges.distributed_votes import (
    WeightedDistances,
    WeightedVotes,
    partners,
    vote_shares,
    votes_by_share,
    votes_of_distances,
)
from hexveil.mechanisms.map_quantiles import (
    GRAIN,
    MapQuantiles,
    UserMeans,
    blocks_of,
    vote_targets,
    votes_of_users,
)
from hexveil.mechanisms.private_quantile import EvenPoints, ListedPoints, selection_scale
from hexveil.mechanisms.released_ranges import STANDARD_NORMAL
from hexveil.model.factored_weights import FactoredWeights

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hexveil.mechanisms.contract import Ints, PrivateSums
    from hexveil.model.factored_weights import Weights
    from hexveil.model.occupancy import LocalOccupancy, Occupancy

QUANTILES, SPREAD = "interval", "spread"
"""Names of both stages, in the ledger."""
POINTS = 128
"""Steps between the points that a pooled quantile can be, at most."""
SPREAD_QUANTILE = Fraction(7, 10)
"""Share of the distances between two user means of a cell that lie within the measured point."""
SPREAD_POINTS = tuple(round(2**20 * 2 ** (-6 * k / 32)) for k in range(32, -1, -1))
"""Points for the spread, geometric over a factor of 64, in parts of 2^-20 of the largest."""
LARGEST_SPREAD = Fraction(5, 2)
"""Largest point, in deviations of all user means: 0.7 of distances lie within 1.47 of those."""
HALF_WIDTH = Fraction(8, 5)
"""How far the first range reaches, in deviations."""
SKEWED_HALF_WIDTH = Fraction(11, 5)
"""How far it reaches at least if the law is strongly skewed."""
SKEWED_RATIO = 2
"""Ratio of the deviations on both sides above which a law counts as strongly skewed."""
_Z_GRAIN = 2**20
NO_VOTES = np.zeros(0, dtype=np.int64)
"""Where pairs stay elsewhere their votes do too."""


def weighted_votes(occupancy: LocalOccupancy, weight: Ints) -> Ints:
    """Return the votes of each pair, at most `GRAIN` for all pairs of a user.

    Three quarters of a user's votes are divided equally among its cells, the rest by its weight,
    so that cells of few users count for more.

    Parameters
    ----------
    occupancy : LocalOccupancy
    weight : ndarray of int64, shape (n_pairs,)
        Whole weights of user means.
    """
    totals = np.add.reduceat(weight, occupancy.start[:-1])
    share = vote_shares(occupancy, weight, totals)
    largest = max(int(votes_of_users(occupancy, share).max()), 1)
    return votes_by_share(occupancy, share, occupancy.cells_per_user, largest)


# ---- pooled quantiles ----


def pooled_quantiles(
    occupancy: Occupancy,
    weight: Weights,
    lattice_steps: int,
    quantiles: tuple[Fraction, ...],
    epsilon: Fraction,
) -> MapQuantiles:
    """Return the choice of quantiles of the user means of all pairs.

    Parameters
    ----------
    occupancy : Occupancy
    weight : ndarray of int64, shape (n_pairs,), or FactoredWeights
    lattice_steps : int
        Width of the records' bounds in quanta.
    quantiles : tuple of Fraction
        Shares of all votes that are wanted at or below each point.
    epsilon : Fraction
        Loss of every user by all choices together.
    """
    points, scale = pooled_points(lattice_steps), selection_scale(GRAIN, epsilon / len(quantiles))
    reading: UserMeans | WeightedVotes
    if isinstance(weight, FactoredWeights):
        reading, votes = WeightedVotes(weight), NO_VOTES
        user_votes = reading.user_votes
    else:
        local = occupancy.local()
        reading, votes = UserMeans(local), weighted_votes(local, weight)
        user_votes = votes_of_users(local, votes)
    targets = vote_targets(user_votes, quantiles)
    return MapQuantiles(QUANTILES, reading, points, targets, votes, user_votes, scale)


def pooled_points(lattice_steps: int) -> EvenPoints:
    """Return the points that a pooled quantile can be."""
    return EvenPoints(lattice_steps, min(lattice_steps, POINTS))


@dataclass(frozen=True)
class PooledSpread:
    """Centre of all user means, and their normal deviations below and above it; in quanta.

    Attributes
    ----------
    centre, below, above : Fraction
    """

    centre: Fraction
    below: Fraction
    above: Fraction

    @classmethod
    def of(
        cls, points: tuple[int, ...], quantiles: tuple[Fraction, ...], lattice_steps: int
    ) -> PooledSpread:
        """Return the spread of a law with these released quantiles: two, or three with a median.

        Examples
        --------
        >>> spread = PooledSpread.of((20, 40, 50), (Fraction(1, 5), Fraction(1, 2), Fraction(4, 5)), 100)
        >>> int(spread.centre), round(float(spread.below), 2), round(float(spread.above), 2)
        (40, 23.76, 11.88)
        """  # noqa: E501
        # Each point was drawn for itself, so that they may come out in another order.
        low, *middle, high = sorted(points)
        z_low, z_high = normal_quantile(1 - quantiles[0]), normal_quantile(quantiles[-1])
        centre = Fraction(middle[0]) if middle else low + (high - low) * z_low / (z_low + z_high)
        # Points as near to each other as their distances say no more than that.
        half_step = Fraction(lattice_steps, 2 * pooled_points(lattice_steps).steps)
        below, above = max(centre - low, half_step), max(high - centre, half_step)
        return cls(centre, below / z_low, above / z_high)

    def first_range(self, lattice_steps: int, half_width: Fraction) -> tuple[int, int]:
        """Return the range of every cell's first look, within the bounds; in quanta.

        Parameters
        ----------
        lattice_steps : int
            Width of the records' bounds in quanta.
        half_width : Fraction
            How far it reaches, in deviations, unless the law is strongly skewed.
        """
        narrow, wide = sorted((self.below, self.above))
        is_skewed = wide > SKEWED_RATIO * narrow
        reach = max(half_width, SKEWED_HALF_WIDTH) if is_skewed else half_width
        # Not empty, as the centre lies within the bounds and both deviations are above 0.
        low = math.floor(self.centre - reach * self.below)
        high = math.ceil(self.centre + reach * self.above)
        return max(low, 0), min(high, lattice_steps)


def normal_quantile(share: Fraction) -> Fraction:
    """Return a quantile of the standard normal law, rounded so that processors agree on it."""
    return Fraction(round(_Z_GRAIN * STANDARD_NORMAL.inv_cdf(float(share))), _Z_GRAIN)


def check_quantiles(quantiles: tuple[Fraction, ...]) -> None:
    """Refuse quantiles from which no spread follows.

    Raises
    ------
    InputError
        Unless there is one on either side of the median, and nothing but that between them.
    """
    low, *middle, high = quantiles if len(quantiles) > 1 else (1, 0)
    if not (0 < low < Fraction(1, 2) < high < 1 and middle in ([], [Fraction(1, 2)])):
        raise InputError(
            "pooled quantiles are a lower and an upper one, with 1/2 between them or nothing; "
            "plan again."
        )


# ---- spread within cells ----


@dataclass(frozen=True, eq=False)
class PairDistances:
    """Distance of each pair's mean from its partner's, both rounded down to whole quanta."""

    occupancy: LocalOccupancy

    def blocks(self, sums: PrivateSums) -> Iterator[tuple[slice, Ints]]:
        """Yield the distances. PRIVATE."""
        mean, partner = sums.total // self.occupancy.n, partners(self.occupancy)
        for rows in blocks_of(self.occupancy):
            yield rows, np.abs(mean[:, rows] - mean[:, partner[rows]])


def distance_votes(occupancy: LocalOccupancy, weight: Ints) -> Ints:
    """Return the votes of each pair's distance from its partner; 0 where it is alone."""
    return votes_of_distances(weighted_votes(occupancy, weight), partners(occupancy))


def within_cell_spread(
    occupancy: Occupancy, weight: Weights, pooled: PooledSpread, epsilon: Fraction
) -> MapQuantiles | None:
    """Return the choice of a quantile of distances within cells; None if no cell has two users.

    Parameters
    ----------
    occupancy : Occupancy
    weight : ndarray of int64, shape (n_pairs,), or FactoredWeights
    pooled : PooledSpread
        Of all user means: public by then.
    epsilon : Fraction
        Loss of every user.
    """
    reading: PairDistances | WeightedDistances
    if isinstance(weight, FactoredWeights):
        by_weight, votes = WeightedVotes(weight), NO_VOTES
        reading, user_votes = WeightedDistances(by_weight), by_weight.distance_user_votes
        in_all = by_weight.distance_votes
    else:
        local = occupancy.local()
        reading, votes = PairDistances(local), distance_votes(local, weight)
        user_votes = votes_of_users(local, votes)
        # A distance is moved by the partner as well.
        np.add.at(user_votes, local.user[partners(local)], votes)
        in_all = int(votes.sum())
    if not in_all:
        return None
    targets = vote_targets(in_all, (SPREAD_QUANTILE,))
    scale, points = selection_scale(int(user_votes.max()), epsilon), spread_points(pooled)
    return MapQuantiles(SPREAD, reading, points, targets, votes, user_votes, scale)


def distance_vote_ratio(occupancy: Occupancy, weight: Weights) -> Fraction:
    """Return the votes of all distances relative to the sensitivity; 0 if there are none."""
    choice = within_cell_spread(occupancy, weight, _ANY_SPREAD, Fraction(1))
    if choice is None:
        return Fraction(0)
    if isinstance(choice.reading, WeightedDistances):
        in_all = choice.reading.votes.distance_votes
    else:
        in_all = int(choice.votes.sum())
    return Fraction(in_all, int(choice.user_votes.max()))


_ANY_SPREAD = PooledSpread(Fraction(0), Fraction(1), Fraction(1))


def spread_points(pooled: PooledSpread) -> ListedPoints:
    """Return the points that a distance can be chosen from, in proportion to the pooled spread."""
    largest = LARGEST_SPREAD * max(pooled.below, pooled.above)
    points = [math.ceil(largest * ratio / SPREAD_POINTS[-1]) for ratio in SPREAD_POINTS]
    return ListedPoints(np.unique(points).astype(np.int64))


def within_cell_deviation(distance: int) -> float:
    """Return the normal deviation of user means with this quantile of distances; in quanta.

    Examples
    --------
    >>> round(within_cell_deviation(1466), 1)
    1000.2
    """
    # A difference of two user means has twice the variance of one.
    return distance / (math.sqrt(2.0) * float(normal_quantile((1 + SPREAD_QUANTILE) / 2)))
