"""Grids that a declared fleet supports under private presence: on paper, no record is read."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from hexveil.base.errors import InputError
from hexveil.cli import planned_release
from hexveil.model.cells import Cells
from hexveil.model.declared_grid import DeclaredColumns
from hexveil.planning.feasibility.advice import CommonGrid, DeclaredAssessment
from hexveil.planning.feasibility.grids import OTHER_GRIDS, on_declared_grids
from hexveil.records.progress import show_progress
from hexveil.records.read import declare

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hexveil.config import Run, arguments


def assessed(plans: Mapping[str, Any]) -> CommonGrid:
    """Return the assessment of a declared grid for each value column."""
    return CommonGrid({column: DeclaredAssessment(own) for column, own in plans.items()})


def check_terminal(run: Run, *, as_json: bool) -> None:
    """Refuse counts of records wherever somebody else could have them."""
    if run.privacy.quiet_records:
        raise InputError("--from-records and quiet_records cannot be combined.")
    if as_json or not sys.stderr.isatty():
        raise InputError(
            "--from-records shows private counts on a terminal only; run it without --json, "
            "without a pipe and without writing its output to a file."
        )


def comparable_plans(run: Run) -> Iterator[Any]:
    """Yield plans on the declared area at other resolutions and timeslots; none for labels."""
    options = planned_release.read_options(run)
    cells = options["cells"]
    if isinstance(cells, Cells):
        with show_progress(OTHER_GRIDS):
            yield from on_declared_grids(
                cells, partial(_plan_on, run, options), partial(_n_hexagons, options)
            )


def _n_hexagons(options: arguments.Arguments, grid: Cells) -> int:
    """Return how many hexagons the declared area has; 0 where it cannot be declared."""
    try:
        facts = declare(**options | {"cells": replace(grid, timeslot=None)})
    except InputError:
        return 0  # too fine, or too coarse for a cell
    leading = facts.leading if isinstance(facts, DeclaredColumns) else facts
    return leading.cells.n_places or 0


def _plan_on(run: Run, options: arguments.Arguments, grid: Cells) -> Any:  # noqa: ANN401  a plan, or None
    """Return the plan on one grid; None where it cannot be declared."""
    try:
        facts = declare(**options | {"cells": grid})
        return planned_release.plan_declared(run, facts)
    except InputError:
        return None  # too fine to be declared, or too coarse for a cell
