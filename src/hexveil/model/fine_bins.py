"""Public bins of whole quanta in which records are counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hexveil.base.read_only import ReadOnlyArrays

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hexveil.base.arrays import Floats, Ints


@dataclass(frozen=True, eq=False)
class FineBins(ReadOnlyArrays):
    """Bins (a, b] that divide the span of the bounds.

    Attributes
    ----------
    edges : ndarray of int64, shape (n_bins,)
        Rising. Bin j holds the quanta k with edges[j - 1] < k <= edges[j]; the first begins at 0,
        the last ends at the span.
    """

    edges: Ints

    @property
    def n_bins(self) -> int:
        """Number of bins."""
        return int(self.edges.size)

    @property
    def starts(self) -> Floats:
        """Lower ends of the bins as real numbers: half a quantum above the edge before."""
        return np.concatenate([[0.0], self.edges[:-1] + 0.5])

    @property
    def ends(self) -> Floats:
        """Upper ends of the bins as real numbers; the last is the span."""
        return np.concatenate([self.edges[:-1] + 0.5, [float(self.edges[-1])]])

    def above(self, edge: int) -> NDArray[np.bool_]:
        """Return which bins lie above an edge of theirs."""
        return np.asarray(self.edges > edge)

    def identity(self) -> str:
        """Return the edges as text."""
        return ",".join(map(str, self.edges.tolist()))
