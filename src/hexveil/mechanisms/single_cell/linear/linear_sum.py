"""Sum of fixed, clipped contributions: the one stage of mechanisms without private choices.

User l with m records, their sum s in quanta, 0 <= s <= S m, and the whole weight W contributes

    c = clip(floor(W s/m), low, high),    0 <= low <= high <= W S whole and public.

Neighbours: one user's values all change within the bounds; users and counts are public.
Sensitivity: floor(W s/m) is monotone in s, 0 at s = 0 and W S at s = S m. So c takes low and high
and nothing beyond: a user moves the sum by high - low, exactly.
Loss: (high - low)/R for discrete Laplace noise of scale R = max (high - low)/ε, rounded up; ε for
the most exposed user.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from hexveil.base.rational import round_up
from hexveil.mechanisms.contract import DrawnRow, LaplaceNoise, Separate, Values
from hexveil.mechanisms.single_cell.cell_allocation import check_int64

if TYPE_CHECKING:
    from hexveil.base.arrays import Floats, Ints
    from hexveil.mechanisms.contract import NoiseRequest, Outputs, PrivateSums, SensitivityReport

PRODUCT_ROOM = 2**62


def weighted_share(weight: Ints, total: Ints, counts: Ints, span: int) -> Ints:
    """Return floor(weight total/counts) for 0 <= total <= span counts; monotone in total. PRIVATE.

    One division where every product fits 62 bits, a public fact; else whole part and remainder.
    """
    if int(weight.max()) * int(counts.max()) * span < PRODUCT_ROOM:
        return np.asarray(total * weight // counts)
    # weight remainder < weight counts, which fits; weight total itself might not.
    quotient, remainder = np.divmod(total, counts)
    return np.asarray(weight * quotient + weight * remainder // counts)


@dataclass(frozen=True, eq=False)
class LinearSum(DrawnRow):
    """The stage of the module's head.

    Attributes
    ----------
    name : str
    counts, weight, low, high : ndarray of int64, shape (n_users,)
        m, W, and the ends of the contributions. Public.
    span : int
        S.
    epsilon : Fraction
        Loss of the most exposed user.
    """

    name: str
    counts: Ints
    weight: Ints
    low: Ints
    high: Ints
    span: int
    epsilon: Fraction

    def __post_init__(self) -> None:
        check_int64(int(self.high.sum()), self.scale)

    @property
    def entries(self) -> int:
        """One number."""
        return 1

    @property
    def user_sensitivity(self) -> Ints:
        """Largest change of the sum by each user, exact."""
        return np.asarray(self.high - self.low)

    @cached_property
    def scale(self) -> float:
        """R."""
        return round_up(Fraction(int(self.user_sensitivity.max())) / self.epsilon)

    def losses(self) -> Floats:
        """Return each user's loss, rounded up."""
        moves = Separate.of_one_entry(self.user_sensitivity)
        return moves.loss_upper_bound(LaplaceNoise(np.array([self.scale])))

    def noise(self, earlier: Outputs) -> tuple[NoiseRequest, ...]:  # noqa: ARG002  see Stage
        """Return the noise of the sum."""
        return (LaplaceNoise(np.array([self.scale])),)

    def sensitivity(self, earlier: Outputs) -> tuple[SensitivityReport, ...]:  # noqa: ARG002
        """Return by how much each user moves the sum."""
        return (Separate.of_one_entry(self.user_sensitivity),)

    def measure(self, sums: PrivateSums, earlier: Outputs) -> tuple[Values, ...]:  # noqa: ARG002
        """Return the sum. PRIVATE."""
        # Weights that are multiples of the counts, as of plain means, need no division of sums.
        multiple, remainder = np.divmod(self.weight, self.counts)
        if remainder.any():
            shares = weighted_share(self.weight, sums.total, self.counts, self.span)
        else:
            shares = multiple * sums.total
        # Clipping after rounding keeps both ends whole, so that the sensitivity is exact.
        contributions = np.clip(shares, self.low, self.high)
        return (Values(contributions.sum(axis=1, keepdims=True)),)
