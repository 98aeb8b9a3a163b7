"""Expected errors, ranges and warnings of a plan of any kind, as lines of text."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.accounting.error_model import CellMechanismErrorModel
from hexveil.cli import shared_steps
from hexveil.cli.output import formatting, price_text
from hexveil.model.cells import Cells
from hexveil.planning.alternatives import EstimatorErrors, describe_delta_gain
from hexveil.report.manifest_view import noun

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hexveil.planning.distribution.distribution_plan import DistributionPart
    from hexveil.planning.moment_part import MomentPart
    from hexveil.planning.plan import Plan

FORMS = {
    "indicator": "the average of zeros and ones",
    "ranks": "the mean rank of a cell's records among the quantiles and thresholds asked for",
    "bins": "a few bins of every cell",
}
"""How a distribution is measured, by estimator."""


def map_lines(plan: Plan, *, coarse: Plan | None = None, warning: str | None = None) -> list[str]:
    """Return lines about the expected accuracy of the map, and a warning.

    Parameters
    ----------
    plan : Plan
    coarse : Plan, optional
        Of the next coarser grid, to be compared with.
    warning : str, optional
        Why the grid is too fine.
    """
    if plan.is_single:
        lines = _SINGLE[plan.single.kind](plan.single, coarse)
    else:
        lines = [] if plan.is_declared else _statistics_line(plan)
        for name, component in plan.components.items():
            lines += _COLUMN[component.kind](component, f"{name}: ")
    return [*lines, *([] if warning is None else formatting.wrapped("Warning", warning))]


def _gain_lines(gain: str | None) -> list[str]:
    """Return a line about the gain by a δ."""
    return [] if gain is None else formatting.wrapped("With a delta", gain)


def _statistics_line(plan: Plan | DistributionPart) -> list[str]:
    return formatting.wrapped("Statistics", f"{', '.join(map(noun, plan.statistics))}.")


# ---- quantiles, shares and histograms; several value columns ----


def _distribution_lines(plan: DistributionPart, _: Plan | None) -> list[str]:
    """Return lines about the statistics, how they are measured, and the expected errors."""
    return [
        *_statistics_line(plan),
        *formatting.wrapped("Measured by", f"{FORMS[plan.estimator]}."),
        *formatting.wrapped(
            "Expected error", f"on average {_average_errors(plan, plan.facts.value_unit)}."
        ),
        *formatting.wrapped(
            "Beside one number",
            formatting.compared_errors(plan.statistic_errors, plan.facts.value_unit),
        ),
        *_gain_lines(describe_delta_gain(plan)),
    ]


def _column_lines(plan: Any, about: str) -> list[str]:  # noqa: ANN401  of public occupancy
    """Return a line about the expected errors of one of several value columns."""
    errors = _average_errors(plan, plan.facts.value_unit)
    return formatting.wrapped("Expected error", f"{about}{errors}.")


def _average_errors(plan: MomentPart | DistributionPart, value_unit: str) -> str:
    """Return the expected errors of one value column, on average over cells.

    With target errors also the largest of a cell, which is what they limit.
    """
    errors, largest = dict(plan.average_errors), plan.largest_errors
    share = errors.pop("share", None)
    texts = []
    for name, error in errors.items():
        unit = formatting.unit_of(name, value_unit)
        text = f"the {name} {formatting.measured(error, unit)}"
        if name in largest:
            text += f" on average, {formatting.measured(largest[name], unit)} in the worst cell"
        texts.append(text)
    texts += [] if share is None else [f"a share of records {share:.2g}, by a stated prior"]
    return "; ".join(texts)


def estimator_lines(ways: Sequence[EstimatorErrors], unit: str) -> list[str]:
    """Return a line for each way to measure the distribution, at the same price."""
    lines: list[str] = []
    for way in ways:
        errors = [
            f"the {name} {formatting.measured(error, formatting.unit_of(name, unit))}"
            for name, error in way.moment_errors.items()
        ]
        errors.append(f"a share {way.share_error:.2g}")
        chosen = " (chosen)" if way.is_chosen else ""
        text = f"{FORMS[way.estimator]}{chosen}: {', '.join(errors)} on average."
        lines += formatting.wrapped("Or" if lines else "Measured", text)
    return lines


# ---- private presence: on paper, from declarations ----


def count_text(counts: Any) -> str:  # noqa: ANN401  a prediction
    """Return the expected accuracy of numbers of units."""
    return (
        f"numbers of units off by {counts.count_error:.3g} of typically {counts.typical_count:.3g}"
    )


def _paper_lines(plan: Any, about: str = "") -> list[str]:  # noqa: ANN401  of declared facts
    """Return the expected accuracy of one value column."""
    of_map, counts = plan.prediction.map, plan.prediction.counts
    lines = [] if of_map is None else _paper_map_lines(plan, of_map, about)
    if counts is None:
        return lines
    text = (
        f"the number of {plan.facts.privacy_unit}s in a cell is expected to be off by "
        f"{counts.count_error:.3g}, where typically {counts.typical_count:.3g} are"
    )
    if of_map is not None:
        loss = "the square of mu" if plan.delta else "epsilon"
        text += f"; for it {float(plan.request.count_share):.1%} of {loss} is spent"
    return [*lines, *formatting.wrapped("On paper", f"{about}{text}.")]


def _paper_map_lines(plan: Any, of_map: Any, about: str) -> list[str]:  # noqa: ANN401
    """Return the expected accuracy of averages or distributions."""
    measure = f" {plan.facts.value_unit}" if plan.facts.value_unit else ""
    statistic, shares = "averages", ""
    if of_map.share_error is not None:
        statistic = "medians"
        shares = f"shares by {100 * of_map.share_error:.2g} percentage points; "
    lines = formatting.wrapped(
        "On paper",
        f"{about}{statistic} of open cells are expected to be off by {of_map.error:.2g}{measure} "
        f"({of_map.error_low:.2g} to {of_map.error_high:.2g}, by how values spread; one number "
        f"for all cells: {of_map.baseline_error:.2g}{measure}); {shares}weights by "
        f"{of_map.weight_error:.2g}, where typically {of_map.typical_weight:.3g} are; "
        f"{of_map.open_cells:,.0f} cells are expected to be open, with "
        f"{of_map.open_traffic:.0%} of the traffic.",
    )
    if of_map.share_error is not None:
        compared = formatting.compared_errors(plan.statistic_errors, plan.facts.value_unit)
        lines += formatting.wrapped("Beside one number", about + compared)
    return lines


# ---- means and variances ----


def _moment_lines(plan: MomentPart, coarse: Plan | None) -> list[str]:
    """Return lines about the expected error, how it comes about, and a coarser grid."""
    facts = plan.facts
    assert facts is not None  # noqa: S101  plans are made for records here
    unit = facts.value_unit
    return [
        *formatting.wrapped(
            "Expected error",
            f"{_errors(plan, unit)} (without clipping the noise alone would average at least "
            f"{formatting.measured(plan.support.floor, unit)}).",
        ),
        *_interval(plan),
        *_mechanism_lines(plan),
        *_certificate(plan),
        *formatting.wrapped(
            "Useful cells" if plan.occupancy.n_cells > 1 else "Useful", _useful_cells(plan, unit)
        ),
        *(
            []
            if coarse is None
            else formatting.wrapped("One step coarser", _coarser(coarse.single, unit))
        ),
        *_gain_lines(describe_delta_gain(plan)),
        *(price_text.month_lines(plan, facts) if plan.epsilon else []),
    ]


def _errors(plan: MomentPart, unit: str) -> str:
    """Return the average and the largest planning error of each statistic."""
    sentences = []
    for name, statistic in plan.error_models.items():
        measure, error = formatting.unit_of(name, unit), statistic.error
        prefix = f"the {name}: " if len(plan.error_models) > 1 or name != "mean" else ""
        average, largest = (
            formatting.measured(float(of(error)), measure) for of in (np.mean, np.max)
        )
        is_map = error.size > 1
        sentences.append(
            f"{prefix}{average} on average, {largest} in the worst cell"
            if is_map
            else f"{prefix}{largest}"
        )
    return "; ".join(sentences)


_PROPORTION = (
    "It takes users' averages to differ by an eighth of the span, and is in proportion to that: "
    "half as large for a sixteenth, twice for a quarter."
)
"""By how much the expected error depends on where values lie: measured ratios are within it."""


def _interval(plan: MomentPart) -> list[str]:
    """Return the price and the assumptions of the private clipping range."""
    sentences = plan.allocation.clipping.words(
        plan,
        lambda epsilon: _epsilon_share(plan, epsilon),
        lambda amount: _amount_share(plan, amount),
    )
    if not sentences:
        return []
    return formatting.wrapped(
        "Clipping range",
        f"{sentences} The expected error is a prediction from counts and a stated prior, not a "
        f"bound. {_PROPORTION}",
    )


def _amount_share(plan: MomentPart, amount: Fraction) -> str:
    """Return the share of the loss that an amount of its currency takes."""
    if plan.delta:
        return f"{float(amount / plan.booked_limit):.3g} of the squared μ"
    return _epsilon_share(plan, amount)


def _epsilon_share(plan: MomentPart, epsilon: Fraction) -> str:
    """Return the epsilon of a step and its share of the total."""
    percent = 100 * float(epsilon / plan.requested_epsilon)
    return f"epsilon {formatting.price(float(epsilon))} ({percent:.3g}%)"


def _certificate(plan: MomentPart) -> list[str]:
    """Return the optimality gap of the plan within its class, if known."""
    gap = shared_steps.certified(plan).gap
    if gap is None:
        return []
    figure_names = {"loss": "price", "max error": "largest error", "mean error": "average error"}
    figure = figure_names[str(plan.bound_kind)]
    lower = f"more than {formatting.price(100 * gap)}% lower" if gap else "lower"
    article = "an" if figure.startswith("a") else "a"
    text = f"no plan of this class has {article} {figure} that is {lower}."
    return formatting.wrapped("Near-optimal" if gap else "Optimal", text)


def _useful_cells(plan: MomentPart, unit: str) -> str:
    support, measure = plan.support, formatting.unit_of(plan.primary_statistic.name, unit)
    if support.cells == 1:
        verdict = "the cell is" if support.better else "the cell is not"
        assumed = formatting.measured(support.baseline_error, measure)
        return (
            f"{verdict} expected to beat a number named without records (assumed error {assumed})."
        )
    return (
        f"{support.better:,} of {support.cells:,} are expected to beat a single number for all "
        f"cells (assumed error {formatting.measured(support.baseline_error, measure)})."
    )


def _coarser(coarse: MomentPart, unit: str) -> str:
    facts = coarse.facts
    grid = facts.cells.grid if facts is not None else None
    name = f"resolution {grid.resolution}: " if isinstance(grid, Cells) else ""
    support = coarse.support
    priced = (
        f" at a price of {formatting.price(float(coarse.epsilon))}" if coarse.request.target else ""
    )
    error = formatting.measured(
        support.mean_error, formatting.unit_of(coarse.primary_statistic.name, unit)
    )
    return (
        f"{name}{support.cells:,} cells{priced}, expected error {error} on average, "
        f"{support.better:,} useful cells."
    )


def _mechanism_lines(plan: MomentPart) -> list[str]:
    """Return the stages of a mechanism of one cell with their cost, and how sure its errors are."""
    if not plan.allocation.clipping.has_stages:
        return []
    from hexveil.publishing.privacy_steps import privacy_steps  # noqa: PLC0415  for these alone

    step = privacy_steps(plan)[0] if plan.epsilon else {"stages": []}
    stages = ", ".join(
        f"{stage['stage']} at {formatting.price(float(Fraction(stage['epsilon'])))}"
        for stage in step["stages"]
    )
    price = formatting.price(float(plan.cell_epsilon or 0))
    loss = f", each cell by itself at epsilon {price}" if plan.occupancy.n_cells > 1 else ""
    return formatting.wrapped(
        "Mechanism",
        f"{plan.mechanism}{loss}.{_selected(plan)} Stages and the most that each costs a "
        f"user: {stages}. The expected error is a prediction, for users whose values are uniform "
        f"over an unknown range within the bounds, not a bound. {_worst_case(plan)}",
    )


def _worst_case(plan: MomentPart) -> str:
    """Return the worst case of the error, on average over cells, where one is proven."""
    model = plan.error_models["mean"]
    if not isinstance(model, CellMechanismErrorModel) or not model.proven.all():
        return "No bias below the width of the bounds is proven."
    unit = plan.facts.value_unit if plan.facts is not None else ""
    worst = formatting.measured(float(model.worst_case_error.mean()), unit)
    return f"Its worst case over all values is {worst} on average over cells."


def _selected(plan: MomentPart) -> str:
    """Return which mechanisms were selected for the cells, and for how many; nothing if itself."""
    counts = Counter(plan.cell_mechanisms)
    if list(counts) == [plan.mechanism]:
        return ""
    if plan.occupancy.n_cells == 1:
        return f" Selected: {next(iter(counts))}."
    named = ", ".join(f"{name} in {number:,}" for name, number in counts.most_common())
    return f" Selected, with the number of cells: {named}."


def _paper_lines_alone(plan: Any, _: Plan | None) -> list[str]:  # noqa: ANN401  as above
    gain = plan.delta_gain
    return [*_paper_lines(plan), *_gain_lines(None if gain is None else gain.sentence)]


_SINGLE: dict[str, Callable[[Any, Plan | None], list[str]]] = {
    "moments": _moment_lines,
    "distributions": _distribution_lines,
    "presence": _paper_lines_alone,
}
"""Lines about a single value column, by the kind of its part."""
_COLUMN: dict[str, Callable[[Any, str], list[str]]] = {
    "moments": _column_lines,
    "distributions": _column_lines,
    "presence": _paper_lines,
}
"""Lines about one of several."""
