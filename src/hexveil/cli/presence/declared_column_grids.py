"""`hexveil inspect` of several value columns under private presence: a grid for all of them.

No record is read: grids are judged by what is declared, each column at the part of ε that a plan of
all columns would give it on that grid.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

import typer

from hexveil.cli.column_inspection import write_common
from hexveil.cli.output import formatting, proposal_text
from hexveil.cli.presence import declared_plan, declared_steps
from hexveil.model.cells import Cells, Labels
from hexveil.planning.feasibility.common_grid import (
    CommonGrid,
    DeclaredAssessment,
    choose_common_grids,
)

if TYPE_CHECKING:
    from pathlib import Path

    from hexveil.config import Run
    from hexveil.planning.columns.column_plan import DeclaredColumnPlans


def inspect_declared_columns(
    run: Run, propose: Path | None, choice: str, *, from_records: bool, as_json: bool
) -> None:
    """Print the plan, the grids of each column, and the grids that all of them support."""
    if from_records:
        declared_plan.check_terminal(run, as_json=as_json)
    priced = declared_plan.with_epsilon(run)
    epsilon = str(priced.plan.epsilon)
    facts = declared_steps.declare_run(priced)
    declared = cast("DeclaredColumnPlans", declared_steps.plan_declared(priced, facts))
    # Labels have no other resolution or slot: the declared grid alone is judged.
    others = cast("list[DeclaredColumnPlans]", list(declared_plan.comparable_plans(priced)))
    plans = others or [declared]
    grids = tuple(_assessed(plan) for plan in plans)
    proposals = {str(name): grid for name, grid in choose_common_grids(grids).items()}
    if propose is not None:
        write_common(run, proposals, propose, choice, epsilon)
    if as_json:
        content = {
            "grids": [_grid_json(plan) for plan in plans],
            "common": proposal_text.common_json(proposals),
        }
        typer.echo(json.dumps(declared_steps.plan_json(declared) | content, indent=2))
    else:
        typer.echo("\n".join(declared_steps.plan_lines(declared)))
        for column in declared.plans if others else ():
            typer.echo(f"\nGrids for {column} on paper, from declarations alone:")
            typer.echo("\n".join(declared_plan.table_lines([one.plans[column] for one in plans])))
        units = {column: own.facts.value_unit for column, own in declared.plans.items()}
        typer.echo("\n".join(["", *proposal_text.common_lines(proposals, units, epsilon)]))
        if propose is not None:
            typer.echo("\n".join(["", *formatting.wrapped("Run file", str(propose))]))
    if from_records:
        declared_steps.read_private_records(run).close()


def _assessed(plan: DeclaredColumnPlans) -> CommonGrid:
    return CommonGrid({column: DeclaredAssessment(own) for column, own in plan.plans.items()})


def _grid_json(plan: DeclaredColumnPlans) -> dict[str, Any]:
    leading = next(iter(plan.plans.values()))
    grid = leading.facts.cells.grid
    places = grid if isinstance(grid, Cells) else None
    return {
        "resolution": places and places.resolution,
        "timeslot": places and places.timeslot,
        "labels": list(grid.columns) if isinstance(grid, Labels) else None,
        "cells": leading.facts.grid.n_cells,
        "columns": {
            column: {
                "epsilon": float(own.epsilon),
                "prediction": own.figures(),
                "usable": own.refusal is None,
            }
            for column, own in plan.plans.items()
        },
    }
