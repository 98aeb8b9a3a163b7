"""`hexveil plan`: privacy cost and expected error of a release, before anything is spent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from hexveil.base.errors import InputError
from hexveil.base.work_share import PLANNING, SEARCH
from hexveil.cli import formatting, shared_steps
from hexveil.cli.formatting import at_least, number_text, price
from hexveil.cli.plan_text import map_rows, price_rows
from hexveil.config import Run, arguments
from hexveil.model.declared_grid import DeclaredFacts
from hexveil.model.statistic_terms import Quantile, term_of
from hexveil.planning.feasibility.recommendation import describe_repeats
from hexveil.planning.plan_arguments import PlanArguments
from hexveil.records.progress import show_progress
from hexveil.report.manifest_view import noun, unit_of_statistic
from hexveil.report.templates import unit_name

if TYPE_CHECKING:
    from pathlib import Path

    from hexveil.cli import declarations
    from hexveil.cli.formatting import Row
    from hexveil.planning.comparison import ComparisonRow
    from hexveil.planning.plan import Plan
    from hexveil.publishing.memory.planned_days import ExpectedErrors

_MOST_DAYS = 366
_SHOWN_DAYS = (1, 2, 3, 7, 14, 21, 30, 60, 90, 180, 366)
_HEADS = {"epsilon": "Cost", "claimed": "Naive", "better": "Useful", "lower_bound": "Lower bound"}
_FORMS = {"epsilon": price, "claimed": price, "lower_bound": at_least}
"""How a figure is rounded, where a direction is safe."""
_LEGEND = (
    "Naive: the privacy cost of the same noise if cells are counted. Worst, average, median: "
    "planning errors over cells; of several statistics as a part of that of a constant. Useful: "
    "cells expected to beat a single number for all. Lower bound, gap: no plan of the joint plan's "
    "class goes below it."
)
_REPEATS = (
    "Of several records of one vehicle at one time one place counts, with its average; how many "
    "that leaves out is private, and nothing warns of it. Declare it in [read]: "
    'repeats = "keep" if times are coarser than the reports, such as floored to the hour; '
    'else repeats = "drop".'
)


def plan(run: Run, options: declarations.PlanOptions) -> None:
    """Show the privacy cost and the expected error of a release; nothing is spent."""
    outputs = {"--compare": options.compare, "--save": options.save is not None}
    outputs |= {"--days": options.days is not None, "--day-error": options.day_error is not None}
    if options.day_error is not None and run.plan.epsilon is None:
        run = run.with_fields("plan", epsilon="1")  # which the error takes the place of
    shared_steps.check_plan_options(run, [name for name, is_given in outputs.items() if is_given])
    if options.days is not None or options.day_error is not None:
        _show_days(run, options.days, options.day_error, as_json=options.as_json)
        return
    if arguments.is_presence_private(run):
        _plan_on_paper(run, as_json=options.as_json)
        return
    facts = shared_steps.read_facts(run)
    plan = shared_steps.plan_run(run, facts)
    saved = None if options.save is None else _saved(run, plan, options.save)
    compared = {column: _compare(item) for column, item in plan.plans.items() if options.compare}
    warning = shared_steps.describe_infeasibility(plan)
    if options.as_json:
        content = plan.to_json() | {
            "unit": facts.privacy_unit,
            "warning": warning,
            "repeats": describe_repeats(facts),
            "files": [] if saved is None else [saved],
        }
        for column, comparison in compared.items():
            beside = content if plan.is_single else content["columns"][column]
            beside["methods"] = [row.to_json() for row in comparison]
        formatting.show(list, lambda: content, as_json=True)
        return
    formatting.print_rows([*price_rows(plan, facts), *map_rows(plan, warning=warning)])
    for column, comparison in compared.items():
        if not plan.is_single:
            click.echo(f"\n{column}, at its own loss or targets:")
        show_methods(comparison)
    review = saved and f"{saved}; review it, then: hexveil release ... --from-plan {saved}"
    formatting.print_rows([("Saved", review)])


def _saved(run: Run, plan: Plan, folder: Path) -> str:
    """Save the plan, and return the name of its folder."""
    return str(shared_steps.resolve_path(run, plan.save(shared_steps.to_run_path(folder))))


def _plan_on_paper(run: Run, *, as_json: bool) -> None:
    """Print cost and prediction of a release that follows from declarations; no record is read."""
    from hexveil.cli.planned_release import plan_release  # noqa: PLC0415  these load more

    planned = plan_release(run, accept_noise=True)
    is_open = run.columns.time is not None and "repeats" not in run.read.explicit_fields()
    repeats = ("Repeats", _REPEATS if is_open else None)
    formatting.show(lambda: [*planned.price_rows(), repeats], planned.plan_json, as_json=as_json)


def _compare(plan: Plan) -> list[ComparisonRow]:
    # For --compare alone:
    from hexveil.planning.comparison import COMPARING, compare  # noqa: PLC0415

    with show_progress(COMPARING):
        return compare(plan)


def show_methods(rows: list[ComparisonRow]) -> None:
    """Print a line for each method, and why some are not possible."""
    names = dict.fromkeys(name for row in rows for name in row.figures if name != "certifies")
    heads = ["Method", *(_HEADS.get(name, name.capitalize()) for name in names)]
    cells = [
        [f"{row.name}{' (chosen)' * row.is_planned}", *(_figure(row, name) for name in names)]
        for row in rows
    ]
    click.echo("\nThis request by every method:")
    formatting.print_table(heads, cells, ("Method",))
    troubles = [f"{row.name} is not possible: {row.trouble}" for row in rows if row.trouble]
    formatting.print_rows([("", text) for text in (*troubles, _LEGEND)])


def _figure(row: ComparisonRow, name: str) -> str:
    number = row.figures.get(name)
    return "-" if number is None else _FORMS.get(name, number_text)(float(number))


# ---- days to come ----


def _show_days(run: Run, days: int | None, error: float | None, *, as_json: bool) -> None:
    """Print the expected errors of an archive that remembers, by day, on paper."""
    # For --days alone:
    from hexveil.cli.guided import counted_days  # noqa: PLC0415
    from hexveil.cli.planned_release import declare_run  # noqa: PLC0415
    from hexveil.publishing.memory import planned_days  # noqa: PLC0415

    if days is None or not 1 <= days <= _MOST_DAYS:
        raise InputError(f"--days must be a number of days from 1 to {_MOST_DAYS}, got {days}.")
    if error is None and run.plan.epsilon is None:
        raise InputError("--days needs a daily epsilon (--epsilon), or an error (--day-error).")
    asked = PlanArguments(**arguments.plan_arguments(run))
    is_private = arguments.is_presence_private(run)
    # What is not remembered is refused before records are read.
    planned_days.planned_term(asked)
    if is_private and run.select.dates is None:
        run = run.with_fields("select", dates=("2024-01-01", "2024-01-01"))  # any day
    facts: Any = declare_run(run) if is_private else shared_steps.read_facts(run)
    first, last = counted_days(run, facts) or ("", "")
    # As one day they would have too many vehicles, and too small errors.
    if first != last:
        raise InputError(
            f"days to come are planned from one usual day, and these records are of {first} to "
            f"{last}; name a day, as in --set select.dates={first},{first}."
        )
    with show_progress(PLANNING, SEARCH):
        expected = planned_days.expected_errors(facts, asked, days, error)
    (statistic,) = asked.statistics or ("mean",)
    formatting.show(
        lambda: _day_rows(expected, facts, statistic),
        lambda: {"epsilon": float(expected.epsilon), "errors": list(expected.errors)},
        as_json=as_json,
    )


def _day_rows(expected: ExpectedErrors, facts: Any, statistic: str) -> list[Row]:  # noqa: ANN401  of either model
    days, unit = len(expected.errors), unit_of_statistic(statistic, facts.value_unit)
    shown = [*(day for day in _SHOWN_DAYS if day < days), days]
    errors = [f"error {error:.2g} {unit}".rstrip() for error in expected.errors]
    cells, alike = f"{expected.n_cells:,.0f} cells", "like these records, which count as one"
    if is_declared := isinstance(facts, DeclaredFacts):
        cells, alike = f"the traffic in some {cells} that are expected to be open", "as declared"
    text = (
        f"{noun(statistic)}, at a daily epsilon of {price(float(expected.epsilon))} per "
        f"{unit_name(facts.privacy_unit)}; errors are averages over {cells}, by the usual "
        f"differences between places, hours and days, if every day is {alike}."
    )
    if isinstance(term_of(statistic), Quantile) and not is_declared:
        text += (
            " Take them as a lower bound: quantiles are read off one shape for all cells, by "
            "the usual spread of values."
        )
    return [("Expected", text), *((f"Day {day}", errors[day - 1]) for day in shown)]
