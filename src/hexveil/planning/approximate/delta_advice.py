"""Gain of a δ, in one sentence: predicted errors of the plan as it is, and with a δ.

Public, and at no cost. A plan never takes a δ by itself: it is another promise.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hexveil.base.errors import InputError
from hexveil.base.rational import decimal_text
from hexveil.planning.approximate.gaussian_allocation import allocate_approximate
from hexveil.planning.guarantees.plan_errors import error_models
from hexveil.planning.request import WORTHWHILE, check_delta_request, usual_delta

if TYPE_CHECKING:
    from hexveil.planning.plan import Plan

MOST_PAIRS = 200_000
"""Pairs up to which a second plan takes no more than some seconds."""


def describe_delta_gain(plan: Plan) -> str | None:
    """Return the gain of a δ; None where a plan has one, can have none, or is large.

    Parameters
    ----------
    plan : Plan
    """
    occupancy = plan.occupancy
    if plan.delta or not plan.request.epsilon or not occupancy.is_local:
        return None
    if occupancy.local().n_pairs > MOST_PAIRS:
        return None
    delta = usual_delta(occupancy.n_users)
    problem = replace(plan.problem, request=replace(plan.request, delta=delta))
    try:
        check_delta_request(problem.request)
        models = error_models(problem, allocate_approximate(problem))
    except InputError:
        return None
    # Of several statistics, the first one's.
    model = next(iter(models.values()))
    of_statistic = f" of the {model.name}" if len(models) > 1 else ""
    error, pure = float(model.error.mean()), float(plan.primary_statistic.error.mean())
    expected = f"{error:.3g} expected at {decimal_text(delta)}, {pure:.3g} without"
    if error > pure:
        return f"errors{of_statistic} would be larger: {expected}."
    if error > WORTHWHILE * pure:
        return f"none would gain much: {expected}."
    return (
        f"at {decimal_text(delta)} an error{of_statistic} of {error:.3g} instead of {pure:.3g} is "
        "expected, for a weaker promise; it is taken only if you set delta."
    )
