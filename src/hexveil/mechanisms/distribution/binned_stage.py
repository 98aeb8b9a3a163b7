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

Weights of pairs in bins of cells are records times the price of their cell, as a unit's part:

    w = floor(2^20 k / max(K, τ, 1)),    k = min(n, 2^20) price,

with K the size of a unit's k: their sum under Laplace noise, the root of their squares, rounded up,
under Gaussian noise, so that a unit's weights are at most 2^20 in L1 or in L2. Prices are a number
per cell, and max(K, τ, 1) is a number per unit: a block of pairs computes its weights from both,
wherever it is, in whole numbers. All of it is public.

Nothing overflows 64 bits: M <= 2^20 and n < 2^42 (`check_room`); sums over groups are below 2^53.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.accounting.moves import add_up, losses, squares
from hexveil.accounting.promise import PARTS
from hexveil.base.errors import HexveilError, InputError
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.mechanisms.contract import EvenNoise, PrivateSums, Separate, Values
from hexveil.mechanisms.sensitivity_report import LaplaceNoise, is_gaussian_sound

if TYPE_CHECKING:
    from collections.abc import Callable

    from hexveil.accounting.moves import Currency
    from hexveil.accounting.noise_law import NoiseLaw
    from hexveil.base.arrays import Floats, Ints
    from hexveil.mechanisms.contract import Measured, Outputs, SensitivityReport
    from hexveil.mechanisms.sensitivity_report import GaussianNoise, NoiseRequest
    from hexveil.model.occupancy import Occupancy, Pairs
    from hexveil.model.pair_bins import PairBins


MAX_RECORDS = 2**42
SUBSTITUTED = 2
"""Full weights that a unit moves at most, in L1 and as a square: all of it leaves one bin for
another."""


def two_bins(user: Ints, first_bin: Ints, weight: Ints) -> Separate:
    """Return the moves of groups of weight M, M at each of two bins: all have one scale."""
    return Separate(*(np.concatenate(two) for two in (
        (user, user), (first_bin, first_bin + 1), (weight, weight)
    )))  # fmt: skip


def bin_losses(
    user: Ints, weight: Ints, scale: Floats, n_users: int, currency: Currency, *, up: bool
) -> Floats:
    """Return each unit's loss by groups of these weights and scales, rounded up or down."""
    return add_up(user, currency([(weight, scale)] * 2), n_users, up=up)


class BinnedSums(PrivateSums):
    """Sums of pairs, and their records by fine bin. PRIVATE.

    Parameters
    ----------
    total : ndarray of int64, shape (n_pairs,)
    squares : ndarray of int64, same shape, or None
    bins : PairBins
    """

    __slots__ = ("bins",)

    def __init__(self, total: Ints, squares: Ints | None, bins: PairBins) -> None:
        super().__init__(total, squares)
        self.bins = bins

    def scored(self, scores: Ints) -> PrivateSums:
        """Return each pair's sum of public scores of fine bins. PRIVATE.

        A pair of n records has a sum from 0 to n times the largest score, as if the scores were
        values: every mechanism for means applies as it is.

        Parameters
        ----------
        scores : ndarray of int64, shape (n_bins,)
            Not negative.
        """
        summed = self.bins.count * scores[self.bins.bin]
        total = np.zeros(self.total.shape[1], dtype=np.int64)
        np.add.at(total, self.bins.pair, summed)
        return PrivateSums(total)

    def __repr__(self) -> str:
        return f"BinnedSums(shape={self.total.shape})"


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
    is_new = np.ones(group.size, dtype=bool)
    is_new[1:] = (np.diff(group) != 0) | (np.diff(place) != 0)
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


@dataclass(frozen=True, eq=False)
class BinnedStage(EvenNoise, ReadOnlyArrays):
    """Noisy weights of bins: of each group's distribution, summed by where groups belong.

    Attributes
    ----------
    name : str
    n_bins : int
        B, of each sum.
    group : ndarray of int64, shape (n_pairs,)
        Group of each pair.
    user, target : ndarray of int64, shape (n_groups,)
        Unit that a group belongs to, and number of the sum that it is added to.
    weight : ndarray of int64, shape (n_groups,)
        M of each group.
    place : ndarray of int64, shape (n_fine_bins,)
        Bin of each fine bin.
    n_sums : int
    law : NoiseLaw
        Noise of every bin, in parts.
    """

    name: str
    n_bins: int
    group: Ints
    user: Ints
    target: Ints
    weight: Ints
    place: Ints
    n_sums: int
    law: NoiseLaw

    @property
    def n_noised(self) -> int:
        """Sums times bins."""
        return self.n_sums * self.n_bins

    def sensitivity(self, earlier: Outputs) -> tuple[SensitivityReport, ...]:  # noqa: ARG002
        """Return how far groups move within their sums."""
        return (two_bins(self.user, self.target * self.n_bins, self.weight),)

    def measure(self, sums: PrivateSums, earlier: Outputs) -> tuple[Measured, ...]:  # noqa: ARG002
        """Return the summed parts of each bin. PRIVATE."""
        if not isinstance(sums, BinnedSums):
            raise HexveilError("this stage measures records by bin, which these sums lack.")
        rows = sums.bins
        group, place, amount = apportion(
            self.group[rows.pair], self.place[rows.bin], rows.count, self.weight
        )
        total = np.zeros(self.n_noised, dtype=np.int64)
        np.add.at(total, self.target[group] * self.n_bins + place, amount)
        return (Values(total[None]),)


def check_room(records: Ints) -> None:
    """Raise InputError if products of weights and records could leave 64 bits.

    Parameters
    ----------
    records : ndarray of int64
        Records of each group. Public.
    """
    if int(records.max(initial=0)) >= MAX_RECORDS:
        raise InputError(
            "so many records of one unit do not fit whole numbers of 64 bits with their weight; "
            "publish shorter periods."
        )


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

    def map_cells(self, work: Callable[..., Any]) -> Any:  # noqa: ANN401  what the work returns
        """Apply a function of pairs and their weights, cell by cell."""
        weighed = partial(_weighed, work=work)
        return self.occupancy.map_cells(weighed, (self.prices,), (self.divisor,))

    def totals(self) -> Ints:
        """Return the sum of weights of each cell, shape (n_cells,)."""
        return np.asarray(self.map_cells(cell_totals))

    def squares(self) -> Floats:
        """Return the sum of squared weights of each cell, in full weights, shape (n_cells,)."""
        return np.asarray(self.map_cells(_cell_squares))

    def losses(self, law: NoiseLaw) -> Floats:
        """Return each unit's loss under this noise, in ε or as a square of μ, rounded up."""
        currency = losses if law.power == 1 else squares
        return self.losses_at(currency, np.full(self.prices.size, law.scale), up=True)

    def losses_at(self, currency: Currency, scales: Floats, *, up: bool) -> Floats:
        """Return the same at a scale per cell, rounded up or down."""
        work, cells = partial(_losses, currency=currency, up=up), (self.prices, scales)
        return np.asarray(self.occupancy.map_users(work, cells, (self.divisor,)))


def weigh(pairs: Pairs, prices: Ints, divisor: Ints) -> Ints:
    """Return the weights of some pairs."""
    return np.asarray(PARTS * _priced(pairs, prices) // divisor[pairs.user])


def unit_sizes(occupancy: Occupancy, prices: Ints, law: NoiseLaw) -> Ints:
    """Return K of each unit."""
    return np.asarray(occupancy.map_users(partial(_sizes, power=law.power), (prices,)))


def cell_totals(pairs: Pairs, weight: Ints) -> Ints:
    """Return the sums of weights of cells."""
    return np.asarray(np.add.reduceat(weight, pairs.start[:-1]))


@dataclass(frozen=True, eq=False)
class PricedSensitivity(ReadOnlyArrays):
    """Sensitivity of bins of cells: a pair moves the bins of its cell together by 2 w, √2 w in L2.

    The numbers of `hexveil.mechanisms.distribution.binned_stage`, charged where the pairs are.

    Attributes
    ----------
    weights : PricedWeights
    n_bins : int
        Bins of a cell; the scales of a request are theirs, cell by cell.
    """

    weights: PricedWeights
    n_bins: int

    def loss_lower_bound(self, request: NoiseRequest, n_users: int) -> Floats:
        """Return each unit's loss, rounded down; infinite unless the noise is Laplace noise."""
        if not isinstance(request, LaplaceNoise):
            return np.full(n_users, np.inf)
        return self._of_cells(losses, np.atleast_2d(request.scales)[0])

    def squares_lower_bound(self, request: GaussianNoise, n_users: int) -> Floats:
        """Return each unit's square of μ, rounded down ."""
        if not is_gaussian_sound(request):
            return np.full(n_users, np.inf)
        return self._of_cells(squares, request.deviations)

    def _of_cells(self, currency: Currency, scales: Floats) -> Floats:
        # All bins of a cell have one scale; were one smaller, the loss would be at most that.
        smallest = scales.reshape(-1, self.n_bins).min(axis=1)
        return self.weights.losses_at(currency, smallest, up=False)


def _priced(pairs: Pairs, prices: Ints) -> Ints:
    # At most 2^20 records of a pair count: no product leaves 64 bits.
    return np.asarray(np.minimum(pairs.n, PARTS) * prices[pairs.cell])


def _sizes(pairs: Pairs, prices: Ints, *, power: int) -> Ints:
    priced = _priced(pairs, prices)
    if power == 1:
        total = np.zeros(pairs.n_users, dtype=np.int64)
        np.add.at(total, pairs.user, priced)
        return total
    squared = np.bincount(pairs.user, priced.astype(np.float64) ** 2, pairs.n_users)
    return np.ceil(np.sqrt(squared) * ENLARGED).astype(np.int64)


def _weighed(pairs: Pairs, prices: Ints, divisor: Ints, *, work: Callable[..., Any]) -> Any:  # noqa: ANN401
    return work(pairs, weigh(pairs, prices, divisor))


def _losses(
    pairs: Pairs, prices: Ints, scales: Floats, divisor: Ints, *, currency: Currency, up: bool
) -> Floats:
    weight = weigh(pairs, prices, divisor)
    return bin_losses(pairs.user, weight, scales[pairs.cell], pairs.n_users, currency, up=up)


def _cell_squares(pairs: Pairs, weight: Ints) -> Floats:
    squares = np.bincount(pairs.cell, (weight / PARTS) ** 2, pairs.n_cells)
    return np.asarray(squares, dtype=np.float64)
