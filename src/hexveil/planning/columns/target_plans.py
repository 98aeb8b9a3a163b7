"""Plans of several value columns within target errors: each column costs the least for its own.

Targets are independent limits on each column's plan, so the columns are planned apart. Loss of a
unit: the exact sum over the columns in which it has records, as of any plan of several columns
(`hexveil.planning.columns.column_plan`); the price is the largest of these sums. Under a δ it is
that of the largest sum of squares of μ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hexveil.accounting.gaussian_loss import check_delta
from hexveil.planning.columns.column_plan import ColumnPlans

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hexveil.model.column_facts import ColumnFacts
    from hexveil.planning.columns.column_options import ColumnOptions


def plan_within_targets(facts: ColumnFacts, by_column: Mapping[str, ColumnOptions]) -> ColumnPlans:
    """Return the plan of each column at the least loss within its own target errors.

    Parameters
    ----------
    facts : ColumnFacts
    by_column : mapping of str to ColumnOptions
        Checked options of each column, with its targets.

    Raises
    ------
    InputError
        If δ is not below 1 over the units of all columns.
    """
    plans = {
        column: options.plan_column(facts.columns[column], None, None)
        for column, options in by_column.items()
    }
    made = ColumnPlans(facts, plans, None, {}, next(iter(by_column.values())).edition)
    if made.delta:
        check_delta(float(made.delta), facts.n_units)
    return made
