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
from hexveil.mechanisms.private_quantile import ListedPoints, rounded_means, tally_votes
from hexveil.mechanisms.stage_data import PrivateSums
from hexveil.model.occupancy import PairColumn, Pairs, WholeGroup
from hexveil.model.pair_bins import PairSums
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
