"""Scores of fine bins: indicators of thresholds, and ranks.

The mean of an indicator over a cell's records is the share of records beyond the threshold.

The rank of a record is the part of the points asked for that lie below it: the quantiles of the
pooled shape at the levels asked for, and the thresholds. A cell's mean rank is the mean of its
shares above these points: it says how far records lie above those of the whole map where statistics
are read off. The pooled rank r(x) = P(X <= x) (the ridit; Bross, 1958) counts as half a point
beside them, or else a mean rank would say nothing of values between two points.

Scores are whole numbers from 0 to `GRAIN`: values on the public lattice from 0 to 1. Public.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hexveil.base.read_only import ReadOnlyArrays

if TYPE_CHECKING:
    from hexveil.base.arrays import Bools, Floats, Ints
    from hexveil.mechanisms.contract import Outputs
    from hexveil.mechanisms.distribution.combined_stages import Component
    from hexveil.mechanisms.distribution.pooled_shape import PooledShape


GRAIN = 1024
"""Score of 1."""
ALL_LEVELS = 0.5
"""Weight of the pooled rank, where each point has 1: as a histogram has it alone."""


@dataclass(frozen=True, eq=False)
class IndicatorScores(ReadOnlyArrays):
    """Scores of 1 for counted bins, 0 for others.

    Attributes
    ----------
    counted : ndarray of bool, shape (n_fine_bins,)
    """

    counted: Bools

    def scores(self, earlier: Outputs) -> Ints:  # noqa: ARG002  see BinScores.scores
        """Return the indicators."""
        return np.asarray(GRAIN * self.counted.astype(np.int64))


@dataclass(frozen=True, eq=False)
class AskedPoints(ReadOnlyArrays):
    """Points of a distribution that statistics are read off, perhaps none.

    Attributes
    ----------
    levels : ndarray of float, shape (n_levels,)
        Levels of the quantiles, between 0 and 1.
    above : ndarray of bool, shape (n_thresholds, n_fine_bins)
        Bins above each threshold.
    """

    levels: Floats
    above: Bools

    def ranks(self, shares: Floats) -> Floats:
        """Return the part of the points that lie below each bin: rising, from 0 to 1.

        A quantile within a bin lies below that part of the bin's records that is above it.

        Examples
        --------
        >>> points = AskedPoints(np.array([0.6]), np.array([[False, True, True]]))
        >>> points.ranks(np.array([0.5, 0.25, 0.25])).round(3).tolist()
        [0.05, 0.765, 0.975]
        """
        quantiles = (np.cumsum(shares) - self.levels[:, None]) / shares
        points = np.vstack([np.clip(quantiles, 0.0, 1.0), self.above])
        total = ALL_LEVELS * pooled_ranks(shares) + points.sum(axis=0)
        return np.asarray(total / (ALL_LEVELS + len(points)))


@dataclass(frozen=True, eq=False)
class PooledRankScores:
    """Ranks of fine bins among the points asked for, under the released shape.

    Attributes
    ----------
    shape : Component
        The component that releases the shape.
    points : AskedPoints
    """

    shape: Component
    points: AskedPoints

    def scores(self, earlier: Outputs) -> Ints:
        """Return the ranks, rounded."""
        return np.rint(GRAIN * self.points.ranks(self.shares(earlier))).astype(np.int64)

    def shares(self, earlier: Outputs) -> Floats:
        """Return the released shares of fine bins."""
        plan: PooledShape = self.shape.plan  # type: ignore[assignment]
        return plan.shares(self.shape.outputs(earlier))


def pooled_ranks(shares: Floats) -> Floats:
    """Return the share of records below the middle of each bin, from 0 to 1.

    Examples
    --------
    >>> pooled_ranks(np.array([0.5, 0.25, 0.25])).tolist()
    [0.25, 0.625, 0.875]
    """
    return np.asarray(np.cumsum(shares) - shares / 2.0)
