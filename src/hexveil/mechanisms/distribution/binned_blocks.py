"""Distributions of pairs that stay elsewhere: apportioned in blocks, one whole number per bin back.

The stages of `binned_stage`, for pairs in Spark or on disk. A block of whole units apportions each
unit's records in all cells (the pooled shape); a block of whole cells those of each pair. What
leaves a block is a sum over it per bin, or per cell and bin: the driver adds up whole numbers, in
any order the same.

Neighbours: one unit's values all change within the bounds; units, their counts and weights are
public.
Sensitivity: 2 M for each group, as proved in `binned_stage`: a group is in one block.
Loss: Σ over a unit's groups of 2 M / b, with discrete Laplace noise of one scale b in all bins;
under a δ squares of μ, Σ 2 M² / r².
Source: `binned_stage`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from hexveil.accounting.promise import PARTS
from hexveil.base.errors import HexveilError
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.mechanisms.contract import EvenNoise, PrivateSums, Values
from hexveil.mechanisms.distribution.binned_stage import (
    PricedSensitivity,
    apportion,
    two_bins,
    weigh,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from hexveil.accounting.noise_law import NoiseLaw
    from hexveil.base.arrays import Ints
    from hexveil.mechanisms.contract import Outputs, SensitivityReport
    from hexveil.mechanisms.distribution.binned_stage import PricedWeights
    from hexveil.model.distributed_occupancy import WholeGroup
    from hexveil.model.occupancy import Arrays, Occupancy, Pairs
    from hexveil.model.pair_bins import PairBins


class BinBlocks(Protocol):
    """Blocks of pairs with their sums and their counts by bin. PRIVATE."""

    def map_cells(
        self,
        occupancy: Occupancy,
        work: Callable[..., Any],
        cells: Arrays,
        users: Arrays,
        pairs: Arrays,
    ) -> Any:  # noqa: ANN401  what the work returns
        """Apply a function to the pairs of each cell and their sums."""

    def map_bins(
        self, whole: WholeGroup, work: Callable[..., Any], cells: Arrays, users: Arrays
    ) -> Any:  # noqa: ANN401  what the work returns
        """Apply a function to pairs and to their counts by bin, or to those of their units."""


class BinnedBlockSums(PrivateSums):
    """Sums of pairs that stay elsewhere, and their records by fine bin. PRIVATE.

    Parameters
    ----------
    store : BinBlocks
    """

    __slots__ = ("_store",)

    def __init__(self, store: BinBlocks) -> None:
        self._store = store

    def map_cells(
        self,
        occupancy: Occupancy,
        work: Callable[..., Ints],
        cells: Arrays = (),
        users: Arrays = (),
        pairs: Arrays = (),
    ) -> Ints:
        """Apply a function to all pairs: see `PrivateSums.map_cells`. PRIVATE."""
        integers: Ints = self._store.map_cells(occupancy, work, cells, users, pairs)
        return integers[None]

    def map_bins(
        self, whole: WholeGroup, work: Callable[..., Ints], cells: Arrays = (), users: Arrays = ()
    ) -> Ints:
        """Apply a function to pairs and their counts by bin. PRIVATE.

        Parameters
        ----------
        whole : "cells" or "users"
            What a block has all pairs of. Counts by bin are of its pairs in blocks of cells, and of
            its users in blocks of users: `PairBins.pair` is the position of a pair, or the number
            of a user within the block.
        work : callable
            From `Pairs`, `PairBins` and the arrays, in this order; a function of a module.
        cells, users : sequence of ndarray
        """
        return np.asarray(self._store.map_bins(whole, work, cells, users))

    def scored(self, scores: Ints) -> PrivateSums:
        """Return each pair's sum of public scores of fine bins: see `BinnedSums.scored`."""
        return _ScoredBlockSums(self, scores)

    def __repr__(self) -> str:
        return "BinnedBlockSums(blocks)"


class _ScoredBlockSums(PrivateSums):
    """Sums of scores of pairs that stay elsewhere. PRIVATE."""

    __slots__ = ("_scores", "_sums")

    def __init__(self, sums: BinnedBlockSums, scores: Ints) -> None:
        self._sums, self._scores = sums, scores

    def map_cells(
        self,
        occupancy: Occupancy,
        work: Callable[..., Ints],
        cells: Arrays = (),
        users: Arrays = (),
        pairs: Arrays = (),
    ) -> Ints:
        """Apply a function to all pairs and their sums of scores. PRIVATE."""
        if pairs:
            occupancy.local()  # refuses, and says what to do
        scored = partial(_scored, work=work, scores=self._scores)
        return self._sums.map_bins("cells", scored, cells, users)[None]

    def __repr__(self) -> str:
        return "ScoredBlockSums(blocks)"


@dataclass(frozen=True, eq=False)
class PooledBlockStage(EvenNoise, ReadOnlyArrays):
    """Noisy weights of bins over all cells, every unit of weight `PARTS`.

    Attributes
    ----------
    name : str
    n_bins, n_users : int
    place : ndarray of int64, shape (n_fine_bins,)
        Bin of each fine bin.
    law : NoiseLaw
        Noise of every bin, in parts.
    """

    name: str
    n_bins: int
    n_users: int
    place: Ints
    law: NoiseLaw

    @property
    def n_noised(self) -> int:
        """One number per bin."""
        return self.n_bins

    def sensitivity(self, earlier: Outputs) -> tuple[SensitivityReport, ...]:  # noqa: ARG002
        """Return the change by each unit of full weight: all bins have one scale."""
        weight = np.full(self.n_users, PARTS, dtype=np.int64)
        return (two_bins(np.arange(self.n_users), np.zeros_like(weight), weight),)

    def measure(self, sums: PrivateSums, earlier: Outputs) -> tuple[Values, ...]:  # noqa: ARG002
        """Return the summed parts of each bin. PRIVATE."""
        pooled = partial(_pooled_bins, place=self.place, n_bins=self.n_bins)
        # Each block answers with a number per bin.
        block_sums = _with_bins(sums).map_bins("users", pooled).reshape(-1, self.n_bins)
        return (Values(block_sums.sum(axis=0)[None]),)


@dataclass(frozen=True, eq=False)
class CellBlockStage(EvenNoise, ReadOnlyArrays):
    """Noisy weights of the bins of each cell.

    Attributes
    ----------
    name : str
    n_bins : int
        Bins of a cell.
    weights : PricedWeights
    place : ndarray of int64, shape (n_fine_bins,)
        Bin of each fine bin.
    law : NoiseLaw
        Noise of every bin, in parts.
    """

    name: str
    n_bins: int
    weights: PricedWeights
    place: Ints
    law: NoiseLaw

    @property
    def n_noised(self) -> int:
        """Cells times bins."""
        return int(self.weights.prices.size * self.n_bins)

    def sensitivity(self, earlier: Outputs) -> tuple[SensitivityReport, ...]:  # noqa: ARG002
        """Return that each pair moves its cell's bins by its weight."""
        return (PricedSensitivity(self.weights, self.n_bins),)

    def measure(self, sums: PrivateSums, earlier: Outputs) -> tuple[Values, ...]:  # noqa: ARG002
        """Return the summed parts of each cell and bin. PRIVATE."""
        of_cells = partial(_cell_bins, place=self.place, n_bins=self.n_bins)
        arguments = (self.weights.prices,), (self.weights.divisor,)
        return (Values(_with_bins(sums).map_bins("cells", of_cells, *arguments)[None]),)


def _with_bins(sums: PrivateSums) -> BinnedBlockSums:
    if not isinstance(sums, BinnedBlockSums):
        raise HexveilError("this stage measures records by bin in blocks, which these sums lack.")
    return sums


def _scored(
    pairs: Pairs,
    bins: PairBins,
    *arguments: NDArray[Any],
    work: Callable[..., Ints],
    scores: Ints,
) -> Ints:
    """Return the result of the work on sums of scores. PRIVATE."""
    total = np.zeros(pairs.n.size, dtype=np.int64)
    np.add.at(total, bins.pair, bins.count * scores[bins.bin])
    return work(pairs, total, None, *arguments)


def _pooled_bins(pairs: Pairs, bins: PairBins, *, place: Ints, n_bins: int) -> Ints:
    """Return the parts of a block's units in each bin. PRIVATE."""
    weight = np.full(pairs.n_users, PARTS, dtype=np.int64)
    _, of_bin, amount = apportion(bins.pair, place[bins.bin], bins.count, weight)
    total = np.zeros(n_bins, dtype=np.int64)
    np.add.at(total, of_bin, amount)
    return total


def _cell_bins(
    pairs: Pairs, bins: PairBins, prices: Ints, divisor: Ints, *, place: Ints, n_bins: int
) -> Ints:
    """Return the parts of a block's cells in each bin. PRIVATE."""
    weight = weigh(pairs, prices, divisor)
    pair, of_bin, amount = apportion(bins.pair, place[bins.bin], bins.count, weight)
    total = np.zeros(pairs.n_cells * n_bins, dtype=np.int64)
    np.add.at(total, pairs.cell[pair] * n_bins + of_bin, amount)
    return total
