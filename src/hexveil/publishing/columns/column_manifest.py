"""Manifest of a release of several value columns: their joint promise. Public facts only.

Each column has a manifest of its own, in its own folder.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from hexveil.base.rational import decimal_text
from hexveil.model.public_metadata import PublicMetadata
from hexveil.publishing.columns.column_table import column_prefixes
from hexveil.publishing.manifest import (
    SCHEMA_VERSION,
    booking_sections,
    epsilon_text,
    guarantee_section,
    loss_section,
    software_versions,
)
from hexveil.publishing.presence.presence_manifest import MODEL as PRESENCE
from hexveil.report.promise_wording import Protect, one_of_columns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hexveil.model.declared_grid import DeclaredFacts
    from hexveil.planning.plan import Plan

    Json = dict[str, Any]

KIND = "columns"
"""Value of `kind` in these manifests."""


def build_columns_manifest(
    dataset: str, plan: Plan, request: str, ledger: Mapping[str, Any] | None
) -> Json:
    """Return the manifest as it is written to `manifest.json`.

    Parameters
    ----------
    dataset : str
        Name of the data set in the ledger.
    plan : Plan
        Under private presence nothing of a record is stated, and no loss of a single unit.
    request : str
        Fingerprint of the request.
    ledger : mapping or None
        Position of the release in the ledger.
    """
    facts, is_private = plan.columns_facts, plan.is_declared
    prefixes = column_prefixes([*facts.columns])
    guarantee = guarantee_section(
        facts.leading, plan.epsilon_limit, plan.epsilon,
        protect=PRESENCE if is_private else "values", delta=plan.delta,
    )  # fmt: skip
    # Data sets that were combined can come from different places.
    identities = [column_facts.identity for column_facts in facts.columns.values()]
    versions = {identity.get("version") for identity in identities}
    return {
        "kind": KIND,
        **({"model": PRESENCE} if is_private else {}),
        "schema_version": SCHEMA_VERSION,
        "software": software_versions(),
        "dataset": {
            "name": dataset,
            "version": versions.pop() if len(versions) == 1 else None,
            "sources": list(
                dict.fromkeys(identity.get("source", "not named") for identity in identities)
            ),
        },
        "guarantee": guarantee,
        "statistics": list(plan.statistics),
        "columns": [
            {
                "column": column,
                "folder": prefixes[column],
                "value_unit": column_facts.value_unit,
                **_importance(plan, column),
                "epsilon": epsilon_text(plan.components[column].epsilon),
                **_counts(column_facts),
            }
            for column, column_facts in facts.columns.items()
        ],
        **({"losses": loss_section(plan)} if not is_private else {}),
        **booking_sections((request, ledger)),
    }


def _importance(plan: Plan, column: str) -> Json:
    """Return the weight of a column in the division of ε, or its targets."""
    if plan.requested_epsilon is None:
        return {"targets": plan.components[column].targets}
    return {"weight": decimal_text(plan.weights[column])}


def _counts(facts: PublicMetadata | DeclaredFacts) -> Json:
    """Return the counts of a column that are public: of declared ones the cells alone."""
    if isinstance(facts, PublicMetadata):
        occupancy = facts.occupancy
        users, records = occupancy.n_users, occupancy.n_records
        return {"users": users, "records": records, "cells": occupancy.n_cells}
    return {"cells": facts.grid.n_cells}


def as_one_of_columns(manifest: Json, plan: Plan) -> Json:
    """Return the manifest of one column with the sentence on the release that it belongs to."""
    guarantee = dict(manifest["guarantee"])
    protect: Protect = PRESENCE if plan.is_declared else "values"
    spent = Fraction(epsilon_text(plan.epsilon))
    sentence = one_of_columns([*plan.components], spent, plan.delta, protect=protect)
    guarantee["assumptions"] = [*guarantee["assumptions"], sentence]
    together = together_section([*plan.components], spent)
    return manifest | {"guarantee": guarantee, "columns_together": together}


def together_section(columns: Sequence[str], epsilon: Fraction) -> Json:
    """Return the section of a column's manifest about the release that it belongs to."""
    return {"columns": list(columns), "epsilon_spent": decimal_text(epsilon)}
