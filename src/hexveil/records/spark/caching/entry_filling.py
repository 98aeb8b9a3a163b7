"""PRIVATE. New entries of a cache, by Spark: tasks count files and write tables into the folder.

All files without an entry are read at once, apart for each entry. Heads are written by the driver
when the tables are there and no file has changed; no pair comes to it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812  as everybody calls it

from hexveil.base.errors import HexveilError, StorageError
from hexveil.records.duckdb import aggregation
from hexveil.records.duckdb.caching.file_groups import time_span
from hexveil.records.duckdb.validation import REASONS, used_columns
from hexveil.records.feasible_sums import LARGEST_SUM
from hexveil.records.read_request import DAY_AND_TIME
from hexveil.records.sources.cache import (
    CacheEntry,
    CacheFolder,
    TimeSpan,
    refuse_changed_while_read,
)
from hexveil.records.sources.source_files import Files, Remote, check_compressed
from hexveil.records.spark import tasks
from hexveil.records.spark.caching import entry_tasks
from hexveil.records.spark.caching.entry_tasks import NUMBER
from hexveil.records.spark.caching.file_rows import ENTRY, ListedFiles, list_files
from hexveil.records.spark.counting import (
    as_parted,
    persisted,
    raise_task_failure,
    record_schema,
    summed,
    tally_keys,
    tally_schema,
    task_grouping_of,
)
from hexveil.records.spark.frames import collect, map_batches

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from hexveil.records.duckdb.caching.cache_query import CacheQuery
    from hexveil.records.sources.versions import Versions
    from hexveil.records.spark.source_rows import TaskRecords


@dataclass(frozen=True, repr=False)
class EntryFiller:
    """PRIVATE. Reader of files that have no entry.

    Attributes
    ----------
    spark : SparkSession
    source : Files or Remote
    versions : Versions
    files : ListedFiles
        The files of the source before anything was read.
    records : TaskRecords
    query : CacheQuery
    store : CacheFolder
    """

    spark: SparkSession
    source: Files | Remote
    versions: Versions
    files: ListedFiles
    records: TaskRecords
    query: CacheQuery
    store: CacheFolder

    @cached_property
    def _in_tasks(self) -> CacheQuery:
        return replace(self.query, view=tasks.RECORDS)

    def measure(self, paths: Sequence[str]) -> dict[str, TimeSpan]:
        """Return the time spans of files, found by tasks that read their times alone."""
        if not paths:
            return {}
        query = self.query
        used = used_columns(query.session, query.relation, query.request)
        time = [ref.column for role, ref in used if role in ("time", *DAY_AND_TIME)]
        rows = self._rows_by_file({path: i for i, path in enumerate(paths)}, time)
        work = entry_tasks.span_task(self.records.task_input, self._in_tasks.span_query)
        found = _map_entries(rows, work, entry_tasks.SPANS, ENTRY)
        ends = {"first_us": F.min, "last_us": F.max, "first_s": F.min, "last_s": F.max}
        table = collect(
            found.groupBy(NUMBER, "reject_reason", "note").agg(
                *(end(name).alias(name) for name, end in ends.items())
            )
        )
        raise_task_failure(table["note"], table["reject_reason"].to_numpy())
        spans = dict.fromkeys(paths, TimeSpan())
        for row in table.to_pylist():
            # Rows of skipped lines have no times.
            if row["first_us"] is not None:
                spans[paths[row[NUMBER]]] = time_span([row[name] for name in ends])
        return spans

    def fill(
        self, templates: Sequence[tuple[CacheEntry, Sequence[str]]], *, mixed: bool
    ) -> list[CacheEntry]:
        """Read the files of entries, all at once, and return the entries.

        Parameters
        ----------
        templates : sequence of (CacheEntry, sequence of str)
            Entries without counts and tables, all or none of them for certain dates alone, and the
            paths of their files.
        mixed : bool
            Whether all files are of one entry, and read as they are without a cache.
        """
        numbers = {path: i for i, (_, paths) in enumerate(templates) for path in paths}
        if isinstance(self.source, Files):
            for path in numbers:
                check_compressed(path, self.source.paths, self.query.request.format.max_unpacking)
        assert self.records.by_file is not None  # noqa: S101  a source with a cache is files
        rows = self.records.by_file.all_numbered() if mixed else self._rows_by_file(numbers)
        with persisted(self._tallied(rows, dated=bool(templates[0][0].window))) as tally:
            counts = collect(
                tally.groupBy(NUMBER, "reject_reason", "note").agg(F.sum("n").alias("records"))
            )
            raise_task_failure(counts["note"], counts["reject_reason"].to_numpy())
            by_number: list[dict[int, int]] = [{} for _ in templates]
            for row in counts.to_pylist():
                by_number[row[NUMBER]][row["reject_reason"]] = row["records"]
            entries = [
                _with_counts(template, found)
                for (template, _), found in zip(templates, by_number, strict=True)
            ]
            return self._stored(entries, tally, mixed=mixed)

    def _rows_by_file(
        self, numbers: Mapping[str, int], only: Sequence[str] | None = None
    ) -> DataFrame:
        assert self.records.by_file is not None  # noqa: S101  a source with a cache is files
        return self.records.by_file.numbered(self.files, numbers, only)

    def _tallied(self, rows: DataFrame, *, dated: bool) -> DataFrame:
        """Return counts and sums by entry, reason and keys, perhaps by bin."""
        query = self._in_tasks
        records = replace(
            self.records, rows=rows, records=query.checked if dated else query.undated
        )
        grouping = task_grouping_of(records, query.request)
        by_bin = bool(grouping.edges)
        schema = tally_schema(query.grouping, squares=grouping.squares, by_bin=by_bin)
        if query.drops_repeats:
            return _deduplicate_by_entry(records, schema, grouping)
        work = tasks.count_task(records.task_input, records.records.query, grouping, schema)
        partial = _map_entries(rows, work, schema, ENTRY)
        keys = [NUMBER, *tally_keys(query.grouping), *[aggregation.FINE_BIN] * by_bin]
        return partial.groupBy(*keys).agg(*summed(partial))

    def _stored(
        self, entries: Sequence[CacheEntry], tally: DataFrame, *, mixed: bool
    ) -> list[CacheEntry]:
        """Store entries, with tables that tasks write; return them."""
        span = self.query.request.rules.scale.span_quanta
        # Sums of more records are refused, or not needed.
        fitting = [i for i, e in enumerate(entries) if e.reasons[0] * span < LARGEST_SUM]
        stored = list(entries)
        with self.store.workplace() as folder:
            tables = self._write(tally, [i for i in fitting if entries[i].reasons[0]], folder)
            # After all is read: a file that is written meanwhile may have been read in half.
            now = list_files(self.spark, self.source, self.versions).stamps
            looked_at = {*self.files.stamps, *now} if mixed else self.files.stamps
            refuse_changed_while_read(
                self.files.stamps, {path: now.get(path) for path in looked_at}
            )
            for i in fitting:
                if i not in tables:
                    stored[i] = self.store.put(entries[i], None)
                    continue
                name, digest = tables[i]
                if not (folder / name).is_file():
                    raise StorageError(entry_tasks.NOT_SHARED)
                stored[i] = self.store.adopt(replace(entries[i], digest=digest), folder / name)
        return stored

    def _write(
        self, tally: DataFrame, numbers: Sequence[int], folder: Path
    ) -> dict[int, tuple[str, str]]:
        """Return name and digest of the table of each entry, written by tasks."""
        if not numbers:
            return {}
        schema = self._table_schema()
        # A sum of squares is null where it exceeds 64 bits: no sums of squares are used then.
        columns = [
            F.coalesce(F.col(name), F.lit(0)).alias(name)
            if name == aggregation.SQUARES
            else F.col(name)
            for name in schema.names
        ]
        pairs = tally.where("reject_reason = 0").where(F.col(NUMBER).isin(list(numbers)))
        rows = pairs.select(NUMBER, *columns).repartition(NUMBER)
        # In the order of keys, which packs well.
        rows = rows.sortWithinPartitions(NUMBER, *self.query.grouping.all)
        work = entry_tasks.write_task(str(folder.absolute()), schema)
        table = collect(_map_entries(rows, work, entry_tasks.WRITTEN, NUMBER))
        notes = [note for note in table["note"].to_pylist() if note is not None]
        if notes:
            raise StorageError(min(notes))
        if sorted(table[NUMBER].to_pylist()) != sorted(numbers):
            # Two tables of one entry would be half of it each.
            raise HexveilError("Spark wrote a file's pairs in parts; read without cache.")
        written = zip(table["name"].to_pylist(), table["digest"].to_pylist(), strict=True)
        return dict(zip(table[NUMBER].to_pylist(), written, strict=True))

    def _table_schema(self) -> pa.Schema:
        """Return the columns of a table, with the types that the other engine gives them."""
        query = self.query
        keys = ", ".join(f"{sql} AS {name}" for name, sql in query.grouping.all.items())
        empty = query.session.arrow(f"SELECT {keys} FROM ({query.undated.query}) LIMIT 0")
        numbers = [("n", pa.int64()), (aggregation.TOTAL, pa.int64())]
        numbers += [(aggregation.SQUARES, pa.int64())] * query.squares
        numbers += [(aggregation.FINE_BIN, pa.int16())] * bool(query.n_bins)
        return pa.schema([*empty.schema, *numbers])


def _map_entries(rows: DataFrame, work: tasks.Work, schema: pa.Schema, column: str) -> DataFrame:
    """Return the tables that tasks make of rows, apart for each entry."""
    apart = entry_tasks.by_entry(work, schema, column)
    return map_batches(rows, apart, entry_tasks.with_number(schema))


def _deduplicate_by_entry(
    records: TaskRecords, result_schema: pa.Schema, grouping: tasks.TaskGrouping
) -> DataFrame:
    """Drop repeats within each entry, all records of a user in one task; count the rest."""
    schema = record_schema(records)
    listing = tasks.list_task(records.task_input, records.records.query, schema)
    listed = _map_entries(records.rows, listing, schema, ENTRY)
    work = tasks.deduplicate_task(records.task_input.memory, schema, result_schema, grouping)
    rows = listed.repartition(NUMBER, "user_id").sortWithinPartitions(NUMBER)
    return as_parted(_map_entries(rows, work, result_schema, NUMBER), records)


def _with_counts(template: CacheEntry, found: Mapping[int, int]) -> CacheEntry:
    """Return an entry with the number of records of each reason, repeats among those kept."""
    repeats = found.get(tasks.REPEATS, 0)
    reasons = {reason: n for reason, n in found.items() if reason < len(REASONS)}
    reasons[0] = reasons.get(0, 0) + repeats
    return replace(template, reasons=reasons, repeats=repeats)
