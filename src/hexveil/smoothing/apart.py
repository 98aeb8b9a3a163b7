"""The smallest ε at which half of a map's cells could be told from its mean, by prediction.

Let a cell's true average deviate from the map's mean with variance S, its noise have variance
v = 2 b², and its bias the typical size t. At r times the ε, planned as before, noise and bias are
about 1/r of that: clipping and weights are chosen to be about as large as the noise. With
q = S / (S + v/r²) the estimate is q of what the number deviates, so that it deviates with variance
q S, and half its interval is about z sqrt((1 - q) S + t²/r²). The cell is told apart where the
first is above the second:

    2 F(-z sqrt((1 - q) S + t²/r²) / sqrt(q S))

of all maps like this, F a t law of four degrees and variance one, as true averages have.
Averaged over cells that rises with r; r is where it is one half.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from hexveil.smoothing.posterior import outside

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_MOST = 2.0**20
_HALVINGS = 40


def away(n_cells: int) -> float:
    """Return half an interval, in standard deviations: z."""
    return -NormalDist().inv_cdf(outside(n_cells))


def apart(times: float, signal: Floats, scale: Floats, typical: Floats) -> float:
    """Return the predicted part of cells that can be told from the mean, at `times` the ε.

    Parameters
    ----------
    times : float
    signal : ndarray of float, shape (n_cells,)
        Variance of true averages.
    scale : ndarray of float, shape (n_cells,)
        Of the Laplace noise; 0 for constants, which are told from nothing.
    typical : ndarray of float, shape (n_cells,)
        Standard deviation of the bias.

    Examples
    --------
    >>> one = np.ones(2)
    >>> apart(1.0, one, one, 0 * one) < 0.05, apart(1e6, one, one, 0 * one) > 0.99
    (True, True)
    """
    from scipy.special import stdtr  # noqa: PLC0415  importing hexveil must stay light

    noise = 2.0 * (scale / times) ** 2
    part = signal / (signal + noise)
    half = away(scale.size) * np.sqrt((1.0 - part) * signal + (typical / times) ** 2)
    told = 2.0 * stdtr(4.0, -half * np.sqrt(2.0 / np.maximum(part * signal, 1e-300)))
    return float(np.where((scale > 0) & (signal > 0), told, 0.0).mean())


def half_apart(signal: Floats, scale: Floats, typical: Floats) -> float | None:
    """Return the factor of ε at which half of the cells are told apart, or None beyond a million.

    Parameters
    ----------
    signal, scale, typical : ndarray of float, shape (n_cells,)
        As for `apart`.
    """
    low, high = -math.log(_MOST), math.log(_MOST)
    if apart(math.exp(high), signal, scale, typical) < 0.5:
        return None
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        enough = apart(math.exp(middle), signal, scale, typical) >= 0.5
        low, high = (low, middle) if enough else (middle, high)
    return math.exp(high)
