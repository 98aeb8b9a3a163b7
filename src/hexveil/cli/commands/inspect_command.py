"""`hexveil inspect`: public metadata of records, and the grids that a fleet supports.

With --check-values PRIVATE lines about values, for the terminal of their holder.
"""

from __future__ import annotations

import inspect as inspect_module
import json
import sys
import textwrap
from typing import TYPE_CHECKING, get_args

import typer

from hexveil.base.errors import InputError
from hexveil.cli import formatting, grid_text, shared_steps
from hexveil.config import Run, arguments
from hexveil.planning.feasibility.recommendation import Choice, CommonGrid, choose, common_grids
from hexveil.records.read import read

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from hexveil.cli import declarations
    from hexveil.cli.grid_text import Changes
    from hexveil.model.public_metadata import PublicMetadata
    from hexveil.records.value_checks import ValueChecks


COMPARED_AT = "1"
"""Epsilon at which grids are compared if the run states none."""
DEFAULT_CHOICE: Choice = "balanced"
MARK = "PRIVATE  "
"""Beginning of every line."""
_CLAMPED_SHARE = 0.01
"""Share of clamped values from which the bounds are called into question."""


def inspect(run: Run, options: declarations.InspectOptions) -> None:
    """Show public metadata of the records, the grids that this fleet supports, and three runs."""
    if options.init:
        _print_draft(run, options)
        return
    if options.trust_header:
        raise InputError("--trust-header requires --init: otherwise the run names the columns.")
    if options.sql is not None:
        typer.echo(shared_steps.build_query(run, options.sql))
        return
    if options.check_values:
        typer.echo("\n".join(private_lines(run, options)))
        return
    several = len(arguments.value_columns_of(run)) > 1
    is_private = arguments.is_presence_private(run)
    if is_private and not several:
        unused = {"--propose": options.propose is not None, "--choice": options.choice is not None}
        shared_steps.refuse_unused(run, unused)
    check_choice(options.propose, options.choice)
    show = _inspect_declared if is_private else _inspect_columns if several else _inspect_records
    # Grids can be compared before an epsilon is chosen.
    show(run, options, run.plan.epsilon or COMPARED_AT)
    if options.propose is not None and not options.as_json:
        formatting.print_rows(["", ("Run file", str(options.propose))])


def _print_draft(run: Run, options: declarations.InspectOptions) -> None:
    """Print the draft of a run file, and nothing else."""
    from hexveil.cli import guided  # noqa: PLC0415  for --init alone
    from hexveil.config.run_file_template import draft_run_file  # noqa: PLC0415

    if options.as_json or options.sql is not None:
        raise InputError("--init prints a run file and nothing else; omit --json and --sql.")
    look = guided.look_at_columns(run, trust=options.trust_header)
    # The draft ends its last line itself, because it goes into a file.
    typer.echo(draft_run_file(run, look), nl=False)


def _inspect_records(run: Run, options: declarations.InspectOptions, epsilon: str) -> None:
    """Print public metadata, grids and proposed runs; write the chosen run, if a file is named."""
    facts = shared_steps.read_facts(run)
    table = shared_steps.proposed_runs(run, facts, epsilon)[1]
    offers = {str(name): grid_text.changed_fields(item) for name, item in table.proposals.items()}
    judged: Changes = {("plan", "epsilon"): epsilon, ("plan", "clipping_range"): "auto"}
    _write_chosen(run, options, offers, judged)
    if options.as_json:
        content = {"epsilon": epsilon, "advice": grid_text.advice_json(table)}
        typer.echo(json.dumps(grid_text.facts_json(facts, table) | content, indent=2))
        return
    grid_text.show_grids(table, facts, epsilon)
    formatting.print_rows(["", *grid_text.advice_rows(table, facts.value_unit, epsilon)])


def _inspect_columns(run: Run, options: declarations.InspectOptions, epsilon: str) -> None:
    """Print facts and grids of each value column, and the grids that all of them support.

    ε is compared in equal parts: what a unit loses in all columns adds up.
    """
    columns: dict[str, PublicMetadata] = shared_steps.read_facts(run).columns
    portion = f"{float(epsilon) / len(columns):.6g}"
    tables = shared_steps.assess_columns(run, columns, portion)
    grids = common_grids({name: table.offers for name, table in tables.items()})
    proposals = _common(run, options, grids, epsilon)
    if options.as_json:
        of_columns = {
            name: grid_text.facts_json(facts, tables[name]) for name, facts in columns.items()
        }
        content = {"epsilon": epsilon, "epsilon_of_each": portion, "columns": of_columns}
        content["common"] = grid_text.common_json(proposals)
        typer.echo(json.dumps(content, indent=2))
        return
    for name, facts in columns.items():
        grid_text.show_grids(tables[name], facts, portion)
        typer.echo("")
    units = {name: facts.value_unit for name, facts in columns.items()}
    formatting.print_rows(grid_text.common_rows(proposals, units, epsilon))


def _inspect_declared(run: Run, options: declarations.InspectOptions, epsilon: str) -> None:
    """Print the plan, and the grids that the declared fleet supports; no record is read.

    Of several value columns each is judged at the part of ε that a plan of all columns would give
    it on that grid.
    """
    from hexveil.cli import planned_release  # noqa: PLC0415  under presence alone

    run = run if run.plan.epsilon else run.with_fields("plan", epsilon=epsilon)
    planned = planned_release.plan_release(run, accept_noise=True)
    plan, components = planned.plan, planned.plan.components
    # Labels have no other resolution or slot: of several columns the declared grid is judged.
    others = list(planned_release.comparable_plans(run))
    judged = others if plan.is_single or others else [plan]
    proposals = {}
    if not plan.is_single:
        grids = [CommonGrid.declared(grid_plan.components) for grid_plan in judged]
        proposals = _common(run, options, grids, epsilon)
    if options.as_json:
        content = planned.plan_json() | {
            "grids": [grid_text.declared_json(assessed) for assessed in judged]
        }
        if not plan.is_single:
            content["common"] = grid_text.common_json(proposals)
        typer.echo(json.dumps(content, indent=2))
        return
    formatting.print_rows(planned.price_rows())
    for column in components:
        title = f"Grids for {column} on paper, from declarations alone:"
        if plan.is_single:
            number = formatting.number_text(float(plan.epsilon))
            title = f"Grids on paper at epsilon {number}, from declarations alone:"
        grid_text.show_declared(title, [grid_plan.components[column] for grid_plan in others])
    if not plan.is_single:
        units = {column: component.facts.value_unit for column, component in components.items()}
        formatting.print_rows(["", *grid_text.common_rows(proposals, units, epsilon)])


def private_lines(run: Run, options: declarations.InspectOptions) -> list[str]:
    """Return the PRIVATE check of the values; refuse to write it anywhere but on a terminal."""
    for name, is_given in (("--json", options.as_json), ("--propose", options.propose is not None)):
        if is_given:
            raise InputError(f"--check-values and {name} cannot be combined.")
    if not sys.stdout.isatty():
        raise InputError(
            "--check-values shows private figures on a terminal only; run it without a pipe and "
            "without writing its output to a file."
        )
    if run.read.engine == "spark":
        raise InputError("--check-values reads with DuckDB; leave out the engine.")
    runs = arguments.runs_of_columns(run)
    # A heading only where there are several.
    return [
        line
        for column_run in runs
        for line in ([str(column_run.columns.value)] * (len(runs) > 1) + _check_column(column_run))
    ]


def _check_column(run: Run) -> list[str]:
    """Return the PRIVATE check of the values of one column."""
    from hexveil.records import value_checks  # noqa: PLC0415

    options = arguments.read_arguments(run, read)
    parameters = inspect_module.signature(value_checks.check_values).parameters
    existing = {name: value for name, value in options.items() if name in parameters}
    checks = value_checks.check_values(arguments.source(run), **existing)
    return finding_lines(checks, arguments.value_unit_of(run))


def check_choice(propose: Path | None, choice: str | None) -> None:
    """Refuse a choice without a file, an unknown choice, and a file that exists."""
    if propose is None and choice is not None:
        raise InputError("--choice requires --propose: it names the run that is written.")
    if choice is not None and choice not in get_args(Choice):
        raise InputError(f"--choice must be one of {', '.join(get_args(Choice))}, got {choice!r}.")
    if propose is not None and propose.exists():
        raise InputError(f"--propose: {propose.name!r} exists already; name a new file.")


def _write_chosen(
    run: Run, options: declarations.InspectOptions, offers: Mapping[str, Changes], judged: Changes
) -> None:
    """Write the chosen run to a new run file, if one is named; refuse if none is proposed.

    `judged` are the epsilon and the range at which runs were judged, for a file that has none.
    """
    if options.propose is None:
        return
    choice = options.choice or DEFAULT_CHOICE
    if choice not in offers:
        raise InputError(
            "--propose: no run is expected to beat one number for all cells of each value column, "
            "so that none is written; hexveil inspect without --propose says what would help."
        )
    stated = set(run.plan.explicit_fields())
    # A target takes the place of an epsilon.
    if "target_error" in stated:
        stated.add("epsilon")
    missing = {key: value for key, value in judged.items() if key[1] not in stated}
    shared_steps.write_run(run, {**offers[choice], **missing}, options.propose)


def _common(
    run: Run, options: declarations.InspectOptions, grids: Sequence[CommonGrid], epsilon: str
) -> dict[str, CommonGrid]:
    """Return the grids proposed for all value columns, by choice; write a run of the chosen one."""
    proposals = {str(name): grid for name, grid in choose(grids).items()}
    offers = {name: grid_text.cell_fields(grid.grid) for name, grid in proposals.items()}
    _write_chosen(run, options, offers, {("plan", "epsilon"): epsilon})
    return proposals


def finding_lines(checks: ValueChecks, value_unit: str) -> list[str]:
    """Return the findings as lines, each of them marked."""
    head = (
        "For your eyes only: exact figures of protected values. Do not publish, send or store "
        "them. They do not appear in any release."
    )
    wrap = textwrap.TextWrapper(formatting.terminal_width() - len(MARK), subsequent_indent="  ")
    return [
        MARK + line for text in (head, *_findings(checks, value_unit)) for line in wrap.wrap(text)
    ]


def _findings(checks: ValueChecks, value_unit: str) -> Iterator[str]:
    yield f"Usable values: {checks.records:,} records of {checks.users:,} users."
    yield _clamped(checks)
    for value, share in checks.frequent:
        yield (
            f"Frequent value: {formatting.measured(value, value_unit)} in {share:.1%} of records; "
            "if it means no reading, add it to drop_values in [select]."
        )
    yield _largest_user(checks)


def _clamped(checks: ValueChecks) -> str:
    text = f"Clamped by the bounds: {checks.below_share:.2%} below, {checks.above_share:.2%} above."
    if max(checks.below_share, checks.above_share) < _CLAMPED_SHARE:
        return text
    return (
        f"{text} Check unit and bounds; choose bounds from public knowledge, never from these "
        "figures."
    )


def _largest_user(checks: ValueChecks) -> str:
    from hexveil.records.value_checks import DOMINANT_USER_SHARE  # noqa: PLC0415  as above

    text = f"Largest user: {checks.largest_user_share:.1%} of records."
    if checks.largest_user_share < DOMINANT_USER_SHARE:
        return text
    return f"{text} Check that the id column does not join several vehicles under one id."
