"""The table of a release with quantiles, shares or histograms: a row per cell. Public.

Means and variances have the columns that they have in every release. Each statistic of the
distribution has `s_estimate`, its 95% interval `s_low` to `s_high`, `s_error`, the expected
absolute error, and `s_quality`; all of them by a model of cells' shapes.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from hexveil.base.errors import InputError
from hexveil.base.rational import decimal_text
from hexveil.mechanisms.distribution.shape_statistics import between_cells
from hexveil.model.statistic_terms import Histogram, Quantile, Share, Term, column_names, half_bin
from hexveil.planning.distribution.distribution_components import (
    MOMENTS,
    SCORES,
    BinPlan,
    IndicatorPlan,
    RankPlan,
)
from hexveil.planning.moment_part import with_outputs
from hexveil.publishing.distribution.distribution_decoding import (
    CellEstimates,
    decode_distribution,
)
from hexveil.publishing.estimates.accuracy import count_grades, typical_error
from hexveil.publishing.estimates.decoded_moments import DecodedMoments, decode_moments
from hexveil.publishing.estimates.quality_grades import (
    beats_constant,
    grade_intervals,
)
from hexveil.publishing.estimates.released_columns import describe_column
from hexveil.publishing.estimates.table import described_table, name_counted_cells
from hexveil.report.accuracy_text import describe_assumption

if TYPE_CHECKING:
    from hexveil.base.arrays import Floats
    from hexveil.mechanisms.contract import Outputs
    from hexveil.model.public_metadata import PublicMetadata, ValueLattice
    from hexveil.planning.distribution.distribution_plan import DistributionPart
    from hexveil.planning.moment_part import MomentPart


KEYS = ("estimate", "low", "high", "error", "quality")
_MEANINGS = {
    "estimate": "{}, estimated by a model of the cell's distribution",
    "low": "lower end of the 95% interval of {}, by that model",
    "high": "upper end of the 95% interval of {}, by that model",
    "error": "expected absolute error of the estimate of {}, by that model",
    "quality": (
        "of {}: good (half of the 95% interval is at most the standard deviation between cells in "
        "manifest.json), caution (at most 1.75 of them) or noise (wider: little beyond the map); "
        "in a release of one cell against a tenth and a quarter of the range"
    ),
}


def released_columns(terms: tuple[Term, ...]) -> tuple[str, ...]:
    """Return the names of all columns of these statistics, in order."""
    prefixes = [prefix for term in terms for prefix in column_names(term)]
    return tuple(f"{prefix}_{key}" for prefix in prefixes for key in KEYS)


def check_label_columns(facts: PublicMetadata, terms: tuple[Term, ...]) -> None:
    """Refuse label columns with names that the statistics need for themselves."""
    reserved = sorted(set(released_columns(terms)) & set(facts.cells.labels))
    if reserved:
        raise InputError(
            f"the label column {reserved[0]!r} has the name of a column of this release; give it "
            "another name in the records."
        )


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
    """

    outputs: Outputs
    table: pa.Table
    moments: DecodedMoments | None
    scores: MomentPart | None
    accuracy: list[dict[str, Any]]


def decode_release(plan: DistributionPart, outputs: Outputs) -> DecodedDistribution:
    """Return the released numbers of stored outputs; post-processing, without sums."""
    moments = _moments(plan, outputs)
    table = _named_cells(plan) if moments is None else moments.table
    means = None if moments is None or "mean" not in plan.moments else _means(moments.table)
    accuracy = [] if moments is None else list(moments.accuracy)
    for term, estimates in _by_term(plan, decode_distribution(plan, outputs, means)):
        width = float(plan.facts.lattice.span) if isinstance(term, Quantile) else 1.0
        half = half_bin(plan.facts.lattice) if isinstance(term, Quantile) else 0.0
        for prefix, subject, one in estimates:
            between = deviation_of_estimates(one.estimate, one.error, half)
            columns = {name: pa.array(getattr(one, name)) for name in KEYS[:-1]}
            columns["quality"] = pa.array(grade_estimates(one.low, one.high, between, width))
            for key in KEYS:
                metadata = {"description": _MEANINGS[key].format(subject)}
                if isinstance(term, Quantile) and plan.facts.value_unit and key != "quality":
                    metadata["unit"] = plan.facts.value_unit
                field = pa.field(f"{prefix}_{key}", columns[key].type, metadata=metadata)
                table = table.append_column(field, columns[key])
            accuracy.append(estimate_accuracy(table, prefix, between))
    return DecodedDistribution(outputs, table, moments, _score_plan(plan, outputs), accuracy)


def deviation_of_estimates(estimate: Floats, error: Floats, half: float) -> float | None:
    """Return the standard deviation of true numbers between cells; None for a map of one cell.

    Parameters
    ----------
    estimate, error : ndarray of float, shape (n_cells,)
        Published estimates, and their expected absolute errors.
    half : float
        Half a bin, which is in the errors of quantiles.
    """
    if estimate.size == 1:
        return None
    # Where values lie within a bin is not known, and the same for all cells.
    own_deviation = np.sqrt(np.maximum(error**2 - half**2, 0.0))
    return float(between_cells(estimate, own_deviation))


def grade_estimates(low: Floats, high: Floats, between: float | None, width: float) -> list[str]:
    """Return each cell's quality: against the other cells, or of one cell against the range."""
    informative = np.full(low.size, fill_value=True)
    return grade_intervals((high - low) / 2.0, between, width, informative)


def estimate_accuracy(table: pa.Table, prefix: str, between: float | None) -> dict[str, Any]:
    """Return the manifest's statement on the accuracy of a prefix of columns."""
    error = typical_error(table, prefix)
    return {
        "statistic": prefix,
        "typical_error": error,
        "basis": "posterior",
        "between_cells": between,
        "beats_constant": beats_constant(error, between),
        "graded_by": "bounds" if between is None else "map",
        "grades": count_grades(table, prefix),
        "assumption": describe_assumption("distribution"),
    }


def _moments(plan: DistributionPart, outputs: Outputs) -> DecodedMoments | None:
    if plan.moment_plan is None:
        return None
    component = plan.stages().component(MOMENTS)
    own = component.outputs(outputs)
    return decode_moments(plan.moment_plan, component.plan, own, plan.facts)


def _score_plan(plan: DistributionPart, outputs: Outputs) -> MomentPart | None:
    match plan.component:
        case IndicatorPlan(made) | RankPlan(made):
            component = plan.stages().component(SCORES)
            allocation: Any = component.plan
            return with_outputs(made, allocation, component.outputs(outputs))
        case BinPlan():
            return None


def _means(table: pa.Table) -> CellEstimates:
    """Return the published means, before clipping where there is such an estimate."""
    middle = "estimate" if "mean_estimate" in table.column_names else "raw"
    error = "expected_error" if middle == "estimate" else "error"
    keys = (middle, "low", "high", error)
    return CellEstimates(*(table[f"mean_{key}"].to_numpy() for key in keys))


def _named_cells(plan: DistributionPart) -> pa.Table:
    """Return the table of cells and public counts alone."""
    columns = name_counted_cells(plan.facts, plan.occupancy)
    return described_table(columns, lambda name: (describe_column(name), ""), plan.facts.value)


def _by_term(
    plan: DistributionPart, estimates: dict[str, CellEstimates]
) -> list[tuple[Term, list[tuple[str, str, CellEstimates]]]]:
    """Return prefix, subject and estimates of each column, by statistic."""
    return [
        (
            term,
            [
                (prefix, subject, estimates[prefix])
                for prefix, subject in zip(
                    column_names(term), describe_term(term, plan.facts.lattice), strict=True
                )
            ],
        )
        for term in plan.terms
    ]


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
