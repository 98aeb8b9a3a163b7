"""Predicted errors of variances under a private interval, and how the loss is split.

A user's second moment about the middle c of the interval is projected to [0, r²], r a radius in
halves of the interval's width; the cell's variance is the weighted average of these, with noise,
less the square of the noisy mean's distance from c (`weighted_variance`). A user moves the average
by w r², w its weight, so that noise grows with the square of r; a small r cuts much.

What is assumed of values beside what `user_weights` assumes: samples of one user in one cell spread
around their mean as user means spread. With the user means' own deviation as the unit and m samples
of a user, its second moment is Z² + 1 - 1/m, Z normal, and what the radius k cuts of it is known in
closed form (`expected_excess`). What the mean's noise and its likely bias make the variance off by
is 2 |mean - c| times theirs, and the noise's square.

The split is one for all cells: with noises n/φ for the mean and n/(1 - φ) for the second moment a
user of weight w loses w/n in a cell, whatever φ is. A prior that does not fit costs accuracy, never
privacy.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from hexveil.accounting.noise_law import NoiseLaw
from hexveil.base.arrays import Bools, Floats, Ints
from hexveil.mechanisms.looks.user_weights import (
    WEIGHT_CONFOUNDING,
    WITHIN_CELL_SHARE,
    UserMeanPrior,
    expected_bias,
)
from hexveil.model.occupancy import PairColumn, Pairs
from hexveil.model.pair_columns import Weights

MEAN_CELL_OFFSET = math.sqrt(2.0 / math.pi * (1.0 - WITHIN_CELL_SHARE**2))
"""Expected distance of a cell's mean from the centre by the prior, in deviations of user means."""


def split_noise(noise: Floats, split: float, known: Bools, law: NoiseLaw) -> tuple[Floats, Floats]:
    """Return the noise of both statistics, for the noise of one that has all of the loss."""
    parts = split, 1.0 - split
    # Squares of μ fall with the square of Gaussian noise, pure losses with Laplace noise itself.
    mean, square = (noise / part ** (1.0 / law.power) for part in parts)
    # The variance of one record is 0: the mean has all of the loss there.
    return np.where(known, noise, mean), np.where(known, 0.0, square)


def error_through_mean(
    half: float, deviations: float, noise: Floats, likely: Floats, law: NoiseLaw
) -> Floats:
    """Return the expected error of the variance by the mean's noise and bias, in units of r².

    Parameters
    ----------
    half : float
        Half of the interval's width, as a part of the radius.
    deviations : float
        The radius in deviations of user means.
    noise, likely : ndarray of float, shape (n_cells,)
        Scale and likely bias of the mean, for an interval of width 1.
    law : NoiseLaw
    """
    b, bias = (2.0 * half * one for one in (noise, likely))
    return np.asarray(
        2.0 * MEAN_CELL_OFFSET / deviations * np.hypot(law.mean_absolute * b, bias)
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


def errors_without_noise(weight: Weights, radii: tuple[float, ...]) -> list[Floats]:
    """Return each cell's expected bias by weights and radius, of some radii in deviations.

    As a part of r².
    """
    of_spread, of_drift = (
        expected_bias(weight, prior)
        for prior in (UserMeanPrior(1.0, 0.0), UserMeanPrior(0.0, WEIGHT_CONFOUNDING))
    )
    work = partial(_excess, weights=weight.column, totals=weight.totals, radii=radii)
    cut = weight.once(f"excess {radii!r}", lambda: weight.occupancy.map_cells(work))
    # Z² has a variance of 2; nothing in [0, 1] deviates by more than a half.
    return [
        np.hypot(min(math.sqrt(2.0) / k**2, 0.5) * of_spread + of_drift, cut[:, column] / k**2)
        for column, k in enumerate(radii)
    ]


def _excess(pairs: Pairs, *, weights: PairColumn, totals: Ints, radii: tuple[float, ...]) -> Floats:
    """Return the clipping error of each radius per cell, in squared deviations of user means."""
    counts, which = np.unique(pairs.n, return_inverse=True)
    share, begin = weights.of(pairs) / pairs.spread(totals), pairs.start[:-1]
    excess = (expected_excess(k, counts.astype(np.float64))[which] for k in radii)
    return np.stack([np.add.reduceat(share * one, begin) for one in excess], axis=1)
