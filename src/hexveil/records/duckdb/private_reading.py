"""PRIVATE. One reading with private presence: validate, count, place on the declared grid.

Nothing but syntax is refused: no share of unusable rows, no number of users, no missing cell. A
record that a rule leaves out is left out without a word, as is one outside of the grid; how many
they were is private.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from hexveil.model.cells import Labels
from hexveil.model.pair_bins import PairBins
from hexveil.model.private_pairs import PrivatePairs
from hexveil.records.duckdb import aggregation
from hexveil.records.duckdb.cached_reading import count_cached
from hexveil.records.duckdb.counting import count_source
from hexveil.records.duckdb.reading import rule_counts
from hexveil.records.duckdb.session import Session
from hexveil.records.duckdb.source import open_source
from hexveil.records.private_presence.private_dataset import PrivateDataset, ReadingCounts
from hexveil.records.progress import show_progress
from hexveil.records.sources.source_files import MemoryTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hexveil.model.cells import CellTable
    from hexveil.model.declared_facts import DeclaredFacts
    from hexveil.records.duckdb.pair_store import PairStore
    from hexveil.records.read_request import ReadRequest
    from hexveil.records.sources.source_files import Files

    Ints = NDArray[np.int64]

DECLARED_CELLS = "declared_cells"
"""Table of the cells of the declared grid, with their numbers."""
NUMBER = "declared_number"
_NOTHING = (np.zeros(0, dtype=np.int64),) * 4


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
        if request.cache is None or isinstance(source, MemoryTable):
            counted = count_source(session, relation, request)
        else:
            cache = request.cache
            counted = count_cached(session, source, relation, request, cache, is_private=True)
        # A cache without any kept record has no table of pairs.
        is_empty = not counted.counts.left_out.get(0, 0)
        pairs = (
            _no_rows(facts) if is_empty else _declared_pairs(session, counted.counts.pairs, facts)
        )
        counts = rule_counts(request, counted.counts.left_out, counted.counts.repeats)
    cell, unit, n, total = pairs.sums
    private = PrivatePairs(cell, unit, n, total, by_bin=pairs.by_bin)
    return PrivateDataset(facts, private, ReadingCounts.of(counts, private))


@dataclass(frozen=True, repr=False)
class _FetchedRows:
    """PRIVATE. Rows of pairs: cell, unit, records and sum; and by bin, if that was asked for."""

    sums: tuple[Ints, ...]
    by_bin: PairBins | None


def _declared_pairs(session: Session, stored: PairStore, facts: DeclaredFacts) -> _FetchedRows:
    """Return the pairs on the declared grid, by the number of the cell. PRIVATE."""
    names = ", ".join(stored.keys.cell)
    session.register(DECLARED_CELLS, declared_table(facts.cells))
    stored.create_cells()
    # Both stores number the selected cells from 0, in the order of this table.
    session.run(
        f"CREATE OR REPLACE TEMP TABLE {aggregation.SELECTED_CELLS} AS SELECT {names}, {NUMBER}, "
        f"row_number() OVER (ORDER BY {names}) - 1 AS cell FROM {aggregation.ALL_CELLS} "
        f"JOIN {DECLARED_CELLS} USING ({names})"
    )
    declared = session.arrow(f"SELECT {NUMBER} FROM {aggregation.SELECTED_CELLS} ORDER BY cell")
    number = declared[NUMBER].to_numpy().astype(np.int64)

    def rows(table: pa.Table, *columns: str) -> tuple[Ints, ...]:
        cell, *others = (table[name].to_numpy().astype(np.int64) for name in ("cell", *columns))
        return number[cell], *others

    if not number.size:
        return _no_rows(facts)
    fetched = stored.fetch_pairs((aggregation.TOTAL,))
    pairs = rows(fetched, "unit", "n", aggregation.TOTAL)
    if facts.bins is None:
        return _FetchedRows(pairs, None)
    return _FetchedRows(pairs, stored.fetch_bins(fetched))


def _no_rows(facts: DeclaredFacts) -> _FetchedRows:
    return _FetchedRows(_NOTHING, None if facts.bins is None else PairBins(*_NOTHING[:3]))


def declared_table(cells: CellTable) -> pa.Table:
    """Return the keys of declared cells, named as the keys of pairs, and their numbers."""
    columns: dict[str, object] = {NUMBER: np.arange(len(cells), dtype=np.int64)}
    if isinstance(cells.grid, Labels):
        columns |= {f"label{i}": cells.labels[name] for i, name in enumerate(cells.grid.columns)}
        return pa.table(columns)
    columns["hexagon"] = cells.hexagon
    if cells.slot is not None:
        columns["slot"] = cells.slot
    return pa.table(columns)
