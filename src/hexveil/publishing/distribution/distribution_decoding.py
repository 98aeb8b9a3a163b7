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

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.accounting.promise import PARTS
from hexveil.mechanisms.distribution.pooled_shape import BinnedMap, PooledShape
from hexveil.mechanisms.distribution.shape_statistics import (
    PooledRankScores,
    ShapeStatistics,
    drawn_statistics,
)
from hexveil.mechanisms.distribution.tilt_estimation import (
    TiltFit,
    fit_bins,
    legendre_terms,
    solve_tilts,
    tilt,
    tilt_to_means,
)
from hexveil.model.statistic_terms import Histogram, Quantile, column_names
from hexveil.planning.distribution.distribution_components import (
    SCORES,
    SHAPE,
    IndicatorPlan,
    RankPlan,
    weight_variance,
)
from hexveil.planning.moment_part import with_outputs
from hexveil.publishing.estimates.posterior_estimates import estimate_outputs
from hexveil.publishing.estimates.smoothed_estimates import groupings_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexveil.base.arrays import Floats, Ints
    from hexveil.mechanisms.contract import Outputs
    from hexveil.planning.distribution.distribution_plan import DistributionPart
    from hexveil.planning.moment_part import MomentPart
    from hexveil.smoothing.cell_groupings import RandomEffect


BIN_INFLATION, RANK_INFLATION = 4.0, 1.5
"""Factor of the variance of tilts in intervals: shapes of cells are not exactly tilts."""
GAUSSIAN_BIN_INFLATION = 6.0
"""The same of bins under a δ, where the noise is less and the misfit of tilts counts for more."""
SHAPE_VARIANCE = (0.0, 0.25, 0.2)
"""Variance between cells of what a mean rank does not say: of each Legendre term."""
LEAST_VARIANCE = 1e-6
"""Least variance of the first tilt by ranks."""
SHARE_ALLOWANCE = 0.02
"""Part by which intervals of shares are widened: no tilt makes a share exactly 0 or 1."""
Z95 = 1.959964


@dataclass(frozen=True, eq=False)
class CellEstimates:
    """One statistic of all cells, in its own units.

    Attributes
    ----------
    estimate, low, high : ndarray of float, shape (n_cells,)
        Estimates, and their 95% intervals.
    error : ndarray of float, shape (n_cells,)
        Expected absolute errors by the model of the intervals.
    """

    estimate: Floats
    low: Floats
    high: Floats
    error: Floats

    def rows(self, rows: slice) -> CellEstimates:
        """Return the estimates of some cells."""
        return CellEstimates(self.estimate[rows], self.low[rows], self.high[rows], self.error[rows])


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
        share = _scores(plan, plan.component.plan, outputs)
        return {plan.component.share.column: share}
    return _statistics(plan, fit_tilts(plan, outputs), means)


@dataclass(frozen=True, eq=False)
class _CellShapes:
    """The released shape, the bin of each fine bin that it was measured by, and cells' tilts."""

    shares: Floats
    even: Floats
    place: Ints
    fit: TiltFit
    inflation: float


def fit_tilts(plan: DistributionPart, outputs: Outputs) -> _CellShapes:
    """Return the released shape, and the tilt of each cell."""
    allocation = plan.stages()
    if isinstance(plan.component, RankPlan):
        component = allocation.component(SCORES)
        assert isinstance(component.scores, PooledRankScores)  # noqa: S101  see DistributionPart
        shape = component.scores.shape
        assert isinstance(shape.plan, PooledShape)  # noqa: S101  see DistributionPart
        shares = component.scores.shares(outputs)
        ranks = component.scores.points.ranks(shares)
        fit = _rank_tilts(shares, ranks, _scores(plan, plan.component.plan, outputs))
        cell_outputs, pooled = shape.outputs(outputs), shape.plan
        even, place = pooled.even_shares(cell_outputs), pooled.measured_place(cell_outputs)
        return _CellShapes(shares, even, place, fit, RANK_INFLATION)
    component = allocation.component(SHAPE)
    binned, cell_outputs = component.plan, component.outputs(outputs)
    assert isinstance(binned, BinnedMap)  # noqa: S101  see DistributionPart
    weight, off = weight_variance(binned.weights)
    variance = (binned.law.number_deviation / PARTS / weight) ** 2 + off
    shares = binned.shares(cell_outputs)
    groups = plan.facts.cells.groupings()
    fit = fit_bins(
        shares,
        binned.noisy_bins(cell_outputs),
        binned.place(cell_outputs),
        weight,
        variance,
        groups,
    )
    inflation = GAUSSIAN_BIN_INFLATION if plan.delta else BIN_INFLATION
    place = binned.shape.measured_place(cell_outputs)
    fit = TiltFit(fit.alpha, inflation * fit.covariance)
    return _CellShapes(shares, binned.shape.even_shares(cell_outputs), place, fit, inflation)


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


def _scores(plan: DistributionPart, score_plan: MomentPart, outputs: Outputs) -> CellEstimates:
    """Return the estimated mean scores of cells, from 0 to 1."""
    component = plan.stages().component(SCORES)
    # Mean ranks and shares are averages: cells take after those that share a label, as means do.
    # As for bins, only where cells have several: parents of hexagons alone gained nothing there.
    cells = plan.facts.cells
    effects = groupings_of(cells) if cells.groupings() else ()
    return decode_mean(score_plan, component.plan, component.outputs(outputs), effects)


def decode_mean(
    plan: MomentPart,
    allocation: Any,  # noqa: ANN401  of any kind
    outputs: Outputs,
    effects: Sequence[RandomEffect] = (),
) -> CellEstimates:
    """Return the estimated means of a plan: before clipping where there is such a posterior.

    Parameters
    ----------
    plan : MomentPart
    allocation : ReleaseAllocation
        Of the means alone.
    outputs : Outputs
    effects : sequence of RandomEffect
        Groups of cells that resemble each other.
    """
    posterior = estimate_outputs(allocation, outputs, effects)
    if posterior is not None:
        return CellEstimates(
            posterior.estimate, posterior.low, posterior.high, posterior.expected_error
        )
    model = with_outputs(plan, allocation, outputs).error_models["mean"]
    (mean,) = allocation.decode(outputs)
    raw = np.clip(mean.estimate[0], plan.lower, plan.upper)
    low = np.maximum(raw - model.bound95, plan.lower)
    high = np.minimum(raw + model.bound95, plan.upper)
    return CellEstimates(raw, low, high, model.error)


# ---- statistics of tilted shapes ----


def _bin_values(plan: DistributionPart) -> Floats:
    """Return the middle of each fine bin as a part of the span."""
    bins = plan.facts.bins
    assert bins is not None  # noqa: S101  see plan_distribution
    return (bins.starts + bins.ends) / (2.0 * float(plan.facts.lattice.span_quanta))


def _means(plan: DistributionPart, shares: Floats) -> Floats:
    """Return the means of distributions, in value units."""
    lattice = plan.facts.lattice
    return float(lattice.lower) + float(lattice.span) * (shares @ _bin_values(plan))


def _with_means(plan: DistributionPart, shares: Floats, target: Floats) -> Floats:
    """Return shares with these means, in value units."""
    values, lattice = _bin_values(plan), plan.facts.lattice
    parts = (target - float(lattice.lower)) / float(lattice.span)
    return tilt_to_means(shares, values, np.clip(parts, values[0], values[-1]))


def _statistics(
    plan: DistributionPart, shapes: _CellShapes, mean: CellEstimates | None
) -> dict[str, CellEstimates]:
    shares, fit, statistics = shapes.shares, shapes.fit, _measured_statistics(plan)

    def adjusted(rows: slice, middle: Floats, drawn: Floats) -> tuple[Floats, Floats]:
        assert mean is not None  # noqa: S101  see below
        own, own_drawn = _means(plan, middle), _means(plan, drawn)
        target = _joined_means(plan, own, own_drawn.std(axis=0), mean.rows(rows))
        # Draws keep their own spread: errors of both are not independent, as both come of the same
        # few vehicles, and intervals of half the variance held too rarely on the tuning sets.
        own_means = own_drawn + target - own
        return _with_means(plan, middle, target), _with_means(plan, drawn, own_means)

    middle, low, high, error = drawn_statistics(
        statistics, shares, fit, None if mean is None else adjusted
    )
    # Intervals are inflated, expected errors are not.
    error = np.hypot(error / shapes.inflation**0.5, statistics.half_bins)
    _widen_shares(plan, low, high)
    # A middle outside its own draws' interval would be no estimate of it; of few units the smooth
    # law of the pooled shape hides single numbers that many records share.
    even_terms = legendre_terms(shapes.even, fit.alpha.shape[1])
    other = statistics.of(tilt(shapes.even, even_terms, fit.alpha))
    inner = np.where(statistics.is_quantile, other, middle)
    low, high = (
        np.minimum(low, np.minimum(middle, inner)),
        np.maximum(high, np.maximum(middle, inner)),
    )
    low, high = statistics.to_bin_ends(low, high, shapes.place)
    columns = [name for term in plan.terms for name in column_names(term)]
    return {
        name: CellEstimates(middle[:, i], low[:, i], high[:, i], error[:, i])
        for i, name in enumerate(columns)
    }


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


def _widen_shares(plan: DistributionPart, low: Floats, high: Floats) -> None:
    """Widen the intervals of shares in place, within 0 and 1."""
    names = [term for term in plan.terms for _ in column_names(term)]
    is_share = np.array([not isinstance(term, Quantile) for term in names])
    low[:, is_share] = np.maximum(low[:, is_share] - SHARE_ALLOWANCE, 0.0)
    high[:, is_share] = np.minimum(high[:, is_share] + SHARE_ALLOWANCE, 1.0)


def _measured_statistics(plan: DistributionPart) -> ShapeStatistics:
    """Return all statistics of distributions over fine bins."""
    bins, lattice = plan.facts.bins, plan.facts.lattice
    assert bins is not None  # noqa: S101  see plan_distribution
    return ShapeStatistics(bins, lattice, plan.terms)
