"""Variances under a private interval: how far squares reach, and how the loss is split.

A user's second moment about the middle c of the interval is projected to [0, r²], r a radius in
halves of the interval's width; the cell's variance is the weighted average of these, with noise,
less the square of the noisy mean's distance from c (mechanisms/weighted/weighted_variance.py). A
user moves the average by w r², w its weight, so that noise grows with the square of r; a small r
cuts much.

What is assumed of values beside what planning/clipping_range/private_range.py assumes: samples of
one user in one cell spread around their mean as user means spread, by `SPREAD` of the span. With
the user means' own deviation as the unit and m samples of a user, its second moment is Z² + 1 -
1/m, Z normal, and what the radius k cuts of it is known in closed form (`expected_excess`). What
the mean's noise and its likely bias make the variance off by is 2 |mean - c| times theirs, and the
noise's square. Radius and split are chosen from `RADII` and `SPLITS` so that the predicted error is
least: of the variance, or of mean and variance as shares of what a constant can miss where both are
asked for. Weights are those of a mean with half of the loss.

The split is one for all cells: with noises n/φ for the mean and n/(1 - φ) for the second moment a
user of weight w loses w/n in a cell, whatever φ is. A prior that does not fit costs accuracy, never
privacy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from hexveil.accounting.error_model import (
    MAX_CONSTANT_ERROR,
    WeightedVarianceErrorModel,
    constant_error,
    has_single_record,
)
from hexveil.accounting.noise_law import LAPLACE, NoiseLaw
from hexveil.base.arrays import Floats, Ints
from hexveil.model.occupancy import LocalOccupancy, Occupancy, PairColumn, Pairs
from hexveil.planning.clipping_range.fast_prediction import RangeSearch
from hexveil.planning.clipping_range.private_range import (
    WEIGHT_CONFOUNDING,
    WITHIN_CELL_SHARE,
    PrivateClippingRange,
    half_width_sd,
)
from hexveil.planning.clipping_range.user_weights import UserMeanPrior, expected_bias
from hexveil.planning.optimizers.pair_sums import fetch_sample
from hexveil.planning.request import Request

MEAN_PART = 0.5
"""Part of the loss of the cells for which users are weighed, whatever the split."""
RADII = tuple(Fraction(n, 4) for n in (4, 5, 6, 7, 8, 10, 12, 16))
SPLITS = tuple(Fraction(n, 20) for n in range(1, 20))
MEAN_CELL_OFFSET = math.sqrt(2.0 / math.pi * (1.0 - WITHIN_CELL_SHARE**2))
"""Expected distance of a cell's mean from the centre by the prior, in deviations of user means."""


@dataclass(frozen=True, eq=False)
class VarianceRange:
    """An interval with its radius, and the noise of both statistics.

    Attributes
    ----------
    interval : PrivateClippingRange
    mean : ndarray of float, shape (n_cells,)
        Scale of the mean's noise for an interval of width 1.
    variance : ndarray of float, shape (n_cells,)
        Scale of the second moment's noise for a radius of 1.
    split : float
        The mean's part of the loss, in cells that have both statistics.
    predicted : float
        Error to expect on average, as a share of what a constant can miss.
    """

    interval: PrivateClippingRange
    mean: Floats
    variance: Floats
    split: float
    predicted: float


def plan_variance_range(search: RangeSearch, request: Request) -> VarianceRange:
    """Return interval, radius and split of least predicted error.

    Of pairs that stay elsewhere some users' are fetched, and lead to all three; the weights are
    then found for all users. If all pairs are fetched, the plan is that of pairs at hand.

    Parameters
    ----------
    search : RangeSearch
    request : Request
        With a private interval, and a variance.
    """
    occupancy = search.occupancy
    local, _, part = fetch_sample(occupancy)
    candidates = [
        (one, *search.interval(one, part=MEAN_PART, users=(local, part)))
        for one in search.candidates
    ]
    with_radius = [
        (one, _best(local, request, interval, weights.noise))
        for one, interval, weights in candidates
    ]
    one, best = min(with_radius, key=lambda tried: tried[1].predicted)
    if local is occupancy:
        return best
    interval, weights = search.interval(one, part=MEAN_PART)
    known = has_single_record(occupancy)
    noises = split_noise(weights.noise, best.split, known, request.law)
    whole = replace(interval, radius=best.interval.radius)
    return VarianceRange(whole, *noises, best.split, best.predicted)


def split_noise(
    noise: Floats, split: float, known: NDArray[np.bool_], law: NoiseLaw
) -> tuple[Floats, Floats]:
    """Return the noise of both statistics, for the noise of one that has all of the loss."""
    parts = split, 1.0 - split
    # Squares of μ fall with the square of Gaussian noise, pure losses with Laplace noise itself.
    mean, square = (noise / part ** (1.0 / law.power) for part in parts)
    # The variance of one record is 0: the mean has all of the loss there.
    return np.where(known, noise, mean), np.where(known, 0.0, square)


def _best(
    occupancy: LocalOccupancy, request: Request, interval: PrivateClippingRange, noise: Floats
) -> VarianceRange:
    """Return radius and split of least predicted error for an interval and its weights."""
    expected = interval.expected_bias()
    splits = SPLITS if request.split is None else (request.split,)
    known, law = has_single_record(occupancy), request.law
    candidates, ranges = [], [replace(interval, radius=radius) for radius in RADII]
    for weights, fixed in zip(ranges, _without_noise(ranges), strict=True):
        for split in map(float, splits):
            mean, square = split_noise(noise, split, known, law)
            through_mean = error_through_mean(weights, mean, expected, law)
            error = np.where(known, 0.0, fixed + through_mean + law.mean_absolute * square)
            value = (
                weights.half_width_and_radius()[1] ** 2
                * float(error.mean())
                / MAX_CONSTANT_ERROR["variance"]
            )
            if "mean" in request.noised:
                value += (
                    weights.width
                    * float((law.mean_absolute * mean + expected).mean())
                    / MAX_CONSTANT_ERROR["mean"]
                )
            candidates.append(VarianceRange(weights, mean, square, split, value))
    return min(candidates, key=lambda one: one.predicted)


def variance_error_model(
    interval: PrivateClippingRange,
    occupancy: Occupancy,
    span: Floats,
    noise: tuple[Floats, Floats],
    law: NoiseLaw = LAPLACE,
) -> WeightedVarianceErrorModel:
    """Return the error model of the variances: noise and weights.

    Parameters
    ----------
    interval : PrivateClippingRange
        With a radius.
    occupancy : Occupancy
    span : ndarray of float, shape (n_cells,)
    noise : pair of ndarray of float, shape (n_cells,)
        Scales of means for an interval of width 1, of second moments for a radius of 1.
    law : NoiseLaw
    """
    half, radius = interval.half_width_and_radius()
    mean, square = noise
    (expected,) = _without_noise([interval])
    return WeightedVarianceErrorModel(
        "variance",
        (span * radius) ** 2,
        square,
        np.zeros_like(square),
        constant_error("variance", occupancy),
        max_bias=interval.max_bias(),
        expected_bias=expected + error_through_mean(interval, mean, interval.expected_bias(), law),
        half_width=half / radius,
        mean_noise=mean,
        # Less than a quantum for each user, and h is a quantum at least.
        rounding=occupancy.users_per_cell / interval.weight.totals,
        law=law,
    )


def error_through_mean(
    interval: PrivateClippingRange, noise: Floats, likely: Floats, law: NoiseLaw = LAPLACE
) -> Floats:
    """Return the expected error of the variance by the mean's noise and bias, in units of r²."""
    half, radius = interval.half_width_and_radius()
    b, bias = (2.0 * half / radius * one for one in (noise, likely))
    return np.asarray(
        2.0 * MEAN_CELL_OFFSET / _deviations(interval) * np.hypot(law.mean_absolute * b, bias)
        + law.absolute_excess * b**2
    )


def expected_excess(k: float, n: Floats) -> Floats:
    """Return the average clipping of second moments of users with n samples at radius k.

    E max(Z² + 1 - 1/n - k², 0), Z normal; in squared deviations of user means.

    Examples
    --------
    >>> expected_excess(0.0, np.array([1.0, 2.0])), expected_excess(9.0, np.array([1.0])) < 1e-9
    (array([1. , 1.5]), array([ True]))
    """
    level = k**2 - 1.0 + 1.0 / n
    root = np.sqrt(np.maximum(level, 0.0))
    tail = np.array([0.5 * math.erfc(one / math.sqrt(2.0)) for one in root.tolist()])
    density = np.exp(-(root**2) / 2.0) / math.sqrt(2.0 * math.pi)
    return np.asarray(2.0 * ((1.0 - root**2) * tail + root * density) - np.minimum(level, 0.0))


def _without_noise(intervals: Sequence[PrivateClippingRange]) -> list[Floats]:
    """Return each cell's expected bias by weights and radius, of one interval with some radii.

    As a part of r².
    """
    weights, radii = intervals[0].weight, tuple(map(_deviations, intervals))
    of_spread, of_drift = (
        expected_bias(weights, prior)
        for prior in (UserMeanPrior(1.0, 0.0), UserMeanPrior(0.0, WEIGHT_CONFOUNDING))
    )
    work = partial(_excess, weights=weights.column, totals=weights.totals, radii=radii)
    cut = weights.once(f"excess {radii!r}", lambda: weights.occupancy.map_cells(work))
    return [
        _expected_without_noise(k, of_spread, of_drift, cut[:, column])
        for column, k in enumerate(radii)
    ]


def _excess(pairs: Pairs, *, weights: PairColumn, totals: Ints, radii: tuple[float, ...]) -> Floats:
    """Return the clipping error of each radius per cell, in squared deviations of user means."""
    counts, which = np.unique(pairs.n, return_inverse=True)
    share, begin = weights.of(pairs) / pairs.spread(totals), pairs.start[:-1]
    excess = (expected_excess(k, counts.astype(np.float64))[which] for k in radii)
    return np.stack([np.add.reduceat(share * one, begin) for one in excess], axis=1)


def _expected_without_noise(k: float, of_spread: Floats, of_drift: Floats, cut: Floats) -> Floats:
    # Z² has a variance of 2; nothing in [0, 1] deviates by more than a half.
    spread = min(math.sqrt(2.0) / k**2, 0.5)
    return np.asarray(np.hypot(spread * of_spread + of_drift, cut / k**2))


def _deviations(interval: PrivateClippingRange) -> float:
    """Return the radius in deviations of user means, by the prior."""
    half, radius = interval.half_width_and_radius()
    return half_width_sd(interval.quantiles[0], interval.widening) * radius / half
