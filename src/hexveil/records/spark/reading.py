"""One reading by Spark, from a source to a data set."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from hexveil.records.dataset import Dataset, Sums
from hexveil.records.duckdb import aggregation
from hexveil.records.duckdb.reading import facts_of
from hexveil.records.progress import shown
from hexveil.records.spark.counting import count
from hexveil.records.spark.distributed_dataset import spread
from hexveil.records.spark.frames import collected
from hexveil.records.spark.regrid import Recounter
from hexveil.records.spark.settings import pairs_on_driver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hexveil.records.read_request import Request
    from hexveil.records.sources.source_files import Files, Frame, Remote, Table
    from hexveil.records.spark.counted_records import Counted

_FETCHED = 2**21
"""Pairs fetched at once: Spark limits what one action may bring to the driver."""


def read_dataset(
    engine: SparkSession, source: Files | Table | Frame | Remote, request: Request
) -> Dataset:
    """Return the records of a source as counts, sums and, unless they could overflow, squares.

    Raises
    ------
    InputError
        If the source, a column or the selection leaves nothing that can be used.
    """
    with shown("Reading records"):
        counted = count(engine, source, request)
        many = counted.n_pairs > pairs_on_driver(engine)
        found = spread(counted) if many else gathered(counted)
    facts = found.public
    return replace(found, public=replace(facts, recount=Recounter(engine, source, request, facts)))


def gathered(counted: Counted) -> Dataset:
    """Return the data set of counted records, all of it on the driver."""
    try:
        pairs = fetched(counted)
    finally:
        counted.close()
    occupancy, found, used_units = aggregation.in_order(pairs)
    counts = dict(counted.counts)
    records, used = int(occupancy.n.sum()), len(counted.cells)
    counts.update(aggregation.cell_counts(counted.everything, used, records))
    facts = facts_of(counted.shown, counted.request, occupancy, counted.cells, counts)
    private = Sums(found[aggregation.TOTAL], found.get(aggregation.SQUARES))
    return Dataset(facts, private, counted.units.take(used_units))


def fetched(counted: Counted) -> pa.Table:
    """Return all pairs, in no order. PRIVATE."""
    parts = counted.n_pairs // _FETCHED + 1
    return pa.concat_tables(
        collected(counted.pairs.where(f"cell % {parts} = {part}")) for part in range(parts)
    )
