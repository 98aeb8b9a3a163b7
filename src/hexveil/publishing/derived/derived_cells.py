"""Cells of derived tables: coarser ones of a release, and pairs of those of two releases.

Coarser are parents of hexagons, longer timeslots, fewer labels.

Pairs of cells of two releases, and refusals of releases that cannot be compared.

Cells pair by place (hexagon or labels) and slot. Slots pair by name where the releases have slots
in common, as pooled slots have. Calendar slots of other dates pair by the clock and by the distance
from the first day of each release: a Monday with a Tuesday, a week with the next.
"""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hexveil.base import hexagons
from hexveil.base.arrays import Ints
from hexveil.base.errors import InputError
from hexveil.model.cells import ALL_RECORDS, DAY, Cells, CellTable, Labels, OneCell, slot_seconds
from hexveil.publishing.derived.derived_numbers import ReleaseSource

EVERYTHING: Literal["all"] = "all"
Grid = Mapping[str, Any]
"""The manifest's section "grid"."""


def group_cells(
    table: pa.Table,
    grid: Grid,
    resolution: int | Literal["all"] | None = None,
    timeslot: str | None = None,
    columns: Sequence[str] | None = None,
) -> tuple[CellTable, Ints, Grid]:
    """Return the coarser cells, the row of each cell's one among them, and their grid.

    Parameters
    ----------
    table : pyarrow.Table
        As released.
    grid : mapping
        The manifest's section "grid".
    resolution : int, "all" or None
        H3 resolution of the parents; "all" for one place; None keeps the hexagons.
    timeslot : str or None
        Length of the slots; "all" for one time; None keeps the slots.
    columns : sequence of str or None
        Label columns that are kept; None keeps them all.

    Raises
    ------
    InputError
        If the request is empty, is not coarser, or the release has no such columns.
    """
    if resolution is timeslot is columns is None:
        raise InputError(
            "a roll-up needs a coarser grid: give a resolution, a timeslot or label columns, or "
            '"all" as resolution.'
        )
    if grid["kind"] == "labels" and resolution != EVERYTHING:
        return _group_labels(table, grid, columns)
    if columns is not None:
        raise InputError(
            "the release has hexagons and no label columns; give a resolution or a timeslot."
        )
    place = _parents(table, grid, resolution)
    slot, length = _longer_slots(table, grid, timeslot)
    none = np.zeros(table.num_rows, dtype=np.int64)
    if place is None and slot is None:
        one = {"kind": "labels", "columns": ["cell"]}
        return CellTable(OneCell(), labels={"cell": (ALL_RECORDS,)}), none, one
    keys = np.rec.fromarrays([none if one is None else one for one in (place, slot)])
    _, row, group = np.unique(keys, return_index=True, return_inverse=True)
    finest = grid["resolution"] if resolution in (None, EVERYTHING) else resolution
    coarse = Cells(int(finest), length, grid["timezone"], grid["slot"])
    cells = CellTable(
        coarse, None if place is None else place[row], None if slot is None else slot[row]
    )
    section = {"resolution": None if place is None else finest, "timeslot": length}
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
    table: pa.Table, grid: Grid, columns: Sequence[str] | None
) -> tuple[CellTable, Ints, Grid]:
    """Return the cells of fewer label columns."""
    if not columns or isinstance(columns, str):
        raise InputError(
            "the release has labels and no hexagons; list the label columns to keep, or give "
            '"all" as resolution to keep none of them.'
        )
    names = tuple(columns)
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


# ---- pairs ----


class CellPairs(NamedTuple):
    """Rows of two releases that are compared with each other.

    Attributes
    ----------
    before, after : ndarray of int64, shape (n_pairs,)
        Rows of both tables.
    days : int
        Days by which the slots of the second release were moved to pair them.
    only_before, only_after : int
        Cells without a partner.
    """

    before: Ints
    after: Ints
    days: int
    only_before: int
    only_after: int


_FACTS = {
    "dataset": ("value_unit",),
    "bounds": ("lower", "upper", "quantum"),
    "grid": ("kind", "columns", "resolution", "timeslot", "slot", "timezone"),
}
"""Facts of a manifest that both releases have in common, by section."""


def check_comparable(before: ReleaseSource, after: ReleaseSource, statistic: str) -> None:
    """Refuse releases of another privacy model, bounds, quantum, unit of measure or cells.

    Raises
    ------
    InputError
        If they differ in one of these, or no cell of one is open; of numbers of units also if their
        privacy units differ, or the cells in which a unit counts fully. The message names both.
    """
    if before.is_map != after.is_map:
        raise InputError(
            "one release protects values and the other one presence (protect): their numbers are "
            "averages of records and averages of units, with errors of other kinds; compare "
            "releases of one privacy model."
        )
    sources = [before.manifest, after.manifest]
    facts: dict[str, list[Any]] = {
        f"{section}/{key}": [stated[section].get(key) for stated in sources]
        for section, keys in _FACTS.items()
        for key in keys
    }
    if statistic == "users" and before.is_map:
        plans = [stated["plan"] for stated in sources]
        facts["guarantee/privacy_unit"] = [own["guarantee"]["privacy_unit"] for own in sources]
        # Alone, numbers of units state their cap as the one on users.
        facts["plan/cell_cap"] = [f"{own.get('cell_cap', own['user_cap'])}" for own in plans]
        facts["plan/cell_cap"] = [cap.removesuffix(" cells") for cap in facts["plan/cell_cap"]]
    for name, (first, second) in facts.items():
        if first != second:
            is_grid = name in ("grid/resolution", "grid/timeslot")
            remedy = "roll both up to one grid first" if is_grid else "compare releases that agree"
            raise InputError(
                f"the releases differ in {name}: {_text(first)} and {_text(second)}; {remedy}."
            )
    check_open(before)
    check_open(after)


def check_open(source: ReleaseSource) -> None:
    """Refuse a map without an open cell."""
    if not source.table.num_rows:
        raise InputError(
            f"no cell of the release of {source.identity['dataset']} is open, so it has no numbers "
            "to compare or to roll up; publish with a larger epsilon or a coarser grid."
        )


def pair_cells(before: pa.Table, after: pa.Table) -> CellPairs:
    """Return the pairs of cells of two tables with the same kind of cells.

    Parameters
    ----------
    before, after : pyarrow.Table
        Of releases or of roll-ups.

    Raises
    ------
    InputError
        If no cells pair.
    """
    tables, days = (before, after), 0
    times = [np.zeros(table.num_rows, dtype=np.int64) for table in tables]
    if "slot" in before.column_names:
        days, times = _aligned(tables)
    keys = [
        {key: row for row, key in enumerate(_keys(table, time))}
        for table, time in zip(tables, times, strict=True)
    ]
    shared = [key for key in keys[0] if key in keys[1]]
    if not shared:
        raise InputError(
            "the releases have no cell in common; compare maps of the same places and hours."
        )
    first, second = (np.array([side[key] for key in shared], dtype=np.int64) for side in keys)
    alone = [len(side) - len(shared) for side in keys]
    return CellPairs(first, second, days, alone[0], alone[1])


def place_columns(table: pa.Table) -> list[str]:
    """Return the columns that name a cell's place: its hexagon, or its labels."""
    if "hexagon" in table.column_names:
        return ["hexagon"]
    fixed = {"cell", "hexagon", "slot", "slot_end", "starts_at_utc"}
    # Names of cells come first, then counts: of users in a release, of cells in a roll-up.
    # In a map with private presence, whether a cell is open stands before both.
    names = table.column_names
    end = names.index(next(entry for entry in ("is_open", "users", "cells") if entry in names))
    labels = [name for name in names[:end] if name not in fixed]
    return labels or ([] if "slot" in table.column_names else ["cell"])


def _keys(table: pa.Table, time: Ints) -> list[tuple[Any, ...]]:
    columns = [table[name].to_pylist() for name in place_columns(table)]
    return list(zip(*columns, time.tolist(), strict=True))


def _aligned(tables: tuple[pa.Table, pa.Table]) -> tuple[int, list[Ints]]:
    """Return slots of both tables on one clock, and the days that the second was moved by."""
    times = [slot_starts(table["slot"].to_pylist()) for table in tables]
    if np.isin(times[0], times[1]).any():
        return 0, times
    first_days = [math.floor(int(time.min()) / DAY) for time in times]
    days = first_days[1] - first_days[0]
    return days, [times[0], times[1] - days * DAY]


def _text(fact: object) -> str:
    if fact is None or fact == "":
        return "none"
    return ", ".join(map(str, fact)) if isinstance(fact, list) else str(fact)
