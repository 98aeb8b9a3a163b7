"""Checks of the guarantee of every kind of release: the loss that is stated, and its words.

Facts that are stated twice have to agree: `epsilon_spent` is `losses.max`, rounded up; the factor
is e to that power; promise, neighbours, assumptions and limits are those of model, unit and loss.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from hexveil.publishing.components import is_private
from hexveil.publishing.promise_section import epsilon_text
from hexveil.report.promise_wording import (
    Protect,
    assumptions,
    neighbours,
    not_protected,
    one_of_columns,
    probability_factor,
    promise,
)

Json = dict[str, Any]

TOLERANCE = 1e-9
LEAST_DELTA = Fraction(1, 10**300)
"""Smallest δ whose ε can be computed."""


def delta_of(manifest: Json) -> Fraction:
    """Return the δ that a manifest states; 0 of a pure promise."""
    return Fraction(manifest["guarantee"].get("delta", 0))


def added_losses(manifest: Json) -> Json:
    """Return the figures of losses that add up over cells and releases: of ε, or squares of μ."""
    losses: Json = manifest["losses"]
    return losses["squared_mu"] if delta_of(manifest) else losses


def check_delta(manifest: Json, units: int) -> Iterator[str]:
    """Yield if δ is none that a release of so many units has."""
    delta = delta_of(manifest)
    if (delta and not LEAST_DELTA <= delta < 1) or delta * units >= 1:
        yield "guarantee/delta is not above 0 and below one over the number of units."


def check_spent(manifest: Json) -> Iterator[str]:
    """Yield contradictions between the epsilon spent, the epsilon requested, and the losses."""
    guarantee, losses = manifest["guarantee"], manifest["losses"]
    spent = Fraction(guarantee["epsilon_spent"])
    if guarantee["epsilon_spent"] != epsilon_text(Fraction(losses["max"])):
        yield "epsilon_spent is not the largest loss, rounded up."
    if spent > Fraction(guarantee["epsilon_requested"]) + Fraction(1, 10**11):
        yield "more was spent than asked for."
    order = [losses[key] for key in ("median", "p90", "p99", "max") if key in losses]
    if order != sorted(order) or losses["mean"] > losses["max"] * (1.0 + TOLERANCE):
        yield "the quantiles of the losses are not in order."


def check_guarantee(manifest: Json) -> Iterator[str]:
    """Yield if the factor or a sentence is not that of this model, unit and loss."""
    guarantee, delta = manifest["guarantee"], delta_of(manifest)
    protect: Protect = "presence" if is_private(manifest) else "values"
    unit, spent = guarantee["privacy_unit"], Fraction(guarantee["epsilon_spent"])
    factor, stated = probability_factor(spent), guarantee["probability_factor"]
    if not math.isclose(math.inf if stated is None else stated, factor, rel_tol=TOLERANCE):
        yield "guarantee/probability_factor is not e to the power of epsilon_spent."
    dropped = manifest["components"][0]["selection"].get("drop_values", "none")
    texts = assumptions(unit, dropped, protect=protect, delta=delta)
    if together := manifest.get("columns_together"):
        total = Fraction(together["epsilon_spent"])
        texts.append(one_of_columns(together["columns"], total, delta, protect=protect))
    words = {
        "promise": promise(unit, spent, protect=protect, delta=delta),
        "neighbours": neighbours(unit, protect=protect),
        "assumptions": texts,
        "not_protected": not_protected(protect=protect),
    }
    for key, expected in words.items():
        if guarantee[key] != expected:
            yield f"guarantee/{key} is not that of this model and loss."
