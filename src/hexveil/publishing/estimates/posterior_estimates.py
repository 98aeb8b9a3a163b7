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

from hexveil.accounting.noise_law import law_at
from hexveil.mechanisms.estimates import STANDARD_NORMAL, CutOff
from hexveil.publishing.estimates.surplus import PosteriorEstimates, add_surplus
from hexveil.report.accuracy_text import MEAN_ABS_NORMAL
from hexveil.smoothing.clipped_posterior import fit, last_look
from hexveil.smoothing.user_mean_law import UserMeanLaw

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexveil.base.arrays import Bools, Floats
    from hexveil.mechanisms.contract import Outputs
    from hexveil.mechanisms.looks.kinds import ReleaseAllocation
    from hexveil.mechanisms.pooled_law import MeanView
    from hexveil.smoothing import Smoothed
    from hexveil.smoothing.cell_groupings import RandomEffect
    from hexveil.smoothing.cell_priors import CellPosterior
    from hexveil.smoothing.user_mean_law import ClippedLook


LEVEL = 0.95
"""Probability of the published intervals."""
LEAST_INSIDE = 0.5
"""Part of a cell's users within its range below which its number is never graded good."""
RESOLUTION = 2.0**-36
"""Step of the published deviation between cells, as a part of the span."""


def estimate_outputs(
    allocation: ReleaseAllocation, outputs: Outputs, effects: Sequence[RandomEffect] = ()
) -> PosteriorEstimates | None:
    """Return the estimates of means before clipping; None for plans without a private range.

    Parameters
    ----------
    allocation : ReleaseAllocation
    outputs : Outputs
        Of all stages.
    effects : sequence of RandomEffect
        Groups of cells that resemble each other.
    """
    view = allocation.view(outputs)
    return None if view is None else estimate_view(view, effects)


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
    factor = smoothed.half_distinguishable_factor
    if borrowed:
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
