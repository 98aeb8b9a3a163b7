"""Centres and prices of the fine map, from the noisy coarse map. Public post-processing.

Let W and D be the noisy A + B and A - B of a cell, in units, and s the standard deviation of the
noise of either: 2 b under Laplace noise of scale b, √2 r under Gaussian noise of parameter r. The
coarse estimate is m + r q with m and r the middle and half the width of the range, q = D / max(W,
s) within [-1, 1], of variance r² s² (1 + q²) / max(W, s)². Centres of the fine map are these
estimates, shrunk towards their common mean by the variance between cells (Paule and Mandel, 1982).
On a grid of several dimensions they are shrunk towards the effects of place and slot
(`NoisyLevels`). Cells without an estimate have the median of the fleet.

Prices fall as 1 / max(W, floor): a unit that was in crowded and in lonely cells gives more weight
to the lonely ones, so that noise relative to weight is alike in all open cells. Closed cells have
price 0 (see `accounting.noise_law`).

Everything here is a function of released numbers and the declared grid. Its results are stored in
the row of the coarse map, since the last digits of a double may differ between processors.

**Levels of cells of a grid with several dimensions: place and slot, or several labels.**
The mean of cell c with coordinates g_1, g_2, ... is modelled as

    θ_c = μ + Σ_k a_k(g_k) + η_c

with normal a_k and η of variances to be estimated. With W and D the noisy A + B and A - B of a
cell, m and r its centre and radius and s the standard deviation of W and of D, the number
m + r D / W is θ_c with a variance near (r s / W)². Effects and variances follow by iterated
expectations (empirical Bayes); the estimate is the expectation of θ_c. A cell of little weight
thereby takes after its place at other times and its slot at other places.

W is smoothed first: by the product of its margins, which sum many cells, and by as much of its own
deviation as the noise does not explain. A noisy W in the denominator would bias the many cells of
little weight.

Post-processing of released numbers and of the declared grid: it costs no privacy.
Source: random effects by iterated expectations (Dempster, Laird and Rubin, 1977).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from hexveil.accounting.promise import PARTS
from hexveil.base.arrays import Floats, Ints
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.base.work_share import ESTIMATES, parts_of_work
from hexveil.mechanisms.presence.contribution import MAX_PRICE, CellWindow

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


def prices_of_weights(weight: Floats, is_open: NDArray[np.bool_]) -> Ints:
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


# ---- levels of a grid of several dimensions ----

SWEEPS = 25
MIN_WEIGHT_PER_NOISE = 0.02
"""Smallest smoothed weight, per standard deviation of its noise."""
RATIO_NOISE = 1.2
"""Variance of D / W about its ratio q is (1 + q²) s² / W², q² rather below one half."""


@dataclass(frozen=True, eq=False)
class NoisyLevels(ReadOnlyArrays):
    """Noisy numbers of all cells of a grid, in units of weight and shares of the span.

    Attributes
    ----------
    weight, difference : ndarray of float, shape (n_cells,)
        W, smoothed (`smooth_weights`) or known to be above its noise; and A - B.
    centre, radius : ndarray of float, shape (n_cells,)
        m and r.
    noise : ndarray of float, shape (n_cells,)
        s.
    """

    weight: Floats
    difference: Floats
    centre: Floats
    radius: Floats
    noise: Floats

    @classmethod
    def of(
        cls, weight: Floats, difference: Floats, centre: Floats, radius: Floats, noise: float
    ) -> NoisyLevels:
        """Return those of a map of one noise."""
        return cls(weight, difference, centre, radius, np.full(weight.size, noise))

    def smoothed(self, shape: tuple[int, ...]) -> NoisyLevels:
        """Return the same with smoothed weights."""
        return replace(self, weight=smooth_weights(self.weight, self.noise, shape))

    def above_noise(self) -> NoisyLevels:
        """Return the same with weights of one standard deviation at least."""
        return replace(self, weight=np.maximum(self.weight, self.noise))

    def where(self, condition: NDArray[np.bool_], other: NoisyLevels) -> NoisyLevels:
        """Return these numbers where the condition holds, the others elsewhere."""
        names = [field.name for field in fields(self)]
        return NoisyLevels(
            *(np.where(condition, getattr(self, name), getattr(other, name)) for name in names)
        )

    def levels(self, shape: tuple[int, ...]) -> Floats:
        """Return the estimated mean of each cell, open or closed.

        Parameters
        ----------
        shape : tuple of int
            Lengths of the dimensions; cells are in C order.
        """
        groups = np.unravel_index(np.arange(self.weight.size), shape)
        # Relative to the centre, within twice the radius: where W is small, D is noise alone.
        offset = np.clip(
            self.radius * self.difference / self.weight, -2 * self.radius, 2 * self.radius
        )
        value = self.centre + offset
        variance = RATIO_NOISE * (self.radius * self.noise / self.weight) ** 2
        is_told = self.weight > 2 * self.noise
        between = float(np.median(self.radius)) ** 2 / 4
        effects = [_Effect(np.asarray(g), n, between) for g, n in zip(groups, shape, strict=True)]
        mean = float((value / variance).sum() / (1 / variance).sum())
        for _ in parts_of_work(ESTIMATES, range(SWEEPS)):
            precision = 1.0 / (variance + between)
            for effect in effects:
                others = mean + sum(one.of_cells for one in effects if one is not effect)
                effect.update(value - others, precision)
            rest = value - sum(one.of_cells for one in effects)
            mean = float((precision * rest).sum() / precision.sum())
            kept = between / (between + variance)
            expected = (kept * (rest - mean)) ** 2 + kept * variance
            if is_told.any():
                between = max(float(expected[is_told].mean()), np.finfo(float).tiny)
        kept = between / (between + variance)
        fitted = mean + sum(one.of_cells for one in effects)
        return np.asarray(fitted + kept * (value - fitted))


class _Effect:
    """Effects a of one dimension, and their variance."""

    def __init__(self, group: Ints, n: int, variance: float) -> None:
        self._group, self._variance = group, variance
        self._alpha = np.zeros(n)

    @property
    def of_cells(self) -> Floats:
        """The effect on each cell."""
        return np.asarray(self._alpha[self._group])

    def update(self, residual: Floats, precision: Floats) -> None:
        """Take the expectations of effects and variance, given the residuals of cells."""
        n = self._alpha.size
        told = np.maximum(np.bincount(self._group, precision, n), np.finfo(float).tiny)
        kept = self._variance / (self._variance + 1.0 / told)
        self._alpha = kept * np.bincount(self._group, precision * residual, n) / told
        variance = float(np.mean(self._alpha**2 + (1.0 - kept) * self._variance))
        self._variance = max(variance, np.finfo(float).tiny)


def smooth_weights(weight: Floats, noise: Floats, shape: tuple[int, ...]) -> Floats:
    """Return positive weights: products of margins, corrected beyond the noise.

    Examples
    --------
    >>> weight = np.array([8.0, 4.0, 4.0, 2.0])
    >>> smooth_weights(weight, np.full(4, 0.1), (2, 2)).round(2).tolist()
    [8.0, 4.0, 4.0, 2.0]
    """
    deviation = float(np.sqrt((noise**2).sum()))
    total = max(float(weight.sum()), deviation)
    product = np.full(weight.size, total)
    for group, n in zip(np.unravel_index(np.arange(weight.size), shape), shape, strict=True):
        margin = np.bincount(group, weight, n)
        floor = np.sqrt(np.bincount(group, noise**2, n)) / 2
        product *= (np.maximum(margin, floor) / total)[group]
    excess = float(((weight - product) ** 2 - noise**2).sum() / (product**2).sum())
    variance = max(excess, 0.0) * product**2
    smoothed = product + variance / (variance + noise**2) * (weight - product)
    return np.asarray(np.maximum(smoothed, MIN_WEIGHT_PER_NOISE * noise))
