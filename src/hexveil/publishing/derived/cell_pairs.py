"""Pairs of cells of two releases, and refusals of releases that cannot be compared.

Cells pair by place (hexagon or labels) and slot. Slots pair by name where the releases have slots
in common, as pooled slots have. Calendar slots of other dates pair by the clock and by the distance
from the first day of each release: a Monday with a Tuesday, a week with the next. Two slots that
are named pair with each other in every place.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from hexveil.base.arrays import Ints
from hexveil.base.errors import InputError
from hexveil.model.cells import DAY
from hexveil.publishing.derived.coarser_cells import slot_starts
from hexveil.publishing.derived.release_source import ReleaseSource


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


_FACTS = (
    ("dataset", "value_unit", "unit of measure"),
    ("bounds", "lower", "lower bound"),
    ("bounds", "upper", "upper bound"),
    ("bounds", "quantum", "quantum"),
    ("grid", "kind", "kind of cells"),
    ("grid", "columns", "label columns"),
    ("grid", "resolution", "resolution"),
    ("grid", "timeslot", "timeslot"),
    ("grid", "slot", "kind of slots"),
    ("grid", "timezone", "time zone"),
)
"""Facts of a manifest that both releases have in common, with their names."""
_REMEDY = "compare releases that agree in it."


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
    for section, key, noun in _FACTS:
        stated = [source.manifest[section].get(key) for source in (before, after)]
        is_grid = key in ("resolution", "timeslot")
        remedy = "roll both up to one grid first." if is_grid else _REMEDY
        _check_equal("the releases", noun, stated, remedy)
    for source in (before, after):
        check_open(source)
    if statistic == "users" and before.is_map:
        counts, manifests = "the numbers of units", (before.manifest, after.manifest)
        units = [manifest["guarantee"]["privacy_unit"] for manifest in manifests]
        _check_equal(counts, "privacy unit", units)
        caps = [_cell_cap(manifest["plan"]) for manifest in manifests]
        _check_equal(counts, "cells in which a unit counts fully (cells_per_unit)", caps)


def _check_equal(subject: str, noun: str, facts: list[Any], remedy: str = _REMEDY) -> None:
    if facts[0] != facts[1]:
        raise InputError(
            f"{subject} differ in their {noun}: {_text(facts[0])} and {_text(facts[1])}; {remedy}"
        )


def check_open(source: ReleaseSource) -> None:
    """Refuse a map without an open cell."""
    if not source.table.num_rows:
        raise InputError(
            f"no cell of the release of {source.identity['dataset']} is open, so it has no numbers "
            "to compare or to roll up; publish with a larger epsilon or a coarser grid."
        )


def _cell_cap(plan: Mapping[str, Any]) -> str:
    # Alone, numbers of units state their cap as the one on users.
    return f"{plan['cell_cap']} cells" if "cell_cap" in plan else str(plan["user_cap"])


def pair_cells(
    before: pa.Table, after: pa.Table, slots: tuple[str, str] | None = None
) -> CellPairs:
    """Return the pairs of cells of two tables with the same kind of cells.

    Parameters
    ----------
    before, after : pyarrow.Table
        Of releases or of roll-ups.
    slots : pair of str, optional
        A slot of each, to compare these with each other.

    Raises
    ------
    InputError
        If a table does not have its slot, or no cells pair.
    """
    tables, days = (before, after), 0
    rows = [np.arange(table.num_rows) for table in tables]
    times = [np.zeros(table.num_rows, dtype=np.int64) for table in tables]
    if slots is not None:
        rows = [_rows_in(*of) for of in zip(tables, slots, strict=True)]
    elif "slot" in before.column_names:
        days, times = _aligned(tables)
    keys = [
        {key: int(row) for row, key in zip(own, _keys(table.take(own), time[own]), strict=True)}
        for table, time, own in zip(tables, times, rows, strict=True)
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


def _rows_in(table: pa.Table, slot: str) -> Ints:
    if "slot" not in table.column_names:
        raise InputError("the releases have no timeslots; leave slots out.")
    names = table["slot"].to_pylist()
    if slot not in names:
        listed = sorted(set(names))
        raise InputError(f"a release has no slot {slot!r}; it has {listed[0]!r} to {listed[-1]!r}.")
    return np.flatnonzero(np.array(names) == slot)


def _aligned(tables: tuple[pa.Table, pa.Table]) -> tuple[int, list[Ints]]:
    """Return slots of both tables on one clock, and the days that the second was moved by."""
    times = [slot_starts(table["slot"].to_pylist()) for table in tables]
    if np.isin(times[0], times[1]).any():
        return 0, times
    first = [math.floor(int(time.min()) / DAY) for time in times]
    days = first[1] - first[0]
    return days, [times[0], times[1] - days * DAY]


def _text(fact: object) -> str:
    if fact is None or fact == "":
        return "none"
    return ", ".join(map(str, fact)) if isinstance(fact, list) else str(fact)
