"""Text about plans of several value columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hexveil.cli.output import formatting
from hexveil.planning.distribution.distribution_plan import DistributionPlan
from hexveil.report.manifest_view import noun
from hexveil.report.promise_wording import promise

if TYPE_CHECKING:
    from hexveil.planning.columns.column_plan import ColumnPlans, SingleColumnPlan


def price_lines(plan: ColumnPlans) -> list[str]:
    """Return lines about the cells of each value column, the privacy unit and the price."""
    facts, unit = plan.facts, plan.facts.privacy_unit
    lines = []
    for column, own in facts.columns.items():
        occupancy = own.occupancy
        lines += formatting.wrapped(
            column,
            f"{occupancy.n_cells:,} cells: {formatting.grid_words(own.cells.grid)}; "
            f"{occupancy.n_records:,} records of {occupancy.n_users:,} {unit}s.",
        )
    median = formatting.price(float(np.median(plan.losses())))
    parts = ", ".join(
        f"{column} {formatting.price(loss)}" for column, loss in plan.column_epsilons().items()
    )
    if plan.requested_epsilon is None:
        lines += formatting.wrapped(
            "Targets", "each value column costs the least that meets its own target errors."
        )
    return [
        *lines,
        *formatting.wrapped(
            "Price",
            f"{formatting.price(float(plan.epsilon))} (epsilon), for all value columns together. "
            f"{promise(unit, plan.epsilon, delta=plan.delta)} Half of the {facts.n_units:,} "
            f"{unit}s lose at most {median}.",
        ),
        *formatting.wrapped("Parts", f"{parts} (epsilon, for the unit whom each costs most)."),
    ]


def map_lines(plan: ColumnPlans, warning: str | None) -> list[str]:
    """Return lines about the statistics and the expected errors of each value column."""
    lines = formatting.wrapped("Statistics", f"{', '.join(map(noun, plan.statistics))}.")
    for column, own in plan.plans.items():
        unit = plan.facts.columns[column].value_unit
        lines += formatting.wrapped("Expected error", f"{column}: {_errors(own, unit)}.")
    return lines if warning is None else lines + formatting.wrapped("Warning", warning)


def _errors(plan: SingleColumnPlan, value_unit: str) -> str:
    """Return the expected errors of one value column, on average over cells.

    With target errors also the largest of a cell, which is what they limit.
    """
    largest: dict[str, float] = {}
    if isinstance(plan, DistributionPlan):
        errors = dict(plan.expected_error)
        share = errors.pop("share")
    else:
        models = plan.error_models
        errors, share = {name: float(np.mean(one.error)) for name, one in models.items()}, None
        if plan.request.target is not None:
            largest = {name: float(np.max(one.error)) for name, one in models.items()}
    parts = []
    for name, error in errors.items():
        unit = formatting.unit_of(name, value_unit)
        text = f"the {name} {formatting.measured(error, unit)}"
        if name in largest:
            text += f" on average, {formatting.measured(largest[name], unit)} in the worst cell"
        parts.append(text)
    parts += [] if share is None else [f"a share of records {share:.2g}, by a stated prior"]
    return "; ".join(parts)
