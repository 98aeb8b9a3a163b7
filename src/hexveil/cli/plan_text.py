"""Expected errors, ranges and warnings of a plan of any kind, as rows of text."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.accounting.error_model import CellMechanismErrorModel
from hexveil.cli.formatting import compared_errors, measured, price
from hexveil.cli.price_text import month_row
from hexveil.report.manifest_view import noun, unit_of_statistic

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hexveil.cli.formatting import Row
    from hexveil.planning.comparison import ComparisonRow
    from hexveil.planning.distribution_component import DistributionComponent
    from hexveil.planning.moment_component import MomentComponent
    from hexveil.planning.plan import Plan

FORMS = {
    "indicator": "the average of zeros and ones",
    "ranks": "the mean rank of a cell's records among the quantiles and thresholds asked for",
    "bins": "a few bins of every cell",
}
"""How a distribution is measured, by estimator."""
BOUNDED = {"loss": "privacy cost", "max error": "largest error", "mean error": "average error"}
"""What a lower bound is of."""


def map_rows(plan: Plan, *, warning: str | None = None) -> list[Row]:
    """Return rows about the expected accuracy of the map, and why the grid is too fine, if so."""
    if plan.is_single:
        rows = _SINGLE[plan.single.kind](plan.single)
    else:
        rows = [] if plan.is_declared else [_statistics_row(plan)]
        for name, component in plan.components.items():
            rows += _COLUMN[component.kind](component, f"{name}: ")
    return [*rows, ("Warning", warning)]


# ---- quantiles, shares and histograms; several value columns ----


def _statistics_row(plan: Plan | DistributionComponent) -> Row:
    return ("Statistics", f"{', '.join(map(noun, plan.statistics))}.")


def _distribution_rows(plan: DistributionComponent) -> list[Row]:
    """Return rows about the statistics, how they are measured, and the expected errors."""
    unit = plan.facts.value_unit
    return [
        _statistics_row(plan),
        ("Measured by", f"{FORMS[plan.estimator]}."),
        ("Expected error", f"on average {_average_errors(plan, unit)}."),
        ("Beside one number", compared_errors(plan.statistic_errors, unit)),
    ]


def _column_rows(plan: Any, about: str) -> list[Row]:  # noqa: ANN401  of public occupancy
    """Return a row about the expected errors of one of several value columns."""
    return [("Expected error", f"{about}{_average_errors(plan, plan.facts.value_unit)}.")]


def _average_errors(plan: MomentComponent | DistributionComponent, value_unit: str) -> str:
    """Return the expected errors of one value column, on average over cells.

    With target errors also the largest of a cell, which is what they limit.
    """
    errors, largest = dict(plan.average_errors), plan.largest_errors
    share = errors.pop("share", None)
    texts = []
    for name, error in errors.items():
        unit = unit_of_statistic(name, value_unit)
        text = f"the {name} {measured(error, unit)}"
        if name in largest:
            text += f" on average, {measured(largest[name], unit)} in the worst cell"
        texts.append(text)
    texts += [] if share is None else [f"a share of records {share:.2g}, by a stated prior"]
    return "; ".join(texts)


def estimator_rows(measurements: Sequence[ComparisonRow], unit: str) -> list[Row]:
    """Return a row for each way to measure the distribution, at the same price."""
    rows: list[Row] = []
    for measurement in measurements:
        errors = [
            f"the {name} {measured(error, unit_of_statistic(name, unit))}"
            for name, error in measurement.figures.items()
            if name not in {"epsilon", "share"}
        ]
        errors.append(f"a share {measurement.figures['share']:.2g}")
        mark = " (chosen)" if measurement.is_planned else ""
        text = f"{FORMS[measurement.name]}{mark}: {', '.join(errors)} on average."
        rows.append(("Or" if rows else "Measured", text))
    return rows


# ---- private presence: on paper, from declarations ----


def _paper_rows(plan: Any, about: str) -> list[Row]:  # noqa: ANN401  of declared facts
    """Return the expected accuracy of one value column: of averages or distributions, of counts."""
    of_map, counts = plan.prediction.map, plan.prediction.counts
    rows: list[Row] = []
    if of_map is not None:
        measure = f" {plan.facts.value_unit}" if plan.facts.value_unit else ""
        has_shares = of_map.share_error is not None
        statistic = "medians" if has_shares else "averages"
        shares = ""
        if has_shares:
            shares = f"shares by {100 * of_map.share_error:.2g} percentage points; "
        text = (
            f"{about}{statistic} of open cells are expected to be off by {of_map.error:.2g}"
            f"{measure} ({of_map.error_low:.2g} to {of_map.error_high:.2g}, by how values spread; "
            f"one number for all cells: {of_map.baseline_error:.2g}{measure}); {shares}weights by "
            f"{of_map.weight_error:.2g}, where typically {of_map.typical_weight:.3g} are; "
            f"{of_map.open_cells:,.0f} cells are expected to be open, with "
            f"{of_map.open_traffic:.0%} of the traffic."
        )
        compared = compared_errors(plan.statistic_errors, plan.facts.value_unit)
        rows += [
            ("On paper", text),
            ("Beside one number", about + compared if has_shares else None),
        ]
    if counts is not None:
        text = (
            f"{about}the number of {plan.facts.privacy_unit}s in a cell is expected to be off by "
            f"{counts.count_error:.3g}, where typically {counts.typical_count:.3g} are"
        )
        if of_map is not None:
            loss = "the square of mu" if plan.delta else "epsilon"
            text += f"; for it {float(plan.request.count_share):.1%} of {loss} is spent"
        rows.append(("On paper", f"{text}."))
    return rows


# ---- means and variances ----

_PROPORTION = (
    "The expected error is a prediction from counts and a stated prior, not a bound. It takes "
    "users' averages to differ by an eighth of the span, and is in proportion to that: half as "
    "large for a sixteenth, twice for a quarter."
)
"""By how much the expected error depends on where values lie: measured ratios are within it."""


def _moment_rows(plan: MomentComponent) -> list[Row]:
    """Return rows about the expected error, and how it comes about."""
    facts = plan.facts
    assert facts is not None  # noqa: S101  plans are made for records here
    unit = facts.value_unit
    floor = f"the noise alone would average at least {measured(plan.support.floor, unit)}"
    words = plan.allocation.clipping.words(
        plan,
        lambda epsilon: _epsilon_share(plan, epsilon),
        lambda amount: _amount_share(plan, amount),
    )
    return [
        ("Expected error", f"{_errors(plan, unit)} (without clipping {floor})."),
        # Price and assumptions of a private clipping range.
        ("Clipping range", f"{words} {_PROPORTION}" if words else None),
        ("Mechanism", _mechanism(plan)),
        _certificate_row(plan),
        ("Useful cells" if plan.occupancy.n_cells > 1 else "Useful", _useful_cells(plan, unit)),
        month_row(plan, facts),
    ]


def _errors(plan: MomentComponent, unit: str) -> str:
    """Return the average and the largest planning error of each statistic."""
    sentences = []
    for name, statistic in plan.error_models.items():
        prefix = f"the {name}: " if len(plan.error_models) > 1 or name != "mean" else ""
        average, largest = (
            measured(float(of(statistic.error)), unit_of_statistic(name, unit))
            for of in (np.mean, np.max)
        )
        is_map = statistic.error.size > 1
        text = f"{average} on average, {largest} in the worst cell"
        sentences.append(prefix + (text if is_map else largest))
    return "; ".join(sentences)


def _amount_share(plan: MomentComponent, amount: Fraction) -> str:
    """Return the share of the loss that an amount of its currency takes."""
    if plan.delta:
        return f"{float(amount / plan.booked_limit):.3g} of the squared μ"
    return _epsilon_share(plan, amount)


def _epsilon_share(plan: MomentComponent, epsilon: Fraction) -> str:
    """Return the epsilon of a step and its share of the total."""
    percent = 100 * float(epsilon / plan.requested_epsilon)
    return f"epsilon {price(float(epsilon))} ({percent:.3g}%)"


def _certificate_row(plan: MomentComponent) -> Row:
    """Return the optimality gap of the plan within its class, if known."""
    gap = plan.with_lower_bound().gap
    if gap is None:
        return ("Optimal", None)
    figure = BOUNDED[str(plan.bound_kind)]
    lower = f"more than {price(100 * gap)}% lower" if gap else "lower"
    article = "an" if figure.startswith("a") else "a"
    text = f"no plan of this class has {article} {figure} that is {lower}."
    return ("Near-optimal" if gap else "Optimal", text)


def _useful_cells(plan: MomentComponent, unit: str) -> str:
    support = plan.support
    assumed = measured(support.baseline_error, unit_of_statistic(plan.primary_statistic.name, unit))
    if support.cells == 1:
        verdict = "the cell is" if support.better else "the cell is not"
        return (
            f"{verdict} expected to beat a number named without records (assumed error {assumed})."
        )
    return (
        f"{support.better:,} of {support.cells:,} are expected to beat a single number for all "
        f"cells (assumed error {assumed})."
    )


def _mechanism(plan: MomentComponent) -> str | None:
    """Return the stages of a mechanism of one cell with their cost, and how sure its errors are."""
    if not plan.allocation.clipping.has_stages:
        return None
    from hexveil.publishing.kinds.value_manifest import privacy_steps  # noqa: PLC0415  for these alone

    step = privacy_steps(plan)[0] if plan.epsilon else {"stages": []}
    stages = ", ".join(
        f"{stage['stage']} at {price(float(Fraction(stage['epsilon'])))}"
        for stage in step["stages"]
    )
    cell_price = price(float(plan.cell_epsilon or 0))
    loss = f", each cell by itself at epsilon {cell_price}" if plan.occupancy.n_cells > 1 else ""
    return (
        f"{plan.mechanism}{loss}.{_selected(plan)} Stages and the most that each costs a user: "
        f"{stages}. The expected error is a prediction, for users whose values are uniform over an "
        f"unknown range within the bounds, not a bound. {_worst_case(plan)}"
    )


def _worst_case(plan: MomentComponent) -> str:
    """Return the worst case of the error, on average over cells, where one is proven."""
    model = plan.error_models["mean"]
    if not isinstance(model, CellMechanismErrorModel) or not model.proven.all():
        return "No bias below the width of the bounds is proven."
    unit = plan.facts.value_unit if plan.facts is not None else ""
    worst = measured(float(model.worst_case_error.mean()), unit)
    return f"Its worst case over all values is {worst} on average over cells."


def _selected(plan: MomentComponent) -> str:
    """Return which mechanisms were selected for the cells, and for how many; nothing if itself."""
    counts = Counter(plan.cell_mechanisms)
    if list(counts) == [plan.mechanism]:
        return ""
    if plan.occupancy.n_cells == 1:
        return f" Selected: {next(iter(counts))}."
    listing = ", ".join(f"{name} in {number:,}" for name, number in counts.most_common())
    return f" Selected, with the number of cells: {listing}."


_SINGLE: dict[str, Callable[[Any], list[Row]]] = {
    "moments": _moment_rows,
    "distributions": _distribution_rows,
    "presence": lambda plan: _paper_rows(plan, ""),
}
"""Rows about a single value column, by the kind of its part."""
_COLUMN: dict[str, Callable[[Any, str], list[Row]]] = {
    "moments": _column_rows,
    "distributions": _column_rows,
    "presence": _paper_rows,
}
"""Rows about one of several."""
