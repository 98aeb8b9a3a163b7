"""Weighted means of user means in a clipping range: one integer per cell from private sums.

Let the interval be [a, b] in quanta above the lower bound of the records, whole numbers, chosen
privately or all of the bounds. A pair with m records, sum s and the whole weight W contributes

    c = floor(W clip(s, a m, b m) / m),

the user's mean projected to [a, b], times W. The cell's statistic is y = Σ c, its noise discrete
Laplace of scale R, and what is published is lower + quantum (y + noise) / Σ W. Rounding down moves
that by less than one quantum times the number of users over Σ W, which is below 2^-9 of a quantum
for cells of up to 2^17 users (mechanisms/looks/one_range.py).

Neighbours: all values of one user, in all its cells at once, change within the bounds; users
and counts stay. Then only this user's contributions change. W a and W b are whole, and c lies
between them and reaches both: the sensitivity W (b - a) is exact.
Loss: cells have independent noise, and discrete Laplace of scale R at integer distance d costs at
most d / R (mechanisms/noise.py). R is (b - a) (Σ W) r rounded up, r the plan's noise for an
interval of width 1: a cell costs at most W / (r Σ W), whatever the interval. So what a user loses
is known before the interval is; with what the interval costs it adds up to what is booked, since
losses add up whatever earlier outputs chose (ledger/odometer.py).
Source: docs/understand/clipping-range.md; ERRATA 3 for the accounting.

**Votes** of pairs for their means, in the pooled histogram.

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
from fractions import Fraction
from functools import partial

import numpy as np

from hexveil.accounting.moves import PairMoves, StatisticMoves
from hexveil.accounting.noise_law import NoiseLaw
from hexveil.accounting.promise import PARTS
from hexveil.base.arrays import Floats, Ints
from hexveil.base.errors import InputError
from hexveil.base.rational import round_up
from hexveil.base.read_only import ReadOnlyArrays, read_only
from hexveil.mechanisms.contract import NoisyTotals
from hexveil.mechanisms.looks.clipped_mean import CellLattice, check_room
from hexveil.mechanisms.sensitivity_report import MappedMoves
from hexveil.mechanisms.stage_data import ROOM, EstimateGrid, PrivateSums
from hexveil.model.occupancy import Occupancy, PairColumn, Pairs, WholeGroup
from hexveil.model.pair_bins import PairSums
from hexveil.model.pair_columns import WEIGHT_RESOLUTION, Weights

Ends = tuple[int, int] | tuple[Ints, Ints]


def contributions(total: Ints, n: Ints, weight: Ints, ends: Ends) -> Ints:
    """Return c of each pair, for one range or for a range per pair. PRIVATE.

    Examples
    --------
    >>> integers = [np.array([value]) for value in (7, 2, 10)]
    >>> contributions(*integers, (0, 100)), contributions(*integers, (0, 3))
    (array([35]), array([30]))
    """
    within = np.clip(total, ends[0] * n, ends[1] * n)
    # In two parts, since W s need not fit 64 bits; the floor of W s / m is the same.
    quotient, remainder = np.divmod(within, n)
    return np.asarray(weight * quotient + weight * remainder // n, dtype=np.int64)


def laplace_scales(
    noise: Floats, totals: Ints, width: int | Ints, share: Fraction = Fraction(1)
) -> Floats:
    """Return R of each number: its noise for a width of 1 and all of the loss, rounded up.

    Parameters
    ----------
    noise : ndarray of float, shape (n,)
    totals : ndarray of int64, shape (n,)
        Sums of weights.
    width : int or ndarray of int64, shape (n,)
        How far a weight of 1 can move the number.
    share : Fraction
        Share of the loss that goes here.
    """
    # Exact rationals, rounded up once: a smaller scale would cost more than was booked.
    exact = (
        round_up(Fraction(float(r)) * int(total) * int(w) / share)
        for r, total, w in zip(noise, totals, np.broadcast_to(width, totals.shape), strict=True)
    )
    return np.array(list(exact), dtype=np.float64)


# ---- sensitivity ----


def weighted_moves(weight: Weights, width: Ints, scale: Floats) -> StatisticMoves:
    """Return that a pair moves its cell's number by its weight times a width.

    Parameters
    ----------
    weight : Weights
    width : ndarray of int64, shape (n_cells,)
        Most that a weight of 1 moves each cell's number: the width of its range in quanta; the
        parts of a second moment, and 0 in cells of one record.
    scale : ndarray of float, shape (n_cells,)
        Noise; infinite where a cell has no number.
    """
    return StatisticMoves.of(_moved, scale, weights=weight.column, width=width)


def _moved(pairs: Pairs, *, weights: PairColumn, width: Ints) -> Ints:
    return np.asarray(weights.of(pairs) * width[pairs.cell])


# ---- means ----


@dataclass(frozen=True, eq=False)
class WeightedMean(ReadOnlyArrays):
    """The public side of weighted means of user means, clipped to a range.

    Attributes
    ----------
    occupancy : Occupancy
    weight : Weights
        W of each pair.
    noise : ndarray of float, shape (n_cells,)
        Laplace scale of each cell's mean for a range of width 1.
    """

    occupancy: Occupancy
    weight: Weights
    noise: Floats

    @property
    def totals(self) -> Ints:
        """Sum of weights of each cell."""
        return self.weight.totals

    def scales(self, width: int | Ints, share: Fraction = Fraction(1)) -> Floats:
        """Return R of each cell for a range of `width` quanta: its noise, rounded up."""
        return laplace_scales(self.noise, self.totals, width, share)

    def sensitivity(self, *statistics: StatisticMoves) -> MappedMoves:
        """Return by how much each pair moves its cell's numbers of one draw."""
        return MappedMoves(PairMoves(self.occupancy, statistics))

    def moves(self, width: int | Ints) -> StatisticMoves:
        """Return that a pair moves its cell's number by W (b - a), exactly."""
        ones = np.ones(self.noise.size)
        return weighted_moves(self.weight, np.full(ones.size, width), ones)

    def measure(self, sums: PrivateSums, ends: Ends) -> Ints:
        """Return y of every cell, shape (batch, n_cells). PRIVATE.

        Privacy
        -------
        It leaves only through the noise door. One user moves entry g by at most W (b - a), which it
        can (module head).

        Parameters
        ----------
        sums : PrivateSums
        ends : pair of int, or of ndarray of int64, shape (n_cells,)
            The range, in quanta above the lower bound of the records; of all cells, or of each.
        """
        low, high = (np.broadcast_to(end, self.noise.shape) for end in ends)
        work = partial(_measure, weights=self.weight.column, lower=low, upper=high)
        return sums.map_cells(self.occupancy, work)

    def stage(self, name: str, law: NoiseLaw, ends: Ends, scales: Floats) -> NoisyTotals:
        """Return the stage of y of every cell, in ranges that are public by then."""
        report = self.sensitivity(self.moves(np.subtract(ends[1], ends[0])))
        total = partial(self.measure, ends=ends)
        return NoisyTotals(name, scales.size, law, report, total, scales=scales)

    def averages(self, noisy: Ints) -> Floats:
        """Return noisy means in quanta above the centre."""
        quotient, remainder = np.divmod(noisy, self.totals)
        return np.asarray(quotient + remainder / self.totals)

    def grid(self, lattice: CellLattice) -> EstimateGrid:
        """Return where published means can lie."""
        start = np.full(self.totals.size, lattice.lower_value)
        return EstimateGrid(start, lattice.quantum / self.totals)

    def check(self) -> None:
        """Refuse weights or noise under which the stated loss would not hold.

        Raises
        ------
        InputError
            If a weight is below zero, or a cell has none or no noise.
        """
        if not self.weight.is_sound() or not (self.noise > 0).all():
            raise InputError("the plan has a cell without weights or noise; plan again.")

    def check_bounds(self, lattice: CellLattice) -> None:
        """Refuse narrower bounds, and records of one user that do not fit with their weight.

        Raises
        ------
        InputError
        """
        if lattice.width != lattice.steps:
            raise InputError(
                "a private clipping range is found within the bounds that the records were read "
                "with; leave bounds out of the plan."
            )
        if WEIGHT_RESOLUTION * int(self.occupancy.records_per_user.max()) >= ROOM:
            raise InputError(
                "so many records of one user do not fit whole numbers of 64 bits with their "
                'weight; ask for clipping_range "bounds".'
            )

    def check_room(self, width: int, epsilon: float) -> None:
        """Refuse, from public facts, statistics and noise that could leave 64 bits."""
        check_room(self.totals, self.scales(width), width, epsilon)


def _measure(
    pairs: Pairs, sums: PairSums, *, weights: PairColumn, lower: Ints, upper: Ints
) -> Ints:
    """Return the weighted sums of the cells of a block. PRIVATE."""
    ends = pairs.spread(lower), pairs.spread(upper)
    contribution = contributions(sums.total, pairs.n, weights.of(pairs), ends)
    return np.asarray(np.add.reduceat(contribution, pairs.start[:-1]))


# ---- votes ----

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

    def tally(self, sums: PrivateSums, edges: Ints) -> Ints:
        """Return the votes of each bin of means up to an edge, and beyond all. PRIVATE."""
        tally = partial(_tally_means, votes=self.column, edges=edges)
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


def _tally_means(pairs: Pairs, sums: PairSums, *, votes: PairVotes, edges: Ints) -> Ints:
    """Return the votes of each bin among a block's means, shape (1, n_bins). PRIVATE."""
    # Edges are whole, so that s / m <= edge exactly if ceil(s / m) <= edge.
    places = np.searchsorted(edges, -(-sums.total // pairs.n))
    # Exact: every partial sum is a whole number below 2^53. One row per block: rows of all blocks
    # are added up on the driver.
    return np.bincount(places, votes.of(pairs), edges.size + 1)[None].astype(np.int64)
