"""Text about plans of quantiles, shares and histograms."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hexveil.base.rational import decimal_text
from hexveil.cli.output import formatting
from hexveil.planning.alternatives import describe_delta_gain
from hexveil.planning.distribution.distribution_components import MOMENTS, SCORES, SHAPE
from hexveil.report.manifest_view import noun
from hexveil.report.promise_wording import promise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexveil.planning.alternatives import EstimatorErrors
    from hexveil.planning.distribution.distribution_plan import DistributionPlan

_FORMS = {
    "indicator": "the average of zeros and ones",
    "ranks": "the mean rank of a cell's records among the quantiles and thresholds asked for",
    "bins": "a few bins of every cell",
}
_COMPONENTS = {
    MOMENTS: "means and variances",
    SHAPE: "the distribution over all cells",
    SCORES: "mean scores of every cell",
}


def price_lines(plan: DistributionPlan) -> list[str]:
    """Return lines about the cells, the privacy unit and the price."""
    facts, occupancy = plan.facts, plan.occupancy
    price = formatting.price(float(plan.epsilon))
    median = formatting.price(float(np.median(plan.losses())))
    at = f" at delta {decimal_text(plan.delta)}" if plan.delta else ""
    words = dict(_COMPONENTS)
    if plan.estimator == "bins":
        words[SHAPE] += " and bins of every cell"
    parts = ", ".join(
        f"{words[name]} {formatting.price(loss)}"
        for name, loss in plan.component_epsilons().items()
    )
    return [
        *formatting.wrapped(
            "Cells",
            f"{occupancy.n_cells:,}: {formatting.grid_words(facts.cells.grid)}; "
            f"{occupancy.n_records:,} records of {occupancy.n_users:,} {facts.privacy_unit}s.",
        ),
        *formatting.wrapped(
            "Price",
            f"{price} (epsilon){at}, for all statistics together. "
            f"{promise(facts.privacy_unit, plan.epsilon, delta=plan.delta)} "
            f"Half of the {facts.privacy_unit}s lose at most {median}.",
        ),
        *formatting.wrapped(
            "Parts",
            f"{parts} (epsilon{at}, for the unit whom each costs most"
            f"{'; their squares of mu add up' if plan.delta else ''}).",
        ),
    ]


def map_lines(plan: DistributionPlan, warning: str | None) -> list[str]:
    """Return lines about the statistics, how they are measured, and the expected errors."""
    errors = dict(plan.expected_error)
    share = errors.pop("share")
    unit = plan.facts.value_unit
    parts = [
        f"the {name}: {formatting.measured(error, formatting.unit_of(name, unit))} on average"
        for name, error in errors.items()
    ]
    parts.append(f"a share of records: {share:.2g} on average, by a stated prior")
    compared = formatting.compared_errors(plan.statistic_errors, unit)
    statistics = ", ".join(map(noun, plan.statistics))
    lines = [
        *formatting.wrapped("Statistics", f"{statistics}."),
        *formatting.wrapped("Measured by", f"{_FORMS[plan.estimator]}."),
        *formatting.wrapped("Expected error", f"{'; '.join(parts)}."),
        *formatting.wrapped("Beside one number", compared),
    ]
    gain = describe_delta_gain(plan)
    if gain is not None:
        lines += formatting.wrapped("With a delta", gain)
    return lines if warning is None else lines + formatting.wrapped("Warning", warning)


def comparison_lines(ways: Sequence[EstimatorErrors], unit: str) -> list[str]:
    """Return a line for each way to measure the distribution, at the same price."""
    lines: list[str] = []
    for way in ways:
        errors = [
            f"the {name} {formatting.measured(error, formatting.unit_of(name, unit))}"
            for name, error in way.moment_errors.items()
        ]
        errors.append(f"a share {way.share_error:.2g}")
        chosen = " (chosen)" if way.is_chosen else ""
        text = f"{_FORMS[way.estimator]}{chosen}: {', '.join(errors)} on average."
        lines += formatting.wrapped("Or" if lines else "Measured", text)
    return lines
