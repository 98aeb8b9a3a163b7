"""Ways to measure a distribution beside each other: the same statistics at the same ε.

Predictions from public facts alone; nothing is spent. Each way has its own split of ε between
means and the distribution, by its own predicted errors.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hexveil.base.errors import InputError
from hexveil.base.rational import decimal_text
from hexveil.model.statistic_terms import Share
from hexveil.planning.approximate.delta_advice import MOST_PAIRS
from hexveil.planning.distribution.plan_distribution import plan_distribution
from hexveil.planning.request import WORTHWHILE, usual_delta

if TYPE_CHECKING:
    from fractions import Fraction

    from hexveil.model.statistic_terms import Estimator
    from hexveil.planning.distribution.distribution_plan import DistributionPlan


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
    estimators: tuple[Estimator, ...] = ("ranks", "bins", *(("auto",) if has_indicator else ()))
    candidates = [
        with_estimator(plan, estimator, plan.requested_epsilon) for estimator in estimators
    ]
    rows = []
    for candidate in candidates:
        errors = dict(candidate.expected_error)
        share_error = errors.pop("share")
        is_chosen = candidate.estimator == plan.estimator
        rows.append(
            EstimatorErrors(
                candidate.estimator, is_chosen, float(candidate.epsilon), share_error, errors
            )
        )
    return tuple(sorted(rows, key=lambda row: row.share_error))


def describe_gain_of_delta(plan: DistributionPlan) -> str | None:
    """Return the predicted gain by a δ in one sentence; None where a plan has or can have none.

    Public, and at no cost. A plan never takes a δ by itself: it is another promise.
    """
    occupancy = plan.occupancy
    if plan.delta or occupancy.n_pairs > MOST_PAIRS or not occupancy.is_local:
        return None
    delta = usual_delta(plan.occupancy.n_users)
    try:
        with_delta = with_estimator(plan, plan.requested_estimator, plan.requested_epsilon, delta)
    except InputError:
        return None  # variances, or so small an epsilon that nothing could be measured
    error, pure = with_delta.expected_error["share"], plan.expected_error["share"]
    delta_text = decimal_text(delta)
    if error > WORTHWHILE * pure:
        return (
            f"none would gain much: a share off by {error:.2g} at {delta_text}, by {pure:.2g} "
            "without."
        )
    return (
        f"at {delta_text} a share is expected to be off by {error:.2g} instead of {pure:.2g}, for "
        "a weaker promise; it is taken only if you set delta."
    )


def with_estimator(
    plan: DistributionPlan, estimator: Estimator, epsilon: Fraction, delta: Fraction | None = None
) -> DistributionPlan:
    """Return the plan of the same statistics, measured in one way, within another ε, perhaps δ."""
    weights = plan.weights if plan.moments else None
    replanned = plan_distribution(
        plan.facts,
        statistics=plan.statistics,
        epsilon=epsilon,
        weights=weights,
        estimator=estimator,
        delta=delta or plan.delta or None,
    )
    return replace(replanned, edition=plan.edition)
