"""Checks of a release's table against its manifest: columns, cells, and places by name and outline.

For every kind of release. Of the columns that name cells for people only those are compared that
this version of hexveil wrote.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from hexveil.base import hexagons
from hexveil.base.arrays import Floats
from hexveil.publishing.estimates import places
from hexveil.publishing.estimates.places import with_places, without_places
from hexveil.report.manifest_view import numbers_of

Json = dict[str, Any]

# Exceptions of reading files that a stranger wrote.
READ_ERRORS = (
    OSError, pa.ArrowException, ValueError, TypeError, LookupError, ArithmeticError,
    RecursionError, MemoryError,
)  # fmt: skip
TOLERANCE = 1e-9
PLACE_TOLERANCE = 1e-9
"""Degrees, a tenth of a millimetre, by which versions of H3 may differ."""


def is_close(numbers: Floats, expected: Floats) -> bool:
    """Return whether numbers are those expected, up to rounding."""
    return bool(np.allclose(numbers, expected, rtol=TOLERANCE, atol=TOLERANCE))


def is_ascending(rows: Sequence[Floats], slack: float) -> bool:
    """Return whether no number is below the one of the row before, up to a slack."""
    return not any((above < below - slack).any() for below, above in itertools.pairwise(rows))


def is_interval(rows: Sequence[Floats], limits: Sequence[float], slack: float) -> bool:
    """Return whether low, middle and high are in order, and within limits."""
    ends = [np.full_like(rows[0], limit) for limit in limits]
    return is_ascending([ends[0], *rows, ends[1]], slack)


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


def check_filled(table: pa.Table) -> Iterator[str]:
    """Yield columns with a row without a value."""
    for name in table.column_names:
        values = table[name]
        if values.null_count or (
            pa.types.is_floating(values.type) and not np.isfinite(values.to_numpy()).all()
        ):
            yield f"{name} has a row without a value."


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
