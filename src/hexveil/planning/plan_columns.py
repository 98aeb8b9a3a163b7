"""Plans of several value columns: ε divided by predicted errors, or each within its targets.

Division of ε among value columns under private presence, on paper: from declarations alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

from hexveil.accounting.gaussian_composition import to_delta
from hexveil.accounting.promise import Promise, check_units, promised
from hexveil.base.errors import InputError
from hexveil.base.rational import to_positive_fraction
from hexveil.planning.distribution.plan_distribution import KINDS
from hexveil.planning.option_rules import by_column
from hexveil.planning.part import Part
from hexveil.planning.plan import Plan
from hexveil.planning.plan_arguments import PlanArguments
from hexveil.planning.presence.presence_plan import KINDS as PRESENCE_KINDS
from hexveil.planning.presence.presence_plan import PresencePart, plan_presence

if TYPE_CHECKING:
    from hexveil.model.declared_grid import ColumnFacts, DeclaredColumns


PartOf: TypeAlias = Callable[[Any, PlanArguments], Part]
"""The part of a plan for the statistics of one value column."""
USED = Fraction(99, 100)
"""Part of ε that the most exposed unit loses; below it ε is divided anew."""


def plan_columns(facts: ColumnFacts, options: PlanArguments, part_of: PartOf) -> Plan:
    """Return a plan of several value columns within one ε, or within targets; nothing is spent.

    ε is divided so that the weighted sum of predicted errors is least, each as a part of its
    column's span (of its square for variances; errors of shares as they are). Where the units most
    exposed in one column are less so in another, the exact sum of their losses leaves a rest, which
    the columns get in the same proportion. Under a δ squares of μ are divided in place of ε. With
    target errors nothing is divided: each column costs the least that meets its own.

    Raises
    ------
    InputError
        On a bad argument, named.
    """
    by_name = options.of_columns(facts.columns)
    if options.epsilon is None:
        return plan_within_targets(facts, by_name, part_of)
    weights, kinds = split_weights(options.weights, [*facts.columns])
    if kinds and not options.has_distribution:
        raise InputError(
            "weights of moments and distribution go with quantiles, shares or histograms in "
            "statistics; others are by value column."
        )
    requested = to_positive_fraction(options.epsilon, "epsilon")
    delta = to_delta(options.delta)
    check_units(delta, facts.n_units)
    promise = promised(requested, delta)

    def planned_column(column: str, part: Fraction) -> Part:
        of_column = replace(by_name[column], epsilon=part, weights=kinds)
        return part_of(facts.columns[column], of_column)

    shares = _divided(promise, weights, planned_column)

    def planned(times: Fraction) -> Plan:
        plans = {
            column: planned_column(column, promise.part(share * times).planned)
            for column, share in zip(weights, shares, strict=True)
        }
        return Plan(facts, plans, requested, weights, options.edition)

    column_plans = planned(Fraction(1))
    if not 0 < column_plans.booked_limit < USED * promise.amount:
        return column_plans
    # Losses are about proportional to ε, so that the rest can be used; never beyond the promise.
    larger = planned(promise.amount / column_plans.booked_limit * Fraction(999, 1000))
    return larger if larger.booked_limit <= promise.amount else column_plans


def _divided(
    promise: Promise, weights: Mapping[str, Fraction], planned: Callable[[str, Fraction], Part]
) -> list[Fraction]:
    """Return the share of each column, by the errors that they have at equal parts."""
    equal = promise.part(Fraction(1, len(weights))).planned
    errors = [planned(column, equal).relative_error for column in weights]
    return promise.divide([*weights.values()], errors)


def split_weights(
    weights: Mapping[str, Any] | None, names: Sequence[str], known: Sequence[str] = KINDS
) -> tuple[dict[str, Fraction], dict[str, Any] | None]:
    """Return the weight of each column, default 1, and weights of kinds of statistics.

    Parameters
    ----------
    weights : mapping or None
    names : sequence of str
        Value columns.
    known : sequence of str
        Kinds of statistics.

    Raises
    ------
    InputError
        If a weight is neither of a column nor of a kind, or not positive.
    """
    by_name = dict(weights or {})
    unknown = set(by_name) - {*names, *known}
    if unknown:
        raise InputError(
            f"weights has {min(unknown)!r}, which is no value column; name some of "
            f"{', '.join(names)}, or {', '.join(known[:-1])} and {known[-1]}."
        )
    columns = {column: to_positive_fraction(by_name.get(column, 1), "weights") for column in names}
    kinds = {name: weight for name, weight in by_name.items() if name not in names}
    return columns, kinds or None


def plan_within_targets(
    facts: ColumnFacts, by_name: Mapping[str, PlanArguments], part_of: PartOf
) -> Plan:
    """Return the plan of each column at the least loss within its own target errors.

    Raises
    ------
    InputError
        If δ is not below 1 over the units of all columns.
    """
    plans = {
        column: part_of(facts.columns[column], own_entry) for column, own_entry in by_name.items()
    }
    built = Plan(facts, plans, None, {}, next(iter(by_name.values())).edition)
    check_units(built.delta, facts.n_units)
    return built


def plan_declared_columns(facts: DeclaredColumns, options: PlanArguments) -> Plan:
    """Return a plan of several value columns with private presence; see `hexveil.plan`.

    The parts of ε add up to it exactly, or under a δ their squares of μ to no more than its own:
    any unit may have records in every column. Statistics and cap are those of each column, the
    fleet perhaps, where not every unit measures everything.

    Raises
    ------
    InputError
        On an argument that is missing or has no meaning here.
    """
    columns = [*facts.columns]
    baseline = by_column("baseline_error", options.baseline_error, columns)
    importance, kinds = split_weights(options.weights, columns, PRESENCE_KINDS)
    total = to_positive_fraction(options.epsilon or 0, "epsilon")
    declared = by_column("fleet", options.fleet, columns, is_complete=True)
    own_entry = replace(options, weights=kinds)

    def planned(column: str, budget: Fraction) -> PresencePart:
        asked = replace(
            own_entry, epsilon=budget, fleet=declared[column], baseline_error=baseline[column]
        )
        return plan_presence(facts.columns[column], asked)

    promise = promised(total, to_delta(options.delta))
    # Shares are of few digits: another processor divides ε alike, so that its request is the same.
    shares = _divided(promise, importance, planned)
    epsilons = dict(zip(importance, promise.epsilons(shares), strict=True))
    plans = {column: planned(column, budget) for column, budget in epsilons.items()}
    return Plan(facts, plans, total, importance, options.edition)
