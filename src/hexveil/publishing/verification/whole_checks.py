"""Checks of a whole release: its table against its manifest, and joint statements of its columns.

Columns, cells, and places by name and outline; of the columns that name cells for people only those
are compared that this version of hexveil wrote.

The largest loss of the whole lies between the largest of a column and the sum of these, and the sum
over all units is that of the columns; under private presence any unit loses exactly the sum of the
columns' ε. Under a δ squares of μ add up in place of ε.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from hexveil.accounting.promise import summed
from hexveil.base import hexagons
from hexveil.publishing.components import column_names
from hexveil.publishing.estimates import places
from hexveil.publishing.estimates.places import with_places
from hexveil.publishing.kinds import guarantee
from hexveil.publishing.manifest import installed_version
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
    return bool(manifest["software"]["hexveil"] == installed_version())


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
    names, bare = table["cell"].to_pylist(), without_geometry(table)
    if len(set(names)) < len(names):
        yield "a cell stands twice."
    if "hexagon" in table.column_names:
        level = manifest["grid"].get("resolution")
        named = set(table["hexagon"].to_pylist())
        if level is None or not all(hexagons.is_name(name, level) for name in named):
            yield "cells.parquet has a hexagon that is none of the grid in manifest.json."
            return
        outlines = places.with_geometry(bare)["geometry"].to_pylist()
        if not all(map(_is_same_outline, table["geometry"].to_pylist(), outlines)):
            yield "the outline of a hexagon is not its own."
    # Another version may know other names of places, and did not write all of these columns.
    known = is_same_version(manifest)
    placed = [with_places(bare, manifest, geography=words) for words in (True, False)]
    if known and bare.column_names != placed[0].column_names:
        yield "cells.parquet does not begin with the columns of every release, in their order."
        return
    for name in places.added_columns(bare, manifest):
        if pa.types.is_floating(bare[name].type):
            stated, expected = (numbers_of(one, name) for one in (bare, placed[0]))
            is_same = bool(np.allclose(stated, expected, atol=1e-5, rtol=0))
        else:
            texts = [one[name].to_pylist() for one in (bare, *placed)]
            is_same = not known or texts[0] in texts[1:]
        if not is_same:
            yield f"{name} is not what follows from the cells and manifest.json."


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
    private = guarantee.is_private(manifest)
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
    yield from guarantee.check_guarantee(manifest)
    promise, (leading, *others) = manifest["guarantee"], manifest["components"]
    free = not Fraction(promise["epsilon_spent"])
    if free != (manifest["ledger"] is None):
        yield "a release that cost nothing has no entry in a ledger, and every other one has."
    if not others:
        stated = ("epsilon_requested", "epsilon_spent")
        if any(promise[key] != leading[key] for key in stated):
            yield "guarantee/epsilon_requested or epsilon_spent is not that of the component."
        if manifest.get("losses") != leading.get("losses"):
            yield "losses are not those of the component."
    elif guarantee.is_private(manifest):
        spent = [Fraction(component["epsilon_spent"]) for component in manifest["components"]]
        total = guarantee.epsilon_text(summed(spent, guarantee.delta_of(manifest)).epsilon)
        if promise["epsilon_spent"] != total:
            yield "epsilon_spent is not the sum of the losses of the columns."
        if Fraction(total) > Fraction(promise["epsilon_requested"]) + Fraction(1, 10**11):
            yield "more was spent than asked for."
    else:
        yield from _check_public_losses(manifest, [own["losses"] for own in statements.values()])


def _check_public_losses(manifest: Json, columns: Sequence[Json]) -> Iterator[str]:
    """Yield losses of the whole that those of the columns exclude."""
    yield from guarantee.check_losses(manifest)
    losses, name = manifest["losses"], "squared_mu" if guarantee.delta_of(manifest) else "losses"
    added, *own = (one.get("squared_mu", one) for one in (losses, *columns))
    for what, whole, parts, room in (
        (f"{name}/max", added["max"], [one["max"] for one in own], 1.0 + guarantee.TOLERANCE),
        ("losses/units", losses["units"], [one["units"] for one in columns], 1.0),
    ):
        if not max(parts) <= whole * room <= sum(parts) * room**2:
            yield f"{what} is not between the largest of a column and the sum of these."
    total = math.fsum(all_["units"] * one["mean"] for all_, one in zip(columns, own, strict=True))
    if not math.isclose(losses["units"] * added["mean"], total, rel_tol=1e-6, abs_tol=1e-12):
        yield f"{name}/mean is not that of all columns."
