"""Votes of pairs for their means.

Three quarters of a user's votes are divided equally among its cells, the rest by its weight, so
that cells of few users count for more: at most PARTS for all pairs of a user. Votes and values are
computed in each block from weights, cells and users. Of each block comes a row of votes per
candidate, and the rows are added up: whole numbers, the same wherever blocks begin.

Points are whole quanta. Means are compared exactly: s / m <= point as ceil(s / m) <= point, in
integers. How far votes move: `pooled_means`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from hexveil.accounting.promise import PARTS
from hexveil.base.arrays import Ints
from hexveil.base.read_only import ReadOnlyArrays, read_only
from hexveil.mechanisms.private_quantile import ListedPoints
from hexveil.mechanisms.stage_data import PrivateSums
from hexveil.model.occupancy import PairColumn, Pairs, WholeGroup
from hexveil.model.pair_bins import PairSums
from hexveil.model.pair_columns import Weights

EQUAL_VOTES = 3 * PARTS // 4
"""Votes of a user that are divided equally among its cells; the rest is by weight."""


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

    def _once(self, name: str, whole: WholeGroup, work: Callable[..., Ints]) -> Ints:
        ask = partial(self.weights.occupancy.map, whole)
        return self.weights.once(name, lambda: read_only(ask(partial(work, votes=self.column))))

    def tally(self, sums: PrivateSums, candidates: ListedPoints) -> Ints:
        """Return the votes of each place of a mean. PRIVATE."""
        tally = partial(_tally_means, votes=self.column, candidates=candidates)
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


def _user_shares(pairs: Pairs, *, weights: PairColumn, totals: Ints) -> Ints:
    return pairs.sum_users(vote_shares(pairs, weights, totals))


def _sum_user_votes(pairs: Pairs, *, votes: PairVotes) -> Ints:
    return pairs.sum_users(votes.of(pairs))


def _sum_cell_votes(pairs: Pairs, *, votes: PairVotes) -> Ints:
    return np.asarray(np.add.reduceat(votes.of(pairs), pairs.start[:-1]))


def _tally_means(
    pairs: Pairs, sums: PairSums, *, votes: PairVotes, candidates: ListedPoints
) -> Ints:
    return tally_votes(rounded_means(pairs, sums.total), votes.of(pairs), candidates)


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
