"""One reading by Spark, from a source to a data set."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from hexveil.base.work_share import READING
from hexveil.records.bin_number import bins_of_lists
from hexveil.records.dataset import Dataset, Sums
from hexveil.records.duckdb import aggregation
from hexveil.records.progress import show_progress
from hexveil.records.spark.blocks import BINS
from hexveil.records.spark.caching.cached_counting import count_cached
from hexveil.records.spark.counting import ROOM_OF_BINS, count_all, count_records
from hexveil.records.spark.distributed_dataset import distribute
from hexveil.records.spark.frames import collect
from hexveil.records.spark.regrid import SparkRegridder
from hexveil.records.spark.settings import pairs_on_driver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hexveil.records.read_request import ReadRequest
    from hexveil.records.sources.source_files import Files, Frame, MemoryTable, Remote
    from hexveil.records.spark.counted_records import CountedRecords

_MAX_FETCHED = 2**21
"""Pairs fetched at once: Spark limits what one action may bring to the driver."""


def read_dataset(
    engine: SparkSession, source: Files | MemoryTable | Frame | Remote, request: ReadRequest
) -> Dataset:
    """Return the records of a source as counts, sums and, unless they could overflow, squares.

    Raises
    ------
    InputError
        If the source, a column or the selection leaves nothing that can be used.
    """
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
    occupancy, sums, used_units = aggregation.to_occupancy(pairs)
    facts = counted.metadata(occupancy)
    bins = None
    if facts.bins is not None:
        bins = aggregation.to_pair_bins(bins_of_lists(pairs[BINS]), pairs)
    private = Sums(sums[aggregation.TOTAL], sums.get(aggregation.SQUARES), bins)
    return Dataset(facts, private, counted.units.take(used_units))


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
