"""Every plan of the joint plan's class on a grid, written plainly: what the planner must not miss.

Bounds of width 1; `dense` is users x cells with a few of each; factors are a table, a row per plan.
"""

import itertools

import numpy as np

TINY = ([[3, 1], [2, 2]], [[5, 0], [1, 1], [1, 4]], [[9, 2], [1, 2], [2, 0]], [[1, 6], [4, 2]])
"""Counts of a few users in two cells."""


def factor_grid(n_users, points):
    """Return every vector of factors on a grid that includes both ends."""
    ends = np.linspace(0.0, 1.0, points)
    return np.array(list(itertools.product(ends, repeat=n_users)))


def shares(dense, factor):
    """Return what is kept of each user in each cell, shape (n_plans, n_users, n_cells)."""
    dense = np.asarray(dense)
    return factor[:, :, None] * (dense / dense.sum(axis=0))


def away(dense, factor):
    """Return the share of each cell that is put at the middle, shape (n_plans, n_cells)."""
    return np.maximum(1.0 - shares(dense, factor).sum(axis=1), 0.0)


def moves(dense, factor):
    """Return how far each user moves each cell's variance, shape (n_plans, n_users, n_cells).

    COMP Proposition III.1 where nothing of the cell is put at the middle, else ERRATA 10.
    """
    dense = np.asarray(dense)
    total = dense.sum(axis=0)
    x = shares(dense, factor)
    half = np.minimum(x, 0.5)
    p = dense / total
    most = np.where(2 * dense < total, p * (1 - p), 0.25 * (1 - (total % 2) / total**2))
    whole = np.where(dense > 0, factor[:, :, None], 1.0).min(axis=1, keepdims=True) == 1.0
    return np.where(whole & (dense > 0), most, half * (1.0 - half))


def losses(dense, factor, mean, variance):
    """Return the largest loss of a user; rates have shape (n_plans, n_cells)."""
    x, moved = shares(dense, factor), moves(dense, factor)
    a, c = mean[:, None, :], variance[:, None, :]
    charged = np.where(x > 0, a * x, 0.0) + np.where(moved > 0, c * moved, 0.0)
    return charged.sum(axis=2).max(axis=1)


def mean_room(dense, factor, target):
    """Return 1 / (target - bias) of the mean, 0 for a constant, infinity where nothing is left."""
    return _rate(target, away(dense, factor) / 2.0, 0.5)


def variance_room(dense, factor, target):
    """Return the same for the variance."""
    half = np.minimum(away(dense, factor), 0.5)
    return _rate(target, half * (1.0 - half) / 2.0, 0.125)


def _rate(target, bias, worst):
    room = target - bias
    rate = np.divide(1.0, room, out=np.full_like(room, np.inf), where=room > 1e-15)
    return np.where(np.broadcast_to(target, bias.shape) >= worst, 0.0, rate)


def least_loss(dense, factor, mean=np.inf, variance=np.inf):
    """Return the least loss of these factors at targets of each statistic."""
    none = np.zeros((len(factor), np.asarray(dense).shape[1]))
    a = none if np.isinf(mean) else mean_room(dense, factor, mean)
    c = none if np.isinf(variance) else variance_room(dense, factor, variance)
    possible = np.isfinite(a + c).all(axis=1)
    return losses(dense, factor[possible], a[possible], c[possible]).min(initial=np.inf)
