"""PRIVATE. Pairs in memory beside the engine, in the order of their cells, then of their units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hexveil.base.arrow_numbers import to_arrow, to_numpy, to_table
from hexveil.records.duckdb.aggregation import (
    ALL_CELLS,
    FINE_BIN,
    NUMBERED_BINS,
    NUMBERED_PAIRS,
    SELECTED_CELLS,
    GroupKeys,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from hexveil.base.arrays import Ints
    from hexveil.model.pair_bins import PairBins
    from hexveil.records.duckdb.session import Session

_AT_ONCE = 1 << 18
"""Pairs that are counted by user at once."""


@dataclass(frozen=True, eq=False, repr=False)
class SortedPairs:
    """PRIVATE. A store of pairs (`pair_store.PairStore`) that the engine has not seen.

    Attributes
    ----------
    session : Session
    keys : GroupKeys
    cells : pyarrow.Table
        The keys of each cell, in order; `users` and `records` in it.
    units : pyarrow.Table
        The keys of each unit, in order.
    unit : ndarray of int, shape (n_pairs,)
        Rows of `units`.
    sums : mapping of str to ndarray of int
        `n`, `total` and perhaps `total_sq` of each pair. Where sums of as many values, or of their
        squares, could overflow, these may have: they are refused, or not used.
    left_out : mapping of int to int
        Per reason (0: kept) how many records it covers.
    bins : PairBins or None
        Records of each pair by fine bin; None where they were not counted.
    """

    session: Session
    keys: GroupKeys
    cells: pa.Table
    units: pa.Table
    unit: NDArray[Any]
    sums: dict[str, Ints]
    left_out: Mapping[int, int]
    bins: PairBins | None = None

    def reject_counts(self) -> dict[int, int]:
        """Return the number of records per reject reason (0: kept), repeats not counted."""
        return dict(self.left_out)

    def count_single_records(self) -> tuple[int, int]:
        """Return the number of users, and of those with a single record; in any cell."""
        names = self.units["user_id"].combine_chunks()
        # Units of one user, its days or weeks, follow each other.
        user = np.zeros(len(names), dtype=np.int64)
        user[1:] = np.cumsum(pc.not_equal(names[1:], names[:-1]).to_numpy(zero_copy_only=False))
        records = np.zeros(len(names))
        for start in range(0, self.unit.size, _AT_ONCE):
            rows = slice(start, start + _AT_ONCE)
            records += np.bincount(user[self.unit[rows]], self.sums["n"][rows], records.size)
        return int((records > 0).sum()), int((records == 1).sum())

    def largest_count(self) -> int:
        """Return the largest number of records of a pair, in any cell."""
        return int(self.sums["n"].max())

    def create_cells(self) -> None:
        """Create the table of all cells, with their users and records."""
        self.session.register("sorted_cells", self.cells)
        self.session.run(
            f"CREATE OR REPLACE TEMP TABLE {ALL_CELLS} AS SELECT {', '.join(self.keys.cell)}, "
            "users, records FROM sorted_cells"
        )

    def fetch_pairs(self, sums: Sequence[str]) -> pa.Table:
        """Return cell, unit, n and the named sums of each pair in the selected cells."""
        users, selected = to_numpy(self.cells["users"]), self._selected_rows()
        columns: dict[str, Any] = {n: self.sums[n] for n in ("n", *sums)} | {"unit": self.unit}
        if selected.size < users.size:
            is_kept = np.repeat(np.isin(np.arange(users.size), selected), users)
            columns = {name: column[is_kept] for name, column in columns.items()}
        numbers = np.arange(selected.size, dtype=np.int32)
        return to_table(columns | {"cell": np.repeat(numbers, users[selected])})

    def number_pairs(self, sums: Sequence[str]) -> None:
        """Create the relation of fetched pairs."""
        self.session.register(NUMBERED_PAIRS, self.fetch_pairs(sums))

    def forget_numbers(self) -> None:
        """Remove the relation of fetched pairs."""
        self.session.forget(NUMBERED_PAIRS)

    def number_bins(self) -> None:
        """Create the relation of counts by bin."""
        pairs = self.fetch_pairs(())
        bins = self.fetch_bins(pairs)
        columns = {name: to_numpy(pairs[name])[bins.pair] for name in ("cell", "unit")}
        rows = to_table({**columns, FINE_BIN: bins.bin, "n": bins.count})
        self.session.register(NUMBERED_BINS, rows)

    def fetch_units(self) -> pa.Table:
        """Return the keys of all units, in order."""
        return self.units

    def fetch_bins(self, pairs: pa.Table) -> PairBins:  # noqa: ARG002  in their own order
        """Return the counts by bin of the rows that `fetch_pairs` returned."""
        assert self.bins is not None  # noqa: S101  asked for where bins are counted alone
        chosen = np.isin(np.arange(self.cells.num_rows), self._selected_rows())
        return self.bins.of_pairs(chosen[self._cell])

    def write(self, columns: str, target: str, *, by_bin: bool = False) -> None:
        """Copy columns of the pairs of kept records to a target of SQL's COPY."""
        cell, unit, sums = self._cell, self.unit, dict(self.sums)
        if by_bin:
            assert self.bins is not None  # noqa: S101  asked for where bins are counted alone
            # Sums of a pair stand in the first of its rows, so that those of its rows are its own.
            first = np.searchsorted(self.bins.pair, np.arange(unit.size))
            cell, unit = cell[self.bins.pair], unit[self.bins.pair]
            for name, whole in self.sums.items():
                sums[name] = np.zeros(unit.size, dtype=np.int64)
                sums[name][first] = whole
            sums |= {"n": self.bins.count, FINE_BIN: self.bins.bin}
        keys = {name: self.cells[name].take(to_arrow(cell)) for name in self.keys.cell}
        keys |= {name: self.units[name].take(to_arrow(unit)) for name in self.keys.unit}
        self.session.register("sorted_pairs", to_table(keys | sums))
        self.session.run(f"COPY (SELECT {columns} FROM sorted_pairs) {target}")
        # The keys beside the sums are as large as all pairs: freed at once.
        self.session.forget("sorted_pairs")

    @property
    def _cell(self) -> Ints:
        """Row of `cells` of each pair: made anew, since it is rarely needed."""
        return np.repeat(np.arange(self.cells.num_rows), to_numpy(self.cells["users"]))

    def _selected_rows(self) -> Ints:
        """Return the rows of `cells` that are selected."""
        names = ", ".join(self.keys.cell)
        # Cells are in the order of their keys, so that a cell's rank is its row.
        selected = self.session.arrow(
            f"SELECT place FROM (SELECT {names}, row_number() OVER (ORDER BY {names}) - 1 AS place "
            f"FROM {ALL_CELLS}) JOIN {SELECTED_CELLS} USING ({names}) ORDER BY cell"
        )
        return np.asarray(to_numpy(selected["place"]), dtype=np.int64)
