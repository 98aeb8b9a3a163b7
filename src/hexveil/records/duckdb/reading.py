"""PRIVATE. One reading, from a source to data sets: validate, count, select cells, fetch sums.

With private presence cells are those of the declared grid, and nothing but syntax is refused: no
share of unusable rows, no number of users, no missing cell. A record that a rule leaves out is left
out without a word, as is one outside of the grid; how many they were is private.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hexveil.base.arrow_tables import to_numpy
from hexveil.base.errors import InputError
from hexveil.base.work_share import READING
from hexveil.model.cells import CellTable, Labels
from hexveil.model.declared_grid import DeclaredFacts
from hexveil.model.occupancy import Occupancy
from hexveil.model.pair_bins import PairBins
from hexveil.model.private_pairs import PrivatePairs
from hexveil.model.public_metadata import REPEATS, PublicMetadata
from hexveil.records.column_datasets import PrivateDataset, ReadingCounts
from hexveil.records.dataset import Dataset, DistributedSums, Sums
from hexveil.records.duckdb import aggregation, refusals, validation
from hexveil.records.duckdb.aggregation import PairStore
from hexveil.records.duckdb.cached_reading import CachedReading
from hexveil.records.duckdb.counting import CountResult, PairCounts, check_offsets, count_source
from hexveil.records.duckdb.regrid import DuckDBRegridder
from hexveil.records.duckdb.session import Session
from hexveil.records.duckdb.source import open_source
from hexveil.records.duckdb.spilled_pairs import spill_pairs
from hexveil.records.feasible_sums import LARGEST_SUM, squares_fit
from hexveil.records.progress import show_progress
from hexveil.records.read_request import ReadRequest, Rules
from hexveil.records.select import refuse_no_cell, selection_counts
from hexveil.records.sources.source_files import Files, MemoryTable
from hexveil.records.units import refuse_single_records, warn_of_similar_ids

DECLARED_CELLS = "declared_cells"
"""Table of the cells of the declared grid, with their numbers."""
NUMBER = "declared_number"
_MEMORY = "1GB"


def read_datasets(
    source: Files | MemoryTable, readings: Sequence[tuple[ReadRequest, DeclaredFacts | None]]
) -> list[Dataset | PrivateDataset]:
    """Read a source into counts, sums and, unless they could overflow, sums of squares.

    Readings differ in the value column alone, and give a data set each; those with declared facts
    have private presence. Text and documents are scanned once; of Parquet files and tables each
    column is scanned where it is needed. A record counts for each column of which it has a usable
    value, as if the column were read alone.

    Raises
    ------
    InputError
        If the source, a column or the selection leaves nothing that can be used.
    """
    leading, requests = readings[0][0], [request for request, _ in readings]
    with show_progress(READING), Session(leading.memory, scratch=leading.scratch) as session:
        names = frozenset().union(*(request.column_names for request in requests))
        relation = open_source(session, source, names, leading.format)
        if len(requests) > 1 and leading.cache is None:
            relation = validation.scan_once(session, relation, requests)
        datasets: list[Dataset | PrivateDataset] = []
        for request, facts in readings:
            if request.cache is None or isinstance(source, MemoryTable):
                counted = count_source(session, relation, request)
            else:
                cached = CachedReading(session, source, relation, request)
                counted = cached.count(is_private=facts is not None)
            if facts is not None:
                datasets.append(fetch_declared(session, counted, facts))
                continue
            dataset = fetch_dataset(session, source.label, counted)
            recount = DuckDBRegridder(source, counted.request, dataset.public)
            datasets.append(replace(dataset, public=replace(dataset.public, recount=recount)))
    return datasets


def fetch_dataset(
    session: Session, label: str, counted: CountResult, records: Session | None = None
) -> Dataset:
    """Select cells of counted records and fetch their sums.

    Parameters
    ----------
    session : Session
        With the counted pairs.
    label : str
        The source as the caller wrote it.
    counted : CountResult
    records : Session, optional
        What is asked of the records themselves, if they are not in the same session.
    """
    # From here on all checks are of public counts, and none has looked at a sum.
    request, rules, stored = counted.request, counted.request.rules, counted.counts.pairs
    left_out, repeats = counted.counts.left_out, counted.counts.repeats
    refusals.refuse_unusable(records or session, counted.records, request, left_out)
    # By the number of records, whatever their values: a refusal must say nothing about a sum.
    if left_out.get(0, 0) * rules.scale.span_quanta >= LARGEST_SUM:
        raise InputError(
            f"quantum: sums of {left_out[0]} records in steps this fine could overflow; use a "
            "coarser quantum."
        )
    refusals.refuse_repeats(request, left_out.get(0, 0), repeats)
    if not rules.accept_single_records:
        refuse_single_records(*stored.count_single_records(), request.columns.user)
    request = check_offsets(records or session, counted.records, request)
    selection = _select_pairs(session, stored, rules, left_out.get(0, 0), request.scratch)
    units = aggregation.to_units(stored.fetch_units(), rules.privacy_unit)
    warn_of_similar_ids(units.users, request.columns.user)
    counts = _rule_counts(request, left_out, repeats)
    selected = selection_counts(
        selection.everything, len(selection.cells), selection.occupancy.n_records
    )
    facts = PublicMetadata(
        occupancy=selection.occupancy,
        cells=selection.cells,
        lattice=rules.scale,
        privacy_unit=rules.privacy_unit,
        value=request.columns.value,
        value_unit=request.value_unit,
        rules=counts | selected,
        identity=request.identity(label),
        bins=rules.bins,
        id_space=request.id_space,
    )
    return Dataset(facts, selection.sums, units.take(selection.used))


class _Chosen(NamedTuple):
    """PRIVATE. Pairs of the selected cells, these cells, and how many there were before."""

    occupancy: Occupancy
    sums: Sums | DistributedSums
    used: NDArray[np.int64]
    cells: CellTable
    everything: int


def _select_pairs(
    session: Session,
    stored: PairStore,
    rules: Rules,
    records: int,
    scratch: str | None = None,
    *,
    squares: bool = True,
) -> _Chosen:
    """Select cells and fetch their pairs; on disk if memory may not hold those of the records."""
    everything, enough, _ = aggregation.select_cells(session, stored.keys, rules.select)
    refuse_no_cell(everything, enough, rules.select.min_users)
    cells = aggregation.cell_table(session, rules.cells, stored.keys)
    # By the fullest pair of any cell, selected or not: the selection must not decide it.
    fit = squares and squares_fit(stored.largest_count(), rules.scale)
    sums = (aggregation.TOTAL, aggregation.SQUARES) if fit else (aggregation.TOTAL,)
    # Cells are added up only where records, of which pairs are no more, are so many.
    if refusals.pairs_exceed(session.memory, records) and refusals.pairs_exceed(
        session.memory, aggregation.count_pairs(session, stored.keys)
    ):
        return _Chosen(*spill_pairs(session, stored, sums, rules, scratch), cells, everything)
    bins = None if rules.bins is None else stored.fetch_bins()
    pairs = stored.fetch_pairs(sums)
    occupancy, used = aggregation.to_occupancy(pairs)
    total, *squared = (to_numpy(pairs[name]) for name in sums)
    kept = Sums(total, squared[0] if squared else None, bins)
    return _Chosen(occupancy, kept, used, cells, everything)


def group_sums(
    rows: pa.Table, rules: Rules
) -> tuple[Occupancy, Sums | DistributedSums, pa.Array, CellTable, int]:
    """Return the selected pairs of rows of feasible sums, their ids and cells. PRIVATE.

    Parameters
    ----------
    rows : pyarrow.Table
        Keys of the cell, `user_id`, `n`, `total`, and perhaps `total_sq` and `fine_bin`.
    rules : Rules
    """
    names = rows.column_names[: rows.column_names.index("user_id")]
    keys = aggregation.GroupKeys({name: name for name in names}, aggregation.unit_keys("user"))
    with Session(_MEMORY) as session:
        session.register("rows_of_sums", rows)
        sums = [
            name for name in (aggregation.TOTAL, aggregation.SQUARES) if name in rows.column_names
        ]
        kept = {0: int(pc.sum(rows["n"]).as_py())}
        stored = aggregation.number_pairs(
            session, "rows_of_sums", keys, sums, kept, by_bin=rules.bins is not None
        )
        # In memory however many they are: these rows are there already.
        selection = _select_pairs(session, stored, rules, 0, squares=aggregation.SQUARES in sums)
        ids = aggregation.to_units(stored.fetch_units(), "user")
    users = ids.take(selection.used).users
    return selection.occupancy, selection.sums, users, selection.cells, selection.everything


def fetch_declared(session: Session, counted: CountResult, facts: DeclaredFacts) -> PrivateDataset:
    """Return the sums of counted records on the declared grid.

    Of which value columns a record has a usable value is as private as the record.
    """
    private = _declared_pairs(session, counted.counts, facts)
    counts = _rule_counts(counted.request, counted.counts.left_out, counted.counts.repeats)
    return PrivateDataset(facts, private, ReadingCounts(counts, private))


def _declared_pairs(session: Session, counts: PairCounts, facts: DeclaredFacts) -> PrivatePairs:
    """Return cell, unit, records and sum of the pairs on the declared grid."""
    nothing = np.zeros(0, dtype=np.int64)
    no_bins = None if facts.bins is None else PairBins(nothing, nothing, nothing)
    none = PrivatePairs(nothing, nothing, nothing, nothing, by_bin=no_bins)
    # A cache without any kept record has no table of pairs.
    if not counts.left_out.get(0, 0):
        return none
    stored = counts.pairs
    keys = ", ".join(stored.keys.cell)
    session.register(DECLARED_CELLS, _declared_table(facts.cells))
    # Both stores number the selected cells from 0, in the order of this table.
    session.run(
        f"CREATE OR REPLACE TEMP TABLE {aggregation.SELECTED_CELLS} AS SELECT {keys}, {NUMBER}, "
        f"row_number() OVER (ORDER BY {keys}) - 1 AS cell FROM {aggregation.ALL_CELLS} "
        f"JOIN {DECLARED_CELLS} USING ({keys})"
    )
    declared = session.arrow(f"SELECT {NUMBER} FROM {aggregation.SELECTED_CELLS} ORDER BY cell")
    number = declared[NUMBER].to_numpy().astype(np.int64)
    if not number.size:
        return none
    fetched = stored.fetch_pairs((aggregation.TOTAL,))
    names = ("cell", "unit", "n", aggregation.TOTAL)
    cell, unit, n, total = (fetched[name].to_numpy().astype(np.int64) for name in names)
    by_bin = None if facts.bins is None else stored.fetch_bins()
    return PrivatePairs(number[cell], unit, n, total, by_bin=by_bin)


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


def _rule_counts(request: ReadRequest, left_out: Mapping[int, int], repeats: int) -> dict[str, int]:
    """Return how many records each public rule left out, in the order of the rules."""
    select = request.rules.select
    is_used = {
        validation.DROPPED: bool(select.drop_values),
        validation.HOURS: select.hours is not None,
        validation.DATES: select.dates is not None,
        validation.BOX: select.box is not None,
    }
    counts = {"records read": sum(left_out.values())}
    for reason in (*validation.UNUSABLE, *(reason for reason, used in is_used.items() if used)):
        counts[validation.REASONS[reason]] = left_out.get(reason, 0)
    if request.drops_repeats:
        counts[REPEATS] = repeats
    return counts
