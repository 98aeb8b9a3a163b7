"""One reading by Spark, from a source to a data set, and its records counted on other grids.

Each grid is a reading by itself, and its pairs come to the driver unless they are too many.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from hexveil.base.work_share import COUNTING, READING
from hexveil.model.cells import Cells, Labels
from hexveil.model.public_metadata import PublicMetadata, Unit
from hexveil.records.dataset import Dataset
from hexveil.records.duckdb import aggregation
from hexveil.records.duckdb.regrid import refuse_slots
from hexveil.records.feasible_sums import bins_of_lists
from hexveil.records.progress import show_progress
from hexveil.records.read_request import ReadRequest
from hexveil.records.sources.source_files import Files, Frame, MemoryTable, Remote
from hexveil.records.spark import pair_blocks, tasks
from hexveil.records.spark.counting import CountedPairs, count_pairs
from hexveil.records.spark.session import collect, pairs_on_driver, stored

_MAX_FETCHED = 2**21
"""Pairs fetched at once: Spark limits what one action may bring to the driver."""


def read_by_spark(
    engine: SparkSession,
    source: Files | MemoryTable | Frame | Remote,
    requests: Sequence[ReadRequest],
) -> list[Dataset]:
    """Return the data set of each request: as `duckdb.reading.read_datasets` does.

    Raises
    ------
    InputError
        If the source, a column or the selection leaves nothing that can be used.
    """
    datasets = []
    with show_progress(READING), ExitStack() as opened:
        for request in requests:
            counted = count_pairs(engine, source, request)
            assert counted is not None  # noqa: S101  no cell is refused
            dataset = _fetched(engine, counted)
            recount = SparkRegridder(engine, source, request, dataset.public)
            public = replace(dataset.public, recount=recount)
            datasets.append(replace(dataset, public=public))
            opened.callback(dataset.close)
        # Closed only if a later column fails: nothing of the others then stays in Spark.
        opened.pop_all()
    return datasets


def _fetched(engine: SparkSession, counted: CountedPairs) -> Dataset:
    """Return the data set of counted records, its pairs on the driver unless they are many."""
    many = int(counted.per_cell.sum()) > pairs_on_driver(engine)
    return _distributed(counted) if many else _collected(counted)


def _stored_pairs(counted: CountedPairs) -> DataFrame:
    """Return the pairs, kept by Spark in place of the counts of all cells. PRIVATE."""
    try:
        return stored(counted.pairs)
    finally:
        # Also after a failure: the session is the caller's, and lives on.
        counted.tally.unpersist()


def _distributed(counted: CountedPairs) -> Dataset:
    """Return the data set of counted records without fetching its pairs."""
    rules, pairs = counted.request.rules, _stored_pairs(counted)
    n_bins = 0 if rules.bins is None else rules.bins.n_bins
    try:
        occupancy, sums, used = pair_blocks.distribute(
            pairs, counted.per_cell, rules.scale, squares=counted.squares, n_bins=n_bins
        )
    finally:
        # Once both kinds of blocks are made the pairs need not be kept beside them.
        pairs.unpersist()
    return Dataset(counted.metadata(occupancy), sums, counted.units.take(used))


def _collected(counted: CountedPairs) -> Dataset:
    """Return the data set of counted records, all of it on the driver."""
    by_bin = counted.request.rules.bins is not None
    at_once = _MAX_FETCHED // (pair_blocks.ROOM_OF_BINS if by_bin else 1)
    n_slices = int(counted.per_cell.sum()) // at_once + 1
    # Each slice would make all pairs anew.
    kept = counted.pairs if n_slices == 1 else _stored_pairs(counted)
    try:
        pairs = pa.concat_tables(
            # By cell: a public number, and slices of about one size.
            collect(kept if n_slices == 1 else kept.where(f"cell % {n_slices} = {number}"))
            for number in range(n_slices)
        )
    finally:
        kept.unpersist()
        counted.tally.unpersist()
    pairs = aggregation.in_order(pairs)
    bins = bins_of_lists(pairs[tasks.BINS]) if by_bin else None
    occupancy, sums, used = aggregation.to_sums(pairs, bins)
    return Dataset(counted.metadata(occupancy), sums, counted.units.take(used))


@dataclass(frozen=True, repr=False)
class SparkRegridder:
    """Counts the records of a source on other grids; see `hexveil.model.public_metadata.Recount`.

    Attributes
    ----------
    engine : SparkSession
    source : Files, MemoryTable, Frame or Remote
    request : ReadRequest
        As the data set was read.
    facts : PublicMetadata
        Of the data set, without its own `recount`.
    """

    engine: SparkSession
    source: Files | MemoryTable | Frame | Remote
    request: ReadRequest
    facts: PublicMetadata

    def __call__(
        self, grids: tuple[Cells | Labels, ...], privacy_unit: Unit
    ) -> Iterator[PublicMetadata | None]:
        """Yield the public metadata on each grid; None if no cell is left after selection."""
        refuse_slots(grids, self.request)
        return (self._on_grid(grid, privacy_unit) for grid in grids)

    def _on_grid(self, grid: Cells | Labels, privacy_unit: Unit) -> PublicMetadata | None:
        rules = replace(self.request.rules, cells=grid, privacy_unit=privacy_unit, terms=())
        request = replace(self.request, rules=rules)
        with show_progress(COUNTING):
            counted = count_pairs(self.engine, self.source, request, may_be_empty=True)
            if counted is None:
                return None
            found = _fetched(self.engine, counted).public
        return replace(
            self.facts,
            occupancy=found.occupancy,
            cells=found.cells,
            privacy_unit=privacy_unit,
            rules=found.rules,
            identity={**self.facts.identity, "privacy_unit": privacy_unit},
            recount=None,
        )
