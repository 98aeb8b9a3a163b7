"""Centres and prices of the fine map, from the noisy coarse map. Public post-processing.

Let W and D be the noisy A + B and A - B of a cell, in units, and s the standard deviation of the
noise of either: 2 b under Laplace noise of scale b, √2 r under Gaussian noise of parameter r. The
coarse estimate is m + r q with m and r the middle and half the width of the range, q = D / max(W,
s) within [-1, 1], of variance r² s² (1 + q²) / max(W, s)². Centres of the fine map are these
estimates, shrunk towards their common mean by the variance between cells (Paule and Mandel, 1982).
On a grid of several dimensions they are shrunk towards the effects of place and slot
(`cell_effects`). Cells without an estimate have the median of the fleet.

Prices fall as 1 / max(W, floor): a unit that was in crowded and in lonely cells gives more weight
to the lonely ones, so that noise relative to weight is alike in all open cells. Closed cells have
price 0 (see `accounting.noise_law`).

Everything here is a function of released numbers and the declared grid. Its results are stored in
the row of the coarse map, since the last digits of a double may differ between processors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hexveil.accounting.promise import PARTS
from hexveil.mechanisms.presence.cell_effects import NoisyLevels
from hexveil.mechanisms.presence.contribution import MAX_PRICE, CellWindow, WeightMap

if TYPE_CHECKING:
    from hexveil.base.arrays import Floats, Ints
    from hexveil.mechanisms.contract import Outputs

MAX_SHRINKAGE_STEPS = 60
MIN_CELLS = 3
"""Open cells below which their estimates are not compared: all get the median."""


@dataclass(frozen=True)
class MapRefinement:
    """From a noisy coarse map to centres and prices.

    Attributes
    ----------
    deviation : float
        s, in parts.
    threshold : int or None
        Noisy weight, in parts, from which a cell is open; None opens every cell.
    median : int
        Of the fleet's values, in parts.
    shape : tuple of int
        Dimensions of the grid; empty for one alone.
    """

    deviation: float
    threshold: int | None
    median: int
    shape: tuple[int, ...] = ()

    def centres_and_prices(self, window: CellWindow, noisy: Ints) -> tuple[Ints, Ints]:
        """Return centre and price of each cell of the fine map, shape (n_cells,) each.

        Parameters
        ----------
        window : CellWindow
            Of the coarse map.
        noisy : ndarray of int64, shape (2 n_cells,)
        """
        weight, difference = window.decode(noisy)
        is_open = np.full(weight.size, fill_value=True)
        if self.threshold is not None:
            is_open = weight * PARTS >= self.threshold
        middle, radius, sd = window.middle, window.radius, self.deviation / PARTS
        centres = np.full(weight.size, float(self.median))
        if self.shape and is_open.sum() >= MIN_CELLS:
            levels = NoisyLevels.of(weight, difference, middle, radius, sd)
            centres = levels.smoothed(self.shape).levels(self.shape)
        elif is_open.sum() >= MIN_CELLS:
            ratio = np.clip(difference / np.maximum(weight, sd), -1.0, 1.0)
            variance = (1.0 + ratio**2) * (radius * sd / np.maximum(weight, sd)) ** 2
            estimates = middle + radius * ratio
            centres[is_open] = shrink_to_mean(estimates[is_open], variance[is_open])
        return np.rint(np.clip(centres, 0, PARTS)).astype(np.int64), prices_of_weights(
            weight, is_open
        )


def prices_of_weights(weight: Floats, is_open: np.typing.NDArray[np.bool_]) -> Ints:
    """Return MAX_PRICE for the smallest open weight, less for larger ones, 0 for closed cells."""
    prices = np.zeros(weight.size, dtype=np.int64)
    if is_open.any():
        middle = max(float(np.median(weight[is_open])), 0.0)
        # Below the root of a typical weight, a noisy weight says that it is small, not how small.
        raised = np.maximum(weight[is_open], math.sqrt(middle + 1.0))
        prices[is_open] = np.maximum(np.rint(MAX_PRICE * raised.min() / raised), 1.0)
    return prices


def shrink_to_mean(estimates: Floats, variances: Floats) -> Floats:
    """Return estimates shrunk towards their mean, by the Paule-Mandel variance between them.

    Examples
    --------
    >>> shrink_to_mean(np.array([0.0, 10.0, 20.0]), np.full(3, 1e9)).round(6).tolist()
    [10.0, 10.0, 10.0]
    >>> shrink_to_mean(np.array([0.0, 10.0, 20.0]), np.full(3, 1e-9)).round(6).tolist()
    [0.0, 10.0, 20.0]
    """
    between = variance_between(estimates, variances)
    precision = 1.0 / (variances + between)
    mean = float((precision * estimates).sum() / precision.sum())
    return np.asarray(mean + between / (between + variances) * (estimates - mean))


def variance_between(estimates: Floats, variances: Floats) -> float:
    """Return the variance between true values that explains the spread of noisy estimates.

    It solves Σ (y - mean)² / (v + x) = n - 1 for x, with means of weights 1 / (v + x); 0 if noise
    alone explains more.
    """

    def excess(between: float) -> float:
        precision = 1.0 / (variances + between)
        mean = (precision * estimates).sum() / precision.sum()
        return float((precision * (estimates - mean) ** 2).sum()) - (estimates.size - 1)

    if excess(0.0) <= 0.0:
        return 0.0
    # At this variance every term is below (n - 1) / n².
    low, high = 0.0, float(np.ptp(estimates)) ** 2 * estimates.size + 1.0
    for _ in range(MAX_SHRINKAGE_STEPS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if excess(middle) > 0.0 else (low, middle)
    return (low + high) / 2.0


@dataclass(frozen=True, eq=False)
class CoarseMap(WeightMap):
    """Weight map with a row that also holds the centres and prices made from it.

    Attributes
    ----------
    refinement : MapRefinement
    """

    refinement: MapRefinement

    @property
    def entries(self) -> int:
        """Two noisy numbers per cell, its centre and its price."""
        return 4 * self.window.prices.size

    def row(self, drawn: Ints, earlier: Outputs) -> Ints:  # noqa: ARG002  see Stage.row
        """Return the noisy numbers, then the centres, then the prices."""
        refined = [self.refinement.centres_and_prices(self.window, noisy) for noisy in drawn]
        return np.hstack([drawn, np.array([np.concatenate(two) for two in refined])])
