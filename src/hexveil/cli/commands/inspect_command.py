"""`hexveil inspect`: public metadata of records, and the grids that a fleet supports."""

from typing import Any

import click

from hexveil.base.errors import InputError
from hexveil.cli import declarations, formatting, grid_text, shared_steps
from hexveil.config import Run, arguments
from hexveil.model.public_metadata import PublicMetadata

COMPARED_AT = "1"
"""Epsilon at which grids are compared if the run states none."""


def inspect(run: Run, options: declarations.InspectOptions) -> None:
    """Show public metadata of the records, the grids that this fleet supports, and three runs."""
    if options.init:
        _print_draft(run, options)
        return
    if options.trust_header:
        raise InputError("--trust-header requires --init: otherwise the run names the columns.")
    if options.sql is not None:
        click.echo(shared_steps.build_query(run, options.sql))
        return
    is_private = arguments.is_presence_private(run)
    several = len(arguments.value_columns_of(run)) > 1
    show = _show_declared if is_private else _show_columns if several else _show_records
    # Grids can be compared before an epsilon is chosen.
    show(run, run.plan.epsilon or COMPARED_AT, as_json=options.as_json)


def _print_draft(run: Run, options: declarations.InspectOptions) -> None:
    """Print the draft of a run file, and nothing else."""
    from hexveil.cli import guided  # noqa: PLC0415  for --init alone
    from hexveil.config.run_file_template import draft_run_file  # noqa: PLC0415

    if options.as_json or options.sql is not None:
        raise InputError("--init prints a run file and nothing else; omit --json and --sql.")
    if str(run.release.out).endswith(".toml"):
        raise InputError(
            "--out is the folder of the map, not the run file. Write the draft with: hexveil "
            "inspect SOURCE --init > run.toml (a file of that name is replaced)."
        )
    look = guided.look_at_columns(run, trust=options.trust_header)
    # The draft ends its last line itself, because it goes into a file.
    click.echo(draft_run_file(run, look), nl=False)


def _show_records(run: Run, epsilon: str, *, as_json: bool) -> None:
    """Print public metadata, grids and proposed runs."""
    facts = shared_steps.read_facts(run)
    table = shared_steps.proposed_runs(run, facts, epsilon)[1]
    if not as_json:
        grid_text.show_grids(table, facts, epsilon)
    rows = ["", *grid_text.advice_rows(table, facts.value_unit, epsilon)]
    content = {"epsilon": epsilon, "advice": grid_text.advice_json(table)}
    formatting.show(
        lambda: rows, lambda: grid_text.facts_json(facts, table) | content, as_json=as_json
    )


def _show_columns(run: Run, epsilon: str, *, as_json: bool) -> None:
    """Print facts and grids of each value column.

    ε is compared in equal parts: what a unit loses in all columns adds up.
    """
    columns: dict[str, PublicMetadata] = shared_steps.read_facts(run).columns
    portion = f"{float(epsilon) / len(columns):.6g}"
    tables = shared_steps.assess_columns(run, columns, portion)
    if not as_json:
        for name, facts in columns.items():
            grid_text.show_grids(tables[name], facts, portion)
            click.echo("")
    content: dict[str, Any] = {
        "epsilon": epsilon,
        "epsilon_of_each": portion,
        "columns": {n: grid_text.facts_json(facts, tables[n]) for n, facts in columns.items()},
    }
    formatting.show(list, lambda: content, as_json=as_json)


def _show_declared(run: Run, epsilon: str, *, as_json: bool) -> None:
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
    if as_json:
        content: dict[str, Any] = {
            "grids": [grid_text.declared_json(assessed) for assessed in judged]
        }
        formatting.show(list, lambda: planned.plan_json() | content, as_json=True)
        return
    formatting.print_rows(planned.price_rows())
    for column in components:
        title = f"Grids for {column} on paper, from declarations alone:"
        if plan.is_single:
            number = formatting.number_text(float(plan.epsilon))
            title = f"Grids on paper at epsilon {number}, from declarations alone:"
        grid_text.show_declared(title, [grid_plan.components[column] for grid_plan in others])
