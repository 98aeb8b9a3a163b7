"""OPTIMAL CLIPPING: the projection of user means with the least worst-case error.

Source: WC Theorem III.1; error as corrected in ERRATA 5.
Neighbours: one user's values all change within the bounds; users and counts are public.
Sensitivity: T/N with T the ⌈2/ε⌉-th largest U m, 0 if there are fewer users.
Loss: ε for a user with U m >= T, ε U m/T for the others; 0 where T = 0 (no value is read).
Integers, measuring and decoding: `clipped_user_sums` with t = T/U.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from hexveil.accounting.clipping_rank import clipping_rank
from hexveil.mechanisms.single_cell.linear.clipped_user_sums import ClippedMeanMechanism


@dataclass(frozen=True, repr=False)
class OptimalClipping(ClippedMeanMechanism):
    """The mean of user means projected to U/2 ± T/(2m), plus Laplace noise of scale T / (N ε).

    Examples
    --------
    >>> plan = OptimalClipping().plan([4, 2, 1], bounds=(0, 8), epsilon=1)
    >>> plan.sensitivity == 16 / 7, plan.worst_case_bias == 8 / 7
    (True, True)
    """

    def rank(self, epsilon: Fraction) -> int:
        """Return ⌈2/ε⌉ (WC Theorem III.1)."""
        return clipping_rank(epsilon)

    def epsilon_range(self, rank: int) -> tuple[Fraction, Fraction | None] | None:
        """Return [2/k, 2/(k-1)) for rank k."""
        return Fraction(2, rank), Fraction(2, rank - 1) if rank > 1 else None
