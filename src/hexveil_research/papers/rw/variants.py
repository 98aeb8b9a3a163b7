"""LEVY and OPT-ARRAY-AVERAGING as RW has them, where IOT has something else (ERRATA 15).

Source: RW eq. (2) to (4) and appendix C. RW's LEVY leaves the interval unclamped and takes τ with
K = ⌊ΣΓ/m_UB⌋ in place of the arrays there are; RW's OPT-ARRAY-AVERAGING counts the noise by its
standard deviation, or takes the cap of the printed rule of Lemma VI.2 (ERRATA 6).
Neighbours, choice, sensitivity and loss: those of `mechanisms.Levy` and
`mechanisms.ArrayAveraging`, whose stages these are. An interval wider than the bounds moves a
clipped array mean by U at most, which the range sum of `Levy` knows; τ and the caps are computed
from public counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from hexveil import theory
from hexveil.mechanisms import ArrayAveraging, CellMechanism, Levy
from hexveil.mechanisms.single_cell.private_range.levy import LevyMean, RangeAroundMiddle
from hexveil.mechanisms.single_cell.private_range.range_sum import RangeSum

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray

    from hexveil.base.rational import Number
    from hexveil.mechanisms.single_cell.cell_allocation import CellProblem
    from hexveil.mechanisms.single_cell.linear.array_averaging import ArrayAverage

    Ints = NDArray[np.int64]


@dataclass(frozen=True)
class FreeRange(RangeAroundMiddle):
    """A range around the middle chosen that may leave the bounds."""

    def around(self, bin_numbers: Ints) -> tuple[Ints, Ints]:
        """Return both ends, rounded outwards, for numbers of bins."""
        middle = self.bins.double_middles(bin_numbers)
        return (middle - self.half_width) // 2, -(-(middle + self.half_width) // 2)


@dataclass(frozen=True, eq=False)
class FreeLevyMean(LevyMean):
    """The allocation of LEVY with a range that may leave the bounds."""

    @cached_property
    def widest(self) -> float:
        """Width of every range, in parts of the bounds."""
        return 3.0 * self.relative_radius


@dataclass(frozen=True, repr=False)
class FreeLevy(CellMechanism):
    """LEVY as in RW appendix C, under BESTFIT with the cap of eq. (8).

    Parameters
    ----------
    gamma : number
        As for `Levy`.

    Examples
    --------
    >>> pair = FreeLevy(), Levy()
    >>> rw, iot = (one.plan([100, 60] * 25, bounds=(0, 8), epsilon=1).allocation for one in pair)
    >>> rw.groups.n_arrays, rw.relative_radius < iot.relative_radius
    (50, True)
    """

    shown_always = ("gamma",)

    gamma: Number = 0.2

    def allocate_cell(self, cell: CellProblem, epsilon: Fraction) -> LevyMean:
        """Return the allocation of one cell: see `CellMechanism.allocate_cell`."""
        clamped = Levy(self.gamma).allocate_cell(cell, epsilon)
        cap = clamped.groups.cap
        arrays = int(np.minimum(cell.counts, cap).sum()) // cap
        # Hoeffding's bound for all arrays at once, with RW's K in place of the arrays there are.
        radius = math.sqrt(math.log(2 * arrays / float(self.gamma)) / (2 * cap))
        stage = clamped.range_sum
        if not isinstance(stage.clipping, RangeAroundMiddle):
            return clamped  # one bin: the interval is the bounds
        clipping = FreeRange(stage.clipping.bins, math.ceil(3.0 * radius * cell.span))
        stages = *clamped.stages[:-1], RangeSum(stage.name, stage.reading, clipping, stage.epsilon)
        facts = clamped.mean_epsilon, clamped.divisor, clamped.groups
        return FreeLevyMean(cell, epsilon, stages, *facts, radius)


@dataclass(frozen=True, repr=False)
class Optimised(CellMechanism):
    """OPT-ARRAY-AVERAGING as in RW section VI.

    Parameters
    ----------
    objective : {"eq. (4)", "Lemma VI.2"}
        The worst-case bias plus the standard deviation of the noise, or the printed rule.

    Examples
    --------
    >>> plan = Optimised("Lemma VI.2").plan([10, 3, 1, 1], bounds=(0, 8), epsilon=1)
    >>> plan.allocation.groups.cap
    10
    """

    shown_always = ("objective",)

    objective: Literal["eq. (4)", "Lemma VI.2"] = "eq. (4)"

    def allocate_cell(self, cell: CellProblem, epsilon: Fraction) -> ArrayAverage:
        """Return the allocation of one cell: see `CellMechanism.allocate_cell`."""
        if self.objective == "eq. (4)":
            cap = theory.minimax_cap(cell.counts, epsilon, noise="std")
        else:
            cap = int(theory.surrogate_cap(cell.counts, rule="printed"))
        return ArrayAveraging(cap=cap).allocate_cell(cell, epsilon)
