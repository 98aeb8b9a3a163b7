"""The steps of a release that look at values, as its manifest lists them.

Each with its largest cost to a user, rounded up, its share of the total, and its released outputs:
ranges, and a histogram. Outputs were drawn with noise, and are public. Under a δ squares of μ add
up, and each epsilon is that of one step alone; a choice is purely private, and so is its epsilon.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from hexveil.accounting.promise import of_amount
from hexveil.base.rational import decimal_text
from hexveil.ledger.unit_losses import PICO_EPSILON

if TYPE_CHECKING:
    from hexveil.planning.moment_component import MomentComponent


def privacy_steps(plan: MomentComponent) -> list[dict[str, Any]]:
    """Return each private step, its cost to the most exposed user, and its share."""
    if not plan.epsilon:
        return []
    total = of_amount(plan.booked_limit if plan.delta else plan.epsilon, plan.delta)
    made = []
    for step in plan.allocation.clipping.steps(plan, total.amount):
        epsilon, share = of_amount(step.cost, plan.delta).epsilon, float(step.cost / total.amount)
        square = {"squared_mu": float(step.cost)} if plan.delta else {}
        stated = (
            {"step": step.name, "epsilon": epsilon, "share": share} | square | dict(step.outputs)
        )
        made.append(_rounded_up(stated))
    return made


def _rounded_up(stated: Any) -> Any:  # noqa: ANN401  what a step states
    """Return the same with each epsilon as text, up to the ledger's precision: none too small."""
    if isinstance(stated, Fraction):
        return decimal_text(Fraction(math.ceil(stated * PICO_EPSILON), PICO_EPSILON))
    if isinstance(stated, dict):
        return {name: _rounded_up(one) for name, one in stated.items()}
    return [_rounded_up(one) for one in stated] if isinstance(stated, list) else stated
