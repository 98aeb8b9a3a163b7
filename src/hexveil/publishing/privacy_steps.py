"""The steps of a release that look at values, as its manifest lists them.

Each with what it costs the most exposed user of that step, rounded up, its part of all that is
spent, and what it found: ranges, and the strategy (planning/clipping_range/two_stage.py).
Found numbers were drawn with noise, and are public.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.base.rational import decimal_text
from hexveil.ledger.unit_losses import PICO_EPSILON
from hexveil.mechanisms.released_ranges import FIRST_STAGE_SHARE, RESIDUAL_QUANTILE
from hexveil.planning.allocation import PrivateRange, TwoStageRange, WithinBounds
from hexveil.planning.clipping_range.private_range import to_value_units

if TYPE_CHECKING:
    from hexveil.planning import Plan
    from hexveil.planning.clipping_range.private_range import PrivateClippingRange
    from hexveil.planning.clipping_range.two_stage_plan import TwoStagePlan


def privacy_steps(plan: Plan) -> list[dict[str, Any]]:
    """Return each private step, its cost to the most exposed user, and its share."""
    spent = plan.epsilon
    if not spent:
        return []
    match plan.allocation.clipping:
        case WithinBounds():
            return [_step("cells", spent, spent)]
        case PrivateRange(interval):
            ends = interval.ends_in_units(float(plan.lower[0]), float(plan.span[0]))
            range_step = _range_step(plan, interval, interval.widening, ends)
            cells = _step("cells", spent - interval.epsilon, spent)
            return [range_step | _radius(plan, interval), cells | _split(plan)]
        case TwoStageRange(interval, steps):
            return _two_stage_steps(plan, interval, steps)


def _range_step(
    plan: Plan, interval: PrivateClippingRange, stretch: Fraction, ends: tuple[float, float]
) -> dict[str, Any]:
    """Return the choice of the range, and the range that was used."""
    return {
        "step": "clipping_range",
        "epsilon": decimal_text(interval.epsilon),
        "share": float(interval.epsilon / plan.epsilon),
        "quantiles": [decimal_text(quantile) for quantile in interval.quantiles],
        "widening": decimal_text(stretch),
        "lower": ends[0],
        "upper": ends[1],
    }


def _in_units(plan: Plan, ends: tuple[int, int], steps: int) -> tuple[float, float]:
    """Return ends in value units."""
    bounds = float(plan.lower[0]), float(plan.span[0])
    low, high = (to_value_units(end, steps, *bounds) for end in ends)
    return low, high


def _two_stage_steps(
    plan: Plan, interval: PrivateClippingRange, steps: TwoStagePlan
) -> list[dict[str, Any]]:
    """Return the choices of range and radius, the strategy's first stage, and the cells."""
    found, spent = steps.outputs, plan.epsilon
    assert found is not None  # noqa: S101  a manifest is of a release
    unit = float(plan.span[0]) / found.span_quanta
    stretch = interval.widening if found.strategy == "single_stage" else steps.widening
    ends = _in_units(plan, found.ends, found.span_quanta)
    first = _range_step(plan, interval, stretch, ends)
    inside = _step("residual_scale", steps.epsilon, spent) | {
        "quantile": decimal_text(RESIDUAL_QUANTILE),
        "half_width": unit * found.residual_radius,
        "strategy": found.strategy,
    }
    rest = spent - interval.epsilon - steps.epsilon
    if found.strategy == "single_stage":
        return [first, inside, _step("cells", rest, spent)]
    narrow = {"half_width": unit * found.half_width}
    if found.strategy == "cell_residuals":
        means, last = (_step(*one, spent) for one in _coarse(rest))
        return [first, inside, means, last | narrow]
    in_classes, in_cells = (
        Fraction(float(one.max())) for one in steps.losses(plan.occupancy.local())
    )
    assert found.user_mean_range is not None  # noqa: S101  the strategy `user_residuals` has it
    low, high = _in_units(plan, found.user_mean_range, found.span_quanta)
    many = {"n_clusters": int(steps.cluster_noise.size), "lower": low, "upper": high}
    classes = _step("user_clusters", in_classes, spent) | many
    return [first, inside, classes, _step("cells", in_cells, spent) | narrow]


def _coarse(rest: Fraction) -> tuple[tuple[str, Fraction], tuple[str, Fraction]]:
    return ("first_stage", rest * FIRST_STAGE_SHARE), ("cells", rest * (1 - FIRST_STAGE_SHARE))


def _step(name: str, epsilon: Fraction, spent: Fraction) -> dict[str, Any]:
    """Return a private step and its largest cost to a user, rounded up."""
    # Up to the ledger's precision, so that no step is understated.
    up = Fraction(math.ceil(epsilon * PICO_EPSILON), PICO_EPSILON)
    return {"step": name, "epsilon": decimal_text(up), "share": float(epsilon / spent)}


def _radius(plan: Plan, interval: PrivateClippingRange) -> dict[str, Any]:
    """Return the radius within which squares are kept, in value units, where there are any."""
    if "variance" not in plan.error_models:
        return {}
    return {"radius": float(plan.span[0]) * interval.half_width_and_radius()[1]}


def _split(plan: Plan) -> dict[str, Any]:
    """Return the share of the cells' cost that their means take, requested or not."""
    if "variance" not in plan.error_models:
        return {}
    mean, square = plan.mean_noise, plan.allocation.variance_noise
    # Of one record the variance is known, and all goes to the mean.
    return {"mean_share": float(np.where(square > 0, square / (mean + square), 1.0).mean())}
