"""From checked records to counts and sums per (cell, user): the pass over all records.

Records that a rule leaves out go through the same grouping, one group per reason, so that one
scan gives the sums and the public counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from hexveil.model.cells import DAY, Cells, CellTable, Labels
from hexveil.model.occupancy import Occupancy, sorted_by_cell
from hexveil.records.units import Units, first_days

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hexveil.model.public_metadata import Unit
    from hexveil.records.duckdb.session import Session
    from hexveil.records.duckdb.validation import Checked
    from hexveil.records.read_request import Request
    from hexveil.records.select import Select

PAIRS = "pairs"
CELLS = "all_cells"
CHOSEN = "chosen"
TOTAL, SQUARES = "total", "total_sq"
"""Temporary tables: counts and sums per (cell, unit of privacy), all cells, those that are used."""
MOST_PARTS = 8
"""Times that records are read at most to find repeats: some hashes are sorted after others."""


@dataclass(frozen=True)
class Keys:
    """What records are grouped by: expressions and the names they get.

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


def keys(session: Session, grid: Cells | Labels, unit: Unit, places: Sequence[str]) -> Keys:
    """Return the grouping of kept records, whose columns are u, w and the places."""
    if isinstance(grid, Cells):
        # Nulls where the record is left out: the hexagon of a bad place would stop the query.
        lat, lon = (f"CASE WHEN reject_reason = 0 THEN {place} END" for place in places)
        cell = {"hexagon": session.hexagon(lat, lon, grid.resolution)}
        if grid.seconds is not None:
            cell["slot"] = slot("local_s", grid)
    else:
        cell = {f"label{i}": place for i, place in enumerate(places)}
    return Keys(cell, unit_keys(unit))


def unit_keys(unit: Unit) -> dict[str, str]:
    """Return what tells one unit of privacy from another: the user, and the day or week."""
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


def dedupes(request: Request) -> bool:
    """Return whether repeats are dropped; without a time column they are kept."""
    return request.rules.repeats == "drop" and request.columns.time is not None


def cell_counts(everything: int, used: int, records: int) -> dict[str, int]:
    """Return the public counts that come from the choice of cells."""
    return {
        "cells before selection": everything,
        "cells left out by selection": everything - used,
        "records left": records,
    }


def make_pairs(session: Session, query: str, grouping: Keys, *, squares: bool) -> None:
    """Make the table of pairs from checked records: the keys, n, sum and perhaps sum of squares.

    Records that are left out have no cell, and the reason in place of the user: as wide a key as
    is needed and no wider, since this table is the largest thing in memory.
    """
    columns = _guarded(grouping.all)
    columns["user_id"] = (
        "CASE WHEN reject_reason = 0 THEN user_id ELSE CAST(reject_reason AS VARCHAR) END"
    )
    named = ", ".join(f"{expression} AS {name}" for name, expression in columns.items())
    # No square can overflow where any is asked for, nor can a sum of them: it has 128 bits.
    squared = f", sum(CAST(quanta AS BIGINT) * quanta) AS {SQUARES}" if squares else ""
    session.run(
        f"CREATE OR REPLACE TEMP TABLE {PAIRS} AS SELECT {', '.join(grouping.all)}, "
        f"count(*) AS n, sum(quanta) AS {TOTAL}{squared} FROM (SELECT {named}, "
        f"CASE WHEN reject_reason = 0 THEN quanta END AS quanta FROM ({query})) GROUP BY {', '.join(grouping.all)}"
    )


def without_repeats(session: Session, source: Checked) -> tuple[str, int]:
    """Return the checked records with one left of each (user, time), and how many were dropped.

    Few records usually share their user and time with another. These are found by a hash first,
    before any rule; a collision, or a twin that a rule leaves out, only suspects a record
    needlessly. Suspects are then resolved exactly.
    """
    _make_suspects(session, source)
    if not session.rows("SELECT 1 FROM suspects LIMIT 1"):
        return source.query, 0
    shared = f"SELECT * FROM ({_hashed(source)}) SEMI JOIN suspects USING (record_hash)"
    session.run(f"CREATE OR REPLACE TEMP TABLE resolved AS {_smallest(source, shared)}")
    dropped = session.rows("SELECT coalesce(CAST(sum(n_records - 1) AS BIGINT), 0) FROM resolved")
    return unrepeated(source), int(str(dropped[0][0]))


def unrepeated(source: Checked, some: str = "", more: Sequence[str] = ()) -> str:
    """Return the query of records without repeats, once these were found.

    `some` are joins and a condition, which choose among records before anything else is done with
    them; `more` are columns that these bring.
    """
    wall = ["local_s"] * source.local
    columns = ", ".join(
        ("reject_reason", "user_id", "time_us", *wall, *source.places, "quanta", *more)
    )
    # A null hash, of a record that is left out, is never in the other table: it passes.
    alone = f"SELECT * FROM ({_hashed(source, some)}) ANTI JOIN suspects USING (record_hash)"
    return f"SELECT {columns} FROM ({alone}) UNION ALL SELECT {columns} FROM resolved {some}"


def _hashed(source: Checked, some: str = "") -> str:
    return f"SELECT *, CASE WHEN reject_reason = 0 THEN hash(user_id, time_us) END AS record_hash FROM ({source.query}) {some}"


def _make_suspects(session: Session, source: Checked) -> None:
    """Make the table of hashes that more than one record has.

    They are sorted in memory where that is possible, those of one remainder after those of
    another if they are too many at once, and grouped by the engine where not.
    """
    hashes = f"SELECT hash(user_id, time_us) AS record_hash FROM ({source.raw}) WHERE user_id IS NOT NULL AND time_us IS NOT NULL"
    found = _repeated(session, source, hashes)
    made = "CREATE OR REPLACE TEMP TABLE suspects AS"
    if found is None:
        session.run(
            f"{made} SELECT record_hash FROM ({hashes}) GROUP BY record_hash HAVING count(*) > 1"
        )
        return
    session.register("repeated_hashes", pa.table({"record_hash": found}))
    session.run(f"{made} SELECT record_hash FROM repeated_hashes")
    session.forget("repeated_hashes")


def _repeated(session: Session, source: Checked, hashes: str) -> NDArray[np.uint64] | None:
    """Return the hashes that a query has more than once; None if they are too many to sort."""
    parts = 1
    if source.columnar:
        records = int(str(session.rows(f"SELECT count(*) FROM ({source.raw})")[0][0]))
        # Remainders are not quite as frequent as each other.
        parts = -(-records * 21 // (20 * session.sortable)) or 1
    if parts > MOST_PARTS:
        return None
    found = []
    for part in range(parts):
        some = "" if parts == 1 else f" WHERE record_hash % {parts} = {part}"
        one = session.repeated(f"SELECT record_hash FROM ({hashes}){some}", session.sortable)
        if one is None:
            return None
        found.append(one)
    return np.concatenate(found)


def _guarded(columns: dict[str, str]) -> dict[str, str]:
    return {name: f"CASE WHEN reject_reason = 0 THEN {e} END" for name, e in columns.items()}


def _smallest(source: Checked, query: str) -> str:
    """Return one record of each (user, time), and `c` how many there were.

    The one of smallest place is left, on a tie the one of smallest value.
    """
    fields = (*source.places, "quanta")
    first = "struct_pack(" + ", ".join(f"{name} := {name}" for name in fields) + ")"
    wall = ("any_value(local_s) AS local_s, ", "local_s, ") if source.local else ("", "")
    names = ", ".join(f"first.{name} AS {name}" for name in fields)
    return (
        f"SELECT CAST(0 AS TINYINT) AS reject_reason, user_id, time_us, n_records, {wall[1]}{names} FROM ("
        f"SELECT user_id, time_us, count(*) AS n_records, {wall[0]}"
        f"min({first}) AS first FROM ({query}) GROUP BY user_id, time_us)"
    )


def reasons(session: Session, grouping: Keys) -> dict[int, int]:
    """Return per reason (0: kept) how many records it covers, repeats not counted."""
    if session.packed is not None:
        return dict(session.packed.left_out)
    why = f"CASE WHEN {next(iter(grouping.cell))} IS NULL THEN CAST(user_id AS TINYINT) ELSE 0 END"
    rows = session.rows(
        f"SELECT {why} AS reject_reason, CAST(sum(n) AS BIGINT) FROM {PAIRS} GROUP BY ALL"
    )
    return {int(str(why)): int(str(n)) for why, n in rows}


def choose_cells(session: Session, grouping: Keys, select: Select) -> tuple[int, int, int]:
    """Make the table of used cells; return how many cells there were, have users, are used."""
    names = ", ".join(grouping.cell)
    if session.packed is not None:
        session.register("packed_cells", session.packed.cells)
        session.run(
            f"CREATE OR REPLACE TEMP TABLE {CELLS} AS SELECT {names}, users, records "
            "FROM packed_cells"
        )
        return choose_of(session, grouping, select)
    session.run(
        f"CREATE OR REPLACE TEMP TABLE {CELLS} AS SELECT {names}, count(*) AS users, "
        f"sum(n) AS records FROM {PAIRS} WHERE {next(iter(grouping.cell))} IS NOT NULL "
        f"GROUP BY {names}"
    )
    return choose_of(session, grouping, select)


def choose_of(session: Session, grouping: Keys, select: Select) -> tuple[int, int, int]:
    """Make the table of used cells from that of all cells, as `choose_cells` does."""
    names = ", ".join(grouping.cell)
    top = "" if select.top is None else f" ORDER BY records DESC, {names} LIMIT {select.top}"
    session.run(
        f"CREATE OR REPLACE TEMP TABLE {CHOSEN} AS SELECT {names}, "
        f"row_number() OVER (ORDER BY {names}) - 1 AS cell FROM ("
        f"SELECT * FROM {CELLS} WHERE users >= {select.min_users}{top})"
    )
    counts = session.rows(
        "SELECT count(*), count(*) FILTER (WHERE users >= "
        f"{select.min_users}), (SELECT count(*) FROM {CHOSEN}) FROM {CELLS}"
    )[0]
    everything, enough, used = (int(str(count)) for count in counts)
    return everything, enough, used


def cell_table(session: Session, grid: Cells | Labels, grouping: Keys) -> CellTable:
    """Return the used cells in order."""
    table = session.arrow(f"SELECT {', '.join(grouping.cell)} FROM {CHOSEN} ORDER BY cell")
    if isinstance(grid, Labels):
        labels = {
            name: tuple(table[f"label{i}"].to_pylist()) for i, name in enumerate(grid.columns)
        }
        return CellTable(grid, labels=labels)
    slots = None if grid.seconds is None else table["slot"].to_numpy().astype(np.int64)
    return CellTable(grid, table["hexagon"].to_numpy().astype(np.uint64), slots)


def single_records(session: Session, grouping: Keys) -> tuple[int, int]:
    """Return how many users there are, of any cell, and how many of them have a single record."""
    if session.packed is not None:
        return session.packed.single_records()
    kept = f"{next(iter(grouping.cell))} IS NOT NULL"
    users, single = session.rows(
        "SELECT count(*), count(*) FILTER (WHERE n = 1) FROM "
        f"(SELECT sum(n) AS n FROM {PAIRS} WHERE {kept} GROUP BY user_id)"
    )[0]
    return int(str(users)), int(str(single))


def largest_count(session: Session, grouping: Keys) -> int:
    """Return the most records of a pair, of any cell."""
    if session.packed is not None:
        return int(session.packed.sums["n"].max())
    kept = f"{next(iter(grouping.cell))} IS NOT NULL"
    return int(str(session.rows(f"SELECT max(n) FROM {PAIRS} WHERE {kept}")[0][0]))


def fetch_pairs(session: Session, grouping: Keys, sums: Sequence[str]) -> pa.Table:
    """Return (cell, unit, n, and the named sums) of each pair in the used cells. Private.

    Units are numbered in the order of their ids' bytes, then days; those that no used cell has
    are numbered too.
    """
    if session.packed is not None:
        return session.packed.pairs(_chosen_rows(session, grouping), sums)
    on_cell = " AND ".join(f"pair.{name} = chosen.{name}" for name in grouping.cell)
    on_unit = " AND ".join(f"pair.{name} = units.{name}" for name in grouping.unit)
    units = ", ".join(grouping.unit)
    kept = f"{next(iter(grouping.cell))} IS NOT NULL"
    used = f"{PAIRS} pair JOIN {CHOSEN} chosen ON {on_cell}"
    number_units(session, f"SELECT DISTINCT {units} FROM {PAIRS} WHERE {kept}", grouping)
    summed = "".join(f", CAST(pair.{name} AS BIGINT) AS {name}" for name in sums)
    return session.arrow(
        f"SELECT CAST(chosen.cell AS INTEGER) AS cell, CAST(units.unit AS INTEGER) AS unit, pair.n{summed} "
        f"FROM {used} JOIN units ON {on_unit}"
    )


def _chosen_rows(session: Session, grouping: Keys) -> NDArray[np.int64]:
    """Return which rows of the packed table of cells are used."""
    names = ", ".join(grouping.cell)
    found = session.arrow(
        f"SELECT place FROM (SELECT {names}, row_number() OVER (ORDER BY {names}) - 1 AS place "
        f"FROM {CELLS}) JOIN {CHOSEN} USING ({names}) ORDER BY cell"
    )
    return np.asarray(found["place"].to_numpy(), dtype=np.int64)


def number_units(session: Session, query: str, grouping: Keys) -> None:
    """Make the table of units, each of which the query has once, numbered in their order."""
    names = ", ".join(grouping.unit)
    session.run(
        f"CREATE OR REPLACE TEMP TABLE units AS SELECT *, row_number() OVER (ORDER BY {names}) - 1 "
        f"AS unit FROM ({query})"
    )


def fetch_units(session: Session, unit: Unit, grouping: Keys) -> Units:
    """Return the ids and days of all units, those of no used cell too. Private."""
    if session.packed is not None:
        table = session.packed.units
    else:
        table = session.arrow(f"SELECT {', '.join(grouping.unit)} FROM units ORDER BY unit")
    keys = [name for name in grouping.unit if name != "user_id"]
    days = first_days(table[keys[0]].to_numpy().astype(np.int64), unit) if keys else None
    return Units(table["user_id"].combine_chunks(), days)


def in_order(pairs: pa.Table) -> tuple[Occupancy, dict[str, NDArray[np.int64]], NDArray[np.int64]]:
    """Return who reported how often where, the fetched sums (private), and which units are used.

    Sums are in the order of the occupancy, whose users are the used units in theirs.
    """
    cell, unit = (pairs[name].to_numpy() for name in ("cell", "unit"))
    used = np.flatnonzero(np.bincount(unit))
    n_cells, reach = int(cell.max()) + 1, int(unit.max()) + 1
    order: NDArray[np.int64] | slice = slice(None)
    if not sorted_by_cell(cell, unit):
        order, key = _sorted(cell.astype(np.int64) * reach + unit)
        cell, unit = np.divmod(key, reach)
    place = np.zeros(reach, dtype=np.int64)
    place[used] = np.arange(used.size)
    n = pairs["n"].to_numpy()[order]
    names = [name for name in (TOTAL, SQUARES) if name in pairs.column_names]
    sums = {name: pairs[name].to_numpy()[order] for name in names}
    if used.size < reach:
        unit = place[unit]
    return Occupancy(cell, unit, n, n_cells, used.size), sums, used


def _sorted(key: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the order of keys that are 0 or more, and the sorted keys.

    Key and position are sorted as one number where they fit: sooner than by position alone.
    """
    bits = int(key.size).bit_length()
    if int(key.max(initial=0)) >= 1 << (63 - bits):
        order = np.argsort(key)
        return order, key[order]
    packed = np.sort((key << bits) | np.arange(key.size))
    return packed & ((1 << bits) - 1), packed >> bits
