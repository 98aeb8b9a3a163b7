"""The table of a release with quantiles, shares or histograms: a row per cell. Public.

Means and variances have the columns that they have in every release. Each statistic of the
distribution has `s_estimate`, its 95% interval `s_low` to `s_high`, and `s_error`, the expected
absolute error; all of them by a model of cells' shapes.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hexveil.base.errors import InputError
from hexveil.base.rational import decimal_text
from hexveil.model.statistic_terms import Histogram, Quantile, Share
from hexveil.planning.distribution.distribution_plan import MOMENTS
from hexveil.planning.release_allocation import with_outputs
from hexveil.publishing.distribution.distribution_decoding import (
    column_names,
    decode_distribution,
)
from hexveil.publishing.estimates.cut_off import find_cut_off
from hexveil.publishing.estimates.posterior_estimates import estimate_outputs
from hexveil.publishing.estimates.table import build_table, name_cells

if TYPE_CHECKING:
    from hexveil.mechanisms.contract import Outputs
    from hexveil.model.public_metadata import PublicMetadata, ValueLattice
    from hexveil.model.statistic_terms import Term
    from hexveil.planning.distribution.distribution_plan import DistributionPlan
    from hexveil.publishing.distribution.distribution_decoding import CellEstimates

KEYS = ("estimate", "low", "high", "error")
_MEANINGS = {
    "estimate": "{}, estimated by a model of the cell's distribution",
    "low": "lower end of the 95% interval of {}, by that model",
    "high": "upper end of the 95% interval of {}, by that model",
    "error": "expected absolute error of the estimate of {}, by that model",
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


def build_distribution_table(plan: DistributionPlan, outputs: Outputs) -> pa.Table:
    """Return the released table, with descriptions and units in its metadata."""
    table = _moment_table(plan, outputs)
    for term, estimates in _by_term(plan, decode_distribution(plan, outputs)):
        for prefix, subject, one in estimates:
            for key in KEYS:
                metadata = {"description": _MEANINGS[key].format(subject)}
                if isinstance(term, Quantile) and plan.facts.value_unit:
                    metadata["unit"] = plan.facts.value_unit
                field = pa.field(f"{prefix}_{key}", pa.float64(), metadata=metadata)
                table = table.append_column(field, pa.array(getattr(one, key)))
    return table


def _moment_table(plan: DistributionPlan, outputs: Outputs) -> pa.Table:
    """Return the table of means and variances; of cells alone where there are none."""
    if plan.moment_plan is None:
        columns: dict[str, Any] = name_cells(plan.facts) | {
            "users": plan.occupancy.users_per_cell,
            "records": plan.occupancy.records_per_cell,
        }
        table = pa.table(columns)
        fields = [
            field.with_metadata(
                {"description": _PLACES.get(field.name, "public label of the cell")}
            )
            for field in table.schema
        ]
        return table.cast(pa.schema(fields, metadata={"value": plan.facts.value}))
    component = plan.allocation().component(MOMENTS)
    allocation: Any = component.plan
    own = component.outputs(outputs)
    released = with_outputs(plan.moment_plan, allocation, own)
    values = {one.statistic: one.estimate[0] for one in allocation.decode(own)}
    cut_off = find_cut_off(released, allocation.numbers(own))
    posterior = estimate_outputs(released, allocation, own, values)
    if posterior is not None:
        cut_off["mean"] = posterior.cut_off
    return build_table(released, plan.facts, values, {}, cut_off, posterior)


_PLACES = {
    "cell": "name of the cell",
    "hexagon": "H3 index of the hexagon",
    "slot": "local start of the timeslot",
    "slot_end": "local end of the timeslot",
    "starts_at_utc": "first instant of the timeslot",
    "users": "privacy units with records in the cell, exact",
    "records": "records in the cell, exact",
}


def _by_term(
    plan: DistributionPlan, estimates: dict[str, CellEstimates]
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
