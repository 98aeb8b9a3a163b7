"""The steps of a release that look at values, as its manifest lists them.

Each with its largest cost to a user, rounded up, its share of the total, and its released outputs:
ranges, and a histogram. Outputs were drawn with noise, and are public. Under a δ squares of μ add
up, and each epsilon is that of one step alone; a choice is purely private, and so is its epsilon.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.accounting.promise import PARTS, Promise, choices_worth, of_amount
from hexveil.base.rational import decimal_text
from hexveil.ledger.unit_losses import PICO_EPSILON
from hexveil.mechanisms.cell_ranges.pooled_spread import SPREAD_QUANTILE
from hexveil.planning.cell_mechanisms import CellMechanisms
from hexveil.planning.clipping_range.cell_ranges import CellRangePlan, PerCellRange
from hexveil.planning.clipping_range.one_range import PrivateRange
from hexveil.planning.clipping_range.private_range import PrivateClippingRange, to_value_units

if TYPE_CHECKING:
    from hexveil.mechanisms.per_cell_allocation import PlannedCells
    from hexveil.planning.moment_part import MomentPart


def privacy_steps(plan: MomentPart) -> list[dict[str, Any]]:
    """Return each private step, its cost to the most exposed user, and its share."""
    if not plan.epsilon:
        return []
    total = of_amount(plan.booked_limit if plan.delta else plan.epsilon, plan.delta)
    clipping = plan.allocation.clipping
    shared = clipping.shared(plan.delta).amount
    cells = _step("cells", total.amount - shared, total)
    match clipping:
        case PrivateRange(interval):
            ends = interval.ends_in_units(float(plan.lower[0]), float(plan.span[0]))
            range_step = _step("clipping_range", shared, total) | {
                "epsilon": decimal_text(interval.epsilon),
                "quantiles": [decimal_text(quantile) for quantile in interval.quantiles],
                "widening": decimal_text(interval.widening),
                "lower": ends[0],
                "upper": ends[1],
                "votes": [votes / PARTS for votes in interval.votes],
                "total": interval.total / PARTS,
            }
            return [range_step | _radius(plan, interval), cells | _split(plan)]
        case PerCellRange(cell_ranges):
            return _cell_range_steps(plan, cell_ranges, total)
        case CellMechanisms(cells=planned):
            return [cells | {"step": "cell_stages"} | _cell_stages(plan, planned)]
    return [cells]


def _cell_stages(plan: MomentPart, cells: PlannedCells) -> dict[str, Any]:
    """Return the mechanism, the loss of a cell, and each kind of stage with its cost.

    The cost of a stage is that of the user whom it costs most over all cells, so that costs of
    stages need not add up to the cost of the release.
    """
    return {
        "mechanism": plan.mechanism,
        "cell_epsilon": _rounded_up(cells.cell_epsilon),
        "stages": [
            {"stage": name, "cells": n_cells, "epsilon": _rounded_up(Fraction(largest))}
            for name, (n_cells, largest) in cells.stage_costs().items()
        ],
    }


def _cell_range_steps(
    plan: MomentPart, cell_ranges: CellRangePlan, total: Promise
) -> list[dict[str, Any]]:
    """Return the pooled histogram, the spread within cells, the first look and the cells.

    A cell that keeps its range spends what is listed for both of its steps on one number.
    """
    outputs, bounds = cell_ranges.released(), (float(plan.lower[0]), float(plan.span[0]))

    def in_units(quanta: int) -> float:
        return to_value_units(quanta, outputs.span_quanta, *bounds)

    first_range = outputs.pooled
    pooled = _step("pooled_histogram", cell_ranges.histogram_loss, total) | {
        # Votes of units: a whole number of 2^-20 of a unit's, exact as a double.
        "votes": [votes / PARTS for votes in outputs.votes],
        "total": outputs.total / PARTS,
        "centre": in_units(first_range.centre),
        "below": bounds[1] * first_range.below / outputs.span_quanta,
        "above": bounds[1] * first_range.above / outputs.span_quanta,
    }
    remainder = total.amount - cell_ranges.shared(plan.delta).amount
    first = remainder * cell_ranges.first_share
    ends = {"lower": in_units(first_range.lower), "upper": in_units(first_range.upper)}
    look = _step("first_look", first, total) | ends
    moved = {"moved": int(np.count_nonzero(outputs.moved))}
    last = _step("cells", remainder - first, total) | moved
    if outputs.spread is None:
        return [pooled, look, last]
    spread = choices_worth(cell_ranges.spread_epsilon, plan.delta, 1).amount
    within = _step("within_spread", spread, total) | {
        "epsilon": _rounded_up(cell_ranges.spread_epsilon),
        "quantile": decimal_text(SPREAD_QUANTILE),
        "spread": bounds[1] * outputs.spread / outputs.span_quanta,
    }
    return [pooled, within, look, last]


def _step(name: str, cost: Fraction, total: Promise) -> dict[str, Any]:
    """Return a private step and its largest cost to a user, rounded up."""
    epsilon, share = of_amount(cost, total.delta).epsilon, float(cost / total.amount)
    square = {"squared_mu": float(cost)} if total.delta else {}
    return {"step": name, "epsilon": _rounded_up(epsilon), "share": share} | square


def _rounded_up(epsilon: Fraction) -> str:
    # Up to the ledger's precision, so that no step is understated.
    return decimal_text(Fraction(math.ceil(epsilon * PICO_EPSILON), PICO_EPSILON))


def _radius(plan: MomentPart, interval: PrivateClippingRange) -> dict[str, Any]:
    """Return the radius within which squares are kept, in value units, where there are any."""
    if "variance" not in plan.error_models:
        return {}
    return {"radius": float(plan.span[0]) * interval.half_width_and_radius()[1]}


def _split(plan: MomentPart) -> dict[str, Any]:
    """Return the share of the cells' cost that their means take, requested or not."""
    if "variance" not in plan.error_models:
        return {}
    # Under a δ shares of squares of μ, which fall with the square of the noise.
    power = plan.request.law.power
    mean, square = plan.mean_noise**power, plan.allocation.variance_noise**power
    # The variance of one record is known: such a cell spends all on its mean.
    return {"mean_share": float(np.where(square > 0, square / (mean + square), 1.0).mean())}
