"""Numbers that smoothing begins with after a two-stage release: public, made from its outputs.

Noisy means of clusters are clamped to their range; the clipping of cells is undone by a stated
model (smoothing/declipping.py). Post-processing: it costs no privacy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hexveil.mechanisms.two_stage.residual_stages import mix
from hexveil.mechanisms.two_stage.two_stage_mean import (
    declip,
    first_observation,
    second_observation,
)
from hexveil.planning.clipping_range.strategies import predict_cell_residual_error, released_widths

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hexveil.accounting.error_model import WeightedMeanErrorModel
    from hexveil.planning import Plan
    from hexveil.planning.allocation import TwoStageRange
    from hexveil.planning.clipping_range.two_stage_plan import StageOutputs
    from hexveil.smoothing.declipping import DeclippedEstimate

    Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SmoothingInput:
    """Numbers of cells and their noise, in value units.

    Attributes
    ----------
    number, scale : ndarray of float, shape (n_cells,)
        Each cell's number, and the Laplace scale of as much noise as cells do not share.
    expected_bias : ndarray of float, shape (n_cells,)
        Expected error of each number beside its noise: weights and clipping.
    shared_sd : float
        Standard deviation of the noise that all cells share.
    """

    number: Floats
    scale: Floats
    expected_bias: Floats
    shared_sd: float


def smoothing_input(
    plan: Plan,
    clipping: TwoStageRange,
    found: StageOutputs,
    error: WeightedMeanErrorModel,
    noisy: Floats,
) -> SmoothingInput:
    """Return the input of smoothing: clusters clamped to their range, clipping undone.

    Parameters
    ----------
    plan : Plan
        After a release.
    clipping : TwoStageRange
        Of this plan.
    found : StageOutputs
        Ranges of the strategy `user_residuals` or `cell_residuals`.
    error : WeightedMeanErrorModel
        Error model of the means.
    noisy : ndarray of float, shape (n_cells,)
        The published means, in value units.
    """
    if found.strategy == "cell_residuals":
        return _around_cells(plan, clipping, found, noisy)
    return _around_users(plan, clipping, found, error, noisy)


def declipped_means(plan: Plan, found: StageOutputs, noisy: Floats) -> DeclippedEstimate:
    """Return the cells' means in quanta with the clipping undone, in the strategy `cell_residuals`.

    Parameters
    ----------
    plan : Plan
    found : StageOutputs
    noisy : ndarray of float, shape (n_cells,)
        The published means, in value units.
    """
    assert found.first_stage_means is not None  # noqa: S101  the strategy `cell_residuals` has them
    assert found.centre is not None  # noqa: S101
    noise, quantum = plan.mean_noise, plan.span / found.span_quanta
    first = first_observation(found.first_stage_means, noise, found.ends)
    means = (noisy - plan.lower) / quantum
    second = second_observation(means, noise, found.centre, found.half_width)
    return declip(found.ends, found.residual_radius, first, second)


def _around_cells(
    plan: Plan, clipping: TwoStageRange, found: StageOutputs, noisy: Floats
) -> SmoothingInput:
    declipped, quantum = declipped_means(plan, found, noisy), plan.span / found.span_quanta
    _, width, half = released_widths(clipping.range, found)
    _, bias = predict_cell_residual_error(
        plan.occupancy.local(), clipping.range, plan.mean_noise, width, half
    )
    return SmoothingInput(
        plan.lower + quantum * declipped.estimate,
        quantum * declipped.sd / math.sqrt(2.0),
        plan.span * bias,
        0.0,
    )


def _around_users(
    plan: Plan,
    clipping: TwoStageRange,
    found: StageOutputs,
    error: WeightedMeanErrorModel,
    noisy: Floats,
) -> SmoothingInput:
    assert found.user_mean_range is not None  # noqa: S101  the strategy `user_residuals` has them
    assert found.cluster_means is not None  # noqa: S101
    steps, quantum = clipping.stages, plan.span / found.span_quanta
    share = steps.clusters(plan.occupancy.local()).share
    moved = mix(share, np.clip(found.cluster_means, *found.user_mean_range) - found.cluster_means)
    common = share.mean(axis=0)
    noise = quantum[0] * (found.user_mean_range[1] - found.user_mean_range[0]) * steps.cluster_noise
    # What cells share of the clusters' noise moves the whole map, and no contrast in it.
    unshared = (share - common) ** 2 @ noise**2
    return SmoothingInput(
        noisy + quantum * moved,
        np.sqrt(unshared + (2.0 * quantum * found.half_width * steps.noise) ** 2),
        error.unit * error.expected_bias,
        math.sqrt(2.0 * float(common**2 @ noise**2)),
    )
