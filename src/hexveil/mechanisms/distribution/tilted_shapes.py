"""Distributions of single cells as tilted forms of the pooled shape. Post-processing, public.

Of a cell's distribution little is measured, of the whole map's much. A cell's share of a bin x is

    F_c(x) = P(x) exp(Σ_k t_ck φ_k(r(x))) / Z,

P the pooled shape, r its ranks, φ_k Legendre polynomials on [0, 1]. One term moves mass up or down;
two and three widen it and skew it. F_c is a distribution whatever the tilts t are: quantiles rise
with their level, shares lie from 0 to 1 and fall with their threshold, and all statistics agree.

`solve_tilts` solves one term for a given mean of a rising score; `tilt_estimation` finds three
terms from noisy bins of all cells together.

Source: exponential tilting (Efron, 2016).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hexveil.base.read_only import ReadOnlyArrays
from hexveil.mechanisms.distribution.fine_bin_scores import pooled_ranks

if TYPE_CHECKING:
    from hexveil.base.arrays import Floats

MAX_TILT = 12.0
HALVINGS = 40
N_TERMS = 3
NEWTON_STEPS, MAX_STEP = 15, 6.0


def tilt(shares: Floats, terms: Floats, alpha: Floats) -> Floats:
    """Return tilted shares, shape (..., n_bins).

    Parameters
    ----------
    shares : ndarray of float, shape (n_bins,)
        P, positive.
    terms : ndarray of float, shape (n_bins, n_terms)
    alpha : ndarray of float, shape (..., n_terms)
    """
    logarithm = alpha @ terms.T
    weight = shares * np.exp(logarithm - logarithm.max(axis=-1, keepdims=True))
    return np.asarray(weight / weight.sum(axis=-1, keepdims=True))


def legendre_terms(shares: Floats, n_terms: int = N_TERMS) -> Floats:
    """Return φ of each fine bin's pooled rank, without the constant one."""
    vander = np.polynomial.legendre.legvander(2.0 * pooled_ranks(shares) - 1.0, n_terms)
    return np.asarray(vander[:, 1:])


def solve_tilts(shares: Floats, scores: Floats, mean: Floats) -> Floats:
    """Return the tilts of one term for which each cell's mean score is the one given.

    Scores rise with the values. Means that no tilt attains get the steepest one, `MAX_TILT`.
    """
    terms = legendre_terms(shares, 1)
    low, high = np.full(mean.shape, -MAX_TILT), np.full(mean.shape, MAX_TILT)
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        is_below = tilt(shares, terms, middle[..., None]) @ scores < mean
        low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
    return np.asarray((low + high) / 2.0)


@dataclass(frozen=True, eq=False)
class TiltFit(ReadOnlyArrays):
    """Tilts of all cells, with their uncertainty.

    Attributes
    ----------
    alpha : ndarray of float, shape (n_cells, n_terms)
        Posterior modes.
    covariance : ndarray of float, shape (n_cells, n_terms, n_terms)
    """

    alpha: Floats
    covariance: Floats

    def rows(self, rows: slice) -> TiltFit:
        """Return the tilts of some cells."""
        return TiltFit(self.alpha[rows], self.covariance[rows])


def tilt_to_means(shares: Floats, values: Floats, target: Floats) -> Floats:
    """Return shares tilted by value, so that each distribution has a given mean.

    Parameters
    ----------
    shares : ndarray of float, shape (..., n_bins)
    values : ndarray of float, shape (n_bins,)
        Value of each bin, from 0 to 1.
    target : ndarray of float, shape (...)
        Means; those that no tilt attains are approached.
    """
    slope = np.zeros(target.shape)
    # With values from 0 to 1 the mean is a smooth rising function of the slope: Newton's steps,
    # bounded where nearly all mass is in one bin.
    for _ in range(NEWTON_STEPS):
        tilted = tilt(shares, values[:, None], slope[..., None])
        mean = tilted @ values
        variance = np.maximum(tilted @ values**2 - mean**2, 1e-5)
        slope = slope + np.clip((target - mean) / variance, -MAX_STEP, MAX_STEP)
    return tilt(shares, values[:, None], slope[..., None])


def quantiles(shares: Floats, level: float, starts: Floats, ends: Floats) -> Floats:
    """Return the value that a part of each distribution does not exceed, even within bins.

    Parameters
    ----------
    shares : ndarray of float, shape (..., n_bins)
    level : float
    starts, ends : ndarray of float, shape (n_bins,)

    Examples
    --------
    >>> quantiles(np.array([[0.5, 0.5]]), 0.75, np.array([0.0, 2.0]), np.array([2.0, 4.0])).tolist()
    [3.0]
    """
    below = np.cumsum(shares, axis=-1)
    number = np.minimum((below < level).sum(axis=-1), shares.shape[-1] - 1)
    bin_share = np.take_along_axis(shares, number[..., None], axis=-1)[..., 0]
    reached = np.take_along_axis(below, number[..., None], axis=-1)[..., 0] - bin_share
    inside = np.clip((level - reached) / np.maximum(bin_share, 1e-300), 0.0, 1.0)
    return np.asarray(starts[number] + inside * (ends - starts)[number])
