"""Grids that a declared fleet supports under private presence: on paper, no record is read."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hexveil.base.errors import InputError
from hexveil.cli import planned_release
from hexveil.model.cells import Cells, slot_seconds
from hexveil.model.column_facts import DeclaredColumns
from hexveil.planning.feasibility.advice import CommonGrid, DeclaredAssessment
from hexveil.planning.feasibility.grids import (
    FINEST,
    MIN_HEXAGONS,
    MOST_RESOLUTIONS,
    OFFERED_SLOTS,
    OTHER_GRIDS,
)
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
    """Yield plans on the declared area at other resolutions and timeslots; none for labels.

    From a map of a few hexagons to the first resolution at which no timeslot is usable, and the
    declared one.
    """
    options = planned_release.read_options(run)
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


def _plan_on(run: Run, options: arguments.Arguments, grid: Cells, slot: str | None) -> Any:  # noqa: ANN401  a plan, or None
    """Return the plan on one grid; None where it cannot be declared."""
    try:
        facts = declare(**options | {"cells": replace(grid, timeslot=slot)})
        return planned_release.plan_declared(run, facts)
    except InputError:
        return None  # too fine to be declared, or too coarse for a cell
