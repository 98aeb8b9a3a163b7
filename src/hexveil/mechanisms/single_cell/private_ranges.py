"""LEVY: array means clipped to a range as wide as they are expected to spread.

Source: IOT section III-D, Algorithm 3, as put right in ERRATA 11 and 15: the middle of the range
is the middle of one of ⌈U/τ⌉ equal bins, the range is that ± 3τ/2 within the bounds,
τ = U √(ln(2K/gamma) / (2 cap)), K the arrays and cap their length. If τ >= U there is one bin: the
range is the bounds themselves, no choice is made and all of ε pays for the noise.
RW appendix C is selectable: τ with the ⌊ΣΓ/cap⌋ arrays that would be full in place of K
("full" arrays), and a range that may leave the bounds ("unclamped"). Array means and the middle lie
within the bounds, so the estimate is that of the clamped range; only the noise is larger, that of
the width min(3τ, U)/K, which RW prints without the minimum in appendix C and with it in F.
In integers, which are public: the bin of v is floor(v B/(G S)) of B, the half width ⌈3τ S/U⌉.

QUANTILE: array means clipped to a range between two of their quantiles.

Source: IOT section III-E; RW calls OPTIMIZEDQUANTILE ε-DEPENDENTQUANTILE (ERRATA 15). Rank scores
with whole targets and their scale as in ERRATA 12.
Half of the part of ε that finds the range pays for each end. Points are floor(S j/C) quanta.

Of LEVY and QUANTILE.
Neighbours: one user's values all change within the bounds; users and counts are public.
Sensitivity and loss: middle or ends by `private_quantile`, where a user moves one array under
BESTFIT and two under WRAPAROUND; then `clipped_range_mean`.

AKMV: user sums clipped to [0, T], T an extreme of them found privately.

Source: Amin, Kulesza, Munoz and Vassilvitskii (2019) as adapted in WC section IV-A; the rank is
⌈1/ε''⌉ (ERRATA 14). Sums s count from the lower bound: quanta from 0 to S m.
Choice: T from the public points floor(S m* j/C), with L - r sums wanted at or below it, L the users
and r the rank. T = 0 is widened to one quantum. The estimate is (Σ min(s, T) + noise)/N.

Neighbours: one user's values all change within the bounds; users and counts are public.
Sensitivity: a user moves one sum: each score by 1 (`private_quantile`), the clipped sum by
min(T, S m). Loss: ε' for the choice and ε'' for the noise of scale T/ε'', whatever T; ε in all.
Sums are clipped from above alone: the bias, to the lower bound, depends on T, which is random.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np

from hexveil.accounting.pseudo_users import PseudoUsers
from hexveil.base.arrays import Ints
from hexveil.base.errors import InputError
from hexveil.base.rational import Number, to_fraction
from hexveil.mechanisms import private_quantile
from hexveil.mechanisms.single_cell import BoundedStage, CellMechanism, CellProblem, array_averaging
from hexveil.mechanisms.single_cell.clipped_range_mean import ClippedRangeMean, FixedRange, RangeSum
from hexveil.mechanisms.stage_data import Outputs


def _choice(
    name: str,
    reading: array_averaging.RangeReading,
    candidates: private_quantile.Candidates,
    costs: tuple[private_quantile.Cost, ...],
    epsilon: Fraction,
) -> private_quantile.PrivateQuantile:
    """Return choices that share a loss; a user moves the cost of each by its values."""
    votes = reading.pieces
    scale = private_quantile.selection_scale(int(votes.max()), epsilon / len(costs))
    return private_quantile.PrivateQuantile(name, reading, candidates, costs, votes, scale)


class _ArrayRange(CellMechanism):
    """Options of mechanisms that clip array means, and their arrays."""

    grouping: array_averaging.GroupingRule
    cap: array_averaging.CapRule | int
    split: Number

    def __post_init__(self) -> None:
        array_averaging.check_rules(self.grouping, self.cap)
        private_quantile.check_split(self.split)

    def arrays_of(
        self, cell: CellProblem, epsilon: Fraction
    ) -> tuple[PseudoUsers, array_averaging.PseudoUserMeans]:
        """Return the arrays of a cell, and their means."""
        groups = array_averaging.group_users(cell.counts, epsilon, self.grouping, self.cap)
        return groups, array_averaging.PseudoUserMeans.from_grouping(groups, cell.counts, cell.span)


# ---- LEVY ----


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

    bins: private_quantile.EvenBins
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
class Levy(_ArrayRange):
    """The mean of array means clipped to a private range, plus Laplace noise of its width.

    Parameters
    ----------
    gamma : number
        The chance, above 0 and at most 1, that array means of independent samples leave the
        range.
    grouping, cap : str, and str or int
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
    """

    shown_always = ("gamma",)

    gamma: Number = 0.2
    grouping: array_averaging.GroupingRule = "best_fit"
    cap: array_averaging.CapRule | int = "sqrt"
    split: Number = "0.5"
    interval: Literal["clamped", "unclamped"] = "clamped"
    arrays: Literal["used", "full"] = "used"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.interval not in {"clamped", "unclamped"}:
            raise InputError(f'interval must be "clamped" or "unclamped", got {self.interval!r}.')
        if self.arrays not in {"used", "full"}:
            raise InputError(f'arrays must be "used" or "full", got {self.arrays!r}.')
        if not 0 < to_fraction(self.gamma, "gamma") <= 1:
            raise InputError(f"gamma must be above 0 and at most 1, got {self.gamma}.")

    def allocate_cell(self, cell: CellProblem, epsilon: Fraction) -> ClippedRangeMean:
        """Return the allocation of one cell: see `CellMechanism.allocate_cell`."""
        groups, arrays = self.arrays_of(cell, epsilon)
        placed = int(np.minimum(cell.counts, groups.cap).sum())
        full = max(placed // groups.cap, 1)
        n_arrays = groups.n_arrays if self.arrays == "used" else full
        odds = 2.0 * n_arrays / float(to_fraction(self.gamma, "gamma"))
        radius = math.sqrt(math.log(odds) / (2.0 * groups.cap))
        # With one bin there is nothing to choose, and a choice would be paid for in vain.
        spent = epsilon * to_fraction(self.split, "split") if radius < 1.0 else Fraction(0)
        choices: tuple[BoundedStage, ...] = ()
        clipping: FixedRange | RangeAroundMiddle = FixedRange(0, cell.span)
        if spent:
            # At most one bin per quantum: bins that fall together would get the choice several
            # times.
            n_bins = min(math.ceil(1.0 / radius), cell.span)
            bins = private_quantile.EvenBins(cell.span, n_bins, arrays.grain)
            costs = (private_quantile.MiddleCost(),)
            choices = (_choice("middle", arrays, bins, costs, spent),)
            half_width = math.ceil(3.0 * radius * cell.span)
            clipping = RangeAroundMiddle(bins, half_width, self.interval == "clamped")
        stages = (*choices, RangeSum("mean", arrays, clipping, epsilon - spent))
        divisor = arrays.grain * groups.n_arrays
        return ClippedRangeMean(cell, epsilon, stages, epsilon - spent, divisor, groups, radius)


# ---- QUANTILE ----


@dataclass(frozen=True)
class RangeBetweenPoints:
    """The range between two points, in order and at least one quantum wide."""

    points: private_quantile.EvenPoints
    widest: ClassVar[float] = 1.0

    def ends(self, earlier: Outputs) -> tuple[Ints, Ints]:
        """Return both ends: see `RangeOfOutputs.ends`."""
        points = self.points.points(earlier["range"])
        # Ends may come out reversed or equal: a public function of both puts that right.
        lower = np.minimum(points.min(axis=1), self.points.top - 1)
        return lower, np.maximum(points.max(axis=1), lower + 1)


class _QuantileAveraging(_ArrayRange):
    """Options and allocation of both quantile mechanisms."""

    candidates: int

    def __post_init__(self) -> None:
        super().__post_init__()
        private_quantile.check_candidates(self.candidates)

    @abstractmethod
    def targets(self, n_arrays: int, mean_epsilon: Fraction) -> tuple[int, int]:
        """Return how many arrays are wanted at or below each end."""

    def allocate_cell(self, cell: CellProblem, epsilon: Fraction) -> ClippedRangeMean:
        """Return the allocation of one cell: see `CellMechanism.allocate_cell`."""
        groups, arrays = self.arrays_of(cell, epsilon)
        spent = epsilon * to_fraction(self.split, "split")
        targets = self.targets(groups.n_arrays, epsilon - spent)
        # More points than quanta would repeat, and give a point more weight than another.
        points = private_quantile.EvenPoints(
            cell.span, min(self.candidates, cell.span), arrays.grain
        )
        costs = tuple(private_quantile.RankCost(target) for target in targets)
        ends = _choice("range", arrays, points, costs, spent)
        mean = RangeSum("mean", arrays, RangeBetweenPoints(points), epsilon - spent)
        divisor = arrays.grain * groups.n_arrays
        return ClippedRangeMean(cell, epsilon, (ends, mean), epsilon - spent, divisor, groups)


@dataclass(frozen=True, repr=False)
class FixedQuantile(_QuantileAveraging):
    """The mean of array means clipped between two fixed quantiles, plus noise of its width.

    Parameters
    ----------
    low : number
        From 0, below `high`. The lower target is low K of K arrays, rounded, halves up.
    high : number
        Up to 1. The upper target is high K, rounded so too.
    grouping, cap : str, and str or int
        As for `ArrayAveraging`.
    split : number
        The part of ε that finds the range, half of it for each end.
    candidates : int
        Steps of the public grid of points; at most the quanta in the bounds are used.

    Raises
    ------
    InputError
        If an argument is out of range or a word is unknown.

    Examples
    --------
    >>> plan = FixedQuantile(0.1, 0.9).plan([5] * 50, bounds=(0, 8), epsilon=1)
    >>> ends = plan.allocation.stages[0]
    >>> [cost.target for cost in ends.costs], ends.scale, plan.noise_scale
    ([5, 45], 8.0, 0.32)
    """

    shown_by_position = ("low", "high")

    low: Number = 0.1
    high: Number = 0.9
    grouping: array_averaging.GroupingRule = "best_fit"
    cap: array_averaging.CapRule | int = "sqrt"
    split: Number = "0.5"
    candidates: int = private_quantile.CANDIDATES

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= to_fraction(self.low, "low") < to_fraction(self.high, "high") <= 1:
            raise InputError(
                f"quantiles must run from the lower to the higher within 0 and 1, got "
                f"{self.low} and {self.high}."
            )

    def targets(self, n_arrays: int, mean_epsilon: Fraction) -> tuple[int, int]:  # noqa: ARG002
        """Return the quantiles of K arrays, rounded, halves up."""
        ends = to_fraction(self.low, "low"), to_fraction(self.high, "high")
        low, high = (math.floor(end * n_arrays + Fraction(1, 2)) for end in ends)
        return low, high


@dataclass(frozen=True, repr=False)
class OptimizedQuantile(_QuantileAveraging):
    """The mean of array means clipped between extremes that balance bias and noise.

    The ends are the r-th smallest and the r-th largest array mean, r = ⌈1/ε'⌉ for the part ε' of ε
    that pays for the noise: IOT's ⌈2/ε⌉ for halves. With fewer than 2 r arrays both ends are the
    median.

    Parameters
    ----------
    grouping, cap, split, candidates
        As for `FixedQuantile`.

    Raises
    ------
    InputError
        If an argument is out of range or a word is unknown.

    Examples
    --------
    >>> plan = OptimizedQuantile().plan([5] * 50, bounds=(0, 8), epsilon=1)
    >>> [cost.target for cost in plan.allocation.stages[0].costs]
    [2, 48]
    """

    grouping: array_averaging.GroupingRule = "best_fit"
    cap: array_averaging.CapRule | int = "sqrt"
    split: Number = "0.5"
    candidates: int = private_quantile.CANDIDATES

    def targets(self, n_arrays: int, mean_epsilon: Fraction) -> tuple[int, int]:
        """Return the ranks r and K - r."""
        # With fewer than 2 r arrays the ends would cross: both meet at the median.
        rank = min(math.ceil(1 / mean_epsilon), n_arrays // 2)
        return rank, n_arrays - rank


# ---- AKMV ----


@dataclass(frozen=True)
class RangeUpToPoint:
    """The range from 0 to the point chosen, which is at least one quantum."""

    points: private_quantile.EvenPoints
    widest: ClassVar[float] = 1.0

    def ends(self, earlier: Outputs) -> tuple[Ints, Ints]:
        """Return both ends: see `RangeOfOutputs.ends`."""
        # Nothing is known of T = 0 but that it is public: noise of one quantum costs no accuracy.
        upper = np.maximum(self.points.points(earlier["extreme"][:, 0]), 1)
        return np.zeros_like(upper), upper


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
    >>> [cost.target for cost in plan.allocation.stages[0].costs], plan.allocation.stages[0].scale
    ([1], 4.0)
    """

    shown_always = ("split",)

    split: Number = "0.5"
    candidates: int = private_quantile.CANDIDATES

    def __post_init__(self) -> None:
        private_quantile.check_split(self.split)
        private_quantile.check_candidates(self.candidates)

    def allocate_cell(self, cell: CellProblem, epsilon: Fraction) -> ClippedRangeMean:
        """Return the allocation of one cell: see `CellMechanism.allocate_cell`."""
        spent = epsilon * to_fraction(self.split, "split")
        mean_epsilon = epsilon - spent
        # With fewer users than the rank the smallest sum is aimed at.
        target = max(cell.counts.size - math.ceil(1 / mean_epsilon), 0)
        sums = array_averaging.UserSums(cell.counts, cell.span)
        points = private_quantile.EvenPoints(sums.top, min(self.candidates, sums.top))
        extreme = _choice("extreme", sums, points, (private_quantile.RankCost(target),), spent)
        stages = extreme, RangeSum("mean", sums, RangeUpToPoint(points), mean_epsilon)
        return ClippedRangeMean(cell, epsilon, stages, mean_epsilon, cell.total)
