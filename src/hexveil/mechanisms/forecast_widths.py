"""Widths of clipping ranges around the forecast of each cell. Public.

Of a cell of within-cell deviation S and forecast deviation p the half width is

    r = √((κ S)² + (max(κ, 1.3) p)²),

κ of `MULTIPLES` such that noise² + shape² + missed² is least: the noise that the range costs, over
the part of users whom it does not clip; k(κ)² S² Σw², what the shape of the users' law hides; and
what lies beyond the range if the forecast is off by `SURPRISE` times its deviation.
"""

import numpy as np

from hexveil.base.arrays import Floats
from hexveil.base.normal_law import ndtr

MULTIPLES: Floats = np.array([0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0])
SHAPES: Floats = np.array([0.135, 0.11, 0.085, 0.05, 0.032, 0.02, 0.012])
"""κ, and k(κ): what laws of users of one spread hide, in deviations."""
FORECAST_MULTIPLE = 1.3
"""Least multiple of the forecast's deviation that a range reaches."""
SURPRISE = 1.5
"""Deviation of what forecasts are off by, in their own: days are not all of one kind."""


def choose_half_widths(
    within: float, deviation: Floats, noise: Floats, squares: Floats
) -> tuple[Floats, Floats]:
    """Return half the width of each cell's range, and the predicted deviation of its number.

    Parameters
    ----------
    within : float
        S, in any unit.
    deviation : ndarray of float, shape (n_cells,)
        p, in the same unit.
    noise : ndarray of float, shape (n_cells,)
        Standard deviation of the noise for a range of width 1.
    squares : ndarray of float, shape (n_cells,)
        Σw².

    Examples
    --------
    >>> noise = np.array([1.0, 0.001])
    >>> choose_half_widths(1.0, np.full(2, 1e-6), noise, np.ones(2))[0].round(3)
    array([0.5, 3. ])
    """
    multiple = MULTIPLES[:, None]
    halves = np.hypot(multiple * within, np.maximum(multiple, FORECAST_MULTIPLE) * deviation)
    # The part of users within the range, on average over where the forecast may be off.
    inside = 1.0 - 2.0 * ndtr(-halves / np.hypot(within, deviation))
    costs = (2.0 * halves * noise / inside) ** 2 + (SHAPES[:, None] * within) ** 2 * squares
    off = SURPRISE * deviation
    z = halves / off
    density = np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi)
    missed = 2.0 * off**2 * ((1.0 + z * z) * ndtr(-z) - z * density)
    best = (costs + missed).argmin(axis=0)[None]
    half, cost = (np.take_along_axis(table, best, 0)[0] for table in (halves, costs))
    return half, np.sqrt(cost)
