"""PRIVATE. One reading with private presence: validate, count, place on the declared grid.

Nothing but syntax is refused: no share of unusable rows, no number of users, no missing cell. A
record that a rule leaves out is left out without a word, as is one outside of the grid; how many
they were is private.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from hexveil.model.cells import Labels
from hexveil.model.private_pairs import PrivatePairs
from hexveil.records.duckdb import aggregation
from hexveil.records.duckdb.counting import count_source
from hexveil.records.duckdb.reading import rule_counts
from hexveil.records.duckdb.session import Session
from hexveil.records.duckdb.source import open_source
from hexveil.records.private_presence.private_dataset import PrivateDataset, ReadingCounts
from hexveil.records.progress import show_progress

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hexveil.model.cells import CellTable
    from hexveil.model.declared_facts import DeclaredFacts
    from hexveil.records.duckdb.pair_store import PairStore
    from hexveil.records.read_request import ReadRequest
    from hexveil.records.sources.source_files import Files, MemoryTable

DECLARED_CELLS = "declared_cells"
"""Table of the cells of the declared grid, with their numbers."""
NUMBER = "declared_number"


def read_private(
    source: Files | MemoryTable, request: ReadRequest, facts: DeclaredFacts
) -> PrivateDataset:
    """Read a source into pairs on the declared grid. PRIVATE.

    Raises
    ------
    InputError
        If the source or a column cannot be used, whatever the records are.
    """
    with (
        show_progress("Reading records"),
        Session(request.memory, scratch=request.scratch) as session,
    ):
        relation = open_source(session, source, request.column_names, request.format)
        counted = count_source(session, relation, request)
        pairs = _declared_pairs(session, counted.counts.pairs, facts.cells)
        counts = rule_counts(request, counted.counts.left_out, counted.counts.repeats)
    private = PrivatePairs(*pairs)
    return PrivateDataset(facts, private, _describe(counts, private))


def _declared_pairs(
    session: Session, stored: PairStore, cells: CellTable
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return cell number, unit, records and sum of each pair on the declared grid. PRIVATE."""
    names = ", ".join(stored.keys.cell)
    session.register(DECLARED_CELLS, _declared_table(cells))
    stored.create_cells()
    # Both stores number the selected cells from 0, in the order of this table.
    session.run(
        f"CREATE OR REPLACE TEMP TABLE {aggregation.SELECTED_CELLS} AS SELECT {names}, {NUMBER}, "
        f"row_number() OVER (ORDER BY {names}) - 1 AS cell FROM {aggregation.ALL_CELLS} "
        f"JOIN {DECLARED_CELLS} USING ({names})"
    )
    declared = session.arrow(f"SELECT {NUMBER} FROM {aggregation.SELECTED_CELLS} ORDER BY cell")
    number = declared[NUMBER].to_numpy().astype(np.int64)
    if not number.size:
        nothing = np.zeros(0, dtype=np.int64)
        return nothing, nothing, nothing, nothing
    pairs = stored.fetch_pairs((aggregation.TOTAL,))
    cell, unit, n, total = (
        pairs[name].to_numpy().astype(np.int64) for name in ("cell", "unit", "n", aggregation.TOTAL)
    )
    return number[cell], unit, n, total


def _declared_table(cells: CellTable) -> pa.Table:
    """Return the keys of declared cells, named as the keys of pairs, and their numbers."""
    columns: dict[str, object] = {NUMBER: np.arange(len(cells), dtype=np.int64)}
    if isinstance(cells.grid, Labels):
        columns |= {f"label{i}": cells.labels[name] for i, name in enumerate(cells.grid.columns)}
        return pa.table(columns)
    columns["hexagon"] = cells.hexagon
    if cells.slot is not None:
        columns["slot"] = cells.slot
    return pa.table(columns)


def _describe(counts: Mapping[str, int], pairs: PrivatePairs) -> ReadingCounts:
    """Return the counts of a reading, with those on the declared grid. PRIVATE."""
    # Saturated counts: exact below a million records of a unit in a cell.
    on_grid = {
        "records on the declared grid": int(pairs.records.sum()),
        "units on the declared grid": int(pairs.begin.size),
    }
    return ReadingCounts({**counts, **on_grid})
