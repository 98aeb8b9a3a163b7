"""Lower bounds that certify plans: computed on demand, and stored with the plan."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from hexveil.planning.optimizers.mean_error import ObjectiveWeights
from hexveil.planning.optimizers.mean_error_bound import mean_error_lower_bound
from hexveil.planning.optimizers.user_factors import ClippingProblem, InverseScales
from hexveil.planning.plan_data import PlanData

if TYPE_CHECKING:
    from hexveil.base.arrays import Floats


PlanT = TypeVar("PlanT", bound=PlanData)


def with_lower_bound(plan: PlanT) -> PlanT:
    """Return the plan with its lower bound stored, computed if it is that of a mean error."""
    # The searches of minimax plans end with a bound; the search for a mean error has none at hand.
    if plan.bound_kind != "mean error" or plan.lower_bound is not None:
        return plan
    bound = compute_mean_error_bound(plan)
    return replace(plan, allocation=replace(plan.allocation, lower_bound=bound))


def compute_mean_error_bound(plan: PlanData) -> float:
    """Return a lower bound on the mean error of every plan of the joint plan's class."""
    return mean_error_lower_bound(
        ClippingProblem(plan.occupancy),
        ObjectiveWeights.of(plan.request, plan.span, plan.occupancy),
        float(plan.requested_epsilon),
        InverseScales(_inverse(plan.mean_noise), _inverse(plan.allocation.variance_noise)),
        plan.allocation.contribution_factor,
    )


def _inverse(noise: Floats) -> Floats:
    return np.divide(1.0, noise, out=np.zeros_like(noise), where=noise > 0)
