"""What the mechanisms with one public threshold per cell share.

Such a mechanism projects the mean of a user with m samples, t of them kept, to the middle
t/m of the bounds, averages over all samples and adds Laplace noise: the estimate is
lo + (1/N) Σ_l clip(Σ_j (x_lj - lo), U (m - t)+/2, U (m + min(m, t))/2) + Lap(U t / (N ε)).

Neighbours: one user's values all change within the bounds; users and counts are public.
Sensitivity: U min(m, t) / N for a user of m samples, the width of its projection.
Loss: ε for a user with at least t samples, ε m/t for the others.
Worst-case bias: U Σ max(m - t, 0) / (2 N) (WC Lemma III.1, exact since the intervals are
symmetric about the middle, ERRATA 14).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from hexveil.mechanisms.single_cell_plan import LaplacePlan, cell_facts

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import ArrayLike, NDArray

    from hexveil.base.rational import Number


@runtime_checkable
class ThresholdMechanism(Protocol):
    """A mechanism whose threshold is one of the cell's counts, chosen by rank.

    A release keeps of each user at most as many samples as the `rank`-th largest user has; a
    cell with fewer users than that publishes the middle of its bounds, without noise.
    """

    @property
    def name(self) -> str:
        """As constructed, for tables."""

    def rank(self, epsilon: Fraction) -> int:
        """Return which largest count is the threshold for a cell loss of `epsilon`."""

    def epsilon_range(self, rank: int) -> tuple[Fraction, Fraction | None] | None:
        """Return the cell losses [low, high) with this rank; None if there are none."""


@dataclass(frozen=True, eq=False)
class MeanPlan(LaplacePlan):
    """The public plan of one cell's mean; every figure in value units.

    Attributes
    ----------
    kept : int
        t: samples kept of a user; 0 publishes the middle of the bounds.
    """

    kept: int

    @property
    def sensitivity(self) -> float:
        """Largest change of the noiseless estimate when one user's values change."""
        return self.span * self.kept / self.total

    @property
    def worst_case_bias(self) -> float:
        """Largest |expected estimate - true mean| over all values."""
        cut = np.maximum(self.counts - self.kept, 0).sum()
        return self.span * float(cut) / (2.0 * self.total)

    def noiseless(self, means: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the mean of user means, each projected to the middle of the bounds."""
        half = self.span * np.maximum(self.counts - self.kept, 0) / (2.0 * self.counts)
        inside = np.clip(means, self.lower + half, self.upper - half)
        return np.asarray(inside @ self.counts.astype(np.float64) / self.total, dtype=np.float64)


def plan_cell(
    mechanism: ThresholdMechanism, counts: ArrayLike, bounds: object, epsilon: Number
) -> MeanPlan:
    """Return the plan of one cell by a threshold mechanism; raise InputError on bad input."""
    cell = cell_facts(counts, bounds, epsilon)
    rank = mechanism.rank(cell.epsilon)
    kept = int(np.sort(cell.counts)[-rank]) if rank <= cell.counts.size else 0
    return MeanPlan(cell.counts, cell.lower, cell.upper, cell.epsilon, kept)
