"""Bins of single cells, placed by the pooled shape and at public thresholds.

After the pooled shape (`pooled_shape`), every (cell, unit) pair enters its cell's bins with a
public weight w: records times the price of the cell, as a part of the unit's priced records. Few
bins, well placed, have less noise at their edges than trees or many bins: four at the quartiles of
the shape, and an edge at each threshold.

Neighbours: one unit's values all change within the bounds.
Sensitivity: 2 w in each of a unit's cells (`binned_stage`, one group per pair). Σ w <= 2^20; under
a δ the cells are one vector in L2, and Σ w² <= 2^40.
Loss: the shape's, and 2^21 / b with one scale b in all cells; or 2^41 / r² as a square of μ.
Source: `binned_stage`; weights as in user-level bounds on contributions (Amin, Kulesza, Munoz and
Vassilvitskii, 2019).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from hexveil.accounting.promise import PARTS, promised
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.mechanisms.contract import DONE
from hexveil.mechanisms.distribution.binned_stage import SUBSTITUTED, CellBinStage
from hexveil.mechanisms.distribution.priced_weights import PricedWeights

if TYPE_CHECKING:
    from fractions import Fraction

    from hexveil.accounting.noise_law import NoiseLaw
    from hexveil.base.arrays import Floats, Ints
    from hexveil.mechanisms.contract import Outputs, Stage
    from hexveil.mechanisms.distribution.pooled_shape import PooledShape

CELL_BINS = "cell bins"
QUARTERS = 4


@dataclass(frozen=True, eq=False)
class BinnedMap(ReadOnlyArrays):
    """Plan of the shape and of the bins of all cells: a `StagedPlan`.

    Attributes
    ----------
    shape : PooledShape
    prices : ndarray of int64, shape (n_cells,)
    floor : int
        τ.
    threshold_edges : ndarray of int64
        Edges of thresholds, in quanta; they are edges of fine bins.
    epsilon : Fraction
        Of the bins, without the shape's; at the shape's δ, if that is above 0.
    """

    shape: PooledShape
    prices: Ints
    floor: int
    threshold_edges: Ints
    epsilon: Fraction

    @property
    def n_bins(self) -> int:
        """Bins of a cell."""
        return QUARTERS + int(self.threshold_edges.size)

    @cached_property
    def weights(self) -> PricedWeights:
        """Weights of pairs, in parts."""
        return PricedWeights.of(self.shape.occupancy, self.prices, self.floor, self.law)

    @property
    def law(self) -> NoiseLaw:
        """Noise of the bins."""
        return promised(self.epsilon, self.shape.delta).noise(SUBSTITUTED)

    def losses(self) -> Floats:
        """Return each unit's loss, in ε or as a square of μ, rounded up."""
        return np.nextafter(self.shape.losses() + self.weights.losses(self.law), np.inf)

    def next_stage(self, earlier: Outputs) -> Stage | None:
        """Return the stages of the shape, then that of the cells."""
        stage = self.shape.next_stage(earlier)
        if stage is not DONE:
            return stage
        return self._cells(earlier) if CELL_BINS not in earlier else DONE

    def _cells(self, earlier: Outputs) -> CellBinStage:
        return CellBinStage(CELL_BINS, self.n_bins, self.weights, self.place(earlier), self.law)

    def place(self, outputs: Outputs) -> Ints:
        """Return the bin of each fine bin."""
        below = np.cumsum(self.shape.shares(outputs))
        # The last fine bin below each quartile; equal edges leave a bin empty, which costs nothing.
        quartiles = np.searchsorted(below, np.arange(1, QUARTERS) / QUARTERS)
        thresholds = np.searchsorted(self.shape.fine_edges, self.threshold_edges)
        splits = np.sort(np.concatenate([quartiles, thresholds]))
        return np.searchsorted(splits, np.arange(below.size), side="left")

    def shares(self, outputs: Outputs) -> Floats:
        """Return the released shares of fine bins over all cells."""
        return self.shape.shares(outputs)

    def noisy_bins(self, outputs: Outputs) -> Floats:
        """Return the noisy weight of each cell's bins, in units; shape (n_cells, n_bins)."""
        return np.asarray(outputs[CELL_BINS][0].reshape(-1, self.n_bins) / PARTS)
