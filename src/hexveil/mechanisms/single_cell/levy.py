"""LEVY: array means clipped to a range as wide as they are expected to spread.

Source: IOT section III-D, Algorithm 3, as put right in ERRATA 11 and 15: the middle of the range
is the middle of one of ⌈U/τ⌉ equal bins, the range is that ± 3τ/2 within the bounds,
τ = U √(ln(2K/gamma) / (2 cap)), K the arrays and cap their length. If τ >= U there is one bin: the
range is the bounds themselves, no choice is made and all of ε pays for the noise.
RW appendix C is selectable: τ with the ⌊ΣΓ/cap⌋ arrays that would be full in place of K
("full" arrays), and a range that may leave the bounds ("unclamped"). Array means lie within the
bounds and so does the middle: projected to an unclamped range they stay within the bounds, and the
estimate is that of the clamped one; the noise alone is larger, that of the whole width
min(3τ, U)/K, which RW prints without the minimum in appendix C and with it in appendix F.
In integers: the bin of array value v is floor(v B/(G S)) of B bins, and the half width is
⌈3τ S/U⌉ half quanta. Both are public integers, and allocations hold them.

Neighbours: one user's values all change within the bounds; users and counts are public.
Sensitivity and loss: the middle by `private_quantile`, where a user moves one array under BESTFIT
and two under WRAPAROUND; then `clipped_range_mean`.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

import numpy as np

from hexveil.base.arrays import Ints
from hexveil.base.errors import InputError
from hexveil.base.rational import Number, to_fraction
from hexveil.mechanisms.private_quantile import (
    EvenBins,
    MiddleCost,
    PrivateQuantile,
    check_split,
    selection_scale,
)
from hexveil.mechanisms.single_cell.array_averaging import (
    CapRule,
    GroupingRule,
    PseudoUserMeans,
    check_rules,
    group_users,
)
from hexveil.mechanisms.single_cell.cell_allocation import BoundedStage, CellProblem
from hexveil.mechanisms.single_cell.cell_mechanism import CellMechanism
from hexveil.mechanisms.single_cell.clipped_range_mean import ClippedRangeMean, FixedRange, RangeSum
from hexveil.mechanisms.stage_data import Outputs


@dataclass(frozen=True)
class RangeAroundMiddle:
    """A range of public half width around the middle of the bin chosen.

    Attributes
    ----------
    bins : EvenBins
    half_width : int
        In half quanta.
    is_clamped : bool
        Whether it ends at the bounds; RW leaves it beyond them, too.
    """

    bins: EvenBins
    half_width: int
    is_clamped: bool = True

    @cached_property
    def widest(self) -> float:
        """Width of the widest range around a bin, as it is rounded, in parts of the bounds."""
        lower, upper = self.around(np.arange(self.bins.size))
        return float((upper - lower).max() / self.bins.top)

    def ends(self, earlier: Outputs) -> tuple[Ints, Ints]:
        """Return both ends: see `RangeOfOutputs.ends`."""
        return self.around(earlier["middle"][:, 0])

    def around(self, selected: Ints) -> tuple[Ints, Ints]:
        """Return both ends, rounded outwards, for numbers of bins."""
        middle = self.bins.double_middles(selected)
        # Rounded outwards: a range narrower than planned would clip more, not cost more.
        lower = (middle - self.half_width) // 2
        upper = -(-(middle + self.half_width) // 2)
        if self.is_clamped:
            lower, upper = np.maximum(lower, 0), np.minimum(upper, self.bins.top)
        return lower, np.maximum(upper, lower + 1)


@dataclass(frozen=True, repr=False)
class Levy(CellMechanism):
    """The mean of array means clipped to a private range, plus Laplace noise of its width.

    Parameters
    ----------
    gamma : number
        The chance, above 0 and at most 1, that array means of independent samples leave the
        range.
    grouping : str
        As for `ArrayAveraging`.
    cap : str or int
        As for `ArrayAveraging`.
    split : number
        The part of ε that finds the range.
    interval : {"clamped", "unclamped"}
        Whether the range ends at the bounds (IOT), or may leave them (RW).
    arrays : {"used", "full"}
        What τ counts: the arrays there are (IOT), or as many as would be full (RW).

    Raises
    ------
    InputError
        If an argument is out of range or a word is unknown.

    Examples
    --------
    >>> plan = Levy().plan([100] * 50, bounds=(0, 8), epsilon=1)
    >>> round(8 * plan.allocation.relative_radius, 3), round(plan.noise_scale, 4)
    (1.41, 0.1692)
    >>> rw = Levy(interval="unclamped", arrays="full")
    >>> round(rw.plan([90, 60, 50] * 20, bounds=(0, 8), epsilon=1).noise_scale, 4)
    0.1837
    """

    shown_always = ("gamma",)

    gamma: Number = 0.2
    grouping: GroupingRule = "best_fit"
    cap: CapRule | int = "sqrt"
    split: Number = "0.5"
    interval: Literal["clamped", "unclamped"] = "clamped"
    arrays: Literal["used", "full"] = "used"

    def __post_init__(self) -> None:
        check_rules(self.grouping, self.cap)
        if self.interval not in {"clamped", "unclamped"}:
            raise InputError(f'interval must be "clamped" or "unclamped", got {self.interval!r}.')
        if self.arrays not in {"used", "full"}:
            raise InputError(f'arrays must be "used" or "full", got {self.arrays!r}.')
        check_split(to_fraction(self.split, "split"), "split")
        if not 0 < to_fraction(self.gamma, "gamma") <= 1:
            raise InputError(f"gamma must be above 0 and at most 1, got {self.gamma}.")

    def allocate_cell(self, cell: CellProblem, epsilon: Fraction) -> ClippedRangeMean:
        """Return the allocation of one cell: see `CellMechanism.allocate_cell`."""
        groups = group_users(cell.counts, epsilon, self.grouping, self.cap)
        placed = int(np.minimum(cell.counts, groups.cap).sum())
        full = max(placed // groups.cap, 1)
        n_arrays = groups.n_arrays if self.arrays == "used" else full
        odds = 2.0 * n_arrays / float(to_fraction(self.gamma, "gamma"))
        radius = math.sqrt(math.log(odds) / (2.0 * groups.cap))
        arrays = PseudoUserMeans.from_grouping(groups, cell.counts, cell.span)
        # With one bin there is nothing to choose, and a choice would be paid for in vain.
        spent = epsilon * to_fraction(self.split, "split") if radius < 1.0 else Fraction(0)
        losses = spent, epsilon - spent
        stages = _stages(arrays, radius, losses, is_clamped=self.interval == "clamped")
        divisor = arrays.grain * groups.n_arrays
        return ClippedRangeMean(cell, epsilon, stages, epsilon - spent, divisor, groups, radius)


def _stages(
    arrays: PseudoUserMeans,
    radius: float,
    losses: tuple[Fraction, Fraction],
    *,
    is_clamped: bool,
) -> tuple[BoundedStage, ...]:
    """Return the choice of the middle, if one is paid for, and the sum."""
    spent, mean_epsilon = losses
    if not spent:
        return (RangeSum("mean", arrays, FixedRange(0, arrays.span), mean_epsilon),)
    # At most one bin per quantum: bins that fall together would get the choice several times.
    bins = EvenBins(arrays.span, min(math.ceil(1.0 / radius), arrays.span), arrays.grain)
    scale = selection_scale(int(arrays.pieces.max()), spent)
    middle = PrivateQuantile("middle", arrays, bins, (MiddleCost(),), arrays.pieces, scale)
    clipping = RangeAroundMiddle(bins, math.ceil(3.0 * radius * arrays.span), is_clamped)
    return middle, RangeSum("mean", arrays, clipping, mean_epsilon)
