"""Distributions of records over bins as whole numbers: one contribution over all bins of a group.

The records of a unit in a cell (or in all cells: the pooled shape) are one group. A group has a
public weight M in whole parts, and enters with its distribution over B bins times that weight. With
n records, C_j of them in the bins up to j, C_0 = 0 and C_B = n:

    a_j = floor(M C_j / n) - floor(M C_{j-1} / n),    j = 1..B.

Neighbours: one unit's values all change within the bounds; units, their counts and weights are
public.
Sensitivity: as C_j rises with j, every a_j >= 0, and they telescope: Σ_j a_j = floor(M) - 0 = M,
whatever the values are. Two vectors of non-negative numbers with the sum M differ by an L1 distance
of at most 2 M, and by √2 M in L2; all records moving from one bin to another attain both. So a unit
moves the bins of a group together by that much, whatever their number: there is no budget for each
bin, and no surcharge for rounding. (Where presence is private, a unit's vector comes or goes: M in
place of 2 M.) Groups of a unit belong to different sums.
Loss: Σ over a unit's groups of 2 M / b, with discrete Laplace noise of one scale b on all bins of a
group; or with discrete Gaussian noise of parameter r, as a square of μ, the larger of Σ 2 M² / r²
and the lattice term Σ 2 M / r² / LATTICE (accounting/moves.py), which matters for groups of fewer
than 1 / LATTICE = 512 parts. M moving in each of two bins costs both exactly.
Source: cumulative rounding as in apportionment; L1 sensitivity of histograms (Dwork, McSherry,
Nissim and Smith, 2006) with weights in place of counts.

Pairs may be in memory or on disk. A block of whole units apportions each unit's records in all
cells, a block of whole cells those of each pair; both answer with whole numbers per bin.

Nothing overflows 64 bits: M <= 2^20 and n < 2^42 (`check_room`); sums over groups are below 2^53.

Weights of pairs in bins of cells: records times the price of their cell, as a unit's part.

    w = floor(2^20 k / max(K, τ, 1)),    k = min(n, 2^20) price,

with K the size of a unit's k: their sum under Laplace noise, the root of their squares, rounded up,
under Gaussian noise, so that a unit's weights are at most 2^20 in L1 or in L2.

Prices are a number per cell, max(K, τ, 1) one per unit: a block of pairs computes its weights from
both, wherever it is, in whole numbers. All of it is public.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np

from hexveil.accounting.moves import PairMoves, StatisticMoves, currency_of
from hexveil.accounting.noise_law import NoiseLaw
from hexveil.accounting.promise import PARTS
from hexveil.base.arrays import Floats, Ints
from hexveil.base.errors import HexveilError, InputError
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.mechanisms.contract import NoisyTotals
from hexveil.mechanisms.sensitivity_report import MappedMoves, Separate
from hexveil.mechanisms.stage_data import PrivateSums
from hexveil.model.occupancy import Occupancy, PairColumn, Pairs, WholeGroup
from hexveil.model.pair_bins import PairBins, PairSums

ENLARGED = 1.0 + 2.0**-20
"""More than what a root and a quotient round."""


@dataclass(frozen=True, eq=False)
class PricedWeights(ReadOnlyArrays):
    """Weight w of each pair, in parts: at most `PARTS` over the pairs of a unit, in L1 or L2.

    Attributes
    ----------
    occupancy : Occupancy
    prices : ndarray of int64, shape (n_cells,)
        From 1 to 2^20.
    divisor : ndarray of int64, shape (n_users,)
        max(K, τ, 1) of each unit.
    """

    occupancy: Occupancy
    prices: Ints
    divisor: Ints

    @classmethod
    def of(cls, occupancy: Occupancy, prices: Ints, floor: int, law: NoiseLaw) -> PricedWeights:
        """Return the weights for prices and τ, in priced records, under noise of this kind.

        Units of fewer than τ weigh less than `PARTS`, so that their records do not weigh more than
        those of others.
        """
        sizes = unit_sizes(occupancy, prices, law)
        return cls(occupancy, prices, np.maximum(sizes, max(floor, 1)))

    @property
    def column(self) -> PricedColumn:
        """The weights as kernels take them."""
        return PricedColumn(self.prices, self.divisor)

    def totals(self) -> Ints:
        """Return the sum of weights of each cell, shape (n_cells,)."""
        return self.occupancy.map_cells(partial(_cell_totals, weights=self.column))

    def squares(self) -> Floats:
        """Return the sum of squared weights of each cell, in full weights, shape (n_cells,)."""
        return self.occupancy.map_cells(partial(_cell_squares, weights=self.column))

    def losses(self, law: NoiseLaw) -> Floats:
        """Return each unit's loss under this noise, in ε or as a square of μ, rounded up."""
        return self.moves(law).per_user(currency_of(law), up=True)

    def moves(self, law: NoiseLaw) -> PairMoves:
        """Return that a unit moves the bins of a cell by its weight at each of two."""
        scales = np.full(self.prices.size, law.scale)
        return PairMoves(self.occupancy, (StatisticMoves(self.column.of, scales),) * 2)


@dataclass(frozen=True, eq=False)
class PricedColumn:
    """The weights of pairs, made where these are: see `PricedWeights`."""

    prices: Ints
    divisor: Ints

    def of(self, pairs: Pairs) -> Ints:
        """Return the weights of some pairs."""
        return np.asarray(PARTS * _priced(pairs, self.prices) // self.divisor[pairs.user])


def unit_sizes(occupancy: Occupancy, prices: Ints, law: NoiseLaw) -> Ints:
    """Return K of each unit."""
    return occupancy.map_users(partial(_sizes, prices=prices, power=law.power))


def _cell_totals(pairs: Pairs, *, weights: PricedColumn) -> Ints:
    return np.asarray(np.add.reduceat(weights.of(pairs), pairs.start[:-1]))


def _priced(pairs: Pairs, prices: Ints) -> Ints:
    # At most 2^20 records of a pair count: no product leaves 64 bits.
    return np.asarray(np.minimum(pairs.n, PARTS) * prices[pairs.cell])


def _sizes(pairs: Pairs, *, prices: Ints, power: int) -> Ints:
    priced = _priced(pairs, prices)
    if power == 1:
        return pairs.sum_users(priced)
    squared = np.bincount(pairs.own_user, priced.astype(np.float64) ** 2, pairs.n_users)
    return np.ceil(np.sqrt(squared) * ENLARGED).astype(np.int64)


def _cell_squares(pairs: Pairs, *, weights: PricedColumn) -> Floats:
    own = pairs.cell - pairs.first
    squares = np.bincount(own, (weights.of(pairs) / PARTS) ** 2, pairs.n_cells)
    return np.asarray(squares, dtype=np.float64)


MAX_RECORDS = 2**42
SUBSTITUTED = 2
"""Full weights that a unit moves at most, in L1 and as a square: all of it leaves one bin for
another."""


def two_bins(user: Ints, first_bin: Ints, weight: Ints) -> Separate:
    """Return the moves of groups of weight M, M at each of two bins: all have one scale."""
    return Separate(*(np.concatenate(two) for two in (
        (user, user), (first_bin, first_bin + 1), (weight, weight)
    )))  # fmt: skip


# ---- private counts by bin ----


class BinnedSums(PrivateSums):
    """Sums of pairs, and their records by fine bin. PRIVATE."""

    __slots__ = ("bins",)

    def __init__(self, total: Ints, squares: Ints | None, bins: PairBins) -> None:
        super().__init__(total, squares)
        self.bins = bins

    def map_bins(
        self, occupancy: Occupancy, whole: WholeGroup, work: Callable[[Pairs, PairBins], Ints]
    ) -> Ints:
        """Apply a function to pairs and their counts by bin, in blocks of cells or users. PRIVATE.

        Counts by bin are of a block's pairs in blocks of whole cells, and of its users in blocks of
        whole users: `PairBins.pair` is the position of a pair, or the number of a user.
        """
        pairs, bins = occupancy.local(), self.bins
        if whole == "users":
            bins = PairBins(pairs.user[bins.pair], bins.bin, bins.count)
        return np.asarray(work(pairs, bins))


class BinBlocks(Protocol):
    """Blocks of pairs with their sums and their counts by bin. PRIVATE."""

    def map_cells(self, occupancy: Occupancy, work: Callable[[Pairs, PairSums], Ints]) -> Ints:
        """Apply a function to the pairs of each cell and their sums."""

    def map_bins(self, whole: WholeGroup, work: Callable[[Pairs, PairBins], Ints]) -> Ints:
        """Apply a function to pairs and to their counts by bin, or to those of their units."""


class BinnedBlockSums(BinnedSums):
    """Sums of pairs that stay elsewhere, and their records by fine bin. PRIVATE."""

    __slots__ = ("_store",)

    def __init__(self, store: BinBlocks) -> None:
        self._store = store

    def map_cells(self, occupancy: Occupancy, work: Callable[[Pairs, PairSums], Ints]) -> Ints:
        """Apply a function to all pairs: see `PrivateSums.map_cells`. PRIVATE."""
        return self._store.map_cells(occupancy, work)[None]

    def map_bins(
        self,
        occupancy: Occupancy,  # noqa: ARG002  that of the store
        whole: WholeGroup,
        work: Callable[[Pairs, PairBins], Ints],
    ) -> Ints:
        """Apply a function to pairs and their counts by bin: see `BinnedSums.map_bins`. PRIVATE."""
        return np.asarray(self._store.map_bins(whole, work))


class ScoredSums(PrivateSums):
    """Each pair's sum of public scores of fine bins, wherever the pairs are. PRIVATE.

    Scores are not negative. A pair of n records has a sum from 0 to n times the largest one, as
    if the scores were values: every mechanism for means applies as it is.
    """

    __slots__ = ("_scores", "_sums")

    def __init__(self, sums: BinnedSums, scores: Ints) -> None:
        self._sums, self._scores = sums, scores

    def map_cells(self, occupancy: Occupancy, work: Callable[[Pairs, PairSums], Ints]) -> Ints:
        """Apply a function to all pairs and their sums of scores. PRIVATE."""
        scored = partial(_scored, work=work, scores=self._scores)
        return self._sums.map_bins(occupancy, "cells", scored)[None]


# ---- stages ----


def apportion(group: Ints, place: Ints, count: Ints, weight: Ints) -> tuple[Ints, Ints, Ints]:
    """Return each group's weight apportioned to its bins: groups, bins and parts. PRIVATE.

    Parameters
    ----------
    group, place, count : ndarray of int64, shape (n_rows,)
        Group, bin and records of each row, in any order.
    weight : ndarray of int64, shape (n_groups,)
        M of each group, at most 2^20. Public.

    Examples
    --------
    >>> rows = np.array([0, 0, 0]), np.array([2, 0, 2]), np.array([1, 1, 1])
    >>> [array.tolist() for array in apportion(*rows, np.array([10]))]
    [[0, 0], [0, 2], [3, 7]]
    """
    order = np.lexsort((place, group))
    group, place, count = group[order], place[order], count[order]
    is_new = (np.diff(group, prepend=-1) != 0) | (np.diff(place, prepend=-1) != 0)
    begin = np.flatnonzero(is_new)
    group, place = group[begin], place[begin]
    reached = np.cumsum(np.add.reduceat(count, begin)) if begin.size else count
    # Counts up to each bin within its own group: what was reached before the group is taken off.
    of_group = np.searchsorted(group, np.arange(weight.size + 1))
    reached_at = np.concatenate([[0], reached])[of_group]
    records = np.diff(reached_at)
    group_weight = weight[group]
    ends = group_weight * (reached - reached_at[group]) // records[group]
    starts = np.concatenate([[0], ends[:-1]]) if ends.size else ends
    starts[of_group[:-1][records > 0]] = 0
    return group, place, ends - starts


def pooled_bins(
    name: str, n_bins: int, occupancy: Occupancy, place: Ints, law: NoiseLaw
) -> NoisyTotals:
    """Return the stage of bins over all cells, every unit of weight `PARTS`.

    `place` is the bin of each fine bin; the noise is that of every bin, in parts.
    """
    weight = np.full(occupancy.n_users, PARTS, dtype=np.int64)
    report = two_bins(np.arange(weight.size), np.zeros_like(weight), weight)
    work = partial(_pooled_bins, place=place, n_bins=n_bins)

    def total(sums: PrivateSums) -> Ints:
        # Each block answers with a number per bin.
        answers = _with_bins(sums).map_bins(occupancy, "users", work)
        return np.asarray(answers.reshape(-1, n_bins).sum(axis=0))

    return NoisyTotals(name, n_bins, law, report, total)


def cell_bins(
    name: str, n_bins: int, weights: PricedWeights, place: Ints, law: NoiseLaw
) -> NoisyTotals:
    """Return the stage of the bins of each cell: each pair moves its cell's bins by its weight."""
    work = partial(_cell_bins, weights=weights.column, place=place, n_bins=n_bins)

    def total(sums: PrivateSums) -> Ints:
        return _with_bins(sums).map_bins(weights.occupancy, "cells", work)

    n_noised = int(weights.prices.size * n_bins)
    return NoisyTotals(name, n_noised, law, MappedMoves(weights.moves(law), bins=n_bins), total)


def _with_bins(sums: PrivateSums) -> BinnedSums:
    if not isinstance(sums, BinnedSums):
        raise HexveilError("this stage measures records by bin, which these sums lack.")
    return sums


def _scored(
    pairs: Pairs, bins: PairBins, *, work: Callable[[Pairs, PairSums], Ints], scores: Ints
) -> Ints:
    """Return the result of the work on sums of scores. PRIVATE."""
    # Exact, as in all stages of bins: every partial sum is a whole number below 2^53.
    total = np.bincount(bins.pair, bins.count * scores[bins.bin], pairs.n.size)
    return work(pairs, PairSums(total.astype(np.int64)))


def _pooled_bins(pairs: Pairs, bins: PairBins, *, place: Ints, n_bins: int) -> Ints:
    """Return the parts of a block's units in each bin. PRIVATE."""
    weight = np.full(pairs.n_users, PARTS, dtype=np.int64)
    _, of_bin, amount = apportion(bins.pair, place[bins.bin], bins.count, weight)
    return np.bincount(of_bin, amount, n_bins).astype(np.int64)


def _cell_bins(
    pairs: Pairs, bins: PairBins, *, weights: PairColumn, place: Ints, n_bins: int
) -> Ints:
    """Return the parts of a block's cells in each bin. PRIVATE."""
    weight = weights.of(pairs)
    pair, of_bin, amount = apportion(bins.pair, place[bins.bin], bins.count, weight)
    entry = (pairs.cell[pair] - pairs.first) * n_bins + of_bin
    return np.bincount(entry, amount, pairs.n_cells * n_bins).astype(np.int64)


def check_room(records: Ints) -> None:
    """Raise InputError if products of weights and records could leave 64 bits.

    `records` are those of each group. Public.
    """
    if int(records.max(initial=0)) >= MAX_RECORDS:
        raise InputError(
            "so many records of one unit do not fit whole numbers of 64 bits with their weight; "
            "publish shorter periods."
        )
