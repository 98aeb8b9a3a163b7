"""The steps that commands share: read, plan, what a plan means."""

from __future__ import annotations

import inspect
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hexveil.base.errors import InputError
from hexveil.config import arguments
from hexveil.model.cells import Cells
from hexveil.planning.api import plan as make_plan
from hexveil.planning.feasibility.advice import advice
from hexveil.planning.feasibility.capacity import assess_grids
from hexveil.planning.feasibility.capacity import capacity as table
from hexveil.planning.feasibility.recommendation import WEAKER_UNITS
from hexveil.records.progress import shown
from hexveil.records.read import read as read_records
from hexveil.records.sql import sums_query

if TYPE_CHECKING:
    from hexveil.config import Run
    from hexveil.model.public_metadata import PublicMetadata
    from hexveil.planning import Capacity, Plan
    from hexveil.records import Dataset


def reached(run: Run, path: Path) -> Path:
    """Return a path of the run as it is reached from where the command was called."""
    return Path(os.path.normpath(run.folder / path))


def typed(path: Path) -> Path:
    """Return a full path as it is reached from the run's folder, where a command stands."""
    try:
        return Path(os.path.relpath(path))
    except ValueError:  # another drive
        return path


def read(run: Run) -> Dataset:
    """Return the run's records, read into sums."""
    source, given = arguments.source(run), arguments.read_arguments(run, read_records)
    return read_records(source, **given)


def query(run: Run, dialect: str) -> str:
    """Return the SQL that makes the run's sums elsewhere; nothing is read."""
    source, given = arguments.source(run), arguments.read_arguments(run, read_records)
    if not isinstance(source, str):
        raise InputError("a query needs a single source; name one table or file.")
    taken = inspect.signature(sums_query).parameters
    known = {name: value for name, value in given.items() if name in taken}
    return sums_query(source=source, dialect=dialect, **known)


def price_named(run: Run) -> None:
    """Refuse a plan that cannot be made before the records are read."""
    arguments.plan_arguments(run, make_plan)


def planned(run: Run, facts: PublicMetadata) -> Plan:
    """Return the run's plan for public facts; nothing is spent."""
    return _made(arguments.plan_arguments(run, make_plan), facts)


def _made(given: dict[str, Any], facts: PublicMetadata) -> Plan:
    with shown("Planning"):
        return make_plan(facts, **given, advise=False)


def coarser(run: Run, facts: PublicMetadata) -> Plan | None:
    """Return the same plan one resolution coarser; None where there is none."""
    grid = facts.cells.grid
    if facts.recount is None or not isinstance(grid, Cells) or grid.resolution == 0:
        return None
    (found,) = facts.recount((replace(grid, resolution=grid.resolution - 1),), facts.privacy_unit)
    if found is None:
        return None
    given = arguments.plan_arguments(run, make_plan)
    if (
        given.get("clipping_range") == "two-stage"
        and not (found.occupancy.cells_per_user > 1).any()
    ):
        given["clipping_range"] = "private"
    return _made(given, found)


def too_fine(plan: Plan) -> str | None:
    """Return why this grid is too fine for this fleet and what would help; None if it is not."""
    if plan.support.supported:
        return None
    with shown("Looking for a usable grid"):
        return advice(plan).text


def gap(plan: Plan) -> float | None:
    """Return the gap of the plan's certificate, which can take longer than the plan."""
    with shown("Computing the lower bound"):
        return plan.gap


def plan_json(plan: Plan) -> dict[str, Any]:
    """Return what a plan means, for machines; all of it is public."""
    support = plan.support
    return {
        "cells": support.cells,
        "users": support.users,
        "records": int(plan.occupancy.n.sum()),
        "epsilon_asked": float(plan.asked),
        "epsilon": float(plan.epsilon),
        "l0_epsilon": float(plan.l0_epsilon),
        "method": plan.method,
        "statistics": list(plan.statistics),
        "mean_error": plan.mean_error,
        "max_error": plan.max_error,
        "certificate": {
            "about": plan.certifies,
            "gap": gap(plan),
            "lower_bound": plan.lower_bound,
        },
        "baseline_error": support.baseline_error,
        "floor": support.floor,
        "better": support.better,
        "supported": support.supported,
    }


def capacity(run: Run, facts: PublicMetadata, epsilon: str) -> Capacity:
    """Return what the fleet can support at `epsilon`."""
    asked = run.plan.given()
    taken = ("method", "objective", "baseline_error", "clipping_range", "range_share")
    same: dict[str, Any] = {name: asked[name] for name in taken if name in asked}
    if "mechanism" in asked:
        same["mechanism"] = arguments.mechanism(asked["mechanism"])
    with shown("Planning on other grids"):
        return table(facts, epsilon=epsilon, **same)


def grids(run: Run, made: Plan, *, weaker: bool) -> Capacity | None:
    """Return what the plan's request would allow on other grids; None if it costs nothing.

    With `weaker`, for weaker units of privacy too, where records have a local time.
    """
    facts = made.facts
    assert facts is not None  # noqa: S101  plans are made for records here
    if not made.asked:
        return None
    units = [facts.privacy_unit]
    timed = run.columns.time is not None and facts.identity.get("timezone", "none") != "none"
    if weaker and timed:
        units += WEAKER_UNITS[facts.privacy_unit]
    with shown("Planning on other grids"):
        return assess_grids(made, privacy_units=units)
