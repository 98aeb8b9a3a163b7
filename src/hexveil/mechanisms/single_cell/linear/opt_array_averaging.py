"""OPT-ARRAY-AVERAGING: BESTFIT arrays of the length that a worst-case error recommends.

Source: IOT and RW section VI. "minimax" minimises IOT eq. (15), which takes arrays as full, and
"minimax_std" RW eq. (4), where noise counts by its standard deviation (ERRATA 15); "surrogate"
minimises its convex stand-in of Lemma VI.2 as in ERRATA 6, rounded to the whole number of smaller
error, and "surrogate_printed" is the lemma's rule as printed, which misses that minimum.
Neighbours, integers, sensitivity, loss and bias: those of `array_averaging`. The cap is computed
from public counts and ε, so it costs nothing: a rule that misses its minimum costs accuracy alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from hexveil.base.errors import InputError
from hexveil.mechanisms.single_cell.cell_mechanism import CellMechanism
from hexveil.mechanisms.single_cell.linear.array_averaging import ArrayAverage, ArrayAveraging

if TYPE_CHECKING:
    from fractions import Fraction

    from hexveil.mechanisms.single_cell.cell_allocation import CellProblem

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
