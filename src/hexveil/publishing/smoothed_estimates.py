"""Smoothed estimates of a release: what its noisy numbers say once cells borrow from each other.

Post-processing of noisy numbers and public facts (smoothing/): it costs nothing, and the same
numbers always give the same estimates.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil import smoothing
from hexveil.accounting import pair_losses
from hexveil.accounting.error_model import WeightedMeanErrorModel
from hexveil.mechanisms import two_stage_mean
from hexveil.planning.clipping_range.private_range import PRIOR_SD, half_width_sd, user_mean_prior
from hexveil.publishing.privacy_steps import STRATEGIES
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
    from hexveil.smoothing import ClippingRange, RandomEffect, Smoothed

    Floats = NDArray[np.float64]

NORMAL = math.sqrt(math.pi / 2.0)
"""Standard deviation of a normal bias, of its average size."""


def smoothed(plan: Plan, facts: PublicMetadata, noisy: Mapping[str, Floats]) -> dict[str, Smoothed]:
    """Return the smoothed estimates of each statistic that noise was added to.

    Raises
    ------
    InputError
        If there is one cell only.
    """
    size = crowds(plan.occupancy)
    groupings = (*groupings_of(facts.cells), *smoothing.group_user_counts(size))
    return {name: _of(plan, name, numbers, groupings, size) for name, numbers in noisy.items()}


def crowds(occupancy: Occupancy) -> Floats:
    """Return the users of each cell, as many as would have its records in equal parts: 1 / Σ p².

    Examples
    --------
    >>> from hexveil.model.occupancy import Occupancy
    >>> crowds(Occupancy.from_dense([[1, 8], [1, 1], [1, 1]])).round(2)
    array([3.  , 1.52])
    """
    return np.asarray(
        occupancy.map_cells(pair_losses.effective_users, (occupancy.records_per_cell,))
    )


def groupings_of(cells: CellTable) -> tuple[RandomEffect, ...]:
    """Return which cells resemble each other: by place and time, or by labels."""
    if cells.hexagon is not None:
        return smoothing.group_hexagons(cells.hexagon, cells.slot)
    return smoothing.group_labels(cells.labels)


def statement(plan: Plan, found: Mapping[str, Smoothed]) -> list[dict[str, Any]]:
    """Return what a manifest says of them: the model, and how good the map is."""
    return [
        {
            "statistic": name,
            "model": render_sentence(
                "smoothing.txt",
                "model",
                strategy=STRATEGIES.get(two_stage_mean.way(plan) or "", ""),
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
    if two_stage_mean.narrowed(plan):
        start = two_stage_mean.start(plan, noisy)
        begin, scale = start.number, start.scale
        typical = np.hypot(NORMAL * start.off, start.shared)
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
    interval = plan.allocation.clipping_range
    likely = NORMAL * part.unit * part.expected_bias
    if part.name != "mean" or interval is None or interval.ends is None:
        return likely, None
    if two_stage_mean.narrowed(plan):
        return likely, None
    quantile, stretch = interval.quantiles[0], interval.widening
    beyond = half_width_sd(quantile, stretch)
    width, span = part.unit[0], float(plan.span[0])
    weights = NORMAL * np.sqrt(np.maximum(part.expected_bias**2 - interval.clipping_error**2, 0.0))
    if interval.ends == (
        0,
        interval.span_quanta,
    ):  # nothing was cut, and the prior says how wide it is
        return weights * min(width, 2.0 * beyond * PRIOR_SD * span), None
    low, high = interval.ends_in_units(float(plan.lower[0]), span)
    cut = smoothing.ClippingRange(
        low if interval.ends[0] > 0 else -math.inf,
        high if interval.ends[1] != interval.span_quanta else math.inf,
        width * user_mean_prior(beyond).within_cell_sd,
    )
    one_way = smoothing.skewness_bias(float(quantile), float(stretch))
    return width * np.hypot(weights, one_way), cut
