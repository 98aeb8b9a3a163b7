"""PRIVATE. Counts and sums per (cell, privacy unit), before cells are selected.

Four relations of a session have them: all cells and all units, numbered in the order of their keys
with what they have, the pairs by these numbers, and pairs by bin. The engine makes them by grouping
(`aggregation.create_pairs`), or they are registered as they are found beside it (`fast_path`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hexveil.base.arrow_numbers import to_numpy, to_table
from hexveil.model.pair_bins import PairBins
from hexveil.records.duckdb.aggregation import (
    ALL_CELLS,
    NUMBERED_BINS,
    NUMBERED_PAIRS,
    PAIR_BINS,
    PAIRS,
    SELECTED_CELLS,
    UNITS,
    GroupKeys,
    bins_of_rows,
)
from hexveil.records.duckdb.session import Session


@dataclass(frozen=True, eq=False, repr=False)
class PairStore:
    """PRIVATE. All pairs of a reading.

    Attributes
    ----------
    session : Session
        With the relations `ALL_CELLS`, `UNITS`, `PAIRS` and perhaps `PAIR_BINS`.
    keys : GroupKeys
        Of cells and units.
    left_out : mapping of int to int
        Records per reject reason (0: kept), repeats not counted.
    columns : mapping of str to ndarray, or None
        `place`, `unit` and the counts and sums of pairs in the order of their cells, then of their
        units, where they are in memory beside the engine. Where sums of as many values, or of their
        squares, could overflow, these may have: they are refused, or not used.
    """

    session: Session
    keys: GroupKeys
    left_out: Mapping[int, int]
    columns: Mapping[str, NDArray[Any]] | None = None

    def count_single_records(self) -> tuple[int, int]:
        """Return the number of users, and of those with a single record; in any cell."""
        users, single = self.session.rows(
            # By user, whatever the unit: a vehicle with one record on each of many days is no
            # single record.
            "SELECT count(*), count(*) FILTER (WHERE n = 1) FROM (SELECT sum(n) AS n FROM (SELECT "
            f"unit, sum(n) AS n FROM {PAIRS} GROUP BY unit) JOIN {UNITS} USING (unit) "
            "GROUP BY user_id)"
        )[0]
        return int(str(users)), int(str(single))

    def largest_count(self) -> int:
        """Return the largest number of records of a pair, in any cell."""
        return int(str(self.session.rows(f"SELECT max(n) FROM {PAIRS}")[0][0]))

    def fetch_pairs(self, sums: Sequence[str]) -> pa.Table:
        """Return cell, unit, n and the named sums of each pair in the selected cells.

        Units without a selected cell are numbered too.
        """
        if self.columns is None:
            return self.session.arrow(self._numbered(PAIRS, sums))
        names, place = ("n", *sums, "unit"), self.columns["place"]
        chosen = to_numpy(self.session.arrow(f"{self._chosen} ORDER BY cell")["place"])
        n_cells = int(place[-1]) + 1
        number = np.full(n_cells, -1, dtype=np.int32)
        number[chosen] = np.arange(chosen.size, dtype=np.int32)
        columns = {"cell": number[place]} | {name: self.columns[name] for name in names}
        if chosen.size < n_cells:
            is_kept = columns["cell"] >= 0
            columns = {name: column[is_kept] for name, column in columns.items()}
        return to_table(columns)

    def number_pairs(self, sums: Sequence[str]) -> None:
        """Create the relation of fetched pairs, for the engine to put in order."""
        if self.columns is not None:
            self.session.register(NUMBERED_PAIRS, self.fetch_pairs(sums))
            return
        query = self._numbered(PAIRS, sums)
        self.session.run(f"CREATE OR REPLACE TEMP TABLE {NUMBERED_PAIRS} AS {query}")
        # The other pairs are used up.
        self.session.forget(PAIRS)

    def forget_numbers(self) -> None:
        """Remove the relation of fetched pairs."""
        self.session.forget(NUMBERED_PAIRS)

    def number_bins(self) -> None:
        """Create the relation of the pairs' counts by bin; those of all cells are used up."""
        query = self._numbered(PAIR_BINS, ("fine_bin",))
        self.session.run(f"CREATE OR REPLACE TEMP TABLE {NUMBERED_BINS} AS {query}")
        self.session.forget(PAIR_BINS)

    def fetch_units(self) -> pa.Table:
        """Return the keys of all units, in the order of their ids' bytes, then days."""
        return self.session.arrow(f"SELECT * EXCLUDE (unit) FROM {UNITS} ORDER BY unit")

    def fetch_bins(self, pairs: pa.Table) -> PairBins:
        """Return the counts by bin of the rows that `fetch_pairs` returned."""
        return bins_of_rows(self.session.arrow(self._numbered(PAIR_BINS, ("fine_bin",))), pairs)

    def write(self, columns: str, target: str, *, by_bin: bool = False) -> None:
        """Copy columns of the pairs to a target of SQL's COPY; by bin a row is of one fine bin."""
        cells = f"SELECT place, {', '.join(self.keys.cell)} FROM {ALL_CELLS}"
        self.session.run(
            f"COPY (SELECT {columns} FROM {PAIR_BINS if by_bin else PAIRS} JOIN ({cells}) "
            f"USING (place) JOIN {UNITS} USING (unit)) {target}"
        )

    @property
    def _chosen(self) -> str:
        """The query of the selected cells: their place among all, and their number."""
        names = ", ".join(self.keys.cell)
        return f"SELECT place, cell FROM {ALL_CELLS} JOIN {SELECTED_CELLS} USING ({names})"

    def _numbered(self, pairs: str, columns: Sequence[str]) -> str:
        """Return the query of the rows in the selected cells, by their numbers."""
        # Sums have 128 bits in the engine. Only those that fit 64 are asked for, so that no cast
        # fails.
        others = "".join(f", CAST({name} AS BIGINT) AS {name}" for name in columns)
        return (
            f"SELECT CAST(cell AS INTEGER) AS cell, unit, n{others} FROM {pairs} "
            f"JOIN ({self._chosen}) USING (place)"
        )
