"""Scores of fine bins: indicators of thresholds, and pooled ranks.

The mean of an indicator over a cell's records is the share of records beyond the threshold. The
mean of the pooled rank r(x) = P(X <= x) under the pooled shape (the ridit; Bross, 1958) says how
far a cell's records lie above or below those of the whole map, on a scale from 0 to 1.

Scores are whole numbers from 0 to `GRAIN`: values on the public lattice from 0 to 1. Public.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hexveil.base.read_only import ReadOnlyArrays

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hexveil.mechanisms.contract import Floats, Ints, Outputs
    from hexveil.mechanisms.distribution.combined_stages import Component
    from hexveil.mechanisms.distribution.pooled_shape import PooledShape

    Bools = NDArray[np.bool_]

GRAIN = 1024
"""Score of 1."""


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
class PooledRankScores:
    """Pooled ranks of fine bins under the released shape.

    Attributes
    ----------
    shape : Component
        The component that releases the shape.
    """

    shape: Component

    def scores(self, earlier: Outputs) -> Ints:
        """Return the pooled ranks, rounded."""
        return np.rint(GRAIN * pooled_ranks(self.shares(earlier))).astype(np.int64)

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
