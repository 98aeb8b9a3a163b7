"""Checks of the statements about all value columns of a release together.

The largest loss of the whole lies between the largest of a column and the sum of these, and the sum
over all units is that of the columns; under private presence any unit loses exactly the sum of the
columns' ε. Under a δ squares of μ add up in place of ε.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from hexveil.accounting.promise import of_amount, summed
from hexveil.publishing.components import column_names
from hexveil.publishing.kinds.guarantee import (
    TOLERANCE,
    added_losses,
    check_guarantee,
    check_spent,
    delta_of,
    epsilon_text,
    is_private,
)
from hexveil.publishing.part_kinds import KINDS

Json = dict[str, Any]


def check_together(manifest: Json) -> Iterator[str]:
    """Yield components that no manifest has together; run before any of their parts is used."""
    names, components = column_names(manifest), manifest["components"]
    if len(set(names)) < len(names):
        yield "manifest.json names a value column twice."
    protects = {KINDS[component["kind"]].protect for component in components}
    private = is_private(manifest)
    if protects != {manifest["guarantee"]["protect"]}:
        yield "a component is of another privacy model than guarantee/protect."
    elif ("losses" in manifest) == private or ("cells" in manifest["grid"]) != private:
        yield "losses or grid/cells do not belong to guarantee/protect."
    if any(component.get("cells") == [] for component in components):
        yield "manifest.json has no cells."
    if len({tuple(component["plan"]["statistics"]) for component in components}) > 1:
        yield "the value columns have other statistics."
    for component in components:
        targets = component["plan"].get("request", {}).get("targets")
        if ("weight" in component) != (len(components) > 1 and not targets):
            yield "components/weight does not belong to a component."


def check_whole(manifest: Json, statements: Mapping[str, Json]) -> Iterator[str]:
    """Yield statements on the whole that those of the value columns exclude."""
    yield from check_guarantee(manifest)
    guarantee, (leading, *others) = manifest["guarantee"], manifest["components"]
    free = not Fraction(guarantee["epsilon_spent"])
    if free != (manifest["ledger"] is None):
        yield "a release that cost nothing has no entry in a ledger, and every other one has."
    if not others:
        stated = ("epsilon_requested", "epsilon_spent")
        if any(guarantee[key] != leading[key] for key in stated):
            yield "guarantee/epsilon_requested or epsilon_spent is not that of the component."
        if manifest.get("losses") != leading.get("losses"):
            yield "losses are not those of the component."
    elif is_private(manifest):
        yield from _check_private_losses(manifest)
    else:
        yield from _check_public_losses(manifest, statements)


def _check_private_losses(manifest: Json) -> Iterator[str]:
    """Yield if the loss of any unit is not the sum of its losses in all columns."""
    guarantee = manifest["guarantee"]
    if guarantee["epsilon_spent"] != _sum_of_parts(manifest):
        yield "epsilon_spent is not the sum of the losses of the columns."
    requested = Fraction(guarantee["epsilon_requested"]) + Fraction(1, 10**11)
    if Fraction(guarantee["epsilon_spent"]) > requested:
        yield "more was spent than asked for."


def _sum_of_parts(manifest: Json) -> str:
    """Return the text of the loss of any unit that the losses of the columns make together."""
    spent = [Fraction(component["epsilon_spent"]) for component in manifest["components"]]
    return epsilon_text(summed(spent, delta_of(manifest)).epsilon)


def _check_public_losses(manifest: Json, statements: Mapping[str, Json]) -> Iterator[str]:
    """Yield losses of the whole that those of the columns exclude."""
    yield from check_spent(manifest)
    losses, delta = manifest["losses"], delta_of(manifest)
    added, name = added_losses(manifest), "squared_mu" if delta else "losses"
    largest = [added_losses(own)["max"] for own in statements.values()]
    room = 1.0 + TOLERANCE
    if not max(largest) <= added["max"] * room or not added["max"] <= sum(largest) * room:
        yield f"{name}/max is not between the largest of a column and the sum of these."
    epsilon = float(of_amount(Fraction(added["max"]), delta).epsilon)
    if not math.isclose(epsilon, losses["max"], rel_tol=TOLERANCE):
        yield "the largest loss is not that of the largest square of mu at this delta."
    units = [own["losses"]["units"] for own in statements.values()]
    if not max(units) <= losses["units"] <= sum(units):
        yield "losses/units is not between the units of a column and the sum of these."
    total = losses["units"] * added["mean"]
    if not math.isclose(total, _total_loss(statements), rel_tol=1e-6, abs_tol=1e-12):
        yield f"{name}/mean is not that of all columns."


def _total_loss(statements: Mapping[str, Json]) -> float:
    """Return the sum of the losses of all units in all columns: ε, or squares of μ under a δ."""
    return math.fsum(
        own["losses"]["units"] * added_losses(own)["mean"] for own in statements.values()
    )
