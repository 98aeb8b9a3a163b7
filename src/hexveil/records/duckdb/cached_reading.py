"""PRIVATE. Counts and pairs of many files from a cache: only files that are new are read.

What is cached of a file is its table of pairs, before cells are chosen: tables of several files
are added up, and everything goes on as if all had been read at once. Which files are cached as one,
because of repeats or of dates, `file_groups` says.

Files whose columns differ (only a list of files may) are read together too, since how a column
is read depends on all of them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from hexveil.base.errors import InputError, StorageError
from hexveil.base.work_share import READING, part_of_work
from hexveil.records.duckdb import aggregation
from hexveil.records.duckdb.aggregation import PairStore
from hexveil.records.duckdb.counting import CountResult, PairCounts
from hexveil.records.duckdb.expressions import file_list
from hexveil.records.duckdb.file_groups import (
    VIEW,
    CacheQuery,
    CacheState,
    EnteredFiles,
    GroupedFiles,
)
from hexveil.records.duckdb.relation import Relation
from hexveil.records.duckdb.session import Session
from hexveil.records.read_request import ReadRequest
from hexveil.records.sources.cache import (
    CACHE_CHANGED,
    Cache,
    CacheEntry,
    CacheFolder,
    FileStamp,
    TimeSpan,
    refuse_changed_while_read,
    stamp_file,
)
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

    Raises
    ------
    InputError
        If the folder cannot be used, or a file has grown under its declared version.
    """
    reading = _CachedReading(session, source, relation, cache)
    state = CacheState.of(cache, reading.stamps, is_private=is_private)
    reading.show_records(source.paths)
    query = reading.query = CacheQuery.of(session, relation, request, source.kind)
    mixed = has_mixed_columns(session, source, relation, reading.stamps)
    entered = GroupedFiles(query, state, mixed, reading.measured).entered(reading.filled)
    pairs = reading.added_up(entered)
    reading.show_records(source.paths)
    dated = request.rules.select.dates is not None
    repeats = sum(entry.repeats for entry in entered.used)
    return CountResult(
        entered.request,
        query.checked if dated else query.undated,
        PairCounts(pairs, entered.left_out, repeats),
    )


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

    query: CacheQuery

    def __init__(self, session: Session, source: Files, relation: Relation, cache: Cache) -> None:
        self._session, self._source, self._relation = session, source, relation
        self._versions = cache.versions
        self.stamps = {path: self._stamp(path) for path in source.paths}

    def _stamp(self, path: str) -> FileStamp:
        return stamp_file(path, self._versions.declared[self._versions.number(path)][1])

    def show_records(self, paths: Sequence[str]) -> None:
        """Point the queries at the records of some files."""
        select = self._relation.select_files
        query = self._relation.query if select is None else select(paths)
        self._session.run(f"CREATE OR REPLACE TEMP VIEW {VIEW} AS {query}")

    def measured(self, paths: Sequence[str]) -> dict[str, TimeSpan]:
        """Return the time spans of files, queried now."""
        spans = {}
        for path in paths:
            self._relation.load_files([path])
            self.show_records([path])
            spans[path] = self.query.span(self._session)
        return spans

    def filled(
        self, store: CacheFolder, missing: Sequence[tuple[CacheEntry, Sequence[str]]]
    ) -> list[CacheEntry]:
        """Read the records of files and return their new entries."""
        return [self._new_entry(store, template, paths) for template, paths in missing]

    def _new_entry(
        self, store: CacheFolder, template: CacheEntry, paths: Sequence[str]
    ) -> CacheEntry:
        """Read the records of an entry's files and return it with counts and a table."""
        # Files are in the order of their names, which is mostly that of time.
        place = self._source.paths.index(paths[0])
        with part_of_work(READING, place, len(self._source.paths)):
            counts = self._scanned(paths, dated=bool(template.window))
        # After the scan: a file that is written meanwhile may have been read in half.
        refuse_changed_while_read(self.stamps, {path: self._stamp(path) for path in paths})
        entry = replace(template, reasons=counts.left_out, repeats=counts.repeats)
        write = partial(self.query.write, counts.pairs) if entry.reasons.get(0) else None
        return store.put(entry, write) if self.query.is_kept(counts) else entry

    def _scanned(self, paths: Sequence[str], *, dated: bool) -> PairCounts:
        """Read all records of some files and return their pairs and counts."""
        # Files with an entry are never decoded, so that a day's snapshots cost nothing later.
        self._relation.load_files(paths)
        self.show_records(paths)
        counts = self.query.counted(self._session, dated=dated)
        return counts.with_malformed(self._relation.skipped(paths))

    def added_up(self, entered: EnteredFiles) -> PairStore:
        """Return the pairs of all records as the sum of cached tables."""
        query, keys = self.query, self.query.keys(self._session)
        with _refuse_changes():
            if not entered.tables:
                return PairStore(self._session, keys, entered.left_out)
            rows = f"read_parquet({file_list(entered.tables)}, hive_partitioning=false)"
            sums = [aggregation.TOTAL, *[aggregation.SQUARES] * query.squares]
            by_bin = query.request.rules.bins is not None
            return aggregation.number_pairs(
                self._session, rows, keys, sums, entered.left_out, by_bin=by_bin
            )


@contextlib.contextmanager
def _refuse_changes() -> Iterator[None]:
    """Raise StorageError where a table is gone that was whole when it was checked."""
    with contextlib.suppress(InputError):
        yield
        return
    # So another process, or its owner, has removed one since.
    raise StorageError(CACHE_CHANGED)
