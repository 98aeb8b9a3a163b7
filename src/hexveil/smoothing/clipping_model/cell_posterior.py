"""Posterior of the mean of each cell: quantiles, intervals and expected errors.

Published numbers are rounded to a fixed step: they are the same on every processor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hexveil.base.read_only import ReadOnlyArrays
from hexveil.smoothing.clipping_model.bin_quantiles import invert_rows

if TYPE_CHECKING:
    from hexveil.base.arrays import Floats


ROUNDING = 2.0**-36
"""Step of published numbers, as a part of the span."""
END_LEVEL, END_RATIOS = 0.01, (0.2, 0.45)
"""How near to a bound the quantile of this level must be for an interval to reach it."""


@dataclass(frozen=True, eq=False)
class CellPosterior(ReadOnlyArrays):
    """Posterior of the mean of each cell, on a grid.

    Attributes
    ----------
    edges : ndarray of float, shape (n_cells, n_bins + 1)
        Edges of bins, from one bound to the other, value units.
    probability : ndarray of float, shape (n_cells, n_bins)
    bounds : pair of float
    """

    edges: Floats
    probability: Floats
    bounds: tuple[float, float]

    @property
    def grid(self) -> Floats:
        """Middles of the bins, shape (n_cells, n_bins)."""
        return np.asarray((self.edges[:, 1:] + self.edges[:, :-1]) / 2.0)

    def quantile(self, level: float | Floats) -> Floats:
        """Return a quantile of each cell, shape (n_cells,), value units.

        Parameters
        ----------
        level : float or ndarray of float, shape (n_cells,)
            Between 0 and 1.
        """
        levels = np.broadcast_to(np.asarray(level, dtype=np.float64), self.edges.shape[:1])
        return self._rounded(invert_rows(self.edges, self.probability, levels[:, None])[:, 0])

    def median(self) -> Floats:
        """Return the posterior median of each cell, shape (n_cells,)."""
        return self.quantile(0.5)

    def interval(self, level: float) -> tuple[Floats, Floats]:
        """Return an interval of each cell that has the true mean at this probability.

        Both tails have the same probability, unless the posterior is dense at a bound of the
        values: then the interval reaches that bound, since the true mean may be the bound itself.

        Parameters
        ----------
        level : float
            Between 0 and 1.
        """
        tail = (1.0 - level) / 2.0
        bottom, top = self.bounds
        middle = self.median()
        below = _tail_factor(middle - bottom, self.quantile(END_LEVEL) - bottom)
        above = _tail_factor(top - middle, top - self.quantile(1.0 - END_LEVEL))
        return self.quantile(tail * below), self.quantile(1.0 - tail * above)

    def mean_abs_error(self) -> Floats:
        """Return the expected distance of the mean from the median, shape (n_cells,)."""
        distance = np.abs(self.grid - self.median()[:, None])
        unit = ROUNDING * (self.bounds[1] - self.bounds[0])
        expected = np.sum(self.probability * distance, axis=1)
        return np.asarray(np.rint(expected / unit) * unit)

    def _rounded(self, values: Floats) -> Floats:
        low, high = self.bounds
        unit = ROUNDING * (high - low)
        return np.minimum(low + np.rint((values - low) / unit) * unit, high)


def _tail_factor(median: Floats, end_quantile: Floats) -> Floats:
    """Return the factor of a tail's probability: 0 where the posterior is dense at the bound.

    A posterior that is flat or falling from the bound on has at least END_LEVEL of its mass within
    2 END_LEVEL of the way to the median.
    """
    low, high = END_RATIOS
    ratio = 2.0 * END_LEVEL * median / np.maximum(end_quantile, 1e-300)
    return np.asarray(np.clip((high - ratio) / (high - low), 0.0, 1.0))
