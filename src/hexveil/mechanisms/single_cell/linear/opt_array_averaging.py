"""OPT-ARRAY-AVERAGING: BESTFIT arrays of the length that a worst-case error recommends.

Source: IOT and RW section VI. "minimax" minimises IOT eq. (15), which takes arrays as full;
"surrogate" its convex stand-in of Lemma VI.2, minimised as in ERRATA 6 and rounded to the whole
number of smaller error.
Neighbours, integers, sensitivity, loss and bias: those of `array_averaging`. The cap is computed
from public counts and ε, so it costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from hexveil.base.errors import InputError
from hexveil.mechanisms.single_cell.cell_mechanism import CellMechanism
from hexveil.mechanisms.single_cell.linear.array_averaging import ArrayAverage, ArrayAveraging

if TYPE_CHECKING:
    from fractions import Fraction

    from hexveil.mechanisms.single_cell.cell_allocation import CellProblem


@dataclass(frozen=True, repr=False)
class OptArrayAveraging(CellMechanism):
    """ArrayAveraging under BESTFIT, its cap chosen by worst-case error.

    Parameters
    ----------
    objective : {"minimax", "surrogate"}
        Error that the cap minimises.

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

    objective: Literal["minimax", "surrogate"] = "minimax"

    def __post_init__(self) -> None:
        if self.objective not in {"minimax", "surrogate"}:
            raise InputError(f'objective must be "minimax" or "surrogate", got {self.objective!r}.')

    def allocate_cell(self, cell: CellProblem, epsilon: Fraction) -> ArrayAverage:
        """Return the allocation of one cell: see `CellMechanism.allocate_cell`."""
        return ArrayAveraging("best_fit", self.objective).allocate_cell(cell, epsilon)
