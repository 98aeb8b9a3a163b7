"""Declared grid: the cells of a map with private presence, from public declarations alone.

No cell is taken from the records: a cell that exists because a vehicle was there would tell that it
was. The grid is a polygon, a box or a list of hexagons, crossed with the slots of a day or of
declared dates; or a list of labels. Every cell of it is published, open or closed.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from hexveil.base import hexagons
from hexveil.base.errors import InputError
from hexveil.model.cells import DAY, Cells, CellTable, Labels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

MAX_GRID_CELLS = 2**22
"""Largest grid; with it no sum of contributions can leave 64 bits."""
_EPOCH = date(1970, 1, 1)


@dataclass(frozen=True)
class Polygon:
    """Area inside a ring of corners; hexagons whose centres lie in it belong to the grid.

    Attributes
    ----------
    corners : tuple of (float, float)
        Longitude and latitude in degrees, at least three.
    """

    corners: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        corners = tuple((float(lon), float(lat)) for lon, lat in self.corners)
        if len(set(corners)) < 3:
            raise InputError("a polygon needs at least three different corners.")
        if not all(-180 <= lon <= 180 and -90 <= lat <= 90 for lon, lat in corners):
            raise InputError(
                "corners are (longitude, latitude) in degrees, from -180 to 180 and -90 to 90."
            )
        object.__setattr__(self, "corners", corners)

    @classmethod
    def of_box(cls, west: float, south: float, east: float, north: float) -> Polygon:
        """Return the area between two longitudes and two latitudes."""
        if not (west < east and south < north):
            raise InputError("a box runs from west to east and from south to north.")
        return cls(((west, south), (east, south), (east, north), (west, north)))

    def hexagons(self, resolution: int) -> NDArray[np.uint64]:
        """Return the hexagons of the area."""
        return hexagons.of_polygon(self.corners, resolution)


@dataclass(frozen=True)
class HexagonList:
    """Hexagons by name. Listing them declares that they are in use.

    Attributes
    ----------
    names : tuple of str
        Canonical H3 indexes.
    """

    names: tuple[str, ...]

    def hexagons(self, resolution: int) -> NDArray[np.uint64]:
        """Return the hexagons; raise InputError for a name of another resolution."""
        for name in self.names:
            if not hexagons.is_name(name, resolution):
                raise InputError(f"{name!r} is no hexagon of resolution {resolution}.")
        return np.array(sorted({int(name, 16) for name in self.names}), dtype=np.uint64)


Area: TypeAlias = Polygon | HexagonList


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


def _slots(cells: Cells, dates: tuple[str, str] | None) -> NDArray[np.int64]:
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
