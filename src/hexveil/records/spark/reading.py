"""One reading by Spark, from a source to a data set.

Count the same records on other grids with Spark, for capacity tables.

Kept records are listed once. Counts on the finest grids come to the driver, where they are added up
as the DuckDB engine does, unless there are more of them than pairs that may be fetched. Then each
grid is counted by itself, and one whose own counts are too many is read as a data set is, in
blocks; they stay in Spark until its session ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  as everybody calls it

from hexveil.base.work_share import COUNTING, READING
from hexveil.model.cells import Cells, Labels
from hexveil.model.declared_grid import DeclaredFacts
from hexveil.model.public_metadata import PublicMetadata, Unit
from hexveil.records.column_datasets import PrivateDataset
from hexveil.records.dataset import Dataset
from hexveil.records.duckdb import aggregation, regrid
from hexveil.records.duckdb.session import Session
from hexveil.records.feasible_sums import bins_of_lists
from hexveil.records.progress import show_progress
from hexveil.records.read_request import ReadRequest
from hexveil.records.sources.source_files import Files, Frame, MemoryTable, Remote
from hexveil.records.spark import tasks
from hexveil.records.spark.blocks import BINS, ROOM_OF_BINS
from hexveil.records.spark.cached_counting import count_cached
from hexveil.records.spark.counting import (
    count_all,
    count_records,
    deduplicate_by_user,
    persisted,
    raise_task_failure,
    record_schema,
)
from hexveil.records.spark.distributed_dataset import CountedRecords, distribute
from hexveil.records.spark.private_blocks import read_private_blocks
from hexveil.records.spark.session import collect, map_batches, pairs_on_driver, translate_errors
from hexveil.records.spark.source_rows import TaskRecords, open_records

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
        pairs = aggregation.in_order(fetch_pairs(counted))
    finally:
        # Also after a failure: the session is the caller's, and lives on.
        counted.close()
    bins = None
    if counted.request.rules.bins is not None:
        bins = bins_of_lists(pairs[BINS])
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
    ) -> tuple[PublicMetadata | None, ...]:
        """Return the public facts on each grid; None where no cell is left after selection.

        Raises
        ------
        InputError
            If a grid cannot be counted.
        """
        request = replace(
            self.request, rules=replace(self.request.rules, privacy_unit=privacy_unit)
        )
        regrid.refuse_slots(grids, request)
        by_grid: dict[Cells | Labels, PublicMetadata | None] = {}
        with (
            show_progress(COUNTING),
            Session(request.memory, scratch=request.scratch) as session,
        ):
            task_records = open_records(self.engine, session, self.source, request)
            with persisted(_list_records(task_records, request)) as records:
                failed = collect(
                    records.where(f"reject_reason = {tasks.FAILED}").select("reject_reason", "note")
                )
                # Before any count: rows of a failed task lack its records.
                raise_task_failure(failed["note"], failed["reject_reason"].to_numpy())
                groups = regrid.group_by_fine_grid(grids)
                while groups:
                    group = groups.pop()
                    counts = self._fine(session, task_records, records, request, group)
                    if counts is not None:
                        session.register(regrid.FINE, counts)
                        by_grid |= regrid.metadata_on_grids(session, request, self.facts, group)
                    elif len(group) > 1:
                        # Counts that all of them add up from are too many; their own may fit.
                        groups += [[grid] for grid in group]
                    else:
                        by_grid[group[0]] = self._in_blocks(request, group[0])
        return tuple(by_grid[grid] for grid in grids)

    def _fine(
        self,
        session: Session,
        task_records: TaskRecords,
        records: DataFrame,
        request: ReadRequest,
        grids: list[Cells | Labels],
    ) -> pa.Table | None:
        """Return the counts from which all of these grids' are added up; None if too many."""
        keys = regrid.fine_keys(session, request, grids)
        text = {
            name
            for name in keys
            if name == "user_id" or (task_records.records.labelled and name.startswith("place"))
        }
        kinds = {name: pa.string() if name in text else pa.int64() for name in keys}
        columns = ", ".join(
            f"CAST({key} AS {'VARCHAR' if name in text else 'BIGINT'}) AS {name}"
            for name, key in keys.items()
        )
        names = ", ".join(keys)
        query = (
            f"SELECT {names}, CAST(count(*) AS BIGINT) AS n FROM "
            f"(SELECT {columns} FROM {tasks.RECORDS} WHERE reject_reason = 0) GROUP BY {names}"
        )
        # Listed records are columns, whatever the source was.
        task_input = tasks.TaskInput("columns", task_records.task_input.memory)
        resolution = grids[0].resolution if isinstance(grids[0], Cells) else None
        schema = pa.schema([*kinds.items(), ("n", pa.int64())])
        work = tasks.query_task(task_input, query, schema, resolution)
        fine = map_batches(records, work, schema).groupBy(*keys).agg(F.sum("n").alias("n"))
        # Counted before it is fetched: what does not fit must not come to the driver.
        with persisted(fine) as stored:
            if translate_errors(stored.count) > pairs_on_driver(self.engine):
                return None
            return collect(stored)

    def _in_blocks(self, request: ReadRequest, grid: Cells | Labels) -> PublicMetadata:
        """Return the public facts on a grid with counts that stay in Spark."""
        current = self.facts.cells.grid, self.facts.privacy_unit
        if current == (grid, request.rules.privacy_unit) and not self.facts.occupancy.is_local:
            return self.facts
        on_grid = replace(request, rules=replace(request.rules, cells=grid, terms=()))
        return distribute(count_records(self.engine, self.source, on_grid)).public


def _list_records(task_records: TaskRecords, request: ReadRequest) -> DataFrame:
    schema = record_schema(task_records)
    if request.drops_repeats:
        return deduplicate_by_user(task_records, schema, None)
    return map_batches(
        task_records.rows,
        tasks.list_task(task_records.task_input, task_records.records.query, schema),
        schema,
    )
