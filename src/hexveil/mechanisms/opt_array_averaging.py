"""OPT-ARRAY-AVERAGING: BESTFIT arrays of the length that a worst-case error recommends.

Source: IOT and RW section VI. "minimax" minimises IOT eq. (15), which takes arrays as full;
"surrogate" its convex stand-in of Lemma VI.2, minimised as in ERRATA 6 and rounded to the whole
number of smaller error.
Neighbours, sensitivity, loss and bias: those of `ArrayAveraging`. The cap is worked out from
public counts and ε, so it costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from hexveil.base.errors import InputError
from hexveil.mechanisms.array_averaging import ArrayAveraging, ArrayPlan
from hexveil.mechanisms.single_cell_plan import Named

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from hexveil.base.rational import Number


@dataclass(frozen=True, repr=False)
class OptArrayAveraging(Named):
    """ArrayAveraging under BESTFIT, its cap chosen by worst-case error.

    Parameters
    ----------
    objective : {"minimax", "surrogate"}
        What the cap minimises.

    Raises
    ------
    InputError
        If the objective is another word.

    Examples
    --------
    >>> plan = OptArrayAveraging().plan([6, 4, 3, 1], bounds=(0, 8), epsilon=2)
    >>> plan.groups.cap, plan.noise_scale
    (6, 1.3333333333333333)
    """

    _always = ("objective",)

    objective: Literal["minimax", "surrogate"] = "minimax"

    def __post_init__(self) -> None:
        if self.objective not in {"minimax", "surrogate"}:
            raise InputError(f'objective must be "minimax" or "surrogate", got {self.objective!r}.')

    def plan(self, counts: ArrayLike, *, bounds: object, epsilon: Number) -> ArrayPlan:
        """Return the public plan of one cell: see `Mechanism.plan`."""
        return ArrayAveraging("best_fit", self.objective).plan(
            counts, bounds=bounds, epsilon=epsilon
        )
