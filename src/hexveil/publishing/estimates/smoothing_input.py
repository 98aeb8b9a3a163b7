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
    outputs: StageOutputs,
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
    outputs : StageOutputs
        Ranges of the strategy `user_residuals` or `cell_residuals`.
    error : WeightedMeanErrorModel
        Error model of the means.
    noisy : ndarray of float, shape (n_cells,)
        The published means, in value units.
    """
    if outputs.strategy == "cell_residuals":
        return _around_cells(plan, clipping, outputs, noisy)
    return _around_users(plan, clipping, outputs, error, noisy)


def declipped_means(plan: Plan, outputs: StageOutputs, noisy: Floats) -> DeclippedEstimate:
    """Return the cells' means in quanta with the clipping undone, in the strategy `cell_residuals`.

    Parameters
    ----------
    plan : Plan
    outputs : StageOutputs
    noisy : ndarray of float, shape (n_cells,)
        The published means, in value units.
    """
    assert outputs.first_stage_means is not None  # noqa: S101  the strategy `cell_residuals` has them
    assert outputs.centre is not None  # noqa: S101
    noise, quantum = plan.mean_noise, plan.span / outputs.span_quanta
    first_stage = first_observation(outputs.first_stage_means, noise, outputs.ends)
    means = (noisy - plan.lower) / quantum
    second_stage = second_observation(means, noise, outputs.centre, outputs.half_width)
    return declip(outputs.ends, outputs.residual_radius, first_stage, second_stage)


def _around_cells(
    plan: Plan, clipping: TwoStageRange, outputs: StageOutputs, noisy: Floats
) -> SmoothingInput:
    declipped, quantum = declipped_means(plan, outputs, noisy), plan.span / outputs.span_quanta
    _, width, half = released_widths(clipping.range, outputs)
    _, bias = predict_cell_residual_error(
        plan.occupancy, clipping.range, plan.mean_noise, width, half
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
    outputs: StageOutputs,
    error: WeightedMeanErrorModel,
    noisy: Floats,
) -> SmoothingInput:
    assert outputs.user_mean_range is not None  # noqa: S101  the strategy `user_residuals` has them
    assert outputs.cluster_means is not None  # noqa: S101
    steps, quantum = clipping.stages, plan.span / outputs.span_quanta
    share = steps.clusters(plan.occupancy).share
    clamping = mix(
        share, np.clip(outputs.cluster_means, *outputs.user_mean_range) - outputs.cluster_means
    )
    common = share.mean(axis=0)
    noise = (
        quantum[0] * (outputs.user_mean_range[1] - outputs.user_mean_range[0]) * steps.cluster_noise
    )
    # What cells share of the clusters' noise moves the whole map, and no contrast in it.
    unshared = (share - common) ** 2 @ noise**2
    return SmoothingInput(
        noisy + quantum * clamping,
        np.sqrt(unshared + (2.0 * quantum * outputs.half_width * steps.noise) ** 2),
        error.unit * error.expected_bias,
        math.sqrt(2.0 * float(common**2 @ noise**2)),
    )
