"""Plans of one request with some of its fields changed, and what is said of them.

Predictions from public facts alone; nothing is spent. A plan never takes a δ by itself: it is
another promise. Ways to measure a distribution have a split of ε of their own each, between means
and the distribution, by their own predicted errors.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

from hexveil.base.errors import InputError
from hexveil.base.rational import decimal_text
from hexveil.model.statistic_terms import Share
from hexveil.planning.approximate.delta_request import WORTHWHILE, check_delta_request, usual_delta
from hexveil.planning.methods import allocate
from hexveil.planning.plan import Plan

if TYPE_CHECKING:
    from fractions import Fraction

    from hexveil.planning.distribution.distribution_plan import DistributionPlan

AnyPlan = TypeVar("AnyPlan", bound="Plan | DistributionPlan")

MOST_PAIRS = 200_000
"""Pairs up to which a second plan takes no more than some seconds."""


def alternative(plan: AnyPlan, **changes: Any) -> AnyPlan:  # noqa: ANN401  fields of a request
    """Return the plan of the same request with some of its fields changed.

    Raises
    ------
    InputError
        If what is then asked for cannot be planned.
    """
    if isinstance(plan, Plan):
        request = replace(plan.request, **changes)
        allocation = allocate(replace(plan.problem, request=request))
        return cast("AnyPlan", replace(plan, allocation=allocation, request=request))
    from hexveil.planning.distribution.plan_distribution import (  # noqa: PLC0415  for these alone
        plan_distribution,
    )

    asked: dict[str, Any] = {
        "statistics": plan.statistics,
        "epsilon": plan.requested_epsilon,
        "weights": plan.weights if plan.moments else None,
        "estimator": plan.requested_estimator,
        "delta": plan.delta or None,
    }
    other = plan_distribution(plan.facts, **asked | changes)
    return cast("AnyPlan", replace(other, edition=plan.edition))


def at_loss(plan: Plan, loss: Fraction) -> Plan:
    """Return the same request at another loss."""
    free = {"target": None, "clip_user": "improved", "cell_epsilon": None}
    return alternative(plan, epsilon=loss, **free)


def describe_delta_gain(plan: Plan | DistributionPlan) -> str | None:
    """Return the gain of a δ in one sentence; None where a plan has or can have none, or is large.

    Of several means and variances, the first one's; of a distribution, a share's.
    """
    occupancy = plan.occupancy
    if plan.delta or not occupancy.is_local or occupancy.n_pairs > MOST_PAIRS:
        return None
    if isinstance(plan, Plan) and not plan.request.epsilon:
        return None
    delta = usual_delta(occupancy.n_users)
    try:
        if isinstance(plan, Plan):
            check_delta_request(replace(plan.request, delta=delta))
        error, pure = (_judged_error(one) for one in (alternative(plan, delta=delta), plan))
    except InputError:
        return None  # what δ does not go with, or so small an ε that nothing could be measured
    several = isinstance(plan, Plan) and len(plan.error_models) > 1
    noun = plan.primary_statistic.name if isinstance(plan, Plan) else "share"
    return delta_sentence(
        decimal_text(delta), f"{error:.3g}", f"{pure:.3g}", error / pure,
        f" of the {noun}" if several or noun == "share" else "",
    )  # fmt: skip


def delta_sentence(delta: str, error: str, pure: str, ratio: float, of: str = "") -> str:
    """Return the gain of a δ in one sentence: predicted errors with it and without."""
    expected = f"{error} expected at {delta}, {pure} without"
    if ratio > 1.0:
        return f"errors{of} would be larger: {expected}."
    if ratio > WORTHWHILE:
        return f"none would gain much: {expected}."
    return (
        f"at {delta} an error{of} of {error} instead of {pure} is expected, for a weaker promise; "
        "it is taken only if you set delta."
    )


def _judged_error(plan: Plan | DistributionPlan) -> float:
    if isinstance(plan, Plan):
        return float(plan.primary_statistic.error.mean())
    return plan.expected_error["share"]


@dataclass(frozen=True)
class EstimatorErrors:
    """Predicted errors of a plan that measures the distribution in one way.

    Attributes
    ----------
    estimator : "indicator", "ranks" or "bins"
    is_chosen : bool
        Whether it is that of the plan compared.
    epsilon : float
        Loss of the most exposed unit.
    share_error : float
        Predicted error of a share of records, on average over cells.
    moment_errors : dict of str to float
        Predicted errors of means and variances, on average over cells.
    """

    estimator: str
    is_chosen: bool
    epsilon: float
    share_error: float
    moment_errors: dict[str, float] = field(default_factory=dict)


def compare_estimators(plan: DistributionPlan) -> tuple[EstimatorErrors, ...]:
    """Return the predicted errors of each way, the most accurate share first."""
    # A single share has a way of its own, which no option names.
    has_indicator = len(plan.terms) == 1 and isinstance(plan.terms[0], Share)
    rows = []
    for estimator in ("ranks", "bins", *(("auto",) if has_indicator else ())):
        candidate = alternative(plan, estimator=estimator)
        moment_errors = dict(candidate.expected_error)
        share_error, found = moment_errors.pop("share"), candidate.estimator
        is_chosen = found == plan.estimator
        rows.append(
            EstimatorErrors(found, is_chosen, float(candidate.epsilon), share_error, moment_errors)
        )
    return tuple(sorted(rows, key=lambda row: row.share_error))
