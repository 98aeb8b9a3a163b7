"""AKMV: user sums clipped to [0, T], T an extreme of them found privately.

Source: Amin, Kulesza, Munoz and Vassilvitskii (2019) as adapted in WC section IV-A; the rank is
⌈1/ε''⌉ (ERRATA 14). Sums s count from the lower bound: quanta from 0 to S m.
Choice: T from the public points floor(S m* j/C), with L - r sums wanted at or below it, L the users
and r the rank. T = 0 is widened to one quantum. The estimate is (Σ min(s, T) + noise)/N.

Neighbours: one user's values all change within the bounds; users and counts are public.
Sensitivity: a user moves one sum, so every score by 1 (`private_quantile`), and the clipped sum by
min(T, S m), exactly.
Loss: ε' for the choice and ε'' for the noise of scale T/ε'', whatever T; ε in all by composition.
The sums are clipped from above only, so the estimate leans to the lower bound; its worst-case bias
depends on T, which is random, and has no closed form.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hexveil.base.arrays import Ints
from hexveil.base.rational import Number, to_fraction
from hexveil.mechanisms.contract import Outputs
from hexveil.mechanisms.private_quantile import (
    CANDIDATES,
    EvenPoints,
    PrivateQuantile,
    RankCost,
    check_candidates,
    check_split,
    selection_scale,
)
from hexveil.mechanisms.single_cell.cell_allocation import CellProblem
from hexveil.mechanisms.single_cell.cell_mechanism import CellMechanism
from hexveil.mechanisms.single_cell.private_range.clipped_range_mean import (
    ClippedRangeMean,
    RangeSum,
)
from hexveil.mechanisms.single_cell.pseudo_user_means import UserSums


@dataclass(frozen=True)
class RangeUpToPoint:
    """The range from 0 to the point chosen, which is at least one quantum."""

    points: EvenPoints

    def ends(self, earlier: Outputs) -> tuple[Ints, Ints]:
        """Return both ends: see `ClippingRange.ends`."""
        # Nothing is known of T = 0 but that it is public: noise of one quantum costs no accuracy.
        upper = np.maximum(self.points.points(earlier["extreme"][:, 0]), 1)
        return np.zeros_like(upper), upper


@dataclass(frozen=True, eq=False)
class ClippedSumMean(ClippedRangeMean):
    """The allocation of AKMV.

    Attributes
    ----------
    target : int
        Sums wanted at or below T.
    """

    clipped = "user sums"

    target: int

    def sensitivity(self, width: float) -> float:
        """Return U m*/N: of the largest T there is."""
        return width * float(self.cell.counts.max()) / self.cell.total


@dataclass(frozen=True, repr=False)
class AKMV(CellMechanism):
    """The mean of user sums clipped to [0, T], T private, plus Laplace noise of its width.

    Parameters
    ----------
    split : number
        The part of ε, between 0 and 1, that finds T.
    candidates : int
        Steps of the public grid of T.

    Raises
    ------
    InputError
        If an argument is out of range.

    Examples
    --------
    >>> plan = AKMV(split="0.5").plan([4, 2, 1], bounds=(0, 8), epsilon=1)
    >>> plan.allocation.target, plan.allocation.stages[0].scale
    (1, 4.0)
    """

    shown_always = ("split",)

    split: Number = "0.5"
    candidates: int = CANDIDATES

    def __post_init__(self) -> None:
        check_split(to_fraction(self.split, "split"), "split")
        check_candidates(self.candidates)

    def allocate_cell(self, cell: CellProblem, epsilon: Fraction) -> ClippedSumMean:
        """Return the allocation of one cell: see `CellMechanism.allocate_cell`."""
        spent = epsilon * to_fraction(self.split, "split")
        mean_epsilon = epsilon - spent
        # With fewer users than the rank the smallest sum is aimed at.
        target = max(cell.counts.size - math.ceil(1 / mean_epsilon), 0)
        sums = UserSums(cell.counts, cell.span)
        points = EvenPoints(sums.top, min(self.candidates, sums.top))
        scale = selection_scale(1, spent)
        extreme = PrivateQuantile("extreme", sums, points, (RankCost(target),), sums.pieces, scale)
        stages = extreme, RangeSum("mean", sums, RangeUpToPoint(points), mean_epsilon)
        return ClippedSumMean(cell, epsilon, stages, mean_epsilon, cell.total, target)
