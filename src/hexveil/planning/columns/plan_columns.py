"""Plans of several value columns: ε divided by predicted errors, or each within its targets.

Division of ε among value columns under private presence, on paper: from declarations alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from hexveil.accounting.gaussian_composition import to_delta
from hexveil.accounting.promise import Promise, check_units, promised
from hexveil.base.errors import InputError
from hexveil.base.rational import Number, to_positive_fraction
from hexveil.planning.columns.column_options import ColumnOptions, baseline_errors
from hexveil.planning.distribution.plan_distribution import KINDS
from hexveil.planning.moment_options import one_limit
from hexveil.planning.part import Part
from hexveil.planning.plan import Plan
from hexveil.planning.presence.presence_plan import KINDS as PRESENCE_KINDS
from hexveil.planning.presence.presence_plan import PresencePart, plan_presence

if TYPE_CHECKING:
    from hexveil.model.column_facts import ColumnFacts, DeclaredColumns
    from hexveil.planning.presence.presence_request import FleetDeclaration


USED = Fraction(99, 100)
"""Part of ε that the most exposed unit loses; below it ε is divided anew."""


def plan_columns(
    facts: ColumnFacts,
    options: ColumnOptions,
    *,
    epsilon: Number | None,
    unused: Mapping[str, object] = MappingProxyType({}),
) -> Plan:
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

    def planned_column(column: str, part: Fraction) -> Part:
        return by_column[column].plan_column(facts.columns[column], part, kinds)

    shares = _divided(whole, weights, planned_column)

    def planned(times: Fraction) -> Plan:
        plans = {
            column: planned_column(column, whole.part(share * times).planned)
            for column, share in zip(weights, shares, strict=True)
        }
        return Plan(facts, plans, requested, weights, options.edition)

    column_plans = planned(Fraction(1))
    if not 0 < column_plans.booked_limit < USED * whole.amount:
        return column_plans
    # Losses are about proportional to ε, so that the rest can be used; never beyond the whole.
    larger = planned(whole.amount / column_plans.booked_limit * Fraction(999, 1000))
    return larger if larger.booked_limit <= whole.amount else column_plans


def _divided(
    whole: Promise, weights: Mapping[str, Fraction], planned: Callable[[str, Fraction], Part]
) -> list[Fraction]:
    """Return the share of each column, by the errors that they have at equal parts."""
    equal = whole.part(Fraction(1, len(weights))).planned
    errors = [planned(column, equal).relative_error for column in weights]
    return whole.divide([*weights.values()], errors)


def whole_epsilon(epsilon: Number | None) -> Fraction:
    """Return ε of all columns together."""
    if epsilon is None:
        raise InputError("several value columns are planned within epsilon; name it.")
    return to_positive_fraction(epsilon, "epsilon")


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


def plan_within_targets(facts: ColumnFacts, by_column: Mapping[str, ColumnOptions]) -> Plan:
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
    made = Plan(facts, plans, None, {}, next(iter(by_column.values())).edition)
    check_units(made.delta, facts.n_units)
    return made


def plan_declared_columns(  # noqa: PLR0913  the arguments of a public door
    facts: DeclaredColumns,
    *,
    epsilon: Number | None,
    fleet: FleetDeclaration | int | Mapping[str, FleetDeclaration | int] | None,
    statistics: Sequence[str] | str | None = None,
    weights: Mapping[str, Any] | None = None,
    user_cap: int | str | None = None,
    baseline_error: Number | Mapping[str, Number] | None = None,
    edition: str | None = None,
    delta: Number | None = None,
) -> Plan:
    """Return a plan of several value columns with private presence; see `hexveil.plan`.

    The parts of ε add up to it exactly, or under a δ their squares of μ to no more than its own:
    any unit may have records in every column.

    Parameters
    ----------
    facts : DeclaredColumns
    fleet : FleetDeclaration, int, or mapping of column to either
        Of each column, where not every unit measures everything.
    weights : mapping of str to number, optional
        Importance of each column, and of "users" beside other statistics; default 1.
    epsilon, statistics, user_cap, edition
        As `hexveil.plan` has them; statistics and cap are those of each column.
    baseline_error : number or mapping of column to number, optional
        Assumed error of one constant for all cells, for all columns or by column.
    delta : number, optional
        That of every column: squares of μ are divided in place of ε.

    Raises
    ------
    InputError
        On an argument that is missing or has no meaning here.
    """
    baseline = baseline_errors(baseline_error, [*facts.columns])
    importance, kinds = split_weights(weights, [*facts.columns], PRESENCE_KINDS)
    total, declared = whole_epsilon(epsilon), fleet_by_column(fleet, [*facts.columns])

    def planned(column: str, budget: Fraction) -> PresencePart:
        return plan_presence(
            facts.columns[column], epsilon=budget, fleet=declared[column], statistics=statistics,
            user_cap=user_cap, baseline_error=baseline[column], edition=edition, delta=delta,
            weights=kinds,
        )  # fmt: skip

    whole = promised(total, to_delta(delta))
    # Shares are of few digits: another processor divides ε alike, so that its request is the same.
    shares = _divided(whole, importance, planned)
    epsilons = dict(zip(importance, whole.epsilons(shares), strict=True))
    plans = {column: planned(column, budget) for column, budget in epsilons.items()}
    return Plan(facts, plans, total, importance, edition)


def fleet_by_column(
    fleet: FleetDeclaration | int | Mapping[str, FleetDeclaration | int] | None,
    columns: Sequence[str],
) -> dict[str, FleetDeclaration | int | None]:
    """Return the declared fleet of each column: one for all, or one for each.

    Raises
    ------
    InputError
        If a mapping leaves a column out, or names another.
    """
    if not isinstance(fleet, Mapping):
        return dict.fromkeys(columns, fleet)
    if strange := set(columns) ^ set(fleet):
        raise InputError(
            f"fleet must be one number for all value columns, or one for each of "
            f"{', '.join(columns)}; {min(strange)!r} is missing or none of them."
        )
    return dict(fleet)
