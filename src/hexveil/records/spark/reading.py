"""One reading by Spark, from a source to a data set.

Count the same records on other grids with Spark, for capacity tables.

Kept records are listed once. Counts on the finest grids come to the driver, where they are added up
as the DuckDB engine does, unless there are more of them than pairs that may be fetched. Then each
grid is counted by itself, and one whose own counts are too many is read as a data set is, in
blocks; they stay in Spark until its session ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import chdir, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  as everybody calls it

from hexveil.base.errors import HexveilError
from hexveil.base.work_share import COUNTING, READING
from hexveil.model.cells import Cells, Labels
from hexveil.model.declared_grid import DeclaredFacts
from hexveil.model.public_metadata import PublicMetadata, Unit
from hexveil.records.column_datasets import PrivateDataset, ReadingCounts
from hexveil.records.dataset import Dataset
from hexveil.records.duckdb import aggregation, regrid
from hexveil.records.duckdb import reading as duckdb_reading
from hexveil.records.duckdb.cached_reading import CachedReading, Missing, Stamps
from hexveil.records.duckdb.reading import NUMBER, declared_table, rule_counts
from hexveil.records.duckdb.session import Session
from hexveil.records.duckdb.source import open_source
from hexveil.records.feasible_sums import bins_of_lists
from hexveil.records.progress import show_progress
from hexveil.records.read_request import ReadRequest
from hexveil.records.sources.source_files import Files, Frame, MemoryTable, Remote
from hexveil.records.spark import pair_blocks, tasks
from hexveil.records.spark.counting import (
    CountedPairs,
    count_all,
    count_pairs,
    deduplicate_by_user,
    list_all,
    raise_task_failure,
    record_schema,
)
from hexveil.records.spark.session import (
    collect,
    from_arrow,
    map_batches,
    pairs_on_driver,
    persisted,
    stored,
    task_memory,
    translate_errors,
)
from hexveil.records.spark.source_rows import TaskRecords, open_records

_STORED = pa.schema([("entry", pa.int32())])
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
    with show_progress(READING):
        return [
            _read_dataset(engine, source, request)
            if facts is None
            else _read_private(engine, source, request, facts)
            for request, facts in readings
        ]


def read_cached(
    engine: SparkSession,
    source: Files,
    readings: Sequence[tuple[ReadRequest, DeclaredFacts | None]],
) -> list[Dataset | PrivateDataset]:
    """Return the records of files with a cache: tasks read new files, the driver adds up pairs.

    Raises
    ------
    InputError
        As `duckdb.reading.read_datasets` does.
    """
    datasets = duckdb_reading.read_datasets(source, readings, partial(_fill_cache, engine))
    return [
        _recounted(engine, source, request, dataset) if isinstance(dataset, Dataset) else dataset
        for dataset, (request, _) in zip(datasets, readings, strict=True)
    ]


def _fill_cache(
    engine: SparkSession, source: Files, request: ReadRequest, stamps: Stamps, missing: Missing
) -> None:
    """Have tasks read the files of entries and store these; what fails is left to the driver."""
    work = partial(_filled, source, request, task_memory(engine), stamps, missing, str(Path.cwd()))
    numbers = from_arrow(engine, pa.table({"entry": np.arange(len(missing), dtype=np.int32)}))
    with suppress(HexveilError):
        collect(map_batches(numbers.repartition(len(missing)), work, _STORED))


def _filled(
    source: Files,
    request: ReadRequest,
    memory: str,
    stamps: Stamps,
    missing: Missing,
    folder: str,
    batches: tasks.Batches,
) -> tasks.Batches:
    """Read the files of a task's entries and store these; yield nothing."""
    for number in (number for batch in batches for number in batch["entry"].to_pylist()):
        # Whatever is wrong here, the driver reads these files itself, and refuses what it must.
        with suppress(Exception), chdir(folder), tasks.TaskSession(memory) as session:
            relation = open_source(session, source, request.column_names, request.format)
            reading = CachedReading(session, source, relation, request, stamps)
            reading.new_entry(*missing[number])
    yield from ()


def _recounted(
    engine: SparkSession,
    source: Files | MemoryTable | Frame | Remote,
    request: ReadRequest,
    dataset: Dataset,
) -> Dataset:
    """Return a data set with records that Spark counts on other grids."""
    recount = SparkRegridder(engine, source, replace(request, cache=None), dataset.public)
    return replace(dataset, public=replace(dataset.public, recount=recount))


def _read_dataset(
    engine: SparkSession, source: Files | MemoryTable | Frame | Remote, request: ReadRequest
) -> Dataset:
    """Return the data set of one value column, its pairs on the driver unless they are many."""
    counted = count_pairs(engine, source, request)
    many = int(counted.per_cell.sum()) > pairs_on_driver(engine)
    dataset = _distributed(counted) if many else _collected(counted)
    return _recounted(engine, source, request, dataset)


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


def _read_private(
    engine: SparkSession,
    source: Files | MemoryTable | Frame | Remote,
    request: ReadRequest,
    facts: DeclaredFacts,
) -> PrivateDataset:
    """Return the data set of records on the declared grid, with pairs that stay in Spark.

    As on one machine nothing is refused for its records.
    """
    by_bin = facts.bins is not None
    with Session(request.memory, scratch=request.scratch) as session:
        counted = count_all(engine, session, source, request)
        cells = declared_table(facts.cells).rename_columns({NUMBER: "cell"})
        if "hexagon" in cells.column_names:
            hexagons = cells["hexagon"].cast(pa.int64())  # Spark has no numbers without a sign
            cells = cells.set_column(cells.column_names.index("hexagon"), "hexagon", hexagons)
        with persisted(counted.frame) as tally:
            kept, left_out, repeats = counted.summary()
            units = list(counted.grouping.unit)
            rows = (
                tally.where("reject_reason = 0")
                .join(F.broadcast(from_arrow(engine, cells)), list(counted.grouping.cell))
                .select("cell", *units, "n", "total", *[tasks.BINS] * by_bin)
            )
            room = pair_blocks.BLOCK_PAIRS // (pair_blocks.ROOM_OF_BINS if by_bin else 1)
            n_blocks = sum(kept["users"].to_pylist()) // room + 1
            pairs = pair_blocks.SparkPairBlocks(rows, units, n_blocks, by_bin=by_bin)
    counts = rule_counts(request, left_out, repeats)
    return PrivateDataset(facts, pairs, ReadingCounts.of(counts, pairs))


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
            schema = record_schema(task_records)
            listed = (
                deduplicate_by_user(task_records, schema, None)
                if request.drops_repeats
                else list_all(task_records, schema)
            )
            with persisted(listed) as records:
                failed = records.where(f"reject_reason = {tasks.FAILED}")
                # Before any count: rows of a failed task lack its records.
                raise_task_failure(collect(failed.select("reject_reason", "note")))
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
        text = {"user_id", *(task_records.records.places if task_records.records.labelled else ())}
        names, columns = (
            ", ".join(keys),
            ", ".join(
                f"CAST({key} AS {'VARCHAR' if name in text else 'BIGINT'}) AS {name}"
                for name, key in keys.items()
            ),
        )
        query = (
            f"SELECT {names}, CAST(count(*) AS BIGINT) AS n FROM "
            f"(SELECT {columns} FROM {tasks.RECORDS} WHERE reject_reason = 0) GROUP BY {names}"
        )
        resolution = grids[0].resolution if isinstance(grids[0], Cells) else None

        def statement(in_task: Session) -> str:
            if resolution is not None:
                # Registers the function that the query calls.
                in_task.hexagon("0", "0", resolution)
            return query

        # Listed records are columns, whatever the source was.
        task_input = tasks.TaskInput(task_records.task_input.memory)
        kinds = [(name, pa.string() if name in text else pa.int64()) for name in keys]
        schema = pa.schema([*kinds, ("n", pa.int64())])
        counted = map_batches(records, tasks.query_task(task_input, statement, schema), schema)
        # Counted before it is fetched: what does not fit must not come to the driver.
        with persisted(counted.groupBy(*keys).agg(F.sum("n").alias("n"))) as fine:
            many = translate_errors(fine.count) > pairs_on_driver(self.engine)
            return None if many else collect(fine)

    def _in_blocks(self, request: ReadRequest, grid: Cells | Labels) -> PublicMetadata:
        """Return the public facts on a grid with counts that stay in Spark."""
        current = self.facts.cells.grid, self.facts.privacy_unit
        if current == (grid, request.rules.privacy_unit) and not self.facts.occupancy.is_local:
            return self.facts
        on_grid = replace(request, rules=replace(request.rules, cells=grid, terms=()))
        return _distributed(count_pairs(self.engine, self.source, on_grid)).public
