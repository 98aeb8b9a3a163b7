"""What lies beyond the ranges of cells, and no smooth law explains: added to their posteriors.

The posterior of a cell undoes clipping by a two-piece normal law. A range cannot see whether there
is more beyond it: buses in express service, a few ships under way. The pooled histogram can. Of an
end b of a cell's range the *surplus* is the pooled excess E (X - b)+ less what the laws fitted to
all cells put there, on average over cells as the histogram has it; 0 at a bound of the values. A
cell has a part of it by its place in its range, shrunk by the noise of that place: cells with
numbers near an end have more beyond it.

With S a cell's surplus above, e the error of the excess, E2 its second moment and w the weights of
the cell's users, the estimate moves by the part of S that counts (`pooled_law`): one that may be
noise moves little. Cells differ by as much as their surplus, so that the interval is wider above by
1.96 sd of

    sd² = Σw² E2 (S / excess) + S² + e²,

and below by no more than S + e, since what lies beyond is not negative. Alike below.
Post-processing of noisy numbers and public facts, without randomness: it costs no privacy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from hexveil.base.read_only import ReadOnlyArrays
from hexveil.mechanisms.pooled_law import MeanView, PooledLaw, sure_part
from hexveil.smoothing.user_mean_law import ClippedLook, UserMeanLaw

if TYPE_CHECKING:
    from hexveil.base.arrays import Bools, Floats
    from hexveil.mechanisms.estimates import CutOff


ENDS = 49
"""Ends at which the excess of the fitted laws is computed; between them it is interpolated."""
LEAST_PART = 0.1
"""Smallest part of the average surplus that a cell has."""
NORMAL_95, MEAN_ABS_NORMAL = 1.96, math.sqrt(2.0 / math.pi)
TINY = 1e-12


@dataclass(frozen=True, eq=False)
class PosteriorEstimates(ReadOnlyArrays):
    """Estimates of each cell's average before clipping, in value units.

    Attributes
    ----------
    estimate : ndarray of float, shape (n_cells,)
        Posterior medians.
    low, high : ndarray of float, shape (n_cells,)
        Ends of the 95% intervals, before those of cells that are cut off are widened.
    expected_error : ndarray of float, shape (n_cells,)
        Expected absolute errors of the estimates.
    deviation : float or None
        Standard deviation of true averages between cells, without outlying ones; None for a map of
        one cell.
    cut_off : CutOff
        Cells with a number at an end of their range that the interval passes.
    surplus : ndarray of float, shape (n_cells,)
        By how much the estimates moved for what lies beyond the ranges.
    missed : ndarray of float, shape (n_cells,)
        Expected absolute error of that.
    tight : ndarray of bool, shape (n_cells,)
        Cells with a range that holds few of their users' averages, by the law fitted to them.
    """

    estimate: Floats
    low: Floats
    high: Floats
    expected_error: Floats
    deviation: float | None
    cut_off: CutOff
    surplus: Floats
    missed: Floats
    tight: Bools


@dataclass(frozen=True, eq=False)
class _Side:
    """One side of all cells: what the estimate moves by, and deviation and most of the surplus."""

    shift: Floats
    deviation: Floats
    most: Floats


def add_surplus(
    estimates: PosteriorEstimates, last: ClippedLook, view: MeanView, pooled: PooledLaw
) -> PosteriorEstimates:
    """Return estimates and intervals with what lies beyond the ranges of cells.

    Parameters
    ----------
    estimates : PosteriorEstimates
    last : ClippedLook
        The last number of each cell, and its range.
    view : MeanView
    pooled : PooledLaw
        The released law of all user means.
    """
    bounds = view.bounds
    above, below = _sides(estimates.estimate, last, view, pooled)
    surplus = above.shift - below.shift
    estimate = np.clip(estimates.estimate + surplus, *bounds)
    reach_up, reach_down = (
        np.hypot(NORMAL_95 * one.deviation, np.minimum(NORMAL_95 * other.deviation, other.most))
        for one, other in ((above, below), (below, above))
    )
    low = estimate - np.hypot(estimates.estimate - estimates.low, reach_down)
    high = estimate + np.hypot(estimates.high - estimates.estimate, reach_up)
    missed = MEAN_ABS_NORMAL * np.maximum(above.deviation, below.deviation)
    return replace(
        estimates,
        estimate=estimate,
        low=np.clip(low, *bounds),
        high=np.clip(high, *bounds),
        expected_error=np.hypot(estimates.expected_error, missed),
        surplus=surplus,
        missed=missed,
    )


def _sides(
    means: Floats, last: ClippedLook, view: MeanView, pooled: PooledLaw
) -> tuple[_Side, _Side]:
    """Return the surplus above and below the range of each cell."""
    bounds, shares = view.bounds, view.shares
    ends = np.linspace(*bounds, ENDS)
    fitted_above, fitted_below = _fitted_excess(means, view, ends)
    width = last.upper - last.lower
    place = np.clip((last.noisy - last.lower) / width, 0.0, 1.0)
    variance = (1.0 if last.is_gaussian else 2.0) * (last.scale / width) ** 2
    sides = []
    for excess, end, fitted, is_cut, near in (
        (pooled.above(last.upper), last.upper, fitted_above, last.upper < bounds[1], place),
        (pooled.below(last.lower), last.lower, fitted_below, last.lower > bounds[0], 1 - place),
    ):
        beyond = excess.where(is_cut)
        average = np.maximum(beyond.mean - np.interp(end, ends, fitted), 0.0)
        surplus = average * _parts(near, variance, shares)
        part = surplus / np.maximum(beyond.mean, TINY)
        deviation = np.sqrt(
            view.design.weight_squares * beyond.square * part + surplus**2 + beyond.error**2
        )
        shift = surplus * sure_part(surplus, beyond.error)
        sides.append(_Side(shift, deviation, surplus + beyond.error))
    return sides[0], sides[1]


def _fitted_excess(means: Floats, view: MeanView, ends: Floats) -> tuple[Floats, Floats]:
    """Return the average excess of the laws fitted to cells, above and below each end."""
    law = UserMeanLaw.of(view.design, view.spread, view.bounds)
    modes = law.modes(means[:, None])
    whole = law.mean(modes)
    bottom, top = view.bounds
    unit = (top - bottom) * TINY
    above = [whole - law.clipped(modes, bottom, max(end, bottom + unit)).mean for end in ends]
    below = [law.clipped(modes, min(end, top - unit), top).mean - whole for end in ends]
    averages = ([float(np.sum(view.shares * one[:, 0])) for one in side] for side in (above, below))
    first, second = map(np.array, averages)
    return first, second


def _parts(near: Floats, variance: Floats, shares: Floats) -> Floats:
    """Return each cell's part of the average surplus, by its place in its range, shrunk."""
    typical = float(np.sum(shares * near))
    between = max(float(np.sum(shares * ((near - typical) ** 2 - variance))), 0.0)
    kept = between / (between + variance + TINY)
    return np.maximum((typical + kept * (near - typical)) / max(typical, TINY), LEAST_PART)
