"""Manifest of a release of several value columns: their joint promise. Public facts only.

Each column has a manifest of its own, in its own folder.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from hexveil.base.rational import decimal_text
from hexveil.publishing.columns.column_table import column_prefixes
from hexveil.publishing.manifest import (
    SCHEMA_VERSION,
    epsilon_text,
    guarantee_section,
    loss_section,
    schema,
    software_versions,
)
from hexveil.report.promise import one_of_columns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hexveil.planning.columns.column_plan import ColumnPlans

    Json = dict[str, Any]

KIND = "columns"
"""Value of `kind` in these manifests."""
_EPSILON = {"type": "string", "pattern": "^[0-9]{1,400}(\\.[0-9]{1,400})?$"}


def build_columns_manifest(
    dataset: str, plan: ColumnPlans, request: str, ledger: Mapping[str, Any] | None
) -> Json:
    """Return the manifest as it is written to `manifest.json`.

    Parameters
    ----------
    dataset : str
        Name of the data set in the ledger.
    plan : ColumnPlans
    request : str
        Fingerprint of the request.
    ledger : mapping or None
        Position of the release in the ledger.
    """
    facts = plan.facts
    prefixes = column_prefixes([*facts.columns])
    # Data sets that were combined can come from different places.
    identities = [one.identity for one in facts.columns.values()]
    versions = {one.get("version") for one in identities}
    return {
        "kind": KIND,
        "schema_version": SCHEMA_VERSION,
        "software": software_versions(),
        "dataset": {
            "name": dataset,
            "version": versions.pop() if len(versions) == 1 else None,
            "sources": list(dict.fromkeys(one.get("source", "not named") for one in identities)),
        },
        "guarantee": guarantee_section(facts.leading, plan.requested_epsilon, plan.epsilon),
        "statistics": list(plan.statistics),
        "columns": [
            {
                "column": column,
                "folder": prefixes[column],
                "value_unit": own.value_unit,
                "weight": decimal_text(plan.weights[column]),
                "epsilon": epsilon_text(plan.plans[column].epsilon),
                "users": own.occupancy.n_users,
                "records": own.occupancy.n_records,
                "cells": own.occupancy.n_cells,
            }
            for column, own in facts.columns.items()
        ],
        "losses": loss_section(plan.losses()),
        "request": request,
        "ledger": None if ledger is None else dict(ledger),
    }


def as_one_of_columns(manifest: Json, plan: ColumnPlans) -> Json:
    """Return the manifest of one column with the sentence on the release that it belongs to."""
    guarantee = dict(manifest["guarantee"])
    sentence = one_of_columns([*plan.plans], Fraction(epsilon_text(plan.epsilon)))
    guarantee["assumptions"] = [*guarantee["assumptions"], sentence]
    together = together_section([*plan.plans], Fraction(epsilon_text(plan.epsilon)))
    return manifest | {"guarantee": guarantee, "columns_together": together}


def together_section(columns: Sequence[str], epsilon: Fraction) -> Json:
    """Return the section of a column's manifest about the release that it belongs to."""
    return {"columns": list(columns), "epsilon_spent": decimal_text(epsilon)}


def columns_schema() -> Json:
    """Return the JSON Schema of a manifest of this kind, composed of that of every manifest."""
    of_moments = schema()
    parts = of_moments["properties"]
    text, count = {"type": "string"}, {"type": "integer", "minimum": 0}
    guarantee = parts["guarantee"] | {
        "required": [name for name in parts["guarantee"]["required"] if name != "l0_epsilon"]
    }
    column = {
        "column": text,
        "folder": {"type": "string", "pattern": "^[A-Za-z0-9_]{1,80}$"},
        "value_unit": text,
        "weight": text,
        "epsilon": _EPSILON,
        **dict.fromkeys(("users", "records", "cells"), count),
    }
    dataset = {
        "name": text,
        "version": {"type": ["string", "null"]},
        "sources": {"type": "array", "items": text},
    }
    same = ("schema_version", "software", "losses", "request", "ledger")
    properties = {name: parts[name] for name in same} | {
        "kind": {"const": KIND},
        "title": parts["title"],
        "subtitle": parts["subtitle"],
        "catalogue": parts["catalogue"],
        "dataset": _object(dataset),
        "guarantee": guarantee,
        "statistics": {"type": "array", "minItems": 1, "maxItems": 43, "items": text},
        "columns": {"type": "array", "minItems": 2, "maxItems": 50, "items": _object(column)},
    }
    return {
        "$schema": of_moments["$schema"],
        "title": "Manifest of a hexveil release of several value columns",
        "type": "object",
        "properties": properties,
        "required": sorted(properties.keys() - {"title", "subtitle", "catalogue"}),
        "additionalProperties": False,
    }


def _object(properties: Json) -> Json:
    return {
        "type": "object",
        "properties": properties,
        "required": sorted(properties),
        "additionalProperties": False,
    }
