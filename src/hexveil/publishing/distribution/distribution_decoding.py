"""Estimates of quantiles, shares and histograms from the noisy outputs of a release.

Post-processing of noisy numbers and public facts: it costs no privacy. All statistics of a cell are
those of one tilted shape, so they agree: quantiles rise with their level, shares lie from 0 to 1
and fall with their threshold, and a histogram adds up to 1. A quantile in an end bin means "at or
beyond the bound", since values beyond the bounds count there.

Intervals are those of draws around each cell's tilt. Their variance is that of the fit times
`INFLATION`: shapes of cells are not exactly tilts of the pooled one. Constants were chosen on
tuning sets (benchmarks/distributions.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.mechanisms.distribution.binned_map import BinnedMap
from hexveil.mechanisms.distribution.binned_stage import PARTS
from hexveil.mechanisms.distribution.fine_bin_scores import PooledRankScores
from hexveil.mechanisms.distribution.tilted_shapes import (
    TiltFit,
    fit_bins,
    legendre_terms,
    quantiles,
    solve_tilts,
    tilt,
)
from hexveil.model.statistic_terms import Histogram, Quantile, Share
from hexveil.planning.distribution.cell_prices import weight_variance
from hexveil.planning.distribution.distribution_plan import (
    SCORES,
    SHAPE,
    IndicatorPlan,
    RankPlan,
)
from hexveil.planning.release_allocation import with_outputs
from hexveil.publishing.estimates.posterior_estimates import estimate_outputs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hexveil.mechanisms.contract import Outputs
    from hexveil.model.statistic_terms import Term
    from hexveil.planning.distribution.distribution_plan import DistributionPlan
    from hexveil.planning.plan import Plan

    Floats = NDArray[np.float64]

INFLATION = 2.5
"""Factor of the variance of tilts in intervals."""
SHAPE_VARIANCE = (0.03, 0.15, 0.1)
"""Variance between cells of what a mean rank does not say: of each Legendre term."""
N_DRAWS = 200
Z95 = 1.959964
CELLS_AT_ONCE = 64
SEED = 20_261_123


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


def decode_distribution(plan: DistributionPlan, outputs: Outputs) -> dict[str, CellEstimates]:
    """Return the estimates of every statistic of the distribution, by column.

    A histogram has a column for each of its bins, numbered from the lowest.
    """
    if isinstance(plan.component, IndicatorPlan):
        share = _scores(plan, plan.component.plan, outputs)
        return {plan.component.share.column: share}
    shares, fit = fit_tilts(plan, outputs)
    return _statistics(plan, shares, fit)


def fit_tilts(plan: DistributionPlan, outputs: Outputs) -> tuple[Floats, TiltFit]:
    """Return the released shape, and the tilt of each cell."""
    allocation = plan.allocation()
    if isinstance(plan.component, RankPlan):
        component = allocation.component(SCORES)
        assert isinstance(component.scores, PooledRankScores)  # noqa: S101  see DistributionPlan
        shares = component.scores.shares(outputs)
        return shares, _rank_tilts(shares, _scores(plan, plan.component.plan, outputs))
    component = allocation.component(SHAPE)
    binned, own = component.plan, component.outputs(outputs)
    assert isinstance(binned, BinnedMap)  # noqa: S101  see DistributionPlan
    weight, off = weight_variance(plan.occupancy, binned.weights)
    variance = 2.0 * (binned.scale / PARTS / weight) ** 2 + off
    shares = binned.shares(own)
    fit = fit_bins(shares, binned.noisy_bins(own), binned.place(own), weight, variance)
    return shares, TiltFit(fit.alpha, INFLATION * fit.covariance)


def _rank_tilts(shares: Floats, rank: CellEstimates) -> TiltFit:
    """Return tilts of one term whose mean ranks were released."""
    middle, low, high = (solve_tilts(shares, x) for x in (rank.estimate, rank.low, rank.high))
    variance = INFLATION * ((high - low) / (2.0 * Z95)) ** 2
    n_terms = len(SHAPE_VARIANCE)
    covariance = np.tile(np.diag(SHAPE_VARIANCE), (middle.size, 1, 1))
    covariance[:, 0, 0] += variance
    alpha = np.zeros((middle.size, n_terms))
    alpha[:, 0] = middle
    return TiltFit(alpha, covariance)


def _scores(plan: DistributionPlan, score_plan: Plan, outputs: Outputs) -> CellEstimates:
    """Return the estimated mean scores of cells, from 0 to 1."""
    component = plan.allocation().component(SCORES)
    return decode_mean(score_plan, component.plan, component.outputs(outputs))


def decode_mean(plan: Plan, allocation: Any, outputs: Outputs) -> CellEstimates:  # noqa: ANN401
    """Return the estimated means of a plan: before clipping where there is such a posterior."""
    released = with_outputs(plan, allocation, outputs)
    noisy = {one.statistic: one.estimate[0] for one in allocation.decode(outputs)}
    posterior = estimate_outputs(released, allocation, outputs, noisy)
    if posterior is not None:
        return CellEstimates(
            posterior.estimate, posterior.low, posterior.high, posterior.expected_error
        )
    model = released.error_models["mean"]
    raw = np.clip(noisy["mean"], plan.lower, plan.upper)
    low = np.maximum(raw - model.bound95, plan.lower)
    high = np.minimum(raw + model.bound95, plan.upper)
    return CellEstimates(raw, low, high, model.error)


# ---- statistics of tilted shapes ----


def _statistics(plan: DistributionPlan, shares: Floats, fit: TiltFit) -> dict[str, CellEstimates]:
    terms = legendre_terms(shares, fit.alpha.shape[1])
    middle = _measured(plan, tilt(shares, terms, fit.alpha))
    low, high, error = (np.empty_like(middle) for _ in range(3))
    # The same draws for every cell, from a fixed seed: equal outputs give equal intervals.
    normal = np.random.default_rng(SEED).standard_normal((N_DRAWS, fit.alpha.shape[1]))
    root = np.linalg.cholesky(fit.covariance)
    for begin in range(0, fit.alpha.shape[0], CELLS_AT_ONCE):
        rows = slice(begin, begin + CELLS_AT_ONCE)
        alpha = fit.alpha[rows] + np.einsum("ckl,dl->dck", root[rows], normal)
        drawn = _measured(plan, tilt(shares, terms, alpha))
        low[rows], high[rows] = np.quantile(drawn, (0.025, 0.975), axis=0)
        error[rows] = np.abs(drawn - middle[rows]).mean(axis=0)
    # A middle outside its own draws' interval would be no estimate of it.
    low, high = np.minimum(low, middle), np.maximum(high, middle)
    columns = [name for term in plan.terms for name in column_names(term)]
    return {
        name: CellEstimates(middle[:, i], low[:, i], high[:, i], error[:, i])
        for i, name in enumerate(columns)
    }


def column_names(term: Term) -> list[str]:
    """Return the prefixes of a statistic's columns."""
    if isinstance(term, Histogram):
        return [f"{term.column}_{number + 1:02d}" for number in range(term.n_bins)]
    return [term.column]


def _measured(plan: DistributionPlan, shares: Floats) -> Floats:
    """Return all statistics of distributions over fine bins, shape (..., n_columns)."""
    bins, lattice = plan.facts.bins, plan.facts.lattice
    assert bins is not None  # noqa: S101  see plan_distribution
    columns: list[Floats] = []
    for term in plan.terms:
        match term:
            case Quantile(level):
                quanta = quantiles(shares, float(level), bins.starts, bins.ends)
                columns.append(float(lattice.lower) + float(lattice.quantum) * quanta)
            case Share():
                above = shares[..., bins.above(term.edge(lattice))].sum(axis=-1)
                columns.append(above if term.is_above else 1.0 - above)
            case Histogram():
                place = np.searchsorted(term.edges(lattice), bins.edges)
                gather = np.zeros((bins.n_bins, term.n_bins))
                gather[np.arange(bins.n_bins), place] = 1.0
                columns += list(np.moveaxis(shares @ gather, -1, 0))
    return np.stack(columns, axis=-1)
