"""Measures of a distribution: indicators, ranks, or bins of every cell.

Indicators are for the share beyond a single threshold, ranks a mean of scores under the released
shape. Each has its plan of scores, or its prices and parts of ε; the stages that follow from them;
and the predicted error of a share of records.

**Prices of cells** divide a unit's weight in bins over its cells, by public counts alone. Records
of a cell weigh their price. At equal prices fleets weigh by their records, and crowded cells get
far more weight than they need; at prices that fall with a cell's records, thin cells get more. The
prices of least predicted error are taken.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar, TypeAlias

import numpy as np

from hexveil.accounting.noise_law import NoiseLaw
from hexveil.accounting.promise import PARTS, Promise, promised
from hexveil.base.arrays import Floats, Ints
from hexveil.base.errors import InputError
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.mechanisms.distribution import Component
from hexveil.mechanisms.distribution.binned_stage import (
    SUBSTITUTED,
    PricedColumn,
    PricedWeights,
    unit_sizes,
)
from hexveil.mechanisms.distribution.pooled_shape import BinnedMap, PooledShape
from hexveil.mechanisms.distribution.shape_statistics import (
    SCORE_LATTICE,
    AskedPoints,
    PooledRankScores,
    indicator,
)
from hexveil.model.occupancy import Occupancy, Pairs
from hexveil.model.public_metadata import PublicMetadata
from hexveil.model.statistic_terms import Estimator, Share, Term
from hexveil.planning.allocation import CellForecast, PublishedShape
from hexveil.planning.methods import plan_moments
from hexveil.planning.moment_component import MomentComponent
from hexveil.planning.plan_arguments import PlanArguments

MOMENTS, SHAPE, SCORES = "moments", "shape", "scores"
SHAPE_SHARE = Fraction(3, 20)
"""Part of what a distribution costs that its pooled shape takes."""
GOOD_ENOUGH = 0.04
"""Predicted error of a share by bins up to which a day of a series is measured by them."""
RANK_TO_SHARE = 1.5
"""Change of the share below the median, for one of the mean rank: of a flat shape, tilted."""


@dataclass(frozen=True, eq=False)
class AskedDistribution:
    """Facts, points and δ that the stages of a component follow from.

    Attributes
    ----------
    facts : PublicMetadata
    edges : ndarray of int64
        Of the fine bins that records are counted by.
    points : AskedPoints
        Of the quantiles and shares that are asked for.
    threshold_edges : ndarray of int64
        Of all thresholds, in quanta, rising.
    delta : Fraction
    """

    facts: PublicMetadata
    edges: Ints
    points: AskedPoints
    threshold_edges: Ints
    delta: Fraction

    def shape(self, epsilon: Fraction) -> PooledShape:
        """Return the pooled shape at its part of ε."""
        return PooledShape(self.facts.occupancy, self.edges, epsilon, self.delta)


@dataclass(frozen=True, eq=False)
class ScorePlan:
    """Distribution by mean scores of each cell: ranks, or an indicator of a single share.

    Attributes
    ----------
    plan : MomentComponent
        Of scores from 0 to 1.
    shape_epsilon : Fraction or None
        Of the shape by which ranks are scored; under a δ that of the part at it. None of an
        indicator, and where an earlier release published the shape.
    share : Share or None
        Of an indicator.
    published : PublishedShape or None
    """

    plan: MomentComponent
    shape_epsilon: Fraction | None = None
    share: Share | None = None
    published: PublishedShape | None = None

    @property
    def estimator(self) -> str:
        """How the scores are made."""
        return "ranks" if self.share is None else "indicator"

    @property
    def epsilons(self) -> tuple[Fraction, ...]:
        """Parts of ε beside that of the scores."""
        return () if self.shape_epsilon is None else (self.shape_epsilon,)

    @property
    def score_plan(self) -> MomentComponent:
        """Plan of mean scores."""
        return self.plan

    @property
    def share_error(self) -> float:
        """Predicted error of a share of records, on average over cells."""
        error = float(np.mean(self.plan.error))
        return RANK_TO_SHARE * error if self.share is None else error

    def check_against(self, terms: tuple[Term, ...], occupancy: Occupancy) -> None:  # noqa: ARG002
        """Refuse a shape with an indicator, and another share than was asked for."""
        forms = (self.share, self.shape_epsilon, self.published)
        if sum(one is not None for one in forms) != 1:
            raise InputError("scores are ranks, by a shape, or an indicator.")
        if self.share is not None and terms != (self.share,):
            raise InputError("an indicator measures the single share that was asked for.")

    def level_error(self, request: AskedDistribution) -> float:
        """Return the predicted error of the cumulative share at a quantile, on average over cells.

        Beside the cell's own error that of the pooled shape, by which quantiles are read off: of
        its bins half lie below the middle.
        """
        if self.shape_epsilon is None:  # there is no shape to read a quantile off
            return self.share_error
        return math.hypot(self.share_error, request.shape(self.shape_epsilon).level_error)

    def stages(self, request: AskedDistribution) -> list[Component]:
        """Return the components of a release."""
        if self.share is not None:
            counted = indicator(self.share, request.facts.lattice, request.edges)
            return [Component(SCORES, self.plan.stages(), lambda _: counted)]
        if self.published is not None:
            ranks = PooledRankScores(self.published.shares, request.points)
            return [Component(SCORES, self.plan.stages(), ranks)]
        assert self.shape_epsilon is not None  # noqa: S101  see check_against
        shape = Component(SHAPE, request.shape(self.shape_epsilon))
        ranks = PooledRankScores(shape, request.points)
        return [shape, Component(SCORES, self.plan.stages(), ranks)]


@dataclass(frozen=True, eq=False)
class BinPlan:
    """Distribution by bins of each cell; under a δ, each ε is that of the part at it.

    Attributes
    ----------
    priced : PricedCells
    shape_epsilon, bin_epsilon : Fraction
    """

    priced: PricedCells
    shape_epsilon: Fraction
    bin_epsilon: Fraction
    estimator: ClassVar[str] = "bins"
    score_plan: ClassVar[None] = None

    @property
    def epsilons(self) -> tuple[Fraction, ...]:
        """Parts of ε."""
        return self.shape_epsilon, self.bin_epsilon

    @property
    def share_error(self) -> float:
        """Predicted error of a share of records, on average over cells."""
        return self.priced.error

    def check_against(self, terms: tuple[Term, ...], occupancy: Occupancy) -> None:  # noqa: ARG002
        """Refuse prices of other cells."""
        if self.priced.prices.size != occupancy.n_cells:
            raise InputError("its prices are not one whole number from 1 to 2^20 per cell.")

    def level_error(self, request: AskedDistribution) -> float:
        """Return the predicted error of the cumulative share at a quantile: see `ScorePlan`."""
        return math.hypot(self.share_error, request.shape(self.shape_epsilon).level_error)

    def stages(self, request: AskedDistribution) -> list[Component]:
        """Return the components of a release."""
        shape, priced = request.shape(self.shape_epsilon), self.priced
        edges, epsilon = request.threshold_edges, self.bin_epsilon
        return [Component(SHAPE, BinnedMap(shape, priced.prices, priced.floor, edges, epsilon))]


DistributionMeasure: TypeAlias = ScorePlan | BinPlan


def plan_measure(
    facts: PublicMetadata,
    terms: tuple[Term, ...],
    estimator: Estimator,
    promise: Promise,
    forecast: CellForecast | None = None,
) -> DistributionMeasure:
    """Return the measure of least predicted error within a promise, or of the named estimator.

    In a series of days, of which there is a forecast, mean ranks are remembered and bins are not:
    bins have to be good enough alone.
    """
    if estimator == "auto" and len(terms) == 1 and isinstance(terms[0], Share):
        return ScorePlan(_score_plan(facts, promise, forecast), share=terms[0])
    if forecast is not None and forecast.shape is not None and estimator != "bins":
        ranks = ScorePlan(_score_plan(facts, promise, forecast), published=forecast.shape)
        # Where ranges do not follow from releases, the request would not name these.
        if ranks.plan.request.history:
            return ranks
    measures: list[DistributionMeasure] = []
    shape, rest = (promise.part(share) for share in (SHAPE_SHARE, 1 - SHAPE_SHARE))
    if estimator != "bins":
        measures.append(ScorePlan(_score_plan(facts, rest), shape.planned))
    if estimator != "ranks":
        law = promised(rest.planned, promise.delta).noise(SUBSTITUTED)
        measures.append(BinPlan(choose_prices(facts.occupancy, law), shape.planned, rest.planned))
    if forecast is not None and len(measures) > 1 and measures[1].share_error > GOOD_ENOUGH:
        return measures[0]
    return min(measures, key=lambda one: one.share_error)


def _score_plan(
    facts: PublicMetadata, promise: Promise, forecast: CellForecast | None = None
) -> MomentComponent:
    history = forecast if forecast is not None and forecast.releases else None
    asked = PlanArguments(epsilon=promise.planned, delta=promise.delta or None, history=history)
    return plan_moments(score_metadata(facts), asked)


def score_metadata(facts: PublicMetadata) -> PublicMetadata:
    """Return the public metadata of scores from 0 to 1 in place of values."""
    return replace(
        facts, lattice=SCORE_LATTICE, value="score", value_unit="", recount=None, bins=None
    )


# ---- prices of cells ----

LARGEST_FLOOR = 2**62
POWERS = (0.0, 0.25, 0.5, 0.75, 1.0)
FLOOR_QUANTILES = (0.0, 0.1, 0.25, 0.5)
BETWEEN_USERS = 0.05
"""Assumed variance of a bin's share between the units of a cell: prior."""
BETWEEN_CELLS = 0.15
"""Assumed standard deviation of a cumulative share between cells: prior."""
ABSOLUTE = float(np.sqrt(2.0 / np.pi))


@dataclass(frozen=True, eq=False)
class PricedCells(ReadOnlyArrays):
    """Prices, and the predicted error of cumulative shares.

    Attributes
    ----------
    prices : ndarray of int64, shape (n_cells,)
    floor : int
    error : float
        Predicted absolute error of the share below the median, on average over cells.
    """

    prices: Ints
    floor: int
    error: float

    def check(self) -> None:
        """Refuse numbers that no plan has: a stranger may have written them."""
        if not ((self.prices >= 1) & (self.prices <= PARTS)).all():
            raise InputError("its prices are not one whole number from 1 to 2^20 per cell.")
        if not 0 <= self.floor <= LARGEST_FLOOR or not 0 <= self.error < np.inf:
            raise InputError("its floor or its predicted error is none that a plan has.")


def choose_prices(occupancy: Occupancy, law: NoiseLaw) -> PricedCells:
    """Return the prices of least predicted error."""
    records = np.maximum(occupancy.records_per_cell, 1).astype(float)
    candidates = []
    for power in POWERS:
        relative = (records / records.min()) ** -power
        prices = np.maximum(np.rint(PARTS / 16 * relative), 1).astype(np.int64)
        priced = unit_sizes(occupancy, prices, law)
        floors = [int(np.quantile(priced, level)) if level else 0 for level in FLOOR_QUANTILES]
        # All floors at once: pairs may lie elsewhere, where each question takes a job.
        divisors = [np.maximum(priced, max(floor, 1)) for floor in floors]
        weights = [PricedColumn(prices, divisor) for divisor in divisors]
        columns = occupancy.map_cells(partial(_totals_and_differences, weights=weights))
        for floor, total, differs in zip(floors, columns[::2], columns[1::2], strict=True):
            error = float(_errors(*_variances(total, differs), law.number_deviation / PARTS).mean())
            candidates.append(PricedCells(prices, floor, error))
    return min(candidates, key=lambda priced_cells: priced_cells.error)


def weight_variance(weights: PricedWeights) -> tuple[Floats, Floats]:
    """Return each cell's weight in units, and the variance of shares by weights unlike records.

    A share by weights differs from the share by records as units differ: by the prior, with the
    variance `BETWEEN_USERS` between units.
    """
    work = partial(_totals_and_differences, weights=[weights.column])
    return _variances(*weights.occupancy.map_cells(work))


def _variances(total: Ints, differs: Floats) -> tuple[Floats, Floats]:
    return np.maximum(total, 1.0) / PARTS, BETWEEN_USERS * differs


def _totals_and_differences(pairs: Pairs, *, weights: Sequence[PricedColumn]) -> tuple[Any, ...]:
    """Return the weight of each cell, and Σ (share by weight - share by records)², of each."""
    begin, own = pairs.start[:-1], pairs.cell - pairs.first
    records = np.add.reduceat(pairs.n, begin)
    columns: list[Any] = []
    for column in weights:
        weight = column.of(pairs)
        total = np.add.reduceat(weight, begin)
        differs = weight / np.maximum(total, 1.0)[own] - pairs.n / records[own]
        squares = np.bincount(own, differs**2, pairs.n_cells)
        columns += [total, np.asarray(squares, dtype=np.float64)]
    return tuple(columns)


def _errors(weight: Floats, mismatch: Floats, deviation: float) -> Floats:
    """Return the predicted error of the share below the median of each cell."""
    # Of four bins two lie below the median: their noise, less what the known sum says.
    noise = (deviation / weight) ** 2
    return np.asarray(ABSOLUTE / np.sqrt(1.0 / (noise + mismatch) + BETWEEN_CELLS**-2))
