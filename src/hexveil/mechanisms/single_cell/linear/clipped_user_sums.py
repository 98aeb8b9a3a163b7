"""Mean of user sums clipped to the middle of the bounds: BASELINE and OPTIMAL CLIPPING.

With the public contribution cap t, user l with m records and the sum s contributes, in half quanta,

    clip(2 s, S m - w, S m + w),    w = S min(m, t),

and the estimate is (Σ + noise)/(2 N): WC Theorem III.1's projection of the user's mean to the
middle t/m of the bounds. With t = 0 nothing is read and the middle of the bounds is published.

Neighbours: one user's values all change within the bounds; users and counts are public.
Sensitivity: 2 w, exactly (`linear_sum`); U min(m, t)/N of the estimate.
Loss: ε for a user with at least t samples, ε m/t for the others; 0 with t = 0.
Worst-case bias: U Σ max(m - t, 0)/(2 N) (WC Lemma III.1, exact since the intervals are symmetric
about the middle, ERRATA 14).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from hexveil.mechanisms.contract import EstimateGrid, ProvenError
from hexveil.mechanisms.single_cell.cell_allocation import LN20, CellAllocation
from hexveil.mechanisms.single_cell.cell_mechanism import CellMechanism
from hexveil.mechanisms.single_cell.linear.linear_sum import LinearSum

if TYPE_CHECKING:
    from fractions import Fraction

    from hexveil.base.arrays import Floats
    from hexveil.mechanisms.contract import Outputs
    from hexveil.mechanisms.single_cell.cell_allocation import CellProblem


@runtime_checkable
class ThresholdMechanism(Protocol):
    """A mechanism with a contribution cap that is one of the cell's counts, chosen by rank.

    A release keeps of each user at most as many samples as the `rank`-th largest user has; a
    cell with fewer users than that publishes the middle of its bounds, without noise.
    """

    @property
    def name(self) -> str:
        """As constructed, for tables."""

    def rank(self, epsilon: Fraction) -> int:
        """Return which largest count is the cap for a cell loss of `epsilon`."""

    def epsilon_range(self, rank: int) -> tuple[Fraction, Fraction | None] | None:
        """Return the cell losses [low, high) with this rank; None if there are none."""


@dataclass(frozen=True, eq=False)
class ClippedUserSums(CellAllocation):
    """The allocation of the module's head.

    Attributes
    ----------
    contribution_cap : int
        t: records kept of a user; 0 publishes the middle of the bounds.
    """

    contribution_cap: int

    def estimate(self, outputs: Outputs) -> Floats:
        """Return the estimates: see `CellAllocation.estimate`."""
        if not self.stages:
            return np.array([self.cell.span / 2.0])
        return np.asarray(outputs["mean"][:, 0] / (2 * self.cell.total))

    def sensitivity(self, width: float) -> float:
        """Return U t/N."""
        return width * self.contribution_cap / self.cell.total

    def error(self, width: float) -> ProvenError:
        """Return the proven error: see `CellAllocation.error`."""
        excess = float(np.maximum(self.cell.counts - self.contribution_cap, 0).sum())
        bias = width * excess / (2.0 * self.cell.total)
        scale = self.sensitivity(width) / float(self.epsilon)
        return ProvenError(np.array([scale]), np.array([bias]), np.array([bias + scale * LN20]))

    def grid(self) -> EstimateGrid:
        """Return multiples of half a quantum over N, or the constant."""
        if not self.stages:
            return EstimateGrid(np.array([self.cell.span / 2.0]), np.zeros(1))
        return EstimateGrid(np.zeros(1), np.array([0.5 / self.cell.total]))


class ClippedMeanMechanism(CellMechanism):
    """Base of mechanisms that choose a contribution cap by rank: see `ThresholdMechanism`."""

    @abstractmethod
    def rank(self, epsilon: Fraction) -> int:
        """Return which largest count is the cap for a cell loss of `epsilon`."""

    def allocate_cell(self, cell: CellProblem, epsilon: Fraction) -> ClippedUserSums:
        """Return the allocation of one cell: see `CellMechanism.allocate_cell`."""
        rank = self.rank(epsilon)
        if rank > cell.counts.size:
            # Too few users for the rank: no stage, so that no value is read.
            return ClippedUserSums(cell, epsilon, (), 0)
        cap = int(np.sort(cell.counts)[-rank])
        # In half quanta, so that the middle of the bounds is whole.
        half_width = cell.span * np.minimum(cell.counts, cap)
        middle = cell.span * cell.counts
        ends = middle - half_width, middle + half_width
        stage = LinearSum("mean", cell.counts, 2 * cell.counts, *ends, cell.span, epsilon)
        return ClippedUserSums(cell, epsilon, (stage,), cap)
