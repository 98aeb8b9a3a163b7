"""`hexveil inspect` of several value columns: the grids of each, and one for all of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import typer

from hexveil.base.errors import InputError
from hexveil.cli import shared_steps
from hexveil.cli.output import fact_text, formatting, proposal_text
from hexveil.planning.feasibility.common_grid import choose_common_grids, common_grids

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from hexveil.config import Run
    from hexveil.model.public_metadata import PublicMetadata
    from hexveil.planning import Capacity
    from hexveil.planning.feasibility.common_grid import CommonGrid


def inspect_columns(
    run: Run, epsilon: str, propose: Path | None, choice: str, *, as_json: bool
) -> None:
    """Print facts and grids of each value column, and the grids that all of them support.

    ε is compared in equal parts: what a unit loses in all columns adds up.
    """
    facts = shared_steps.read_column_facts(run)
    part = f"{float(epsilon) / len(facts):.6g}"
    tables = shared_steps.assess_columns(run, facts, part)
    proposals = {
        str(name): grid for name, grid in choose_common_grids(common_grids(tables)).items()
    }
    if propose is not None:
        write_common(run, proposals, propose, choice, epsilon)
    if as_json:
        typer.echo(json.dumps(_columns_json(facts, tables, proposals, epsilon, part)))
        return
    for column, column_facts in facts.items():
        typer.echo("\n".join(fact_text.fact_lines(column_facts)))
        fact_text.show_grids(tables[column], column_facts, part)
        typer.echo("")
    units = {column: column_facts.value_unit for column, column_facts in facts.items()}
    typer.echo("\n".join(proposal_text.common_lines(proposals, units, epsilon)))
    if propose is not None:
        typer.echo("\n".join(["", *formatting.wrapped("Run file", str(propose))]))


def write_common(
    run: Run, proposals: Mapping[str, CommonGrid], file: Path, choice: str, epsilon: str
) -> None:
    """Write a run with the chosen grid to a new run file; refuse if there is none."""
    if choice not in proposals:
        raise InputError(
            "--propose: no grid is expected to beat one number for all cells in every value "
            "column, so that none is written; hexveil inspect without --propose says what would "
            "help."
        )
    changes = proposal_text.grid_fields(proposals[choice])
    if "epsilon" not in run.plan.explicit_fields():
        changes["plan", "epsilon"] = epsilon
    shared_steps.write_run(run, changes, file)


def _columns_json(
    facts: Mapping[str, PublicMetadata],
    tables: Mapping[str, Capacity],
    proposals: Mapping[str, CommonGrid],
    epsilon: str,
    part: str,
) -> dict[str, Any]:
    columns = {
        column: fact_text.facts_json(column_facts)
        | {"capacity": tables[column].to_arrow().to_pylist(), "proposal": tables[column].sentence}
        for column, column_facts in facts.items()
    }
    common = proposal_text.common_json(proposals)
    return {"epsilon": epsilon, "epsilon_of_each": part, "columns": columns, "common": common}
