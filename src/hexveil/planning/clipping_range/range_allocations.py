"""Rows of plans under a private interval: weights and noise, fitted to the loss that was asked."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from hexveil.planning.allocation import (
    PerCellRange,
    PlanAllocation,
    PrivateRange,
    TwoStageRange,
    full_factors,
)
from hexveil.planning.clipping_range import (
    cell_ranges,
    fast_prediction,
    private_range,
    two_stage,
    variance_range,
)
from hexveil.planning.guarantees.plan_losses import max_user_loss
from hexveil.planning.guarantees.planning_problem import PlanningProblem

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray

    from hexveil.model.occupancy import Occupancy
    from hexveil.planning.request import Request

    Floats = NDArray[np.float64]


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


def allocate_two_stage(occupancy: Occupancy, request: Request, epsilon: Fraction) -> PlanAllocation:
    """Return weights and noise under one range, with the strategies of a second stage."""
    interval, noise, stages = two_stage.plan_two_stage(occupancy, epsilon, request.range_share)
    # h is charged to everybody before the cells: the single stage has what is left.
    left = epsilon - stages.epsilon
    noises = noise, np.zeros_like(noise)
    allocation = _calibrated(occupancy, request, left, PrivateRange(interval), noises)
    return replace(allocation, clipping=TwoStageRange(interval, stages))


def allocate_cell_ranges(
    occupancy: Occupancy, request: Request, epsilon: Fraction
) -> PlanAllocation:
    """Return weights and noise of cells with ranges of their own."""
    plan, noise = cell_ranges.plan_cell_ranges(occupancy, epsilon, request.range_share)
    noises = noise, np.zeros_like(noise)
    return _calibrated(occupancy, request, epsilon, PerCellRange(plan), noises)


def allocate_supported_cell_ranges(
    occupancy: Occupancy, request: Request, epsilon: Fraction
) -> PlanAllocation | None:
    """Return the same where several cells publish means, and users suffice; None elsewhere."""
    enough = cell_ranges.may_support_cell_ranges(occupancy, epsilon)
    if not enough or request.noised != ("mean",):
        return None
    plan, noise = cell_ranges.plan_cell_ranges(occupancy, epsilon, request.range_share)
    if not cell_ranges.supports_cell_ranges(occupancy, plan, epsilon):
        return None
    noises = noise, np.zeros_like(noise)
    return _calibrated(occupancy, request, epsilon, PerCellRange(plan), noises)


def supports_two_stages(occupancy: Occupancy, request: Request) -> bool:
    """Return whether there are means alone to publish, and users in several cells to compare."""
    return request.noised == ("mean",) and bool((occupancy.cells_per_user > 1).any())


def adapted_to_grid(occupancy: Occupancy, request: Request) -> Request:
    """Return a request as it is planned on another grid than the one it was made for.

    Steps need users in several cells; where there are none, the interval alone is planned.
    """
    if request.clipping_range == "two-stage" and not supports_two_stages(occupancy, request):
        return replace(request, clipping_range="private")
    return request


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
    shared = clipping.shared_epsilon
    ratio = float((losses - shared) / (epsilon - shared))
    return allocation.with_noise_scaled(ratio * (1.0 + 2.0**-40))
