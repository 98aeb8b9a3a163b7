"""`hexveil inspect`: the public facts of records, and what this fleet can support."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from hexveil.cli import steps, words
from hexveil.cli.options import AsJson  # noqa: TC001  the parser reads annotations
from hexveil.config import Run  # noqa: TC001  the parser reads annotations

if TYPE_CHECKING:
    from hexveil.facts import PublicFacts
    from hexveil.planning import Capacity, Offer

COMPARED_AT = "1"

Dialect = Annotated[
    str | None,
    typer.Option(
        "--sql",
        help="Print the query that makes the sums elsewhere: duckdb, postgres, bigquery or spark.",
    ),
]


def inspect(run: Run, *, sql: Dialect = None, as_json: AsJson = False) -> None:
    """Show the public facts of the records and what grid this fleet can support.

    Values are never shown. Without an epsilon, grids are compared at 1.
    """
    if sql is not None:
        typer.echo(steps.query(run, sql))
        return
    facts = steps.read(run).public
    epsilon = run.plan.epsilon or COMPARED_AT
    table = steps.capacity(run, facts, epsilon)
    if as_json:
        offers = None if table is None else table.to_arrow().to_pylist()
        typer.echo(json.dumps(facts_json(facts) | {"epsilon": epsilon, "capacity": offers}))
        return
    typer.echo("\n".join(fact_lines(facts)))
    if table is not None:
        show(table, facts, epsilon)


def facts_json(facts: PublicFacts) -> dict[str, object]:
    """Return the public facts of a data set, for machines."""
    occupancy = facts.occupancy
    return {
        "value": facts.value,
        "value_unit": facts.value_unit,
        "unit": facts.unit,
        "users": occupancy.n_users,
        "cells": occupancy.n_cells,
        "records": int(occupancy.n.sum()),
        "rules": dict(facts.rules),
    }


def fact_lines(facts: PublicFacts) -> list[str]:
    """Return the public facts of a data set, as text."""
    occupancy = facts.occupancy
    unit = f" in {facts.value_unit}" if facts.value_unit else ""
    low, high = (words.plain(float(b)) for b in (facts.scale.lower, facts.scale.upper))
    lines = [
        *words.wrapped("Value", f"{facts.value}{unit}, counted from {low} to {high}; never shown."),
        *words.wrapped("Records", f"{int(occupancy.n.sum()):,} in the cells below."),
        *words.wrapped("Users", f"{occupancy.n_users:,} (what is protected: {facts.unit})."),
        *words.wrapped("Cells", f"{occupancy.n_cells:,}: {words.grid_words(facts.cells.grid)}."),
    ]
    width = max((len(rule) for rule in facts.rules), default=0)
    for number, (rule, count) in enumerate(facts.rules.items()):
        label = "" if number else "Rules"
        lines.append(f"{label:<19}{rule:<{width}}  {count:>12,}")
    return lines


def show(table: Capacity, facts: PublicFacts, epsilon: str) -> None:
    """Print what this fleet can support."""
    price = words.odds(float(epsilon))
    typer.echo(
        f"\nWhat this fleet can support at epsilon {epsilon} (odds change by {price} at most):"
    )
    shown = Table(box=None, pad_edge=False, header_style="", padding=(0, 2, 0, 0))
    for name in ("Resolution", "Timeslot", "Cells", "Users", "Floor", "Error", "Constant"):
        shown.add_column(name, justify="right")
    shown.add_column("Better", justify="right")
    shown.add_column("Supported")
    for offer in table.offers:
        shown.add_row(*_row(offer))
    Console(width=100, highlight=False, markup=False).print(shown)
    unit = f" in {facts.value_unit}" if facts.value_unit else ""
    typer.echo(
        f"Floor: noise{unit} that no plan without clipping can beat. Error: what to expect of the "
        "plan.\nConstant: what one constant for all cells is assumed to miss. Better: cells that "
        "say more than it."
    )


def _row(offer: Offer) -> list[str]:
    where = [str(offer.resolution), offer.timeslot or "none", f"{offer.cells:,}"]
    if not offer.cells:
        return [*where, "0", "-", "-", "-", "-", "no cell left"]
    needed = offer.epsilon_needed
    refused = "no" if needed is None else f"no; at epsilon {needed:g}"
    return [
        *where,
        f"{offer.users:,}",
        words.plain(offer.floor),
        words.plain(offer.predicted_error),
        words.plain(offer.prior_miss),
        f"{offer.better:,}",
        "yes" if offer.supported else refused,
    ]
