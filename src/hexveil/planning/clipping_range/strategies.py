"""Strategies of a two-stage plan (two_stage.py): predicted errors per cell, and the choice.

Everything is a function of public facts and of two widths, of the interval and h: before a release
as a prior says, afterwards as the release found them. The strategies, and what is assumed: see
planning/clipping_range/two_stage.py. For the selected strategy `two_stage_error_model` states
noise, bias and bound of the published mean:

single_stage
    As for one interval (accounting/error_model.py, `WeightedMeanErrorModel`).
user_residuals
    Published is Σ_k P_gk m_k + y_g, m_k the noisy mean of class k, y_g the noisy average of
    distances. It speaks of Σ_l p_gl (u + d), u the user's own mean projected to the interval and d
    the projected distance. It is off by at most w/2 Σ_l |p_gl - P_gk v_l| + h Σ_l |w_gl - p_gl|,
    v and w the weights, and by noise: a sum of independent Laplace numbers of scales b, of which
    95% are within min over λ of (ln 40 - Σ ln(1 - λ² b²)) / λ (Chernoff's bound, both sides).
cell_residuals
    Published is c_g + y_g. It speaks of the average of user means projected to c_g ± h'.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from hexveil.accounting.error_model import LN20, MAX_CONSTANT_ERROR, TwoStageErrorModel
from hexveil.mechanisms.released_ranges import (
    CELL_RESIDUAL_HALF_WIDTH_SD,
    FIRST_STAGE_SHARE,
    RANGE_HALF_WIDTH_SD,
    RESIDUAL_HALF_WIDTH_SD,
    STANDARD_NORMAL,
    user_mean_range_width,
    within_cell_sd,
)
from hexveil.planning.clipping_range.private_range import PRIOR_SD, WEIGHT_CONFOUNDING
from hexveil.planning.clipping_range.user_weights import (
    UserMeanPrior,
    expected_bias,
    max_bias,
    relative_weights,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hexveil.model.occupancy import Occupancy, Pairs
    from hexveil.planning.clipping_range.private_range import PrivateClippingRange
    from hexveil.planning.clipping_range.two_stage_plan import StageOutputs, TwoStagePlan
    from hexveil.planning.clipping_range.user_clusters import UserClusters

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

RESIDUAL_CONFOUNDING = 0.05
"""By how much users whose weight rises differ from others in their distances, as a part of 2h."""
SKEWNESS_ERROR = 0.1
"""What is wrong on average where a cell's law is taken for normal, in the same deviations."""
WITHIN_USERS = 0.6
"""Deviation within users as a part of τ, before h is known."""
ALIKE = 0.8
"""Above this part of τ users are not said to differ among themselves."""
EXPECTED_WIDTHS = (
    2.0 * RANGE_HALF_WIDTH_SD * PRIOR_SD,
    RESIDUAL_HALF_WIDTH_SD * WITHIN_USERS * PRIOR_SD,
)
"""Width of the interval at 1.28 deviations, and h, before a release; parts of the span."""
LN40 = math.log(40.0)


def predict_user_residual_error(
    occupancy: Occupancy,
    steps: TwoStagePlan,
    width: float,
    half: float,
    grouping: UserClusters | None = None,
) -> tuple[Floats, Floats]:
    """Return noise and likely bias of each cell under `user_residuals`; as parts of the span.

    Parameters
    ----------
    occupancy : Occupancy
    steps : TwoStagePlan
    width : float
        Of the interval at a reach of 1.28 deviations; users' own means need less
        (`user_mean_range_width`).
    half : float
        h.
    grouping : UserClusters, optional
        Of the steps, where it is known.
    """
    grouping = grouping or steps.clusters(occupancy)
    rough = user_mean_range_width(width, half) * np.sqrt(grouping.share**2 @ steps.cluster_noise**2)
    prior = UserMeanPrior(1.0 / (2.0 * RESIDUAL_HALF_WIDTH_SD), RESIDUAL_CONFOUNDING)
    weights = relative_weights(occupancy, steps.weight)
    bias = 2.0 * half * expected_bias(occupancy, weights, prior)
    # By the prior K clusters leave τ/√K between the users of one.
    residual = width / (2.0 * RANGE_HALF_WIDTH_SD) / math.sqrt(steps.cluster_noise.size)
    return np.hypot(rough, 2.0 * half * steps.noise), np.hypot(residual, bias)


def predict_cell_residual_error(
    occupancy: Occupancy,
    interval: PrivateClippingRange,
    noise: Floats,
    width: float,
    half: float,
) -> tuple[Floats, Floats]:
    """Return noise and likely bias of each cell under `cell_residuals`, clipping undone.

    A first average that is off by e makes the second one less steep: Φ((e + h')/s) - Φ((e - h')/s).
    """
    spread = within_cell_sd(width, half)
    narrow, first_noise = (
        CELL_RESIDUAL_HALF_WIDTH_SD * spread,
        width * noise / float(FIRST_STAGE_SHARE),
    )
    prior = UserMeanPrior(spread / (2.0 * narrow), WEIGHT_CONFOUNDING)
    weights = relative_weights(occupancy, interval.weight)
    bias = 2.0 * narrow * expected_bias(occupancy, weights, prior)
    clipped_share = np.minimum(first_noise, width / (2.0 * RANGE_HALF_WIDTH_SD)) / spread
    cdf = np.vectorize(STANDARD_NORMAL.cdf)
    slope = cdf(clipped_share + CELL_RESIDUAL_HALF_WIDTH_SD) - cdf(
        clipped_share - CELL_RESIDUAL_HALF_WIDTH_SD
    )
    residual_noise = 2.0 * narrow * noise / float(1 - FIRST_STAGE_SHARE) / slope
    return residual_noise, np.hypot(SKEWNESS_ERROR * spread, bias)


def select_strategy(
    occupancy: Occupancy,
    interval: PrivateClippingRange,
    noise: Floats,
    steps: TwoStagePlan,
    found: tuple[float, ...],
) -> str:
    """Return `single_stage`, or the other strategy that fits these ranges if predicted better.

    Parameters
    ----------
    occupancy : Occupancy
    interval : PrivateClippingRange
    noise : ndarray of float, shape (n_cells,)
        Of the strategy `single_stage`, for an interval of width 1.
    steps : TwoStagePlan
    found : three floats
        Widths of the range released for `single_stage` and for first stages, and h; parts of the
        span.
    """
    direct, width, half = found
    alternative, (rough, likely) = (
        "cell_residuals",
        predict_cell_residual_error(occupancy, interval, noise, width, half),
    )
    if half / RESIDUAL_HALF_WIDTH_SD <= ALIKE * width / (2.0 * RANGE_HALF_WIDTH_SD):
        alternative, (rough, likely) = (
            "user_residuals",
            predict_user_residual_error(occupancy, steps, width, half),
        )
    bias = np.hypot(
        direct * interval.expected_bias(occupancy), SKEWNESS_ERROR * within_cell_sd(width, half)
    )
    straight = np.hypot(direct * noise, bias)
    # Strict: on a tie the strategy with fewer assumptions is taken.
    return alternative if np.hypot(rough, likely).mean() < straight.mean() else "single_stage"


def expected_widths(interval: PrivateClippingRange) -> tuple[float, float, float]:
    """Return the assumed inputs of `select_strategy`, before a release."""
    return interval.width, *EXPECTED_WIDTHS


def released_widths(
    interval: PrivateClippingRange, found: StageOutputs
) -> tuple[float, float, float]:
    """Return the released inputs of `select_strategy`."""
    width = (found.ends[1] - found.ends[0]) / found.span_quanta
    return interval.width, width, found.residual_radius / found.span_quanta


def two_stage_error_model(
    occupancy: Occupancy,
    span: Floats,
    interval: PrivateClippingRange,
    noise: Floats,
    steps: TwoStagePlan,
) -> TwoStageErrorModel:
    """Return the error model of each cell's two-stage mean: noise, weights and clipping.

    Parameters
    ----------
    occupancy : Occupancy
    span : ndarray of float, shape (n_cells,)
    interval : PrivateClippingRange
    noise : ndarray of float, shape (n_cells,)
        Of the strategy `single_stage`, for an interval of width 1.
    steps : TwoStagePlan
    """
    outputs = steps.outputs
    widths = expected_widths(interval) if outputs is None else released_widths(interval, outputs)
    strategy = (
        outputs.strategy if outputs else select_strategy(occupancy, interval, noise, steps, widths)
    )
    direct, width, half = widths
    if strategy == "user_residuals":
        return _users_part(occupancy, span, steps, (width, half))
    worst_bias = interval.max_bias(occupancy)
    if strategy == "single_stage":
        expected = interval.expected_bias(occupancy)
        return _stepped(span * direct, noise, worst_bias, expected, LN20 * noise)
    narrow = (
        outputs.half_width / outputs.span_quanta
        if outputs
        else CELL_RESIDUAL_HALF_WIDTH_SD * within_cell_sd(width, half)
    )
    undone, bias = predict_cell_residual_error(occupancy, interval, noise, width, half)
    noise = noise / float(1 - FIRST_STAGE_SHARE)
    # Undoing the clipping makes noise larger: what is likely says so, the guarantee does not.
    expected = (bias + undone) / (2.0 * narrow) - noise
    return _stepped(span * 2.0 * narrow, noise, worst_bias, expected, LN20 * noise)


def _users_part(
    occupancy: Occupancy, span: Floats, steps: TwoStagePlan, widths: tuple[float, float]
) -> TwoStageErrorModel:
    (width, half), grouping = widths, steps.clusters(occupancy)
    outputs = steps.outputs
    # What was found is whole quanta, and its noise is for that.
    own = user_mean_range_width(width, half) if outputs is None else _width_of(outputs)
    fine = 2.0 * half / own
    rough = np.hypot(np.sqrt(grouping.share**2 @ steps.cluster_noise**2), fine * steps.noise)
    _, expected = predict_user_residual_error(occupancy, steps, width, half, grouping)
    own_off = max_bias(occupancy, relative_weights(occupancy, steps.weight))
    worst_bias = max_cluster_bias(occupancy, steps) + fine * own_off
    loud = laplace_sum_quantile95(grouping.share * steps.cluster_noise, fine * steps.noise)
    return _stepped(span * own, rough, worst_bias, expected / own, loud)


def _width_of(found: StageOutputs) -> float:
    assert found.user_mean_range is not None  # noqa: S101  the strategy `user_residuals` has it
    return (found.user_mean_range[1] - found.user_mean_range[0]) / found.span_quanta


def _stepped(
    unit: Floats, noise: Floats, most: Floats, likely: Floats, loud: Floats
) -> TwoStageErrorModel:
    missed = np.full(noise.size, MAX_CONSTANT_ERROR["mean"])
    return TwoStageErrorModel("mean", unit, noise, np.zeros_like(noise), missed, most, likely, loud)


def max_cluster_bias(occupancy: Occupancy, steps: TwoStagePlan) -> Floats:
    """Return the most that classes make each cell off by, for an interval of width 1.

    Half of Σ |p - P v| over all users: those of a class who were not in the cell count too.
    """
    users = steps.labels, steps.cluster_shares()
    work = partial(_cluster_bias, n_clusters=steps.cluster_noise.size)
    return np.asarray(occupancy.map_cells(work, (occupancy.records_per_cell,), users))


def _cluster_bias(
    pairs: Pairs, records: Ints, labels: Ints, weight: Floats, n_clusters: int
) -> Floats:
    """Return the same of some cells."""
    own = pairs.n / records[pairs.cell]
    # Only clusters that a cell has: a table of cells and clusters would be larger than the pairs.
    place = pairs.cell * n_clusters + labels[pairs.user]
    _, which = np.unique(place, return_inverse=True)
    classed = (np.bincount(which, pairs.n)[which] / records[pairs.cell]) * weight[pairs.user]
    cell = np.add.reduceat(np.abs(own - classed) - classed, pairs.start[:-1])
    # Shares of a cell's clusters add up to 1, and so do the weights in each.
    return np.asarray((cell + 1.0) / 2.0)


def laplace_sum_quantile95(parts: Floats, own: Floats) -> Floats:
    """Return an upper bound on the 95% quantile of |sum of Laplace variables|.

    Parameters
    ----------
    parts : ndarray of float, shape (n_cells, n_classes)
        Laplace scales.
    own : ndarray of float, shape (n_cells,)
        One more.

    Examples
    --------
    >>> bool(LN20 <= laplace_sum_quantile95(np.zeros((1, 1)), np.ones(1))[0] < 6)
    True
    """
    largest = np.maximum(parts.max(axis=1), own)
    best = np.full(own.size, np.inf)
    # Every λ below 1 / largest scale gives a valid bound: the grid costs tightness, never truth.
    for part_of_it in np.linspace(0.05, 0.98, 32):
        rate = part_of_it / largest
        losses = np.log1p(-((rate[:, None] * parts) ** 2)).sum(axis=1)
        losses += np.log1p(-((rate * own) ** 2))
        best = np.minimum(best, (LN40 - losses) / rate)
    return best
