"""LEVY and OPT-ARRAY-AVERAGING as RW has them, where IOT has something else (ERRATA 15).

Source: RW eq. (2) to (4) and appendix C. RW's LEVY leaves the interval unclamped and takes τ with
K = ⌊ΣΓ/m_UB⌋ in place of the arrays there are; RW's OPT-ARRAY-AVERAGING counts the noise by its
standard deviation, or takes the cap of the printed rule of Lemma VI.2 (ERRATA 6).
Neighbours, choice, sensitivity and loss: those of `mechanisms.Levy` and
`mechanisms.ArrayAveraging`, whose plans these are. An interval wider than the bounds moves a
projected array mean by U at most, which the plan of `Levy` knows; τ and the caps are worked out
from public counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from hexveil import theory
from hexveil.mechanisms import ArrayAveraging, Levy
from hexveil.mechanisms.levy import LevyPlan
from hexveil.mechanisms.single_cell_plan import Named

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from hexveil.base.rational import Number
    from hexveil.mechanisms.array_averaging import ArrayPlan

    Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FreePlan(LevyPlan):
    """The public plan of LEVY with an interval that may leave the bounds."""

    def _around(self, middle: Floats) -> tuple[Floats, Floats]:
        half = 1.5 * self.radius
        return middle - half, middle + half


@dataclass(frozen=True, repr=False)
class FreeLevy(Named):
    """LEVY as in RW appendix C, under BESTFIT with the cap of eq. (8).

    Parameters
    ----------
    gamma : number
        As for `Levy`.

    Examples
    --------
    >>> pair = FreeLevy(), Levy()
    >>> rw, iot = (one.plan([100, 60] * 25, bounds=(0, 8), epsilon=1) for one in pair)
    >>> rw.groups.n_arrays, rw.radius < iot.radius
    (50, True)
    """

    _always = ("gamma",)

    gamma: Number = 0.2

    def plan(self, counts: ArrayLike, *, bounds: object, epsilon: Number) -> FreePlan:
        """Return the public plan of one cell: see `Mechanism.plan`."""
        made = Levy(self.gamma).plan(counts, bounds=bounds, epsilon=epsilon)
        cap = made.groups.cap
        arrays = int(np.minimum(made.counts, cap).sum()) // cap
        radius = made.span * math.sqrt(math.log(2 * arrays / float(self.gamma)) / (2 * cap))
        facts = made.counts, made.lower, made.upper, made.epsilon
        return FreePlan(*facts, made.groups, made.mean_epsilon, radius, made.choice)


@dataclass(frozen=True, repr=False)
class Optimised(Named):
    """OPT-ARRAY-AVERAGING as in RW section VI.

    Parameters
    ----------
    objective : {"eq. (4)", "Lemma VI.2"}
        The worst-case bias plus the standard deviation of the noise, or the printed rule.

    Examples
    --------
    >>> Optimised("Lemma VI.2").plan([10, 3, 1, 1], bounds=(0, 8), epsilon=1).groups.cap
    10
    """

    _always = ("objective",)

    objective: Literal["eq. (4)", "Lemma VI.2"] = "eq. (4)"

    def plan(self, counts: ArrayLike, *, bounds: object, epsilon: Number) -> ArrayPlan:
        """Return the public plan of one cell: see `Mechanism.plan`."""
        if self.objective == "eq. (4)":
            cap = theory.minimax_cap(counts, epsilon, noise="std")
        else:
            cap = int(theory.surrogate_cap(counts, rule="printed"))
        return ArrayAveraging(cap=cap).plan(counts, bounds=bounds, epsilon=epsilon)
