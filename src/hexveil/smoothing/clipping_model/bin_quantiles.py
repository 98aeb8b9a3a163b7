"""Quantiles of laws in bins, and bins that follow a law: a row for each cell."""

import numpy as np

from hexveil.base.arrays import Floats

EVEN_SHARE = 0.2
"""Share of the bins of a later grid that stay evenly spaced."""


def invert_rows(edges: Floats, masses: Floats, levels: Floats) -> Floats:
    """Return the points at which each row's distribution reaches the levels, linear within bins.

    Parameters
    ----------
    edges : ndarray of float, shape (n_cells, n_bins + 1)
    masses : ndarray of float, shape (n_cells, n_bins)
    levels : ndarray of float, shape (n_cells, n_levels)
    """
    rows, bins = masses.shape
    below = np.zeros_like(edges)
    np.cumsum(masses, axis=1, out=below[:, 1:])
    below = np.minimum(below / below[:, -1:], 1.0)
    # All rows in one search: each is moved to numbers of its own.
    offset = 2.0 * np.arange(rows)[:, None]
    place = np.searchsorted((below + offset)[:, 1:].ravel(), (levels + offset).ravel())
    k = np.clip(place.reshape(levels.shape) - bins * np.arange(rows)[:, None], 0, bins - 1)
    start, mass = np.take_along_axis(below, k, axis=1), np.take_along_axis(masses, k, axis=1)
    share = np.clip((levels - start) / np.maximum(mass, 1e-300), 0.0, 1.0)
    low, high = np.take_along_axis(edges, k, axis=1), np.take_along_axis(edges, k + 1, axis=1)
    return np.asarray(low + share * (high - low))


def refine(edges: Floats, masses: Floats) -> Floats:
    """Return edges between which a mixture of the masses and of an even law is the same.

    Parameters
    ----------
    edges : ndarray of float, shape (n_cells, n_bins + 1)
    masses : ndarray of float, shape (n_cells, n_bins)
        Adding up to one in each cell.
    """
    even = np.diff(edges, axis=1) / (edges[:, -1:] - edges[:, :1])
    levels = np.linspace(0.0, 1.0, edges.shape[1])
    mixture = (1.0 - EVEN_SHARE) * masses + EVEN_SHARE * even
    return invert_rows(edges, mixture, np.broadcast_to(levels, edges.shape))
