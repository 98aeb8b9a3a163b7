"""Checks of a whole release: its table against its manifest, and joint statements of its columns.

Columns, cells, and places by name and outline; of the columns that name cells for people only those
are compared that this version of hexveil wrote.

The largest loss of the whole lies between the largest of a column and the sum of these, and the sum
over all units is that of the columns; under private presence any unit loses exactly the sum of the
columns' ε. Under a δ squares of μ add up in place of ε.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from hexveil.accounting.promise import of_amount, summed
from hexveil.base import hexagons
from hexveil.publishing.components import column_names
from hexveil.publishing.estimates import places
from hexveil.publishing.estimates.places import with_places, without_places
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
from hexveil.report.manifest_view import numbers_of

Json = dict[str, Any]

# Exceptions of reading files that a stranger wrote.
READ_ERRORS = (
    OSError, pa.ArrowException, ValueError, TypeError, LookupError, ArithmeticError,
    RecursionError, MemoryError,
)  # fmt: skip
PLACE_TOLERANCE = 1e-9
"""Degrees, a tenth of a millimetre, by which versions of H3 may differ."""


def is_same_version(manifest: Json) -> bool:
    """Return whether this version of hexveil made the release: then its words are known."""
    return bool(manifest["software"]["hexveil"] == importlib.metadata.version("hexveil"))


def without_geometry(table: pa.Table) -> pa.Table:
    """Return the table without outlines."""
    return table.drop_columns(["geometry"]) if "geometry" in table.column_names else table


def check_columns(table: pa.Table, grid: Json, needed: Collection[str]) -> Iterator[str]:
    """Yield columns that no such release has, and those that are missing.

    Parameters
    ----------
    table : pyarrow.Table
    grid : dict
    needed : collection of str
        Columns that follow from the manifest, beside those of places and labels.
    """
    labels = grid.get("columns", [])
    outlines = ("hexagon", "geometry") if grid["kind"] == "hexagons" else ()
    strange = sorted({*table.column_names} - {*needed, *places.PLACE, *labels, *outlines})
    if strange:
        yield f"cells.parquet has a column {strange[0]!r}, which no such release has."
    for name in ("cell", *needed, *outlines, *labels):
        if name not in table.column_names:
            yield f"cells.parquet has no column {name!r}."


def check_places(table: pa.Table, manifest: Json) -> Iterator[str]:
    """Yield cells that stand twice, hexagons with another's outline, and other names."""
    names = table["cell"].to_pylist()
    if len(set(names)) < len(names):
        yield "a cell stands twice."
    yield from _check_outlines(table, manifest)
    yield from _check_names(table, manifest)


def _check_names(table: pa.Table, manifest: Json) -> Iterator[str]:
    """Yield columns that name cells for people and do not follow from cells and manifest."""
    # Another version may know other names of places, and did not write all of these columns.
    if not is_same_version(manifest):
        return
    released = without_geometry(table)
    with_words, with_indexes = (
        with_places(released, manifest, geography=geography) for geography in (True, False)
    )
    if released.column_names != with_words.column_names:
        yield "cells.parquet does not begin with the columns of every release, in their order."
        return
    for name in places.added_columns(released, manifest):
        stated, expected = released[name], with_words[name]
        if pa.types.is_floating(stated.type):
            is_same = bool(np.allclose(stated.to_numpy(), expected.to_numpy(), atol=1e-5, rtol=0))
        else:
            is_same = stated.to_pylist() in (expected.to_pylist(), with_indexes[name].to_pylist())
        if not is_same:
            yield f"{name} is not what follows from the cells and manifest.json."


def _check_outlines(table: pa.Table, manifest: Json) -> Iterator[str]:
    """Yield hexagons that are none of the grid, or have another's outline."""
    if "hexagon" not in table.column_names:
        return
    hexagons_named = set(table["hexagon"].to_pylist())
    level = manifest["grid"].get("resolution")
    if level is None or not all(hexagons.is_name(name, level) for name in hexagons_named):
        yield "cells.parquet has a hexagon that is none of the grid in manifest.json."
        return
    outlines = places.with_geometry(without_geometry(table))["geometry"].to_pylist()
    if not all(map(_is_same_outline, table["geometry"].to_pylist(), outlines)):
        yield "the outline of a hexagon is not its own."
    placed = with_places(
        without_places(without_geometry(table), manifest), manifest, geography=False
    )
    for name in {"lat", "lon"}.intersection(table.column_names):
        if not np.allclose(numbers_of(table, name), numbers_of(placed, name), rtol=0.0, atol=1e-5):
            yield f"{name} is not that of the hexagons."


def _is_same_outline(outline: bytes, expected: bytes) -> bool:
    """Return whether two outlines as well-known binary are equal up to rounding."""
    if outline == expected or len(outline) != len(expected) or outline[:13] != expected[:13]:
        return outline == expected
    corners, expected_corners = (
        np.frombuffer(data[13:], dtype="<f8") for data in (outline, expected)
    )
    return bool(np.allclose(corners, expected_corners, rtol=0, atol=PLACE_TOLERANCE))


def until_error(problems: Iterable[str], sentence: str) -> list[str]:
    """Return problems as far as a stranger's numbers let them be found, or none and all is well."""
    issues: list[str] = []
    # Hostile numbers may be of any size.
    with contextlib.suppress(*READ_ERRORS), np.errstate(all="ignore"):
        for problem in problems:
            issues.append(problem)  # noqa: PERF402  those before an error are kept
        return issues
    return [*issues, sentence]


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
