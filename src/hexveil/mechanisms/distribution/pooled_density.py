"""Pooled shape of a map from noisy bins, and the bins it places, under either privacy model.

Post-processing of released numbers: it costs no privacy. Of many units the second bins, at
quantiles of the first, give the shape, even within a bin; of few a log-density of a few Legendre
terms is fitted to the first bins by penalised least squares.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hexveil.base.read_only import ReadOnlyArrays

if TYPE_CHECKING:
    from hexveil.base.arrays import Floats, Ints

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
