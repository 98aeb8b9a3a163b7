"""Estimates and intervals of a map of distributions with private presence. Post-processing, public.

The distribution of an open cell is a tilted form of the pooled shape (`tilt_estimation`), fitted to
its noisy bins; all statistics are those of this one distribution, so they agree. The weight W of a
cell is the sum of its noisy bins: its interval follows from the law of the sum of B numbers of
noise (`noise_law`). A cell that was tested is seen only if W reached the threshold, so the lower
end there is at most the w of which P(w + Z >= W | w + Z >= T) is 2.5 %.

Intervals of statistics are those of draws around each cell's tilts. The variance of the bins is
that of the noise, and SAMPLING / max(W, 1): weights of units are not those of records, and cells
have few units; W is the expected weight (`expected_weights`). That of the tilts is multiplied by
INFLATION, as shapes of cells are not exactly tilts of the pooled one. The constants were chosen on
the tuning sets of `benchmarks/distributions.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hexveil.accounting.noise_law import NoiseLaw
from hexveil.accounting.promise import PARTS
from hexveil.base.arrays import Floats, Ints
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.mechanisms.contract import Outputs
from hexveil.mechanisms.distribution.shape_statistics import (
    ShapeStatistics,
    between_cells,
    drawn_statistics,
)
from hexveil.mechanisms.distribution.tilt_estimation import TiltFit, fit_bins
from hexveil.mechanisms.presence.presence_decoding import lowest_weights
from hexveil.mechanisms.presence.shape_allocation import ShapeAllocation

MISS = 0.05
SAMPLING, INFLATION = 0.02, 3.25
SHARE_ALLOWANCE = 0.02
"""Part of the limits by which intervals are widened: no tilt makes a share exactly 0 or 1."""
LEAST_MEAN, LEAST_VARIATION, LEAST_WEIGHT = 0.05, 0.3, 0.25
"""Least mean of weights, in deviations of their noise; least deviation and weight, in means."""


@dataclass(frozen=True, eq=False)
class ShapeMap(ReadOnlyArrays):
    """A released map of distributions: every cell of the declared grid, open or closed. Public.

    Attributes
    ----------
    is_open : ndarray of bool, shape (n_cells,)
        Numbers of closed cells are NaN.
    weight, weight_low, weight_high : ndarray of float, shape (n_cells,)
        Weight of the units in the cell and its 95 % interval.
    estimate, low, high : ndarray of float, shape (n_cells, n_columns)
        Statistics and their 95 % intervals, in their own units.
    weight_noisy : ndarray of float, shape (n_cells,)
        Sum of the noisy bins, which may be negative: sums over cells are unbiased.
    error : ndarray of float, shape (n_cells, n_columns)
        Expected absolute errors, with half a fine bin in those of quantiles.
    between : ndarray of float, shape (n_columns,)
        Standard deviation of each statistic between open cells; NaN without any.
    """

    is_open: NDArray[np.bool_]
    weight: Floats
    weight_low: Floats
    weight_high: Floats
    estimate: Floats
    low: Floats
    high: Floats
    weight_noisy: Floats
    error: Floats
    between: Floats


def decode_shapes(
    plan: ShapeAllocation,
    outputs: Outputs,
    statistics: ShapeStatistics,
    groups: Sequence[Ints] = (),
) -> ShapeMap:
    """Return the map of a release's noisy numbers; `groups` as in `fit_bins`, of all cells."""
    bins = plan.noisy_bins(outputs)
    weight, law = bins.sum(axis=1), plan.law
    is_open, threshold = plan.prices(outputs) > 0, plan.threshold(bins.shape[1])
    if threshold is not None:
        is_open &= np.rint(weight * PARTS) >= threshold
    columns = np.full((4, weight.size, len(statistics.columns)), np.nan)
    between = np.full(len(statistics.columns), np.nan)
    if is_open.any():
        shares = plan.shape.shares(outputs)
        own = [group[is_open] for group in groups]
        noise = law.number_deviation / PARTS
        fit = fit_cells(shares, bins[is_open], plan.cell_place(outputs), noise, own)
        place = plan.shape.measured_place(outputs)
        columns[:, is_open], between = _with_intervals(shares, fit, statistics, place)
    least = None if threshold is None else threshold / PARTS
    low, high = weight_interval(weight, law, bins.shape[1], least)
    numbers = np.where(is_open, (np.maximum(weight, 0.0), low, high, weight), np.nan)
    return ShapeMap(
        is_open,
        weight=numbers[0],
        weight_low=numbers[1],
        weight_high=numbers[2],
        estimate=columns[0],
        low=columns[1],
        high=columns[2],
        weight_noisy=numbers[3],
        error=columns[3],
        between=between,
    )


def fit_cells(
    shares: Floats,
    bins: Floats,
    place: NDArray[np.int64],
    noise: float,
    groups: Sequence[Ints] = (),
) -> TiltFit:
    """Return the tilts of cells by their noisy bins; `noise` is its deviation, in units."""
    weight = expected_weights(bins.sum(axis=1), bins.shape[1] * noise**2)
    variance = (noise / weight) ** 2 + SAMPLING / np.maximum(weight, 1.0)
    fit = fit_bins(shares, bins, place, weight, variance, groups)
    return TiltFit(fit.alpha, INFLATION * fit.covariance)


def expected_weights(noisy: Floats, variance: float) -> Floats:
    """Return the expected weights of cells, given noisy ones of one variance.

    A cell's noisy weight in the place of its weight would shrink the tilts of cells of little
    weight, and so the estimate of how much cells differ.
    """
    mean = max(float(noisy.mean()), LEAST_MEAN * variance**0.5)
    between = max(float(noisy.var()) - variance, (LEAST_VARIATION * mean) ** 2)
    expected = mean + between / (between + variance) * (noisy - mean)
    return np.asarray(np.maximum(expected, LEAST_WEIGHT * mean))


def weight_interval(
    weight: Floats, law: NoiseLaw, n_bins: int, threshold: float | None
) -> tuple[Floats, Floats]:
    """Return 95 % intervals of weights, by the law of the noise.

    Parameters
    ----------
    weight : ndarray of float, shape (n_cells,)
        Noisy weights, in units.
    law : NoiseLaw
        Of each number of noise.
    n_bins : int
        Numbers in each weight.
    threshold : float or None
        Noisy weight from which a cell is seen; None where all are.
    """
    noise = law.scale / PARTS
    margin = noise * law.total_quantile(n_bins, MISS / 2.0)
    low = np.maximum(weight - margin, 0.0)
    if threshold is not None:
        low = np.minimum(
            low, noise * lowest_weights(weight / noise, threshold / noise, law, n_bins)
        )
    return low, np.maximum(weight + margin, 0.0)


def _with_intervals(
    shares: Floats, fit: TiltFit, statistics: ShapeStatistics, place: Ints
) -> tuple[Floats, Floats]:
    """Return estimates, ends and errors, shape (4, n_cells, n_columns); and spreads of cells."""
    middle, low, high, error = drawn_statistics(statistics, shares, fit)
    # Intervals are inflated, expected errors are not.
    error = error / INFLATION**0.5
    between = between_cells(middle, error)
    least, largest = statistics.limits.T
    allowance = np.where(statistics.is_share, SHARE_ALLOWANCE, 0.0)
    # A middle outside its own draws' interval would be no estimate of it.
    low, high = statistics.to_bin_ends(np.minimum(low, middle), np.maximum(high, middle), place)
    low, high = np.maximum(low - allowance, least), np.minimum(high + allowance, largest)
    return np.stack([middle, low, high, np.hypot(error, statistics.half_bins)]), between
