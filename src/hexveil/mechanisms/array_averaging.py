"""ARRAY-AVERAGING: user means in arrays of one length, whose means are averaged.

Source: IOT section III-C, RW section III; user means in the places as in IOT section IV-A.
The estimate is lo + Σ_l w_l (x̄_l - lo) with public weights w that sum to one: a user's places,
each divided by its array's samples and by the number of arrays.
Neighbours: one user's values all change within the bounds; users and counts are public.
Sensitivity: U max w, since x̄_l moves by at most U and moves the estimate by w_l of it; exact. At
most U/K under either grouping, where IOT prints 2U/K for WRAPAROUND (ERRATA 7).
Loss: ε for the user of largest weight, ε w/max w for the others (Laplace mechanism).
Worst-case bias: U Σ max(m/N - w, 0), exact (ERRATA 8; IOT Lemma V.1 holds for full arrays only).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hexveil.accounting.bias import linear_bias
from hexveil.mechanisms.arrays import CapRule, GroupingRule, check_rules, group
from hexveil.mechanisms.single_cell_plan import CellFacts, LaplacePlan, Named, cell_facts

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from hexveil.accounting.pseudo_users import PseudoUsers
    from hexveil.base.rational import Number


@dataclass(frozen=True, eq=False)
class ArrayPlan(LaplacePlan):
    """The public plan of an average of array means; every figure in value units.

    Attributes
    ----------
    groups : PseudoUsers
        Which samples share an array: `.cap`, `.n_arrays`, `.weights`.
    """

    groups: PseudoUsers

    @property
    def sensitivity(self) -> float:
        """Largest change of the noiseless estimate when one user's values change."""
        return float(self.groups.user_sensitivity(self.span).max())

    @property
    def worst_case_bias(self) -> float:
        """Largest |expected estimate - true mean| over all values."""
        return linear_bias(self.groups.weights, self.counts, self.span)

    def noiseless(self, means: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return lo + Σ w (user mean - lo)."""
        return np.asarray(self.lower + (means - self.lower) @ self.groups.weights, dtype=np.float64)


@dataclass(frozen=True, repr=False)
class ArrayAveraging(Named):
    """The average of array means plus Laplace noise of scale U max w / ε.

    Parameters
    ----------
    grouping : {"best_fit", "wrap_around"}
        BESTFIT keeps a user's samples together; WRAPAROUND fills every array (IOT section III-A).
    cap : {"median", "sqrt", "minimax", "surrogate", "exact"} or int
        Length of an array: IOT's median, eq. (9) and eq. (15), Lemma VI.2 as in ERRATA 6, the
        least worst-case error of BESTFIT, or a number of samples.

    Raises
    ------
    InputError
        If a word is unknown, a cap is below 1, or "exact" is asked of WRAPAROUND.

    Examples
    --------
    >>> plan = ArrayAveraging(cap="sqrt").plan([9, 4, 1, 1], bounds=(0, 8), epsilon=1)
    >>> plan.groups.cap, plan.groups.n_arrays, plan.noise_scale
    (4, 3, 2.6666666666666665)
    """

    _always = ("grouping", "cap")

    grouping: GroupingRule = "best_fit"
    cap: CapRule | int = "median"

    def __post_init__(self) -> None:
        check_rules(self.grouping, self.cap)

    def plan(self, counts: ArrayLike, *, bounds: object, epsilon: Number) -> ArrayPlan:
        """Return the public plan of one cell: see `Mechanism.plan`."""
        return _plan(cell_facts(counts, bounds, epsilon), self.grouping, self.cap)


def _plan(cell: CellFacts, grouping: GroupingRule, cap: CapRule | int) -> ArrayPlan:
    groups = group(cell, grouping, cap)
    return ArrayPlan(cell.counts, cell.lower, cell.upper, cell.epsilon, groups)
