"""One reading by Spark, from a source to a data set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import SparkSession

from hexveil.base.work_share import READING
from hexveil.model.declared_grid import DeclaredFacts
from hexveil.records.bin_number import bins_of_lists
from hexveil.records.dataset import Dataset
from hexveil.records.duckdb import aggregation
from hexveil.records.private_presence.private_dataset import PrivateDataset
from hexveil.records.progress import show_progress
from hexveil.records.read_request import ReadRequest
from hexveil.records.sources.source_files import Files, Frame, MemoryTable, Remote
from hexveil.records.spark.blocks import BINS, ROOM_OF_BINS
from hexveil.records.spark.cached_counting import count_cached
from hexveil.records.spark.counting import count_all, count_records
from hexveil.records.spark.distributed_dataset import CountedRecords, distribute
from hexveil.records.spark.frames import collect
from hexveil.records.spark.private_blocks import read_private_blocks
from hexveil.records.spark.regrid import SparkRegridder
from hexveil.records.spark.session import pairs_on_driver

_MAX_FETCHED = 2**21
"""Pairs fetched at once: Spark limits what one action may bring to the driver."""


def read_datasets(
    engine: SparkSession,
    source: Files | MemoryTable | Frame | Remote,
    readings: Sequence[tuple[ReadRequest, DeclaredFacts | None]],
) -> list[Dataset | PrivateDataset]:
    """Return the records of a source as counts and sums: as `duckdb.reading.read_datasets` does.

    Raises
    ------
    InputError
        If the source, a column or the selection leaves nothing that can be used.
    """
    return [
        _read_dataset(engine, source, request)
        if facts is None
        else read_private_blocks(engine, source, request, facts)
        for request, facts in readings
    ]


def _read_dataset(
    engine: SparkSession, source: Files | MemoryTable | Frame | Remote, request: ReadRequest
) -> Dataset:
    """Return the data set of one value column."""
    with show_progress(READING):
        tally = count_all if request.cache is None else count_cached
        counted = count_records(engine, source, request, tally)
        many = counted.n_pairs > pairs_on_driver(engine)
        dataset = distribute(counted) if many else collect_dataset(counted)
    facts = dataset.public
    # Other grids are counted from the records, under the version that was stated.
    request = replace(request, version=counted.request.version, cache=None)
    return replace(
        dataset, public=replace(facts, recount=SparkRegridder(engine, source, request, facts))
    )


def collect_dataset(counted: CountedRecords) -> Dataset:
    """Return the data set of counted records, all of it on the driver."""
    try:
        pairs = fetch_pairs(counted)
    finally:
        # Also after a failure: the session is the caller's, and lives on.
        counted.close()
    bins = None
    if counted.request.rules.bins is not None:
        bins = aggregation.to_pair_bins(bins_of_lists(pairs[BINS]), pairs)
    occupancy, sums, used_units = aggregation.to_sums(pairs, bins)
    return Dataset(counted.metadata(occupancy), sums, counted.units.take(used_units))


def fetch_pairs(counted: CountedRecords) -> pa.Table:
    """Return all pairs, in no order. PRIVATE."""
    at_once = _MAX_FETCHED // (ROOM_OF_BINS if BINS in counted.pairs.columns else 1)
    n_slices = counted.n_pairs // at_once + 1
    if n_slices == 1:
        return collect(counted.pairs)
    # Each slice would make all pairs anew.
    stored = counted.store()
    try:
        return pa.concat_tables(
            # By cell: a public number, and slices of about one size.
            collect(stored.where(f"cell % {n_slices} = {slice_number}"))
            for slice_number in range(n_slices)
        )
    finally:
        stored.unpersist()
