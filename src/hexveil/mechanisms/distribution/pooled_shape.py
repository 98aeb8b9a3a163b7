"""Pooled shape: the distribution of all records of a map, every unit of equal weight.

It says where values lie at all, so that the bins and scores of single cells can be placed. Released
from its share of ε: 16 bins of equal width, then 20 bins at the quantiles so found, where units
suffice; else fewer bins, smoothed by a log-density of a few Legendre terms.

Neighbours: one unit's values all change within the bounds.
Sensitivity: 2^21 for each unit and release, √2 2^20 in L2 (`binned_stage`, one group per unit,
M = 2^20).
Loss: its share of ε, or of the square of μ; in two releases 0.4 and 0.6 of it. The edges of the
second are a function of the noisy first.
Source: `binned_stage`; the density (`PooledDensity`, under either privacy model) is a penalised fit
by least squares, post-processing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from hexveil.accounting.promise import PARTS, promised
from hexveil.base.rational import round_up
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.mechanisms.contract import DONE
from hexveil.mechanisms.distribution.binned_stage import SUBSTITUTED, PooledBinStage

if TYPE_CHECKING:
    from hexveil.accounting.noise_law import NoiseLaw
    from hexveil.accounting.promise import Promise
    from hexveil.base.arrays import Floats, Ints
    from hexveil.mechanisms.contract import Outputs, Stage
    from hexveil.model.occupancy import Occupancy


WIDE, NARROW = "wide bins", "narrow bins"
N_WIDE, N_NARROW = 16, 20
WIDE_SHARE = Fraction(2, 5)
REFINED_FROM = 250
"""Units times ε from which bins are placed twice."""
FEW_UNITS = 100
MEAN_ABS_NORMAL, TAKEN_OVER = 0.7979, 1.0 / 3.0


@dataclass(frozen=True, eq=False)
class PooledShape(ReadOnlyArrays):
    """Plan of the pooled shape: a `StagedPlan`.

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

    @property
    def promise(self) -> Promise:
        """All of its loss."""
        return promised(self.epsilon, self.delta)

    def _noise(self, share: Fraction = Fraction(1)) -> NoiseLaw:
        """Return the noise of a release with this share of the loss."""
        return self.promise.part(share).noise(SUBSTITUTED)

    @property
    def _precision(self) -> Fraction:
        """Units times the ε of their noise."""
        return self.occupancy.n_users * self.promise.laplace_epsilon(SUBSTITUTED)

    @property
    def is_refined(self) -> bool:
        """Whether bins are placed twice."""
        return self._precision > REFINED_FROM

    def losses(self) -> Floats:
        """Return each unit's loss, in ε or as a square of μ."""
        return np.full(self.occupancy.n_users, round_up(self.promise.amount))

    def next_stage(self, earlier: Outputs) -> Stage | None:
        """Return the stage of wide bins, then that of narrow ones, if there is one."""
        if WIDE not in earlier:
            share = WIDE_SHARE if self.is_refined else Fraction(1)
            return self._stage(WIDE, self._wide_place(), self._noise(share))
        if self.is_refined and NARROW not in earlier:
            place = self._narrow_place(earlier)
            return self._stage(NARROW, place, self._noise(1 - WIDE_SHARE))
        return DONE

    def _stage(self, name: str, place: Ints, law: NoiseLaw) -> PooledBinStage:
        n_bins = N_NARROW if name == NARROW else self._n_wide
        return PooledBinStage(name, n_bins, self.occupancy, place, law)

    @property
    def level_error(self) -> float:
        """Expected absolute error that cells take over, of the share below the middle bin.

        Of that by the noise a part: smoothing takes some away, and the cells' own numbers correct.
        """
        law = self._noise(1 - WIDE_SHARE if self.is_refined else Fraction(1))
        n_bins = N_NARROW if self.is_refined else self._n_wide
        noise = MEAN_ABS_NORMAL * law.number_deviation / PARTS * math.sqrt(n_bins) / 2
        return TAKEN_OVER * noise / self.occupancy.n_users

    @property
    def _n_wide(self) -> int:
        if self.is_refined:
            return N_WIDE
        return 8 if self._precision < FEW_UNITS / 4 else 12

    @property
    def _density(self) -> PooledDensity:
        return PooledDensity(self.fine_edges)

    def _wide_place(self) -> Ints:
        return self._density.wide_place(self._n_wide)

    def _narrow_place(self, earlier: Outputs) -> Ints:
        cdf = np.cumsum(self._by_place(earlier[WIDE][0], self._wide_place(), WIDE_SHARE))
        middle = cdf - np.diff(cdf, prepend=0.0) / 2.0
        return np.minimum((middle * N_NARROW).astype(np.int64), N_NARROW - 1)

    def measured_place(self, outputs: Outputs) -> Ints:
        """Return the bin of each fine bin in the last release."""
        return self._narrow_place(outputs) if self.is_refined else self._wide_place()

    def shares(self, outputs: Outputs) -> Floats:
        """Return the share of each fine bin: positive, with the sum 1. Post-processing."""
        if self.is_refined:
            return self._by_place(outputs[NARROW][0], self._narrow_place(outputs), 1 - WIDE_SHARE)
        return self._smooth(outputs[WIDE][0], self._wide_place())

    def even_shares(self, outputs: Outputs) -> Floats:
        """Return the same without a smooth law: even within the bins that were measured."""
        if self.is_refined:
            return self.shares(outputs)
        return self._by_place(outputs[WIDE][0], self._wide_place(), Fraction(1))

    def _by_place(self, noisy: Ints, place: Ints, share: Fraction) -> Floats:
        """Return shares of fine bins from those of their bins, even within a bin."""
        measured = noisy / (PARTS * self.occupancy.n_users)
        noise = self._noise(share).number_deviation / PARTS / self.occupancy.n_users
        # Half of what noise alone would give: small shares shrink, none becomes nothing.
        return self._density.even_shares(measured, place, noise / 4.0)

    def _smooth(self, noisy: Ints, place: Ints) -> Floats:
        """Return shares by a smooth log-density."""
        n_users = self.occupancy.n_users
        variance = (self._noise().number_deviation / PARTS / n_users) ** 2
        return self._density.smooth_shares(noisy / (PARTS * n_users), place, variance)


LEAST = 1e-4
"""Least share of a fine bin: nothing is impossible because of noise."""
N_TERMS, NEWTON_STEPS = 5, 60
MODEL_VARIANCE = 1e-5
PENALTY = 0.25
NEAR = 0.5
"""Distance of a quantile from a threshold, in parts of the share of a bin, that makes it none."""


@dataclass(frozen=True, eq=False)
class PooledDensity(ReadOnlyArrays):
    """Fine bins, and how shares of them follow from noisy bins.

    Attributes
    ----------
    edges : ndarray of int64, shape (n_fine_bins,)
        Upper ends of the fine bins, in quanta; the last is the span.
    """

    edges: Ints

    @property
    def _widths(self) -> Floats:
        """Width of each fine bin, in quanta; half a quantum of one that holds the bound alone."""
        return np.maximum(np.diff(self.edges, prepend=0), 0.5)

    def wide_place(self, n_bins: int) -> Ints:
        """Return the bin of each fine bin, among bins of nearly equal width."""
        # By the end of a bin: fine bins are narrower than wide ones, thresholds divide them only.
        # The first one may end at the lower bound itself.
        last_bin = np.maximum(self.edges - 1, 0)
        return np.asarray(np.minimum(last_bin * n_bins // int(self.edges[-1]), n_bins - 1))

    def at_quantiles(self, shares: Floats, n_bins: int) -> Ints:
        """Return the bin of each fine bin, among bins of nearly equal share."""
        middle = np.cumsum(shares) - shares / 2.0
        return np.minimum((middle * n_bins).astype(np.int64), n_bins - 1)

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

    def even_shares(self, noisy: Floats, place: Ints, shrinkage: float) -> Floats:
        """Return the shares of fine bins from those of their bins, even within a bin.

        Parameters
        ----------
        noisy : ndarray of float, shape (n_bins,)
            Noisy weights of bins.
        place : ndarray of int64, shape (n_fine_bins,)
            Bin of each fine bin.
        shrinkage : float
            Weight that small weights lose, about; in proportion to the noise.
        """
        width = self._widths
        shrunk = np.maximum(noisy, 0.0)
        # Small shares shrink, none becomes nothing.
        shrunk = shrunk * shrunk / np.maximum(shrunk + shrinkage, np.finfo(float).tiny)
        total = np.bincount(place, weights=width, minlength=noisy.size)
        return _floored(shrunk[place] * width / total[place])

    def smooth_shares(self, noisy: Floats, place: Ints, variance: float) -> Floats:
        """Return the shares of fine bins by a smooth log-density.

        Parameters
        ----------
        noisy : ndarray of float, shape (n_bins,)
            Noisy shares of bins.
        place : ndarray of int64, shape (n_fine_bins,)
            Bin of each fine bin.
        variance : float
            Of the noise of a share.
        """
        edges, width = self.edges / self.edges[-1], self._widths / self.edges[-1]
        terms = np.polynomial.legendre.legvander(2.0 * (edges - width / 2.0) - 1.0, N_TERMS)[:, 1:]
        variance = variance + MODEL_VARIANCE
        penalty = PENALTY * np.arange(1, N_TERMS + 1) ** 2
        gather = np.zeros((noisy.size, edges.size))
        gather[place, np.arange(edges.size)] = 1.0
        alpha = np.zeros(N_TERMS)
        for _ in range(NEWTON_STEPS):
            p = _density(terms @ alpha, width)
            slope = gather @ (p[:, None] * (terms - p @ terms))
            gradient = slope.T @ (noisy - gather @ p) / variance - penalty * alpha
            curvature = slope.T @ slope / variance + np.diag(penalty)
            step = np.linalg.solve(curvature, gradient)
            alpha = alpha + step * min(1.0, 1.0 / max(np.abs(step).max(), 1e-12))
        return _floored(_density(terms @ alpha, width))


def _density(logarithm: Floats, width: Floats) -> Floats:
    weight = width * np.exp(logarithm - logarithm.max())
    return np.asarray(weight / weight.sum())


def _floored(shares: Floats) -> Floats:
    """Return shares that are positive and add up to 1."""
    total = shares.sum()
    even = np.full(shares.size, 1.0 / shares.size)
    mixed = even if total <= 0.0 else (1.0 - LEAST * shares.size) * shares / total + LEAST
    return np.asarray(mixed / mixed.sum())
