"""Weights of pairs in bins of cells: records times the price of their cell, as a unit's part.

    w = floor(2^20 k / max(K, τ, 1)),    k = min(n, 2^20) price,

with K the size of a unit's k: their sum under Laplace noise, the root of their squares, rounded up,
under Gaussian noise, so that a unit's weights are at most 2^20 in L1 or in L2.

Prices are a number per cell, and max(K, τ, 1) is a number per unit: a block of pairs computes its
weights from both, wherever it is, in whole numbers. All of it is public.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from hexveil.accounting.moves import Currency, PairMoves, StatisticMoves, losses, squares
from hexveil.accounting.noise_law import NoiseLaw
from hexveil.accounting.promise import PARTS
from hexveil.base.arrays import Floats, Ints
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.mechanisms.sensitivity_report import SensitivityReport
from hexveil.model.occupancy import Occupancy, Pairs

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
        currency = losses if law.power == 1 else squares
        return self.losses_at(currency, np.full(self.prices.size, law.scale), up=True)

    def losses_at(self, currency: Currency, scales: Floats, *, up: bool) -> Floats:
        """Return the same at a scale per cell, rounded up or down."""
        # A unit moves the bins of a cell by its weight at each of two.
        bins = (StatisticMoves(_moved, scales),) * 2
        return PairMoves(self.occupancy, bins, self.column).per_user(currency, up=up)


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


@dataclass(frozen=True, eq=False)
class PricedSensitivity(SensitivityReport, ReadOnlyArrays):
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

    def charge(self, scales: Floats, n_users: int, currency: Currency) -> Floats:  # noqa: ARG002
        """Return each user's loss, rounded down: see `SensitivityReport`."""
        # All bins of a cell have one scale; were one smaller, the loss would be at most that.
        smallest = scales.reshape(-1, self.n_bins).min(axis=1)
        return self.weights.losses_at(currency, smallest, up=False)


def _priced(pairs: Pairs, prices: Ints) -> Ints:
    # At most 2^20 records of a pair count: no product leaves 64 bits.
    return np.asarray(np.minimum(pairs.n, PARTS) * prices[pairs.cell])


def _sizes(pairs: Pairs, *, prices: Ints, power: int) -> Ints:
    priced = _priced(pairs, prices)
    if power == 1:
        return pairs.sum_users(priced)
    squared = np.bincount(pairs.own_user, priced.astype(np.float64) ** 2, pairs.n_users)
    return np.ceil(np.sqrt(squared) * ENLARGED).astype(np.int64)


def _moved(_: Pairs, weight: Ints | None) -> Ints:
    assert weight is not None  # noqa: S101  bins of cells have weights
    return weight


def _cell_squares(pairs: Pairs, *, weights: PricedColumn) -> Floats:
    own = pairs.cell - pairs.first
    squares = np.bincount(own, (weights.of(pairs) / PARTS) ** 2, pairs.n_cells)
    return np.asarray(squares, dtype=np.float64)
