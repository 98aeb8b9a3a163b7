"""Votes of pairs for their means and their distances, and tallies of them, wherever pairs are.

Three quarters of a user's votes are divided equally among its cells, the rest by its weight, so
that cells of few users count for more: at most PARTS for all pairs of a user. Votes and values are
computed in each block from weights, cells and users. Of each block comes a row of votes per
candidate, and the rows are added up: whole numbers, the same wherever blocks begin.

A distance is moved by both of its users. How far a user moves the distances of a cell is at most
its own votes there (pooled_spread.py), and nothing where it is alone. Where all pairs of cells are
together it is what is stated here, exactly; where blocks are of users it may be a little above
that, since such a block does not know who is the partner of whom. The scale of the choice is in
proportion to it, so that its loss is what was asked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from hexveil.accounting.promise import PARTS
from hexveil.base.arrays import Ints
from hexveil.base.read_only import ReadOnlyArrays, read_only
from hexveil.mechanisms.contract import PrivateSums
from hexveil.mechanisms.private_quantile import ListedPoints, rounded_means, tally_votes
from hexveil.mechanisms.stage_data import map_weighted
from hexveil.model.occupancy import Pairs
from hexveil.model.pair_columns import Weights

EQUAL_VOTES = 3 * PARTS // 4
"""Votes of a user that are divided equally among its cells; the rest is by weight."""


@dataclass(frozen=True, eq=False)
class WeightedVotes(ReadOnlyArrays):
    """Votes for the means of all pairs, and their tally: a `VotedValues`.

    Attributes
    ----------
    weights : Weights
    """

    weights: Weights

    @property
    def largest_share(self) -> int:
        """Largest sum of a user's parts of its cells, in grains; at least 1."""
        weights = self.weights

        def asked() -> int:
            return max(int(weights.map_users(_user_shares, (weights.totals,)).max()), 1)

        return weights.once("largest share of votes", asked)

    @property
    def user_votes(self) -> Ints:
        """Votes of each user; shape (n_users,)."""
        everywhere = np.ones(self.weights.occupancy.n_cells, dtype=bool)
        return self.weights.once(
            "votes of users", lambda: self._of_users(_sum_user_votes, everywhere)
        )

    @property
    def cell_votes(self) -> Ints:
        """Votes of all pairs of each cell; shape (n_cells,)."""
        work = partial(_sum_cell_votes, largest=self.largest_share)
        return self.weights.once(
            "votes of cells", lambda: read_only(self.weights.map_cells(work, *self._given()))
        )

    @property
    def distance_user_votes(self) -> Ints:
        """Largest number of votes by which each user moves distances; shape (n_users,)."""
        shared = self.weights.occupancy.users_per_cell > 1
        return self.weights.once(
            "votes moved in distances", lambda: self._of_users(_sum_moved_votes, shared)
        )

    @property
    def distance_votes(self) -> int:
        """Votes of all distances."""
        work = partial(_sum_distance_votes, largest=self.largest_share)
        return self.weights.once(
            "votes of distances", lambda: int(self.weights.map_cells(work, *self._given()).sum())
        )

    def tally(self, sums: PrivateSums, candidates: ListedPoints) -> Ints:
        """Return the votes of each place of a mean. PRIVATE."""
        return self.tally_by(_tally_means, sums, candidates)

    def tally_by(
        self, work: Callable[..., Ints], sums: PrivateSums, candidates: ListedPoints
    ) -> Ints:
        """Return the votes of each place. PRIVATE."""
        tally = partial(work, largest=self.largest_share, candidates=candidates)
        by_block = map_weighted(sums, self.weights, tally, *self._given())
        return np.asarray(by_block.sum(axis=1))

    def _of_users(self, work: Callable[..., Ints], counted: NDArray[np.bool_]) -> Ints:
        asked = partial(work, largest=self.largest_share)
        totals, cells_per_user = self._given()
        votes: Ints = self.weights.map_users(asked, (*totals, counted), cells_per_user)
        return np.asarray(read_only(votes))

    def _given(self) -> tuple[tuple[Ints, ...], tuple[Ints, ...]]:
        return (self.weights.totals,), (self.weights.occupancy.cells_per_user,)


@dataclass(frozen=True, eq=False)
class WeightedDistances:
    """The tally of distances between two user means of a cell: a `VotedValues`.

    Attributes
    ----------
    votes : WeightedVotes
    """

    votes: WeightedVotes

    def tally(self, sums: PrivateSums, candidates: ListedPoints) -> Ints:
        """Return the votes of each place of a distance. PRIVATE."""
        return self.votes.tally_by(_tally_distances, sums, candidates)


# ---- of pairs ----


def vote_shares(pairs: Pairs, weight: Ints, totals: Ints) -> Ints:
    """Return each pair's part of its cell in grains, rounded down."""
    # Whole numbers rounded down throughout: every processor has the same votes, and no user
    # more than PARTS.
    return np.asarray(weight * PARTS // pairs.spread(totals))


def votes_by_share(pairs: Pairs, share: Ints, cells_per_user: Ints, largest: int) -> Ints:
    """Return the votes of each pair: an equal part for each of the user's cells, and one by share.

    Parameters
    ----------
    pairs : Pairs
    share : ndarray of int64, shape (n_pairs,)
        As `vote_shares` returns it.
    cells_per_user : ndarray of int64, shape (n_users,)
    largest : int
        Largest sum of a user's shares, at least 1.
    """
    by_weight = share * (PARTS - EQUAL_VOTES) // largest
    return np.asarray(EQUAL_VOTES // cells_per_user[pairs.user] + by_weight)


def partners(pairs: Pairs) -> Ints:
    """Return the pair of the same cell that each pair is compared with; itself if it is alone.

    Each pair is compared with one other and is the partner of one, which differs in cells of
    three users or more.
    """
    start, size = pairs.start[:-1][pairs.cell], np.diff(pairs.start)[pairs.cell]
    position = np.arange(pairs.cell.size) - start
    # Not the next one: users with neighbouring ids may well be alike.
    step = np.maximum((size - 1) // 2, 1)
    return np.asarray(start + (position + step) % size)


def votes_of_distances(votes: Ints, partner: Ints) -> Ints:
    """Return the votes of each pair's distance from its partner; 0 where it is alone."""
    both = np.minimum(votes, votes[partner]) // 2
    return np.where(partner == np.arange(votes.size), 0, both)


def _user_shares(pairs: Pairs, weight: Ints, totals: Ints) -> Ints:
    return _sum_whole(pairs, vote_shares(pairs, weight, totals))


def _sum_user_votes(
    pairs: Pairs, weight: Ints, totals: Ints, counted: Ints, cells_per_user: Ints, largest: int
) -> Ints:
    votes = votes_by_share(pairs, vote_shares(pairs, weight, totals), cells_per_user, largest)
    return _sum_whole(pairs, np.where(counted[pairs.cell], votes, 0))


def _sum_moved_votes(
    pairs: Pairs, weight: Ints, totals: Ints, counted: Ints, cells_per_user: Ints, largest: int
) -> Ints:
    if not pairs.has_whole_cells:
        return _sum_user_votes(pairs, weight, totals, counted, cells_per_user, largest)
    votes = votes_by_share(pairs, vote_shares(pairs, weight, totals), cells_per_user, largest)
    partner = partners(pairs)
    moved = votes_of_distances(votes, partner)
    # A distance is moved by the partner as well.
    by_partner = np.zeros_like(moved)
    by_partner[partner] = moved
    return _sum_whole(pairs, moved + by_partner)


def _sum_cell_votes(
    pairs: Pairs, weight: Ints, totals: Ints, cells_per_user: Ints, largest: int
) -> Ints:
    votes = votes_by_share(pairs, vote_shares(pairs, weight, totals), cells_per_user, largest)
    return np.add.reduceat(votes, pairs.start[:-1])


def _sum_whole(pairs: Pairs, whole: Ints) -> Ints:
    """Return the sum of a whole number of each of a user's pairs."""
    sums = np.zeros(pairs.n_users, dtype=np.int64)
    np.add.at(sums, pairs.user, whole)
    return sums


def _sum_distance_votes(
    pairs: Pairs, weight: Ints, totals: Ints, cells_per_user: Ints, largest: int
) -> Ints:
    votes = votes_by_share(pairs, vote_shares(pairs, weight, totals), cells_per_user, largest)
    return np.atleast_1d(votes_of_distances(votes, partners(pairs)).sum())


def _tally_means(
    pairs: Pairs,
    weight: Ints,
    sums: Ints,
    totals: Ints,
    cells_per_user: Ints,
    largest: int,
    candidates: ListedPoints,
) -> Ints:
    votes = votes_by_share(pairs, vote_shares(pairs, weight, totals), cells_per_user, largest)
    return tally_votes(rounded_means(pairs, sums), votes, candidates)


def _tally_distances(
    pairs: Pairs,
    weight: Ints,
    sums: Ints,
    totals: Ints,
    cells_per_user: Ints,
    largest: int,
    candidates: ListedPoints,
) -> Ints:
    votes = votes_by_share(pairs, vote_shares(pairs, weight, totals), cells_per_user, largest)
    mean, partner = sums // pairs.n, partners(pairs)
    distance_votes = votes_of_distances(votes, partner)
    return tally_votes(np.abs(mean - mean[partner]), distance_votes, candidates)
