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
from hexveil.records.duckdb.caching.cached_reading import count_cached
from hexveil.records.duckdb.counting import count_source
from hexveil.records.duckdb.reading import rule_counts
from hexveil.records.duckdb.session import Session
from hexveil.records.duckdb.source import engine_threads, open_source
from hexveil.records.duckdb.validation import scan_once
from hexveil.records.private_presence.private_dataset import PrivateDataset, ReadingCounts
from hexveil.records.progress import show_progress
from hexveil.records.sources.source_files import MemoryTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexveil.base.arrays import Ints
    from hexveil.model.cells import CellTable
    from hexveil.model.declared_grid import DeclaredFacts
    from hexveil.records.duckdb.pair_store import PairStore
    from hexveil.records.duckdb.relation import Relation
    from hexveil.records.read_request import ReadRequest
    from hexveil.records.sources.source_files import Files


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
    (dataset,) = read_private_columns(source, [(request, facts)])
    return dataset


def read_private_columns(
    source: Files | MemoryTable, requests: Sequence[tuple[ReadRequest, DeclaredFacts]]
) -> list[PrivateDataset]:
    """Read a source for requests that differ in the value column alone. PRIVATE.

    A record counts for each column of which it has a usable value, as if the column were read
    alone. Of which columns it has one is as private as the record.

    Raises
    ------
    InputError
        See `read_private`.
    """
    leading, _ = requests[0]
    with (
        show_progress("Reading records"),
        Session(leading.memory, engine_threads(source), leading.scratch) as session,
    ):
        names = frozenset().union(*(request.column_names for request, _ in requests))
        relation = open_source(session, source, names, leading.format)
        if len(requests) > 1:
            relation = scan_once(session, relation, [request for request, _ in requests])
        fetched = [
            _fetch_declared(session, source, relation, request, facts)
            for request, facts in requests
        ]
    # The engine's memory is free before the pairs are put in order.
    return [
        _private_dataset(facts, rows) for (_, facts), rows in zip(requests, fetched, strict=True)
    ]


def _fetch_declared(
    session: Session,
    source: Files | MemoryTable,
    relation: Relation,
    request: ReadRequest,
    facts: DeclaredFacts,
) -> _FetchedRows:
    """Count the records of a request, and fetch their sums on the declared grid. PRIVATE."""
    if request.cache is None or isinstance(source, MemoryTable):
        counted = count_source(session, relation, request)
    else:
        cache = request.cache
        counted = count_cached(session, source, relation, request, cache, is_private=True)
    counts = rule_counts(request, counted.counts.left_out, counted.counts.repeats)
    # A cache without any kept record has no table of pairs.
    if not counted.counts.left_out.get(0, 0):
        return _no_rows(facts, counts)
    return _declared_pairs(session, counted.counts.pairs, facts, counts)


def _private_dataset(facts: DeclaredFacts, rows: _FetchedRows) -> PrivateDataset:
    cell, unit, n, total = rows.sums
    private = PrivatePairs(cell, unit, n, total, by_bin=rows.by_bin)
    return PrivateDataset(facts, private, ReadingCounts.of(rows.counts, private))


@dataclass(frozen=True, repr=False)
class _FetchedRows:
    """PRIVATE. Rows of pairs: cell, unit, records and sum; and by bin, if that was asked for."""

    sums: tuple[Ints, ...]
    by_bin: PairBins | None
    counts: dict[str, int]


def _declared_pairs(
    session: Session, stored: PairStore, facts: DeclaredFacts, counts: dict[str, int]
) -> _FetchedRows:
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
        return _no_rows(facts, counts)
    fetched = stored.fetch_pairs((aggregation.TOTAL,))
    pairs = rows(fetched, "unit", "n", aggregation.TOTAL)
    if facts.bins is None:
        return _FetchedRows(pairs, None, counts)
    return _FetchedRows(pairs, stored.fetch_bins(fetched), counts)


def _no_rows(facts: DeclaredFacts, counts: dict[str, int]) -> _FetchedRows:
    by_bin = None if facts.bins is None else PairBins(*_NOTHING[:3])
    return _FetchedRows(_NOTHING, by_bin, counts)


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
