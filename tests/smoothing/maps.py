"""Maps for the tests of smoothing: drawn from the model, or far from it."""

import numpy as np

from hexveil.smoothing.cell_groupings import RandomEffect
from hexveil.smoothing.shrinkage import smooth


def crossed(rows, columns):
    """Return the groupings of a full table of cells: same row, same column."""
    row, column = np.repeat(np.arange(rows), columns), np.tile(np.arange(columns), rows)
    return RandomEffect("same row", row), RandomEffect("same column", column)


def heavy(rng, n):
    """Return draws of a t law of four degrees, of standard deviation one."""
    return rng.standard_t(4, n) / np.sqrt(2.0)


def two_way(rng, rows=10, columns=12):
    """Return true averages that are a row's, a column's and an own part."""
    row, column = (g.label for g in crossed(rows, columns))
    own = 0.4 * heavy(rng, rows * columns)
    return 0.6 * rng.normal(size=rows)[row] + 0.6 * rng.normal(size=columns)[column] + own


def judged(draw, scale, groupings, draws, bias=0.0, *, gaussian=False):
    """Return (error of the numbers, error of the smoothed, coverage), means over draws."""
    found = []
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        truth = draw(rng)
        noisy = truth + (rng.normal if gaussian else rng.laplace)(0.0, scale, truth.size)
        noisy = noisy + rng.normal(0.0, bias, truth.size) if bias else noisy
        biases = {"worst_bias": 3 * bias, "typical_bias": bias}
        done = smooth(noisy, scale, groupings, **biases, gaussian=gaussian)
        inside = (done.low <= truth) & (truth <= done.high)
        errors = np.abs(noisy - truth), np.abs(done.estimate - truth)
        found.append([errors[0].mean(), errors[1].mean(), inside.mean()])
    return np.mean(found, axis=0)
