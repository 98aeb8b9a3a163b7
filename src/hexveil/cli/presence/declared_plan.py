"""`hexveil plan` and `hexveil inspect` under private presence: predictions on paper."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import typer

from hexveil.base.errors import InputError
from hexveil.base.hexagons import across
from hexveil.cli.output import formatting
from hexveil.cli.presence import declared_steps
from hexveil.model.cells import Cells, slot_seconds
from hexveil.model.column_facts import DeclaredColumns
from hexveil.planning.feasibility.grids import (
    FINEST,
    MIN_HEXAGONS,
    MOST_RESOLUTIONS,
    OFFERED_SLOTS,
    OTHER_GRIDS,
)
from hexveil.planning.presence.counted_request import CountedPrediction
from hexveil.planning.presence.presence_prediction import UnitCountPrediction
from hexveil.planning.presence.shape_prediction import ShapePrediction
from hexveil.records.progress import show_progress
from hexveil.records.read import declare

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hexveil.config import Run, arguments
    from hexveil.planning.presence.presence_plan import PresencePlan
    from hexveil.publishing.privacy_models import DeclaredPlan

COMPARED_AT = "1"


def plan_on_paper(run: Run, *, unused: dict[str, bool], as_json: bool) -> None:
    """Print price and prediction of a release; no record is read."""
    refuse_unused(unused)
    plan = declared_steps.plan_declared(run, declared_steps.declare_run(run))
    if as_json:
        typer.echo(json.dumps(declared_steps.plan_json(plan), indent=2))
        return
    typer.echo("\n".join([*declared_steps.plan_lines(plan), *_repeat_lines(run)]))


def _repeat_lines(run: Run) -> list[str]:
    """Return advice to declare the treatment of repeats; nothing once it is declared."""
    if run.columns.time is None or "repeats" in run.read.explicit_fields():
        return []
    return formatting.wrapped(
        "Repeats",
        "Of several records of one user at one time one place counts, with its average; how many "
        "that leaves out is private, and nothing warns of it. Declare it in [read]: repeats = "
        '"keep" if times are coarser than the reports, such as floored to the hour; else repeats '
        '= "drop".',
    )


def inspect_declared(
    run: Run, *, unused: dict[str, bool], from_records: bool, as_json: bool
) -> None:
    """Print the grids that the declared fleet supports; counts of records on request alone."""
    refuse_unused(unused)
    if from_records:
        check_terminal(run, as_json=as_json)
    run = with_epsilon(run)
    declared = declared_steps.plan_declared(run, declared_steps.declare_run(run))
    plans = cast("list[PresencePlan]", list(comparable_plans(run)))
    if as_json:
        grids = [_row_json(plan) for plan in plans]
        typer.echo(json.dumps(declared_steps.plan_json(declared) | {"grids": grids}, indent=2))
        return
    typer.echo("\n".join(declared_steps.plan_lines(declared)))
    if plans:
        epsilon = formatting.number_text(float(declared.epsilon))
        typer.echo(f"\nGrids on paper at epsilon {epsilon}, from declarations alone:")
        typer.echo("\n".join(table_lines(plans)))
    if from_records:
        declared_steps.read_private_records(run).close()


def refuse_unused(unused: dict[str, bool]) -> None:
    """Refuse options that look at records, or at plans of the other model."""
    given = [name for name, used in unused.items() if used]
    if given:
        raise InputError(f'{given[0]} has no use with protect = "presence"; leave it out.')


def check_terminal(run: Run, *, as_json: bool) -> None:
    """Refuse counts of records wherever somebody else could have them."""
    if run.privacy.quiet_records:
        raise InputError("--from-records and quiet_records cannot be combined.")
    if as_json or not sys.stderr.isatty():
        raise InputError(
            "--from-records shows private counts on a terminal only; run it without --json, "
            "without a pipe and without writing its output to a file."
        )


def with_epsilon(run: Run) -> Run:
    """Return the run with the epsilon at which grids are compared, if it states none."""
    if run.plan.epsilon is not None:
        return run
    priced = run.model_copy(update={"plan": run.plan.model_copy(update={"epsilon": COMPARED_AT})})
    priced.plan.model_fields_set.add("epsilon")
    return priced


def comparable_plans(run: Run) -> Iterator[DeclaredPlan]:
    """Yield plans on the declared area at other resolutions and timeslots; none for labels.

    From a map of a few hexagons to the first resolution at which no timeslot is usable, and the
    declared one.
    """
    options = declared_steps.read_options(run)
    cells = options["cells"]
    if not isinstance(cells, Cells):
        return
    own_resolution, n_tried = cells.resolution, 0
    # Names of hexagons have one resolution.
    candidates = [own_resolution] if hasattr(cells.area, "names") else range(FINEST + 1)
    in_window = True
    with show_progress(OTHER_GRIDS):
        for resolution in candidates:
            grid = replace(cells, resolution=resolution)
            if resolution != own_resolution and (
                not in_window or _n_hexagons(options, grid) < MIN_HEXAGONS
            ):
                continue
            plans = [plan for slot in _slots(cells) if (plan := _plan_on(run, options, grid, slot))]
            yield from plans
            n_tried += 1
            usable = any(plan.refusal is None for plan in plans)
            in_window = in_window and usable and n_tried < MOST_RESOLUTIONS


def _slots(cells: Cells) -> tuple[str | None, ...]:
    """Return the timeslots that are compared, the shortest first."""
    if cells.timeslot is None:
        return (None,)
    return tuple(sorted({cells.timeslot, *OFFERED_SLOTS}, key=slot_seconds))


def _n_hexagons(options: arguments.Arguments, grid: Cells) -> int:
    """Return how many hexagons the declared area has; 0 where it cannot be declared."""
    try:
        facts = declare(**options | {"cells": replace(grid, timeslot=None)})
    except InputError:
        return 0  # too fine, or too coarse for a cell
    leading = facts.leading if isinstance(facts, DeclaredColumns) else facts
    return leading.cells.n_places or 0


def _plan_on(
    run: Run, options: arguments.Arguments, grid: Cells, slot: str | None
) -> DeclaredPlan | None:
    """Return the plan on one grid; None where it cannot be declared."""
    try:
        facts = declare(**options | {"cells": replace(grid, timeslot=slot)})
        return declared_steps.plan_declared(run, facts)
    except InputError:
        return None  # too fine to be declared, or too coarse for a cell


def table_lines(plans: list[PresencePlan]) -> list[str]:
    """Return a line per grid: cells, expected errors, share of traffic in open cells."""
    head = (
        "resolution", "km wide", "hexagons", "timeslot", "cells", "error", "weight off by",
        "open traffic", "usable",
    )  # fmt: skip
    rows = [head, *(_row(plan) for plan in plans)]
    widths = [max(len(row[k]) for row in rows) for k in range(len(head))]
    return [
        "  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True))
        for row in rows
    ]


def _row(plan: PresencePlan) -> tuple[str, ...]:
    grid, prediction = plan.facts.grid.table.grid, plan.prediction
    assert isinstance(grid, Cells)  # noqa: S101  see comparable_plans
    usable = "no" if plan.refusal else "yes"
    if isinstance(prediction, CountedPrediction):
        prediction = prediction.statistics
    hexagons = plan.facts.cells.n_places or 0
    place = (
        str(grid.resolution),
        f"{across(grid.resolution):.2g}",
        "one number" if hexagons == 1 else f"{hexagons:,}",
        grid.timeslot or "none",
        f"{plan.facts.grid.n_cells:,}",
    )
    if isinstance(prediction, UnitCountPrediction):
        return (*place, "", f"{prediction.count_error:.3g}", "", usable)
    error = (
        prediction.quantile_error
        if isinstance(prediction, ShapePrediction)
        else prediction.mean_error
    )
    return (
        *place,
        f"{error:.2g}",
        f"{prediction.weight_error:.2g} of {prediction.typical_weight:.3g}",
        f"{prediction.open_traffic:.0%}",
        usable,
    )


def _row_json(plan: PresencePlan) -> dict[str, Any]:
    grid = plan.facts.grid.table.grid
    assert isinstance(grid, Cells)  # noqa: S101  see comparable_plans
    return {
        "resolution": grid.resolution,
        "kilometres": across(grid.resolution),
        "hexagons": plan.facts.cells.n_places,
        "timeslot": grid.timeslot,
        "cells": plan.facts.grid.n_cells,
        "prediction": plan.figures(),
        "usable": plan.refusal is None,
    }
