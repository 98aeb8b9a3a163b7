"""PRIVATE. Counts of many files from a cache, by Spark: only files that are new are read.

Rules and entries are those of the DuckDB engine (`hexveil.records.duckdb.caching`): which files are
cached as one, which entry holds, what is refused. Spark adds the tables up; the driver compares
their digests and has heads of entries, never a pair. Where the columns of local files mean
the same to both engines, an entry that one of them wrote is read by the other.
"""

from __future__ import annotations

from functools import cached_property, partial
from typing import TYPE_CHECKING

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import __version__ as spark_version
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812  as everybody calls it

from hexveil.base.errors import StorageError
from hexveil.records.duckdb.caching.cache_query import VIEW, CacheQuery
from hexveil.records.duckdb.caching.cached_reading import has_mixed_columns
from hexveil.records.duckdb.caching.file_groups import GroupedFiles
from hexveil.records.sources.cache import (
    CACHE_CHANGED,
    Cache,
    CacheEntry,
    CacheFolder,
    refuse_changed_sizes,
)
from hexveil.records.sources.source_files import Files, Frame, MemoryTable, Remote
from hexveil.records.spark import tasks
from hexveil.records.spark.caching.entry_filling import EntryFiller
from hexveil.records.spark.caching.file_rows import ListedFiles, list_files
from hexveil.records.spark.counting import RecordTally, add_up_groups, tally_keys, tally_schema
from hexveil.records.spark.frames import ddl_type, from_arrow
from hexveil.records.spark.parquet import local_address
from hexveil.records.spark.source_rows import TaskRecords, open_records

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from hexveil.records.duckdb.session import Session
    from hexveil.records.read_request import ReadRequest


def count_cached(
    spark: SparkSession,
    session: Session,
    source: Files | MemoryTable | Frame | Remote,
    request: ReadRequest,
    *,
    is_private: bool = False,
) -> RecordTally:
    """Return the counts and sums of all records, from the cache where it has an entry.

    Parameters
    ----------
    is_private : bool
        Whether presence is private: see `hexveil.records.duckdb.caching.cached_reading`.

    Raises
    ------
    InputError
        If the folder cannot be used, or a file has grown under its declared version.
    """
    # Else all records are counted: `resolve_cache` allows no cache of anything else.
    assert request.cache is not None  # noqa: S101
    assert isinstance(source, (Files, Remote))  # noqa: S101
    # Listed before anything is opened: what changes from now on is noticed.
    files = list_files(spark, source, request.cache.versions)
    records = open_records(spark, session, source, request)
    query = _cache_query(session, source, records, request)
    counting = _CachedCounting(spark, source, files, records, query, request.cache)
    if not is_private:
        counting.refuse_changed_sizes()
    return counting.counted()


def _cache_query(
    session: Session, source: Files | Remote, records: TaskRecords, request: ReadRequest
) -> CacheQuery:
    session.run(f"CREATE OR REPLACE TEMP VIEW {VIEW} AS {records.relation.query}")
    if isinstance(source, Files):
        return CacheQuery(session, records.relation, request, source.kind)
    # Spark alone reads these files, and gives each column one type for all of them.
    kinds = [f"{field.name} {field.dataType}" for field in records.rows.schema.fields]
    terms = ("spark", spark_version, *kinds)
    return CacheQuery(session, records.relation, request, "parquet", terms)


class _CachedCounting:
    """One reading of files by Spark: those with a cache entry are not read again."""

    def __init__(
        self,
        spark: SparkSession,
        source: Files | Remote,
        files: ListedFiles,
        records: TaskRecords,
        query: CacheQuery,
        cache: Cache,
    ) -> None:
        self._spark, self._source, self._files = spark, source, files
        self._records, self._query, self._cache = records, query, cache
        self._store = CacheFolder.open(cache.folder)
        self._entries = self._store.entries()
        self._filler = EntryFiller(
            spark, source, cache.versions, files, records, query, self._store
        )

    def refuse_changed_sizes(self) -> None:
        """Raise InputError if a file has grown or shrunk under its declared version."""
        refuse_changed_sizes(self._files.stamps, self._entries)

    def counted(self) -> RecordTally:
        """Return the counts and sums of all records."""
        fill = partial(self._filler.fill, mixed=self._grouped.mixed)
        found = self._grouped.entered(self._store, self._cache.versions, fill)
        frame = self._added_up(found.used, found.left_out)
        keys = self._query.grouping
        return RecordTally(self._records, keys, frame, found.request, found.left_out)

    @cached_property
    def _grouped(self) -> GroupedFiles:
        files, mixed = self._files, self._files.is_twice
        if isinstance(self._source, Files) and self._records.files is not None:
            relation = self._records.files
            mixed = has_mixed_columns(self._query.session, self._source, relation, files.stamps)
        return GroupedFiles(self._query, files.stamps, self._entries, self._filler.measure, mixed)

    def _added_up(self, used: Sequence[CacheEntry], left_out: Mapping[int, int]) -> DataFrame:
        """Return counts and sums by reason, cell and unit, as of records that were read at once."""
        query = self._query
        schema = tally_schema(query.grouping, squares=query.squares, by_bin=bool(query.n_bins))
        repeats = sum(entry.repeats for entry in used)
        in_tables = sum(e.reasons.get(0, 0) - e.repeats for e in used if e.table)
        # Beside rejects and repeats: records of entries without a table, which are too many.
        others = left_out.get(0, 0) - repeats - in_tables
        counts = {**left_out, 0: others, tasks.REPEATS: repeats}
        partial = from_arrow(self._spark, _rows_of_counts(counts, schema))
        tables = [local_address(self._store.table(entry)) for entry in used if entry.table]
        if tables:
            partial = partial.unionByName(_pairs_of_tables(self._spark, tables, schema))
        return add_up_groups(partial, tally_keys(query.grouping), self._records)


def _rows_of_counts(counts: Mapping[int, int], schema: pa.Schema) -> pa.Table:
    """Return a row for each reason that covers records, without keys."""
    rows = {reason: n for reason, n in counts.items() if n}
    columns = {
        "reject_reason": pa.array(list(rows), pa.int32()),
        "n": pa.array(list(rows.values()), pa.int64()),
    }
    return pa.table(
        [columns.get(field.name, pa.nulls(len(rows), field.type)) for field in schema],
        schema=schema,
    )


def _pairs_of_tables(spark: SparkSession, tables: Sequence[str], schema: pa.Schema) -> DataFrame:
    """Return the rows of entries' tables, with the columns of a tally."""
    gone = False
    try:
        rows = spark.read.parquet(*tables)
        _ = rows.schema
    except (PySparkException, Py4JError):
        gone = True
    if gone:
        raise StorageError(CACHE_CHANGED)
    added = {"reject_reason": F.lit(0), "note": F.lit(None)}
    # Not a plain cast: of a sum that exceeds 64 bits, which is never used, that would fail.
    return rows.select(
        *(
            added.get(field.name, F.col(field.name) if field.name in rows.columns else F.lit(None))
            .try_cast(ddl_type(field.type))
            .alias(field.name)
            for field in schema
        )
    )
