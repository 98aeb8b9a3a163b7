"""Widening of credible intervals for the bias of clipping and of user weights.

Smoothing sees noise, not bias: where user averages were clipped to a range and weighted, a smooth
map can be smoothly wrong. So a prior makes the intervals wider:

- Each end of a model's interval for the clipped average is moved to the average whose clipping it
  is, if user averages within a cell have a Laplace distribution of the stated standard deviation
  (`ClippingRange`). Near an end of the range that adds much, in its middle nothing.
- User averages over the whole map may be skewed, which moves all cells one way: `skewness_bias` is
  the shift for an exponential distribution, between whose quantiles the range lies.
- The bias of weights is a prior's too, and given by the caller.

The last two are standard deviations, added to the half widths as squares.

Predicted ε at which half of a map's cells are distinguishable from its mean.

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

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from hexveil.base.arrays import Floats
from hexveil.smoothing.posterior import tail_probability

_MAX_EXCESS_SD = 3.0
"""Largest distance of a cell's average beyond an end of the range, in standard deviations: noisy
numbers beyond that are brought in."""
_GRID_POINTS = 400
"""Averages at which clipping is inverted."""


@dataclass(frozen=True)
class ClippingRange:
    """A range that user averages were clipped to.

    Attributes
    ----------
    lower, upper : float
        Ends of the range, in value units; infinite where nothing can lie beyond.
    within_cell_sd : float
        Standard deviation of user averages within a cell, in value units.
    """

    lower: float
    upper: float
    within_cell_sd: float

    def expected_clipped(self, average: Floats) -> Floats:
        """Return a cell's expected average after clipping, from the one before.

        Examples
        --------
        >>> ClippingRange(0.0, math.inf, 1.0).expected_clipped(np.array([0.0, 20.0])).round(3)
        array([ 0.354, 20.   ])
        """
        excess_above = _expected_excess(self.upper - average, self.within_cell_sd)
        return np.asarray(
            average - excess_above + _expected_excess(average - self.lower, self.within_cell_sd)
        )

    def invert(self, clipped: Floats) -> Floats:
        """Return the average before clipping, from the expected one after it."""
        max_excess = _MAX_EXCESS_SD * self.within_cell_sd
        low = self.lower - max_excess if math.isfinite(self.lower) else float(clipped.min())
        high = self.upper + max_excess if math.isfinite(self.upper) else float(clipped.max())
        # Both ends infinite, or all numbers equal: nothing to invert.
        if not low < high:
            return clipped
        average = np.linspace(low, high, _GRID_POINTS)
        # Clipping is monotone in the average, so interpolation inverts it.
        return np.asarray(np.interp(clipped, self.expected_clipped(average), average))


def skewness_bias(quantile: float, widening: float) -> float:
    """Return the shift of an exponential mean by clipping, as a share of the range's width.

    Parameters
    ----------
    quantile : float
        Share of the distribution below the range, and above it, before the range is widened.
    widening : float
        Factor by which the range is widened around its middle.

    Examples
    --------
    >>> round(skewness_bias(0.1, 1.0), 3), skewness_bias(0.2, 2.5) < 0.03
    (0.043, True)
    """
    low, high = -math.log1p(-quantile), -math.log(quantile)
    middle, half_width = (low + high) / 2.0, (high - low) / 2.0 * widening
    low, high = max(middle - half_width, 0.0), middle + half_width
    return abs(math.exp(-high) - (low - 1.0 + math.exp(-low))) / (2.0 * half_width)


def _expected_excess(margin: Floats, within_cell_sd: float) -> Floats:
    """Return the expected excess of a Laplace variate over a margin."""
    scale = max(within_cell_sd, 1e-300) / math.sqrt(2.0)
    # Clamped exponent: exp(-700) is the smallest that a double holds well.
    tail = scale / 2.0 * np.exp(-np.minimum(np.abs(margin) / scale, 700.0))
    return np.asarray(tail + np.maximum(-margin, 0.0))


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
