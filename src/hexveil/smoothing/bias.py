"""What clipping and weights hide from the noisy numbers, as the intervals allow for it.

Smoothing sees noise, not bias: where users' averages were projected to an interval and weighed, a
smooth map can be smoothly wrong. So the intervals are made wider by what a prior says:

- Each end of a model's interval for the projected average is moved to the average whose projection
  it is, if users' averages within a cell have a Laplace law of the stated spread (`Cut`). Near an
  end of the interval that adds much, in its middle nothing.
- Users' averages over the whole map may be skewed, which moves all cells one way: `skewed` says by
  how much for an exponential law, between whose quantiles the interval lies.
- What weights cost is a prior's too, and given by the caller.

The last two are standard deviations, and are put together with the half widths as squares.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_BEYOND = 3.0
"""Spreads beyond an end of the interval at most, where a cell's average is looked for; what a noisy
number says beyond that is brought in."""
_POINTS = 400


@dataclass(frozen=True)
class Cut:
    """An interval that users' averages were projected to.

    Attributes
    ----------
    lower, upper : float
        Its ends, in value units; infinite where nothing can lie beyond.
    spread : float
        Standard deviation of users' averages within a cell.
    """

    lower: float
    upper: float
    spread: float

    def projected(self, average: Floats) -> Floats:
        """Return a cell's expected average after projection, from the one before.

        Examples
        --------
        >>> Cut(0.0, math.inf, 1.0).projected(np.array([0.0, 20.0])).round(3)
        array([ 0.354, 20.   ])
        """
        above = _beyond(self.upper - average, self.spread)
        return np.asarray(average - above + _beyond(average - self.lower, self.spread))

    def before(self, projected: Floats) -> Floats:
        """Return the average before projection of which this is the expected one after it."""
        reach = _BEYOND * self.spread
        low = self.lower - reach if math.isfinite(self.lower) else float(projected.min())
        high = self.upper + reach if math.isfinite(self.upper) else float(projected.max())
        if not low < high:
            return projected
        average = np.linspace(low, high, _POINTS)
        return np.asarray(np.interp(projected, self.projected(average), average))


def skewed(quantile: float, stretch: float) -> float:
    """Return what projection moves an exponential law's mean by, as a part of the interval's width.

    Parameters
    ----------
    quantile : float
        Share of the law below the interval, and above it, before it is stretched.
    stretch : float
        By how much it is made wider, around its middle.

    Examples
    --------
    >>> round(skewed(0.1, 1.0), 3), skewed(0.2, 2.5) < 0.03
    (0.043, True)
    """
    low, high = -math.log1p(-quantile), -math.log(quantile)
    middle, half = (low + high) / 2.0, (high - low) / 2.0 * stretch
    low, high = max(middle - half, 0.0), middle + half
    return abs(math.exp(-high) - (low - 1.0 + math.exp(-low))) / (2.0 * half)


def _beyond(room: Floats, spread: float) -> Floats:
    """Return the expected excess of a Laplace variate over `room`."""
    scale = max(spread, 1e-300) / math.sqrt(2.0)
    tail = scale / 2.0 * np.exp(-np.minimum(np.abs(room) / scale, 700.0))
    return np.asarray(tail + np.maximum(-room, 0.0))
