"""BASELINE: the plain mean, with noise for the user of most samples.

Source: COMP eq. (5); RW and IOT's BASELINE.
Neighbours: one user's values all change within the bounds; users and counts are public.
Sensitivity: U m*/N. Loss: ε for the largest user, ε m/m* for a user of m samples. No bias.
Integers, measuring and decoding: `clipped_user_sums` with t = m*, which clips nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from hexveil.mechanisms.single_cell.linear.clipped_user_sums import ClippedMeanMechanism


@dataclass(frozen=True, repr=False)
class Baseline(ClippedMeanMechanism):
    """The plain mean plus Laplace noise of scale U m* / (N ε).

    Examples
    --------
    >>> Baseline().plan([3, 1], bounds=(0, 8), epsilon=2).noise_scale
    3.0
    """

    def rank(self, epsilon: Fraction) -> int:  # noqa: ARG002  part of the contract
        """Return 1: the largest count is the cap, so nothing is clipped."""
        return 1

    def epsilon_range(self, rank: int) -> tuple[Fraction, Fraction | None] | None:
        """Return every loss for rank 1, none for another."""
        return (Fraction(0), None) if rank == 1 else None
