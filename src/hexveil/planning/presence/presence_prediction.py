"""Predicted error of a map with private presence, on paper: from declarations, never from records.

Assumptions, stated with every prediction:

- the declared units are there, each with the declared records in the declared number of cells;
- traffic falls over cells as a power law: the k-th busiest of G cells has a share of the weight in
  proportion to k^-CONCENTRATION;
- averages of units spread by a standard deviation of SPREAD_SHARE of the span over the whole grid:
  that is how cells and units of one cell differ together;
- a constant for all cells misses by `baseline_error`: BASELINE_SHARE of the span, unless declared.

**Averages.** With W the weight of a cell, b the scale of the noise of the published map and s the
spread, E|X + Y| = 1.5 b (of Gaussian noise of parameter r, 1.13 r) is the expected error of the
weight, and about s E|X + Y| / W that of the mean, at most NO_BETTER s. Equal weights of unequal
units, and clipping, bias a mean by about BIAS s; the n units of a cell weigh differently from
records, which adds s / sqrt(n). The noise of the histogram by which ranges are chosen is in all
cells alike, by about HISTOGRAM of the span for a deviation of as many votes as there are units: it
matters where values fill a small part of the bounds. All are added in quadrature. A unit weighs 1;
under Gaussian noise, in k cells alike, the root of k. A cell opens with the probability that its
weight and the noise exceed the threshold (`accounting.noise_law`), in the coarse map and again in
the fine one.

**Distributions.** With s the standard deviation of the noise and B bins, a cumulative share is off
by a standard deviation of s sqrt(B) / (2 W) in the middle; cells' own cumulative shares differ by
RANK_SPREAD, to which estimates shrink, and a model of few terms misses RANK_FLOOR; the n units of a
cell are a sample. These give the error of shares. A quantile of values near a normal law of spread
s is off by sqrt(2 π) s times that.

How values spread within bounds is not known on paper. So a range goes with each error: for a spread
of LOW_SPREAD to HIGH_SPREAD of the span, and MODEL_FACTOR to either side for what the assumptions
miss; of averages its lower end is that of noise alone, as values need not depend on how units
report. The constants were chosen on the tuning sets of `benchmarks/interval_sets.py` and
`benchmarks/distributions.py`.
"""

import math
from dataclasses import dataclass

import numpy as np

from hexveil.accounting.promise import PARTS
from hexveil.base.arrays import Floats
from hexveil.base.rational import Number, to_positive_fraction
from hexveil.mechanisms.distribution.shape_statistics import MEAN
from hexveil.mechanisms.presence.presence_allocation import PresenceAllocation
from hexveil.mechanisms.presence.shape_allocation import ShapeAllocation
from hexveil.planning.feasibility.utility_test import StatisticError, refusal_of, shape_errors
from hexveil.planning.presence.presence_request import PresenceRequest

CONCENTRATION = 0.8
SPREAD_SHARE, LOW_SPREAD, HIGH_SPREAD = 0.1, 0.05, 0.2
NO_BETTER, BIAS, HISTOGRAM = 0.8, 0.08, 0.2
RANK_SPREAD, RANK_FLOOR = 0.12, 0.02
AS_WELL = 0.93
"""Part of what one share for all cells misses from which on a prediction says no more."""
SLOPE = math.sqrt(2.0 * math.pi)
"""Spreads per unit of cumulative share at the middle of a normal law."""
MODEL_FACTOR = 2.0
BASELINE_SHARE = 1.0 / 20.0
MEAN_ABS_NORMAL = 0.7979
MIN_OPEN_TRAFFIC = 0.1
"""Share of traffic in open cells below which a map is refused."""


@dataclass(frozen=True)
class MapPrediction:
    """Expected accuracy of a map, by the assumptions of this module.

    Attributes
    ----------
    kind : "mean" or "quantile"
        What is off by `error`.
    error : float
        Expected absolute error of averages or medians, over traffic in open cells, in value units.
    error_low, error_high : float
        Range of `error`.
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
    statistic_errors : tuple of StatisticError
        Of each statistic, beside that of one number for all cells.
    share_error : float, optional
        Expected absolute error of a share of records, from 0 to 1; None of averages alone.
    """

    kind: str
    error: float
    error_low: float
    error_high: float
    weight_error: float
    typical_weight: float
    open_cells: float
    open_traffic: float
    baseline_error: float
    statistic_errors: tuple[StatisticError, ...]
    share_error: float | None = None

    @property
    def refusal(self) -> str | None:
        """The sentence that refuses a map with nothing to say; None for a useful map."""
        if self.open_traffic < MIN_OPEN_TRAFFIC:
            return (
                f"Grid too fine for this fleet: cells with {self.open_traffic:.0%} of the traffic "
                "are expected to be open; ask for a coarser grid, or a larger epsilon."
            )
        return refusal_of(self.statistic_errors)

    @property
    def relative_error(self) -> float:
        """Error over all traffic as a part of one constant's, by which closed cells are off."""
        closed = 1.0 - self.open_traffic
        return self.open_traffic * self.error / self.baseline_error + closed

    def figures(self) -> dict[str, float | None]:
        """Return its numbers by name."""
        named = {f"{self.kind}_{name}": getattr(self, name) for name in _ERRORS}
        return named | {name: getattr(self, name) for name in _FIGURES}


_ERRORS = ("error", "error_low", "error_high")
_FIGURES = (
    "weight_error", "typical_weight", "open_cells", "open_traffic", "baseline_error", "share_error",
)  # fmt: skip


@dataclass(frozen=True)
class CountPrediction:
    """Expected accuracy of numbers of units.

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
        return refusal_of([StatisticError("users", self.count_error, self.typical_count)])

    @property
    def relative_error(self) -> float:
        """Expected error as a part of the typical number."""
        return self.count_error / self.typical_count


@dataclass(frozen=True)
class PresencePrediction:
    """Expected accuracy of a request: of its map, and of numbers of units; one may be missing."""

    map: MapPrediction | None
    counts: CountPrediction | None

    @property
    def parts(self) -> tuple[MapPrediction | CountPrediction, ...]:
        """The map first."""
        return tuple(part for part in (self.map, self.counts) if part is not None)

    @property
    def refusal(self) -> str | None:
        """The sentence that refuses a release with nothing to say; None for a useful one."""
        return next((part.refusal for part in self.parts if part.refusal is not None), None)

    @property
    def relative_error(self) -> float:
        """Largest relative error of its parts."""
        return max(part.relative_error for part in self.parts)

    def figures(self) -> dict[str, float]:
        """Return the finite numbers by name."""
        of_map = {} if self.map is None else self.map.figures()
        found = of_map | ({} if self.counts is None else vars(self.counts))
        return {
            name: float(number)
            for name, number in sorted(found.items())
            if number is not None and math.isfinite(number)
        }


def predict(request: PresenceRequest, baseline_error: Number | None = None) -> PresencePrediction:
    """Return the expected accuracy of a request.

    Parameters
    ----------
    request : PresenceRequest
    baseline_error : number, optional
        Declared error of one constant for all cells.
    """
    of_map = predict_map(request.of_map, baseline_error) if request.has_map else None
    return PresencePrediction(of_map, predict_counts(request) if request.count_share else None)


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


def predict_map(request: PresenceRequest, baseline_error: Number | None = None) -> MapPrediction:
    """Return the expected accuracy of a requested map alone: see `predict`."""
    share, span = traffic_shares(request.grid.n_cells), float(request.lattice.span)
    weight = request.fleet.units * request.even_weight * share
    declared = baseline_error
    if declared is not None:
        declared = float(to_positive_fraction(declared, "baseline_error"))
    baseline = BASELINE_SHARE * span if declared is None else declared
    plan = request.shape_allocation() if request.terms else request.mean_allocation()
    is_open, n_units = opening_probability(plan, weight), units_per_cell(request, share)
    traffic = is_open * share
    over_open = traffic / max(float(traffic.sum()), np.finfo(float).tiny)
    rank = None
    if isinstance(plan, ShapeAllocation):
        deviation = plan.law.number_deviation / PARTS * math.sqrt(plan.n_bins)
        rank = float((over_open * rank_errors(deviation / 2.0 / weight, n_units)).sum())
        kind, noise, least, alike = "quantile", MEAN_ABS_NORMAL * deviation, SLOPE * rank, 0.0
        usual = least
    else:
        kind, noise = MEAN, plan.law.sum_absolute * plan.law.scale / PARTS
        by_noise = np.minimum(noise / weight, NO_BETTER)
        by_weights = bias_by_weights(n_units)
        least = float((over_open * by_noise).sum())
        usual = float((over_open * np.hypot(by_noise, by_weights)).sum())
        votes = plan.range_law.number_deviation / PARTS / request.fleet.units
        alike = HISTOGRAM * span * votes
    error = math.hypot(usual * span * SPREAD_SHARE, alike)
    return MapPrediction(
        kind,
        error,
        error_low=math.hypot(least * span * LOW_SPREAD, alike) / MODEL_FACTOR,
        error_high=math.hypot(usual * span * HIGH_SPREAD, alike) * MODEL_FACTOR,
        weight_error=noise,
        typical_weight=float((over_open * weight).sum()),
        open_cells=float(is_open.sum()),
        open_traffic=float(traffic.sum()),
        baseline_error=baseline,
        statistic_errors=(StatisticError(MEAN, error, baseline),)
        if rank is None
        else term_errors(request, rank, declared),
        share_error=rank,
    )


def term_errors(
    request: PresenceRequest, rank: float, declared: float | None = None
) -> tuple[StatisticError, ...]:
    """Return the predicted error of each statistic, from that of cumulative shares.

    Averages move with the middle of a distribution as medians do.
    """
    missed = AS_WELL * MEAN_ABS_NORMAL * RANK_SPREAD
    spread = SLOPE * SPREAD_SHARE * float(request.lattice.span)
    median, levels = missed * spread, rank
    if declared is not None:
        # What one number misses was declared, in value units.
        median, levels = declared, rank * spread * missed / declared
    mean = (StatisticError(MEAN, levels / missed * median, median),) if request.has_mean else ()
    return (*mean, *shape_errors(request.terms, rank, levels, missed, median))


def rank_errors(noise: Floats, n_units: Floats) -> Floats:
    """Return the expected errors of cumulative shares, from the standard deviation of noise."""
    told = np.hypot(noise, 0.5 / np.sqrt(np.maximum(n_units, 1.0)))
    # An estimate is shrunk to what all cells have in common, so it misses no more than they differ.
    shrunk = told * RANK_SPREAD / np.hypot(told, RANK_SPREAD)
    return np.asarray(MEAN_ABS_NORMAL * np.hypot(shrunk, RANK_FLOOR))


def predict_counts(request: PresenceRequest) -> CountPrediction:
    """Return the expected accuracy of requested numbers of units."""
    share = traffic_shares(request.grid.n_cells)
    counts = units_per_cell(request, share)
    law = request.count_allocation().law
    return CountPrediction(law.mean_absolute * law.scale / PARTS, float((share * counts).sum()))


def units_per_cell(request: PresenceRequest, share: Floats) -> Floats:
    """Return the expected number of units in each cell."""
    fleet = request.fleet
    # A unit is in no more cells than it has records, and counts once in a cell.
    visits = fleet.units * min(fleet.cells_per_unit, fleet.records_per_unit, request.grid.n_cells)
    return np.minimum(visits * share, fleet.units)


def bias_by_weights(n_units: Floats) -> Floats:
    """Return how far averages are off by weights unlike records and by clipping, in spreads."""
    return np.hypot(BIAS, MEAN_ABS_NORMAL / np.sqrt(np.maximum(n_units, 1.0)))


def opening_probability(plan: PresenceAllocation | ShapeAllocation, weight: Floats) -> Floats:
    """Return the probability that cells of these weights, in units, are published as open."""
    threshold, tests = plan.tests
    if threshold is None:
        return np.ones_like(weight)
    missing = threshold - weight * PARTS
    return np.asarray(np.prod([law.total_tails(n, missing / law.scale) for law, n in tests], 0))
