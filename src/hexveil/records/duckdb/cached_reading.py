"""PRIVATE. Counts and pairs of many files from a cache: only files that are new are read.

What is cached of a file is its table of pairs, before cells are chosen: tables of several files
are added up, and everything goes on as if all had been read at once. Two rules look beyond a file:

- Repeats: records of one user and time can be in two files. Such files hold an instant that is
  between the first and the last of both; files that meet so, directly or through others, are read
  together and cached as one. All others cannot share a record.
- Dates: a file whose records all lie within the dates is as without them; of one whose records
  all lie outside, only counts are needed, and these follow from any entry of it. What lies across
  an end of the dates is cached for these dates alone.

Files whose columns differ (only a list of files may) are read together too, since how a column
is read depends on all of them.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from hexveil.base.errors import InputError, StorageError
from hexveil.base.work_share import part_of_work
from hexveil.model.cells import DAY
from hexveil.records.duckdb import aggregation
from hexveil.records.duckdb.counting import CountResult, PairCounts, count_records
from hexveil.records.duckdb.expressions import literal
from hexveil.records.duckdb.packing.cached_sums import CachedSums
from hexveil.records.duckdb.pair_store import PackedPairStore, PairTable
from hexveil.records.duckdb.validation import BOX, DATES, UNPARSABLE, validate_records
from hexveil.records.feasible_sums import LARGEST_SUM, squares_fit
from hexveil.records.progress import READING
from hexveil.records.sources.cache import (
    CacheEntry,
    CacheFolder,
    FileStamp,
    TimeSpan,
    query_hash,
    refuse_changed_sizes,
    stamp_file,
)
from hexveil.records.sources.source_files import check_compressed
from hexveil.records.units import CANONICAL_IDS
from hexveil.records.utc_offsets import END_OF_TIMES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hexveil.model.fine_bins import FineBins
    from hexveil.records.duckdb.packing.unpacking import PackedPairs
    from hexveil.records.duckdb.pair_store import PairStore
    from hexveil.records.duckdb.session import Session
    from hexveil.records.duckdb.source import Relation
    from hexveil.records.duckdb.validation import ValidatedRecords
    from hexveil.records.read_request import ReadRequest
    from hexveil.records.sources.cache import Cache
    from hexveil.records.sources.source_files import Files

VIEW = "some_records"
"""The records that are looked at: of one group of files, or of all."""
_MADE_BY = ("hexveil", "duckdb", "h3ronpy")


@dataclass(frozen=True)
class FileGroup:
    """Files that are read together, and their position relative to the dates.

    Attributes
    ----------
    paths : tuple of str
    inside, outside : bool
        Whether all records lie within the dates, or none does.
    """

    paths: tuple[str, ...]
    inside: bool = True
    outside: bool = False


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

    def refuse_changed_sizes(self) -> None:
        """Raise InputError if a file has grown or shrunk under its declared version."""
        refuse_changed_sizes(self._stamps, self._entries)

    def counted(self) -> CountResult:
        """Return the counts of all records; create the table of pairs."""
        self._show_records(self._source.paths)
        groups = self._placed(self._groups())
        known = [self._known(group) for group in groups]
        entered = zip(groups, known, strict=True)
        packed = self._sums.choose(
            [e for g, e in entered if e is not None and not g.outside], self._entries
        )
        entries = self._entered(groups, known, packed)
        left_out: dict[int, int] = {}
        for group, entry in zip(groups, entries, strict=True):
            for reason, n in _left_out(group, entry).items():
                left_out[reason] = left_out.get(reason, 0) + n
        # Files outside of the dates give counts of rejects, and no pairs.
        used = [e for g, e in zip(groups, entries, strict=True) if not g.outside]
        merged = self._merged(used, left_out)
        if merged is None:
            # The engine reads the tables themselves: those that a pack stood for are checked now.
            self._sums.forget_pack()
            entries = self._entered(groups, entries, set())
            used = [e for g, e in zip(groups, entries, strict=True) if not g.outside]
            with _refuse_changes():
                self._group([self._store.table(entry) for entry in used if entry.table])
        pairs = (
            PairTable(self._session, self._grouping)
            if merged is None
            else PackedPairStore(self._session, self._grouping, merged)
        )
        self._show_records(self._source.paths)
        paths = [path for group in groups if not group.outside for path in group.paths]
        # Of used files alone: the release of one day keeps its identity when files of others are
        # added.
        stated = self._versions.describe(self._versions.number(path) for path in paths)
        return CountResult(
            replace(self._request, version=stated),
            self._checked if self._request.rules.select.dates is not None else self._undated,
            PairCounts(
                pairs,
                left_out,
                sum(entry.repeats for entry in used),
            ),
        )

    # What is asked: the queries, which name no file, and their hash.

    @cached_property
    def _viewed(self) -> Relation:
        return replace(self._relation, query=f"SELECT * FROM {VIEW}")

    @cached_property
    def _checked(self) -> ValidatedRecords:
        return validate_records(self._session, self._viewed, self._request)

    @cached_property
    def _undated(self) -> ValidatedRecords:
        return validate_records(self._session, self._viewed, _without_dates(self._request))

    @cached_property
    def _grouping(self) -> aggregation.GroupKeys:
        rules = self._request.rules
        return aggregation.group_keys(
            self._session, rules.cells, rules.privacy_unit, self._undated.places
        )

    @cached_property
    def _maker(self) -> str:
        # Another engine or H3 may parse a text or place a point differently: its sums are not
        # mixed.
        versions = (f"{name} {importlib.metadata.version(name)}" for name in _MADE_BY)
        return ", ".join(versions)

    @cached_property
    def _query_hash(self) -> str:
        return query_hash(
            [
                self._maker,
                CANONICAL_IDS,
                self._source.kind,
                self._request.format.describe(),
                self._undated.clocked,
                self._undated.query,
                asdict(self._grouping),
                aggregation.drops_repeats(self._request),
                self._squares,
                *([] if self._bins is None else [self._bins.identity()]),
            ]
        )

    @property
    def _bins(self) -> FineBins | None:
        return self._request.rules.bins

    @property
    def _n_bins(self) -> int:
        return 0 if self._bins is None else self._bins.n_bins

    @property
    def _squares(self) -> bool:
        return squares_fit(1, self._request.rules.scale)

    # Which files go together.

    def _groups(self) -> list[FileGroup]:
        """Return the files, in groups that can share no repeat."""
        if self._mixed():
            return [FileGroup(self._source.paths)]
        if not aggregation.drops_repeats(self._request):
            return [FileGroup((path,)) for path in self._source.paths]
        return [FileGroup(tuple(paths)) for paths in group_overlapping(self._spans)]

    def _mixed(self) -> bool:
        """Return whether the files have different columns, or one is listed twice."""
        paths, select = self._source.paths, self._relation.select_files
        # A file listed twice has each record twice, which only reading both together can tell.
        if len({stamp.name for stamp in self._stamps.values()}) < len(paths):
            return True
        if len(paths) == 1 or select is None or not self._has_columns:
            return False
        if self._relation.one_schema:
            return False
        types = self._session.types(self._relation.query)
        return any(self._session.types(select([path])) != types for path in paths)

    @property
    def _has_columns(self) -> bool:
        """Whether files can differ in columns: documents have none, feeds all have the same."""
        return self._source.kind in ("parquet", "csv")

    def _placed(self, groups: list[FileGroup]) -> list[FileGroup]:
        """Return the groups, and where the dates leave each."""
        days = self._request.rules.select.days
        if days is None:
            return groups
        placed = []
        for group in groups:
            spans = [self._spans[path].local for path in group.paths]
            inside, outside = _date_sides([span for span in spans if span is not None], days)
            placed.append(replace(group, inside=inside, outside=outside))
        return placed

    @cached_property
    def _spans(self) -> dict[str, TimeSpan]:
        """First and last time of each file, cached or queried now."""
        cached: dict[FileStamp, TimeSpan] = {}
        for entry in self._entries:
            if entry.query == self._query_hash and entry.spans is not None:
                cached.update(zip(entry.files, entry.spans, strict=True))
        return {
            path: cached[now] if now in cached else self._span(path)
            for path, now in self._stamps.items()
        }

    def _span(self, path: str) -> TimeSpan:
        self._relation.load_files([path])
        self._show_records([path])
        local = "min(local_s), max(local_s)" if self._undated.local else "NULL, NULL"
        row = self._session.rows(
            f"SELECT min(time_us), max(time_us), {local} FROM ({self._undated.clocked}) "
            f"WHERE time_us BETWEEN 0 AND {END_OF_TIMES * 10**6 - 1}"
        )[0]
        ends = [int(str(end)) for end in row if end is not None]
        instants = (ends[0], ends[1]) if ends else None
        return TimeSpan(instants, (ends[2], ends[3]) if ends[2:] else None)

    # Entries, found or made.

    def _known(self, group: FileGroup) -> CacheEntry | None:
        """Return the cached entry of a group, whole or not; None without one."""
        template = self._template(group)
        for entry in self._by_files.get((template.query, template.files), ()):
            # Outside of the dates any entry has the counts, whichever dates it was made for.
            applies = group.outside or entry.window == template.window
            if applies and not (self._timed and entry.spans is None):
                return entry
        return None

    @cached_property
    def _by_files(self) -> dict[tuple[str, tuple[FileStamp, ...]], list[CacheEntry]]:
        found: dict[tuple[str, tuple[FileStamp, ...]], list[CacheEntry]] = {}
        for entry in self._entries:
            found.setdefault((entry.query, entry.files), []).append(entry)
        return found

    def _entered(
        self,
        groups: Sequence[FileGroup],
        known: Sequence[CacheEntry | None],
        packed: set[str],
    ) -> list[CacheEntry]:
        """Return a whole entry of each group: of those without one, the records are read."""
        return [
            entry
            if entry is not None and self._is_whole(group, entry, packed)
            else self._filled(group)
            for group, entry in zip(groups, known, strict=True)
        ]

    def _is_whole(self, group: FileGroup, entry: CacheEntry, packed: set[str]) -> bool:
        """Return whether the needed files of an entry are unchanged."""
        return group.outside or entry.digest in packed or self._store.is_intact(entry)

    @cached_property
    def _sums(self) -> CachedSums:
        return CachedSums(
            self._session, self._store, self._query_hash, self._grouping, self._n_bins
        )

    @property
    def _timed(self) -> bool:
        """Whether the time span of files matters."""
        return (
            aggregation.drops_repeats(self._request) or self._request.rules.select.dates is not None
        )

    def _template(self, group: FileGroup) -> CacheEntry:
        dates = self._request.rules.select.dates
        window = "" if dates is None or group.inside or group.outside else "..".join(dates)
        paths = sorted(group.paths)
        files = tuple(self._stamps[path] for path in paths)
        spans = tuple(self._spans[path] for path in paths) if self._timed else None
        return CacheEntry(self._query_hash, window, self._maker, files, spans, {}, 0)

    def _filled(self, group: FileGroup) -> CacheEntry:
        """Read the records of a group and return its new entry."""
        template = self._template(group)
        # Files are in the order of their names, which is mostly that of time.
        place = self._source.paths.index(group.paths[0])
        with part_of_work(READING, place, len(self._source.paths)):
            counts = self._scanned(group.paths, self._checked if template.window else None)
        for path in group.paths:
            # After the scan: a file that is written meanwhile may have been read in half.
            if self._stamp(path) != self._stamps[path]:
                raise InputError(
                    f"source: the file {Path(path).name!r} changed while it was read; run again "
                    "once it is written."
                )
        entry = replace(template, reasons=counts.left_out, repeats=counts.repeats)
        n_kept = counts.left_out.get(0, 0)
        if n_kept * self._request.rules.scale.span_quanta >= LARGEST_SUM:
            return entry  # sums as large are refused, or not needed
        return self._store.put(entry, partial(self._write, counts.pairs) if n_kept else None)

    def _scanned(self, paths: Sequence[str], records: ValidatedRecords | None) -> PairCounts:
        """Read all records of some files and return their pairs and counts."""
        for path in paths:
            check_compressed(path, paths)
        # Files with an entry are never decoded, so that a day's snapshots cost nothing later.
        self._relation.load_files(paths)
        self._show_records(paths)
        records = self._undated if records is None else records
        counts = count_records(self._session, records, self._grouping, self._request)
        malformed = self._relation.skipped(self._session, paths)
        left_out = counts.left_out | {UNPARSABLE: counts.left_out.get(UNPARSABLE, 0) + malformed}
        return replace(counts, left_out=left_out)

    def _write(self, pairs: PairStore, path: str) -> None:
        """Write the pairs of kept records; sums have the smallest integer type of Parquet."""
        names = [
            *self._grouping.all,
            "n",
            f"CAST({aggregation.TOTAL} AS BIGINT) AS {aggregation.TOTAL}",
        ]
        if self._squares:
            names.append(f"CAST({aggregation.SQUARES} AS DECIMAL(38, 0)) AS {aggregation.SQUARES}")
        if self._n_bins:
            # One type however pairs were counted: numbers of several tables are compared.
            names.append(f"CAST({aggregation.FINE_BIN} AS SMALLINT) AS {aggregation.FINE_BIN}")
        # No temporary file of the engine's: its name would be neither locked nor private.
        target = f"TO {literal(path)} (FORMAT parquet, COMPRESSION zstd, USE_TMP_FILE false)"
        columns = ", ".join(names)
        pairs.write(columns, target, by_bin=bool(self._n_bins))

    def _merged(
        self, used: Sequence[CacheEntry], left_out: Mapping[int, int]
    ) -> PackedPairs | None:
        """Return the sum of the entries' tables of pairs; None without any, or if it is large."""
        entries = [entry for entry in used if entry.table]
        if not entries:
            return None
        with _refuse_changes():
            return self._sums.added_up(entries, left_out)

    def _group(self, tables: Sequence[str]) -> None:
        """Create the table of pairs as the sum of cached tables, by the engine."""
        if not tables:
            return
        keys, squares = tuple(self._grouping.all), self._squares
        listed = ", ".join(map(literal, tables))
        rows = f"read_parquet([{listed}], hive_partitioning=false)"
        if not self._n_bins:
            aggregation.create_sums(self._session, aggregation.PAIRS, keys, rows, squares=squares)
            return
        binned = (*keys, aggregation.FINE_BIN)
        aggregation.create_sums(self._session, aggregation.PAIR_BINS, binned, rows, squares=squares)
        aggregation.add_up_bins(self._session, self._grouping, squares=squares)

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
        raise StorageError(
            "the cache folder was changed by somebody else while it was read; run again."
        )


def group_overlapping(spans: Mapping[str, TimeSpan]) -> list[list[str]]:
    """Group files with overlapping time spans, directly or through others; spans are closed.

    Examples
    --------
    >>> from hexveil.records.sources.cache import TimeSpan
    >>> spans = {"a": TimeSpan((0, 5)), "b": TimeSpan((6, 8)), "c": TimeSpan((8, 9))}
    >>> group_overlapping(spans | {"d": TimeSpan()})
    [['d'], ['a'], ['b', 'c']]
    """
    timed = [(*span.instants, path) for path, span in spans.items() if span.instants is not None]
    groups = [[path] for path, span in spans.items() if span.instants is None]
    # Usable instants begin at 0.
    reached = -1
    for start, end, path in sorted(timed):
        if start <= reached:
            groups[-1].append(path)
        else:
            groups.append([path])
        reached = max(reached, end)
    return groups


def _date_sides(spans: Sequence[tuple[int, int]], days: tuple[int, int]) -> tuple[bool, bool]:
    """Return whether spans of local seconds all lie within the days, and whether all outside."""
    start, end = days[0] * DAY, days[1] * DAY + DAY - 1
    # Also without a span: records without a usable time are rejected with dates and without.
    inside = all(start <= early and late <= end for early, late in spans)
    outside = bool(spans) and all(late < start or early > end for early, late in spans)
    return inside, outside


def _left_out(group: FileGroup, entry: CacheEntry) -> Mapping[int, int]:
    """Return per reason how many records of a group it covers.

    The rule of dates comes after all others but the box's: outside of the dates, it takes what
    would be kept, and what the box would leave out.
    """
    if not group.outside:
        return entry.reasons
    earlier = {reason: n for reason, n in entry.reasons.items() if reason not in (0, BOX)}
    return earlier | {DATES: sum(entry.reasons.get(reason, 0) for reason in (0, DATES, BOX))}


def _without_dates(request: ReadRequest) -> ReadRequest:
    select = replace(request.rules.select, dates=None)
    return replace(request, rules=replace(request.rules, select=select))
