"""Declared grid: the cells of a map with private presence, from public declarations alone.

No cell is taken from the records: a cell that exists because a vehicle was there would tell that it
was. The grid is a polygon, a box or a list of hexagons, crossed with the slots of a day or of
declared dates; or a list of labels. Every cell of it is published, open or closed.

Declared facts of a data set with private presence: all that a plan may see of it.

The counterpart of `PublicMetadata`. Every fact is declared by the holder before any record is read:
nothing here is counted, so nothing here tells who is in the records.

Facts of several value columns of the same records, counted or declared.

Where occupancy is public each column has its own: whether a record carries a usable value of a
column is public, so that units, counts and cells of one column may differ from those of another.
Units of all columns are numbered together, since what one unit loses in all columns adds up. Where
presence is private everything is declared, and any unit may be in any column.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any

import numpy as np

from hexveil.base.arrays import Ints
from hexveil.base.errors import InputError
from hexveil.model.areas import Area, HexagonList, Polygon
from hexveil.model.cells import DAY, Cells, CellTable, Labels, OneCell
from hexveil.model.public_metadata import FineBins, Unit, ValueLattice

__all__ = ["Area", "DeclaredGrid", "HexagonList", "Polygon"]
MAX_GRID_CELLS = 2**22
"""Largest grid; with it no sum of contributions can leave 64 bits."""
HOUR = 3_600
_EPOCH = date(1970, 1, 1)


@dataclass(frozen=True, eq=False)
class DeclaredGrid:
    """Cells of a map with private presence.

    Attributes
    ----------
    table : CellTable
    is_in_use : bool
        Whether the declaration says that the cells are in use, so that none needs to be tested for
        weight: true of lists, not of areas.
    shape : tuple of int
        Places and slots, or values of each label, where there are two of each at least: cells are
        their combinations, in C order. Empty otherwise.
    """

    table: CellTable
    is_in_use: bool
    shape: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        shape = tuple(length for length in self.shape if length > 1)
        object.__setattr__(self, "shape", shape if len(shape) > 1 else ())
        if self.shape and math.prod(self.shape) != len(self.table):
            raise ValueError("the dimensions of a grid give another number of cells.")
        if not 1 <= len(self.table) <= MAX_GRID_CELLS:
            raise InputError(
                f"a declared grid has from 1 to {MAX_GRID_CELLS:,} cells, this one "
                f"{len(self.table):,}; choose another area, resolution or timeslot."
            )

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return len(self.table)

    def fingerprint(self) -> str:
        """Return the SHA-256 of the definition and of the names of all cells."""
        names = json.dumps([repr(self.table.grid), *self.table.names()]).encode()
        return hashlib.sha256(names).hexdigest()

    @classmethod
    def of(
        cls,
        cells: Cells | Labels,
        dates: tuple[str, str] | None = None,
        hours: tuple[int, ...] | None = None,
    ) -> DeclaredGrid:
        """Return the grid that cells with an area, or labels with values, declare.

        Parameters
        ----------
        cells : Cells or Labels
            With `area`, or with `values`.
        dates : (str, str), optional
            See `of_area`.
        hours : tuple of int, optional
            Local hours that are used; slots without any of them are left out.

        Raises
        ------
        InputError
            If nothing is declared.

        Examples
        --------
        >>> DeclaredGrid.of(Labels("route", values=["4", "15"])).table.names()
        ('4', '15')
        """
        if isinstance(cells, OneCell):
            return cls(CellTable(OneCell(), labels={cells.columns[0]: ("all",)}), is_in_use=True)
        if isinstance(cells, Labels):
            if cells.values is None:
                raise InputError(
                    "values is needed (in [cells], or --set cells.values): under private presence "
                    "the values of each label are declared, not found in the records."
                )
            return cls.of_labels(Labels(*cells.columns), cells.values)
        if cells.area is None:
            raise InputError(
                "area is needed (in [cells], or --set cells.area): under private presence the "
                "cells are declared, as a box, a polygon or a list of hexagons, not found in the "
                "records."
            )
        grid = cls.of_area(replace(cells, area=None), cells.area, dates)
        return grid if hours is None else _within_hours(grid, hours)

    @classmethod
    def of_area(
        cls, cells: Cells, area: Area, dates: tuple[str, str] | None = None
    ) -> DeclaredGrid:
        """Return the hexagons of an area in every slot.

        Parameters
        ----------
        cells : Cells
        area : Polygon or HexagonList
        dates : (str, str), optional
            First and last local date of calendar slots, both included, as ISO text.

        Examples
        --------
        >>> box = Polygon.of_box(72.7, 21.0, 73.0, 21.4)
        >>> DeclaredGrid.of_area(Cells(6, "6h", "Asia/Kolkata", "pooled"), box).n_cells
        164
        """
        places = area.hexagons(cells.resolution)
        slots = _slots(cells, dates)
        if not places.size:
            raise InputError("the area holds no hexagon's centre; use a finer resolution.")
        if places.size * max(slots.size, 1) > MAX_GRID_CELLS:
            raise InputError(
                f"{places.size:,} hexagons in {slots.size:,} slots are more than "
                f"{MAX_GRID_CELLS:,} cells; choose another area, resolution or timeslot."
            )
        is_list = isinstance(area, HexagonList)
        if not slots.size:
            return cls(CellTable(cells, hexagon=places), is_list)
        table = CellTable(
            cells, hexagon=np.repeat(places, slots.size), slot=np.tile(slots, places.size)
        )
        return cls(table, is_list, (places.size, slots.size))

    @classmethod
    def of_labels(cls, labels: Labels, values: Sequence[Sequence[str]]) -> DeclaredGrid:
        """Return all combinations of the values of each column.

        Examples
        --------
        >>> DeclaredGrid.of_labels(Labels("route", "hour"), [["4", "15"], ["7", "8"]]).table.names()
        ('4/7', '4/8', '15/7', '15/8')
        """
        if len(values) != len(labels.columns) or not all(values):
            raise InputError("give the values of each column of the labels.")
        if not all(len(set(column)) == len(column) for column in values):
            raise InputError("a value of a label is listed twice.")
        combined = zip(*itertools.product(*values), strict=True)
        columns = dict(zip(labels.columns, map(tuple, combined), strict=True))
        shape = tuple(map(len, values))
        return cls(CellTable(labels, labels=columns), is_in_use=True, shape=shape)


def _within_hours(declared: DeclaredGrid, hours: tuple[int, ...]) -> DeclaredGrid:
    """Return the grid of slots that have a part in these local hours."""
    grid, slot = declared.table.grid, declared.table.slot
    if slot is None or not isinstance(grid, Cells) or grid.seconds is None:
        return declared
    begins = np.array(hours, dtype=np.int64)[:, None] * HOUR
    ends, start = begins + HOUR, slot[None] % DAY
    is_used = ((start < ends) & (start + grid.seconds > begins)).any(axis=0)
    if not is_used.any():
        raise InputError("hours leave no timeslot of the grid.")
    table = declared.table.take(np.flatnonzero(is_used))
    # Each place has the same slots: those that are left keep the order of the cells.
    shape = (declared.shape[0], len(table) // declared.shape[0]) if declared.shape else ()
    return DeclaredGrid(table, declared.is_in_use, shape)


def _slots(cells: Cells, dates: tuple[str, str] | None) -> Ints:
    """Return the local starts of all slots in seconds; none where all times are pooled."""
    if cells.seconds is None:
        return np.zeros(0, dtype=np.int64)
    if cells.slot == "pooled":
        return np.arange(0, DAY, cells.seconds, dtype=np.int64)
    if dates is None:
        raise InputError(
            "calendar slots need declared dates, such as ('2026-11-01', '2026-11-30')."
        )
    try:
        begin, end = ((date.fromisoformat(day) - _EPOCH).days for day in dates)
    except ValueError:
        raise InputError(f"dates must be two days as ISO text, got {dates!r}.") from None
    if begin > end:
        raise InputError(f"the first date {dates[0]} is after the last, {dates[1]}.")
    return np.arange(begin * DAY, (end + 1) * DAY, cells.seconds, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class DeclaredFacts:
    """Declared facts of a data set; using them costs no privacy.

    Attributes
    ----------
    grid : DeclaredGrid
    lattice : ValueLattice
        Bounds and quantum of the values.
    privacy_unit : str
        The privacy unit, whose presence is private.
    value, value_unit : str
        Name of the value column, and its unit of measure ("" if not stated).
    days : (int, int) or None
        First and last declared local day, counted from 1970-01-01.
    identity : mapping of str to str
        The declared reading: columns, repeats, selection, version; no count of anything.
    bins : FineBins or None
        Bins in which records are counted; None unless statistics of distributions were asked for.
    id_space : str
        Name of what an id names, which an account pins; "" if not known.
    """

    grid: DeclaredGrid
    lattice: ValueLattice
    privacy_unit: Unit = "user"
    value: str = "value"
    value_unit: str = ""
    days: tuple[int, int] | None = None
    identity: Mapping[str, str] = field(default_factory=dict)
    bins: FineBins | None = None
    id_space: str = ""

    @property
    def cells(self) -> CellTable:
        """Cells of the declared grid."""
        return self.grid.table


@dataclass(frozen=True, eq=False)
class SeveralColumns:
    """What the value columns of one release have in common.

    Attributes
    ----------
    columns : mapping of str to PublicMetadata or DeclaredFacts
        By the column's name, in the order in which the columns were named.
    """

    columns: Mapping[str, Any]

    @property
    def leading(self) -> Any:  # noqa: ANN401  facts of either model
        """Facts of the first column, for all that columns have in common."""
        return next(iter(self.columns.values()))

    @property
    def privacy_unit(self) -> Unit:
        """Privacy unit of all columns."""
        unit: Unit = self.leading.privacy_unit
        return unit

    @property
    def id_space(self) -> str:
        """Name of the id space of all columns."""
        return str(self.leading.id_space)

    @property
    def identity(self) -> Mapping[str, str]:
        """Request of the first column; clocks and selection are common to all."""
        return dict(self.leading.identity)


@dataclass(frozen=True, eq=False)
class ColumnFacts(SeveralColumns):
    """Facts of each value column, and the numbers of their units.

    Attributes
    ----------
    units : mapping of str to ndarray of int64, shape (n_users of the column,)
        Number of each of a column's units among those of all columns.
    n_units : int
        Units with a usable value in some column.
    """

    units: Mapping[str, Ints]
    n_units: int


class DeclaredColumns(SeveralColumns):
    """Declared facts of each value column under private presence; no record decided them.

    Losses have one entry, that of any unit, present or not.
    """

    n_units = 1

    @property
    def units(self) -> Mapping[str, Ints]:
        """The number of that unit, by column."""
        return dict.fromkeys(self.columns, np.zeros(1, dtype=np.int64))
