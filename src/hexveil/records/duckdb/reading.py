"""One reading, from a source to a data set: validate, count, select cells, fetch sums."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hexveil.base.errors import InputError
from hexveil.base.work_share import READING
from hexveil.model.public_metadata import REPEATS, PublicMetadata
from hexveil.records.dataset import Dataset, Sums
from hexveil.records.duckdb import aggregation, refusals
from hexveil.records.duckdb.caching.cached_reading import count_cached
from hexveil.records.duckdb.counting import check_offsets, count_source
from hexveil.records.duckdb.regrid import DuckDBRegridder
from hexveil.records.duckdb.session import Session
from hexveil.records.duckdb.source import engine_threads, open_source
from hexveil.records.duckdb.spilled_pairs import SpilledPairs, spill_pairs
from hexveil.records.duckdb.validation import (
    BOX,
    DATES,
    DROPPED,
    HOURS,
    REASONS,
    UNUSABLE,
    scan_once,
)
from hexveil.records.feasible_sums import LARGEST_SUM, squares_fit
from hexveil.records.progress import show_progress
from hexveil.records.select import refuse_no_cell, selection_counts
from hexveil.records.sources.source_files import MemoryTable
from hexveil.records.units import refuse_single_records, warn_of_similar_ids

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from hexveil.model.cells import CellTable
    from hexveil.model.occupancy import Occupancy
    from hexveil.model.pair_bins import PairBins
    from hexveil.records.duckdb.relation import Relation
    from hexveil.records.read_request import ReadRequest
    from hexveil.records.sources.source_files import Files
    from hexveil.records.units import Units


def read_dataset(source: Files | MemoryTable, request: ReadRequest) -> Dataset:
    """Read a source into counts, sums and, unless they could overflow, sums of squares.

    Raises
    ------
    InputError
        If the source, a column or the selection leaves nothing that can be used.
    """
    (dataset,) = read_datasets(source, (request,))
    return dataset


def read_datasets(source: Files | MemoryTable, requests: Sequence[ReadRequest]) -> list[Dataset]:
    """Read a source for requests that differ in the value column alone, a data set for each.

    Text and documents are scanned once; of Parquet files and tables each column is scanned where it
    is needed. A record counts for each column of which it has a usable value, as if the column were
    read alone.

    Raises
    ------
    InputError
        See `read_dataset`.
    """
    leading = requests[0]
    with (
        show_progress(READING),
        Session(leading.memory, engine_threads(source), leading.scratch) as session,
    ):
        names = frozenset().union(*(request.column_names for request in requests))
        relation = open_source(session, source, names, leading.format)
        if len(requests) > 1:
            relation = scan_once(session, relation, requests)
        fetched = [_fetch_pairs(session, source, relation, request) for request in requests]
    # The engine's memory is free before the pairs are put in order.
    return [_build_dataset(source, pairs) for pairs in fetched]


@dataclass(frozen=True, eq=False, repr=False)
class _FetchedPairs:
    """PRIVATE. Pairs, units, cells and counts of one request; see `_build_dataset`."""

    request: ReadRequest
    pairs: SpilledPairs | pa.Table
    bins: PairBins | None
    units: Units
    cells: CellTable
    counts: dict[str, int]
    everything: int


def _fetch_pairs(
    session: Session, source: Files | MemoryTable, relation: Relation, request: ReadRequest
) -> _FetchedPairs:
    """Count the records of a request, select its cells and fetch their sums."""
    if request.cache is None or isinstance(source, MemoryTable):
        counted = count_source(session, relation, request)
    else:
        counted = count_cached(session, source, relation, request, request.cache)
    # From here on all checks are of public counts, and none has looked at a sum.
    request, rules, stored = counted.request, counted.request.rules, counted.counts.pairs
    left_out, repeats = counted.counts.left_out, counted.counts.repeats
    refusals.refuse_unusable(session, counted.records, request, left_out)
    refuse_overflow(left_out.get(0, 0), request)
    refusals.refuse_repeats(request, left_out.get(0, 0), repeats)
    if not rules.accept_single_records:
        refuse_single_records(*stored.count_single_records(), request.columns.user)
    request = check_offsets(session, counted.records, request)
    stored.create_cells()
    everything, enough, _ = aggregation.select_cells(session, stored.keys, rules.select)
    refuse_no_cell(everything, enough, rules.select.min_users)
    blocked = refusals.need_blocks(session, stored.keys, left_out.get(0, 0))
    cells = aggregation.cell_table(session, rules.cells, stored.keys)
    refusals.refuse_swapped(cells, request)
    # By the fullest pair of any cell, selected or not: the selection must not decide it.
    fit = squares_fit(stored.largest_count(), rules.scale)
    sum_names = (aggregation.TOTAL, aggregation.SQUARES) if fit else (aggregation.TOTAL,)
    pairs: SpilledPairs | pa.Table
    if blocked:
        pairs = spill_pairs(session, stored, sum_names, rules, request.scratch)
    else:
        pairs = stored.fetch_pairs(sum_names)
    bins: PairBins | None = None
    if not isinstance(pairs, SpilledPairs) and rules.bins is not None:
        bins = aggregation.to_pair_bins(stored.fetch_bins(pairs), pairs)
    units = aggregation.to_units(stored.fetch_units(), rules.privacy_unit)
    warn_of_similar_ids(units.users, request.columns.user)
    counts = rule_counts(request, left_out, repeats)
    return _FetchedPairs(request, pairs, bins, units, cells, counts, everything)


def _build_dataset(source: Files | MemoryTable, found: _FetchedPairs) -> Dataset:
    """Return the data set of fetched pairs."""
    occupancy, private, used_units = _in_order(found.pairs, found.bins)
    facts = public_metadata(
        source.label, found.request, occupancy, found.cells, found.counts, found.everything
    )
    facts = replace(facts, recount=DuckDBRegridder(source, found.request, facts))
    return Dataset(facts, private, found.units.take(used_units))


def _in_order(
    gathered: SpilledPairs | pa.Table, bins: PairBins | None
) -> tuple[Occupancy, Sums, NDArray[np.int64]]:
    """Return the occupancy, the sums (private), and which units are used."""
    if isinstance(gathered, SpilledPairs):
        return gathered
    occupancy, sums, used = aggregation.to_occupancy(gathered)
    return occupancy, Sums(sums[aggregation.TOTAL], sums.get(aggregation.SQUARES), bins), used


def public_metadata(
    label: str,
    request: ReadRequest,
    occupancy: Occupancy,
    cells: CellTable,
    counts: Mapping[str, int],
    everything: int,
) -> PublicMetadata:
    """Return the public metadata of a reading, without a way to count again.

    Parameters
    ----------
    label : str
        The source as the caller wrote it.
    request : ReadRequest
    occupancy : Occupancy
    cells : CellTable
        The selected cells.
    counts : mapping of str to int
        How many records each rule left out.
    everything : int
        Cells before selection.
    """
    return PublicMetadata(
        occupancy=occupancy,
        cells=cells,
        lattice=request.rules.scale,
        privacy_unit=request.rules.privacy_unit,
        value=request.columns.value,
        value_unit=request.value_unit,
        rules={**counts, **selection_counts(everything, len(cells), occupancy.n_records)},
        identity=request.identity(label),
        bins=request.rules.bins,
        id_space=request.id_space,
    )


def rule_counts(request: ReadRequest, left_out: Mapping[int, int], repeats: int) -> dict[str, int]:
    """Return how many records each public rule left out, in the order of the rules."""
    select = request.rules.select
    is_used = {
        DROPPED: bool(select.drop_values),
        HOURS: select.hours is not None,
        DATES: select.dates is not None,
        BOX: select.box is not None,
    }
    counts = {"records read": sum(left_out.values())}
    for reason in (*UNUSABLE, *(reason for reason, used in is_used.items() if used)):
        counts[REASONS[reason]] = left_out.get(reason, 0)
    if request.drops_repeats:
        counts[REPEATS] = repeats
    return counts


def refuse_overflow(records: int, request: ReadRequest) -> None:
    """Raise InputError if sums of so many records could overflow."""
    # By the number of records, whatever their values: a refusal must say nothing about a sum.
    if records * request.rules.scale.span_quanta >= LARGEST_SUM:
        raise InputError(
            f"quantum: sums of {records} records in steps this fine could overflow; use a coarser "
            "quantum."
        )
