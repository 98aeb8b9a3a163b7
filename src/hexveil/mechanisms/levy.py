"""LEVY: array means projected to an interval as wide as they are expected to spread.

Source: IOT section III-D, Algorithm 3, as put right in ERRATA 11 and 15: the middle of the
interval is the middle of one of ⌈U/τ⌉ equal bins, the interval is that ± 3τ/2 within the bounds,
τ = U √(ln(2K/gamma) / (2 cap)), K the arrays and cap their length.
Neighbours: one user's values all change within the bounds; users and counts are public.
Choice: cost max(arrays nearest to a lower middle, arrays nearest to a higher one), sensitivity 1
under BESTFIT, 2 under WRAPAROUND where a user continues in the next array; its part of ε by
permute-and-flip. If τ >= U there is one bin: the interval is the bounds themselves, no choice is
made and all of ε pays for the noise.
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
from hexveil.mechanisms.selection import MidpointChoice, check_part, selection_scale
from hexveil.mechanisms.single_cell_plan import Named, cell_facts

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from hexveil.mechanisms.cell_plan import NoiseSource

    Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LevyPlan(IntervalPlan):
    """The public plan of LEVY; every figure in value units.

    Attributes
    ----------
    radius : float
        τ: how far array means are expected to be from their middle.
    choice : MidpointChoice or None
        How the middle is chosen; None if the interval is the bounds.
    """

    radius: float
    choice: MidpointChoice | None

    @property
    def widest(self) -> float:
        """Width of the interval around the middlemost of the points."""
        if self.choice is None:
            return self.span
        a, b = self._around(self.choice.points)
        return float((b - a).max())

    def interval(self, arrays: Floats, noise: NoiseSource) -> tuple[float, float]:
        """Return the interval around a middle chosen privately."""
        if self.choice is None:
            return self.lower, self.upper
        a, b = self._around(np.array(self.choice.draw(arrays, noise)))
        return float(a), float(b)

    def simulate_interval(
        self, arrays: Floats, generator: np.random.Generator, trials: int
    ) -> tuple[Floats, Floats]:
        """Return ends of many intervals distributed as those of `interval`."""
        if self.choice is None:
            return np.full(trials, self.lower), np.full(trials, self.upper)
        return self._around(self.choice.simulate(arrays, generator, trials))

    def _around(self, middle: Floats) -> tuple[Floats, Floats]:
        half = 1.5 * self.radius
        return np.maximum(middle - half, self.lower), np.minimum(middle + half, self.upper)


@dataclass(frozen=True, repr=False)
class Levy(Named):
    """The mean of array means projected to a private interval, plus Laplace noise of its width.

    Parameters
    ----------
    gamma : number
        The chance, above 0 and at most 1, that array means of independent samples leave the
        interval.
    grouping : str
        As for `ArrayAveraging`.
    cap : str or int
        As for `ArrayAveraging`.
    split : number
        The part of ε that finds the interval.

    Raises
    ------
    InputError
        If an argument is out of range or a word is unknown.

    Examples
    --------
    >>> plan = Levy().plan([100] * 50, bounds=(0, 8), epsilon=1)
    >>> round(plan.radius, 3), plan.choice.bins, round(plan.noise_scale, 4)
    (1.41, 6, 0.1692)
    """

    _always = ("gamma",)

    gamma: Number = 0.2
    grouping: GroupingRule = "best_fit"
    cap: CapRule | int = "sqrt"
    split: Number = "0.5"

    def __post_init__(self) -> None:
        check_rules(self.grouping, self.cap)
        check_part(to_fraction(self.split, "split"), "split")
        if not 0 < to_fraction(self.gamma, "gamma") <= 1:
            raise InputError(f"gamma must be above 0 and at most 1, got {self.gamma}.")

    def plan(self, counts: ArrayLike, *, bounds: object, epsilon: Number) -> LevyPlan:
        """Return the public plan of one cell: see `Mechanism.plan`."""
        cell = cell_facts(counts, bounds, epsilon)
        groups = group(cell, self.grouping, self.cap)
        odds = 2.0 * groups.n_arrays / float(to_fraction(self.gamma, "gamma"))
        part = math.sqrt(math.log(odds) / (2.0 * groups.cap))
        spent = cell.epsilon * to_fraction(self.split, "split") if part < 1.0 else Fraction(0)
        choice = None
        if spent:
            scale = selection_scale(groups.most_arrays, spent)
            choice = MidpointChoice(cell.lower, cell.upper, math.ceil(1.0 / part), scale)
        facts = cell.counts, cell.lower, cell.upper, cell.epsilon
        return LevyPlan(*facts, groups, cell.epsilon - spent, cell.span * part, choice)
