"""Losses, counts and words of the whole, as the manifests of its value columns determine them.

The columns have to be of one request under one booking. Where occupancy is public the largest loss
of the whole lies between the largest of a column and the sum of these, and the sum over all units
is that of the columns; under private presence any unit loses exactly the sum of the columns' ε.
Under a δ squares of μ add up in place of ε.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from hexveil.accounting.gaussian_composition import square_epsilon
from hexveil.accounting.promise import summed
from hexveil.publishing.columns.column_manifest import together_section
from hexveil.publishing.manifest import epsilon_text
from hexveil.publishing.presence.presence_manifest import MODEL as PRESENCE
from hexveil.report.promise_wording import (
    assumptions,
    neighbours,
    not_protected,
    one_of_columns,
    probability_factor,
    promise,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hexveil.report.promise_wording import Protect

    Json = dict[str, Any]

TOLERANCE = 1e-9


def is_private(manifest: Json) -> bool:
    """Return whether presence is private in a release."""
    return manifest.get("model") == PRESENCE


def _protected(manifest: Json) -> Protect:
    """Return the privacy model of a release."""
    return PRESENCE if is_private(manifest) else "values"


def check_together(manifest: Json) -> Iterator[str]:
    """Yield if a column's manifest has another sentence on its release than its figures say."""
    stated, texts = manifest.get("columns_together"), manifest["guarantee"]["assumptions"]
    if stated is not None:
        spent, protect = Fraction(stated["epsilon_spent"]), _protected(manifest)
        delta = Fraction(manifest["guarantee"].get("delta", 0))
        sentence = one_of_columns(stated["columns"], spent, delta, protect=protect)
        if not texts or texts[-1] != sentence:
            yield "guarantee/assumptions does not end with the sentence on all value columns."


def check_columns(manifest: Json, columns: Mapping[str, Json]) -> Iterator[str]:
    """Yield columns that are not of this release, or other than it states."""
    together = together_section([*columns], Fraction(manifest["guarantee"]["epsilon_spent"]))
    for stated in manifest["columns"]:
        name, column_manifest = stated["column"], columns[stated["column"]]
        guarantee = column_manifest["guarantee"]
        pairs = {
            "model": (column_manifest.get("model"), manifest.get("model")),
            "dataset": (column_manifest["dataset"]["name"], manifest["dataset"]["name"]),
            "value": (column_manifest["dataset"]["value"], name),
            "value_unit": (column_manifest["dataset"]["value_unit"], stated["value_unit"]),
            "request": (column_manifest["request"], manifest["request"]),
            "privacy_unit": (guarantee["privacy_unit"], manifest["guarantee"]["privacy_unit"]),
            "epsilon_spent": (guarantee["epsilon_spent"], stated["epsilon"]),
            "statistics": (column_manifest["plan"]["statistics"], manifest["statistics"]),
            "delta": (guarantee.get("delta"), manifest["guarantee"].get("delta")),
            "columns_together": (column_manifest.get("columns_together"), together),
        }
        if not is_private(manifest) and not is_private(column_manifest):
            pairs |= _counted_pairs(manifest, stated, column_manifest)
        elif is_private(manifest) and is_private(column_manifest):
            pairs |= _declared_pairs(manifest, stated, column_manifest)
        for field, (actual, expected) in pairs.items():
            if actual != expected:
                yield f"{stated['folder']}: {field} is not that of the release of all columns."


def _counted_pairs(
    manifest: Json, stated: Json, column_manifest: Json
) -> dict[str, tuple[Any, Any]]:
    """Return pairs of equal facts where occupancy is public: counts and bookings."""
    ledger = manifest["ledger"] if column_manifest["losses"]["max"] > 0 else None
    # Of means and variances alone: parts of distributions have an ε each.
    request = column_manifest["plan"].get("request", {})
    return {
        "targets": (request.get("targets") or [], stated.get("targets", [])),
        "ledger": (column_manifest["ledger"], ledger),
        "users": (column_manifest["losses"]["units"], stated["users"]),
        "cells": (len(column_manifest["cells"]), stated["cells"]),
    }


def _declared_pairs(
    manifest: Json, stated: Json, column_manifest: Json
) -> dict[str, tuple[Any, Any]]:
    """Return pairs of equal facts under private presence: declarations and bookings."""
    return {
        "ledger": (column_manifest["ledger"], manifest["ledger"]),
        "cells": (column_manifest["grid"]["cells"], stated["cells"]),
    }


def _check_private_losses(manifest: Json, columns: Mapping[str, Json]) -> Iterator[str]:
    """Yield if the loss of any unit is not the sum of its losses in all columns."""
    guarantee = manifest["guarantee"]
    spent = Fraction(guarantee["epsilon_spent"])
    if guarantee["epsilon_spent"] != sum_of_parts(columns, guarantee):
        yield "epsilon_spent is not the sum of the losses of the columns."
    yield from _check_words(manifest, columns, spent)


def sum_of_parts(columns: Mapping[str, Json], guarantee: Json) -> str:
    """Return the text of the loss of any unit that the losses of the columns make together."""
    stated = [Fraction(column["guarantee"]["epsilon_spent"]) for column in columns.values()]
    delta = Fraction(guarantee.get("delta", 0))
    return epsilon_text(summed(stated, delta).epsilon)


def check_losses(manifest: Json, columns: Mapping[str, Json]) -> Iterator[str]:
    """Yield losses and words of the whole that those of the columns exclude."""
    private = is_private(manifest)
    return (_check_private_losses if private else _check_public_losses)(manifest, columns)


def _check_public_losses(manifest: Json, columns: Mapping[str, Json]) -> Iterator[str]:
    """Yield losses of the whole that those of the columns exclude."""
    losses, guarantee = manifest["losses"], manifest["guarantee"]
    units = [column["losses"]["units"] for column in columns.values()]
    delta = Fraction(guarantee.get("delta", 0))
    added, name = added_losses(manifest), "squared_mu" if delta else "losses"
    largest = [added_losses(column)["max"] for column in columns.values()]
    room = 1.0 + TOLERANCE
    if not max(largest) <= added["max"] * room or not added["max"] <= sum(largest) * room:
        yield f"{name}/max is not between the largest of a column and the sum of these."
    if delta and not math.isclose(
        square_epsilon(Fraction(added["max"]), delta), losses["max"], rel_tol=TOLERANCE
    ):
        yield "the largest loss is not that of the largest square of mu at this delta."
    if not max(units) <= losses["units"] <= sum(units):
        yield "losses/units is not between the units of a column and the sum of these."
    if not math.isclose(
        losses["units"] * added["mean"], total_loss(columns), rel_tol=1e-6, abs_tol=1e-12
    ):
        yield f"{name}/mean is not that of all columns."
    spent = Fraction(guarantee["epsilon_spent"])
    if guarantee["epsilon_spent"] != epsilon_text(Fraction(losses["max"])):
        yield "epsilon_spent is not the largest loss, rounded up."
    yield from _check_words(manifest, columns, spent)


def _check_words(manifest: Json, columns: Mapping[str, Json], spent: Fraction) -> Iterator[str]:
    """Yield statements of the whole that are not those of its model and loss."""
    guarantee, protect = manifest["guarantee"], _protected(manifest)
    if spent > Fraction(guarantee["epsilon_requested"]) + Fraction(1, 10**11):
        yield "more was spent than asked for."
    unit, factor = guarantee["privacy_unit"], probability_factor(spent)
    delta = Fraction(guarantee.get("delta", 0))
    words = promise(unit, spent, protect=protect, delta=delta), neighbours(unit, protect=protect)
    if (guarantee["promise"], guarantee["neighbours"]) != words:
        yield "guarantee/promise or guarantee/neighbours is not that of this loss."
    stated = guarantee["probability_factor"]
    if (stated is None) == math.isfinite(factor) or (
        stated is not None and not math.isclose(stated, factor, rel_tol=TOLERANCE)
    ):
        yield "guarantee/probability_factor is not e to the power of epsilon_spent."
    leading = next(iter(columns.values()))
    dropped = leading["selection"].get("drop_values", "none")
    if guarantee["assumptions"] != assumptions(unit, dropped, protect=protect, delta=delta):
        yield "guarantee/assumptions are not those of this model."
    if guarantee["not_protected"] != not_protected(protect=protect):
        yield "guarantee/not_protected is not that of this model."


def total_loss(columns: Mapping[str, Json]) -> float:
    """Return the sum of the losses of all units in all columns: ε, or squares of μ under a δ."""
    return math.fsum(
        column["losses"]["units"] * added_losses(column)["mean"] for column in columns.values()
    )


def added_losses(manifest: Json) -> Json:
    """Return the figures of a manifest's losses that add up: squares of μ under a δ."""
    losses: Json = manifest["losses"]
    return losses["squared_mu"] if "delta" in manifest["guarantee"] else losses
