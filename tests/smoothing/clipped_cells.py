"""Cells drawn from the model of clipped looks, for the tests of posteriors and ranges."""

from dataclasses import dataclass

import numpy as np

from hexveil.smoothing.user_mean_law import CellDesign, ClippedLook, UserMeanSpread

BOUNDS = (0.0, 100.0)


@dataclass(frozen=True)
class Cells:
    """True means of cells, their design, their users' means and the pooled spread."""

    truth: np.ndarray
    design: CellDesign
    users: list
    spread: UserMeanSpread


def even_design(users):
    """Return the design of cells in which all users have the same weight and share."""
    users = np.asarray(users)
    return CellDesign(users, 1.0 / users, 1.0 / users, np.zeros(users.size), np.zeros(users.size))


def draw_cells(rng, cells, centre=40.0, between=6.0, within=8.0, least=15, most=60):
    """Return cells of normal user means, which are equal parts of the cell's mean."""
    number = rng.integers(least, most, cells)
    means = rng.normal(centre, between, cells)
    users = [
        np.clip(rng.normal(mean, within, n), *BOUNDS) for mean, n in zip(means, number, strict=True)
    ]
    pooled = float(np.hypot(between, within))
    spread = UserMeanSpread(centre, pooled, pooled, within)
    return Cells(np.array([u.mean() for u in users]), even_design(number), users, spread)


def look(rng, cells, lower, upper, scale):
    """Return what a range shows of the cells, with noise."""
    size = cells.truth.size
    lower, upper, scale = (np.broadcast_to(x, size).astype(float) for x in (lower, upper, scale))
    ranges = zip(cells.users, lower, upper, strict=True)
    exact = np.array([np.clip(users, low, high).mean() for users, low, high in ranges])
    return ClippedLook(exact + rng.laplace(0.0, scale), lower, upper, scale)
