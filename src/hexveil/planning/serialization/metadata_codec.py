"""Public metadata of saved plans: words, and the columns that identify each cell."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from hexveil.base.errors import InputError
from hexveil.base.rational import decimal_text
from hexveil.model.cells import Cells, CellTable, Labels, OneCell
from hexveil.model.public_metadata import UNITS, PublicMetadata, ValueLattice
from hexveil.planning.serialization.words import Words, one_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hexveil.model.occupancy import Occupancy

LABEL = "label_"
"""Prefix of the columns of labels."""


def metadata_words(facts: PublicMetadata) -> Words:
    """Return the public metadata beside counts and names of cells."""
    lattice = facts.lattice
    return {
        "value": facts.value,
        "value_unit": facts.value_unit,
        "privacy_unit": facts.privacy_unit,
        "bounds": [decimal_text(lattice.lower), decimal_text(lattice.upper)],
        "quantum": decimal_text(lattice.quantum),
        "grid": _grid_words(facts.cells.grid),
        "rules": dict(facts.rules),
        "identity": dict(facts.identity),
    }


def metadata_from(words: Words, occupancy: Occupancy, cells: pa.Table) -> PublicMetadata:
    """Return the public metadata, without the function that counts the records again."""
    table = CellTable(_grid_from(words["grid"]), **_places(cells))
    # Names are what a recipient reads; the release is about places.
    if list(table.names()) != cells["cell"].to_pylist():
        raise InputError("the names of cells do not fit its places or labels.")
    lower, upper = words["bounds"]
    return PublicMetadata(
        occupancy=occupancy,
        cells=table,
        lattice=ValueLattice.of((Fraction(lower), Fraction(upper)), Fraction(words["quantum"])),
        privacy_unit=one_of(words["privacy_unit"], UNITS),
        value=str(words["value"]),
        value_unit=str(words["value_unit"]),
        rules={str(name): int(count) for name, count in words["rules"].items()},
        identity={str(name): str(text) for name, text in words["identity"].items()},
    )


def _grid_words(grid: Cells | Labels) -> Words:
    if isinstance(grid, OneCell):
        return {"columns": []}
    if isinstance(grid, Labels):
        return {"columns": list(grid.columns)}
    return {name: getattr(grid, name) for name in ("resolution", "timeslot", "timezone", "slot")}


def _grid_from(words: Words) -> Cells | Labels:
    if "columns" not in words:
        return Cells(**words)
    return Labels(*words["columns"]) if words["columns"] else OneCell()


def place_columns(facts: PublicMetadata) -> dict[str, pa.Array]:
    """Return the columns that identify each cell: hexagon, slot and labels."""
    cells = facts.cells
    columns = {"hexagon": (cells.hexagon, pa.uint64()), "slot": (cells.slot, pa.int64())}
    arrays = {
        name: pa.array(values, type=kind)
        for name, (values, kind) in columns.items()
        if values is not None
    }
    labels = {LABEL + name: pa.array(one, type=pa.string()) for name, one in cells.labels.items()}
    return arrays | labels


def _places(cells: pa.Table) -> dict[str, Any]:
    """Return the columns that identify each cell, as `CellTable` takes them."""
    columns = cells.column_names
    labels = {
        name.removeprefix(LABEL): tuple(cells[name].to_pylist())
        for name in columns
        if name.startswith(LABEL)
    }
    places = {name: numbers(cells, name) for name in ("hexagon", "slot") if name in columns}
    return places | {"labels": labels}


def numbers(table: pa.Table, column: str) -> NDArray[Any]:
    """Return a column without gaps as an array."""
    return np.asarray(table[column].combine_chunks().to_numpy(zero_copy_only=False))
