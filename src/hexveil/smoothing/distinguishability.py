"""Predicted ε at which half of a map's cells are distinguishable from its mean.

Let a cell's true average deviate from the map's mean with variance S, its noise have variance
v = 2 b², and its bias the standard deviation t. At r times the ε, planned as before, noise and bias
are about 1/r of that: clipping and weights are chosen to be about as large as the noise. With
q = S / (S + v/r²) the estimate shrinks the deviation of the number by q, so that it deviates with
variance q S, and half its interval is about z sqrt((1 - q) S + t²/r²). The cell is distinguishable
where the deviation exceeds half the interval:

    2 F(-z sqrt((1 - q) S + t²/r²) / sqrt(q S))

of all maps like this. F is a t distribution of four degrees and variance one, as that of true
averages. Averaged over cells that rises with r; r is where it is one half.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from hexveil.smoothing.posterior import tail_probability

if TYPE_CHECKING:
    from hexveil.base.arrays import Floats


_MAX_FACTOR = 2.0**20
_BISECTIONS = 40


def half_width_z(n_cells: int) -> float:
    """Return half the width of an interval, in standard deviations: z."""
    return -NormalDist().inv_cdf(tail_probability(n_cells))


def distinguishable_share(
    factor: float, signal_variance: Floats, scale: Floats, bias_sd: Floats
) -> float:
    """Return the predicted share of cells distinguishable from the mean, at a multiple of ε.

    Parameters
    ----------
    factor : float
        The multiple of ε.
    signal_variance : ndarray of float, shape (n_cells,)
        Variance of true averages.
    scale : ndarray of float, shape (n_cells,)
        Scale of the Laplace noise; 0 for constants, which are never distinguishable.
    bias_sd : ndarray of float, shape (n_cells,)
        Standard deviation of the bias.

    Examples
    --------
    >>> ones, unbiased = np.ones(2), np.zeros(2)
    >>> shares = [distinguishable_share(r, ones, ones, unbiased) for r in (1.0, 1e6)]
    >>> shares[0] < 0.05, shares[1] > 0.99
    (True, True)
    """
    from scipy.special import stdtr  # noqa: PLC0415  importing hexveil must stay light

    noise = 2.0 * (scale / factor) ** 2
    signal_share = signal_variance / (signal_variance + noise)
    half_width = half_width_z(scale.size) * np.sqrt(
        (1.0 - signal_share) * signal_variance + (bias_sd / factor) ** 2
    )
    probability = 2.0 * stdtr(
        4.0, -half_width * np.sqrt(2.0 / np.maximum(signal_share * signal_variance, 1e-300))
    )
    return float(np.where((scale > 0) & (signal_variance > 0), probability, 0.0).mean())


def half_distinguishable_factor(
    signal_variance: Floats, scale: Floats, bias_sd: Floats
) -> float | None:
    """Return the multiple of ε at which half of the cells are distinguishable; None beyond 2^20.

    Parameters
    ----------
    signal_variance, scale, bias_sd : ndarray of float, shape (n_cells,)
        As for `distinguishable_share`.
    """
    low, high = -math.log(_MAX_FACTOR), math.log(_MAX_FACTOR)
    # Constants are never distinguishable: a map of mostly constants has no such factor.
    if distinguishable_share(math.exp(high), signal_variance, scale, bias_sd) < 0.5:
        return None
    # The share rises with the factor, so bisection in its logarithm finds the place.
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2.0
        is_enough = distinguishable_share(math.exp(middle), signal_variance, scale, bias_sd) >= 0.5
        low, high = (low, middle) if is_enough else (middle, high)
    return math.exp(high)
