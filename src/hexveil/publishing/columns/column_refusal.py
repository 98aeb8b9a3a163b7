"""Refusal of a release of several value columns by the budget, with the loss of each."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from hexveil.base.errors import BudgetError
from hexveil.planning.columns.column_plan import ColumnPlans
from hexveil.publishing.manifest import epsilon_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hexveil.publishing.distribution.releasable_plans import ReleasablePlan


@contextmanager
def with_column_costs(plan: ReleasablePlan) -> Iterator[None]:
    """Add the loss of each column within its target errors to the ledger's refusal of a booking.

    Where ε was divided among columns, all of them share one limit, and the refusal stays as it is.

    Raises
    ------
    BudgetError
        As the ledger does, with the costs.
    """
    try:
        yield
    except BudgetError as error:
        if not isinstance(plan, ColumnPlans) or plan.requested_epsilon is not None:
            raise
        costs = ", ".join(f"{name} {epsilon_text(own.epsilon)}" for name, own in plan.plans.items())
        message = f"{error} Target errors decide what each value column costs: {costs}."
        raise BudgetError(message, requested=error.requested, remaining=error.remaining) from None
