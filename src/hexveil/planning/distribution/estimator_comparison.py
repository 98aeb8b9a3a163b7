"""Ways to measure a distribution beside each other: the same statistics at the same ε.

Predictions from public facts alone; nothing is spent. Each way has its own split of ε between
means and the distribution, by its own predicted errors.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hexveil.model.statistic_terms import Share
from hexveil.planning.distribution.plan_distribution import plan_distribution

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
    asked: tuple[Estimator, ...] = ("ranks", "bins", *(("auto",) if has_indicator else ()))
    made = [with_estimator(plan, one, plan.requested_epsilon) for one in asked]
    rows = []
    for one in made:
        errors = dict(one.expected_error)
        share_error = errors.pop("share")
        is_chosen = one.estimator == plan.estimator
        rows.append(
            EstimatorErrors(one.estimator, is_chosen, float(one.epsilon), share_error, errors)
        )
    return tuple(sorted(rows, key=lambda row: row.share_error))


def with_estimator(
    plan: DistributionPlan, estimator: Estimator, epsilon: Fraction
) -> DistributionPlan:
    """Return the plan of the same statistics, measured in one way, within another ε."""
    weights = plan.weights if plan.moments else None
    made = plan_distribution(
        plan.facts,
        statistics=plan.statistics,
        epsilon=epsilon,
        weights=weights,
        estimator=estimator,
        delta=plan.delta or None,
    )
    return replace(made, edition=plan.edition)
