"""Rows of plans under a private interval: weights and noise, fitted to the loss that was asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hexveil.planning.allocation import (
    PerCellRange,
    PlanAllocation,
    PrivateRange,
    full_factors,
)
from hexveil.planning.clipping_range import (
    cell_ranges,
    fast_prediction,
    private_range,
    variance_range,
)
from hexveil.planning.guarantees.plan_losses import max_user_loss
from hexveil.planning.guarantees.planning_problem import PlanningProblem

if TYPE_CHECKING:
    from fractions import Fraction

    from hexveil.base.arrays import Floats
    from hexveil.model.occupancy import Occupancy
    from hexveil.planning.request import Request


def allocate_with_range(
    occupancy: Occupancy, request: Request, epsilon: Fraction
) -> PlanAllocation:
    """Return weights and noise under one range, for means, or for variances too."""
    if "variance" in request.noised:
        both = variance_range.plan_variance_range(occupancy, request, epsilon)
        clipping = PrivateRange(both.interval)
        return _calibrated(occupancy, request, epsilon, clipping, (both.mean, both.variance))
    share = request.range_share
    candidates = fast_prediction.candidates_for(occupancy.n_users, epsilon, share)
    expected, quantized = fast_prediction.select_candidate(occupancy, candidates, epsilon, share)
    interval, noise = private_range.build_range_plan(
        occupancy, epsilon, share, expected.ends, begin=quantized
    )
    noises = noise, np.zeros_like(noise)
    return _calibrated(occupancy, request, epsilon, PrivateRange(interval), noises)


def allocate_cell_ranges(
    occupancy: Occupancy, request: Request, epsilon: Fraction
) -> PlanAllocation:
    """Return weights and noise of cells with ranges of their own."""
    plan, noise = cell_ranges.plan_cell_ranges(occupancy, epsilon, request.range_share)
    noises = noise, np.zeros_like(noise)
    return _calibrated(occupancy, request, epsilon, PerCellRange(plan), noises)


def _calibrated(
    occupancy: Occupancy,
    request: Request,
    epsilon: Fraction,
    clipping: PrivateRange | PerCellRange,
    noise: tuple[Floats, Floats],
) -> PlanAllocation:
    """Calibrate noise: the most exposed user loses the requested epsilon, no more."""
    largest = occupancy.largest_count
    allocation = PlanAllocation(
        mechanism="weights",
        contribution_cap=largest,
        noise_scale_records=noise[0] * occupancy.records_per_cell,
        variance_cap=np.where(noise[1] > 0, largest, 0),
        variance_noise=noise[1],
        contribution_factor=full_factors(occupancy),
        clipping=clipping,
    )
    flat = np.ones(occupancy.n_cells)  # losses under a range do not depend on the span
    losses = max_user_loss(PlanningProblem(occupancy, flat, request), allocation)
    # Noise scales the loss in the cells alone: the range's own loss stays as it is.
    shared = clipping.shared(request.delta).amount
    ratio = float((losses - shared) / (epsilon - shared))
    return allocation.with_noise_scaled(ratio * (1.0 + 2.0**-40))
