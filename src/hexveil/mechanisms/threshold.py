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

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from hexveil.errors import InputError
from hexveil.exact import Number, bounds_pair, positive
from hexveil.theory.sensitivity import check_counts

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import ArrayLike, NDArray

LN20 = math.log(20.0)


class NoiseSource(Protocol):
    """Where a study takes its noise from; a real release never takes one."""

    def laplace(self, scale: float) -> float:
        """Return one draw of the Laplace distribution of the given scale."""


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
class MeanPlan:
    """The public plan of one cell's mean; every figure in value units.

    Attributes
    ----------
    counts : ndarray of int, shape (n_users,)
    lower, upper : float
    kept : int
        t: samples kept of a user; 0 publishes the middle of the bounds.
    epsilon : Fraction
    """

    counts: NDArray[np.int64]
    lower: float
    upper: float
    kept: int
    epsilon: Fraction

    @property
    def span(self) -> float:
        """Width of the bounds."""
        return self.upper - self.lower

    @property
    def sensitivity(self) -> float:
        """Largest change of the noiseless estimate when one user's values change."""
        return self.span * self.kept / float(self.counts.sum())

    @property
    def noise_scale(self) -> float:
        """Laplace scale, which is also the expected |noise|."""
        return self.sensitivity / float(self.epsilon)

    @property
    def worst_case_bias(self) -> float:
        """Largest |expected estimate - true mean| over all values."""
        cut = np.maximum(self.counts - self.kept, 0).sum()
        return self.span * float(cut) / (2.0 * float(self.counts.sum()))

    @property
    def worst_case_error(self) -> float:
        """Planning error: worst-case bias plus expected |noise|."""
        return self.worst_case_bias + self.noise_scale

    @property
    def bound95(self) -> float:
        """Error not exceeded with probability 95 percent, whatever the values."""
        return self.worst_case_bias + self.noise_scale * LN20

    def release(self, user_means: ArrayLike, noise: NoiseSource) -> float:
        """Return one estimate, for study: means and noise are handed in.

        Parameters
        ----------
        user_means : array_like of float, shape (n_users,)
            Mean of each user's samples, in the order of the counts.
        noise : NoiseSource
            Simulated noise.
        """
        means = np.asarray(user_means, dtype=np.float64)
        if means.shape != self.counts.shape:
            raise InputError(f"one mean per user is needed ({self.counts.size}).")
        half = self.span * np.maximum(self.counts - self.kept, 0) / (2.0 * self.counts)
        inside = np.clip(means, self.lower + half, self.upper - half)
        estimate = float((inside * self.counts).sum() / self.counts.sum())
        return estimate + (noise.laplace(self.noise_scale) if self.kept else 0.0)


def plan_cell(
    mechanism: ThresholdMechanism, counts: ArrayLike, bounds: object, epsilon: Number
) -> MeanPlan:
    """Return the plan of one cell by a threshold mechanism; raise InputError on bad input."""
    m, loss = check_counts(counts), positive(epsilon, "epsilon")
    lower, upper = bounds_pair(bounds)
    rank = mechanism.rank(loss)
    kept = int(np.sort(m)[-rank]) if rank <= m.size else 0
    return MeanPlan(m, float(lower), float(upper), kept, loss)
