"""Smoothed estimates of a release: cells borrow strength from each other's noisy numbers.

Post-processing of noisy numbers and public facts (smoothing/): it costs nothing, and the same
numbers always give the same estimates.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil import smoothing
from hexveil.accounting import contributions
from hexveil.accounting.error_model import WeightedMeanErrorModel
from hexveil.planning.allocation import PrivateRange, TwoStageRange
from hexveil.planning.clipping_range.private_range import PRIOR_SD, half_width_sd, user_mean_prior
from hexveil.planning.clipping_range.two_stage_plan import StageOutputs, TwoStagePlan
from hexveil.planning.release_allocation import released_strategy
from hexveil.publishing.estimates.smoothing_input import smoothing_input
from hexveil.report.manifest_view import RANGE
from hexveil.report.templates import render_sentence
from hexveil.smoothing.shrinkage import OWN_DEVIATION

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from hexveil.model.cells import CellTable
    from hexveil.model.occupancy import Occupancy
    from hexveil.model.public_metadata import PublicMetadata
    from hexveil.planning import Plan
    from hexveil.planning.clipping_range.private_range import PrivateClippingRange
    from hexveil.smoothing import ClippingRange, RandomEffect, Smoothed

    Floats = NDArray[np.float64]

NORMAL = math.sqrt(math.pi / 2.0)
"""Standard deviation of a normal bias, of its average size."""


def smooth_release(
    plan: Plan, facts: PublicMetadata, noisy: Mapping[str, Floats]
) -> dict[str, Smoothed]:
    """Return the smoothed estimates of each statistic that noise was added to.

    Raises
    ------
    InputError
        If there is one cell only.
    """
    size = effective_users(plan.occupancy)
    groupings = (*groupings_of(facts.cells), *smoothing.group_user_counts(size))
    return {name: _of(plan, name, numbers, groupings, size) for name, numbers in noisy.items()}


def effective_users(occupancy: Occupancy) -> Floats:
    """Return the users of each cell, as many as would have its records in equal parts: 1 / Σ p².

    Examples
    --------
    >>> from hexveil.model.occupancy import Occupancy
    >>> effective_users(Occupancy.from_dense([[1, 8], [1, 1], [1, 1]])).round(2)
    array([3.  , 1.52])
    """
    return np.asarray(
        occupancy.map_cells(contributions.effective_users, (occupancy.records_per_cell,))
    )


def groupings_of(cells: CellTable) -> tuple[RandomEffect, ...]:
    """Return which cells resemble each other: by place and time, or by labels."""
    if cells.hexagon is not None:
        return smoothing.group_hexagons(cells.hexagon, cells.slot)
    return smoothing.group_labels(cells.labels)


def smoothing_statement(plan: Plan, found: Mapping[str, Smoothed]) -> list[dict[str, Any]]:
    """Return the manifest's statement on smoothing: the model, and the quality of the map."""
    return [
        {
            "statistic": name,
            "model": render_sentence(
                "smoothing.txt",
                "model",
                strategy=released_strategy(plan),
                smoothed=bool(one.deviations),
                effects=[effect for effect in one.deviations if effect != OWN_DEVIATION],
                left_out=one.left_out,
                widened=one.widened,
            ),
            "deviations": dict(one.deviations),
            "signal_share": one.signal_share,
            "distinguishable": one.distinguishable,
            "epsilon_half_distinguishable": _half(plan, one),
        }
        for name, one in found.items()
    ]


def _half(plan: Plan, one: Smoothed) -> float | None:
    """Return the ε at which half of the cells could be told from the mean, by prediction."""
    return (
        None
        if one.half_distinguishable_factor is None
        else float(plan.requested_epsilon) * one.half_distinguishable_factor
    )


def _of(
    plan: Plan, name: str, noisy: Floats, groupings: tuple[RandomEffect, ...], size: Floats
) -> Smoothed:
    part, mean = plan.error_models[name], name == "mean"
    typical, cut = _hidden(plan, part) if isinstance(part, WeightedMeanErrorModel) else (None, None)
    begin, scale = noisy, part.scale
    match part, plan.allocation.clipping:
        case WeightedMeanErrorModel(), TwoStageRange(
            _,
            TwoStagePlan(
                outputs=StageOutputs(strategy="user_residuals" | "cell_residuals") as ranges
            ),
        ) as clipping:
            start = smoothing_input(plan, clipping, ranges, part, noisy)
            begin, scale = start.number, start.scale
            typical = np.hypot(NORMAL * start.expected_bias, start.shared_sd)
    found = smoothing.smooth(
        begin,
        scale,
        groupings,
        effective_users=size,
        worst_bias=part.bias,
        typical_bias=typical,
        clipping_range=cut,
        lower=plan.lower if mean else 0.0,
        upper=plan.upper if mean else plan.span**2 * RANGE["variance"],
    )
    # A number that is known without noise borrows from none.
    known = part.informative & ~part.noised
    return replace(
        found,
        estimate=np.where(known, noisy, found.estimate),
        low=np.where(known, noisy, found.low),
        high=np.where(known, noisy, found.high),
    )


def _hidden(plan: Plan, part: WeightedMeanErrorModel) -> tuple[Floats, ClippingRange | None]:
    """Return the likely size of the bias under an interval, and where it cut users' averages."""
    likely = NORMAL * part.unit * part.expected_bias
    if part.name != "mean" or released_strategy(plan) in {"user_residuals", "cell_residuals"}:
        return likely, None
    match plan.allocation.clipping:
        case PrivateRange(interval) | TwoStageRange(interval, _) if interval.ends:
            return _range_bias(plan, part, interval, interval.ends)
    return likely, None


def _range_bias(
    plan: Plan, part: WeightedMeanErrorModel, interval: PrivateClippingRange, ends: tuple[int, int]
) -> tuple[Floats, ClippingRange | None]:
    """Return the same for means that were clipped to a released range alone."""
    quantile, stretch = interval.quantiles[0], interval.widening
    beyond = half_width_sd(quantile, stretch)
    width, span = part.unit[0], float(plan.span[0])
    weights = NORMAL * np.sqrt(np.maximum(part.expected_bias**2 - interval.clipping_error**2, 0.0))
    if ends == (0, interval.span_quanta):  # nothing was cut, and the prior says how wide it is
        return weights * min(width, 2.0 * beyond * PRIOR_SD * span), None
    low, high = interval.ends_in_units(float(plan.lower[0]), span)
    cut = smoothing.ClippingRange(
        low if ends[0] > 0 else -math.inf,
        high if ends[1] != interval.span_quanta else math.inf,
        width * user_mean_prior(beyond).within_cell_sd,
    )
    one_way = smoothing.skewness_bias(float(quantile), float(stretch))
    return width * np.hypot(weights, one_way), cut
