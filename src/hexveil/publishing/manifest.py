"""Manifest of a release: its guarantee, plan and losses, for programs. Public facts only.

It holds no true mean, no count of clamped rows, no file size, no time stamp and no hash of
contents: those depend on values.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hexveil.base.rational import decimal_text
from hexveil.model.cells import Cells, Labels
from hexveil.model.declared_grid import ColumnFacts, DeclaredFacts
from hexveil.model.public_metadata import PublicMetadata, ValueLattice
from hexveil.planning.component import PlanComponent, goal
from hexveil.planning.distribution.distribution_plan import DistributionComponent
from hexveil.planning.moment_component import MomentComponent
from hexveil.planning.moment_tables import grids_of
from hexveil.planning.plan import Plan
from hexveil.planning.request import Request
from hexveil.publishing.estimates.smoothed_estimates import smoothing_statement
from hexveil.publishing.privacy_steps import privacy_steps
from hexveil.publishing.promise_section import epsilon_text, promise_section, requested_text
from hexveil.smoothing import Smoothed

Booked = tuple[str, "Mapping[str, Any] | None"]
SCHEMA_VERSION = 5
LIBRARIES = ("duckdb", "numpy", "opendp", "pyarrow")
_SELECTION = ("select", "drop_values", "timezone")
"""Entries of the identity that select records; the time zone is the clock of their days."""


def request_of(dataset: str, facts: PublicMetadata | ColumnFacts, plan: Plan) -> dict[str, str]:
    """Return the public request in words: its goal, and the records it is about.

    Equal requests replay, so it holds no file name, and no number that a solver found.
    """
    if isinstance(facts, ColumnFacts):
        columns = {name: record_facts(dataset, own) for name, own in facts.columns.items()}
        records = {
            "dataset": dataset,
            "unit": facts.privacy_unit,
            "columns": json.dumps(columns, sort_keys=True),
        }
    else:
        records = record_facts(dataset, facts)
    return records | {f"plan.{k}": v for k, v in sorted(goal(plan).items())}


def record_facts(dataset: str, facts: PublicMetadata) -> dict[str, str]:
    """Return the records that a request is about, in words."""
    # A moved or renamed file holds the same records: its name would make it another request.
    identity = {k: v for k, v in facts.identity.items() if k != "source"}
    return {
        "dataset": dataset,
        "value": facts.value,
        "value_unit": facts.value_unit,
        "unit": facts.privacy_unit,
        "bounds": f"{decimal_text(facts.lattice.lower)}..{decimal_text(facts.lattice.upper)}",
        "quantum": decimal_text(facts.lattice.quantum),
        "grid": repr(facts.cells.grid),
        "names": hashlib.sha256(json.dumps(facts.cells.names()).encode()).hexdigest(),
        **{f"records.{k}": v for k, v in sorted(identity.items())},
    }


def fingerprint(request: dict[str, str]) -> str:
    """Return the SHA-256 of a public request."""
    # JSON keeps fields apart: joined text could be the same for different requests.
    return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()


def moment_entry(
    facts: PublicMetadata,
    plan: MomentComponent,
    smoothed: Mapping[str, Smoothed] | None = None,
    accuracy: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Return the entry of means and variances in a manifest.

    Parameters
    ----------
    facts : PublicMetadata
    plan : MomentComponent
    smoothed : mapping of str to Smoothed
        Estimates that were asked for beside the raw ones.
    accuracy : sequence of mapping
        An entry for each statistic (publishing/estimates/accuracy.py).
    """
    return {
        "l0_epsilon": epsilon_text(plan.l0_epsilon),
        "rules": dict(facts.rules),
        "plan": plan_section(plan, plan.with_lower_bound()),
        "losses": loss_section(plan),
        "cells": planned_cells(facts, plan),
        "accuracy": [dict(statement) for statement in accuracy],
        "cut_off": cut_off_section(plan, accuracy),
        "smoothing": smoothing_statement(
            plan,
            smoothed or {},
            posterior=any(statement["basis"] == "posterior" for statement in accuracy),
        ),
        **occupancy_sections(plan),
    }


def build_manifest(
    dataset: str,
    plan: Plan,
    facts: Mapping[str, PublicMetadata | DeclaredFacts],
    entries: Mapping[str, Mapping[str, Any]],
    booking: Booked,
) -> dict[str, Any]:
    """Return the manifest as it is written to `manifest.json`.

    Parameters
    ----------
    dataset : str
        Name of the data set in the ledger.
    plan : Plan
    facts : mapping
        Facts of each value column, as they were read.
    entries : mapping
        What the kind of each value column's part states (publishing/part_kinds.py).
    booking : tuple
        Fingerprint of the request; position of the release in the ledger, or None if it cost
        nothing.
    """
    components = [_component(plan, column, facts[column], entries[column]) for column in facts]
    leading, (request, ledger) = facts[next(iter(facts))], booking
    limit = components[0]["epsilon_requested"]
    if not plan.is_single:
        limit = requested_text(plan.epsilon_limit, plan.epsilon)
    return {
        "schema_version": SCHEMA_VERSION,
        "software": software_versions(),
        "dataset": {"name": dataset},
        "guarantee": promise_section(
            leading.privacy_unit, limit, epsilon_text(plan.epsilon),
            dropped=leading.identity.get("drop_values", "none"), delta=plan.delta,
            protect="presence" if plan.is_declared else "values",
        ),
        "grid": grid_section(leading),
        # No loss of a single unit is stated where presence is private.
        **({} if plan.is_declared else {"losses": loss_section(plan)}),
        "components": components,
        "request": request,
        "ledger": None if ledger is None else dict(ledger),
    }  # fmt: skip


def _component(
    plan: Plan, column: str, facts: PublicMetadata | DeclaredFacts, entry: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the entry of one value column in a manifest."""
    # A single column is named by its facts alone.
    part = plan.single if plan.is_single else plan.components[column]
    weight = {} if column not in plan.weights else {"weight": decimal_text(plan.weights[column])}
    return {
        "kind": part.kind,
        "dataset": dataset_section(facts),
        **weight,
        "epsilon_requested": requested_text(part.requested_epsilon, part.epsilon),
        "epsilon_spent": epsilon_text(part.epsilon),
        "bounds": bounds_section(facts.lattice),
        "selection": selection_section(facts),
        **entry,
    }


def bounds_section(lattice: ValueLattice) -> dict[str, str]:
    """Return the section of a manifest about bounds and quantum of values."""
    ends = {"lower": lattice.lower, "upper": lattice.upper, "quantum": lattice.quantum}
    return {name: decimal_text(number) for name, number in ends.items()}


def cell_sections(facts: PublicMetadata | DeclaredFacts) -> dict[str, Any]:
    """Return the sections of a manifest about cells that are known before a release."""
    return {"grid": grid_section(facts), "selection": selection_section(facts)}


def grid_section(facts: PublicMetadata | DeclaredFacts) -> dict[str, Any]:
    """Return the section of a manifest about the cells; declared ones are counted."""
    section = cell_grid(facts.cells.grid)
    if isinstance(facts, DeclaredFacts):
        grid = facts.grid
        section |= {
            "cells": grid.n_cells, "fingerprint": grid.fingerprint(), "in_use": grid.is_in_use,
        }  # fmt: skip
    return section


def selection_section(facts: PublicMetadata | DeclaredFacts) -> dict[str, str]:
    """Return the section of a manifest about which records were selected."""
    return {k: facts.identity[k] for k in _SELECTION if k in facts.identity}


@cache
def _version(name: str) -> str:
    """Return the version of an installed distribution, which is read from a file."""
    return importlib.metadata.version(name)


def software_versions() -> dict[str, str]:
    """Return the versions of hexveil and of the libraries that made a release."""
    return {name: _version(name) for name in ("hexveil", *LIBRARIES)}


def dataset_section(facts: PublicMetadata | DeclaredFacts) -> dict[str, Any]:
    """Return the section of a component about its records: public or declared facts."""
    return {
        "version": facts.identity.get("version"),
        "sources": [facts.identity.get("source", "not named")],
        "columns": facts.identity.get("columns", ""),
        "repeats": facts.identity.get("repeats", ""),
        "value": facts.value,
        "value_unit": facts.value_unit,
    }


def cell_grid(grid: Cells | Labels) -> dict[str, Any]:
    """Return the definition of a cell, as the manifest states it."""
    if isinstance(grid, Cells):
        return {
            "kind": "hexagons",
            "resolution": grid.resolution,
            "timeslot": grid.timeslot,
            "timezone": grid.timezone,
            "slot": grid.slot,
        }
    return {"kind": "labels", "columns": list(grid.columns)}


def plan_section(plan: MomentComponent, bounded: MomentComponent) -> dict[str, Any]:
    """Return the section of a manifest about a plan.

    Parameters
    ----------
    plan : MomentComponent
    bounded : MomentComponent
        The same with the lower bound that is stated.
    """
    support = plan.support
    return {
        "method": plan.method,
        "mechanism": plan.mechanism,
        "statistics": list(plan.statistics),
        "request": _request(plan.request),
        "mean_error": plan.expected_error,
        "max_error": plan.worst_case_error,
        "certifies": plan.bound_kind,
        "lower_bound": bounded.lower_bound,
        "gap": bounded.gap,
        "baseline_error": support.baseline_error,
        "noise_floor": support.floor,
        "cells_better_than_constant": support.better,
        "privacy_steps": privacy_steps(plan),
    }


def _request(request: Request) -> dict[str, Any]:
    """Return the request: an epsilon, or targets by statistic with their smallest and largest."""
    return {
        "clipping_range": request.clipping_range,
        "epsilon": None if request.epsilon is None else decimal_text(request.epsilon),
        "targets": request.target_ranges,
        "objective": request.objective,
        "split": None if request.split is None else decimal_text(request.split),
        **({"history": list(request.history)} if request.history else {}),
    }


def _finite(number: float) -> float | None:
    return float(number) if math.isfinite(number) else None


def loss_section(plan: PlanComponent | Plan) -> dict[str, Any]:
    """Return the section of a manifest about the losses of units."""
    losses = plan.user_losses
    return {
        "units": int(losses.size),
        "max": float(losses.max()),
        "p99": float(np.quantile(losses, 0.99)),
        "p90": float(np.quantile(losses, 0.9)),
        "median": float(np.median(losses)),
        "mean": float(losses.mean()),
        "at_zero": int((losses == 0).sum()),
        **square_section(plan.booked_losses, plan.delta),
    }


def occupancy_section(users: NDArray[Any], records: NDArray[Any]) -> dict[str, int]:
    """Return the section of a manifest about the sums of users and records over all cells."""
    return {"pairs": int(users.sum()), "records": int(records.sum())}


def occupancy_sections(plan: MomentComponent | DistributionComponent) -> dict[str, Any]:
    """Return the sections of a manifest about occupancy."""
    occupancy = plan.occupancy
    return {
        "occupancy": occupancy_section(occupancy.users_per_cell, occupancy.records_per_cell),
        "occupancy_fingerprint": occupancy.fingerprint,
    }


def square_section(booked: NDArray[np.float64], delta: Fraction) -> dict[str, Any]:
    """Return the losses as squares of μ, under a δ: those add up over cells and releases."""
    if not delta:
        return {}
    return {"squared_mu": {"max": float(booked.max()), "mean": float(booked.mean())}}


def cut_off_section(
    plan: MomentComponent, accuracy: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return how many cells of each statistic a private range cut off; empty without a range."""
    if not plan.allocation.clipping.strategy:
        return []
    return [
        {"statistic": statement["statistic"], "cells": statement["grades"]["cut_off"]}
        for statement in accuracy
    ]


def _numbers_or_none(numbers: NDArray[np.float64]) -> list[float | None]:
    """Return numbers, with None where published means lie on a curve and on no grid."""
    return [_finite(number) for number in numbers.tolist()]


def planned_cells(facts: PublicMetadata, plan: MomentComponent) -> list[dict[str, Any]]:
    """Return the plan of each cell, with an entry for each noised statistic."""
    thresholds = {"mean": plan.contribution_cap, "variance": plan.allocation.variance_cap}
    grids = grids_of(plan, facts.lattice)
    own = plan.allocation.clipping.cell_entries(plan)
    columns_by_statistic = [
        own
        | {
            "statistic": [name] * plan.occupancy.n_cells,
            "contribution_cap": thresholds[name].tolist(),
            "scale": statistic.scale.tolist(),
            "bias": statistic.bias.tolist(),
            "bound95": statistic.bound95.tolist(),
            "grid_start": _numbers_or_none(grids[name].start),
            "grid_step": _numbers_or_none(grids[name].step),
        }
        for name, statistic in plan.error_models.items()
    ]
    rows = zip(
        facts.cells.names(),
        plan.cell_mechanisms,
        plan.lower.tolist(),
        plan.upper.tolist(),
        strict=True,
    )
    return [
        {
            "cell": name,
            "mechanism": mechanism,
            "lower": lower,
            "upper": upper,
            "noised": [
                {key: column[g] for key, column in statistic.items()}
                for statistic in columns_by_statistic
            ],
        }
        for g, (name, mechanism, lower, upper) in enumerate(rows)
    ]
