"""Tilted forms of the pooled shape, and distributions that are not exactly tilts. Public.

A tilt multiplies the share of a bin by the exponential of Legendre polynomials of its pooled rank
(`tilt_estimation`). `solve_tilts` solves one term for a given mean of a rising score.

Source: exponential tilting (Efron, 2016); Dirichlet processes (Ferguson, 1973).
"""

from __future__ import annotations

import numpy as np

from hexveil.base.arrays import Floats, Ints

SEED = 20_261_129
MAX_TILT, HALVINGS = 12.0, 40
NARROWINGS, LEAST_WITHIN = 10, 0.2
"""Halvings of the second tilt; least variance of scores within cells, as a part of all."""
N_TERMS = 3
NEWTON_STEPS, MAX_STEP = 15, 6.0
LEAST_MASS = 1e-9


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


def solve_tilts(shares: Floats, scores: Floats, mean: Floats, second: float = 0.0) -> Floats:
    """Return the tilts of the first term for which each cell's mean score is the one given.

    Scores rise with the values. Means that no tilt attains get the steepest one, `MAX_TILT`. All
    cells have the same tilt of the second term.
    """
    # The peak of a narrow shape lies at the first tilt, in parts of three times the second.
    high = np.full(mean.shape, MAX_TILT - 3.0 * min(second, 0.0))
    low = -high
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        is_below = _narrowed(shares, middle, second) @ scores < mean
        low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
    return np.asarray((low + high) / 2.0)


def narrow_tilt(shares: Floats, scores: Floats, mean: Floats, weight: Floats) -> float:
    """Return the tilt of the second term by which cells are as narrow as they differ.

    By the law of total variance scores vary within cells by what is left of their variance under
    the pooled shape without that between the means of cells. 0 if tilts of one term leave no more.

    Parameters
    ----------
    shares, scores : ndarray of float, shape (n_fine_bins,)
    mean, weight : ndarray of float, shape (n_cells,)
        Estimates, which differ less than the mean scores themselves; how much cells count.
    """
    between = np.average((mean - np.average(mean, weights=weight)) ** 2, weights=weight)
    total = float(shares @ scores**2 - (shares @ scores) ** 2)
    within = max(total - between, LEAST_WITHIN * total)
    low, high = -MAX_TILT, 0.0
    for _ in range(NARROWINGS):
        middle = (low + high) / 2.0
        tilted = _narrowed(shares, solve_tilts(shares, scores, mean, middle), middle)
        variance = np.average(tilted @ scores**2 - (tilted @ scores) ** 2, weights=weight)
        low, high = (middle, high) if variance < within else (low, middle)
    return high


def _narrowed(shares: Floats, tilts: Floats, second: float) -> Floats:
    """Return shares by each cell's tilt of the first term, and by that of all of the second."""
    alpha = np.stack([tilts, np.full_like(tilts, second)], axis=-1)
    return tilt(shares, legendre_terms(shares, 2), alpha)


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


def pooled_ranks(shares: Floats) -> Floats:
    """Return the share of records below the middle of each bin, from 0 to 1.

    Examples
    --------
    >>> pooled_ranks(np.array([0.5, 0.25, 0.25])).tolist()
    [0.25, 0.625, 0.875]
    """
    return np.asarray(np.cumsum(shares) - shares / 2.0)


def add_misfit(
    shares: Floats, place: Ints, pooled: Floats, target: Floats, noise: Floats, misfit: Floats
) -> Floats:
    """Return drawn tilts with what cells differ by from tilts, as their bins tell it.

    Shares of bins are those of tilts and a misfit, which the noisy ones tell as far as their noise
    lets them: posterior draws, of which none is 0 or less. Rare bins misfit less.

    Then a part of each bin's share is put into one fine bin. Nothing is measured of where records
    lie within a bin: the tilt is what is usual, but all may be one number. A distribution is taken
    to be as uneven within its bins as between them: by u, the square of its distance from the
    pooled shares of bins, in parts of what is expected if all lie in one bin. Around the tilted
    shape a Dirichlet process with that u has the share below a point of a bin of share m vary as if
    a part w of m, w² = u / (u + (1 - u) m), were together at a drawn rank.

    Parameters
    ----------
    shares : ndarray of float, shape (n_draws, n_cells, n_fine_bins)
    place : ndarray of int64, shape (n_fine_bins,)
        Bin of each fine bin, rising.
    pooled : ndarray of float, shape (n_fine_bins,)
    target : ndarray of float, shape (n_cells, n_bins)
        Noisy shares of bins.
    noise, misfit : ndarray of float, shape (n_cells, 1)
        Variances.
    """
    gather = np.eye(int(place.max()) + 1)[place]
    fitted, pooled_bins, rng = shares @ gather, pooled @ gather, np.random.default_rng(SEED)
    variance = misfit * np.minimum(pooled_bins.size * fitted, 1.0)
    gain = variance / (variance + noise)
    # The same draws for every cell, from a fixed seed.
    size = len(shares), 1, pooled_bins.size
    normal, ranks = rng.standard_normal(size), rng.random(size)
    masses = fitted + gain * (target - fitted) + np.sqrt(gain * noise) * normal
    masses = np.maximum(masses, LEAST_MASS)  # not 0: noise may leave a cell no bin above it
    masses = masses / masses.sum(axis=-1, keepdims=True)
    shares = shares * (masses / np.maximum(fitted, 1e-300))[..., place]
    distance = ((masses - pooled_bins) ** 2).sum(axis=-1, keepdims=True)
    unevenness = np.minimum(distance / max(1.0 - pooled_bins @ pooled_bins, 1e-300), 1.0)
    atom = np.sqrt(unevenness / np.maximum(unevenness + (1.0 - unevenness) * masses, 1e-300))
    level = (np.cumsum(masses, axis=-1) + (ranks - 1.0) * masses)[..., place]
    below = np.cumsum(shares, axis=-1)
    at_rank = np.where((below - shares <= level) & (level < below), masses[..., place], 0.0)
    return np.asarray(shares + atom[..., place] * (at_rank - shares))
