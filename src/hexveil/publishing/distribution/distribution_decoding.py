"""Estimates of quantiles, shares and histograms from the noisy outputs of a release.

Post-processing of noisy numbers and public facts: it costs no privacy. All statistics of a cell are
those of one tilted shape, so they agree: quantiles rise with their level, shares lie from 0 to 1
and fall with their threshold, and a histogram adds up to 1. A quantile in an end bin means "at or
beyond the bound", since values beyond the bounds count there.

Intervals are those of draws around each cell's tilt. Their variance is that of the fit times
an inflation: shapes of cells are not exactly tilts of the pooled one. Constants were chosen on
tuning sets (benchmarks/distributions.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.accounting.promise import PARTS
from hexveil.mechanisms.distribution.pooled_shape import BinnedMap, PooledShape
from hexveil.mechanisms.distribution.shape_statistics import (
    CellEstimates,
    PooledRankScores,
    ShapeStatistics,
    cell_statistics,
)
from hexveil.mechanisms.distribution.tilt_estimation import (
    TiltFit,
    fit_bins,
    solve_tilts,
    tilt_to_means,
)
from hexveil.model.statistic_terms import Histogram
from hexveil.planning.distribution.distribution_components import (
    SCORES,
    SHAPE,
    IndicatorPlan,
    weight_variance,
)
from hexveil.planning.release_allocation import with_outputs
from hexveil.publishing.estimates.posterior_estimates import estimate_outputs
from hexveil.publishing.estimates.smoothed_estimates import groupings_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from hexveil.base.arrays import Floats
    from hexveil.mechanisms.contract import Outputs
    from hexveil.model.public_metadata import FineBins
    from hexveil.planning.distribution.distribution_plan import DistributionPart


BIN_INFLATION, RANK_INFLATION = 4.0, 1.5
"""Factor of the variance of tilts in intervals: shapes of cells are not exactly tilts."""
GAUSSIAN_BIN_INFLATION = 6.0
"""The same of bins under a δ, where the noise is less and the misfit of tilts counts for more."""
SHAPE_VARIANCE = (0.0, 0.25, 0.2)
"""Variance between cells of what a mean rank does not say: of each Legendre term."""
LEAST_VARIANCE = 1e-6
"""Least variance of the first tilt by ranks."""
Z95 = 1.959964


def decode_distribution(
    plan: DistributionPart, outputs: Outputs, means: CellEstimates | None = None
) -> dict[str, CellEstimates]:
    """Return the estimates of every statistic of the distribution, by column.

    A histogram has a column for each of its bins, numbered from the lowest.

    Parameters
    ----------
    plan : DistributionPart
    outputs : Outputs
        Of all stages.
    means : CellEstimates, optional
        Means that are published beside it.
    """
    if isinstance(plan.component, IndicatorPlan):
        return {plan.component.share.column: _scores(plan, outputs)}
    stages = plan.stages()
    component, facts = stages.component(SHAPE), plan.facts
    measured, own = component.plan, component.outputs(outputs)
    if isinstance(measured, BinnedMap):
        pooled, inflation = measured.shape, GAUSSIAN_BIN_INFLATION if plan.delta else BIN_INFLATION
        shares, groups = pooled.shares(own), facts.cells.groupings()
        weight, off = weight_variance(measured.weights)
        variance = (measured.law.number_deviation / PARTS / weight) ** 2 + off
        bins, place = measured.noisy_bins(own), measured.place(own)
        fit = fit_bins(shares, bins, place, weight, variance, groups)
        fit = TiltFit(fit.alpha, inflation * fit.covariance)
    else:
        scores = stages.component(SCORES).scores
        # See DistributionPart.
        assert isinstance(measured, PooledShape)  # noqa: S101
        assert isinstance(scores, PooledRankScores)  # noqa: S101
        pooled, inflation, shares = measured, RANK_INFLATION, measured.shares(own)
        fit = _rank_tilts(shares, scores.points.ranks(shares), _scores(plan, outputs))
    assert facts.bins is not None  # noqa: S101  see plan_distribution
    statistics = ShapeStatistics(facts.bins, facts.lattice, plan.terms)
    made = cell_statistics(
        statistics,
        shares,
        fit,
        inflation,
        pooled.measured_place(own),
        pooled.even_shares(own),
        None if means is None else _adjusted(plan, facts.bins, means),
    )
    return {name: made.at((slice(None), i)) for i, name in enumerate(statistics.columns)}


def _rank_tilts(shares: Floats, ranks: Floats, mean: CellEstimates) -> TiltFit:
    """Return tilts of one term, from the ranks of fine bins and the released mean ranks."""
    middle, low, high = (
        solve_tilts(shares, ranks, x) for x in (mean.estimate, mean.low, mean.high)
    )
    # Both ends are the steepest tilt where no tilt attains the interval: draws need some variance.
    variance = np.maximum(RANK_INFLATION * ((high - low) / (2.0 * Z95)) ** 2, LEAST_VARIANCE)
    n_terms = len(SHAPE_VARIANCE)
    covariance = np.tile(np.diag(SHAPE_VARIANCE), (middle.size, 1, 1))
    covariance[:, 0, 0] += variance
    alpha = np.zeros((middle.size, n_terms))
    alpha[:, 0] = middle
    return TiltFit(alpha, covariance)


def _scores(plan: DistributionPart, outputs: Outputs) -> CellEstimates:
    """Return the estimated mean scores of cells, before clipping where there is a posterior."""
    component, scored = plan.stages().component(SCORES), plan.score_plan
    allocation: Any = component.plan
    assert scored is not None  # noqa: S101  of ranks and indicators
    own = component.outputs(outputs)
    # Mean ranks and shares are averages: cells take after those that share a label, as means do.
    # As for bins, only where cells have several: parents of hexagons alone gained nothing there.
    cells = plan.facts.cells
    effects = groupings_of(cells) if cells.groupings() else ()
    posterior = estimate_outputs(allocation, own, effects)
    if posterior is not None:
        return CellEstimates(
            posterior.estimate, posterior.low, posterior.high, posterior.expected_error
        )
    model = with_outputs(scored, allocation, own).error_models["mean"]
    (mean,) = allocation.decode(own)
    raw = np.clip(mean.estimate[0], scored.lower, scored.upper)
    low = np.maximum(raw - model.bound95, scored.lower)
    high = np.minimum(raw + model.bound95, scored.upper)
    return CellEstimates(raw, low, high, model.error)


def _adjusted(
    plan: DistributionPart, bins: FineBins, mean: CellEstimates
) -> Callable[[slice, Floats, Floats], tuple[Floats, Floats]]:
    """Return the change of shapes to those with the means that are published beside them."""
    lattice = plan.facts.lattice
    middles = (bins.starts + bins.ends) / (2.0 * float(lattice.span_quanta))
    lower, span = float(lattice.lower), float(lattice.span)

    def with_means(own: Floats, target: Floats) -> Floats:
        parts = np.clip((target - lower) / span, middles[0], middles[-1])
        return tilt_to_means(own, middles, parts)

    def adjusted(rows: slice, middle: Floats, drawn: Floats) -> tuple[Floats, Floats]:
        own, own_drawn = (lower + span * (shares @ middles) for shares in (middle, drawn))
        target = _joined_means(plan, own, own_drawn.std(axis=0), mean.at(rows))
        # Draws keep their own spread: errors of both are not independent, as both come of the same
        # few vehicles, and intervals of half the variance held too rarely on the tuning sets.
        return with_means(middle, target), with_means(drawn, own_drawn + target - own)

    return adjusted


def _joined_means(
    plan: DistributionPart, own: Floats, own_deviation: Floats, mean: CellEstimates
) -> Floats:
    """Return the means that shapes are tilted to.

    Shapes have means of their own, and means were released beside them: both count by their
    precision. Beside a histogram the released means count alone, so that they lie within its reach.
    """
    if any(isinstance(term, Histogram) for term in plan.terms):
        return mean.estimate
    precision = np.maximum((mean.high - mean.low) / (2.0 * Z95), 1e-12) ** -2
    own_precision = np.maximum(own_deviation, 1e-12) ** -2
    joined = (precision * mean.estimate + own_precision * own) / (precision + own_precision)
    return np.asarray(joined)
