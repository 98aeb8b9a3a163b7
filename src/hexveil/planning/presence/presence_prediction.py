"""Predicted error of a map with private presence, on paper: from declarations, never from records.

Assumptions, stated with every prediction:

- the declared units are there, each with the declared records in the declared number of cells;
- traffic falls over cells as a power law: the k-th busiest of G cells has a share of the weight in
  proportion to k^-CONCENTRATION;
- averages of units spread by a standard deviation of SPREAD_SHARE of the span over the whole grid,
  unless declared: that is how cells and units of one cell differ together;
- a constant for all cells misses by `baseline_error`: BASELINE_SHARE of the span, or half the
  declared spread, unless declared.

With W the weight of a cell, b the scale of the noise of the published map and s the spread, E|X +
Y| = 1.5 b (of Gaussian noise of parameter r, 1.13 r) is the expected error of the weight, and about
s E|X + Y| / W that of the mean, at most NO_BETTER s. Equal weights of unequal units, and clipping,
bias a mean by about BIAS s; the n units of a cell weigh differently from records, which adds s /
sqrt(n). The noise of the histogram by which ranges are chosen is in all cells alike, by about
HISTOGRAM of the span for a deviation of as many votes as there are units: it matters where values
fill a small part of the bounds. All are added in quadrature. A unit weighs 1, or its records over a
declared cap, or CAPPED_WEIGHT under a private one; under Gaussian noise, in k cells alike, the root
of k times as much. A cell opens with the probability that its weight and the noise exceed the
threshold (`accounting.noise_law`), in the coarse map and again in the fine one.

How values spread within bounds is not known on paper. So a range goes with each error: for a spread
of LOW_SPREAD to HIGH_SPREAD of the span, and MODEL_FACTOR to either side for what the assumptions
miss; its lower end is that of noise alone, as values need not depend on how units report. The
constants were chosen on the tuning sets of `benchmarks/interval_sets.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from hexveil.accounting.promise import PARTS
from hexveil.base.rational import to_positive_fraction
from hexveil.mechanisms.presence.presence_design import (
    CAPPED_WEIGHT,
    DeclaredCap,
    PrivateCap,
    ThreeStages,
)
from hexveil.planning.presence.presence_request import (
    PresenceRequest,
    UnitCountRequest,
    even_weight,
)

if TYPE_CHECKING:
    from hexveil.base.arrays import Floats
    from hexveil.base.rational import Number
    from hexveil.mechanisms.presence.presence_allocation import PresenceAllocation
    from hexveil.planning.presence.shape_request import ShapeRequest

CONCENTRATION = 0.8
SPREAD_SHARE, LOW_SPREAD, HIGH_SPREAD = 0.1, 0.05, 0.2
NO_BETTER, BIAS, HISTOGRAM = 0.8, 0.08, 0.2
MODEL_FACTOR = 2.0
BASELINE_SHARE = 1.0 / 20.0
MEAN_ABS_NORMAL = 0.7979
MIN_OPEN_TRAFFIC = 0.1
"""Share of traffic in open cells below which a map is refused."""


@dataclass(frozen=True)
class PresencePrediction:
    """Expected accuracy of a map, by the assumptions of this module.

    Attributes
    ----------
    mean_error : float
        Expected absolute error of the averages, over traffic in open cells, in value units.
    weight_error : float
        Expected absolute error of the weight of a cell, in units.
    typical_weight : float
        Weight of a cell, over traffic in open cells, in units.
    open_cells : float
        Expected number of open cells.
    open_traffic : float
        Expected share of the traffic that lies in open cells.
    baseline_error : float
        Error of one constant for all cells, in value units.
    mean_error_low, mean_error_high : float
        Range of `mean_error`.
    """

    mean_error: float
    weight_error: float
    typical_weight: float
    open_cells: float
    open_traffic: float
    baseline_error: float
    mean_error_low: float = 0.0
    mean_error_high: float = math.inf

    @property
    def refusal(self) -> str | None:
        """The sentence that refuses a map with nothing to say; None for a useful map."""
        return grid_refusal("averages", self.mean_error, self.baseline_error, self.open_traffic)


@dataclass(frozen=True)
class UnitCountPrediction:
    """Expected accuracy of a map of numbers of units.

    Attributes
    ----------
    count_error : float
        Expected absolute error of the number of units in a cell.
    typical_count : float
        Units in a cell, over the visits of all units.
    """

    count_error: float
    typical_count: float

    @property
    def refusal(self) -> str | None:
        """The sentence that refuses counts below their noise; None for useful ones."""
        if self.count_error < self.typical_count:
            return None
        return (
            f"Grid too fine for this fleet: the number of units in a cell is expected to be off by "
            f"{self.count_error:.3g}, where typically {self.typical_count:.3g} are. Declare a "
            "coarser grid, or ask for a larger epsilon."
        )


def grid_refusal(
    named: str, error: float, baseline_error: float, open_traffic: float
) -> str | None:
    """Return the sentence that refuses a map with nothing to say; None for a useful map.

    Parameters
    ----------
    named : str
        What is off by the error: "averages".
    error, baseline_error : float
        In open cells, and of one constant for all cells, in value units.
    open_traffic : float
    """
    if open_traffic < MIN_OPEN_TRAFFIC:
        return (
            f"Grid too fine for this fleet: cells with {open_traffic:.0%} of the traffic "
            "are expected to be open. Declare a coarser grid, or ask for a larger epsilon."
        )
    if error >= baseline_error:
        return (
            f"Grid too fine for this fleet: the {named} of open cells are expected to be off "
            f"by {error:.3g}, one number for all cells by {baseline_error:.3g}. "
            "Declare a coarser grid, or ask for a larger epsilon."
        )
    return None


Prediction: TypeAlias = PresencePrediction | UnitCountPrediction


def predict(
    request: PresenceRequest | UnitCountRequest, baseline_error: Number | None = None
) -> Prediction:
    """Return the expected accuracy of a request of either kind."""
    if isinstance(request, PresenceRequest):
        return predict_map(request, baseline_error)
    return predict_counts(request)


def traffic_shares(n_cells: int) -> Floats:
    """Return the assumed shares of the traffic of cells, the busiest first; they sum to one.

    Examples
    --------
    >>> traffic_shares(3).round(3).tolist()
    [0.503, 0.289, 0.209]
    """
    ranks = np.arange(1, n_cells + 1, dtype=np.float64)
    popularity = ranks**-CONCENTRATION
    return np.asarray(popularity / popularity.sum())


def predict_map(
    request: PresenceRequest,
    baseline_error: Number | None = None,
    spread: Number | None = None,
) -> PresencePrediction:
    """Return the expected accuracy of a requested map.

    Parameters
    ----------
    request : PresenceRequest
    baseline_error : Number, optional
        Error of one constant for all cells, in value units.
    spread : Number, optional
        Standard deviation of units' averages over the whole grid, in value units: a declaration,
        such as "most taxis average 20 to 40 km/h" for 10. It narrows the range.
    """
    span = float(request.lattice.span)
    spreads = [span * share for share in (SPREAD_SHARE, LOW_SPREAD, HIGH_SPREAD)]
    baseline = BASELINE_SHARE * span
    if spread is not None:
        spreads = 3 * [float(to_positive_fraction(spread, "spread"))]
        baseline = spreads[0] / 2
    if baseline_error is not None:
        baseline = float(to_positive_fraction(baseline_error, "baseline_error"))
    plan = request.allocation()
    share = traffic_shares(request.grid.n_cells)
    weight = request.fleet.units * unit_weight(request) * share
    is_open = _opening_probability(plan, weight)
    noise = plan.law.sum_error / PARTS
    traffic = is_open * share
    open_traffic = float(traffic.sum())
    over_open = traffic / max(open_traffic, np.finfo(float).tiny)
    by_noise = np.minimum(noise / weight, NO_BETTER)
    least, usual = (
        float((over_open * part).sum())
        for part in (by_noise, np.hypot(by_noise, _weighting_error(request, share)))
    )
    votes = plan.range_law.number_deviation / PARTS / request.fleet.units
    alike = HISTOGRAM * span * votes
    return PresencePrediction(
        mean_error=math.hypot(usual * spreads[0], alike),
        weight_error=noise,
        typical_weight=float((over_open * weight).sum()),
        open_cells=float(is_open.sum()),
        open_traffic=open_traffic,
        baseline_error=baseline,
        mean_error_low=math.hypot(least * spreads[1], alike) / MODEL_FACTOR,
        mean_error_high=math.hypot(usual * spreads[2], alike) * MODEL_FACTOR,
    )


def _weighting_error(request: PresenceRequest, share: Floats) -> Floats:
    """Return the expected error of means by units' weights, per unit of spread."""
    n_units = np.maximum(units_per_cell(request, share), 1.0)
    return np.asarray(np.hypot(BIAS, MEAN_ABS_NORMAL / np.sqrt(n_units)))


def predict_counts(request: UnitCountRequest) -> UnitCountPrediction:
    """Return the expected accuracy of requested numbers of units."""
    plan = request.allocation()
    share = traffic_shares(request.grid.n_cells)
    counts = units_per_cell(request, share)
    return UnitCountPrediction(plan.law.number_error / PARTS, float((share * counts).sum()))


def units_per_cell(
    request: PresenceRequest | UnitCountRequest | ShapeRequest, share: Floats
) -> Floats:
    """Return the expected number of units in each cell."""
    fleet = request.fleet
    # A unit is in no more cells than it has records, and counts once in a cell.
    visits = fleet.units * min(fleet.cells_per_unit, fleet.records_per_unit, request.grid.n_cells)
    return np.minimum(visits * share, fleet.units)


def unit_weight(request: PresenceRequest | ShapeRequest) -> float:
    """Return the weight of a typical unit over all cells."""
    if isinstance(request.cap, DeclaredCap):
        capped = min(request.fleet.records_per_unit / request.cap.records, 1.0)
    elif isinstance(request.user_cap, PrivateCap):
        capped = float(CAPPED_WEIGHT)
    else:
        capped = 1.0
    return capped * even_weight(request.fleet, request.grid.n_cells, request.delta)


def _opening_probability(plan: PresenceAllocation, weight: Floats) -> Floats:
    """Return the probability that cells of these weights, in units, are published as open."""
    if plan.threshold is None:
        return np.ones_like(weight)
    laws = [plan.law]
    if isinstance(plan.form, ThreeStages):
        laws.append(plan.coarse_law(plan.form))
    missing = (plan.threshold - np.rint(weight * PARTS).astype(np.int64)).tolist()
    # Z is symmetric: P(Z >= t) = 1 - P(Z >= 1 - t).
    tails = [
        [law.sum_tail(t) if t > 0 else 1.0 - law.sum_tail(1 - t) for t in missing] for law in laws
    ]
    return np.asarray(np.prod(tails, axis=0))
