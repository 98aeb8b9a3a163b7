"""QUANTILE: array means projected to an interval between two of their quantiles.

Source: IOT section III-E; RW calls OPTIMIZEDQUANTILE ε-DEPENDENTQUANTILE (ERRATA 15). Rank scores
with whole targets and their scale as in ERRATA 12.
Neighbours: one user's values all change within the bounds; users and counts are public.
Choices: two, each with half of the part of ε that finds the interval; cost |array means at or
below the candidate - target|, sensitivity 1 under BESTFIT, 2 under WRAPAROUND where a user
continues in the next array.
Estimate, sensitivity and loss: see `interval`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from hexveil.base.errors import InputError
from hexveil.base.rational import Number, to_fraction
from hexveil.mechanisms.arrays import CapRule, GroupingRule, check_rules, group
from hexveil.mechanisms.clipped_range import IntervalPlan
from hexveil.mechanisms.selection import (
    CANDIDATES,
    RankChoice,
    check_candidates,
    check_part,
    selection_scale,
)
from hexveil.mechanisms.single_cell_plan import CellFacts, Named, cell_facts

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    from hexveil.mechanisms.cell_plan import NoiseSource

    Floats = NDArray[np.float64]
    Targets = Callable[[int, Fraction], tuple[int, int]]


@dataclass(frozen=True, eq=False)
class QuantilePlan(IntervalPlan):
    """The public plan of a quantile mechanism; every figure in value units.

    Attributes
    ----------
    low, high : RankChoice
        How the two ends are chosen; ends that come out reversed are exchanged.
    """

    low: RankChoice
    high: RankChoice

    @property
    def widest(self) -> float:
        """Width of the bounds."""
        return self.span

    def interval(self, arrays: Floats, noise: NoiseSource) -> tuple[float, float]:
        """Return two ends, each chosen privately."""
        a, b = self.low.draw(arrays, noise), self.high.draw(arrays, noise)
        return min(a, b), max(a, b)

    def simulate_interval(
        self, arrays: Floats, generator: np.random.Generator, trials: int
    ) -> tuple[Floats, Floats]:
        """Return ends of many intervals distributed as those of `interval`."""
        # Both ends are chosen on one grid: only the costs of its runs differ.
        rows = np.atleast_2d(arrays)
        costs, sizes, first = self.low.runs(rows)
        a = self.low.among((costs, sizes, first), generator, trials)
        above = self.high.rank_costs(rows.shape[1])
        b = self.high.among((above, sizes, first), generator, trials)
        return np.minimum(a, b), np.maximum(a, b)


@dataclass(frozen=True, repr=False)
class FixedQuantile(Named):
    """The mean of array means projected between two fixed quantiles, plus noise of its width.

    Parameters
    ----------
    low : number
        From 0, below `high`. The lower target is low K of K arrays, rounded, halves up.
    high : number
        Up to 1. The upper target is high K, rounded so too.
    grouping : str
        As for `ArrayAveraging`.
    cap : str or int
        As for `ArrayAveraging`.
    split : number
        The part of ε that finds the interval, half of it for each end.
    candidates : int
        Steps of the public grid.

    Raises
    ------
    InputError
        If an argument is out of range or a word is unknown.

    Examples
    --------
    >>> plan = FixedQuantile(0.1, 0.9).plan([5] * 50, bounds=(0, 8), epsilon=1)
    >>> plan.low.target, plan.high.target, plan.low.scale, plan.noise_scale
    (5, 45, 8.0, 0.32)
    """

    _positional = ("low", "high")

    low: Number = 0.1
    high: Number = 0.9
    grouping: GroupingRule = "best_fit"
    cap: CapRule | int = "sqrt"
    split: Number = "0.5"
    candidates: int = CANDIDATES

    def __post_init__(self) -> None:
        _check(self)
        if not 0 <= to_fraction(self.low, "low") < to_fraction(self.high, "high") <= 1:
            raise InputError(
                f"quantiles must run from the lower to the higher within 0 and 1, got "
                f"{self.low} and {self.high}."
            )

    def plan(self, counts: ArrayLike, *, bounds: object, epsilon: Number) -> QuantilePlan:
        """Return the public plan of one cell: see `Mechanism.plan`."""
        return _plan(self, cell_facts(counts, bounds, epsilon), self._targets)

    def _targets(self, n_arrays: int, _: Fraction) -> tuple[int, int]:
        low, high = to_fraction(self.low, "low"), to_fraction(self.high, "high")
        return (
            math.floor(low * n_arrays + Fraction(1, 2)),
            math.floor(high * n_arrays + Fraction(1, 2)),
        )


@dataclass(frozen=True, repr=False)
class OptimizedQuantile(Named):
    """The mean of array means projected between extremes that balance bias and noise.

    The ends are the r-th smallest and the r-th largest array mean, r = ⌈1/ε'⌉ for the part ε' of ε
    that pays for the noise: IOT's ⌈2/ε⌉ for halves. With fewer than 2 r arrays both ends are the
    median.

    Parameters
    ----------
    grouping : str
        As for `FixedQuantile`, as is what follows.
    cap : str or int
    split : number
    candidates : int

    Raises
    ------
    InputError
        If an argument is out of range or a word is unknown.

    Examples
    --------
    >>> plan = OptimizedQuantile().plan([5] * 50, bounds=(0, 8), epsilon=1)
    >>> plan.low.target, plan.high.target
    (2, 48)
    """

    grouping: GroupingRule = "best_fit"
    cap: CapRule | int = "sqrt"
    split: Number = "0.5"
    candidates: int = CANDIDATES

    def __post_init__(self) -> None:
        _check(self)

    def plan(self, counts: ArrayLike, *, bounds: object, epsilon: Number) -> QuantilePlan:
        """Return the public plan of one cell: see `Mechanism.plan`."""
        return _plan(self, cell_facts(counts, bounds, epsilon), _extremes)


def _extremes(n_arrays: int, mean_epsilon: Fraction) -> tuple[int, int]:
    rank = min(math.ceil(1 / mean_epsilon), n_arrays // 2)
    return rank, n_arrays - rank


def _check(mechanism: FixedQuantile | OptimizedQuantile) -> None:
    check_rules(mechanism.grouping, mechanism.cap)
    check_part(to_fraction(mechanism.split, "split"), "split")
    check_candidates(mechanism.candidates)


def _plan(
    mechanism: FixedQuantile | OptimizedQuantile, cell: CellFacts, targets: Targets
) -> QuantilePlan:
    groups = group(cell, mechanism.grouping, mechanism.cap)
    spent = cell.epsilon * to_fraction(mechanism.split, "split")
    scale = selection_scale(groups.most_arrays, spent / 2)
    mean_epsilon = cell.epsilon - spent
    low, high = (
        RankChoice(cell.lower, cell.upper, mechanism.candidates, target, scale)
        for target in targets(groups.n_arrays, mean_epsilon)
    )
    facts = cell.counts, cell.lower, cell.upper, cell.epsilon
    return QuantilePlan(*facts, groups, mean_epsilon, low, high)
