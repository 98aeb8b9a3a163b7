"""Predicted error of a map of distributions with private presence, on paper, from declarations.

Assumptions are those of `presence_prediction`: declared units, traffic by a power law, a spread of
units' averages. With W the weight of a cell, s the standard deviation of the noise and B bins, a
cumulative share is off by a standard deviation of s sqrt(B) / (2 W) in the middle; cells' own
cumulative shares differ by RANK_SPREAD, to which estimates shrink, and a model of few terms misses
RANK_FLOOR; the n units of a cell are a sample. These give the error of shares. A quantile of values
near a normal law of spread s is off by sqrt(2 π) s times that.

How values spread within bounds is not known on paper: the error is stated for a spread of
SPREAD_SHARE of the span, and a range for smaller and larger ones. The constants were chosen on the
tuning sets of `benchmarks/presence_shapes.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hexveil.accounting.promise import PARTS
from hexveil.base.rational import to_positive_fraction
from hexveil.mechanisms.distribution.shape_statistics import MEAN
from hexveil.planning.feasibility.utility_test import StatisticError, shape_errors
from hexveil.planning.presence.presence_prediction import (
    BASELINE_SHARE,
    HIGH_SPREAD,
    LOW_SPREAD,
    MEAN_ABS_NORMAL,
    MODEL_FACTOR,
    SPREAD_SHARE,
    Prediction,
    grid_refusal,
    predict,
    traffic_shares,
    unit_weight,
    units_per_cell,
)
from hexveil.planning.presence.shape_request import ShapeRequest

if TYPE_CHECKING:
    from hexveil.base.arrays import Floats
    from hexveil.base.rational import Number
    from hexveil.mechanisms.presence.shape_allocation import ShapeAllocation
    from hexveil.planning.presence.presence_request import PresenceRequest, UnitCountRequest

RANK_SPREAD, RANK_FLOOR = 0.12, 0.02
AS_WELL = 0.93
"""Part of what one share for all cells misses from which on a prediction says no more."""
SLOPE = math.sqrt(2.0 * math.pi)
"""Spreads per unit of cumulative share at the middle of a normal law."""


@dataclass(frozen=True)
class ShapePrediction:
    """Expected accuracy of a map of distributions, by the assumptions of this module.

    Attributes
    ----------
    quantile_error : float
        Expected absolute error of medians, over traffic in open cells, in value units.
    share_error : float
        Expected absolute error of shares of records, from 0 to 1.
    weight_error : float
        Expected absolute error of the weight of a cell, in units.
    typical_weight : float
        Weight of a cell, over traffic in open cells, in units.
    open_cells, open_traffic : float
        Expected number of open cells, and share of the traffic that lies in them.
    baseline_error : float
        Error of one constant for all cells, in value units.
    quantile_error_low, quantile_error_high : float
        Range of `quantile_error`.
    statistic_errors : tuple of StatisticError
        Predicted error of each statistic, and that of one number for all cells.
    """

    quantile_error: float
    share_error: float
    weight_error: float
    typical_weight: float
    open_cells: float
    open_traffic: float
    baseline_error: float
    quantile_error_low: float
    quantile_error_high: float
    statistic_errors: tuple[StatisticError, ...]

    @property
    def refusal(self) -> str | None:
        """The sentence that refuses a map with nothing to say; None for a useful map."""
        refusals = (
            grid_refusal(error.plural, error.error, error.baseline_error, self.open_traffic)
            for error in self.statistic_errors
        )
        return next((text for text in refusals if text is not None), None)


def predict_request(
    request: PresenceRequest | UnitCountRequest | ShapeRequest, baseline_error: Number | None = None
) -> Prediction | ShapePrediction:
    """Return the expected accuracy of a request of any kind."""
    if isinstance(request, ShapeRequest):
        return predict_shapes(request, baseline_error)
    return predict(request, baseline_error)


def predict_shapes(request: ShapeRequest, baseline_error: Number | None = None) -> ShapePrediction:
    """Return the expected accuracy of a requested map.

    Parameters
    ----------
    request : ShapeRequest
    baseline_error : Number, optional
        Error of one constant for all cells, in value units.
    """
    span, plan = float(request.lattice.span), request.allocation()
    baseline = BASELINE_SHARE * span
    if baseline_error is not None:
        baseline = float(to_positive_fraction(baseline_error, "baseline_error"))
    share = traffic_shares(request.grid.n_cells)
    weight = request.fleet.units * unit_weight(request) * share
    is_open = _opening_probability(plan, weight)
    traffic = is_open * share
    open_traffic = float(traffic.sum())
    over_open = traffic / max(open_traffic, np.finfo(float).tiny)
    deviation = plan.law.number_deviation / PARTS * math.sqrt(plan.n_bins)
    ranks = _rank_errors(request, deviation / 2.0 / weight, share)
    rank = float((over_open * ranks).sum())
    return ShapePrediction(
        quantile_error=SLOPE * rank * SPREAD_SHARE * span,
        share_error=rank,
        weight_error=MEAN_ABS_NORMAL * deviation,
        typical_weight=float((over_open * weight).sum()),
        open_cells=float(is_open.sum()),
        open_traffic=open_traffic,
        baseline_error=baseline,
        quantile_error_low=SLOPE * rank * LOW_SPREAD * span / MODEL_FACTOR,
        quantile_error_high=SLOPE * rank * HIGH_SPREAD * span * MODEL_FACTOR,
        statistic_errors=_statistic_errors(request, rank, baseline_error),
    )


def _statistic_errors(
    request: ShapeRequest, rank: float, baseline_error: Number | None
) -> tuple[StatisticError, ...]:
    """Return the predicted error of each statistic, from that of cumulative shares.

    Estimates are shrunk to what all cells have in common, so that they are never off by more than
    one number: nearly as much is as much.
    """
    missed = AS_WELL * MEAN_ABS_NORMAL * RANK_SPREAD
    spread = SLOPE * SPREAD_SHARE * float(request.lattice.span)
    median = missed * spread
    levels = rank
    if baseline_error is not None:
        # What one number misses was declared, in value units.
        median = float(to_positive_fraction(baseline_error, "baseline_error"))
        levels = rank * spread * missed / median
    mean = (StatisticError(MEAN, levels / missed * median, median),) if request.has_mean else ()
    return (*mean, *shape_errors(request.terms, rank, levels, missed, median))


def _rank_errors(request: ShapeRequest, noise: Floats, share: Floats) -> Floats:
    """Return the expected errors of cumulative shares, from the standard deviation of noise."""
    n_units = np.maximum(units_per_cell(request, share), 1.0)
    told = np.hypot(noise, 0.5 / np.sqrt(n_units))
    # An estimate is shrunk to what all cells have in common, so it misses no more than they differ.
    shrunk = told * RANK_SPREAD / np.hypot(told, RANK_SPREAD)
    return np.asarray(MEAN_ABS_NORMAL * np.hypot(shrunk, RANK_FLOOR))


def _opening_probability(plan: ShapeAllocation, weight: Floats) -> Floats:
    """Return the probability that cells of these weights, in units, are published as open."""
    threshold = plan.threshold(plan.n_bins)
    if threshold is None:
        return np.ones_like(weight)
    missing = threshold - weight * PARTS
    tails = plan.law.total_tails(plan.n_bins, missing / plan.law.scale)
    if plan.form.coarse_share:
        coarse = plan.coarse_law
        tails = tails * coarse.total_tails(1, missing / coarse.scale)
    return np.asarray(tails)
