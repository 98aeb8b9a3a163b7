"""`hexveil inspect`: public metadata of records, and the grids that a fleet supports."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from hexveil.base.errors import InputError
from hexveil.cli import shared_steps
from hexveil.cli.options import AsJson  # noqa: TC001  the parser reads annotations
from hexveil.cli.output import formatting, grid_table
from hexveil.config import Run, arguments
from hexveil.config.run_file_template import draft_run_file
from hexveil.records.sources.schema_preview import inspect_schema

if TYPE_CHECKING:
    from hexveil.model.public_metadata import PublicMetadata
    from hexveil.planning import Capacity

COMPARED_AT = "1"

Dialect = Annotated[
    str | None,
    typer.Option(
        "--sql",
        help="Print a query that computes the sums elsewhere: duckdb, postgres, bigquery or spark.",
    ),
]
Init = Annotated[
    bool,
    typer.Option(
        "--init",
        help="Draft a run file from the names and types of the columns; fill in the bounds "
        "yourself.",
    ),
]
Trust = Annotated[
    bool,
    typer.Option(
        "--trust-header",
        help="With --init: the first line of CSV files contains names, even if it looks like a "
        "record; the draft then shows them.",
    ),
]


def inspect(
    run: Run,
    *,
    init: Init = False,
    trust: Trust = False,
    sql: Dialect = None,
    as_json: AsJson = False,
) -> None:
    """Show public metadata of the records, and the grids that this fleet supports.

    Values are never shown. Without an epsilon, grids are compared at 1. To draft a run file:
    hexveil inspect records.parquet --init > run.toml
    """
    if init:
        # The draft ends its last line itself, because it goes into a file.
        typer.echo(draft(run, alone=not as_json and sql is None, trust=trust), nl=False)
        return
    if trust:
        raise InputError("--trust-header requires --init: otherwise the run names the columns.")
    if sql is not None:
        typer.echo(shared_steps.build_query(run, sql))
        return
    facts = shared_steps.read(run).public
    # Grids can be compared before a price is chosen.
    epsilon = run.plan.epsilon or COMPARED_AT
    table = shared_steps.assess_capacity(run, facts, epsilon)
    if as_json:
        offers = {"capacity": table.to_arrow().to_pylist(), "proposal": table.sentence}
        typer.echo(json.dumps(facts_json(facts) | {"epsilon": epsilon} | offers))
        return
    typer.echo("\n".join(fact_lines(facts)))
    show(table, facts, epsilon)


def draft(run: Run, *, alone: bool, trust: bool) -> str:
    """Return the draft of a run file for the columns of the run's source."""
    if not alone:
        raise InputError("--init prints a run file and nothing else; omit --json and --sql.")
    column_names = (*run.columns.explicit_fields().values(), *(run.cells.labels or ()))
    schema = inspect_schema(
        arguments.source(run),
        column_names,
        trusted=trust,
        record_format=arguments.record_format(run),
    )
    return draft_run_file(run, schema)


def facts_json(facts: PublicMetadata) -> dict[str, object]:
    """Return the public metadata of a data set as JSON data."""
    occupancy = facts.occupancy
    return {
        "value": facts.value,
        "value_unit": facts.value_unit,
        "unit": facts.privacy_unit,
        "users": occupancy.n_users,
        "cells": occupancy.n_cells,
        "records": occupancy.n_records,
        "rules": dict(facts.rules),
    }


def fact_lines(facts: PublicMetadata) -> list[str]:
    """Return the public metadata of a data set as text."""
    occupancy = facts.occupancy
    unit = f" in {facts.value_unit}" if facts.value_unit else ""
    low, high = (
        formatting.number_text(float(b)) for b in (facts.lattice.lower, facts.lattice.upper)
    )
    lines = [
        *formatting.wrapped(
            "Value", f"{facts.value}{unit}, clamped to {low} and {high}; never shown."
        ),
        *formatting.wrapped("Records", f"{occupancy.n_records:,} in the cells below."),
        *formatting.wrapped(
            "Protected", f"{occupancy.n_users:,} {facts.privacy_unit}s, each as one privacy unit."
        ),
        *formatting.wrapped(
            "Cells", f"{occupancy.n_cells:,}: {formatting.grid_words(facts.cells.grid)}."
        ),
    ]
    width = max((len(rule) for rule in facts.rules), default=0)
    for number, (rule, count) in enumerate(facts.rules.items()):
        label = "" if number else "Rules"
        lines.append(f"{label:<19}{rule:<{width}}  {count:>12,}")
    return lines


def show(table: Capacity, facts: PublicMetadata, epsilon: str) -> None:
    """Print the grids that this fleet supports."""
    factor = formatting.factor(float(epsilon))
    typer.echo(
        f"\nGrids that this fleet supports at epsilon {epsilon} (probability factor {factor}):"
    )
    grid_table.show(table, facts.value_unit)
