"""Fine counts added up to coarser grids in memory, without a query for each grid.

A query costs milliseconds however few its rows are, and a grid takes seven of them. Here keys are
numbered once for all grids of a resolution, and a grid is a sort of whole numbers. What comes out
is what the engine's queries give (`regrid`), which add up where there are too many counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hexveil.base.arrow_numbers import to_numpy, to_table
from hexveil.model.cells import DAY, Cells, CellTable, Labels
from hexveil.model.pair_bins import sort_numbers
from hexveil.records.duckdb import aggregation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hexveil.base.arrays import Ints
    from hexveil.model.occupancy import Occupancy
    from hexveil.records.select import Select


MOST_COUNTS = 1 << 21
"""Fine counts that are added up in memory: they take about 100 MB."""


@dataclass(frozen=True)
class GridCounts:
    """Records of each pair on one grid, and the cells that selection left.

    Attributes
    ----------
    cells : CellTable
    occupancy : Occupancy
    n_all : int
        Cells before selection.
    """

    cells: CellTable
    occupancy: Occupancy
    n_all: int


@dataclass(frozen=True, eq=False, repr=False)
class FineCounts:
    """Counts on the finest grid of a group, by unit.

    Attributes
    ----------
    table : pyarrow.Table
        Keys of the unit and of the finest cell, and `n`.
    unit_keys : tuple of str
    """

    table: pa.Table
    unit_keys: tuple[str, ...]

    def on_grid(
        self, grid: Cells | Labels, places: Sequence[str], select: Select
    ) -> GridCounts | None:
        """Return the counts on a grid; None if selection leaves no cell.

        Parameters
        ----------
        grid : Cells or Labels
        places : sequence of str
            The columns of a grid of labels, in its order; empty for hexagons.
        select : Select
        """
        if not self.table.num_rows:
            return None
        keys = self._cell_keys(grid, places)
        fine_cell, first = _numbered([numbers for numbers, _ in keys])
        n_units = int(self._unit.max()) + 1
        order, key = sort_numbers(fine_cell * n_units + self._unit)
        starts = np.flatnonzero(np.diff(key, prepend=-1))
        n = np.add.reduceat(self._n[order], starts)
        cell, unit = np.divmod(key[starts], n_units)
        users = np.bincount(cell, minlength=first.size)
        # Whole numbers far below 2**53: sums of doubles are exact.
        records = np.asarray(np.bincount(cell, weights=n, minlength=first.size), dtype=np.float64)
        chosen = _selected(users, records, select)
        number = np.full(first.size, -1)
        number[chosen] = np.arange(chosen.size)
        rows = np.flatnonzero(number[cell] >= 0)
        if not rows.size:
            return None
        pairs = to_table({"cell": number[cell[rows]], "unit": unit[rows], "n": n[rows]})
        occupancy, *_ = aggregation.to_occupancy(pairs)
        columns = [(numbers[first[chosen]], texts) for numbers, texts in keys]
        return GridCounts(_cell_table(grid, columns), occupancy, first.size)

    @cached_property
    def _n(self) -> Ints:
        return self._integers("n")

    @cached_property
    def _unit(self) -> Ints:
        """The number of each row's unit, in the order of ids, then days."""
        columns = [
            self._text("user_id")[0] if name == "user_id" else self._integers(name)
            for name in self.unit_keys
        ]
        return _numbered(columns)[0]

    def _integers(self, name: str) -> Ints:
        return to_numpy(self.table[name]).astype(np.int64)

    def _text(self, name: str) -> tuple[Ints, pa.Array]:
        """Return the rank of each text of a column, and the texts in the order of their bytes."""
        encoded = self.table[name].combine_chunks().dictionary_encode()
        order = pc.array_sort_indices(encoded.dictionary)
        rank = np.empty(len(order), dtype=np.int64)
        rank[to_numpy(order)] = np.arange(len(order))
        return rank[to_numpy(encoded.indices)], encoded.dictionary.take(order)

    def _cell_keys(
        self, grid: Cells | Labels, places: Sequence[str]
    ) -> list[tuple[Ints, pa.Array | None]]:
        """Return the keys of each row's cell: numbers, or ranks of texts with the texts."""
        if not isinstance(grid, Cells):
            return [self._text(name) for name in places]
        keys: list[tuple[Ints, pa.Array | None]] = [(self._integers("hexagon"), None)]
        if grid.seconds is not None:
            # `base` is shifted by a day: see `regrid`.
            start = self._integers("base") // grid.seconds * grid.seconds
            keys.append((start % DAY if grid.slot == "pooled" else start - DAY, None))
        return keys


def _numbered(columns: Sequence[Ints]) -> tuple[Ints, Ints]:
    """Return the rank of each row among the distinct rows, and a row of each."""
    number = np.zeros(columns[0].size, dtype=np.int64)
    for column in columns:
        values, rank = np.unique(column, return_inverse=True)
        # Numbered again after each column, so that a product of two numbers always fits.
        number = np.unique(number * values.size + rank, return_inverse=True)[1]
    return number, np.unique(number, return_index=True)[1]


def _selected(users: Ints, records: NDArray[np.float64], select: Select) -> Ints:
    """Return the cells that selection leaves, in order."""
    enough = np.flatnonzero(users >= select.min_users)
    if select.top is None:
        return enough
    # A stable sort: ties go to the cell that comes first.
    return np.sort(enough[np.argsort(-records[enough], kind="stable")[: select.top]])


def _cell_table(grid: Cells | Labels, columns: Sequence[tuple[Ints, pa.Array | None]]) -> CellTable:
    """Return cells from their keys."""
    if isinstance(grid, Cells):
        hexagon, *slot = [ints for ints, _ in columns]
        return CellTable(grid, hexagon.astype(np.uint64), slot[0] if slot else None)
    labels = {
        name: tuple(texts.take(pa.array(ranks)).to_pylist())
        for name, (ranks, texts) in zip(grid.columns, columns, strict=True)
        if texts is not None
    }
    return CellTable(grid, labels=labels)
