"""Clipping ranges of single cells: shares of ε for each stage, weights and noise.

One range for the whole map cuts off cells that differ much from the others. Here pooled quantiles
of user means give the range of a first look at every cell, at the share `FIRST_SHARE` of what is
left of ε; then every cell keeps that range, or is measured anew in a range of its own at the rest.
A user's loss by a cell does not depend on the cell's range: noise is in proportion to its width.
So weights and noise are planned before any value is read (mechanisms/cell_ranges/ for the proof).

With W the votes of all users, at most one each, a choice at ε' has the scale 2/ε' votes. The
quantiles q and 1 - q, at half of ε' each, are eight scales away from the ends of the bounds where
ε' = `MIN_RANK_PRECISION` / (q W): else one of the many points beyond all user means would often be
chosen. Three quantiles take `THREE_QUANTILES` times as much: each has a third of ε', not a half.

What is assumed (costs accuracy, never privacy): user means as in
planning/clipping_range/private_range.py; a range reaches `HALF_WIDTH` deviations either way.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from hexveil.accounting.error_model import MAX_CONSTANT_ERROR, WeightedMeanErrorModel
from hexveil.accounting.noise_law import GAUSSIAN, LAPLACE
from hexveil.base.errors import InputError
from hexveil.base.rational import decimal_text
from hexveil.mechanisms.cell_ranges.distributed_votes import WeightedVotes
from hexveil.mechanisms.cell_ranges.pooled_spread import (
    HALF_WIDTH,
    SPREAD_QUANTILE,
    distance_vote_ratio,
    weighted_votes,
)
from hexveil.mechanisms.map_quantiles import GRAIN
from hexveil.model.factored_weights import FactoredWeights
from hexveil.planning.clipping_range.cell_range_plan import CellRangePlan
from hexveil.planning.clipping_range.private_range import (
    MAX_RANGE_SHARE,
    MIN_RANGE_SHARE,
    MIN_RANK_PRECISION,
    PRIOR_SD,
    expected_clipping_error,
    user_mean_prior,
)
from hexveil.planning.clipping_range.user_weights import (
    ITERATIONS,
    expected_bias,
    relative_weights,
)
from hexveil.planning.clipping_range.weight_search import find_user_weights, in_whole_parts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hexveil.accounting.noise_law import NoiseLaw
    from hexveil.model.factored_weights import Weights
    from hexveil.model.occupancy import Occupancy

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

FIRST_SHARE = Fraction(3, 10)
"""Share of the cells' loss for the first look."""
OUTER_QUANTILES = (Fraction(1, 10), Fraction(3, 20), Fraction(1, 5))
"""Lower quantiles tried; the upper one is as far from the other end."""
OUTER_SHARE = Fraction(8, 100)
"""A quantile further out is taken where it costs no more than this share of ε."""
THREE_QUANTILES = Fraction(3, 2)
"""Cost of three quantiles relative to two."""
THREE_QUANTILES_SHARE = Fraction(12, 100)
"""The median is estimated too where three quantiles cost no more than this share of ε."""
MIN_SPREAD_SHARE, MAX_SPREAD_SHARE = Fraction(15, 1000), Fraction(8, 100)
"""Shares of ε for the spread; it is not measured where it would cost more."""
MIN_VOTES_TIMES_EPSILON = 220
"""Votes times ε below which quantiles are mostly noise: a map would lose to one constant."""

MOST_WITHIN_BOUNDS = 1.0 / 16.0
"""Largest error, as a part of the span, at which a plan within bounds takes the place of ranges:
half of the deviation of user means by the prior. A worse one says hardly more than a constant."""


def expected_width(half_width_sd: float) -> float:
    """Return the width of a range by the prior, as a part of the span.

    Examples
    --------
    >>> expected_width(1.6)
    0.4
    """
    return 2.0 * half_width_sd * PRIOR_SD


def total_votes(occupancy: Occupancy, weight: Weights) -> Fraction:
    """Return W: the votes of all users, at most one each."""
    if isinstance(weight, FactoredWeights):
        return Fraction(int(WeightedVotes(weight).user_votes.sum()), GRAIN)
    return Fraction(int(weighted_votes(occupancy.local(), weight).sum()), GRAIN)


def may_support_cell_ranges(occupancy: Occupancy, epsilon: Fraction) -> bool:
    """Return whether there are cells to tell apart, and users enough if each has all of its vote.

    Examples
    --------
    >>> from hexveil.model.occupancy import LocalOccupancy
    >>> crowd = LocalOccupancy.from_dense([[1, 1]] * 220)
    >>> may_support_cell_ranges(crowd, Fraction(1)), may_support_cell_ranges(crowd, Fraction(1, 2))
    (True, False)
    """
    return occupancy.n_users * epsilon >= MIN_VOTES_TIMES_EPSILON and occupancy.n_cells > 1


def supports_cell_ranges(occupancy: Occupancy, plan: CellRangePlan, epsilon: Fraction) -> bool:
    """Return whether the votes of these weights are enough for pooled quantiles."""
    return total_votes(occupancy, plan.weight) * epsilon >= MIN_VOTES_TIMES_EPSILON


def quantile_shares(votes: Fraction, epsilon: Fraction) -> tuple[tuple[Fraction, ...], Fraction]:
    """Return the pooled quantiles, and the share of ε that they take.

    Parameters
    ----------
    votes : Fraction
        W, the votes of all users.
    epsilon : Fraction

    Examples
    --------
    >>> [text for text in map(str, quantile_shares(Fraction(4000), Fraction(1))[0])]
    ['3/20', '1/2', '17/20']
    >>> quantile_shares(Fraction(300), Fraction(1))
    ((Fraction(1, 5), Fraction(4, 5)), Fraction(1, 5))
    """
    innermost = OUTER_QUANTILES[-1]
    with_median = THREE_QUANTILES * _needed(innermost, votes, epsilon) <= THREE_QUANTILES_SHARE
    times = THREE_QUANTILES if with_median else Fraction(1)
    affordable = (q for q in OUTER_QUANTILES if times * _needed(q, votes, epsilon) <= OUTER_SHARE)
    outer = next(affordable, innermost)
    share = _thousandths_up(times * _needed(outer, votes, epsilon))
    quantiles = (outer, Fraction(1, 2), 1 - outer) if with_median else (outer, 1 - outer)
    return quantiles, min(max(share, MIN_RANGE_SHARE), MAX_RANGE_SHARE)


def spread_share(votes: Fraction, epsilon: Fraction) -> Fraction:
    """Return the share of ε that the spread within cells takes; 0 where it is not measured.

    Parameters
    ----------
    votes : Fraction
        Votes of all distances, relative to what a user moves.
    epsilon : Fraction

    Examples
    --------
    >>> spread_share(Fraction(2000), Fraction(1)), spread_share(Fraction(300), Fraction(1))
    (Fraction(27, 1000), Fraction(0, 1))
    """
    if not votes:
        return Fraction(0)
    # One choice, not two: half of what a pair of quantiles needs.
    share = _thousandths_up(_needed(1 - SPREAD_QUANTILE, votes, epsilon) / 2)
    return Fraction(0) if share > MAX_SPREAD_SHARE else max(share, MIN_SPREAD_SHARE)


def _needed(quantile: Fraction, votes: Fraction, epsilon: Fraction) -> Fraction:
    """Return the part of ε at which two quantiles are as precise as wanted."""
    return MIN_RANK_PRECISION / (quantile * votes * epsilon)


def _thousandths_up(share: Fraction) -> Fraction:
    # A share is printed and booked as a short exact number.
    return Fraction(math.ceil(share * 1000), 1000)


def plan_cell_ranges(
    occupancy: Occupancy,
    epsilon: Fraction,
    share: Fraction | None,
    iterations: int = ITERATIONS,
) -> tuple[CellRangePlan, Floats]:
    """Return the decisions, and each cell's noise for a range of width 1.

    Parameters
    ----------
    occupancy : Occupancy
    epsilon : Fraction
        The most that a user may lose, in all.
    share : Fraction or None
        Part of it for the pooled quantiles; default by the votes.
    iterations : int
        Of the search for weights; fewer of them are good enough for a prediction.

    Raises
    ------
    InputError
        If the share leaves nothing for the cells.
    """
    # What is left for the cells follows from the weights' votes; 10 % less changes weights little.
    expected_loss = 0.9 * float(epsilon)
    prior = user_mean_prior(float(HALF_WIDTH))
    weights = find_user_weights(occupancy, expected_loss, prior, iterations)
    weight = in_whole_parts(weights)
    quantiles, default = quantile_shares(total_votes(occupancy, weight), epsilon)
    pooled = default if share is None else share
    inside = spread_share(distance_vote_ratio(occupancy, weight), epsilon)
    if pooled + inside >= 1:
        raise InputError(
            f"range_share {decimal_text(pooled)} leaves nothing for the cells: the spread of user "
            f"means within cells takes {decimal_text(inside)} of epsilon."
        )
    shares = epsilon * pooled, epsilon * inside
    noise = weights.noise * expected_loss / float(epsilon - sum(shares))
    return CellRangePlan(quantiles, *shares, FIRST_SHARE, weight, HALF_WIDTH), noise


def mean_error_model(
    occupancy: Occupancy,
    span: Floats,
    plan: CellRangePlan,
    noise: Floats,
    law: NoiseLaw = LAPLACE,
) -> WeightedMeanErrorModel:
    """Return the error model of each cell's mean: noise, weights, and clipping by the prior.

    Before a release all cells are taken to keep the range of the first look, of the width that the
    prior says. Worst-case bias and bound are about user means clipped to the cell's own range.

    Parameters
    ----------
    occupancy : Occupancy
    span : ndarray of float, shape (n_cells,)
    plan : CellRangePlan
    noise : ndarray of float, shape (n_cells,)
        For a range of width 1 and all that the cells may cost.
    law : NoiseLaw
    """
    reach = float(plan.half_width)
    width, moved = np.full(noise.size, expected_width(reach)), np.zeros(noise.size, bool)
    if plan.outputs is not None:
        width, moved = plan.outputs.width, plan.outputs.moved
    # A cell that is measured anew has the rest of the loss for that, or of the square of μ.
    rest = float(1 - plan.first_share)
    last = np.where(moved, noise / (math.sqrt(rest) if law == GAUSSIAN else rest), noise)
    weights = relative_weights(occupancy, plan.weight)
    by_weights = expected_bias(occupancy, weights, user_mean_prior(reach))
    return WeightedMeanErrorModel(
        "mean",
        span * width,
        last,
        np.zeros_like(noise),
        np.full(noise.size, MAX_CONSTANT_ERROR["mean"]),
        max_bias=plan.max_bias(occupancy),
        expected_bias=np.hypot(by_weights, expected_clipping_error(reach)),
        law=law,
    )
