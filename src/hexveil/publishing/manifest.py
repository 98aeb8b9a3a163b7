"""Manifest of a release: its guarantee, plan and losses, for programs. Public facts only.

It holds no true mean, no count of clamped rows, no file size, no time stamp and no hash of
contents: those depend on values.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from hexveil.base.optional_packages import installed_version
from hexveil.base.rational import decimal_text
from hexveil.model.cells import Cells, Labels
from hexveil.model.declared_grid import ColumnFacts, DeclaredFacts
from hexveil.model.public_metadata import PublicMetadata, ValueLattice
from hexveil.planning.component import goal
from hexveil.planning.plan import Plan
from hexveil.publishing.kinds.guarantee import (
    epsilon_text,
    loss_section,
    promise_section,
    requested_text,
)

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
        "software": {name: installed_version(name) for name in ("hexveil", *LIBRARIES)},
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
        names = ("resolution", "timeslot", "timezone", "slot")
        return {"kind": "hexagons"} | {name: getattr(grid, name) for name in names}
    return {"kind": "labels", "columns": list(grid.columns)}


# ---- manifests of schema version 4 ----

FORMER = 4
SHARED = (
    *("software", "grid", "title", "subtitle", "catalogue", "columns_together", "request"),
    "ledger",
)
ALWAYS = {"error": "separate", "exempt": "smallest"}
"""Fields of a request that were stated, with the one meaning that is left."""
GONE = (
    *("certifies", "lower_bound", "gap", "baseline_error", "noise_floor"),
    *("cells_better_than_constant", "cut_off", "occupancy_fingerprint"),
)
"""Figures that were stated, and are in no page, or follow from others."""


def as_current(former: dict[str, Any]) -> dict[str, Any]:
    """Return the manifest of one value column as one of today; the schema refuses one with gaps."""
    stated = _in_words_of_today(former)
    private = stated.pop("model", None) == "presence"
    kind = stated.pop("kind", "presence" if private else "moments")
    shared = {key: stated.pop(key) for key in SHARED if key in stated}
    dataset, guarantee = (
        part if isinstance(part := stated.pop(key, None), dict) else {}
        for key in ("dataset", "guarantee")
    )
    name = {key: dataset.pop(key) for key in ("name",) if key in dataset}
    losses = ("epsilon_requested", "epsilon_spent", "l0_epsilon")
    epsilons = {key: guarantee[key] for key in losses if key in guarantee}
    guarantee.pop("l0_epsilon", None)
    return {
        "schema_version": SCHEMA_VERSION,
        "dataset": name,
        "guarantee": {"protect": "presence" if private else "values"} | guarantee,
        **({"losses": stated["losses"]} if "losses" in stated else {}),
        "components": [{"kind": kind, "dataset": dataset, **epsilons, **stated}],
        **shared,
    }


def _in_words_of_today(stated: Any, depth: int = 4) -> Any:  # noqa: ANN401  JSON
    """Return statements without what is gone, also in their parts; other words are refused."""
    if not (depth and isinstance(stated, dict)):
        return stated
    gone = {"schema_version", *GONE}
    return {
        key: _in_words_of_today(part, depth - 1)
        for key, part in stated.items()
        if key not in gone and (key, part) not in ALWAYS.items()
    }
