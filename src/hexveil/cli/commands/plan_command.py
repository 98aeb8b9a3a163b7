"""`hexveil plan`: price and expected error of a release, before anything is spent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from hexveil.cli import shared_steps
from hexveil.cli.output import formatting
from hexveil.cli.output.plan_text import estimator_rows, map_rows
from hexveil.cli.output.price_text import missing_range_row, price_rows
from hexveil.config import Run, arguments
from hexveil.planning.feasibility.recommendation import describe_repeats
from hexveil.records.progress import show_progress

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from hexveil.cli import declarations
    from hexveil.cli.output.formatting import Row
    from hexveil.planning.comparison import Comparison, ComparisonRow
    from hexveil.planning.feasibility.capacity import Capacity
    from hexveil.planning.moment_component import MomentComponent
    from hexveil.planning.plan import Plan

    Files = dict[str, list[Path]]

_NO_COMPARISON = {"methods": None, "clipping_ranges": None, "mechanisms": None}
_METHOD_HEADS = (
    "Price", "Naive", "Worst", "Average", "Median", "Useful", "Lower bound",
)  # fmt: skip
_CERTIFIED = {"loss": "price", "max error": "worst", "mean error": "average"}
_METHODS = (
    "Naive: the price of the same noise if cells are counted. Worst, average, median over cells: "
    "{}. Useful: cells expected to beat a single "
    "number for all. Lower bound: no plan of the joint plan's class goes below it; with the gap to "
    "this plan."
)
_RANGES = (
    "Errors in private ranges are predictions from counts and a stated prior; those in the bounds "
    "are worst cases."
)
_MECHANISMS = (
    "Predicted: mean absolute error{}, on average over cells, if users' values are uniform over an "
    "unknown range within the bounds. Worst case: bias plus expected noise whatever the values "
    'are, proven; "-" where no bound below the width of the bounds is proven. Both read counts and '
    "bounds alone, so a choice by them costs nothing."
)
_GAINS = (
    "Gain: by how much exact accounting raises a cell's loss above an equal share of epsilon. "
    "AKMV, FixedQuantile, Levy and OptimizedQuantile find a range privately, to which every user "
    "of a cell is exposed in full: exact accounting gains nothing for them on many cells."
)
_REPEATS = (
    "Of several records of one user at one time one place counts, with its average; how many that "
    "leaves out is private, and nothing warns of it. Declare it in [read]: "
    'repeats = "keep" if times are coarser than the reports, such as floored to the hour; '
    'else repeats = "drop".'
)


def plan(run: Run, options: declarations.PlanOptions) -> None:
    """Show the price and the expected error of a release; nothing is spent."""
    outputs = {"--compare": options.compare, "--grids": bool(options.grids)}
    outputs |= {"--curve": options.curve is not None, "--save": options.save is not None}
    is_series = options.first_day is not None or options.last_day is not None
    outputs |= {"--days": options.days is not None, "--day-error": options.day_error is not None}
    stated = [name for name, is_given in (outputs | {"--from": is_series}).items() if is_given]
    if options.day_error is not None and run.plan.epsilon is None:
        run = run.with_fields("plan", epsilon="1")  # which the error takes the place of
    shared_steps.check_plan_options(run, stated)
    if options.days is not None or options.day_error is not None:
        from hexveil.cli import day_errors  # noqa: PLC0415  for --days alone

        day_errors.show_errors(run, options.days, options.day_error, as_json=options.as_json)
        return
    if is_series:
        from hexveil.cli import day_series  # noqa: PLC0415  for --from alone

        days = day_series.requested_days(None, options.first_day, options.last_day)
        day_series.show_series(run, days, as_json=options.as_json)
        return
    curve = None if options.curve is None else shared_steps.to_run_path(options.curve)
    if curve is not None:
        from hexveil.cli.output import figures  # noqa: PLC0415  for --curve alone

        # Checked before the records are read, which may take minutes.
        figures.check(curve, arguments.value_columns_of(run))
    if arguments.is_presence_private(run):
        _plan_on_paper(run, curve, as_json=options.as_json)
        return
    facts = shared_steps.read_facts(run)
    plan = shared_steps.plan_run(run, facts)
    saved = [] if options.save is None else [plan.save(shared_steps.to_run_path(options.save))]
    files = {"saved": saved, "drawn": _draw(plan, curve)}
    # Other grids are compared by the error of means and variances.
    show = _show_with_grids if plan.searches_grids else _show_parts
    common = {"repeats": describe_repeats(facts), "files": _file_names(run, files)}
    show(run, plan, options, common)
    if not options.as_json:
        formatting.print_rows(file_rows(run, files))


def _plan_on_paper(run: Run, curve: Path | None, *, as_json: bool) -> None:
    """Print price and prediction of a release that follows from declarations; no record is read."""
    from hexveil.cli.planned_release import plan_release  # noqa: PLC0415  these load more

    planned = plan_release(run, accept_noise=True)
    files: Files = {"saved": [], "drawn": _draw(planned.plan, curve)}
    is_open = run.columns.time is not None and "repeats" not in run.read.explicit_fields()
    repeats = ("Repeats", _REPEATS if is_open else None)
    formatting.show(
        lambda: [*planned.price_rows(), repeats, *file_rows(run, files)],
        lambda: planned.plan_json() | {"files": _file_names(run, files)},
        as_json=as_json,
    )


def _show_with_grids(
    run: Run, plan: Plan, options: declarations.PlanOptions, common: dict[str, Any]
) -> None:
    """Print a plan of means and variances, with other plans or grids beside it."""
    component: MomentComponent = plan.single
    facts = component.facts
    assert facts is not None  # noqa: S101  plans are made for records here
    comparison = _compare(plan) if options.compare else None
    # The comparison is long enough without a recommendation.
    wants_grids = options.grids or (options.grids is None and comparison is None and not plan.delta)
    table = shared_steps.compare_grids(component) if wants_grids else None
    shows_map = options.as_json or comparison is None
    coarse = shared_steps.plan_coarser(run, facts) if shows_map else None
    warning = shared_steps.describe_infeasibility(plan) if shows_map else None
    if options.as_json:
        content = shared_steps.plan_json(plan) | {
            "unit": facts.privacy_unit,
            "coarser": None if coarse is None else shared_steps.plan_json(coarse),
            "warning": warning,
            **(comparison.to_json() if comparison else _NO_COMPARISON),
            **common,
            **_grids_json(table, all_grids=bool(options.grids)),
        }
        formatting.show(list, lambda: content, as_json=True)
        return
    formatting.print_rows([*price_rows(plan, facts), missing_range_row(run, plan)])
    if comparison is None:
        formatting.print_rows(map_rows(plan, coarse=coarse, warning=warning))
    else:
        _show_comparison(component, comparison, facts.value_unit)
    if table is not None and options.grids:
        from hexveil.cli.output import grid_text  # noqa: PLC0415  for the whole table alone

        typer.echo(f"\nOther grids at epsilon {formatting.number_text(table.epsilon)}:")
        grid_text.show_table(table, facts.value_unit)
    elif table is not None:
        formatting.print_rows([("Grid", formatting.capital(table.sentence))])


def _show_parts(
    _: Run, plan: Plan, options: declarations.PlanOptions, common: dict[str, Any]
) -> None:
    """Print a plan of distributions, or of several value columns, with other plans beside it."""
    facts: Any = plan.facts
    compared = {column: _compare(item) for column, item in plan.plans.items() if options.compare}
    if options.as_json:
        content = shared_steps.plan_json(plan) | common
        for column, comparison in compared.items():
            beside = content if plan.is_single else content["columns"][column]
            beside |= comparison.to_json()
        formatting.show(list, lambda: content, as_json=True)
        return
    warning = shared_steps.describe_infeasibility(plan)
    formatting.print_rows([*price_rows(plan, facts), *map_rows(plan, warning=warning)])
    for column, comparison in compared.items():
        if not plan.is_single:
            typer.echo(f"\n{column}, at its own loss or targets:")
        component = plan.components[column]
        _show_comparison(component, comparison, component.facts.value_unit)


def _show_comparison(plan: Any, comparison: Comparison, unit: str) -> None:  # noqa: ANN401  a part
    """Print the ways to answer one request, or why there are none."""
    if comparison.estimators:
        formatting.print_rows(estimator_rows(comparison.estimators, unit))
        return
    show_methods(comparison.methods, _METHODS.format(_measure(plan, unit)))
    if comparison.clipping_ranges:
        show_methods(comparison.clipping_ranges, _RANGES, "Clipping range")
    if comparison.no_mechanisms:
        formatting.print_rows([("", comparison.no_mechanisms)])
        return
    measure = f" in {unit}" if unit else ""
    heads: tuple[str, ...] = ("Mechanism", "Predicted", "Worst case")
    legend = _MECHANISMS.format(measure)
    # Else no unit is in two cells, and every cell's loss is epsilon itself.
    if int(plan.occupancy.cells_per_user.max()) > 1:
        heads, legend = (*heads, "Cell loss", "Gain"), f"{legend} {_GAINS}"
    rows = [
        (row.name, mechanism_figures(row.figures), row.trouble) for row in comparison.mechanisms
    ]
    title = 'Each cell by itself (method "per-cell") by every mechanism:'
    _show_table(title, heads, rows, legend)


def show_methods(lines: Iterable[ComparisonRow], legend: str, head: str = "Method") -> None:
    """Print a line per method, or per clipping range."""
    title = f"This request {'by every method' if head == 'Method' else 'in every clipping range'}:"
    rows = [(line.name, _method_figures(line.figures), line.trouble) for line in lines]
    _show_table(title, (head, *_METHOD_HEADS), rows, legend)


def _show_table(
    title: str, heads: tuple[str, ...], rows: list[tuple[str, list[str], str | None]], legend: str
) -> None:
    """Print a line of figures per name, then which are not possible and why, and the legend."""
    typer.echo(f"\n{title}")
    none = [*["-"] * (len(heads) - 2), "not possible"]
    cells = [
        [name, *(none if trouble else figures)][: len(heads)] for name, figures, trouble in rows
    ]
    formatting.print_table(heads, cells, (heads[0], "Lower bound"))
    troubles = [f"{name} is not possible: {trouble}" for name, _, trouble in rows if trouble]
    formatting.print_rows([("", text) for text in (*troubles, legend)])


def _measure(plan: MomentComponent, unit: str) -> str:
    """Return the unit of measure of the compared errors as text."""
    names = list(plan.error_models)
    if len(names) == 1:
        name = formatting.unit_of(names[0], unit)
        error = f"planning error{' in ' if name else ''}{name}"
        predicted = plan.allocation.clipping.has_stages
        how = f" (for {plan.mechanism} a prediction, for the others a worst case)"
        return error + (how if predicted else "")
    over = "larger" if plan.request.objective == "max" else "average"
    return f"the {over} of both planning errors, each relative to the largest error of a constant"


def _method_figures(figures: Mapping[str, Any]) -> list[str]:
    if not figures:
        return []
    bound = "-"
    if figures["gap"] is not None:
        lower = formatting.at_least(figures["lower_bound"])
        gap = formatting.price(100 * figures["gap"])
        bound = f"{_CERTIFIED[figures['certifies']]} {lower} (gap {gap}%)"
    return [
        *(formatting.price(figures[name]) for name in ("epsilon", "claimed")),
        *(formatting.number_text(figures[name]) for name in ("worst", "average", "median")),
        f"{figures['better']:,}",
        bound,
    ]


def mechanism_figures(figures: Mapping[str, Any]) -> list[str]:
    """Return the errors of a mechanism, the loss of a cell, and the gain of exact accounting."""
    if not figures:
        return []
    errors = (figures["predicted_error"], figures["proven_error"])
    # Rounding must not show a loss where nothing is lost.
    gain = max(round(100 * (figures["gain"] - 1)), 0)
    return [
        *("-" if error is None else formatting.number_text(error) for error in errors),
        formatting.price(figures["cell_epsilon"]),
        f"{gain}%",
    ]


def _compare(plan: Plan) -> Comparison:
    # For --compare alone:
    from hexveil.planning.comparison import COMPARING, compare  # noqa: PLC0415

    with show_progress(COMPARING):
        return compare(plan)


def _draw(plan: Plan, curve: Path | None) -> list[Path]:
    """Draw the requested curve, and return its files."""
    if curve is None:
        return []
    from hexveil.cli.output import figures  # noqa: PLC0415  for --curve alone

    with show_progress(figures.DRAWING):
        return figures.write(plan, curve)


def _file_names(run: Run, files: Files) -> list[str]:
    return [str(shared_steps.resolve_path(run, item)) for paths in files.values() for item in paths]


def file_rows(run: Run, files: Files) -> list[Row]:
    """Return rows about the written files."""
    saved, drawn = (_file_names(run, {name: files[name]}) for name in ("saved", "drawn"))
    text = "{0}; review it, then: hexveil release ... --from-plan {0}"
    return [*(("Saved", text.format(folder)) for folder in saved), ("Curve", ", ".join(drawn))]


def _grids_json(table: Capacity | None, *, all_grids: bool) -> dict[str, Any]:
    """Return the proposal and, if requested, the whole table as JSON data."""
    if table is None:
        return {"proposal": None, "proposed": None, "grids": None}
    offers = table.to_arrow().to_pylist()
    proposed = next((dict(offer) for offer in offers if offer["proposed"]), None)
    for name in ("proposed", "kilometres"):  # of the table alone
        (proposed or {}).pop(name, None)
    return {
        "proposal": table.sentence,
        "proposed": proposed,
        "grids": offers if all_grids else None,
    }
