"""Pooled shape: the distribution of all records of a map, every unit of equal weight.

It says where values lie at all, so that the bins and scores of single cells can be placed. Released
from its share of ε: 16 bins of equal width, then 20 bins at the quantiles so found, where units
suffice; else fewer bins, smoothed by a log-density of a few Legendre terms. Under either privacy
model (`ShapeBins`): shares are noisy weights over the units, whose number is public, or over their
noisy sum.

Neighbours: one unit's values all change within the bounds. (Where presence is private, see
`presence.shape_allocation`.)
Sensitivity: 2^21 for each unit and release, √2 2^20 in L2 (`binned_stage`, one group per unit,
M = 2^20).
Loss: its share of ε, or of the square of μ; in two releases 0.4 and 0.6 of it. The edges of the
second are a function of the noisy first.

**Bins of single cells** (`BinnedMap`). After the shape every (cell, unit) pair enters its cell's
bins with a public weight w: records times the price of the cell, as a part of the unit's priced
records. Few bins, well placed, have less noise at their edges than trees or many bins: four at the
quartiles of the shape, and an edge at each threshold.
Sensitivity: 2 w in each of a unit's cells (`binned_stage`, one group per pair). Σ w <= 2^20; under
a δ the cells are one vector in L2, and Σ w² <= 2^40.
Loss: the shape's, and 2^21 / b with one scale b in all cells; or 2^41 / r² as a square of μ.
Source: `binned_stage`; weights as in user-level bounds on contributions (Amin, Kulesza, Munoz and
Vassilvitskii, 2019); the density (`PooledDensity`) is a penalised fit by least squares,
post-processing.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from hexveil.accounting.noise_law import NoiseLaw
from hexveil.accounting.promise import PARTS, Promise, promised
from hexveil.base.arrays import Floats, Ints
from hexveil.base.rational import round_up
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.mechanisms.contract import DONE, Stage
from hexveil.mechanisms.distribution.binned_stage import (
    SUBSTITUTED,
    PricedWeights,
    cell_bins,
    pooled_bins,
)
from hexveil.mechanisms.stage_data import Outputs
from hexveil.model.occupancy import Occupancy

WIDE, NARROW, CELL_BINS = "wide bins", "narrow bins", "cell bins"
N_WIDE, N_NARROW = 16, 20
QUARTERS = 4
WIDE_SHARE = Fraction(2, 5)
"""Part of the shape's share that the wide bins have where narrow ones follow."""
REFINED_FROM, FEW_UNITS = 250, 25
"""Units times ε from which bins are placed twice, and below which the shape has eight bins."""
MEAN_ABS_NORMAL, TAKEN_OVER = 0.7979, 1.0 / 3.0


LEAST = 1e-4
"""Least share of a fine bin: nothing is impossible because of noise."""
N_TERMS, NEWTON_STEPS = 5, 60
MODEL_VARIANCE = 1e-5
PENALTY = 0.25
NEAR = 0.5
"""Distance of a quantile from a threshold, in parts of the share of a bin, that makes it none."""


def shape_bins(precision: Fraction) -> tuple[int, int]:
    """Return the numbers of wide and of narrow bins for so many units times the ε of their noise.

    Examples
    --------
    >>> shape_bins(Fraction(300)), shape_bins(Fraction(100)), shape_bins(Fraction(20))
    ((16, 20), (12, 0), (8, 0))
    """
    if precision > REFINED_FROM:
        return N_WIDE, N_NARROW
    return (8 if precision < FEW_UNITS else 12), 0


@dataclass(frozen=True, eq=False)
class ShapeBins(ReadOnlyArrays):
    """Bins of the pooled shape, and the shares of fine bins that their noisy weights show.

    Attributes
    ----------
    edges : ndarray of int64, shape (n_fine_bins,)
    n_wide, n_narrow : int
        Without narrow bins, bins are placed once.
    promise : Pure or Squares
        All of the shape's loss.
    substituted : int
        Full weights that a unit moves: two where values alone are private.
    shrinkage : float
        Part of the noise's standard deviation by which small shares shrink; none becomes nothing.
    units : int, optional
        Their number, where it is public.
    """

    edges: Ints
    n_wide: int
    n_narrow: int
    promise: Promise
    substituted: int
    shrinkage: float
    units: int | None = None

    def law(self, name: str) -> NoiseLaw:
        """Return the noise of a release."""
        part = Fraction(1)
        if self.n_narrow:
            part = WIDE_SHARE if name == WIDE else 1 - WIDE_SHARE
        return self.promise.part(part).noise(self.substituted)

    @property
    def _widths(self) -> Floats:
        """Width of each fine bin, in quanta; half a quantum of one that holds the bound alone."""
        return np.maximum(np.diff(self.edges, prepend=0), 0.5)

    @property
    def wide_place(self) -> Ints:
        """Bin of each fine bin, among the wide ones, which have nearly equal width."""
        # By the end of a bin: fine bins are narrower than wide ones, thresholds divide them only.
        # The first one may end at the lower bound itself.
        place = np.maximum(self.edges - 1, 0) * self.n_wide // int(self.edges[-1])
        return np.asarray(np.minimum(place, self.n_wide - 1))

    def narrow_place(self, wide: Ints) -> Ints:
        """Return the bin of each fine bin among the narrow ones, by the weights of wide ones."""
        shares = self.even(WIDE, wide, self.wide_place)
        middle = np.cumsum(shares) - shares / 2.0
        return np.minimum((middle * self.n_narrow).astype(np.int64), self.n_narrow - 1)

    def quantile_place(self, shares: Floats, n_bins: int, threshold_edges: Ints) -> Ints:
        """Return the bin of each fine bin, split at quantiles and at thresholds.

        There are at most `n_bins` and one for each threshold, numbered without gaps. A quantile
        near a threshold is no edge: a bin of few records has as much noise as one of many.
        """
        below = np.cumsum(shares)
        quantiles = np.searchsorted(below, np.arange(1, n_bins) / n_bins)
        thresholds = np.searchsorted(self.edges, threshold_edges)
        distance = np.abs(below[quantiles][:, None] - below[thresholds]) > NEAR / n_bins
        splits = np.unique(np.concatenate([quantiles[distance.all(axis=1)], thresholds]))
        # A split at the last fine bin divides nothing.
        splits = splits[splits < below.size - 1]
        return np.searchsorted(splits, np.arange(below.size), side="left")

    def measured_place(self, outputs: Outputs) -> Ints:
        """Return the bin of each fine bin in the last release: stored, or made from the first."""
        if not self.n_narrow:
            return self.wide_place
        row = outputs[WIDE][0]
        stored = row[self.n_wide :]
        return np.asarray(stored) if stored.size else self.narrow_place(row)

    def shares(self, outputs: Outputs) -> Floats:
        """Return the share of each fine bin: positive, with the sum 1. Post-processing."""
        if not self.n_narrow:
            return self.smooth(WIDE, outputs[WIDE][0], self.wide_place)
        return self.even(NARROW, outputs[NARROW][0], self.measured_place(outputs))

    def even(self, name: str, noisy: Ints, place: Ints) -> Floats:
        """Return shares of fine bins from the weights of their bins, even within a bin."""
        units, width = self.units or 1, self._widths
        n_bins = self.n_wide if name == WIDE else self.n_narrow
        shrinkage = self.shrinkage * self.law(name).number_deviation / PARTS / units
        shrunk = np.maximum(noisy[:n_bins] / PARTS / units, 0.0)
        # Small shares shrink, none becomes nothing.
        shrunk = shrunk * shrunk / np.maximum(shrunk + shrinkage, np.finfo(float).tiny)
        total = np.bincount(place, weights=width, minlength=n_bins)
        return _floored(shrunk[place] * width / total[place])

    def even_shares(self, outputs: Outputs) -> Floats:
        """Return the same without a smooth law: even within the bins that were measured."""
        if self.n_narrow:
            return self.shares(outputs)
        return self.even(WIDE, outputs[WIDE][0], self.wide_place)

    def series_shares(self, outputs: Outputs) -> Floats:
        """Return the same for a series of days: smooth, but for what noise does not explain.

        Errors of one day's bins would last for all days.
        """
        if not self.n_narrow:
            return self.shares(outputs)
        place, noisy = self.measured_place(outputs), outputs[NARROW][0]
        smooth, noise = self.smooth(NARROW, noisy, place), self._noisy_shares(NARROW, noisy)[1]
        used = np.unique(place, return_inverse=True)[1]  # no fine bin lies in some
        fitted = np.bincount(used, smooth)
        off = np.bincount(used, self.even(NARROW, noisy, place)) - fitted
        misfit = max(float(np.mean((off**2 - noise**2) / fitted**2)), 0.0) * fitted**2
        return _floored(smooth * (1.0 + misfit / (misfit + noise**2) * off / fitted)[used])

    def _noisy_shares(self, name: str, noisy: Ints) -> tuple[Floats, float]:
        """Return the noisy shares of bins, and the standard deviation of their noise."""
        n_bins = self.n_wide if name == WIDE else self.n_narrow
        weights, noise = noisy[:n_bins] / PARTS, self.law(name).number_deviation / PARTS
        # Where the number of units is private, shares are those of the noisy sum over all bins.
        weight = self.units or max(float(weights.sum()), noise * np.sqrt(n_bins))
        return weights / weight, noise / weight

    def smooth(self, name: str, noisy_weights: Ints, place: Ints) -> Floats:
        """Return the same by a smooth log-density of the weights of bins."""
        noisy, noise = self._noisy_shares(name, noisy_weights)
        variance = noise**2 + MODEL_VARIANCE
        edges, width = self.edges / self.edges[-1], self._widths / self.edges[-1]
        terms = np.polynomial.legendre.legvander(2.0 * (edges - width / 2.0) - 1.0, N_TERMS)[:, 1:]
        penalty = PENALTY * np.arange(1, N_TERMS + 1) ** 2
        gather = (np.arange(noisy.size)[:, None] == place).astype(np.float64)
        alpha = np.zeros(N_TERMS)
        for _ in range(NEWTON_STEPS):
            p = _density(terms @ alpha, width)
            slope = gather @ (p[:, None] * (terms - p @ terms))
            gradient = slope.T @ (noisy - gather @ p) / variance - penalty * alpha
            curvature = slope.T @ slope / variance + np.diag(penalty)
            step = np.linalg.solve(curvature, gradient)
            alpha = alpha + step * min(1.0, 1.0 / max(np.abs(step).max(), 1e-12))
        return _floored(_density(terms @ alpha, width))


@dataclass(frozen=True, eq=False)
class PooledShape(ReadOnlyArrays):
    """Plan of the pooled shape where values alone are private: a `StagedPlan`.

    Attributes
    ----------
    occupancy : Occupancy
    fine_edges : ndarray of int64, shape (n_fine_bins,)
    epsilon : Fraction
    delta : Fraction
        0 for a pure promise.
    """

    occupancy: Occupancy
    fine_edges: Ints
    epsilon: Fraction
    delta: Fraction = Fraction(0)

    @cached_property
    def bins(self) -> ShapeBins:
        """The bins. Small shares shrink by half of their noise."""
        promise, units = promised(self.epsilon, self.delta), self.occupancy.n_users
        n_bins = shape_bins(units * promise.laplace_epsilon(SUBSTITUTED))
        return ShapeBins(self.fine_edges, *n_bins, promise, SUBSTITUTED, 0.25, units)

    def losses(self) -> Floats:
        """Return each unit's loss, in ε or as a square of μ."""
        return np.full(self.occupancy.n_users, round_up(self.bins.promise.amount))

    def next_stage(self, earlier: Outputs) -> Stage | None:
        """Return the stage of wide bins, then that of narrow ones, if there is one."""
        bins = self.bins
        if WIDE not in earlier:
            place, law = bins.wide_place, bins.law(WIDE)
            return pooled_bins(WIDE, bins.n_wide, self.occupancy, place, law)
        if bins.n_narrow and NARROW not in earlier:
            place, law = bins.measured_place(earlier), bins.law(NARROW)
            return pooled_bins(NARROW, bins.n_narrow, self.occupancy, place, law)
        return DONE

    @property
    def level_error(self) -> float:
        """Expected absolute error that cells take over, of the share below the middle bin.

        Of that by the noise a part: smoothing takes some away, and the cells' own numbers correct.
        """
        bins = self.bins
        n_bins = bins.n_narrow or bins.n_wide
        noise = MEAN_ABS_NORMAL * bins.law(NARROW).number_deviation / PARTS * math.sqrt(n_bins) / 2
        return TAKEN_OVER * noise / self.occupancy.n_users


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
        if CELL_BINS in earlier:
            return DONE
        return cell_bins(CELL_BINS, self.n_bins, self.weights, self.place(earlier), self.law)

    def place(self, outputs: Outputs) -> Ints:
        """Return the bin of each fine bin."""
        below = np.cumsum(self.shape.bins.shares(outputs))
        # The last fine bin below each quartile; equal edges leave a bin empty, which costs nothing.
        quartiles = np.searchsorted(below, np.arange(1, QUARTERS) / QUARTERS)
        thresholds = np.searchsorted(self.shape.fine_edges, self.threshold_edges)
        splits = np.sort(np.concatenate([quartiles, thresholds]))
        return np.searchsorted(splits, np.arange(below.size), side="left")

    def noisy_bins(self, outputs: Outputs) -> Floats:
        """Return the noisy weight of each cell's bins, in units; shape (n_cells, n_bins)."""
        return np.asarray(outputs[CELL_BINS][0].reshape(-1, self.n_bins) / PARTS)


def _density(logarithm: Floats, width: Floats) -> Floats:
    weight = width * np.exp(logarithm - logarithm.max())
    return np.asarray(weight / weight.sum())


def _floored(shares: Floats) -> Floats:
    """Return shares that are positive and add up to 1."""
    total = shares.sum()
    even = np.full(shares.size, 1.0 / shares.size)
    mixed = even if total <= 0.0 else (1.0 - LEAST * shares.size) * shares / total + LEAST
    return np.asarray(mixed / mixed.sum())
