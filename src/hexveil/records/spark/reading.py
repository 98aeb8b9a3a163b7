"""One reading by Spark, from a source to a data set, and its records counted on other grids.

Tasks validate, count and sum; their counts come to the driver, where all else is done as if the
DuckDB engine had counted. Pairs that memory does not hold lie on the driver's disk.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from hexveil.base.work_share import COUNTING, READING
from hexveil.model.cells import Cells, Labels
from hexveil.model.public_metadata import PublicMetadata, Unit
from hexveil.records.dataset import Dataset
from hexveil.records.duckdb.reading import fetch_dataset
from hexveil.records.duckdb.regrid import facts_of_pairs, refuse_slots
from hexveil.records.duckdb.session import Session
from hexveil.records.progress import show_progress
from hexveil.records.read_request import ReadRequest
from hexveil.records.sources.source_files import Files, Frame, MemoryTable, Remote
from hexveil.records.spark.counting import DistributedQueries, count_in_tasks
from hexveil.records.spark.source_rows import open_records


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
    with (
        show_progress(READING),
        Session(requests[0].memory, scratch=requests[0].scratch) as session,
    ):
        for request in requests:
            records = open_records(engine, session, source, request)
            counted = count_in_tasks(session, records, request)
            asked = DistributedQueries(session, records)
            dataset = fetch_dataset(session, source.label, counted, asked)
            recount = SparkRegridder(engine, source, request, dataset.public)
            datasets.append(replace(dataset, public=replace(dataset.public, recount=recount)))
    return datasets


@dataclass(frozen=True, repr=False)
class SparkRegridder:
    """Counts the records of a source on other grids; see `hexveil.model.public_metadata.Recount`.

    Each grid is a reading by itself.

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
        with show_progress(COUNTING), Session(request.memory, scratch=request.scratch) as session:
            records = open_records(self.engine, session, self.source, request)
            pairs = count_in_tasks(session, records, request).counts.pairs
            return facts_of_pairs(session, request, self.facts, grid, pairs)
