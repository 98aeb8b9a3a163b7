"""Estimates of true averages under a private range, by a posterior that includes clipping.

A cell's number is a noisy weighted average of user means clipped to a range. The posterior of the
average of the cell's records (`clipped_posterior.py`) models the noise, what the range cuts off,
and what weights that are not shares of records add. Published of each cell: its median, its 95%
interval, and the expected absolute error of the median.

`estimate_outputs` makes the estimates of any release: from all looks at each cell where ranges are
those of cells, from the released number where there is one range for the map. Other plans have
none.

Post-processing of noisy numbers and public facts: it costs no privacy.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from hexveil.accounting.noise_law import GAUSSIAN, law_at
from hexveil.mechanisms.cell_ranges.cell_range_allocation import CellRangeAllocation
from hexveil.mechanisms.cell_ranges.pooled_spread import cell_shares
from hexveil.mechanisms.estimates import STANDARD_NORMAL
from hexveil.mechanisms.weighted.weighted_allocation import WeightedAllocation
from hexveil.planning.clipping_range.cell_ranges import PerCellRange
from hexveil.planning.clipping_range.one_range import PrivateRange
from hexveil.publishing.estimates.cut_off import CutOff
from hexveil.publishing.estimates.surplus import PooledView, PosteriorEstimates, add_surplus
from hexveil.report.accuracy_text import MEAN_ABS_NORMAL
from hexveil.smoothing.clipped_posterior import fit, last_look
from hexveil.smoothing.user_mean_law import CellDesign, ClippedLook, UserMeanSpread

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hexveil.base.arrays import Floats
    from hexveil.mechanisms.contract import Outputs
    from hexveil.planning.clipping_range.clipping import ClippingKind, ReleaseAllocation
    from hexveil.planning.clipping_range.private_range import PrivateClippingRange
    from hexveil.planning.moment_part import MomentPart
    from hexveil.smoothing import Smoothed
    from hexveil.smoothing.cell_groupings import RandomEffect
    from hexveil.smoothing.cell_priors import CellPosterior


LEVEL = 0.95
"""Probability of the published intervals."""
RESOLUTION = 2.0**-36
"""Step of the published deviation between cells, as a part of the span."""


def estimate_outputs(
    plan: MomentPart,
    allocation: ReleaseAllocation,
    outputs: Outputs,
    noisy: Mapping[str, Floats],
    effects: Sequence[RandomEffect] = (),
) -> PosteriorEstimates | None:
    """Return the estimates of means before clipping; None for plans without a private range.

    Parameters
    ----------
    plan : MomentPart
        With the ranges that the release found.
    allocation : ReleaseAllocation
    outputs : Outputs
        Of all stages.
    noisy : mapping of str to ndarray of float, shape (n_cells,)
        The published noisy numbers, in value units.
    effects : sequence of RandomEffect
        Groups of cells that resemble each other.
    """
    match allocation:
        case CellRangeAllocation():
            return estimate_looks(
                allocation.looks(outputs),
                CellDesign.of(allocation.mean.weight),
                allocation.user_mean_spread(outputs),
                allocation.bounds,
                effects,
                PooledView(allocation.law(outputs), allocation.cell_shares()),
            )
        case WeightedAllocation(mean=mean):
            pooled = PooledView(allocation.law_of_means(outputs), cell_shares(mean.weight))
            quantiles = allocation.released_quantiles(outputs)
            return estimate_means(plan, quantiles, noisy, effects, pooled)
    return None


def estimate_looks(
    looks: Sequence[ClippedLook],
    design: CellDesign,
    spread: UserMeanSpread,
    bounds: tuple[float, float],
    effects: Sequence[RandomEffect] = (),
    pooled: PooledView | None = None,
) -> PosteriorEstimates:
    """Return the published estimates of cells from all looks at them.

    Parameters
    ----------
    looks : sequence of ClippedLook
        Independent looks in the order of their release, value units; the last one at a cell is its
        published number. A scale is infinite where a look leaves a cell out.
    design : CellDesign
        Users of each cell, and their weights.
    spread : UserMeanSpread
        Released centre and deviations of user means.
    bounds : pair of float
        Bounds of the values.
    effects : sequence of RandomEffect
        Groups of cells that resemble each other.
    pooled : PooledView, optional
        What the pooled histogram shows of values beyond the ranges.
    """
    posterior, last = fit(looks, design, spread, bounds, effects), last_look(looks)
    low, high = posterior.interval(LEVEL)
    estimates = PosteriorEstimates(
        np.clip(posterior.median(), low, high),
        low,
        high,
        posterior.mean_abs_error(),
        _deviation(posterior, bounds[1] - bounds[0]),
        CutOff(*np.zeros((2, low.size), dtype=np.bool_)),
        *np.zeros((2, low.size)),
    )
    if pooled is not None:
        estimates = add_surplus(estimates, last, design, spread, pooled, bounds)
    ends = estimates.low, estimates.high
    return replace(estimates, cut_off=_find_cut_off(last, ends, bounds))


def estimate_means(
    plan: MomentPart,
    quantiles: tuple[int, int] | None,
    noisy: Mapping[str, Floats],
    effects: Sequence[RandomEffect] = (),
    pooled: PooledView | None = None,
) -> PosteriorEstimates | None:
    """Return the estimates of means clipped to one range; None for other kinds of plans.

    Parameters
    ----------
    plan : MomentPart
        With the range that the release found.
    quantiles : pair of int or None
        The released quantiles of user means, before the range was widened; in quanta above the
        lower bound. None for plans that find none.
    noisy : mapping of str to ndarray of float, shape (n_cells,)
        The published noisy numbers, in value units.
    effects : sequence of RandomEffect
        Groups of cells that resemble each other.
    pooled : PooledView, optional
        What the pooled histogram shows of values beyond the range.
    """
    match plan.allocation.clipping:
        case PrivateRange(interval):
            pass
        case _:
            return None
    if quantiles is None or "mean" not in noisy:
        return None
    lower, span = float(plan.lower[0]), float(plan.span[0])
    low, high = interval.ends_in_units(lower, span)
    ends = np.full(plan.occupancy.n_cells, low), np.full(plan.occupancy.n_cells, high)
    scale, is_gaussian = plan.mean_noise * (high - low), plan.request.law == GAUSSIAN
    look = ClippedLook(noisy["mean"], *ends, scale, is_gaussian)
    design = CellDesign.of(interval.weight)
    spread = _spread(interval, quantiles, lower, span)
    return estimate_looks([look], design, spread, (lower, lower + span), effects, pooled)


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
    smoothed: Smoothed, posterior: PosteriorEstimates, clipping: ClippingKind
) -> Smoothed:
    """Return smoothed means within the posterior's intervals: a cell has one interval.

    Under one range for the map the smoothed number borrows from neighbours too, which the posterior
    does not; beyond the interval it could not be right by the model of clipping. Under ranges of
    single cells the numbers that smoothing would start from are clipped by ranges that differ, so
    the estimate of the posterior, which borrows from the whole map, takes its place.
    """
    low, high = posterior.low, posterior.high
    estimate = np.clip(smoothed.estimate + posterior.surplus, low, high)
    factor = smoothed.half_distinguishable_factor
    if isinstance(clipping, PerCellRange):
        # With another ε other cells would move, so that no factor follows from this map.
        estimate, factor = posterior.estimate, None
    overall = np.sum(estimate) / estimate.size
    return replace(
        smoothed,
        estimate=estimate,
        low=low,
        high=high,
        distinguishable=int(np.count_nonzero((low > overall) | (high < overall))),
        half_distinguishable_factor=factor,
    )


def _spread(
    interval: PrivateClippingRange, quantiles: tuple[int, int], lower: float, span: float
) -> UserMeanSpread:
    """Return centre and deviation of user means from their released quantiles."""
    steps = interval.span_quanta or 1
    low, high = quantiles
    deviations = STANDARD_NORMAL.inv_cdf(1.0 - float(interval.quantiles[0]))
    deviation = span * (high - low) / (2.0 * deviations * steps)
    return UserMeanSpread(lower + span * (low + high) / (2.0 * steps), deviation, deviation, None)


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
