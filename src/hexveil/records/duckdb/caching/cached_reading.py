"""PRIVATE. Counts and pairs of many files from a cache: only files that are new are read.

What is cached of a file is its table of pairs, before cells are chosen: tables of several files
are added up, and everything goes on as if all had been read at once. Which files are cached as one,
because of repeats or of dates, `file_groups` says.

Files whose columns differ (only a list of files may) are read together too, since how a column
is read depends on all of them.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

import pyarrow as pa

from hexveil.base.errors import InputError, StorageError
from hexveil.base.work_share import READING, part_of_work
from hexveil.records.duckdb import aggregation
from hexveil.records.duckdb.caching.cache_query import VIEW, CacheQuery
from hexveil.records.duckdb.caching.file_groups import GroupedFiles, time_span
from hexveil.records.duckdb.counting import CountResult, PairCounts, add_up, count_records
from hexveil.records.duckdb.expressions import file_list, literal
from hexveil.records.duckdb.pair_store import PairStore, PairTable
from hexveil.records.duckdb.validation import UNPARSABLE, ValidatedRecords
from hexveil.records.feasible_sums import LARGEST_SUM
from hexveil.records.sources.cache import (
    CACHE_CHANGED,
    Cache,
    CacheEntry,
    CacheFolder,
    FileStamp,
    TimeSpan,
    refuse_changed_sizes,
    refuse_changed_while_read,
    stamp_file,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hexveil.records.duckdb.relation import Relation
    from hexveil.records.duckdb.session import Session
    from hexveil.records.read_request import ReadRequest
    from hexveil.records.sources.source_files import Files


def count_cached(
    session: Session,
    source: Files,
    relation: Relation,
    request: ReadRequest,
    cache: Cache,
    *,
    is_private: bool = False,
) -> CountResult:
    """Count all records, from the cache where it has an entry; create the table of pairs.

    Parameters
    ----------
    is_private : bool
        Whether presence is private. A file of another size is then read again: a refusal would
        tell that somebody's records were added or removed.

    Raises
    ------
    InputError
        If the folder cannot be used, or a file has grown under its declared version.
    """
    reading = _CachedReading(session, source, relation, request, cache)
    if not is_private:
        # Before any record is read: a grown file under an old version would be published as the
        # old one.
        reading.refuse_changed_sizes()
    return reading.counted()


def has_mixed_columns(
    session: Session, source: Files, relation: Relation, stamps: Mapping[str, FileStamp]
) -> bool:
    """Return whether the files have different columns, or one is listed twice."""
    paths, select = source.paths, relation.select_files
    # A file listed twice has each record twice, which only reading both together can tell.
    if len({stamp.name for stamp in stamps.values()}) < len(paths):
        return True
    # Documents have no columns, and feeds all have the same.
    if len(paths) == 1 or select is None or source.kind not in ("parquet", "csv"):
        return False
    if relation.text is not None:
        used = relation.text.columns
        return len({frozenset(used).intersection(f.header.fields) for f in relation.text.files}) > 1
    if relation.one_schema:
        return False
    types = session.types(relation.query)
    return any(session.types(select([path])) != types for path in paths)


class _CachedReading:
    """One reading of files: those with a cache entry are not read again."""

    def __init__(
        self,
        session: Session,
        source: Files,
        relation: Relation,
        request: ReadRequest,
        cache: Cache,
    ) -> None:
        self._session, self._source, self._relation = session, source, relation
        self._request, self._versions = request, cache.versions
        self._stamps = {path: self._stamp(path) for path in source.paths}
        self._store = CacheFolder.open(cache.folder)
        self._entries = self._store.entries()
        self._query = CacheQuery(session, relation, request, source.kind)

    def refuse_changed_sizes(self) -> None:
        """Raise InputError if a file has grown or shrunk under its declared version."""
        refuse_changed_sizes(self._stamps, self._entries)

    def counted(self) -> CountResult:
        """Return the counts of all records; create the table of pairs."""
        self._show_records(self._source.paths)
        entered = self._grouped.entered(self._store, self._versions, self._filled)
        with _refuse_changes():
            tables = [self._store.table(entry) for entry in entered.used if entry.table]
            pairs = self._added_up(tables, entered.left_out)
        self._show_records(self._source.paths)
        dated = self._request.rules.select.dates is not None
        repeats = sum(entry.repeats for entry in entered.used)
        return CountResult(
            entered.request,
            self._query.checked if dated else self._query.undated,
            PairCounts(pairs, entered.left_out, repeats),
        )

    @cached_property
    def _grouped(self) -> GroupedFiles:
        mixed = has_mixed_columns(self._session, self._source, self._relation, self._stamps)
        return GroupedFiles(self._query, self._stamps, self._entries, self._measured, mixed)

    def _measured(self, paths: Sequence[str]) -> dict[str, TimeSpan]:
        """Return the time spans of files, queried now."""
        return {path: self._span(path) for path in paths}

    def _span(self, path: str) -> TimeSpan:
        self._relation.load_files([path])
        self._show_records([path])
        return time_span(self._session.rows(self._query.span_query)[0])

    # Entries, found or made.

    def _filled(self, missing: Sequence[tuple[CacheEntry, Sequence[str]]]) -> list[CacheEntry]:
        """Read the records of files and return their new entries."""
        return [self._new_entry(template, paths) for template, paths in missing]

    def _new_entry(self, template: CacheEntry, paths: Sequence[str]) -> CacheEntry:
        """Read the records of an entry's files and return it with counts and a table."""
        # Files are in the order of their names, which is mostly that of time.
        place = self._source.paths.index(paths[0])
        with part_of_work(READING, place, len(self._source.paths)):
            counts = self._scanned(paths, self._query.checked if template.window else None)
        # After the scan: a file that is written meanwhile may have been read in half.
        refuse_changed_while_read(self._stamps, {path: self._stamp(path) for path in paths})
        entry = replace(template, reasons=counts.left_out, repeats=counts.repeats)
        n_kept = counts.left_out.get(0, 0)
        if n_kept * self._request.rules.scale.span_quanta >= LARGEST_SUM:
            return entry  # sums as large are refused, or not needed
        return self._store.put(entry, partial(self._write, counts.pairs) if n_kept else None)

    def _scanned(self, paths: Sequence[str], records: ValidatedRecords | None) -> PairCounts:
        """Read all records of some files and return their pairs and counts."""
        # Files with an entry are never decoded, so that a day's snapshots cost nothing later.
        self._relation.load_files(paths)
        self._show_records(paths)
        records = self._query.undated if records is None else records
        counts = count_records(self._session, records, self._query.grouping, self._request)
        malformed = self._relation.skipped(paths)
        left_out = counts.left_out | {UNPARSABLE: counts.left_out.get(UNPARSABLE, 0) + malformed}
        return replace(counts, left_out=left_out)

    def _write(self, pairs: PairStore, path: str) -> None:
        """Write the pairs of kept records; sums have the smallest integer type of Parquet."""
        names = [
            *self._query.grouping.all,
            "n",
            f"CAST({aggregation.TOTAL} AS BIGINT) AS {aggregation.TOTAL}",
        ]
        if self._query.squares:
            # Where a sum exceeds 64 bits, no sums of squares are used.
            exact = f"coalesce(TRY_CAST({aggregation.SQUARES} AS BIGINT), 0)"
            names.append(f"{exact} AS {aggregation.SQUARES}")
        if self._query.n_bins:
            # One type however pairs were counted: numbers of several tables are compared.
            names.append(f"CAST({aggregation.FINE_BIN} AS SMALLINT) AS {aggregation.FINE_BIN}")
        # No temporary file of the engine's: its name would be neither locked nor private.
        target = f"TO {literal(path)} (FORMAT parquet, COMPRESSION zstd, USE_TMP_FILE false)"
        columns = ", ".join(names)
        pairs.write(columns, target, by_bin=bool(self._query.n_bins))

    def _added_up(self, tables: Sequence[str], left_out: Mapping[int, int]) -> PairStore:
        """Return the pairs of all records as the sum of cached tables."""
        query = self._query
        if not tables:
            return PairTable(self._session, query.grouping)
        rows = f"read_parquet({file_list(tables)}, hive_partitioning=false)"
        sums = [aggregation.TOTAL, *[aggregation.SQUARES] * query.squares]
        return add_up(self._session, rows, query.grouping, self._request.rules, sums, left_out)

    # The files.

    def _stamp(self, path: str) -> FileStamp:
        return stamp_file(path, self._versions.declared[self._versions.number(path)][1])

    def _show_records(self, paths: Sequence[str]) -> None:
        """Point the queries at the records of some files."""
        select = self._relation.select_files
        query = self._relation.query if select is None else select(paths)
        self._session.run(f"CREATE OR REPLACE TEMP VIEW {VIEW} AS {query}")


@contextlib.contextmanager
def _refuse_changes() -> Iterator[None]:
    """Raise StorageError where a table is gone that was whole when it was checked."""
    try:
        yield
    except StorageError:
        raise
    # So another process, or its owner, has removed one since.
    except (InputError, OSError, pa.ArrowException):
        gone = True
    else:
        gone = False
    if gone:
        raise StorageError(CACHE_CHANGED)
