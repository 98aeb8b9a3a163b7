"""ARRAY-AVERAGING: the average of the means of arrays of user means.

Source: IOT section III-C, RW section III; user means in the places as in IOT section IV-A.
The average is lo + Σ_l w_l (x̄_l - lo) with public weights w that sum to one: a user's places,
each divided by its array's samples and by the number of arrays. In integers user l contributes
floor(W s/m) with W = floor(2^26 w/max w), fewer bits where they would not fit 64, and the estimate
is (Σ + noise)/ΣW.

Neighbours: one user's values all change within the bounds; users and counts are public.
Sensitivity: W S, exactly (`linear_sum`); U max w of the estimate. At most U/K under either
grouping, where IOT prints 2U/K for WRAPAROUND (ERRATA 7).
Loss: ε for the user of largest weight, ε W/max W for the others.
Worst-case bias: U Σ max(m/N - w, 0), exact (ERRATA 8; IOT Lemma V.1 holds for full arrays only).
Rounding w to W and contributions down moves an estimate by less than 2^-24 U.

OPT-ARRAY-AVERAGING: BESTFIT arrays of the length that a worst-case error recommends.

Source: IOT and RW section VI. "minimax" minimises IOT eq. (15), which takes arrays as full, and
"minimax_std" RW eq. (4), where noise counts by its standard deviation (ERRATA 15); "surrogate"
minimises its convex stand-in of Lemma VI.2 as in ERRATA 6, rounded to the whole number of smaller
error, and "surrogate_printed" is the lemma's rule as printed, which misses that minimum.
Neighbours, integers, sensitivity, loss and bias: those of ARRAY-AVERAGING. The cap is computed
from public counts and ε, so it costs nothing: a rule that misses its minimum costs accuracy alone.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, get_args

import numpy as np

from hexveil.accounting.bias import linear_bias
from hexveil.accounting.pseudo_users import PseudoUsers
from hexveil.base.arrays import Floats, Ints
from hexveil.base.errors import InputError
from hexveil.mechanisms.contract import EstimateGrid, Outputs, ProvenError
from hexveil.mechanisms.single_cell.cell_allocation import (
    INT64_ROOM,
    LN20,
    TAIL_SCALES,
    CellAllocation,
    CellProblem,
)
from hexveil.mechanisms.single_cell.cell_mechanism import CellMechanism
from hexveil.mechanisms.single_cell.clipped_user_sums import LinearSum
from hexveil.mechanisms.single_cell.pseudo_user_means import (
    CapRule,
    GroupingRule,
    check_rules,
    group_users,
)

WEIGHT_BITS = 26
"""The largest weight is 2^26, unless sums or noise would not fit 64 bits."""


@dataclass(frozen=True, eq=False)
class ArrayAverage(CellAllocation):
    """The allocation of the module's head.

    Attributes
    ----------
    groups : PseudoUsers
        Which samples share an array: `.cap`, `.n_arrays`, `.weights`.
    total_weight : int
        ΣW.
    """

    groups: PseudoUsers
    total_weight: int

    def estimate(self, outputs: Outputs) -> Floats:
        """Return the estimates: see `CellAllocation.estimate`."""
        return np.asarray(outputs["mean"][:, 0] / self.total_weight)

    def sensitivity(self, width: float) -> float:
        """Return U max w."""
        return float(self.groups.user_sensitivity(width).max())

    def error(self, width: float) -> ProvenError:
        """Return the proven error: see `CellAllocation.error`."""
        bias = linear_bias(self.groups.weights, self.cell.counts, width)
        scale = self.sensitivity(width) / float(self.epsilon)
        return ProvenError(np.array([scale]), np.array([bias]), np.array([bias + scale * LN20]))

    def grid(self) -> EstimateGrid:
        """Return multiples of a quantum over ΣW."""
        return EstimateGrid(np.zeros(1), np.array([1.0 / self.total_weight]))


def integer_weights(weights: Floats, span: int, epsilon: Fraction) -> Ints:
    """Return W, from public weights w: 2^26 for the largest, fewer bits if that does not fit.

    Examples
    --------
    >>> from fractions import Fraction
    >>> integer_weights(np.array([0.5, 0.25]), 8, Fraction(1)).tolist() == [2**26, 2**25]
    True
    """
    relative = weights / weights.max()
    # Both the sum and its noise grow with the weights, and must stay within the room.
    room = INT64_ROOM / (span * (float(relative.sum()) + TAIL_SCALES / float(epsilon)))
    bits = max(min(WEIGHT_BITS, math.floor(math.log2(room))), 0)
    return np.asarray(np.floor(relative * 2.0**bits), dtype=np.int64)


@dataclass(frozen=True, repr=False)
class ArrayAveraging(CellMechanism):
    """The average of array means plus Laplace noise of scale U max w / ε.

    Parameters
    ----------
    grouping : {"best_fit", "wrap_around"}
        BESTFIT keeps a user's samples together; WRAPAROUND fills every array (IOT section III-A).
    cap : str or int
        Length of an array: "median" (IOT), "sqrt" (IOT eq. (9)), "minimax" (IOT eq. (15)),
        "minimax_std" (RW eq. (4): noise by its standard deviation), "surrogate" (Lemma VI.2 as in
        ERRATA 6), "surrogate_printed" (its rule as printed), "exact" (the least worst-case error of
        BESTFIT), or a number of samples.

    Raises
    ------
    InputError
        If a word is unknown, a cap is below 1, or "exact" is asked of WRAPAROUND.

    Examples
    --------
    >>> plan = ArrayAveraging(cap="sqrt").plan([9, 4, 1, 1], bounds=(0, 8), epsilon=1)
    >>> plan.allocation.groups.cap, plan.allocation.groups.n_arrays, plan.noise_scale
    (4, 3, 2.6666666666666665)
    """

    shown_always = ("grouping", "cap")

    grouping: GroupingRule = "best_fit"
    cap: CapRule | int = "median"

    def __post_init__(self) -> None:
        check_rules(self.grouping, self.cap)

    def allocate_cell(self, cell: CellProblem, epsilon: Fraction) -> ArrayAverage:
        """Return the allocation of one cell: see `CellMechanism.allocate_cell`."""
        groups = group_users(cell.counts, epsilon, self.grouping, self.cap)
        # Whole weights are public, and the estimate divides by their sum: they add no bias.
        weight = integer_weights(groups.weights, cell.span, epsilon)
        ends = np.zeros_like(weight), weight * cell.span
        stage = LinearSum("mean", cell.counts, weight, *ends, cell.span, epsilon)
        return ArrayAverage(cell, epsilon, (stage,), groups, int(weight.sum()))


Objective = Literal["minimax", "minimax_std", "surrogate", "surrogate_printed"]


@dataclass(frozen=True, repr=False)
class OptArrayAveraging(CellMechanism):
    """ArrayAveraging under BESTFIT, its cap chosen by worst-case error.

    Parameters
    ----------
    objective : {"minimax", "minimax_std", "surrogate", "surrogate_printed"}
        Error that the cap minimises: IOT eq. (15), RW eq. (4), Lemma VI.2; or the rule that
        Lemma VI.2 prints.

    Raises
    ------
    InputError
        If the objective is another word.

    Examples
    --------
    >>> plan = OptArrayAveraging().plan([6, 4, 3, 1], bounds=(0, 8), epsilon=2)
    >>> plan.allocation.groups.cap, plan.noise_scale
    (6, 1.3333333333333333)
    """

    shown_always = ("objective",)

    objective: Objective = "minimax"

    def __post_init__(self) -> None:
        if self.objective not in get_args(Objective):
            objectives = ", ".join(get_args(Objective))
            raise InputError(f"objective must be one of {objectives}; got {self.objective!r}.")

    def allocate_cell(self, cell: CellProblem, epsilon: Fraction) -> ArrayAverage:
        """Return the allocation of one cell: see `CellMechanism.allocate_cell`."""
        return ArrayAveraging("best_fit", self.objective).allocate_cell(cell, epsilon)
