"""Noise for studies: many trials at once in plain numpy, never accepted by a release.

Permute-and-flip in plain numpy: the law of the vetted noisy max, for simulation only.

Source: McKenna and Sheldon, "Permute-and-Flip" (2020); ERRATA 12. The vetted noisy max visits
the candidates in random order and takes the first whose coin of odds q = exp(-(c - c_min)/scale)
falls, c its cost. That is the candidate with the largest Exp(1) - c/scale.
Loss: if one user's change moves every cost by at most s, 2 s/scale: q moves by at most
exp(±2 s/scale) in all, as c and c_min both move. Not s/scale: moving one value raises some costs
and lowers others, so the "monotonic" reading is never valid here.

Candidates of one cost are kept together as a *run* of a given size: a rank score over thousands
of candidates has only as many runs as there are values. With v uniform on [0, 1] per candidate,
the least v/q wins; the least of n uniforms is 1 - (a uniform)^(1/n).
"""

import numpy as np

from hexveil.base.arrays import Floats, Ints

LARGEST_POWER = 600.0
"""Its exponential is far from the largest double."""

NODES, SHARES = np.polynomial.legendre.leggauss(24)


def law(costs: Ints, sizes: Ints, scale: float) -> Floats:
    """Return the chance of each run, to about 1e-12.

    n q ∫ Π_j (1 - u q_j)^(n_j) / (1 - u q) du over [0, 1], by Gauss quadrature on intervals that
    double from the width 1/Σ n q on which the product falls off.

    Parameters
    ----------
    costs, sizes : ndarray of int64, shape (n_runs,)
        Cost and number of candidates of each run; a run may be empty, not all of them.
    scale : float
        Above zero.

    Examples
    --------
    >>> law(np.array([0, 1]), np.array([1, 1]), 1 / np.log(4)).round(9).tolist()
    [0.875, 0.125]
    """
    q = np.exp(-np.maximum(costs - costs[sizes > 0].min(), 0) / scale)
    weight = sizes * q
    edges, edge = [0.0], 1.0 / float(weight.sum())
    while edge < 0.5:
        edges.append(edge)
        edge *= 2.0
    begin, width = np.array(edges)[:, None], np.diff([*edges, 1.0])[:, None]
    u = (begin + width * (NODES + 1.0) / 2.0).ravel()
    missed = np.log1p(-np.outer(u, q))
    none_before = np.exp(missed @ sizes) * (width * SHARES / 2.0).ravel()
    return np.asarray(weight * (none_before @ np.exp(-missed)), dtype=np.float64)


def choose(
    costs: Ints, sizes: Ints, scale: float, generator: np.random.Generator, trials: int
) -> Ints:
    """Return the run that permute-and-flip chooses in each trial.

    Parameters
    ----------
    costs, sizes : ndarray of int64, shape (1 or trials, n_runs)
        One row for all trials, or one each.
    scale : float
        Above zero.
    generator : numpy.random.Generator
        Not a cryptographic one: for study only.
    trials : int

    Returns
    -------
    ndarray of int64, shape (trials,)
    """
    if len(costs) == len(sizes) == 1:
        ends = np.cumsum(law(costs[0], sizes[0], scale))
        draws = generator.random(trials) * ends[-1]
        return np.asarray(np.searchsorted(ends, draws, side="right"), dtype=np.int64)
    # Only ratios of odds matter; where their powers could overflow, their logarithms are compared.
    reach = (costs - costs.min()) / scale
    exponential = generator.standard_exponential((trials, sizes.shape[1])) / np.maximum(sizes, 1)
    rival = -np.expm1(-exponential)
    rival = rival * np.exp(reach) if reach.max() < LARGEST_POWER else np.log(rival) + reach
    return np.asarray(np.where(sizes > 0, rival, np.inf).argmin(axis=1), dtype=np.int64)


class SimulatedNoise:
    """Discrete Laplace and Gaussian noise and permute-and-flip for a batch of trials.

    Parameters
    ----------
    generator : numpy.random.Generator
        Not a cryptographic one: for study only.
    trials : int
        Rows of every result; values of one row are the same in all trials.
    """

    def __init__(self, generator: np.random.Generator, trials: int) -> None:
        self._generator, self._trials = generator, trials

    def laplace(self, values: Ints, scales: Floats) -> Ints:
        """Return integers plus discrete Laplace noise, shape (trials, entries).

        floor(R E) of a standard exponential E is geometric, and the difference of two is discrete
        Laplace of scale R.
        """
        shape = self._trials, values.shape[1], 2
        # Both draws of a trial stand together, so that the stream does not depend on the batch.
        geometric = np.floor(self._generator.standard_exponential(shape) * scales[:, :, None])
        noise = geometric[:, :, 0] - geometric[:, :, 1]
        return np.asarray(values + noise.astype(np.int64))

    def gaussian(self, values: Ints, deviations: Floats) -> Ints:
        """Return integers plus rounded normal noise, shape (trials, entries).

        For a deviation of 100 or more no study can tell it from discrete Gaussian noise.
        """
        shape = self._trials, values.shape[1]
        noise = np.rint(self._generator.standard_normal(shape) * deviations)
        return np.asarray(values + noise.astype(np.int64))

    def noisy_max(self, scores: Ints, sizes: Ints, scale: float) -> Ints:
        """Return the candidate that permute-and-flip chooses in each trial."""
        run = choose(-scores, sizes, scale, self._generator, self._trials)
        begin = np.cumsum(sizes, axis=1) - sizes
        row = 0 if len(sizes) == 1 else np.arange(self._trials)
        # The candidates of a run have one score, so each is chosen alike.
        within = self._generator.random(self._trials) * sizes[row, run]
        return np.asarray(begin[row, run] + within.astype(np.int64))
