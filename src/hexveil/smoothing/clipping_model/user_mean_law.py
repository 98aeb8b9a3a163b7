"""The law of user means in a cell: two-piece normal, censored at the bounds of the values.

Symbols: X a two-piece normal number of mode M with deviations s- below and s+ above it,
z = (x - M) / s, Φ and φ the normal law and its density, T the mean of X censored at the bounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hexveil.smoothing.clipping_model.bin_quantiles import invert_rows

if TYPE_CHECKING:
    from hexveil.base.arrays import Floats
    from hexveil.smoothing.clipping_model.cell_looks import CellDesign


WITHIN_SHARE = 0.85
"""Deviation of user means within a cell where it was not measured, as a part of the pooled one."""
SMALLEST_SPREAD = 1.0 / 256.0
"""Smallest deviation of user means, as a part of the span."""
SMALLEST_SAMPLE = 1e-4
"""Smallest factor 1 - Σp²: the law of a cell of one user would be a point."""
TABLE_STEPS, NEWTON_STEPS, LEAST_SLOPE = 96, 2, 0.05
"""Steps of the table in which modes of means are looked up, and of Newton's method after that;
slope below which it stays near the table."""


@dataclass(frozen=True)
class UserMeanSpread:
    """Released centre and deviations of user means.

    Attributes
    ----------
    centre : float
        Median of all user means, value units.
    below, above : float
        Standard deviations on either side, of normal laws.
    within : float or None
        Standard deviation of user means within a cell; None where it was not measured.
    """

    centre: float
    below: float
    above: float
    within: float | None

    def pooled(self, span: float) -> float:
        """Return the mean of both deviations."""
        return max((self.below + self.above) / 2.0, SMALLEST_SPREAD * span)

    def within_cells(self, bounds: tuple[float, float]) -> tuple[float, float]:
        """Return the deviations below and above within a cell, as asymmetric as the pooled ones."""
        span = bounds[1] - bounds[0]
        pooled = self.pooled(span)
        within = WITHIN_SHARE * pooled if self.within is None else self.within
        within = max(within, SMALLEST_SPREAD * span)
        # Neither side below a quarter of their mean: user means may be at the centre itself.
        below = min(max(self.below / pooled, 0.25), 1.75)
        return within * below, within * (2.0 - below)


@dataclass(frozen=True, eq=False)
class ClippedMoments:
    """Moments of clipped user means, for each mode of each cell.

    Attributes
    ----------
    mean, variance : ndarray of float, shape (n_cells, n_points)
    inside : ndarray of float, shape (n_cells, n_points)
        Probability that a user mean is not clipped: the slope of the mean in the mode.
    log_slope : ndarray of float, shape (n_cells, n_points)
        Slope of the mean in the logarithm of the deviations, for a law without skew.
    """

    mean: Floats
    variance: Floats
    inside: Floats
    log_slope: Floats


@dataclass(frozen=True, eq=False)
class UserMeanLaw:
    """The law of user means in some cells, two-piece normal and censored at the bounds.

    Attributes
    ----------
    below, above : ndarray of float, shape (n_cells, 1)
        s- and s+.
    bounds : pair of float
    """

    below: Floats
    above: Floats
    bounds: tuple[float, float]

    @classmethod
    def of(
        cls, design: CellDesign, spread: UserMeanSpread, bounds: tuple[float, float]
    ) -> UserMeanLaw:
        """Return the law around the mean of the cell's own users."""
        below, above = spread.within_cells(bounds)
        factor = np.sqrt(np.maximum(1.0 - design.share_squares, SMALLEST_SAMPLE))[:, None]
        return cls(below * factor, above * factor, bounds)

    def scaled(self, multiple: float) -> UserMeanLaw:
        """Return the law with other deviations."""
        return UserMeanLaw(self.below * multiple, self.above * multiple, self.bounds)

    @property
    def deviation(self) -> Floats:
        """Mean of both deviations, shape (n_cells, 1)."""
        return np.asarray((self.below + self.above) / 2.0)

    def cut(self, mode: Floats, x: Floats | float) -> tuple[Floats, Floats, Floats, Floats]:
        """Return E(x - X)+ and E((x - X)+)², P(X < x), and the derivative of the first in log s.

        Parameters
        ----------
        mode : ndarray of float, shape (n_cells, n_points)
        x : ndarray of float, shape (n_cells, 1), or float
        """
        from scipy.special import ndtr  # noqa: PLC0415  importing hexveil must stay light

        lower = x < mode
        sd = np.where(lower, self.below, self.above)
        share = sd / self.deviation
        z = (x - mode) / sd
        tail, density = ndtr(-np.abs(z)), np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
        # Moments of the part of the law beyond x, on its own side of the mode.
        beyond = share * sd * (density - np.abs(z) * tail)
        squares = share * sd * sd * ((1.0 + z * z) * tail - np.abs(z) * density)
        mean = mode + self._mean_above_mode
        # E(x - X)+ = (x - E X) + E(X - x)+, and alike for squares.
        whole = self._variance + (x - mean) ** 2
        first = np.where(lower, beyond, x - mean + beyond)
        second = np.where(lower, squares, whole - squares)
        below = np.where(lower, share * tail, 1.0 - share * tail)
        return first, second, below, share * sd * density

    @property
    def _mean_above_mode(self) -> Floats:
        return np.asarray(math.sqrt(2.0 / math.pi) * (self.above - self.below))

    @property
    def _variance(self) -> Floats:
        skewed = (1.0 - 2.0 / math.pi) * (self.above - self.below) ** 2
        return np.asarray(skewed + self.above * self.below)

    def mean(self, mode: Floats) -> Floats:
        """Return T of each mode, shape (n_cells, n_points)."""
        return self.clipped(mode, *self.bounds).mean

    def clipped(self, mode: Floats, low: Floats | float, high: Floats | float) -> ClippedMoments:
        """Return moments of user means clipped to a range, for each mode of each cell.

        Parameters
        ----------
        mode : ndarray of float, shape (n_cells, n_points)
        low, high : ndarray of float, shape (n_cells, 1), or float
        """
        first_low, second_low, below_low, log_low = self.cut(mode, low)
        first_high, second_high, below_high, log_high = self.cut(mode, high)
        mean = high - first_high + first_low
        # (high - clipped)² = (high - X)+² - (low - X)+² - 2 (high - low) (low - X)+
        square = second_high - second_low - 2.0 * (high - low) * first_low
        variance = np.maximum(square - (high - mean) ** 2, 0.0)
        return ClippedMoments(mean, variance, below_high - below_low, log_low - log_high)

    def modes(self, means: Floats) -> Floats:
        """Return the modes that have these means, shape (n_cells, n_points)."""
        low, high = self.bounds
        table = self.edge_modes(TABLE_STEPS)
        reached = np.maximum.accumulate(self.mean(table), axis=1)
        span = reached[:, -1:] - reached[:, :1]
        modes = invert_rows(table, np.diff(reached, axis=1), (means - reached[:, :1]) / span)
        # Steps of Newton's method: the table is linear between its points.
        for _ in range(NEWTON_STEPS):
            reached_there = self.clipped(modes, low, high)
            slope = np.maximum(reached_there.inside, LEAST_SLOPE)
            modes = modes + (means - reached_there.mean) / slope
        return modes

    def edge_modes(self, bins: int) -> Floats:
        """Return evenly spaced modes with means T from one bound to the other."""
        low, high = self.bounds
        step = np.linspace(0.0, 1.0, bins + 1)
        first, last = low - 5.0 * self.above, high + 5.0 * self.below
        return np.asarray(first + (last - first) * step)
