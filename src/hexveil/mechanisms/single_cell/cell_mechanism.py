"""Base of mechanisms of one cell: an allocation from public facts, a name, a study's plan."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from hexveil.base.errors import InputError
from hexveil.mechanisms.single_cell.cell_allocation import check_epsilon, study_cell
from hexveil.mechanisms.single_cell.cell_plan import CellPlan

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import ArrayLike

    from hexveil.base.rational import Number
    from hexveil.mechanisms.single_cell.cell_allocation import CellAllocation, CellProblem


class CellMechanism(ABC):
    """An algorithm for the mean of one cell; a frozen data class of its options.

    It shows itself as constructed, options at their default left out: `registry.parse` reads that
    text back.
    """

    shown_always: ClassVar[tuple[str, ...]] = ()
    shown_by_position: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def allocate_cell(self, cell: CellProblem, epsilon: Fraction) -> CellAllocation:
        """Return the allocation of one cell, from public facts alone.

        Parameters
        ----------
        cell : CellProblem
        epsilon : Fraction
            The cell's loss.
        """

    def choose(self, cell: CellProblem, epsilon: Fraction) -> str:  # noqa: ARG002  here none
        """Return the choice that predicted errors make from public facts, as text; "" for none.

        Predictions differ between processors in their last digits, so that a plan stores its
        choices instead of making them again.
        """
        return ""

    def allocate_chosen(self, cell: CellProblem, epsilon: Fraction, choice: str) -> CellAllocation:
        """Return the allocation of one cell with a choice that `choose` made; its loss is ε.

        Raises
        ------
        InputError
            If this mechanism makes no such choice.
        """
        if choice:
            raise unknown_choice(self.name)
        return self.allocate_cell(cell, epsilon)

    def chosen_name(self, choice: str) -> str:  # noqa: ARG002  here itself
        """Return the name of the mechanism that a choice takes."""
        return self.name

    def plan(self, counts: ArrayLike, *, bounds: object, epsilon: Number) -> CellPlan:
        """Return the public plan of one cell in value units, for a study.

        Parameters
        ----------
        counts : array_like of int, shape (n_users,)
            Samples per user, each >= 1. Public.
        bounds : pair of numbers
            Lower and upper bound of a value, in value units.
        epsilon : number
            The cell's loss.

        Raises
        ------
        InputError
            On counts below 1, reversed or infinite bounds, an epsilon not above zero.
        """
        cell, loss = study_cell(counts, bounds), check_epsilon(epsilon)
        return CellPlan(self.allocate_cell(cell, loss))

    @property
    def name(self) -> str:
        """As constructed, for tables."""
        itself: Any = self  # every mechanism is a data class
        options = []
        for field in dataclasses.fields(itself):
            value = getattr(self, field.name)
            text = f'"{value}"' if isinstance(value, str) else repr(value)
            if field.name in self.shown_by_position:
                options.append(text)
            elif field.name in self.shown_always or value != field.default:
                options.append(f"{field.name}={text}")
        return f"{type(self).__name__}({', '.join(options)})"

    def __repr__(self) -> str:
        return self.name


def unknown_choice(name: str) -> InputError:
    """Return the refusal of a choice that a mechanism never makes."""
    return InputError(f"the plan has a choice that {name} does not make; plan and save again.")
