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
from hexveil.planning.clipping_range.one_range import PrivateRange
from hexveil.planning.clipping_range.private_range import (
    PRIOR_SD,
    PrivateClippingRange,
    half_width_sd,
    user_mean_prior,
)
from hexveil.report.manifest_view import RANGE
from hexveil.report.templates import render_sentence
from hexveil.smoothing.shrinkage import OWN_DEVIATION

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hexveil.base.arrays import Floats
    from hexveil.model.cells import CellTable
    from hexveil.model.occupancy import Occupancy
    from hexveil.model.public_metadata import PublicMetadata
    from hexveil.planning.moment_part import MomentPart
    from hexveil.smoothing import ClippingRange, RandomEffect, Smoothed


SD_PER_MEAN_ABS = math.sqrt(math.pi / 2.0)
"""Standard deviation of a centred normal variable, as a multiple of its mean absolute value."""


def smooth_release(
    plan: MomentPart, facts: PublicMetadata, noisy: Mapping[str, Floats]
) -> dict[str, Smoothed]:
    """Return the smoothed estimates of each statistic that noise was added to.

    Raises
    ------
    InputError
        If there is one cell only.
    """
    size = effective_users(plan.occupancy)
    groupings = (*groupings_of(facts.cells), *smoothing.group_user_counts(size))
    return {
        name: _smooth_statistic(plan, name, numbers, groupings, size)
        for name, numbers in noisy.items()
    }


def effective_users(occupancy: Occupancy) -> Floats:
    """Return the effective users of each cell: 1 / Σ p², p the share of a user in its records.

    Examples
    --------
    >>> from hexveil.model.occupancy import LocalOccupancy
    >>> effective_users(LocalOccupancy.from_dense([[1, 8], [1, 1], [1, 1]])).round(2)
    array([3.  , 1.52])
    """
    return np.asarray(
        occupancy.map_cells(contributions.effective_users, (occupancy.records_per_cell,))
    )


def groupings_of(cells: CellTable) -> tuple[RandomEffect, ...]:
    """Return the groupings of cells: by place and time, or by labels."""
    if cells.hexagon is not None:
        return smoothing.group_hexagons(cells.hexagon, cells.slot)
    return smoothing.group_labels(cells.labels)


def smoothing_statement(
    plan: MomentPart, smoothed: Mapping[str, Smoothed], *, posterior: bool = False
) -> list[dict[str, Any]]:
    """Return the manifest's statement on smoothing: the model, and the quality of the map.

    Parameters
    ----------
    plan : MomentPart
    smoothed : mapping of str to Smoothed
        By statistic.
    posterior : bool
        Whether the mean has the intervals of its posterior.
    """
    return [
        {
            "statistic": name,
            "model": render_sentence(
                "smoothing.txt",
                "model",
                smoothed=bool(estimate.deviations),
                effects=[effect for effect in estimate.deviations if effect != OWN_DEVIATION],
                left_out=estimate.left_out,
                widened=estimate.widened,
                posterior=posterior and name == "mean",
                cell_ranges=plan.allocation.clipping.mode == "per-cell",
                gaussian=bool(plan.delta),
            ),
            "deviations": dict(estimate.deviations),
            "signal_share": estimate.signal_share,
            "distinguishable": estimate.distinguishable,
            "epsilon_half_distinguishable": _epsilon_for_half(plan, estimate),
        }
        for name, estimate in smoothed.items()
    ]


def _epsilon_for_half(plan: MomentPart, estimate: Smoothed) -> float | None:
    """Return the predicted ε at which half of the cells are distinguishable from the mean."""
    factor = estimate.half_distinguishable_factor
    return None if factor is None else float(plan.requested_epsilon) * factor


def _smooth_statistic(
    plan: MomentPart, name: str, noisy: Floats, groupings: tuple[RandomEffect, ...], size: Floats
) -> Smoothed:
    error, mean = plan.error_models[name], name == "mean"
    typical_bias, clipping_range = (
        _expected_bias(plan, error) if isinstance(error, WeightedMeanErrorModel) else (None, None)
    )
    estimate = smoothing.smooth(
        noisy,
        error.scale,
        groupings,
        effective_users=size,
        worst_bias=error.bias,
        typical_bias=typical_bias,
        clipping_range=clipping_range,
        lower=plan.lower if mean else 0.0,
        upper=plan.upper if mean else plan.span**2 * RANGE["variance"],
        gaussian=bool(plan.delta),
    )
    # A number that is known without noise borrows from none.
    exact = error.informative & ~error.noised
    return replace(
        estimate,
        estimate=np.where(exact, noisy, estimate.estimate),
        low=np.where(exact, noisy, estimate.low),
        high=np.where(exact, noisy, estimate.high),
    )


def _expected_bias(
    plan: MomentPart, error: WeightedMeanErrorModel
) -> tuple[Floats, ClippingRange | None]:
    """Return the standard deviation of the bias under a private range, and the range itself."""
    bias_sd = SD_PER_MEAN_ABS * error.unit * error.expected_bias
    if error.name != "mean":
        return bias_sd, None
    match plan.allocation.clipping:
        case PrivateRange(interval) if interval.ends:
            return _range_bias(plan, error, interval, interval.ends)
    return bias_sd, None


def _range_bias(
    plan: MomentPart,
    error: WeightedMeanErrorModel,
    interval: PrivateClippingRange,
    ends: tuple[int, int],
) -> tuple[Floats, ClippingRange | None]:
    """Return bias and range of means that were clipped to a single released range."""
    quantile, widening = interval.quantiles[0], interval.widening
    half_width = half_width_sd(quantile, widening)
    width, span = error.unit[0], float(plan.span[0])
    # The expected bias has both; that of clipping is modelled by the range, so it is taken out.
    weights = SD_PER_MEAN_ABS * np.sqrt(
        np.maximum(error.expected_bias**2 - interval.clipping_error**2, 0.0)
    )
    # Nothing was clipped: users' averages are as wide as the prior says, not as the bounds.
    if ends == (0, interval.span_quanta):
        return weights * min(width, 2.0 * half_width * PRIOR_SD * span), None
    low, high = interval.ends_in_units(float(plan.lower[0]), span)
    clipping_range = smoothing.ClippingRange(
        low if ends[0] > 0 else -math.inf,
        high if ends[1] != interval.span_quanta else math.inf,
        width * user_mean_prior(half_width).within_cell_sd,
    )
    skewness = smoothing.skewness_bias(float(quantile), float(widening))
    return width * np.hypot(weights, skewness), clipping_range
