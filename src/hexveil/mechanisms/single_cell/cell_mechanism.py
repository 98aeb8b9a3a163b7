"""Base of mechanisms of one cell: an allocation from public facts, a name, a study's plan."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

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
