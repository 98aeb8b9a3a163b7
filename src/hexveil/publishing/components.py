"""Components of a manifest: statements about each value column, and about all together.

A manifest has what all value columns share, and a component for each. Checks, page, README.txt and
dossier look at one value column with what it shares: at its *statements*. A release of one value
column is the statements of that one.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from hexveil.base.rational import decimal_text
from hexveil.publishing.promise_section import promise_section
from hexveil.publishing.value_columns import column_prefixes
from hexveil.report.manifest_view import format_heading
from hexveil.report.promise_wording import one_of_columns

if TYPE_CHECKING:
    from collections.abc import Mapping

    Json = dict[str, Any]

PRESENCE = "presence"
EPSILONS = ("epsilon_requested", "epsilon_spent", "l0_epsilon")
"""Fields of a component about its loss."""
_NOT_SHARED = ("components", "losses", "dataset", "guarantee")


def is_private(manifest: Mapping[str, Any]) -> bool:
    """Return whether presence is private in a release."""
    return bool(manifest["guarantee"]["protect"] == PRESENCE)


def epsilon_spent(manifest: Mapping[str, Any]) -> Fraction:
    """Return the loss of the most exposed unit, or of any unit under private presence."""
    if "losses" in manifest:
        # Verification compares the stated losses with the noise scales of the table.
        return Fraction(float(manifest["losses"]["max"]))
    return Fraction(manifest["guarantee"]["epsilon_spent"])


def column_names(manifest: Mapping[str, Any]) -> list[str]:
    """Return the names of the value columns, in order."""
    return [component["dataset"]["value"] for component in manifest["components"]]


def statements(manifest: Json) -> dict[str, Json]:
    """Return the statements of each value column, by its name."""
    return {
        column: _statements(alone)
        for column, alone in zip(column_names(manifest), each_alone(manifest), strict=True)
    }


def each_alone(manifest: Json) -> list[Json]:
    """Return the manifest of each value column as one of its own, which names the whole."""
    if len(manifest["components"]) == 1:
        return [manifest]
    return [_alone(manifest, component) for component in manifest["components"]]


def _alone(manifest: Json, component: Json) -> Json:
    guarantee, columns = manifest["guarantee"], column_names(manifest)
    delta, protect = Fraction(guarantee.get("delta", 0)), guarantee["protect"]
    total = Fraction(guarantee["epsilon_spent"])
    own = promise_section(
        guarantee["privacy_unit"], component["epsilon_requested"], component["epsilon_spent"],
        dropped=component["selection"].get("drop_values", "none"), protect=protect, delta=delta,
    )  # fmt: skip
    own["assumptions"].append(one_of_columns(columns, total, delta, protect=protect))
    title = f"{manifest.get('title', '')}: {component['dataset']['value']}"
    return {
        **manifest,
        **({"title": title} if "title" in manifest else {}),
        "guarantee": own,
        "columns_together": {"columns": columns, "epsilon_spent": decimal_text(total)},
        **({"losses": component["losses"]} if "losses" in component else {}),
        "components": [{key: value for key, value in component.items() if key != "weight"}],
        # A column of constants alone cost nothing, whatever the others did.
        "ledger": manifest["ledger"] if Fraction(component["epsilon_spent"]) else None,
    }


def _statements(alone: Json) -> Json:
    """Return the statements of the only value column of a manifest."""
    (component,) = alone["components"]
    shared = {key: value for key, value in alone.items() if key not in _NOT_SHARED}
    epsilons = {key: component[key] for key in EPSILONS if key in component}
    return {
        **({"model": PRESENCE} if is_private(alone) else {}),
        **shared,
        **{key: value for key, value in component.items() if key not in EPSILONS},
        "dataset": alone["dataset"] | component["dataset"],
        "guarantee": alone["guarantee"] | epsilons,
    }


def statements_of_whole(manifest: Json) -> Json:
    """Return the statements of all value columns together, for page and descriptions.

    `columns` has an entry for each of several.
    """
    stated = statements(manifest)
    leading = next(iter(stated.values()))
    if len(stated) == 1:
        return leading
    prefixes, names = column_prefixes([*stated]), ", ".join(stated)
    shared = {key: value for key, value in manifest.items() if key != "components"}
    identities = [component["dataset"] for component in manifest["components"]]
    versions = {identity["version"] for identity in identities}
    units = {identity["value_unit"] for identity in identities}
    sources = dict.fromkeys(source for one in identities for source in one["sources"])
    statistics = leading["plan"]["statistics"]
    entries = zip(prefixes.values(), manifest["components"], stated.values(), strict=True)
    return shared | {
        **({"model": PRESENCE} if is_private(manifest) else {}),
        "selection": leading["selection"],
        "dataset": manifest["dataset"]
        | {
            "version": versions.pop() if len(versions) == 1 else None,
            "sources": [*sources],
            "value": names,
            "value_unit": units.pop() if len(units) == 1 else "",
        },
        "plan": {"statistics": statistics},
        "heading": format_heading(statistics, names),
        "columns": [_entry(*entry) for entry in entries],
    }


def _entry(prefix: str, component: Json, stated: Json) -> Json:
    """Return the facts about one of several value columns, in a line."""
    # Of means and variances alone: parts of distributions have an epsilon each.
    targets = stated["plan"].get("request", {}).get("targets")
    counts = {"cells": stated["grid"].get("cells")}
    if "losses" in stated:
        counts = {
            "users": stated["losses"]["units"],
            "records": stated["occupancy"]["records"],
            "cells": len(stated["cells"]),
        }
    return {
        "column": component["dataset"]["value"],
        "prefix": prefix,
        "value_unit": component["dataset"]["value_unit"],
        "targets": targets or [],
        "epsilon": component["epsilon_spent"],
        **counts,
    }
