"""The table of a release with quantiles, shares or histograms: a row per cell. Public.

Means and variances have the columns that they have in every release. Each statistic of the
distribution has `s_estimate`, its 95% interval `s_low` to `s_high`, `s_error`, the expected
absolute error, and `s_quality`; all of them by a model of cells' shapes.

**Estimates.** Post-processing of noisy numbers and public facts: it costs no privacy. All
statistics of a cell are those of one tilted shape, so they agree: quantiles rise with their level,
shares lie from 0 to 1 and fall with their threshold, and a histogram adds up to 1. A quantile in an
end bin means "at or beyond the bound", since values beyond the bounds count there.

Intervals are those of draws around each cell's tilt. Their variance is that of the fit times
an inflation: shapes of cells are not exactly tilts of the pooled one. Constants were chosen on
tuning sets (benchmarks/distributions.py).
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from hexveil.accounting.promise import PARTS
from hexveil.base.arrays import Floats
from hexveil.base.rational import decimal_text
from hexveil.learning.remembering import DayEstimates
from hexveil.mechanisms.distribution.shape_statistics import (
    AskedPoints,
    CellEstimates,
    ShapeStatistics,
    between_cells,
    cell_statistics,
)
from hexveil.mechanisms.distribution.tilt_estimation import TiltFit, fit_bins
from hexveil.mechanisms.distribution.tilted_shapes import narrow_tilt, solve_tilts, tilt_to_means
from hexveil.mechanisms.stage_data import Outputs
from hexveil.model.public_metadata import FineBins, ValueLattice
from hexveil.model.statistic_terms import Histogram, Quantile, Share, Term, column_names, half_bin
from hexveil.planning.allocation import PublishedShape, with_outputs
from hexveil.planning.distribution_component import DistributionComponent
from hexveil.planning.distribution_measures import MOMENTS, SCORES, SHAPE, weight_variance
from hexveil.planning.moment_component import MomentComponent
from hexveil.publishing.estimates.accuracy import accuracy_entry, grade_intervals
from hexveil.publishing.estimates.decoded_moments import (
    DecodedMoments,
    decode_moments,
    groupings_of,
)
from hexveil.publishing.estimates.posterior_estimates import estimate_view
from hexveil.publishing.estimates.table import describe_column, described_table, name_counted_cells
from hexveil.publishing.memory.history import History, remember_view
from hexveil.publishing.memory.score_history import score_facts
from hexveil.publishing.memory.stored_day import Rows
from hexveil.report.templates import render_sentence

KEYS = ("estimate", "low", "high", "error", "quality")


def released_columns(terms: tuple[Term, ...]) -> tuple[str, ...]:
    """Return the names of all columns of these statistics, in order."""
    prefixes = [prefix for term in terms for prefix in column_names(term)]
    return tuple(f"{prefix}_{key}" for prefix in prefixes for key in KEYS)


@dataclass(frozen=True, eq=False)
class DecodedDistribution:
    """Published numbers of a plan of distributions.

    Attributes
    ----------
    outputs : Outputs
        Noisy numbers of all stages, of which all others are made.
    table : pyarrow.Table
        A row per cell, with descriptions and units in its metadata.
    moments : DecodedMoments or None
        Means and variances in it.
    scores : Plan or None
        Plan of mean scores, with what its private stages released.
    accuracy : list of dict
        The manifest's statement, an entry for each prefix of columns.
    rows : ndarray, optional
        Of `memory.npy`.
    memory : dict, optional
        The manifest's section.
    """

    outputs: Outputs
    table: pa.Table
    moments: DecodedMoments | None
    scores: MomentComponent | None
    accuracy: list[dict[str, Any]]
    rows: Rows | None = None
    memory: dict[str, Any] | None = None


def decode_release(
    plan: DistributionComponent, outputs: Outputs, history: History | None = None
) -> DecodedDistribution:
    """Return the released numbers of stored outputs; post-processing, without sums."""
    facts, moments, scores, means = plan.facts, None, None, None
    if plan.moment_plan is not None:
        moments = decode_moments(plan.moment_plan, *_measured(plan, outputs, MOMENTS), facts)
        table, accuracy = moments.table, list(moments.accuracy)
        means = means_of(table) if "mean" in plan.moments else None
    else:
        columns, accuracy = name_counted_cells(facts, plan.occupancy), []
        table = described_table(columns, lambda name: (describe_column(name), ""), facts.value)
    if plan.score_plan is not None:
        scores = with_outputs(plan.score_plan, *_measured(plan, outputs, SCORES))
    rows, memory, remembered = _remember_scores(plan, outputs, history)
    measured, narrowing = remembered, 0.0
    if plan.score_plan is not None:
        measured = remembered or _scores(plan, outputs)
        if plan.estimator == "ranks":
            narrowing = _narrowing(plan, outputs, measured)
            memory = memory and memory | {"narrowing": narrowing}
    estimates = decode_distribution(plan, outputs, means, measured, narrowing)
    for prefix, subject, is_value in describe_terms(plan.terms, facts.lattice):
        one, width = estimates[prefix], float(facts.lattice.span) if is_value else 1.0
        half = half_bin(facts.lattice) if is_value else 0.0
        between = None
        if one.estimate.size > 1:
            between = float(between_cells(one.estimate, one.error, half))
        made = {name: pa.array(getattr(one, name)) for name in KEYS[:-1]}
        made["quality"] = pa.array(grade_estimates(one.low, one.high, between, width))
        for key, column in made.items():
            text = render_sentence("columns.txt", "shape", key=key, subject=subject)
            metadata = {"description": text}
            if is_value and facts.value_unit and key != "quality":
                metadata["unit"] = facts.value_unit
            field = pa.field(f"{prefix}_{key}", column.type, metadata=metadata)
            table = table.append_column(field, column)
        by_map = between is not None
        accuracy.append(accuracy_entry(table, prefix, "posterior", between, by_map=by_map))
    return DecodedDistribution(outputs, table, moments, scores, accuracy, rows, memory)


def _measured(plan: DistributionComponent, outputs: Outputs, name: str) -> tuple[Any, Outputs]:
    """Return the allocation of a part of the plan, and the outputs of its stages."""
    component = plan.stages().component(name)
    return component.plan, component.outputs(outputs)


def _remember_scores(
    plan: DistributionComponent, outputs: Outputs, history: History | None
) -> tuple[Rows | None, dict[str, Any] | None, CellEstimates | None]:
    """Return the file, the manifest's section, and mean scores that remember earlier days."""
    if history is None or plan.score_plan is None:
        return None, None, None
    allocation, scores = _measured(plan, outputs, SCORES)
    view = allocation.view(scores)
    shape = _shape(plan, outputs)[0] if plan.estimator == "ranks" else None
    memory = view and remember_view(view, score_facts(plan.facts, plan.terms, shape), history)
    if not memory:
        return None, None, None
    rows, statement, day = memory
    if shape is not None:
        statement["shape"] = {name: one.tolist() for name, one in vars(shape).items()}
    return rows, statement, None if day is None else scores_of(day)


def scores_of(day: DayEstimates) -> CellEstimates:
    """Return the estimates of a day as those of mean scores."""
    return CellEstimates(day.estimate, day.low, day.high, day.expected_error)


def _shape(plan: DistributionComponent, outputs: Outputs) -> tuple[PublishedShape, Floats | None]:
    """Return the shape that ranks are ranks in; of this release, also evenly within its bins."""
    if plan.component.published is not None:  # type: ignore[union-attr]  # of ranks
        return plan.component.published, None  # type: ignore[union-attr]
    measured, own = _measured(plan, outputs, SHAPE)
    pooled = measured.bins
    shape = PublishedShape(pooled.edges, pooled.shares(own), pooled.measured_place(own))
    return shape, pooled.even_shares(own)


def grade_estimates(low: Floats, high: Floats, between: float | None, width: float) -> list[str]:
    """Return each cell's quality: against the other cells, or of one cell against the range."""
    return grade_intervals((high - low) / 2.0, between, width, np.full(low.size, fill_value=True))


def means_of(table: pa.Table) -> CellEstimates:
    """Return the published means, before clipping where there is such an estimate."""
    middle = "estimate" if "mean_estimate" in table.column_names else "raw"
    error = "expected_error" if middle == "estimate" else "error"
    keys = (middle, "low", "high", error)
    return CellEstimates(*(table[f"mean_{key}"].to_numpy() for key in keys))


def describe_terms(terms: Sequence[Term], lattice: ValueLattice) -> Iterator[tuple[str, str, bool]]:
    """Yield prefix and subject of the columns of statistics, and whether they are values."""
    for term in terms:
        for prefix, subject in zip(column_names(term), describe_term(term, lattice), strict=True):
            yield prefix, subject, isinstance(term, Quantile)


def limits_of(
    moments: Sequence[str], terms: Sequence[Term], lattice: ValueLattice
) -> dict[str, tuple[float, float]]:
    """Return the least and largest value of each column of averages, and of these statistics."""
    bounds = float(lattice.lower), float(lattice.upper)
    return dict.fromkeys(moments, bounds) | {
        name: bounds if is_value else (0.0, 1.0)
        for name, _, is_value in describe_terms(terms, lattice)
    }


def describe_term(term: Term, lattice: ValueLattice) -> list[str]:
    """Return the subject of each column of a statistic, in words."""
    match term:
        case Quantile(level):
            return [f"the value that {decimal_text(100 * level)}% of the records do not exceed"]
        case Share(sign, threshold):
            words = {"<": "below", "<=": "at or below", ">": "above", ">=": "at or above"}[sign]
            return [f"the share of records {words} {decimal_text(threshold)}"]
        case Histogram():
            ends = [0, *term.edges(lattice).tolist()]
            values = [decimal_text(lattice.lower + end * lattice.quantum) for end in ends]
            first = [f"the share of records from {values[0]} to {values[1]}"]
            pairs = itertools.pairwise(values[1:])
            return first + [f"the share of records above {a} and up to {b}" for a, b in pairs]


# ---- estimates ----

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
    plan: DistributionComponent,
    outputs: Outputs,
    means: CellEstimates | None = None,
    scores: CellEstimates | None = None,
    narrowing: float = 0.0,
) -> dict[str, CellEstimates]:
    """Return the estimates of every statistic of the distribution, by column.

    A histogram has a column for each of its bins, numbered from the lowest. Means may be published
    beside it; mean scores may remember earlier days.
    """
    facts = plan.facts
    if scores is not None:
        if plan.component.estimator == "indicator":
            return {plan.terms[0].column: scores}
        shape, even = _shape(plan, outputs)
        return statistics_of_scores(
            plan.terms, facts.lattice, shape, scores, narrowing, means, even
        )
    assert facts.bins is not None  # noqa: S101  see plan_distribution
    measured, own = _measured(plan, outputs, SHAPE)
    inflation = GAUSSIAN_BIN_INFLATION if plan.delta else BIN_INFLATION
    pooled = measured.shape.bins
    shares, groups = pooled.shares(own), facts.cells.groupings()
    weight, off = weight_variance(measured.weights)
    variance = (measured.law.number_deviation / PARTS / weight) ** 2 + off
    bins, place = measured.noisy_bins(own), measured.place(own)
    fit = fit_bins(shares, bins, place, weight, variance, groups)
    statistics = ShapeStatistics(facts.bins, facts.lattice, plan.terms)
    made = cell_statistics(
        statistics,
        shares,
        TiltFit(fit.alpha, inflation * fit.covariance),
        inflation,
        pooled.measured_place(own),
        pooled.even_shares(own),
        _adjusted(plan.terms, facts.lattice, facts.bins, means),
    )
    return {name: made.at((slice(None), i)) for i, name in enumerate(statistics.columns)}


def statistics_of_scores(
    terms: tuple[Term, ...],
    lattice: ValueLattice,
    shape: PublishedShape,
    scores: CellEstimates,
    narrowing: float,
    means: CellEstimates | None,
    even: Floats | None = None,
) -> dict[str, CellEstimates]:
    """Return the estimates by mean ranks in a published shape."""
    bins = FineBins(shape.edges)
    ranks = AskedPoints.of(terms, lattice, bins.edges).ranks(shape.shares)
    statistics = ShapeStatistics(bins, lattice, terms)
    fit = _rank_tilts(shape.shares, ranks, scores, narrowing)
    adjusted = _adjusted(terms, lattice, bins, means)
    estimates = cell_statistics(
        statistics, shape.shares, fit, RANK_INFLATION, shape.place, even, adjusted
    )
    return {name: estimates.at((slice(None), i)) for i, name in enumerate(statistics.columns)}


def _narrowing(plan: DistributionComponent, outputs: Outputs, scores: CellEstimates) -> float:
    """Return the second tilt of all cells: see `narrow_tilt`."""
    (allocation, own), lattice, bins = (
        _measured(plan, outputs, SCORES), plan.facts.lattice, plan.facts.bins,
    )  # fmt: skip
    assert bins is not None  # noqa: S101  see plan_distribution
    if allocation.view(own) is None:
        return 0.0  # by raw numbers cells differ as noise does
    shares = _shape(plan, outputs)[0].shares
    ranks = AskedPoints.of(plan.terms, lattice, bins.edges).ranks(shares)
    records = plan.occupancy.records_per_cell.astype(np.float64)
    return narrow_tilt(shares, ranks, scores.estimate, records)


def _rank_tilts(shares: Floats, ranks: Floats, mean: CellEstimates, narrowing: float) -> TiltFit:
    """Return tilts by the ranks of fine bins and the released mean ranks; one of all narrows."""
    middle, low, high = (
        solve_tilts(shares, ranks, x, narrowing) for x in (mean.estimate, mean.low, mean.high)
    )
    # Both ends are the steepest tilt where no tilt attains the interval: draws need some variance.
    variance = np.maximum(RANK_INFLATION * ((high - low) / (2.0 * Z95)) ** 2, LEAST_VARIANCE)
    n_terms = len(SHAPE_VARIANCE)
    covariance = np.tile(np.diag(SHAPE_VARIANCE), (middle.size, 1, 1))
    covariance[:, 0, 0] += variance
    alpha = np.zeros((middle.size, n_terms))
    alpha[:, 0], alpha[:, 1] = middle, narrowing
    return TiltFit(alpha, covariance)


def _scores(plan: DistributionComponent, outputs: Outputs) -> CellEstimates:
    """Return the estimated mean scores of cells, before clipping where there is a posterior."""
    (allocation, own), scored = _measured(plan, outputs, SCORES), plan.score_plan
    assert scored is not None  # noqa: S101  of ranks and indicators
    # Mean ranks and shares are averages: cells take after those that share a label, as means do.
    # As for bins, only where cells have several: parents of hexagons alone gained nothing there.
    cells = plan.facts.cells
    effects = groupings_of(cells) if cells.groupings() else ()
    view = allocation.view(own)
    if view is not None:
        posterior = estimate_view(view, effects)
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
    terms: Sequence[Term], lattice: ValueLattice, bins: FineBins, mean: CellEstimates | None
) -> Callable[[slice, Floats, Floats], tuple[Floats, Floats]] | None:
    """Return the change of shapes to those with the means that are published beside them.

    Shapes have means of their own, and means were released beside them: both count by their
    precision. Beside a histogram the released means count alone, so that they lie within its reach.
    """
    if mean is None:
        return None
    middles = (bins.starts + bins.ends) / (2.0 * float(lattice.span_quanta))
    lower, span = float(lattice.lower), float(lattice.span)
    has_histogram = any(isinstance(term, Histogram) for term in terms)

    def with_means(own: Floats, target: Floats) -> Floats:
        means = np.clip((target - lower) / span, middles[0], middles[-1])
        return tilt_to_means(own, middles, means)

    def adjusted(rows: slice, middle: Floats, drawn: Floats) -> tuple[Floats, Floats]:
        own, own_drawn = (lower + span * (shares @ middles) for shares in (middle, drawn))
        stated = mean.at(rows)
        deviations = (stated.high - stated.low) / (2.0 * Z95), own_drawn.std(axis=0)
        weights = [np.maximum(one, 1e-12) ** -2 for one in deviations]
        joined = (weights[0] * stated.estimate + weights[1] * own) / sum(weights)
        target = stated.estimate if has_histogram else np.asarray(joined)
        # Draws keep their own spread: errors of both are not independent, as both come of the same
        # few vehicles, and intervals of half the variance held too rarely on the tuning sets.
        return with_means(middle, target), with_means(drawn, own_drawn + target - own)

    return adjusted
