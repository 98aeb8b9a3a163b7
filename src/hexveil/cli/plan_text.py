"""Cells, unit, price, expected errors and warnings of a plan of any kind, as rows of text."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.accounting.gaussian_composition import square_epsilon
from hexveil.base.rational import decimal_text
from hexveil.cli.formatting import compared_errors, factor, grid_words, measured, number_text, price
from hexveil.model.declared_grid import ColumnFacts, DeclaredColumns, DeclaredFacts
from hexveil.planning.feasibility.recommendation import describe_repeats
from hexveil.report.manifest_view import noun, unit_of_statistic
from hexveil.report.promise_wording import promise
from hexveil.report.templates import unit_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hexveil.cli.formatting import Row
    from hexveil.model.public_metadata import PublicMetadata
    from hexveil.planning.distribution_component import DistributionComponent
    from hexveil.planning.moment_component import MomentComponent
    from hexveil.planning.plan import Plan

    AnyFacts = PublicMetadata | ColumnFacts | DeclaredFacts | DeclaredColumns


FORMS = {
    "indicator": "the average of zeros and ones",
    "ranks": "the mean rank of a cell's records among the quantiles and thresholds asked for",
    "bins": "a few bins of every cell",
}
"""How a distribution is measured, by estimator."""


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
            f"{about}the number of {unit_name(plan.facts.privacy_unit)}s in a cell is expected to "
            f"be off by {counts.count_error:.3g}, where typically {counts.typical_count:.3g} are"
        )
        if of_map is not None:
            loss = "the square of mu" if plan.delta else "epsilon"
            text += f"; for it {float(plan.request.count_share):.1%} of {loss} is spent"
        rows.append(("On paper", f"{text}."))
    return rows


# ---- means and variances ----

_PROPORTION = (
    "The expected error is a prediction from counts and a stated prior, not a bound. It takes "
    "vehicles' averages to differ by an eighth of the span, and is in proportion to that: half "
    "as large for a sixteenth, twice for a quarter."
)
"""By how much the expected error depends on where values lie: measured ratios are within it."""


def _moment_rows(plan: MomentComponent) -> list[Row]:
    """Return rows about the expected error, and how it comes about."""
    facts = plan.facts
    assert facts is not None  # noqa: S101  plans are made for records here
    unit, support = facts.value_unit, plan.support
    floor = f"the noise alone would average at least {measured(support.floor, unit)}"
    assumed = measured(support.baseline_error, unit_of_statistic(plan.primary_statistic.name, unit))
    useful = (
        f"{support.better:,} of {support.cells:,} have an expected error below {assumed}, the "
        "assumed error of one number for all cells."
    )
    claimed = float(plan.l0_epsilon)
    counting = (
        f"would charge {price(claimed)} for the same noise (probability factor {factor(claimed)}); "
        "each vehicle is charged its exact loss instead."
    )
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
        # Of one cell there is nothing to count.
        ("Counting cells", counting if facts.occupancy.n_cells > 1 and plan.epsilon else None),
        ("Useful cells", useful),
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


def _mechanism(plan: MomentComponent) -> str | None:
    """Return the mechanisms of one cell, the loss of a cell, and the assumption of the errors."""
    if not plan.allocation.clipping.has_stages:
        return None
    counts = Counter(plan.cell_mechanisms)
    selected = ""
    if list(counts) != [plan.mechanism]:
        listing = ", ".join(f"{name} in {number:,}" for name, number in counts.most_common())
        selected = f" Selected, with the number of cells: {listing}."
    cell_price = price(float(plan.cell_epsilon or 0))
    loss = f", each cell by itself at epsilon {cell_price}" if plan.occupancy.n_cells > 1 else ""
    return (
        f"{plan.mechanism}{loss}.{selected} The expected error is a prediction, for vehicles whose "
        "values are uniform over an unknown range within the bounds, not a bound."
    )


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


# ---- cells, unit and price ----

MONTH = 30
_COMPONENTS = {
    "moments": "means and variances",
    "shape": "the distribution over all cells",
    "scores": "mean scores of every cell",
}


def price_rows(plan: Plan, facts: AnyFacts) -> list[Row]:
    """Return rows about the cells, the privacy unit and the price."""
    if isinstance(facts, (DeclaredFacts, DeclaredColumns)):
        return _declared_rows(plan, facts)
    columns = facts.columns if isinstance(facts, ColumnFacts) else {"Cells": facts}
    noun = " cells" if isinstance(facts, ColumnFacts) else ""
    cells: list[Row] = []
    for label, counted in columns.items():
        occupancy, words = counted.occupancy, grid_words(counted.cells.grid)
        text = (
            f"{occupancy.n_cells:,}{noun}: {words}; {occupancy.n_records:,} records of "
            f"{occupancy.n_users:,} {unit_name(counted.privacy_unit)}s."
        )
        cells.append((label, text))
    priced = _noise_rows(plan, facts) if plan.epsilon else [_constant_row(plan, facts)]
    return [*cells, ("Repeats", describe_repeats(facts)), *priced]


def _price_row(plan: Any, unit: str, scope: str, end: str, protect: Any = "values") -> Row:  # noqa: ANN401
    """Return the price with its promise."""
    stated = promise(unit, plan.epsilon, protect=protect, delta=plan.delta)
    return (
        "Privacy cost",
        f"{price(float(plan.epsilon))} (epsilon){_delta_text(plan)}{scope}. {stated}{end}",
    )


def _delta_text(plan: Any) -> str:  # noqa: ANN401
    return f" at delta {decimal_text(plan.delta)}" if plan.delta else ""


def _part_row(plan: Any, losses: Mapping[str, float], end: str = "") -> Row:  # noqa: ANN401
    texts = ", ".join(f"{name} {price(loss)}" for name, loss in losses.items())
    return ("Parts", f"{texts} (epsilon{_delta_text(plan)}{end}).")


def _noise_rows(plan: Any, facts: PublicMetadata | ColumnFacts) -> list[Row]:  # noqa: ANN401
    """Return the price of a plan with noise, and its parts."""
    unit, whose = facts.privacy_unit, unit_name(facts.privacy_unit)
    if isinstance(facts, ColumnFacts):
        whose, scope, losses = f"{facts.n_units:,} {whose}", "value columns", plan.column_epsilons()
    else:
        divided = plan.single.component_epsilons()
        bins = " and bins of every cell" if divided and plan.estimator == "bins" else ""
        losses = {_COMPONENTS[n] + bins * (n == "shape"): loss for n, loss in divided.items()}
        scope = "statistics"
    half = f" Half of the {whose}s lose at most {price(float(np.median(plan.losses())))}."
    if not losses:
        return [_price_row(plan, unit, "", half)]
    end = ", for the unit whom each costs most" + "; their squares of mu add up" * bool(plan.delta)
    rows = [_price_row(plan, unit, f", for all {scope} together", half)]
    return [*rows, _part_row(plan, losses, end)]


def _constant_row(plan: Plan, facts: AnyFacts) -> Row:
    """Return the price of a plan of constants, with the reason."""
    why = "constants meet the target errors"
    if not any(component.targets for component in plan.components.values()):
        why = (
            f"noise at epsilon {number_text(float(plan.epsilon_limit))} would cause a larger error"
        )
    stated = promise(facts.privacy_unit, plan.epsilon, delta=plan.delta)
    return (
        "Privacy cost",
        f"0 (epsilon): every cell publishes a constant, because {why}. {stated}",
    )


def _declared_rows(plan: Any, facts: DeclaredFacts | DeclaredColumns) -> list[Row]:  # noqa: ANN401
    """Return the declared grid and fleet, and the price for any unit, present or not."""
    unit = facts.privacy_unit
    grid = (facts.leading if isinstance(facts, DeclaredColumns) else facts).grid
    together = "" if plan.is_single else " for all value columns together"
    fleets = {name: component.request.fleet for name, component in plan.components.items()}
    if len(set(fleets.values())) == 1:
        fleets = {"": next(iter(fleets.values()))}
    tested = "declared to be in use" if grid.is_in_use else "some may be closed"
    cells = f"{grid.n_cells:,} declared: {grid_words(grid.table.grid)}; {tested}."
    rows: list[Row] = [("Cells", cells)]
    for name, fleet in fleets.items():
        text = (
            f"{name}{name and ': '}{fleet.units:,} {unit_name(unit)}s declared, typically "
            f"{fleet.records_per_unit:,} records and {fleet.cells_per_unit:,} cells each."
        )
        rows.append(("Fleet", text))
    rows.append(_price_row(plan, unit, f"{together}, for any {unit_name(unit)}", "", "presence"))
    return rows if plan.is_single else [*rows, _part_row(plan, plan.column_epsilons())]


def month_row(plan: MomentComponent, facts: PublicMetadata) -> Row:
    """Return the cost of a month of releases, one a day."""
    if not plan.epsilon:
        return ("A month", None)
    epsilon, end = MONTH * float(plan.epsilon), "."
    if plan.delta:
        epsilon = square_epsilon(MONTH * plan.booked_limit, plan.delta)
        end = f"{_delta_text(plan)}: squares of mu add up, and not epsilons."
    period = facts.privacy_unit.removeprefix("user").lstrip("-")
    within = f"any one {period} of a vehicle stays within its cost, but " if period else ""
    text = (
        f"if you publish every day, {within}a vehicle present in {MONTH} releases can lose "
        f"{price(epsilon)} (probability factor {factor(epsilon)}) in total{end}"
    )
    return ("A month", text)
