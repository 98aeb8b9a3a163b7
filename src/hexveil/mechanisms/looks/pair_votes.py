"""Votes of pairs for their means and their distances, and the spread within cells by the latter.

Three quarters of a user's votes are divided equally among its cells, the rest by its weight, so
that cells of few users count for more: at most PARTS for all pairs of a user. Votes and values are
computed in each block from weights, cells and users. Of each block comes a row of votes per
candidate, and the rows are added up: whole numbers, the same wherever blocks begin.

A distance is moved by both of its users. How far a user moves the distances of a cell is at most
its own votes there (pooled_spread.py), and nothing where it is alone. Where all pairs of cells are
together it is what is stated here, exactly; where blocks are of users it may be a little above
that, since such a block does not know who is the partner of whom. The scale of the choice is in
proportion to it, so that its loss is what was asked.

The spread within cells is measured before any cell has a centre: as a quantile of the distances
between the means of two users of one cell, by a rank choice of `private_quantile`. Who is
compared with whom is public (`partners`), so a distance is moved by both of its users alone. In a
cell of k users each is compared with two others, and a distance has half the votes of that user of
both who has fewer: what a user moves in a cell is at most its votes there. Distances from noisy
centres of cells would contain the error of these, which is larger than the spread where cells have
few users.

Private quantiles over all (cell, user) pairs of a map, such as of distances within cells.

The proof is that of `private_quantile`: all pairs of a user have at most PARTS votes
together, so that it moves every cost by at most so many, however many cells it is in. Points are
whole quanta. Means are compared exactly: s / m <= point as ceil(s / m) <= point, in integers.

Loss: a choice has scale 2 PARTS / ε', rounded up, so that it costs each user at most ε'; it is
charged to all users of the map, those who do not vote too.
Source: IOT section III-E for quantiles; ERRATA 12 for costs and scale.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hexveil.accounting.promise import PARTS
from hexveil.base.arrays import Ints
from hexveil.base.read_only import ReadOnlyArrays, read_only
from hexveil.mechanisms.contract import DrawnRow
from hexveil.mechanisms.private_quantile import ListedPoints, RankCost, selection_scale
from hexveil.mechanisms.sensitivity_report import (
    NoiseRequest,
    NoisyMax,
    SensitivityReport,
    Separate,
)
from hexveil.mechanisms.stage_data import STANDARD_NORMAL, Outputs, PrivateSums, Scores
from hexveil.model.occupancy import PairColumn, Pairs, WholeGroup
from hexveil.model.pair_bins import PairSums
from hexveil.model.pair_columns import Weights

EQUAL_VOTES = 3 * PARTS // 4
"""Votes of a user that are divided equally among its cells; the rest is by weight."""
SPREAD = "spread"
"""Name of the stage of the spread within cells, in the ledger."""
SPREAD_QUANTILE = Fraction(7, 10)
"""Share of the distances between two user means of a cell that lie within the measured point."""
SPREAD_POINTS = tuple(round(2**20 * 2 ** (-6 * k / 32)) for k in range(32, -1, -1))
"""Points for the spread, geometric over a factor of 64, in parts of 2^-20 of the largest."""
LARGEST_SPREAD = Fraction(5, 2)
"""Largest point, in deviations of all user means: 0.7 of distances lie within 1.47 of those."""
_Z_GRAIN = 2**20


@dataclass(frozen=True, eq=False)
class WeightedVotes(ReadOnlyArrays):
    """Votes for the means of all pairs, and their tallies.

    Attributes
    ----------
    weights : Weights
    """

    weights: Weights

    @property
    def largest_share(self) -> int:
        """Largest sum of a user's parts of its cells, in grains; at least 1."""
        weights = self.weights
        shares = partial(_user_shares, weights=weights.column, totals=weights.totals)
        return weights.once(
            "largest share of votes", lambda: max(int(weights.occupancy.map_users(shares).max()), 1)
        )

    @property
    def column(self) -> PairVotes:
        """The votes as kernels take them."""
        weights = self.weights
        cells = weights.occupancy.cells_per_user
        return PairVotes(weights.column, weights.totals, cells, self.largest_share)

    @property
    def user_votes(self) -> Ints:
        """Votes of each user; shape (n_users,)."""
        return self._once("votes of users", "users", _sum_user_votes)

    @property
    def cell_votes(self) -> Ints:
        """Votes of all pairs of each cell; shape (n_cells,)."""
        return self._once("votes of cells", "cells", _sum_cell_votes)

    @property
    def distance_user_votes(self) -> Ints:
        """Largest number of votes by which each user moves distances; shape (n_users,)."""
        work = partial(_sum_moved_votes, shared=self.weights.occupancy.users_per_cell > 1)
        return self._once("votes moved in distances", "users", work)

    @property
    def distance_votes(self) -> int:
        """Votes of all distances."""
        return int(self._once("votes of distances", "cells", _sum_distance_votes).sum())

    def _once(self, name: str, whole: WholeGroup, work: Callable[..., Ints]) -> Ints:
        ask = partial(self.weights.occupancy.map, whole)
        return self.weights.once(name, lambda: read_only(ask(partial(work, votes=self.column))))

    def tally(self, sums: PrivateSums, candidates: ListedPoints) -> Ints:
        """Return the votes of each place of a mean. PRIVATE."""
        return self.tally_by(_tally_means, sums, candidates)

    def tally_by(
        self, work: Callable[..., Ints], sums: PrivateSums, candidates: ListedPoints
    ) -> Ints:
        """Return the votes of each place. PRIVATE."""
        tally = partial(work, votes=self.column, candidates=candidates)
        by_block = sums.map_cells(self.weights.occupancy, tally)
        return np.asarray(by_block.sum(axis=1))


# ---- of pairs ----


@dataclass(frozen=True, eq=False)
class PairVotes:
    """Votes of pairs: an equal part for each of the user's cells, and one by share. A `PairColumn`.

    Attributes
    ----------
    weights : PairColumn
    totals : ndarray of int64, shape (n_cells,)
    cells_per_user : ndarray of int64, shape (n_users,)
    largest : int
        Largest sum of a user's shares, at least 1.
    """

    weights: PairColumn
    totals: Ints
    cells_per_user: Ints
    largest: int

    def of(self, pairs: Pairs) -> Ints:
        """Return the votes of each pair."""
        by_weight = vote_shares(pairs, self.weights, self.totals) * (PARTS - EQUAL_VOTES)
        return np.asarray(
            EQUAL_VOTES // self.cells_per_user[pairs.user] + by_weight // self.largest
        )


def vote_shares(pairs: Pairs, weights: PairColumn, totals: Ints) -> Ints:
    """Return each pair's part of its cell in grains, rounded down."""
    # Whole numbers rounded down throughout: every processor has the same votes, and no user
    # more than PARTS.
    return np.asarray(weights.of(pairs) * PARTS // pairs.spread(totals))


def partners(pairs: Pairs) -> Ints:
    """Return the pair of the same cell that each pair is compared with; itself if it is alone.

    Each pair is compared with one other and is the partner of one, which differs in cells of
    three users or more.
    """
    start, size = pairs.repeat(pairs.start[:-1]), pairs.repeat(np.diff(pairs.start))
    position = np.arange(pairs.cell.size) - start
    # Not the next one: users with neighbouring ids may well be alike.
    step = np.maximum((size - 1) // 2, 1)
    return np.asarray(start + (position + step) % size)


def votes_of_distances(votes: Ints, partner: Ints) -> Ints:
    """Return the votes of each pair's distance from its partner; 0 where it is alone."""
    both = np.minimum(votes, votes[partner]) // 2
    return np.where(partner == np.arange(votes.size), 0, both)


def _user_shares(pairs: Pairs, *, weights: PairColumn, totals: Ints) -> Ints:
    return pairs.sum_users(vote_shares(pairs, weights, totals))


def _sum_user_votes(pairs: Pairs, *, votes: PairVotes) -> Ints:
    return pairs.sum_users(votes.of(pairs))


def _sum_moved_votes(pairs: Pairs, *, votes: PairVotes, shared: NDArray[np.bool_]) -> Ints:
    own = votes.of(pairs)
    if not pairs.has_whole_cells:
        return pairs.sum_users(np.where(shared[pairs.cell], own, 0))
    partner = partners(pairs)
    moved = votes_of_distances(own, partner)
    # A distance is moved by the partner as well.
    by_partner = np.zeros_like(moved)
    by_partner[partner] = moved
    return pairs.sum_users(moved + by_partner)


def _sum_cell_votes(pairs: Pairs, *, votes: PairVotes) -> Ints:
    return np.asarray(np.add.reduceat(votes.of(pairs), pairs.start[:-1]))


def _sum_distance_votes(pairs: Pairs, *, votes: PairVotes) -> Ints:
    return np.atleast_1d(votes_of_distances(votes.of(pairs), partners(pairs)).sum())


def _tally_means(
    pairs: Pairs, sums: PairSums, *, votes: PairVotes, candidates: ListedPoints
) -> Ints:
    return tally_votes(rounded_means(pairs, sums.total), votes.of(pairs), candidates)


def _tally_distances(
    pairs: Pairs, sums: PairSums, *, votes: PairVotes, candidates: ListedPoints
) -> Ints:
    mean, partner = sums.total // pairs.n, partners(pairs)
    distance_votes = votes_of_distances(votes.of(pairs), partner)
    return tally_votes(np.abs(mean - mean[partner]), distance_votes, candidates)


def rounded_means(pairs: Pairs, sums: Ints) -> Ints:
    """Return the mean of each pair, rounded up: no point lies between it and the mean. PRIVATE."""
    # Points are whole, so that s / m <= point exactly if ceil(s / m) <= point.
    return np.asarray(-(-sums // pairs.n))


def tally_votes(values: Ints, votes: Ints, candidates: ListedPoints) -> Ints:
    """Return the votes of each place among a block's values, shape (1, n_candidates + 1). PRIVATE.

    One row per block: rows of all blocks are added up on the driver.
    """
    tally = np.zeros((1, candidates.size + 1), dtype=np.int64)
    np.add.at(tally[0], candidates.places(values[None])[0], votes)
    return tally


# ---- the spread within cells ----


@dataclass(frozen=True, eq=False)
class DistanceQuantile(ReadOnlyArrays, DrawnRow):
    """Choice of a quantile of the distances between two user means of a cell.

    Attributes
    ----------
    votes : WeightedVotes
    candidates : ListedPoints
    target : int
        Votes that are wanted at or below the point.
    user_votes : ndarray of int64, shape (n_users,)
        Votes that each user moves.
    scale : float
    """

    votes: WeightedVotes
    candidates: ListedPoints
    target: int
    user_votes: Ints
    scale: float
    name: ClassVar[str] = SPREAD
    entries: ClassVar[int] = 1

    def noise(self, earlier: Outputs) -> tuple[NoiseRequest, ...]:  # noqa: ARG002  see Stage
        """Return a permute-and-flip."""
        return (NoisyMax(self.scale),)

    def sensitivity(self, earlier: Outputs) -> tuple[SensitivityReport, ...]:  # noqa: ARG002
        """Return that a user moves every cost by at most its votes."""
        return (Separate.of_one_entry(self.user_votes),)

    def measure(self, sums: PrivateSums, earlier: Outputs) -> tuple[Scores, ...]:  # noqa: ARG002
        """Return the scores of the candidates. PRIVATE."""
        tally = self.votes.tally_by(_tally_distances, sums, self.candidates)
        ones = np.ones((1, self.candidates.size), dtype=np.int64)
        return (Scores(-RankCost(self.target).costs(np.cumsum(tally, axis=1)), ones),)


def normal_quantile(share: Fraction) -> Fraction:
    """Return a quantile of the standard normal law, rounded so that processors agree on it."""
    return Fraction(round(_Z_GRAIN * STANDARD_NORMAL.inv_cdf(float(share))), _Z_GRAIN)


def within_cell_spread(
    weight: Weights, deviation: int, epsilon: Fraction
) -> DistanceQuantile | None:
    """Return the choice of a quantile of distances within cells; None if no cell has two users.

    Parameters
    ----------
    weight : Weights
    deviation : int
        Of all user means, in quanta: public by then.
    epsilon : Fraction
        Loss of every user.
    """
    votes = WeightedVotes(weight)
    if not votes.distance_votes:
        return None
    user_votes, points = votes.distance_user_votes, spread_points(deviation)
    # Rounded half up.
    target = int(votes.distance_votes * SPREAD_QUANTILE + Fraction(1, 2))
    scale = selection_scale(int(user_votes.max()), epsilon)
    return DistanceQuantile(votes, points, target, user_votes, scale)


def distance_vote_ratio(weight: Weights) -> Fraction:
    """Return the votes of all distances relative to the sensitivity; 0 if there are none."""
    choice = within_cell_spread(weight, 1, Fraction(1))
    if choice is None:
        return Fraction(0)
    return Fraction(WeightedVotes(weight).distance_votes, int(choice.user_votes.max()))


def spread_points(deviation: int) -> ListedPoints:
    """Return the points that a distance can be chosen from, in proportion to the pooled spread."""
    largest = LARGEST_SPREAD * deviation
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
