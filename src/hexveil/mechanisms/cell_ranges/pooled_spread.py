"""Pooled quantiles of user means, and their spread within cells: private choices with one proof.

Both are rank choices of mechanisms/map_quantiles.py, whose proof needs no more than the votes that
a user moves: at most GRAIN of all its pairs together (`weighted_votes`).

The spread within cells is measured before any cell has a centre: as a quantile of the distances
between the means of two users of one cell. Who is compared with whom is public (`partners`), so a
distance is moved by both of its users alone. In a cell of k users each is compared with two others,
and a distance has half the votes of that user of both who has fewer: what a user moves in a cell is
at most its votes there. Distances from noisy centres of cells would contain the error of these,
which is larger than the spread where cells have few users.

Users differ in how much of their loss the cells leave over: who loses less there may have more
votes. A quantile has the scale of GRAIN votes, 2 GRAIN / ε' for a loss of ε', so that a user with
V votes, of all its pairs together, loses at most ε' V / GRAIN (`vote_losses`). So it is with the
spread, of the scale 2 m / ε': a user moves its costs by at most m V / GRAIN.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from hexveil.base.errors import InputError
from hexveil.base.rational import round_up
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

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hexveil.mechanisms.contract import Floats, Ints, PrivateSums
    from hexveil.model.occupancy import LocalOccupancy

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
HALF_WIDTH, NOISY_HALF_WIDTH = Fraction(8, 5), Fraction(13, 10)
"""How far the first range reaches, in deviations; the latter where cells are noisy, since most of
their error is then in proportion to its width. Wider ranges for little noise lose: fewer cells are
then measured anew in narrow ones."""
MUCH_NOISE = 1.0 / 12.0
"""Median of the cells' noise, as a part of the range's width, from which on they are noisy."""
SKEWED_HALF_WIDTH = Fraction(11, 5)
"""How far it reaches at least if the law is strongly skewed."""
SKEWED_RATIO = 2
"""Ratio of the deviations on both sides above which a law counts as strongly skewed."""
_Z_GRAIN = 2**20


def weighted_votes(occupancy: LocalOccupancy, weight: Ints, user_votes: Ints) -> Ints:
    """Return the votes of each pair, at most those of the user for all its pairs.

    Three quarters of a user's votes are divided equally among its cells, the rest by its weight,
    so that cells of few users count for more.

    Parameters
    ----------
    occupancy : LocalOccupancy
    weight : ndarray of int64, shape (n_pairs,)
        Whole weights of user means.
    user_votes : ndarray of int64, shape (n_users,)
        Votes of each user, at most `GRAIN`.
    """
    equal = 3 * GRAIN // 4
    totals = np.add.reduceat(weight, occupancy.start[:-1])[occupancy.cell]
    # Whole numbers rounded down throughout: every processor has the same votes, and no user
    # more than GRAIN.
    share = weight * GRAIN // totals
    largest = max(int(votes_of_users(occupancy, share).max()), 1)
    by_weight = share * (GRAIN - equal) // largest
    votes = equal // occupancy.cells_per_user[occupancy.user] + by_weight
    return np.asarray(votes * user_votes[occupancy.user] // GRAIN)


def vote_losses(user_votes: Ints, epsilon: Fraction) -> Floats:
    """Return each user's loss by pooled choices that cost ε with all votes; rounded up.

    Examples
    --------
    >>> vote_losses(np.array([GRAIN, GRAIN // 4]), Fraction(1, 2)).round(9)
    array([0.5  , 0.125])
    """
    # A quotient by a power of two is exact; the product is off by an ulp at most.
    return np.asarray(round_up(epsilon) * (user_votes / GRAIN) * (1.0 + 2.0**-51))


def full_votes(occupancy: LocalOccupancy) -> Ints:
    """Return all votes for every user."""
    return np.full(occupancy.n_users, GRAIN, dtype=np.int64)


# ---- pooled quantiles ----


def pooled_quantiles(
    occupancy: LocalOccupancy,
    weight: Ints,
    lattice_steps: int,
    quantiles: tuple[Fraction, ...],
    epsilon: Fraction,
    user_votes: Ints,
) -> MapQuantiles:
    """Return the choice of quantiles of the user means of all pairs.

    Parameters
    ----------
    occupancy : LocalOccupancy
    weight : ndarray of int64, shape (n_pairs,)
    lattice_steps : int
        Width of the records' bounds in quanta.
    quantiles : tuple of Fraction
        Shares of all votes that are wanted at or below each point.
    epsilon : Fraction
        Loss of a user with all votes by all choices together.
    user_votes : ndarray of int64, shape (n_users,)
    """
    votes = weighted_votes(occupancy, weight, user_votes)
    return MapQuantiles(
        QUANTILES,
        UserMeans(occupancy),
        pooled_points(lattice_steps),
        vote_targets(votes, quantiles),
        votes,
        votes_of_users(occupancy, votes),
        selection_scale(GRAIN, epsilon / len(quantiles)),
    )


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


def first_half_width(noise: Floats) -> Fraction:
    """Return how far the first range reaches, in deviations, for this noise of cells.

    Parameters
    ----------
    noise : ndarray of float, shape (n_cells,)
        Laplace scale of each cell for a range of width 1 and all of the loss; public.

    Examples
    --------
    >>> first_half_width(np.array([0.1, 0.1, 0.01])), first_half_width(np.array([0.03]))
    (Fraction(13, 10), Fraction(8, 5))
    """
    return HALF_WIDTH if float(np.median(noise)) < MUCH_NOISE else NOISY_HALF_WIDTH


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


def partners(occupancy: LocalOccupancy) -> Ints:
    """Return the pair of the same cell that each pair is compared with; itself if it is alone.

    Each pair is compared with one other and is the partner of one, which differs in cells of
    three users or more.
    """
    start, size = occupancy.start[:-1][occupancy.cell], occupancy.users_per_cell[occupancy.cell]
    position = np.arange(occupancy.n_pairs) - start
    # Not the next one: users with neighbouring ids may well be alike.
    step = np.maximum((size - 1) // 2, 1)
    return np.asarray(start + (position + step) % size)


@dataclass(frozen=True, eq=False)
class PairDistances:
    """Distance of each pair's mean from its partner's, both rounded down to whole quanta."""

    occupancy: LocalOccupancy

    def blocks(self, sums: PrivateSums) -> Iterator[tuple[slice, Ints]]:
        """Yield the distances. PRIVATE."""
        mean, partner = sums.total // self.occupancy.n, partners(self.occupancy)
        for rows in blocks_of(self.occupancy):
            yield rows, np.abs(mean[:, rows] - mean[:, partner[rows]])


def distance_votes(occupancy: LocalOccupancy, weight: Ints, user_votes: Ints) -> Ints:
    """Return the votes of each pair's distance from its partner; 0 where it is alone."""
    votes, partner = weighted_votes(occupancy, weight, user_votes), partners(occupancy)
    both = np.minimum(votes, votes[partner]) // 2
    return np.where(partner == np.arange(occupancy.n_pairs), 0, both)


def within_cell_spread(
    occupancy: LocalOccupancy,
    weight: Ints,
    pooled: PooledSpread,
    epsilon: Fraction,
    user_votes: Ints,
) -> MapQuantiles | None:
    """Return the choice of a quantile of distances within cells; None if no cell has two users.

    Parameters
    ----------
    occupancy : LocalOccupancy
    weight : ndarray of int64, shape (n_pairs,)
    pooled : PooledSpread
        Of all user means: public by then.
    epsilon : Fraction
        Loss of a user with all votes.
    user_votes : ndarray of int64, shape (n_users,)
    """
    votes = distance_votes(occupancy, weight, user_votes)
    moved = votes_of_users(occupancy, votes)
    # A distance is moved by the partner as well.
    np.add.at(moved, occupancy.user[partners(occupancy)], votes)
    if not votes.any():
        return None
    # Some of a user's votes have no distance: as many of all votes, at most, move a cost.
    most = int((-(-moved * GRAIN // np.maximum(user_votes, 1))).max())
    return MapQuantiles(
        SPREAD,
        PairDistances(occupancy),
        spread_points(pooled),
        vote_targets(votes, (SPREAD_QUANTILE,)),
        votes,
        moved,
        selection_scale(most, epsilon),
    )


def spread_points(pooled: PooledSpread) -> ListedPoints:
    """Return the points that a distance can be chosen from, in proportion to the pooled spread."""
    largest = LARGEST_SPREAD * max(pooled.below, pooled.above)
    points = [math.ceil(largest * ratio / SPREAD_POINTS[-1]) for ratio in SPREAD_POINTS]
    return ListedPoints(np.unique(points).astype(np.int64))


def within_cell_deviation(distance: int) -> float:
    """Return the normal deviation of user means whose distances have this quantile; in quanta.

    Examples
    --------
    >>> round(within_cell_deviation(1466), 1)
    1000.2
    """
    # A difference of two user means has twice the variance of one.
    return distance / (math.sqrt(2.0) * float(normal_quantile((1 + SPREAD_QUANTILE) / 2)))
