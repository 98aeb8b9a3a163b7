"""Coarser cells of a release: parents of hexagons, longer timeslots, fewer labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hexveil.base import hexagons
from hexveil.base.arrays import Ints
from hexveil.base.errors import InputError
from hexveil.model.cells import ALL_RECORDS, Cells, CellTable, Labels, OneCell, slot_seconds

EVERYTHING: Literal["all"] = "all"
Grid = Mapping[str, Any]
"""The manifest's section "grid"."""


@dataclass(frozen=True)
class CoarserGrid:
    """A request for coarser cells.

    Attributes
    ----------
    resolution : int, "all" or None
        H3 resolution of the parents; "all" for one place; None keeps the hexagons.
    timeslot : str or None
        Length of the slots; "all" for one time; None keeps the slots.
    columns : sequence of str or None
        Label columns that are kept; None keeps them all.
    one_cell : bool
        All cells together.

    Raises
    ------
    InputError
        If one cell is requested beside anything else.
    """

    resolution: int | Literal["all"] | None = None
    timeslot: str | None = None
    columns: Sequence[str] | None = None
    one_cell: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether nothing is requested."""
        return self == CoarserGrid()

    def __post_init__(self) -> None:
        """Refuse one cell beside another grid."""
        if self.one_cell and (self.resolution, self.timeslot, self.columns) != (None, None, None):
            raise InputError(
                "one cell has neither resolution, timeslot nor columns; leave these out."
            )


def group_cells(table: pa.Table, grid: Grid, request: CoarserGrid) -> tuple[CellTable, Ints, Grid]:
    """Return the coarser cells, the row of each cell's one among them, and their grid.

    Parameters
    ----------
    table : pyarrow.Table
        As released.
    grid : mapping
        The manifest's section "grid".
    request : CoarserGrid

    Raises
    ------
    InputError
        If the request is empty, is not coarser, or the release has no such columns.
    """
    if request.is_empty:
        raise InputError(
            "a roll-up needs a coarser grid: give a resolution, a timeslot or label columns, or "
            "ask for one cell."
        )
    if not request.one_cell and grid["kind"] == "labels":
        return _group_labels(table, grid, request)
    place = slot = timeslot = None
    if not request.one_cell:
        if request.columns is not None:
            raise InputError(
                "the release has hexagons and no label columns; give a resolution or a timeslot."
            )
        place = _parents(table, grid, request.resolution)
        slot, timeslot = _longer_slots(table, grid, request.timeslot)
    if place is None and slot is None:
        cells = CellTable(OneCell(), labels={"cell": (ALL_RECORDS,)})
        one = {"kind": "labels", "columns": ["cell"]}
        return cells, np.zeros(table.num_rows, dtype=np.int64), one
    keys = np.zeros((table.num_rows, 2), dtype=np.uint64)
    if place is not None:
        keys[:, 0] = place
    if slot is not None:
        # Seconds may be negative before 1970; equal keys stay equal, and order is that of time.
        keys[:, 1] = (slot - np.iinfo(np.int64).min).astype(np.uint64)
    _, row, group = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    resolution = grid["resolution"] if request.resolution is None else request.resolution
    finest = grid["resolution"] if place is None else resolution
    coarse = Cells(int(finest), timeslot, grid["timezone"], grid["slot"])
    cells = CellTable(
        coarse, None if place is None else place[row], None if slot is None else slot[row]
    )
    section = {"resolution": None if place is None else resolution, "timeslot": timeslot}
    return cells, group.ravel(), dict(grid) | section


def _parents(
    table: pa.Table, grid: Grid, resolution: int | str | None
) -> NDArray[np.uint64] | None:
    """Return the parent of each cell's hexagon; None for one place."""
    if resolution == EVERYTHING:
        return None
    names = np.array([int(name, 16) for name in table["hexagon"].to_pylist()], dtype=np.uint64)
    if resolution is None:
        return names
    finest = int(grid["resolution"])
    if resolution is True or resolution not in range(finest + 1):
        raise InputError(
            f"the release has hexagons of resolution {finest}, so a roll-up has resolution 0 to "
            f'{finest} or "all", got {resolution!r}.'
        )
    return hexagons.parents(names, int(resolution))


def _longer_slots(
    table: pa.Table, grid: Grid, timeslot: str | None
) -> tuple[Ints | None, str | None]:
    """Return the longer slot of each cell with its length; None for one time."""
    has_slots = "slot" in table.column_names
    if not has_slots and timeslot not in (None, EVERYTHING):
        raise InputError("the release has no timeslots; leave timeslot out.")
    if not has_slots or timeslot == EVERYTHING:
        return None, None
    starts = slot_starts(table["slot"].to_pylist())
    if timeslot is None:
        return starts, str(grid["timeslot"])
    seconds = slot_seconds(timeslot)
    if seconds % slot_seconds(grid["timeslot"]):
        raise InputError(
            f"slots of {grid['timeslot']} do not fill slots of {timeslot}; give a multiple of "
            f'{grid["timeslot"]}, or "all".'
        )
    return starts // seconds * seconds, timeslot


def _group_labels(
    table: pa.Table, grid: Grid, request: CoarserGrid
) -> tuple[CellTable, Ints, Grid]:
    """Return the cells of fewer label columns."""
    if request.columns is None:
        raise InputError(
            "the release has labels and no hexagons; name the label columns to keep, or ask for "
            "one cell."
        )
    names = tuple(request.columns)
    if not names or isinstance(request.columns, str):
        raise InputError("columns must list label columns; ask for one cell to keep none of them.")
    missing = [name for name in names if name not in grid["columns"]]
    if missing:
        raise InputError(
            f"the release has no label column {missing[0]!r}; it has {', '.join(grid['columns'])}."
        )
    rows = list(zip(*(table[name].to_pylist() for name in names), strict=True))
    distinct = sorted(set(rows))
    index = {row: number for number, row in enumerate(distinct)}
    labels = dict(zip(names, zip(*distinct, strict=True), strict=True))
    group = np.array([index[row] for row in rows], dtype=np.int64)
    section = {"kind": "labels", "columns": list(names)}
    return CellTable(Labels(*names), labels=labels), group, section


def slot_starts(names: Sequence[str]) -> NDArray[np.int64]:
    """Return the starts of slots in seconds: since 1970 if dated, since midnight if pooled.

    Examples
    --------
    >>> slot_starts(["00:15", "1970-01-02T01:00"]).tolist()
    [900, 90000]
    """
    dated = {name: name if "T" in name else f"1970-01-01T{name}" for name in set(names)}
    seconds = {
        name: round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())
        for name, text in dated.items()
    }
    return np.array([seconds[name] for name in names], dtype=np.int64)
