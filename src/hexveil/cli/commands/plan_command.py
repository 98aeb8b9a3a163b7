"""`hexveil plan`: price and expected error of a release, before anything is spent."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from hexveil.accounting.gaussian_composition import square_epsilon
from hexveil.base.errors import InputError
from hexveil.base.rational import decimal_text
from hexveil.cli import shared_steps
from hexveil.cli.options import AsJson  # noqa: TC001  the parser reads annotations
from hexveil.cli.output import (
    clip_user_text,
    column_text,
    distribution_text,
    formatting,
    mechanism_table,
    method_table,
    stage_text,
)
from hexveil.cli.output import error_curve as curves
from hexveil.cli.output import grid_table as tables
from hexveil.cli.presence import declared_plan
from hexveil.config import Run, arguments
from hexveil.mechanisms.released_ranges import FIRST_STAGE_SHARE, RESIDUAL_QUANTILE
from hexveil.model.cells import Cells
from hexveil.model.public_metadata import PublicMetadata
from hexveil.model.statistic_terms import has_distribution
from hexveil.planning.allocation import (
    CellMechanisms,
    PerCellRange,
    PrivateRange,
    TwoStageRange,
    WithinBounds,
)
from hexveil.planning.approximate.delta_advice import describe_delta_gain
from hexveil.planning.columns.column_plan import ColumnPlans
from hexveil.planning.comparison.mechanism_comparison import explain_absence
from hexveil.planning.comparison.method_comparison import Comparison, compare
from hexveil.planning.distribution.distribution_plan import DistributionPlan
from hexveil.planning.distribution.estimator_comparison import compare_estimators
from hexveil.planning.plan import Plan
from hexveil.records.progress import show_progress
from hexveil.report.promise import promise

if TYPE_CHECKING:
    from fractions import Fraction

    from hexveil.model.column_facts import ColumnFacts
    from hexveil.planning import Capacity
    from hexveil.planning.clipping_range.cell_range_plan import CellRangePlan
    from hexveil.planning.clipping_range.private_range import PrivateClippingRange
    from hexveil.planning.clipping_range.two_stage_plan import TwoStagePlan
    from hexveil.publishing.distribution.releasable_plans import ReleasablePlan

    Files = dict[str, list[Path]]

MONTH = 30
_NO_COMPARISON = {"methods": None, "clipping_ranges": None, "mechanisms": None}

Compare = Annotated[
    bool,
    typer.Option(
        "--compare",
        help="Compare all planning methods: their errors at this price, or their prices at these "
        "errors; for means within an epsilon also all mechanisms of one cell.",
    ),
]
Grids = Annotated[
    bool | None,
    typer.Option(
        "--grids/--no-grids",
        help="Print the whole table of other grids and privacy units, or skip it. "
        "\\[default: only the proposed grid]",
    ),
]
Curve = Annotated[
    Path | None,
    typer.Option(
        "--curve",
        resolve_path=True,
        metavar="FILE",
        help="Draw price against error, with this plan marked: a new .png and .svg of this name.",
    ),
]
Save = Annotated[
    Path | None,
    typer.Option(
        "--save",
        resolve_path=True,
        metavar="FOLDER",
        help="Save this plan in a new folder for review (then release --from-plan). For "
        "tomorrow's records keep the goal (the TOML file), not the plan.",
    ),
]


def plan(
    run: Run,
    *,
    compare_methods: Compare = False,
    grids: Grids = None,
    curve: Curve = None,
    save: Save = None,
    as_json: AsJson = False,
) -> None:
    """Show the price and the expected error of a release; nothing is spent."""
    if arguments.is_presence_private(run):
        unused = {"--compare": compare_methods, "--grids": bool(grids)}
        unused |= {"--curve": curve is not None, "--save": save is not None}
        declared_plan.plan_on_paper(run, unused=unused, as_json=as_json)
        return
    shared_steps.check_plan_options(run)
    _refuse_comparison_with_delta(run, compare_methods=compare_methods, grids=bool(grids))
    if curve is not None:
        # Checked before the records are read, which may take minutes.
        curve = shared_steps.to_run_path(curve)
        curves.check(curve)
    several = len(arguments.value_columns_of(run)) > 1
    if several or has_distribution(run.plan.statistics or ()):
        _plan_in_parts(run, compare_methods, grids, curve, save, as_json=as_json)
        return
    facts = shared_steps.read_facts(run)
    plan = shared_steps.plan_run(run, facts)
    assert isinstance(plan, Plan)  # noqa: S101  the other kind was planned above
    files = _write(plan, facts, curve, save)
    comparison = _compare(plan) if compare_methods else None
    # The comparison is long enough without a recommendation.
    wants_grids = grids or (grids is None and comparison is None and not plan.delta)
    table = shared_steps.compare_grids(run, plan, weaker=bool(grids)) if wants_grids else None
    if as_json:
        output = _json(run, plan, facts, comparison, files) | _grids_json(
            table, all_grids=bool(grids)
        )
        typer.echo(json.dumps(output, indent=2))
        return
    typer.echo("\n".join([*price_lines(plan, facts), *explain_missing_range(run, plan)]))
    if comparison is not None:
        method_table.show(comparison.methods, method_table.measure(plan, facts.value_unit))
        method_table.show_ranges(comparison.clipping_ranges)
        _show_mechanisms(plan, comparison, facts.value_unit)
    else:
        coarse, warning = (
            shared_steps.plan_coarser(run, facts),
            shared_steps.describe_infeasibility(plan),
        )
        typer.echo("\n".join(map_lines(plan, facts, coarse, warning)))
    if table is not None and grids:
        typer.echo(f"\nOther grids at epsilon {formatting.number_text(table.epsilon)}:")
        tables.show(table, facts.value_unit)
    elif table is not None:
        typer.echo("\n".join(formatting.wrapped("Grid", formatting.capital(table.sentence))))
    for line in file_lines(run, files):
        typer.echo(line)


def _refuse_comparison_with_delta(run: Run, *, compare_methods: bool, grids: bool) -> None:
    """Refuse options that compare pure plans, before records are read or files written."""
    if run.privacy.delta and (compare_methods or grids):
        raise InputError(
            f"{'--compare' if compare_methods else '--grids'} compares pure plans; leave it out, "
            "or delta."
        )


def _plan_in_parts(
    run: Run, compares: Compare, grids: Grids, curve: Curve, save: Save, *, as_json: bool
) -> None:
    """Print price and expected errors of several value columns, or quantiles and shares."""
    if grids:
        raise InputError(
            "--grids compares grids by the error of the mean of one column; plan it alone with "
            "--grids, or leave it out."
        )
    if len(arguments.value_columns_of(run)) > 1:
        unused = {"--compare": compares, "--curve": curve is not None, "--save": save is not None}
        _plan_columns(run, [name for name, given in unused.items() if given], as_json=as_json)
    else:
        _plan_distribution(run, compares, curve, save, as_json=as_json)


def _plan_columns(run: Run, unused: list[str], *, as_json: bool) -> None:
    """Print price and expected errors of several value columns."""
    if unused:
        raise InputError(f"{unused[0]} has no use with several value columns; leave it out.")
    facts = shared_steps.read_releasable(run).public
    plan = shared_steps.plan_run(run, facts)
    assert isinstance(plan, ColumnPlans)  # noqa: S101  by its columns
    if as_json:
        typer.echo(json.dumps(shared_steps.plan_json(plan), indent=2))
        return
    warning = shared_steps.describe_infeasibility(plan)
    lines = [*price_lines(plan, facts), *column_text.map_lines(plan, warning)]
    typer.echo("\n".join(lines))


def _plan_distribution(
    run: Run, compares: Compare, curve: Curve, save: Save, *, as_json: bool
) -> None:
    """Print price and expected errors of quantiles, shares and histograms."""
    facts = shared_steps.read_facts(run)
    plan = shared_steps.plan_run(run, facts)
    assert isinstance(plan, DistributionPlan)  # noqa: S101  by its statistics
    saved = [] if save is None else [plan.save(shared_steps.to_run_path(save))]
    with show_progress("Drawing the curve"):
        drawn = [] if curve is None else curves.write_shares(plan, curve)
    files: Files = {"saved": saved, "drawn": drawn}
    ways = compare_estimators(plan) if compares else ()
    if as_json:
        output = shared_steps.plan_json(plan) | {"files": _file_names(run, files)}
        output |= {"estimators": [asdict(way) for way in ways]} if compares else {}
        typer.echo(json.dumps(output, indent=2))
        return
    warning = shared_steps.describe_infeasibility(plan)
    lines = [*price_lines(plan, facts), *distribution_text.map_lines(plan, warning)]
    lines += distribution_text.comparison_lines(ways, facts.value_unit)
    typer.echo("\n".join([*lines, *file_lines(run, files)]))


def _file_names(run: Run, files: Files) -> list[str]:
    """Return the written files relative to the caller's folder."""
    return [str(shared_steps.resolve_path(run, one)) for paths in files.values() for one in paths]


def _compare(plan: Plan) -> Comparison:
    with show_progress("Comparing methods and mechanisms"):
        return compare(plan)


def _show_mechanisms(plan: Plan, comparison: Comparison, unit: str) -> None:
    """Print the mechanisms of one cell, or why there are none."""
    if reason := explain_absence(plan):
        typer.echo("\n".join(formatting.wrapped("", reason, indent=0)))
        return
    one_cell_each = int(plan.occupancy.cells_per_user.max()) == 1
    mechanism_table.show(comparison.mechanisms, unit, one_cell_each=one_cell_each)


def _write(plan: Plan, facts: PublicMetadata, curve: Path | None, save: Path | None) -> Files:
    """Write the requested plan and curve, and return their paths."""
    saved = [] if save is None else [plan.save(shared_steps.to_run_path(save))]
    with show_progress("Drawing the curve"):
        drawn = [] if curve is None else curves.write(plan, curve, facts.value_unit)
    return {"saved": saved, "drawn": drawn}


def _json(
    run: Run, plan: Plan, facts: PublicMetadata, comparison: Comparison | None, files: Files
) -> dict[str, Any]:
    """Return the plan and the written files as JSON data."""
    coarse = shared_steps.plan_coarser(run, facts)
    return shared_steps.plan_json(plan) | {
        "unit": facts.privacy_unit,
        "coarser": None if coarse is None else shared_steps.plan_json(coarse),
        "warning": shared_steps.describe_infeasibility(plan),
        **(_comparison_json(comparison) if comparison else _NO_COMPARISON),
        "files": _file_names(run, files),
    }


def _comparison_json(comparison: Comparison) -> dict[str, list[dict[str, Any]]]:
    return {name: [asdict(row) for row in rows] for name, rows in vars(comparison).items()}


def _grids_json(table: Capacity | None, *, all_grids: bool) -> dict[str, Any]:
    """Return the proposal and, if requested, the whole table as JSON data."""
    if table is None:
        return {"proposal": None, "proposed": None, "grids": None}
    proposed = None if table.proposed is None else asdict(table.proposed)
    offers = table.to_arrow().to_pylist() if all_grids else None
    return {"proposal": table.sentence, "proposed": proposed, "grids": offers}


def file_lines(run: Run, files: Files) -> list[str]:
    """Return lines about the written files."""
    paths = {
        name: [str(shared_steps.resolve_path(run, path)) for path in files[name]] for name in files
    }
    lines = []
    for folder in paths["saved"]:
        lines += formatting.wrapped(
            "Saved", f"{folder}; review it, then: hexveil release ... --from-plan {folder}"
        )
    if paths["drawn"]:
        lines += formatting.wrapped("Curve", ", ".join(paths["drawn"]))
    return lines


def price_lines(plan: ReleasablePlan, facts: PublicMetadata | ColumnFacts) -> list[str]:
    """Return lines about the cells, the privacy unit and the price."""
    if isinstance(plan, DistributionPlan):
        return distribution_text.price_lines(plan)
    if isinstance(plan, ColumnPlans):
        return column_text.price_lines(plan)
    assert isinstance(facts, PublicMetadata)  # noqa: S101  of one value column
    records = plan.occupancy.n_records
    cells = formatting.wrapped(
        "Cells",
        f"{plan.support.cells:,}: {formatting.grid_words(facts.cells.grid)}; "
        f"{records:,} records of {plan.support.users:,} {facts.privacy_unit}s.",
    )
    return [
        *cells,
        *(_price_with_noise(plan, facts) if plan.epsilon else _price_of_constants(plan, facts)),
    ]


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
        *stage_text.mechanism_lines(plan),
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


def _interval(plan: Plan) -> list[str]:
    """Return the price and the assumptions of the private clipping range."""
    match plan.allocation.clipping:
        case WithinBounds() | CellMechanisms():
            return []
        case PerCellRange(cell_ranges):
            return _cell_ranges(plan, cell_ranges)
        case PrivateRange(clipping_range):
            second_stage = ""
        case TwoStageRange(clipping_range, stages):
            second_stage = _stages_text(plan, stages)
    low, high = (f"{float(quantile):.0%}" for quantile in clipping_range.quantiles)
    wider = (
        ""
        if clipping_range.widening == 1
        else f" and widened {float(clipping_range.widening):g} times"
    )
    return formatting.wrapped(
        "Clipping range",
        f"users' averages are clipped to their quantiles {low} and {high}, estimated privately at "
        f"{_epsilon_share(plan, clipping_range.epsilon)}{wider}; assumed width: "
        f"{clipping_range.width:.0%} of the span.{_variance_text(plan, clipping_range)}"
        f"{second_stage} The expected error is a prediction from these assumptions, not a "
        "bound.",
    )


def _cell_ranges(plan: Plan, cell_ranges: CellRangePlan) -> list[str]:
    """Return the price of the stages before the cells, and the inputs of each cell's range."""
    low, *_, high = (f"{float(quantile):.0%}" for quantile in cell_ranges.quantiles)
    median = ", the median" if len(cell_ranges.quantiles) > 2 else ""
    spread = (
        f" The spread of users' averages within cells is estimated at "
        f"{_epsilon_share(plan, cell_ranges.spread_epsilon)}."
        if cell_ranges.measures_spread
        else ""
    )
    return formatting.wrapped(
        "Clipping range",
        f"one for each cell. The quantiles {low}{median} and {high} of users' averages are "
        f"estimated privately at {_epsilon_share(plan, cell_ranges.quantile_epsilon)}; they give "
        f"the range, {float(cell_ranges.half_width):g} deviations either way, of a "
        "first noisy look at every cell. "
        "A cell then keeps that range, or is measured anew in a range around what was seen, with "
        f"the {float(1 - cell_ranges.first_share):.0%} of its loss that are left: nobody loses "
        f"more by either.{spread} The expected error is a prediction from counts and a stated "
        "prior, not a bound.",
    )


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


def _stages_text(plan: Plan, stages: TwoStagePlan) -> str:
    """Return sentences about the second stage and its price."""
    in_classes, in_cells = (float(losses.max()) for losses in stages.losses(plan.occupancy.local()))
    size = stages.cluster_noise.size
    classes = f"averages of {size} user clusters" if size > 1 else "the average of all users"
    return (
        f" The {float(RESIDUAL_QUANTILE):.0%} quantile of the distances from users' own averages "
        f"is estimated at {_epsilon_share(plan, stages.epsilon)}. The remaining epsilon is spent "
        f"by the strategy with the lowest predicted error: this range alone; {classes} (at most "
        f"{formatting.price(in_classes)} of a user's loss) and distances from users' own averages "
        f"(at most {formatting.price(in_cells)}); or a first average of each cell "
        f"({float(FIRST_STAGE_SHARE):.0%} of the remainder) and distances from it."
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
