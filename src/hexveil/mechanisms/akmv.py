"""AKMV: user sums projected to [0, T], T an extreme of them found privately.

Source: Amin, Kulesza, Munoz and Vassilvitskii (2019) as adapted in WC section IV-A; the rank is
⌈1/ε''⌉ (ERRATA 14). Sums count from the lower bound: S_l = m_l (x̄_l - lo), at most U m_l.
Neighbours: one user's values all change within the bounds; users and counts are public.
Choice: T from a public grid on [0, U m*]; cost |sums at or below T - (L - r)|, r the rank, L the
users; one user moves one sum, so its sensitivity is 1. Loss: ε' by permute-and-flip.
Estimate: lo + Σ min(S_l, T) / N; one user moves it by at most T/N, so noise of scale T/(ε'' N)
loses ε''. In all ε' + ε'' = ε by composition: the second step holds for every T. With T = 0 the
lower bound is published as it is.
The sums are clipped from above only, so the estimate leans to the lower bound; its worst-case bias
depends on T, which is random, and has no closed form.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hexveil.base.rational import Number, to_fraction
from hexveil.mechanisms.clipped_range import projected_mean
from hexveil.mechanisms.selection import (
    CANDIDATES,
    RankChoice,
    check_candidates,
    check_part,
    selection_scale,
)
from hexveil.mechanisms.single_cell_plan import LN20, CellFacts, Named, cell_facts

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import ArrayLike, NDArray

    from hexveil.mechanisms.cell_plan import NoiseSource

    Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class AKMVPlan(CellFacts):
    """The public plan of AKMV; every figure in value units.

    `sensitivity` and `noise_scale` are those of the largest T there is; a release fits them to the
    T it finds. `worst_case_bias` and `worst_case_error` are None.

    Attributes
    ----------
    mean_epsilon : Fraction
        ε'', the part of ε that pays for the noise; the rest finds T.
    choice : RankChoice
        How T is found.
    """

    mean_epsilon: Fraction
    choice: RankChoice

    @property
    def sensitivity(self) -> float:
        """Largest change of the noiseless estimate, for the largest T: U m*/N."""
        return self.choice.upper / self.total

    @property
    def noise_scale(self) -> float:
        """Largest Laplace scale that can occur."""
        return self.sensitivity / float(self.mean_epsilon)

    @property
    def worst_case_bias(self) -> None:
        """None: it depends on a threshold that is random."""

    @property
    def worst_case_error(self) -> None:
        """None: it depends on a threshold that is random."""

    @property
    def bound95(self) -> float:
        """U plus 95 percent of the noise: holds for all values, and is far from tight."""
        return self.span + self.noise_scale * LN20

    def release(self, user_means: ArrayLike, noise: NoiseSource) -> float:
        """Return one estimate, for study: see `CellPlan.release`."""
        sums = self._sums(self.means(user_means))
        top = self.choice.draw(sums, noise)
        if not top:
            return self.lower
        estimate = self.lower + float(np.minimum(sums, top).sum()) / self.total
        return estimate + noise.laplace(top / self.total / float(self.mean_epsilon))

    def simulate(
        self, user_means: ArrayLike, generator: np.random.Generator, trials: int
    ) -> Floats:
        """Return many estimates distributed as those of `release`: see `CellPlan.simulate`."""
        sums = self._sums(self.means(user_means, trials))
        top = self.choice.simulate(sums, generator, trials)
        kept = projected_mean(sums, np.zeros(trials), top) * (self.counts.size / self.total)
        scales = top / self.total / float(self.mean_epsilon)
        return self.lower + kept + generator.laplace(0.0, 1.0, trials) * scales

    def _sums(self, means: Floats) -> Floats:
        return (means - self.lower) * self.counts


@dataclass(frozen=True, repr=False)
class AKMV(Named):
    """The mean of user sums projected to [0, T], T private, plus Laplace noise of its width.

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
    >>> plan.choice.upper, plan.choice.target, plan.choice.scale
    (32.0, 1, 4.0)
    """

    _always = ("split",)

    split: Number = "0.5"
    candidates: int = CANDIDATES

    def __post_init__(self) -> None:
        check_part(to_fraction(self.split, "split"), "split")
        check_candidates(self.candidates)

    def plan(self, counts: ArrayLike, *, bounds: object, epsilon: Number) -> AKMVPlan:
        """Return the public plan of one cell: see `Mechanism.plan`."""
        cell = cell_facts(counts, bounds, epsilon)
        spent = cell.epsilon * to_fraction(self.split, "split")
        rank = math.ceil(1 / (cell.epsilon - spent))
        top = cell.span * float(cell.counts.max())
        target = max(cell.counts.size - rank, 0)
        choice = RankChoice(0.0, top, self.candidates, target, selection_scale(1, spent))
        facts = cell.counts, cell.lower, cell.upper, cell.epsilon
        return AKMVPlan(*facts, cell.epsilon - spent, choice)
