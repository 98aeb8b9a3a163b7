"""Price, errors and ranges of a plan, as lines of text."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from hexveil.accounting.error_model import CellMechanismErrorModel
from hexveil.accounting.gaussian_composition import square_epsilon
from hexveil.base.rational import decimal_text
from hexveil.cli import shared_steps
from hexveil.cli.output import clip_user_text, formatting
from hexveil.model.cells import Cells
from hexveil.model.public_metadata import PublicMetadata
from hexveil.planning.allocation import CellMechanisms, PerCellRange, PrivateRange, WithinBounds
from hexveil.planning.alternatives import describe_delta_gain
from hexveil.planning.cell_mechanisms import names_of_cells
from hexveil.planning.feasibility.advice import describe_repeats
from hexveil.planning.plan import Plan
from hexveil.report.promise_wording import promise

if TYPE_CHECKING:
    from pathlib import Path

    from hexveil.config import Run
    from hexveil.model.column_facts import ColumnFacts
    from hexveil.planning.clipping_range.cell_ranges import CellRangePlan
    from hexveil.planning.clipping_range.private_range import PrivateClippingRange
    from hexveil.planning.columns.column_plan import ColumnPlans
    from hexveil.planning.distribution.distribution_plan import DistributionPlan
    from hexveil.publishing.privacy_models import ReleasablePlan

    Files = dict[str, list[Path]]


MONTH = 30


def price_lines(plan: ReleasablePlan, facts: PublicMetadata | ColumnFacts) -> list[str]:
    """Return lines about the cells, the privacy unit and the price."""
    repeats = describe_repeats(facts)
    lines = [] if repeats is None else formatting.wrapped("Repeats", repeats)
    if not isinstance(plan, Plan):
        return [*lines, *_price_of_parts(plan)]
    assert isinstance(facts, PublicMetadata)  # noqa: S101  of one value column
    records = plan.occupancy.n_records
    cells = formatting.wrapped(
        "Cells",
        f"{plan.support.cells:,}: {formatting.grid_words(facts.cells.grid)}; "
        f"{records:,} records of {plan.support.users:,} {facts.privacy_unit}s.",
    )
    return [
        *cells,
        *lines,
        *(_price_with_noise(plan, facts) if plan.epsilon else _price_of_constants(plan, facts)),
    ]


def _price_of_parts(plan: DistributionPlan | ColumnPlans) -> list[str]:
    """Return lines about the price of quantiles and shares, or of several value columns."""
    from hexveil.cli.output import column_text, distribution_text  # noqa: PLC0415  for these alone
    from hexveil.planning.distribution.distribution_plan import DistributionPlan  # noqa: PLC0415

    if isinstance(plan, DistributionPlan):
        return distribution_text.price_lines(plan)
    return column_text.price_lines(plan)


def _price_of_constants(plan: Plan, facts: PublicMetadata) -> list[str]:
    """Return the price line of a plan of constants, with the reason."""
    if plan.request.target is None:
        epsilon = formatting.number_text(float(plan.requested_epsilon))
        why = f"noise at epsilon {epsilon} would cause a larger error"
    else:
        why = "constants meet the target errors"
    return formatting.wrapped(
        "Price",
        f"0 (epsilon): every cell publishes a constant, because {why}. "
        f"{promise(facts.privacy_unit, plan.epsilon, delta=plan.delta)}",
    )


def _price_with_noise(plan: Plan, facts: PublicMetadata) -> list[str]:
    """Return the price of a plan with noise, and the price under naive accounting."""
    price, claimed = float(plan.epsilon), float(plan.l0_epsilon)
    at = f" at delta {decimal_text(plan.delta)}" if plan.delta else ""
    stated = promise(facts.privacy_unit, plan.epsilon, delta=plan.delta)
    lines = formatting.wrapped(
        "Price",
        f"{formatting.price(price)} (epsilon){at}. {stated} {_median_loss(plan, facts)}",
    )
    if plan.request.clip_user == "printed":
        return [*lines, *clip_user_text.clip_user_lines(plan)]
    # Of one cell there is nothing to count.
    if plan.occupancy.n_cells == 1:
        return lines
    return [
        *lines,
        *formatting.wrapped(
            "Naive accounting",
            f"counting cells would have charged {formatting.price(claimed)} for this noise "
            f"(probability factor {formatting.factor(claimed)}); each user is charged its exact "
            "loss instead.",
        ),
    ]


def _median_loss(plan: Plan, facts: PublicMetadata) -> str:
    """Return a sentence with the median privacy loss of the units."""
    median_loss = formatting.price(float(np.median(plan.losses())))
    return f"Half of the {facts.privacy_unit}s lose at most {median_loss}."


def explain_missing_range(run: Run, plan: ReleasablePlan) -> list[str]:
    """Explain why clipping_range "auto" could not consider a private range."""
    if not isinstance(plan, Plan):
        return []
    needs = plan.request.interval_needs
    if run.plan.clipping_range != "auto" or needs is None:
        return []
    text = f'the bounds, although clipping_range is "auto": a private range needs {needs}.'
    return formatting.wrapped("Clipping range", text)


def map_lines(
    plan: Plan, facts: PublicMetadata, coarse: Plan | None, warning: str | None
) -> list[str]:
    """Return lines about the expected error, a coarser grid and the price of a month."""
    unit = facts.value_unit
    lines = [
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
    ]
    if coarse is not None:
        lines += formatting.wrapped("One step coarser", _coarser(coarse, unit))
    gain = describe_delta_gain(plan)
    if gain is not None:
        lines += formatting.wrapped("With a delta", gain)
    if plan.epsilon:
        lines += formatting.wrapped("A month", _month(plan, facts))
    if warning is not None:
        lines += formatting.wrapped("Warning", warning)
    return lines


def _errors(plan: Plan, unit: str) -> str:
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


def _interval(plan: Plan) -> list[str]:
    """Return the price and the assumptions of the private clipping range."""
    match plan.allocation.clipping:
        case WithinBounds() | CellMechanisms():
            return []
        case PerCellRange(cell_ranges):
            return _cell_ranges(plan, cell_ranges)
        case PrivateRange(clipping_range):
            pass
    low, high = (f"{float(quantile):.0%}" for quantile in clipping_range.quantiles)
    wider = (
        ""
        if clipping_range.widening == 1
        else f" and widened {float(clipping_range.widening):g} times"
    )
    return formatting.wrapped(
        "Clipping range",
        f"users' averages are clipped to their quantiles {low} and {high}, by a histogram released "
        f"at {_epsilon_share(plan, clipping_range.epsilon)}{wider}; assumed width: "
        f"{clipping_range.width:.0%} of the span.{_variance_text(plan, clipping_range)}"
        f" The expected error is a prediction from these assumptions, not a bound. {_PROPORTION}",
    )


def _cell_ranges(plan: Plan, cell_ranges: CellRangePlan) -> list[str]:
    """Return the price of the stages before the cells, and the inputs of each cell's range."""
    spread = (
        f" The spread of users' averages within cells is estimated at "
        f"{_epsilon_share(plan, cell_ranges.spread_epsilon)}."
        if cell_ranges.measures_spread
        else ""
    )
    return formatting.wrapped(
        "Clipping range",
        "one for each cell. A histogram of all users' averages is released at "
        f"{_histogram_share(plan, cell_ranges)}; it gives the range of a first noisy look at every "
        "cell, and shows what ranges cut off. "
        "A cell then keeps that range, or is measured anew in a range around what was seen, with "
        f"the {float(1 - cell_ranges.first_share):.0%} of its loss that are left: nobody loses "
        f"more by either.{spread} The expected error is a prediction from counts and a stated "
        f"prior, not a bound. {_PROPORTION}",
    )


def _histogram_share(plan: Plan, cell_ranges: CellRangePlan) -> str:
    """Return the share of the loss that the histogram takes."""
    if plan.delta:
        return f"{float(cell_ranges.histogram_loss / plan.booked_limit):.3g} of the squared μ"
    return _epsilon_share(plan, cell_ranges.histogram_loss)


def _epsilon_share(plan: Plan, epsilon: Fraction) -> str:
    """Return the epsilon of a step and its share of the total."""
    percent = 100 * float(epsilon / plan.requested_epsilon)
    return f"epsilon {formatting.price(float(epsilon))} ({percent:.3g}%)"


def _variance_text(plan: Plan, clipping_range: PrivateClippingRange) -> str:
    """Return a sentence about variances under a private clipping range."""
    if clipping_range.radius is None:
        return ""
    # The scales of both are the same in every cell but for a factor: their losses have one ratio.
    mean, square = float(plan.mean_noise[0]), float(plan.allocation.variance_noise[0])
    return (
        f" Second moments are clipped at {float(clipping_range.radius):g} half-widths from its "
        f"centre; the mean takes {square / (mean + square):.0%} of a cell's loss."
    )


def _certificate(plan: Plan) -> list[str]:
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


def _useful_cells(plan: Plan, unit: str) -> str:
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


def _coarser(coarse: Plan, unit: str) -> str:
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


def _month(plan: Plan, facts: PublicMetadata) -> str:
    daily = float(plan.epsilon)
    if plan.delta:
        return _month_with_delta(plan)
    month = (
        f"{formatting.price(MONTH * daily)} (probability factor {formatting.factor(MONTH * daily)})"
    )
    issue = "map" if plan.occupancy.n_cells > 1 else "release"
    if facts.privacy_unit == "user":
        return (
            f"if you publish every day, a user present in all {MONTH} {issue}s loses {month}; with "
            'privacy_unit = "user-day" any one day of a user would stay at the price of one '
            f"{issue}."
        )
    period = facts.privacy_unit.removeprefix("user-")
    return (
        f"if you publish every day, any one {period} of a user stays within its price, but a user "
        f"present in {MONTH} {issue}s can lose {month} in total."
    )


def _month_with_delta(plan: Plan) -> str:
    """Return the price of a month of releases under a δ: squares of μ add up."""
    square = MONTH * plan.booked_limit
    month = formatting.price(square_epsilon(square, plan.delta))
    return (
        f"if you publish every day, a user present on all {MONTH} days loses {month} at delta "
        f"{decimal_text(plan.delta)} in total: squares of mu add up, and not epsilons."
    )


def _mechanism_lines(plan: Plan) -> list[str]:
    """Return the stages of a mechanism of one cell with their cost, and how sure its errors are."""
    match plan.allocation.clipping:
        case CellMechanisms(cells=cells):
            from hexveil.publishing.privacy_steps import privacy_steps  # noqa: PLC0415  for these

            step = privacy_steps(plan)[0] if plan.epsilon else {"stages": []}
        case _:
            return []
    stages = ", ".join(
        f"{stage['stage']} at {formatting.price(float(Fraction(stage['epsilon'])))}"
        for stage in step["stages"]
    )
    price = formatting.price(float(cells.cell_epsilon))
    loss = f", each cell by itself at epsilon {price}" if plan.occupancy.n_cells > 1 else ""
    return formatting.wrapped(
        "Mechanism",
        f"{plan.mechanism}{loss}.{_selected(plan)} Stages and the most that each costs a "
        f"user: {stages}. The expected error is a prediction, for users whose values are uniform "
        f"over an unknown range within the bounds, not a bound. {_worst_case(plan)}",
    )


def _worst_case(plan: Plan) -> str:
    """Return the worst case of the error, on average over cells, where one is proven."""
    model = plan.error_models["mean"]
    if not isinstance(model, CellMechanismErrorModel) or not model.proven.all():
        return "No bias below the width of the bounds is proven."
    unit = plan.facts.value_unit if plan.facts is not None else ""
    worst = formatting.measured(float(model.worst_case_error.mean()), unit)
    return f"Its worst case over all values is {worst} on average over cells."


def _selected(plan: Plan) -> str:
    """Return which mechanisms were selected for the cells, and for how many; nothing if itself."""
    counts = Counter(names_of_cells(plan))
    if list(counts) == [plan.mechanism]:
        return ""
    if plan.occupancy.n_cells == 1:
        return f" Selected: {next(iter(counts))}."
    named = ", ".join(f"{name} in {number:,}" for name, number in counts.most_common())
    return f" Selected, with the number of cells: {named}."
