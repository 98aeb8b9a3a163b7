"""Estimates of true averages under a private range, by a posterior that includes clipping.

A cell's number is a noisy weighted average of user means clipped to a range. The posterior of the
average of the cell's records (`clipped_posterior.py`) models the noise, what the range cuts off,
and what weights that are not shares of records add. Published of each cell: its median, its 95%
interval, and the expected absolute error of the median.

`estimate_view` makes the estimates of any release: from all looks at each cell where ranges are
those of cells, from the released number where there is one range for the map. Other plans have
none.

What lies beyond the ranges of cells, and no smooth law explains, is added to their posteriors.

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

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hexveil.accounting.noise_law import law_at
from hexveil.base.arrays import Bools, Floats
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.mechanisms.pooled_law import MeanView, PooledLaw, sure_part
from hexveil.mechanisms.stage_data import STANDARD_NORMAL, CutOff
from hexveil.report.accuracy_text import MEAN_ABS_NORMAL
from hexveil.smoothing.cell_groupings import RandomEffect
from hexveil.smoothing.cell_priors import CellPosterior
from hexveil.smoothing.clipped_posterior import fit, last_look
from hexveil.smoothing.shrinkage import Smoothed
from hexveil.smoothing.user_mean_law import ClippedLook, UserMeanLaw

ENDS = 49
"""Ends at which the excess of the fitted laws is computed; between them it is interpolated."""
LEAST_PART = 0.1
"""Smallest part of the average surplus that a cell has."""
NORMAL_95, MEAN_ABS = 1.96, math.sqrt(2.0 / math.pi)
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
    # What the estimate moves by on each side, its deviation, and the most of it.
    (up, up_deviation, up_most), (down, down_deviation, down_most) = _sides(
        estimates.estimate, last, view, pooled
    )
    estimate = np.clip(estimates.estimate + up - down, *bounds)
    reach_up, reach_down = (
        np.hypot(NORMAL_95 * own, np.minimum(NORMAL_95 * other, most))
        for own, other, most in (
            (up_deviation, down_deviation, down_most),
            (down_deviation, up_deviation, up_most),
        )
    )
    low = estimate - np.hypot(estimates.estimate - estimates.low, reach_down)
    high = estimate + np.hypot(estimates.high - estimates.estimate, reach_up)
    missed = MEAN_ABS * np.maximum(up_deviation, down_deviation)
    return replace(
        estimates,
        estimate=estimate,
        low=np.clip(low, *bounds),
        high=np.clip(high, *bounds),
        expected_error=np.hypot(estimates.expected_error, missed),
        surplus=up - down,
        missed=missed,
    )


def _sides(
    means: Floats, last: ClippedLook, view: MeanView, pooled: PooledLaw
) -> list[tuple[Floats, Floats, Floats]]:
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
        ratio = surplus / np.maximum(beyond.mean, TINY)
        deviation = np.sqrt(
            view.design.weight_squares * beyond.square * ratio + surplus**2 + beyond.error**2
        )
        shift = surplus * sure_part(surplus, beyond.error)
        sides.append((shift, deviation, surplus + beyond.error))
    return sides


def _fitted_excess(means: Floats, view: MeanView, ends: Floats) -> tuple[Floats, Floats]:
    """Return the average excess of the laws fitted to cells, above and below each end."""
    law = UserMeanLaw.of(view.design, view.spread, view.bounds)
    modes = law.modes(means[:, None])
    unclipped = law.mean(modes)
    bottom, top = view.bounds
    unit = (top - bottom) * TINY
    above = [unclipped - law.clipped(modes, bottom, max(end, bottom + unit)).mean for end in ends]
    below = [law.clipped(modes, min(end, top - unit), top).mean - unclipped for end in ends]
    averages = ([float(np.sum(view.shares * one[:, 0])) for one in side] for side in (above, below))
    first, second = map(np.array, averages)
    return first, second


def _parts(near: Floats, variance: Floats, shares: Floats) -> Floats:
    """Return each cell's part of the average surplus, by its place in its range, shrunk."""
    typical = float(np.sum(shares * near))
    between = max(float(np.sum(shares * ((near - typical) ** 2 - variance))), 0.0)
    shrinkage = between / (between + variance + TINY)
    return np.maximum((typical + shrinkage * (near - typical)) / max(typical, TINY), LEAST_PART)


LEVEL = 0.95
"""Probability of the published intervals."""
LEAST_INSIDE = 0.5
"""Part of a cell's users within its range below which its number is never graded good."""
RESOLUTION = 2.0**-36
"""Step of the published deviation between cells, as a part of the span."""


def estimate_view(view: MeanView, effects: Sequence[RandomEffect] = ()) -> PosteriorEstimates:
    """Return the published estimates of cells from all looks at them."""
    looks, bounds = view.looks, view.bounds
    posterior = fit(looks, view.design, view.spread, bounds, effects)
    low, high = posterior.interval(LEVEL)
    nothing, nowhere = np.zeros(low.size), np.zeros(low.size, dtype=np.bool_)
    estimates = PosteriorEstimates(
        np.clip(posterior.median(), low, high),
        low,
        high,
        posterior.mean_abs_error(),
        _deviation(posterior, bounds[1] - bounds[0]),
        CutOff(nowhere, nowhere),
        nothing,
        nothing,
        nowhere,
    )
    last = last_look(looks)
    if view.law is not None:
        estimates = add_surplus(estimates, last, view, view.law)
    ends, tight = (estimates.low, estimates.high), _is_tight(estimates.estimate, last, view)
    return replace(estimates, cut_off=_find_cut_off(last, ends, bounds), tight=tight)


def best_estimates(posterior: PosteriorEstimates, smoothed: Smoothed) -> PosteriorEstimates:
    """Return the estimates under one range for the map: smoothed ones, within the same intervals.

    The posterior of a cell borrows from the law of user means alone, and smoothing from all cells:
    it was nearer wherever noise is large, and as near elsewhere. Of the expected errors by both
    models the smaller counts: the smoothed number is the estimate of both.
    """
    deviation = (smoothed.high - smoothed.low) / (2.0 * STANDARD_NORMAL.inv_cdf(0.975))
    errors = posterior.expected_error, np.hypot(MEAN_ABS_NORMAL * deviation, posterior.missed)
    estimate = smoothed.estimate + posterior.surplus
    return replace(
        posterior,
        estimate=np.clip(estimate, posterior.low, posterior.high),
        expected_error=min(errors, key=np.sum),
    )


def adopt_intervals(
    smoothed: Smoothed, posterior: PosteriorEstimates, *, borrowed: bool
) -> Smoothed:
    """Return smoothed means within the posterior's intervals: a cell has one interval.

    Under one range for the map the smoothed number borrows from neighbours too, which the posterior
    does not; beyond the interval it could not be right by the model of clipping. Under ranges of
    single cells the numbers that smoothing would start from are clipped by ranges that differ, so
    the estimate of the posterior, which has `borrowed` from the whole map, takes its place.
    """
    low, high = posterior.low, posterior.high
    estimate = np.clip(smoothed.estimate + posterior.surplus, low, high)
    if borrowed:
        estimate = posterior.estimate
    return replace(smoothed, estimate=estimate, low=low, high=high)


def _is_tight(means: Floats, last: ClippedLook, view: MeanView) -> Bools:
    """Return the cells with a range that holds less than `LEAST_INSIDE` of their users' averages.

    By the law fitted to a cell; an end at a bound of the records has nothing beyond it. What such a
    range cuts off is known by the model alone.
    """
    law = UserMeanLaw.of(view.design, view.spread, view.bounds)
    modes = law.modes(means[:, None])
    below, up_to = (law.cut(modes, end[:, None])[2][:, 0] for end in (last.lower, last.upper))
    below = np.where(last.lower > view.bounds[0], below, 0.0)
    return np.asarray(np.where(last.upper < view.bounds[1], up_to, 1.0) - below < LEAST_INSIDE)


def _find_cut_off(
    look: ClippedLook, interval: tuple[Floats, Floats], bounds: tuple[float, float]
) -> CutOff:
    """Return cells within their noise of an end of their range that the interval passes."""
    law = law_at(look.is_gaussian)
    noise = law.limit95 * look.scale
    # An end of the range that is a bound of the records cuts nothing off.
    below = (look.noisy <= look.lower + noise) & (look.lower > bounds[0])
    above = (look.noisy >= look.upper - noise) & (look.upper < bounds[1])
    return CutOff(below & (interval[0] < look.lower), above & (interval[1] > look.upper))


def _deviation(posterior: CellPosterior, span: float) -> float | None:
    """Return half the width of the range that the middle 68 percent of the cells lie in.

    That is one standard deviation of a normal law. All cells' posteriors together are the law, so
    that what is not known of a cell counts, and one outlying cell does not make all others alike.
    """
    if posterior.grid.shape[0] < 2:
        return None
    order = np.argsort(posterior.grid, axis=None)
    value, mass = posterior.grid.ravel()[order], posterior.probability.ravel()[order]
    # In the middle of each bin half of its own mass lies below.
    below = (np.cumsum(mass) - mass / 2.0) / np.sum(mass)
    low, high = np.interp([STANDARD_NORMAL.cdf(-1.0), STANDARD_NORMAL.cdf(1.0)], below, value)
    unit = RESOLUTION * span
    return float(np.rint((high - low) / 2.0 / unit) * unit)
