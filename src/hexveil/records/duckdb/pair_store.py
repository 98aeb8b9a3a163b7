"""PRIVATE. Counts and sums per (cell, privacy unit), before cells are selected.

Two stores answer the same questions: the engine's table of pairs, and pairs that were sorted beside
the engine (`sorted_pairs`). Counting returns one of them; nothing else knows which.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from hexveil.records.duckdb.aggregation import (
    ALL_CELLS,
    NUMBERED_BINS,
    NUMBERED_PAIRS,
    PAIR_BINS,
    PAIRS,
    SELECTED_CELLS,
    GroupKeys,
    bins_of_rows,
    number_units,
    numbered_units,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from hexveil.model.pair_bins import PairBins
    from hexveil.records.duckdb.session import Session


class PairStore(Protocol):
    """PRIVATE. All pairs of a reading."""

    @property
    def keys(self) -> GroupKeys:
        """The keys of pairs: of the cell and of the unit."""

    def reject_counts(self) -> dict[int, int]:
        """Return the number of records per reject reason (0: kept), repeats not counted."""

    def count_single_records(self) -> tuple[int, int]:
        """Return the number of users, and of those with a single record; in any cell."""

    def largest_count(self) -> int:
        """Return the largest number of records of a pair, in any cell."""

    def create_cells(self) -> None:
        """Create the table of all cells, with their users and records."""

    def fetch_pairs(self, sums: Sequence[str]) -> pa.Table:
        """Return cell, unit, n and the named sums of each pair in the selected cells.

        Units are numbered in the order of their ids' bytes, then days; units without a selected
        cell are numbered too.
        """

    def number_pairs(self, sums: Sequence[str]) -> None:
        """Create the relation of fetched pairs, for the engine to put in order.

        Pairs themselves are used up.
        """

    def forget_numbers(self) -> None:
        """Remove the relation of fetched pairs."""

    def number_bins(self) -> None:
        """Create the relation of the pairs' counts by bin: cell, unit, fine_bin and n."""

    def fetch_units(self) -> pa.Table:
        """Return the keys of all numbered units, in order; number or fetch pairs first."""

    def fetch_bins(self, pairs: pa.Table) -> PairBins:
        """Return the counts by bin of the rows that `fetch_pairs` returned."""

    def write(self, columns: str, target: str, *, by_bin: bool = False) -> None:
        """Copy columns of the pairs of kept records to a target of SQL's COPY.

        By bin, a row is a pair and fine bin; sums of values are those of a pair's rows together.
        """


@dataclass(frozen=True, repr=False)
class PairTable:
    """PRIVATE. The pairs in the session's table of pairs.

    Attributes
    ----------
    session : Session
    keys : GroupKeys
        Keys of the table of pairs.
    """

    session: Session
    keys: GroupKeys

    @property
    def _is_kept(self) -> str:
        # Rejected records have no cell, and the reason in place of the user.
        return f"{next(iter(self.keys.cell))} IS NOT NULL"

    def reject_counts(self) -> dict[int, int]:
        """Return the number of records per reject reason (0: kept), repeats not counted."""
        reason = f"CASE WHEN {self._is_kept} THEN 0 ELSE CAST(user_id AS TINYINT) END"
        rows = self.session.rows(
            f"SELECT {reason} AS reject_reason, CAST(sum(n) AS BIGINT) FROM {PAIRS} GROUP BY ALL"
        )
        return {int(str(reason)): int(str(n)) for reason, n in rows}

    def count_single_records(self) -> tuple[int, int]:
        """Return the number of users, and of those with a single record; in any cell."""
        users, single = self.session.rows(
            # By user, whatever the unit: a vehicle with one record on each of many days is no
            # single record.
            "SELECT count(*), count(*) FILTER (WHERE n = 1) FROM "
            f"(SELECT sum(n) AS n FROM {PAIRS} WHERE {self._is_kept} GROUP BY user_id)"
        )[0]
        return int(str(users)), int(str(single))

    def largest_count(self) -> int:
        """Return the largest number of records of a pair, in any cell."""
        query = f"SELECT max(n) FROM {PAIRS} WHERE {self._is_kept}"
        return int(str(self.session.rows(query)[0][0]))

    def create_cells(self) -> None:
        """Create the table of all cells, with their users and records."""
        names = ", ".join(self.keys.cell)
        self.session.run(
            f"CREATE OR REPLACE TEMP TABLE {ALL_CELLS} AS SELECT {names}, count(*) AS users, "
            f"sum(n) AS records FROM {PAIRS} WHERE {self._is_kept} GROUP BY {names}"
        )

    def fetch_pairs(self, sums: Sequence[str]) -> pa.Table:
        """Return cell, unit, n and the named sums of each pair in the selected cells."""
        return self.session.arrow(self._numbered_query(sums))

    def number_pairs(self, sums: Sequence[str]) -> None:
        """Create the relation of fetched pairs; pairs themselves are used up."""
        query = self._numbered_query(sums)
        self.session.run(f"CREATE OR REPLACE TEMP TABLE {NUMBERED_PAIRS} AS {query}")
        self.session.run(f"DROP TABLE {PAIRS}")

    def forget_numbers(self) -> None:
        """Remove the relation of fetched pairs."""
        self.session.run(f"DROP TABLE {NUMBERED_PAIRS}")

    def number_bins(self) -> None:
        """Create the relation of counts by bin; those by key are used up."""
        query = f"SELECT selected.cell, units.unit, fine_bin, n FROM {PAIR_BINS} pair "
        self.session.run(
            f"CREATE OR REPLACE TEMP TABLE {NUMBERED_BINS} AS {query} {self._numbered()}"
        )
        self.session.run(f"DROP TABLE {PAIR_BINS}")

    def _numbered_query(self, sums: Sequence[str]) -> str:
        """Return the query of the pairs in the selected cells, by numbers; units get theirs."""
        unit_keys = ", ".join(self.keys.unit)
        distinct = f"SELECT DISTINCT {unit_keys} FROM {PAIRS} WHERE {self._is_kept}"
        number_units(self.session, distinct, self.keys)
        # Sums have 128 bits in the engine. Only those that fit 64 are asked for, so that no cast
        # fails.
        summed = "".join(f", CAST(pair.{name} AS BIGINT) AS {name}" for name in sums)
        return (
            "SELECT CAST(selected.cell AS INTEGER) AS cell, CAST(units.unit AS INTEGER) AS unit, "
            f"pair.n{summed} FROM {PAIRS} pair {self._numbered()}"
        )

    def fetch_bins(self, pairs: pa.Table) -> PairBins:
        """Return the counts by bin of the rows that `fetch_pairs` returned."""
        binned = self.session.arrow(
            f"SELECT selected.cell, units.unit, fine_bin, n FROM {PAIR_BINS} pair "
            f"{self._numbered()}"
        )
        return bins_of_rows(binned, pairs)

    def _numbered(self) -> str:
        """Return the joins of a table of pairs with the numbers of selected cells and units."""
        on_cell = " AND ".join(f"pair.{name} = selected.{name}" for name in self.keys.cell)
        on_unit = " AND ".join(f"pair.{name} = units.{name}" for name in self.keys.unit)
        return f"JOIN {SELECTED_CELLS} selected ON {on_cell} JOIN units ON {on_unit}"

    def fetch_units(self) -> pa.Table:
        """Return the keys of all numbered units, in order; number or fetch pairs first."""
        return numbered_units(self.session)

    def write(self, columns: str, target: str, *, by_bin: bool = False) -> None:
        """Copy columns of the pairs of kept records to a target of SQL's COPY."""
        table = PAIR_BINS if by_bin else PAIRS
        self.session.run(f"COPY (SELECT {columns} FROM {table} WHERE {self._is_kept}) {target}")
