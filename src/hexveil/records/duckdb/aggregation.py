"""Aggregation of validated records to counts and sums per (cell, unit): one pass.

Records that a rule leaves out go through the same grouping, one group per reason, so that one
scan gives the sums and the public counts.

PRIVATE. Counts and sums per (cell, privacy unit), before cells are selected.

Four relations of a session have them: all cells and all units, numbered in the order of their keys
with what they have, the pairs by these numbers, and pairs by bin. The engine makes them by grouping
(`aggregation.create_pairs`), or they are registered as they are found beside it (`fast_path`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hexveil.base.arrow_tables import to_numpy, to_table
from hexveil.model.cells import DAY, Cells, CellTable, Labels
from hexveil.model.occupancy import LocalOccupancy
from hexveil.model.pair_bins import PairBins
from hexveil.model.public_metadata import FineBins, Unit
from hexveil.records.duckdb.session import Session
from hexveil.records.feasible_sums import bin_number
from hexveil.records.select import Select
from hexveil.records.units import Units, first_days

RELATIONS = ALL_CELLS, UNITS, PAIRS, PAIR_BINS = ("all_cells", "units", "pairs", "pair_bins")
"""Relations of all pairs: see `hexveil.records.duckdb.aggregation`."""
SELECTED_CELLS, NUMBERED_PAIRS, NUMBERED_BINS = "selected_cells", "numbered_pairs", "numbered_bins"
"""Relations of the cells that are used, and of their pairs by numbers of cells and units."""
KEYED, _CELLS = "keyed_pairs", "numbered_cells"
FINE_BIN = "fine_bin"
"""Column of the number of a fine bin."""
TOTAL, SQUARES = "total", "total_sq"
"""Columns of the sum and of the sum of squares."""


@dataclass(frozen=True)
class GroupKeys:
    """Keys of the groups of records: SQL expressions by name.

    Attributes
    ----------
    cell : mapping of name to expression
    unit : mapping of name to expression
    """

    cell: dict[str, str]
    unit: dict[str, str]

    @property
    def all(self) -> dict[str, str]:
        """Cell and unit keys together."""
        return {**self.cell, **self.unit}


def group_keys(
    session: Session, grid: Cells | Labels, unit: Unit, places: Sequence[str]
) -> GroupKeys:
    """Return the keys of kept records, from their columns user_id, local_s and the places."""
    if isinstance(grid, Cells):
        # Nulls where the record is left out: the hexagon of a bad place would stop the query.
        lat, lon = (f"CASE WHEN reject_reason = 0 THEN {place} END" for place in places)
        cell = {"hexagon": session.hexagon(lat, lon, grid.resolution)}
        if grid.seconds is not None:
            cell["slot"] = slot("local_s", grid)
    else:
        cell = {f"label{i}": place for i, place in enumerate(places)}
    return GroupKeys(cell, unit_keys(unit))


def unit_keys(unit: Unit) -> dict[str, str]:
    """Return the keys of a privacy unit: the user, and the day or week."""
    if unit == "user":
        return {"user_id": "user_id"}
    if unit == "user-day":
        return {"user_id": "user_id", "day": f"(local_s + {DAY}) // {DAY}"}
    # Weeks start on Mondays; 1970-01-01 was a Thursday, three days after one.
    return {"user_id": "user_id", "week": f"(local_s + {10 * DAY}) // {7 * DAY}"}


def slot(wall: str, grid: Cells) -> str:
    """Return a record's slot in seconds, as `CellTable.slot` names it."""
    seconds = grid.seconds
    # Shifted by a day, since whole-number division rounds towards zero.
    start = f"({wall} + {DAY}) // {seconds} * {seconds}"
    return f"({start}) % {DAY}" if grid.slot == "pooled" else f"{start} - {DAY}"


def grouped(query: str, keys: GroupKeys, *, squares: bool, edges: Sequence[int] = ()) -> str:
    """Return the query of counts and sums of validated records; rejects are counted by reason.

    Parameters
    ----------
    query : str
        Of validated records.
    keys : GroupKeys
        Null for records that are left out: a row for each reason, and no user or place of theirs.
    squares : bool
        Whether sums of squares are made, which have 128 bits, as sums do.
    edges : sequence of int
        Of fine bins, of which a row then is one, too.
    """
    columns = "".join(
        f"CASE WHEN reject_reason = 0 THEN {expression} END AS {name}, "
        for name, expression in keys.all.items()
    )
    if edges:
        columns += f"{bin_number('quanta', edges)} AS {FINE_BIN}, "
    names = ", ".join(("reject_reason", *keys.all, *[FINE_BIN] * bool(edges)))
    squared = f", sum(CAST(quanta AS BIGINT) * quanta) AS {SQUARES}" if squares else ""
    return (
        f"SELECT {names}, count(*) AS n, sum(quanta) AS {TOTAL}{squared} FROM (SELECT "
        f"reject_reason, {columns}CASE WHEN reject_reason = 0 THEN quanta END AS quanta "
        f"FROM ({query})) "
        f"GROUP BY {names}"
    )


def create_pairs(
    session: Session, query: str, keys: GroupKeys, *, squares: bool, bins: FineBins | None = None
) -> PairStore:
    """Return the pairs of validated records, which the engine groups."""
    edges = [] if bins is None else bins.edges.tolist()
    # If not even one square fits, no sum of squares will: it is not computed at all.
    statement = grouped(query, keys, squares=squares, edges=edges)
    session.run(f"CREATE OR REPLACE TEMP TABLE {KEYED} AS {statement}")
    return number_keyed(session, keys, squares=squares, by_bin=bins is not None)


def number_keyed(session: Session, keys: GroupKeys, *, squares: bool, by_bin: bool) -> PairStore:
    """Return the pairs of counts and sums by reason and keys, the table `KEYED`; it is used up."""
    rows = session.rows(f"SELECT reject_reason, sum(n)::BIGINT FROM {KEYED} GROUP BY ALL")
    left_out = {int(str(reason)): int(str(n)) for reason, n in rows}
    kept, sums = f"{KEYED} WHERE reject_reason = 0", (TOTAL, SQUARES) if squares else (TOTAL,)
    pairs = number_pairs(session, kept, keys, sums, left_out, by_bin=by_bin)
    session.forget(KEYED)
    return pairs


def number_pairs(
    session: Session,
    rows: str,
    grouping: GroupKeys,
    sums: Sequence[str],
    left_out: Mapping[int, int],
    *,
    by_bin: bool = False,
) -> PairStore:
    """Return the pairs of rows of counts and sums, which may share their keys.

    Parameters
    ----------
    session : Session
    rows : str
        What stands after FROM; columns are named as keys.
    grouping : GroupKeys
    sums : sequence of str
        Names of the sums that the rows have beside their counts.
    left_out : mapping of int to int
        Per reason (0: kept) how many records it covers.
    by_bin : bool
        Whether rows are of one fine bin each.
    """
    session.forget(*RELATIONS)
    cells, units = ", ".join(grouping.cell), ", ".join(grouping.unit)
    session.run(
        f"CREATE OR REPLACE TEMP TABLE {_CELLS} AS SELECT {cells}, row_number() OVER (ORDER BY "
        f"{cells}) - 1 AS place FROM (SELECT DISTINCT {cells} FROM {rows})"
    )
    session.run(
        f"CREATE OR REPLACE TEMP TABLE {UNITS} AS SELECT *, row_number() OVER (ORDER BY {units}) "
        f"- 1 AS unit FROM (SELECT DISTINCT {units} FROM {rows})"
    )
    summed = "CAST(sum(n) AS BIGINT) AS n" + "".join(f", sum({name}) AS {name}" for name in sums)
    numbered = f"(SELECT * FROM {rows}) JOIN {_CELLS} USING ({cells}) JOIN {UNITS} USING ({units})"
    # By one number for both, which the engine groups in half of the time.
    n_units = f"(SELECT count(*) FROM {UNITS})"
    keys = f"CAST(pair // {n_units} AS INTEGER) AS place, CAST(pair % {n_units} AS INTEGER) AS unit"
    for table, name in ((PAIR_BINS, f", {FINE_BIN}"), (PAIRS, ""))[not by_bin :]:
        session.run(
            f"CREATE OR REPLACE TEMP TABLE {table} AS SELECT {keys}, * EXCLUDE (pair) FROM (SELECT "
            f"place * {n_units} + unit AS pair{name}, {summed} FROM {numbered} GROUP BY pair{name})"
        )
        # Pairs add up from their bins.
        numbered = table
    session.run(
        f"CREATE OR REPLACE TEMP TABLE {ALL_CELLS} AS SELECT * FROM {_CELLS} JOIN (SELECT place, "
        f"count(*) AS users, CAST(sum(n) AS BIGINT) AS records FROM {PAIRS} GROUP BY place) "
        "USING (place)"
    )
    return PairStore(session, grouping, left_out)


def select_cells(session: Session, grouping: GroupKeys, select: Select) -> tuple[int, int, int]:
    """Create the table of selected cells; return the numbers of all, eligible and selected ones."""
    names = ", ".join(grouping.cell)
    # Ties by the cell's name: rows have no order of their own, and the grid must be reproducible.
    top = "" if select.top is None else f" ORDER BY records DESC, {names} LIMIT {select.top}"
    session.run(
        f"CREATE OR REPLACE TEMP TABLE {SELECTED_CELLS} AS SELECT {names}, "
        f"row_number() OVER (ORDER BY {names}) - 1 AS cell FROM ("
        f"SELECT * FROM {ALL_CELLS} WHERE users >= {select.min_users}{top})"
    )
    everything, enough, used = session.numbers(
        "SELECT count(*), count(*) FILTER (WHERE users >= "
        f"{select.min_users}), (SELECT count(*) FROM {SELECTED_CELLS}) FROM {ALL_CELLS}"
    )
    return everything, enough, used


def count_pairs(session: Session, grouping: GroupKeys) -> int:
    """Return the number of pairs in the selected cells."""
    names = ", ".join(grouping.cell)
    return session.numbers(
        f"SELECT sum(users)::BIGINT FROM {ALL_CELLS} SEMI JOIN {SELECTED_CELLS} USING ({names})"
    )[0]


def cell_table(session: Session, grid: Cells | Labels, grouping: GroupKeys) -> CellTable:
    """Return the used cells in order."""
    table = session.arrow(f"SELECT {', '.join(grouping.cell)} FROM {SELECTED_CELLS} ORDER BY cell")
    if isinstance(grid, Labels):
        labels = {
            name: tuple(table[f"label{i}"].to_pylist()) for i, name in enumerate(grid.columns)
        }
        return CellTable(grid, labels=labels)
    slots = None if grid.seconds is None else to_numpy(table["slot"]).astype(np.int64)
    return CellTable(grid, to_numpy(table["hexagon"]).astype(np.uint64), slots)


def to_units(table: pa.Table, unit: Unit) -> Units:
    """Return the ids and days of units from their keys. PRIVATE."""
    keys = [name for name in table.column_names if name in ("day", "week")]
    days = first_days(to_numpy(table[keys[0]]).astype(np.int64), unit) if keys else None
    return Units(table["user_id"].combine_chunks(), days)


def to_occupancy(pairs: pa.Table) -> tuple[LocalOccupancy, NDArray[np.int64]]:
    """Return the occupancy of pairs in order, and the numbers of its users among all units.

    Units are numbered before selection; those without a selected cell are left out, and booked no
    loss.
    """
    cell, unit, n = (to_numpy(pairs[name]) for name in ("cell", "unit", "n"))
    used = np.flatnonzero(np.bincount(unit))
    if used.size <= unit.max():
        unit = renumbered(used)[unit]
    return LocalOccupancy(cell, unit, n, int(cell[-1]) + 1, used.size), used


def renumbered(used: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return for each used unit, at its place among all units, its number among the used ones."""
    user = np.zeros(int(used[-1]) + 1, dtype=np.int64)
    user[used] = np.arange(used.size)
    return user


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
    bins : dict of str to ndarray
        Beside `columns`: `pair`, `fine_bin`, `n` and perhaps sums of each pair's bins, in order.
    """

    session: Session
    keys: GroupKeys
    left_out: Mapping[int, int]
    columns: Mapping[str, NDArray[Any]] | None = None
    bins: dict[str, NDArray[Any]] = field(default_factory=dict)

    def count_single_records(self) -> tuple[int, int]:
        """Return the number of users, and of those with a single record; in any cell."""
        users, single = self.session.numbers(
            # By user, whatever the unit: a vehicle with one record on each of many days is no
            # single record.
            "SELECT count(*), count(*) FILTER (WHERE n = 1) FROM (SELECT sum(n) AS n FROM (SELECT "
            f"unit, sum(n) AS n FROM {PAIRS} GROUP BY unit) JOIN {UNITS} USING (unit) "
            "GROUP BY user_id)"
        )
        return users, single

    def largest_count(self) -> int:
        """Return the largest number of records of a pair, in any cell."""
        return self.session.numbers(f"SELECT max(n) FROM {PAIRS}")[0]

    def fetch_pairs(self, sums: Sequence[str]) -> pa.Table:
        """Return cell, unit, n and the named sums of each pair in the selected cells, in order.

        Units without a selected cell are numbered too.
        """
        if self.columns is None:
            return self.session.arrow(f"{self._numbered(PAIRS, sums)} ORDER BY cell, unit")
        columns = {name: self.columns[name] for name in ("n", *sums, "unit")}
        columns["cell"] = self._cells(self.columns["place"])
        is_selected = columns["cell"] >= 0
        if not is_selected.all():
            columns = {name: column[is_selected] for name, column in columns.items()}
        return to_table(columns)

    def _cells(self, place: NDArray[Any]) -> NDArray[Any]:
        """Return the numbers of selected cells at places in order; -1 where none is selected."""
        chosen = to_numpy(self.session.arrow(f"{self._chosen} ORDER BY cell")["place"])
        number = np.full(int(place[-1]) + 1, -1, dtype=np.int32)
        number[chosen] = np.arange(chosen.size, dtype=np.int32)
        return np.asarray(number[place])

    def number_pairs(self, sums: Sequence[str]) -> None:
        """Create the relation of fetched pairs, for the engine to put in order."""
        if self.columns is not None:
            self.session.register(NUMBERED_PAIRS, self.fetch_pairs(sums))
            return
        query = self._numbered(PAIRS, sums)
        self.session.run(f"CREATE OR REPLACE TEMP TABLE {NUMBERED_PAIRS} AS {query}")
        # The other pairs are used up.
        self.session.forget(PAIRS)

    def number_bins(self) -> None:
        """Create the relation of the pairs' counts by bin; those of all cells are used up."""
        self._move_bins()
        query = self._numbered(PAIR_BINS, ("fine_bin",))
        self.session.run(f"CREATE OR REPLACE TEMP TABLE {NUMBERED_BINS} AS {query}")
        self.session.forget(PAIR_BINS)

    def fetch_units(self) -> pa.Table:
        """Return the keys of all units, in the order of their ids' bytes, then days."""
        return self.session.arrow(f"SELECT * EXCLUDE (unit) FROM {UNITS} ORDER BY unit")

    def fetch_bins(self) -> PairBins:
        """Return the counts by bin of the rows that `fetch_pairs` returns."""
        if self.columns and self.bins:
            is_selected = self._cells(self.columns["place"]) >= 0
            bins = PairBins(*(self.bins[name] for name in ("pair", FINE_BIN, "n")))
            return bins if is_selected.all() else bins.of_pairs(is_selected)
        query = f"{self._numbered(PAIR_BINS, (FINE_BIN,))} ORDER BY cell, unit, {FINE_BIN}"
        rows = self.session.arrow(query)
        cell, unit, fine_bin, n = (
            to_numpy(rows[name]).astype(np.int64) for name in ("cell", "unit", FINE_BIN, "n")
        )
        is_next = (np.diff(cell, prepend=-1) != 0) | (np.diff(unit, prepend=-1) != 0)
        return PairBins(np.cumsum(is_next) - 1, fine_bin, n)

    def write(self, columns: str, target: str, *, by_bin: bool = False) -> None:
        """Copy columns of the pairs to a target of SQL's COPY; by bin a row is of one fine bin."""
        self._move_bins()
        cells = f"SELECT place, {', '.join(self.keys.cell)} FROM {ALL_CELLS}"
        self.session.run(
            f"COPY (SELECT {columns} FROM {PAIR_BINS if by_bin else PAIRS} JOIN ({cells}) "
            f"USING (place) JOIN {UNITS} USING (unit)) {target}"
        )

    def _move_bins(self) -> None:
        """Give pairs by bin that are in memory beside the engine to it."""
        if self.columns and self.bins:
            pair = self.bins.pop("pair")
            of_pair = {name: self.columns[name][pair] for name in ("place", "unit")}
            self.session.register(PAIR_BINS, to_table(of_pair | self.bins))
            self.bins.clear()

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
