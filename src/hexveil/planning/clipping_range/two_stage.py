"""Narrower ranges in a second step: around each user's own mean, or around each cell's.

The interval of planning/clipping_range/private_range.py is as wide as user means differ. Most of
that may be between users, each alike in all its cells, or most within users. One more private step
says which: the half width h that holds 80% of the distances of (cell, user) means from the user's
own mean, each user who was in two cells or more counted once (mechanisms/map_quantiles.py). Then
the release follows the strategy of least predicted error. All three are planned before any value is
read.

single_stage
    The cell's weighted average of user means in the interval: clipping_range="private".
user_residuals
    Means of classes of users who report alike (planning/clipping_range/user_clusters.py), within
    the interval; and for each cell the weighted average of distances from the user's own projected
    mean, within ±h. The number is Σ over classes of (part of the cell's records) x (mean of the
    class), plus that.
cell_residuals
    A first noisy average of each cell, from the part `FIRST_STAGE_SHARE` of ε; then the weighted
    average of distances from it, within ±h', narrower than user means of one cell differ. The
    number is the first, moved by the second; smoothed estimates undo the clipping by a stated model
    (smoothing/declipping.py).

A user's loss is the sum of those by the range, by h, and by the most expensive strategy, so that it
is known whatever is released. The strategies `single_stage` and `cell_residuals` have the same
weights and cost each user the same. Weights of pairs that stay elsewhere are numbers of users and
of cells (`hexveil.model.factored_weights`), for both kinds of strategies; a user's loss is computed
from them where its pairs are. Source: the loss of a linear statistic adds up over cells
(accounting/privacy_loss.py); that later stages may depend on earlier outputs: ledger/odometer.py.

What is assumed (costs accuracy, never privacy): user means spread by τ, within users by h/1.28; a
cell's users spread by s, s² = τ² - half of what is within users, the other half being between
cells; classes leave τ/√K (planning/clipping_range/user_clusters.py). Where users differ among
themselves by most of τ a cell holds users of several kinds, and its law is not taken for normal:
`cell_residuals` is then not chosen.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from hexveil.base.errors import InputError
from hexveil.base.rational import decimal_text
from hexveil.mechanisms.released_ranges import (
    RANGE_HALF_WIDTH_SD,
    RESIDUAL_HALF_WIDTH_SD,
    RESIDUAL_QUANTILE,
)
from hexveil.model.factored_weights import WEIGHT_RESOLUTION
from hexveil.planning.clipping_range import user_clusters
from hexveil.planning.clipping_range.fast_prediction import RangeCandidate, select_candidate
from hexveil.planning.clipping_range.private_range import (
    MAX_RANGE_SHARE,
    WEIGHT_CONFOUNDING,
    PrivateClippingRange,
    build_range_plan,
    required_epsilon_share,
)
from hexveil.planning.clipping_range.strategies import (
    EXPECTED_WIDTHS,
    RESIDUAL_CONFOUNDING,
    predict_user_residual_error,
)
from hexveil.planning.clipping_range.two_stage_plan import TwoStagePlan
from hexveil.planning.clipping_range.user_weights import UserMeanPrior, optimize_user_weights
from hexveil.planning.clipping_range.weight_search import find_user_weights, in_whole_parts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hexveil.model.occupancy import Occupancy

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

QUANTILE_WIDENINGS = {
    Fraction(10, 100): Fraction(1),
    Fraction(15, 100): Fraction(5, 4),
    Fraction(1, 5): Fraction(3, 2),
}
"""Quantiles for the interval, and the widening at which it reaches 1.28 deviations."""
SINGLE_STAGE_WIDENINGS = tuple(Fraction(n, 4) for n in (4, 5, 6))
"""Stretches tried for the strategy `single_stage`."""
MIN_RESIDUAL_SHARE, MAX_RESIDUAL_SHARE = Fraction(1, 50), Fraction(1, 10)
"""Shares of ε for h."""
CLUSTER_EPSILON_SHARES = (Fraction(1, 4), Fraction(7, 20), Fraction(9, 20))
"""Parts of what is left of ε that the classes may take."""
CLUSTER_COUNTS = (0.5, 1.0, 2.0, 3.0)
"""Numbers of classes tried, in roots of the number of users."""
MAX_CLUSTERS = 1024


def plan_two_stage(
    occupancy: Occupancy, epsilon: Fraction, share: Fraction | None
) -> tuple[PrivateClippingRange, Floats, TwoStagePlan]:
    """Return the interval, each cell's noise under the strategy `single_stage`, and the steps.

    Parameters
    ----------
    occupancy : Occupancy
    epsilon : Fraction
        The most that a user may lose, in all.
    share : Fraction, optional
        Part of it for the interval; default by its number of users.

    Raises
    ------
    InputError
        If no user was in two cells, or nothing is left for the cells.
    """
    inside = residual_epsilon_share(occupancy, epsilon)
    if share is not None and share + inside >= 1:
        raise InputError(
            f"range_share {decimal_text(share)} leaves nothing for the cells: the second step "
            f"takes {decimal_text(inside)} of epsilon."
        )
    # A quantile that would not be found precisely gives a range that is mostly noise.
    sure = [
        q
        for q in QUANTILE_WIDENINGS
        if required_epsilon_share(q, occupancy.n_users, epsilon) <= (share or MAX_RANGE_SHARE)
    ]
    quantile = (sure or list(QUANTILE_WIDENINGS)[-1:])[0]
    candidates = [RangeCandidate(quantile, widening) for widening in SINGLE_STAGE_WIDENINGS]
    # h is paid first: the range is chosen for what is left.
    best, quantized = select_candidate(occupancy, candidates, epsilon * (1 - inside), share)
    spent = epsilon * inside
    interval, noise = build_range_plan(
        occupancy, epsilon, share, best.ends, spent=spent, begin=quantized
    )
    remaining = epsilon * (1 - inside) - interval.epsilon
    steps = _by_users(occupancy, remaining, epsilon * inside, QUANTILE_WIDENINGS[quantile])
    return interval, noise, steps


def residual_epsilon_share(occupancy: Occupancy, epsilon: Fraction) -> Fraction:
    """Return the part of ε that finding h takes.

    Raises
    ------
    InputError
        If no user was in two cells.
    """
    several = int((occupancy.cells_per_user > 1).sum())
    if not several:
        raise InputError(
            'clipping_range "two-stage" compares values of users in several cells, and no user was '
            'in two; ask for "private".'
        )
    share = math.ceil(required_epsilon_share(1 - RESIDUAL_QUANTILE, several, epsilon) * 1000)
    return min(max(Fraction(share, 1000), MIN_RESIDUAL_SHARE), MAX_RESIDUAL_SHARE)


def _by_users(
    occupancy: Occupancy, left: Fraction, inside: Fraction, widening: Fraction
) -> TwoStagePlan:
    """Return the clusters, weights and noise of least predicted error under `user_residuals`."""
    # Searched once, at a loss of 1: how both stages split the rest is decided below.
    fine = find_user_weights(
        occupancy, 1.0, UserMeanPrior(1.0 / (2.0 * RESIDUAL_HALF_WIDTH_SD), RESIDUAL_CONFOUNDING)
    )
    residual_weight = in_whole_parts(fine)
    best: tuple[float, TwoStagePlan] | None = None
    for labels in user_clusters.cluster_labels(occupancy, _numbers(occupancy.n_users)):
        grouping = user_clusters.clusters_from_labels(occupancy, labels)
        weights = optimize_user_weights(
            grouping.occupancy,
            float(left),
            UserMeanPrior(0.5 / RANGE_HALF_WIDTH_SD, WEIGHT_CONFOUNDING),
        )
        weight = np.empty(occupancy.n_users, dtype=np.int64)
        weight[grouping.occupancy.user] = np.floor(weights.weight * WEIGHT_RESOLUTION).astype(
            np.int64
        )
        for share in CLUSTER_EPSILON_SHARES:
            steps = TwoStagePlan(
                inside,
                widening,
                grouping.labels,
                weight,
                weights.noise / float(share),
                residual_weight,
                fine.noise / float(left * (1 - share)),
            )
            # Compared after calibration, so that each candidate loses exactly what is left.
            steps = calibrate_two_stage_noise(occupancy, steps, left)
            noise, expected = predict_user_residual_error(
                occupancy, steps, *EXPECTED_WIDTHS, grouping
            )
            error = float(np.hypot(noise, expected).mean())
            if best is None or error < best[0]:
                best = error, steps
    assert best is not None  # noqa: S101  there are numbers to try
    return best[1]


def _numbers(users: int) -> list[int]:
    candidates = {math.ceil(times * math.sqrt(users)) for times in CLUSTER_COUNTS}
    return sorted({min(one, MAX_CLUSTERS, max(users // 4, 1)) for one in candidates})


def calibrate_two_stage_noise(
    occupancy: Occupancy, steps: TwoStagePlan, left: Fraction
) -> TwoStagePlan:
    """Calibrate noise of both stages: the most exposed user loses the remaining epsilon."""
    losses = float(sum(steps.losses(occupancy)).max())  # type: ignore[union-attr]
    return steps.with_noise_scaled(losses / float(left) * (1.0 + 2.0**-40))
