"""Plans of several value columns: ε divided by predicted errors, or each within its targets."""

from __future__ import annotations

from fractions import Fraction
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.accounting.gaussian_composition import to_delta
from hexveil.accounting.promise import check_units, promised
from hexveil.base.errors import InputError
from hexveil.base.rational import to_positive_fraction
from hexveil.planning.columns.column_plan import ColumnPlans, SingleColumnPlan
from hexveil.planning.distribution.distribution_plan import DistributionPlan
from hexveil.planning.distribution.plan_distribution import KINDS
from hexveil.planning.moments.moment_options import one_limit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hexveil.base.rational import Number
    from hexveil.model.column_facts import ColumnFacts
    from hexveil.model.public_metadata import PublicMetadata
    from hexveil.planning.columns.column_options import ColumnOptions


USED = Fraction(99, 100)
"""Part of ε that the most exposed unit loses; below it ε is divided anew."""


def plan_columns(
    facts: ColumnFacts,
    options: ColumnOptions,
    *,
    epsilon: Number | None,
    unused: Mapping[str, object] = MappingProxyType({}),
) -> ColumnPlans:
    """Return a plan of several value columns within one ε, or within targets; nothing is spent.

    ε is divided so that the weighted sum of predicted errors is least, each as a part of its
    column's span (of its square for variances; errors of shares as they are). Where the units most
    exposed in one column are less so in another, the exact sum of their losses leaves a rest, which
    the columns get in the same proportion. Under a δ squares of μ are divided in place of ε. With
    target errors nothing is divided: each column costs the least that meets its own.

    Parameters
    ----------
    facts : ColumnFacts
    options : ColumnOptions
    epsilon : number or None
        Largest loss of any unit over all columns; None with target errors.
    unused : mapping of str to object
        Options of `hexveil.plan` that have no meaning here, and what was given for them.

    Raises
    ------
    InputError
        On a bad argument, named.
    """
    options.check(unused)
    if (epsilon is None) == (options.options.target_error is None):
        raise one_limit()
    by_column = options.of_columns(facts)
    if epsilon is None:
        return plan_within_targets(facts, by_column)
    weights, kinds = split_weights(options.weights, [*facts.columns])
    requested = whole_epsilon(epsilon)
    delta = to_delta(options.options.delta)
    check_units(delta, facts.n_units)
    whole = promised(requested, delta)
    equal = whole.part(Fraction(1, len(facts.columns))).planned
    errors = [
        relative_error(by_column[column].plan_column(column_facts, equal, kinds), column_facts)
        for column, column_facts in facts.columns.items()
    ]
    divided = whole.divide([*weights.values()], errors)
    shares = dict(zip(weights, divided, strict=True))

    def planned(times: Fraction) -> ColumnPlans:
        plans = {
            column: by_column[column].plan_column(
                column_facts, whole.part(shares[column] * times).planned, kinds
            )
            for column, column_facts in facts.columns.items()
        }
        return ColumnPlans(facts, plans, requested, weights, options.edition)

    column_plans = planned(Fraction(1))
    if not 0 < column_plans.booked_limit < USED * whole.amount:
        return column_plans
    # Losses are about proportional to ε, so that the rest can be used; never beyond the whole.
    larger = planned(whole.amount / column_plans.booked_limit * Fraction(999, 1000))
    return larger if larger.booked_limit <= whole.amount else column_plans


def relative_error(plan: SingleColumnPlan, facts: PublicMetadata) -> float:
    """Return the predicted error of a column's statistics, without a unit of measure."""
    moments = plan.moment_plan if isinstance(plan, DistributionPlan) else plan
    error = 0.0
    if moments is not None:
        error = float(np.mean(moments.objective_errors()))
        if len(moments.request.noised) == 1:
            (noised,) = moments.request.noised
            error /= float(facts.lattice.span) ** (2 if noised == "variance" else 1)
    return error + (plan.expected_error["share"] if isinstance(plan, DistributionPlan) else 0.0)


def whole_epsilon(epsilon: Number | None) -> Fraction:
    """Return ε of all columns together."""
    if epsilon is None:
        raise InputError("several value columns are planned within epsilon; name it.")
    return to_positive_fraction(epsilon, "epsilon")


def split_weights(
    weights: Mapping[str, Any] | None, names: Sequence[str]
) -> tuple[dict[str, Fraction], dict[str, Any] | None]:
    """Return the weight of each column, default 1, and weights of kinds of statistics.

    Parameters
    ----------
    weights : mapping or None
    names : sequence of str
        Value columns.

    Raises
    ------
    InputError
        If a weight is neither of a column nor of a kind, or not positive.
    """
    by_name = dict(weights or {})
    unknown = set(by_name) - {*names, *KINDS}
    if unknown:
        raise InputError(
            f"weights has {min(unknown)!r}, which is no value column; name some of "
            f"{', '.join(names)}, or moments and distribution."
        )
    columns = {column: to_positive_fraction(by_name.get(column, 1), "weights") for column in names}
    kinds = {name: weight for name, weight in by_name.items() if name not in names}
    return columns, kinds or None


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
    check_units(made.delta, facts.n_units)
    return made
