"""Division of ε among value columns under private presence, on paper: from declarations alone."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from hexveil.accounting.gaussian_composition import to_delta
from hexveil.accounting.promise import promised
from hexveil.base.errors import InputError
from hexveil.planning.columns.column_plan import DeclaredColumnPlans
from hexveil.planning.columns.column_statements import baseline_errors
from hexveil.planning.columns.plan_columns import split_weights, whole_epsilon
from hexveil.planning.presence.counted_request import CountedPrediction
from hexveil.planning.presence.presence_plan import PresencePlan, plan_presence
from hexveil.planning.presence.presence_prediction import UnitCountPrediction
from hexveil.planning.presence.shape_prediction import ShapePrediction

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexveil.base.rational import Number
    from hexveil.model.column_facts import DeclaredColumns
    from hexveil.planning.presence.presence_request import FleetDeclaration


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
) -> DeclaredColumnPlans:
    """Return a plan of several value columns with private presence; see `hexveil.plan`.

    The parts of ε add up to it exactly, or under a δ their squares of μ to no more than its own:
    any unit may have records in every column.

    Parameters
    ----------
    facts : DeclaredColumns
    fleet : FleetDeclaration, int, or mapping of column to either
        Of each column, where not every unit measures everything.
    weights : mapping of str to number, optional
        Importance of each column, default 1.
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
    importance, kinds = split_weights(weights, [*facts.columns])
    if kinds:
        raise InputError(
            f'weights: {min(kinds)!r} has no meaning with protect="presence", where all '
            "statistics of a column come from one measurement; name value columns."
        )
    total, declared = whole_epsilon(epsilon), fleet_by_column(fleet, [*facts.columns])

    def planned(column: str, budget: Fraction) -> PresencePlan:
        return plan_presence(
            facts.columns[column], epsilon=budget, fleet=declared[column], statistics=statistics,
            user_cap=user_cap, baseline_error=baseline[column], edition=edition, delta=delta,
        )  # fmt: skip

    whole = promised(total, to_delta(delta))
    equal = whole.part(Fraction(1, len(facts.columns))).planned
    errors = [relative_error_on_paper(planned(column, equal)) for column in importance]
    # Shares are of few digits: another processor divides ε alike, so that its request is the same.
    shares = whole.divide([*importance.values()], errors)
    epsilons = dict(zip(importance, whole.epsilons(shares), strict=True))
    plans = {column: planned(column, budget) for column, budget in epsilons.items()}
    return DeclaredColumnPlans(facts, plans, total, importance, edition)


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


def relative_error_on_paper(plan: PresencePlan) -> float:
    """Return the predicted error of a column's statistics, without a unit of measure.

    Of averages and medians as a part of the span, of shares as they are, of numbers of units as a
    part of what a cell typically has.
    """
    prediction, span = plan.prediction, float(plan.facts.lattice.span)
    counts = 0.0
    if isinstance(prediction, CountedPrediction):
        counts = prediction.counts.count_error / prediction.counts.typical_count
        prediction = prediction.statistics
    match prediction:
        case UnitCountPrediction():
            return prediction.count_error / prediction.typical_count
        case ShapePrediction():
            return counts + prediction.quantile_error / span + prediction.share_error
        case _:
            return counts + prediction.mean_error / span
