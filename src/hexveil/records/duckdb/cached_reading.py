"""PRIVATE. Counts and pairs of many files from a cache: only files that are new are read.

What is cached of a file is its table of pairs, before cells are chosen: tables of several files
are added up, and everything goes on as if all had been read at once. Two rules look beyond a file:

- Repeats: records of one user and time can be in two files. Such files hold an instant that is
  between the first and the last of both; files that meet so, directly or through others, are read
  together and cached as one. All others cannot share a record.
- Dates: a file whose records all lie within the dates is as without them; of one whose records
  all lie outside, only counts are needed, and these follow from any entry of it. What lies across
  an end of the dates is cached for these dates alone.

An entry is found by the hash of all that shapes its table but its files: of the SQL that checks
records, which follows from the types of columns and from the request. Files whose columns differ
(only a list of files may) are read together too, since how a column is read depends on all of them.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial

from hexveil.base.errors import InputError, StorageError
from hexveil.base.optional_packages import installed_version
from hexveil.base.work_share import READING, part_of_work
from hexveil.model.cells import DAY
from hexveil.records.duckdb import aggregation
from hexveil.records.duckdb.aggregation import PairStore
from hexveil.records.duckdb.counting import CountResult, PairCounts, count_records
from hexveil.records.duckdb.expressions import file_list, literal
from hexveil.records.duckdb.relation import RECORDS, Relation, used_names
from hexveil.records.duckdb.session import Session
from hexveil.records.duckdb.times import END_OF_TIMES
from hexveil.records.duckdb.validation import BOX, DATES, ValidatedRecords, validate_records
from hexveil.records.feasible_sums import LARGEST_SUM, squares_fit
from hexveil.records.read_request import ReadRequest
from hexveil.records.sources import cache as entries
from hexveil.records.sources.cache import CacheEntry, FileStamp, TimeSpan
from hexveil.records.sources.source_files import Files
from hexveil.records.units import CANONICAL_IDS

_MADE_BY = ("hexveil", "duckdb", "h3ronpy")


def maker() -> str:
    """Return the versions of the software that makes tables."""
    # Another engine or H3 may parse a text or place a point differently: its sums are not mixed.
    return ", ".join(f"{name} {installed_version(name)}" for name in _MADE_BY)


@dataclass(frozen=True)
class CacheQuery:
    """All that shapes the table of an entry but its files; it names no file.

    Attributes
    ----------
    request : ReadRequest
    undated, checked : ValidatedRecords
        The records in the view `RECORDS` by all rules but that of dates, and by all.
    keys : GroupKeys
        Of pairs.
    hash : str
        Of all that shapes a table, but for dates. Two readings with one hash make the same table of
        the same files.
    """

    request: ReadRequest
    undated: ValidatedRecords
    checked: ValidatedRecords
    keys: aggregation.GroupKeys
    hash: str

    @classmethod
    def of(
        cls, session: Session, relation: Relation, request: ReadRequest, kind: str
    ) -> CacheQuery:
        """Return the query of a reading of files of a kind, given a view with their columns."""
        viewed, rules = replace(relation, query=f"SELECT * FROM {RECORDS}"), request.rules
        undated = replace(request, rules=replace(rules, select=replace(rules.select, dates=None)))
        records = validate_records(session, viewed, undated)
        keys = aggregation.group_keys(session, rules.cells, rules.privacy_unit, records.places)
        shape = [
            entries.FORMAT,
            maker(),
            CANONICAL_IDS,
            kind,
            request.format.describe(),
            records.clocked,
            records.query,
            asdict(keys),
            request.repeats_rule,
            squares_fit(1, rules.scale),
            *([] if rules.bins is None else [rules.bins.identity()]),
        ]
        checked = validate_records(session, viewed, request)
        return cls(request, records, checked, keys, entries.hash_terms(shape))

    @property
    def sums(self) -> list[str]:
        """The columns of sums that tables have."""
        squares = squares_fit(1, self.request.rules.scale)
        return [aggregation.TOTAL, *[aggregation.SQUARES] * squares]

    @property
    def timed(self) -> bool:
        """Whether the time span of files matters."""
        return self.request.drops_repeats or self.request.rules.select.dates is not None

    def span(self, session: Session) -> TimeSpan:
        """Return the first and last usable instant, and local second, of the viewed records."""
        local = "min(local_s), max(local_s)" if self.undated.local else "NULL, NULL"
        row = session.rows(
            f"SELECT min(time_us), max(time_us), {local} FROM ({self.undated.clocked}) "
            f"WHERE time_us BETWEEN 0 AND {END_OF_TIMES * 10**6 - 1}"
        )[0]
        ends = [int(str(end)) for end in row if end is not None]
        instants = (ends[0], ends[1]) if ends else None
        return TimeSpan(instants, (ends[2], ends[3]) if ends[2:] else None)

    def write(self, pairs: PairStore, path: str) -> None:
        """Write the pairs of kept records; sums have the smallest integer type of Parquet."""
        binned = self.request.rules.bins is not None
        # Where a sum exceeds 64 bits, no sums of squares are used.
        sums = [f"coalesce(TRY_CAST({name} AS BIGINT), 0) AS {name}" for name in self.sums]
        # One type however pairs were counted: numbers of several tables are compared.
        fine_bin = f"CAST({aggregation.FINE_BIN} AS SMALLINT) AS {aggregation.FINE_BIN}"
        # No temporary file of the engine's: its name would be neither locked nor private.
        target = f"TO {literal(path)} (FORMAT parquet, COMPRESSION zstd, USE_TMP_FILE false)"
        columns = ", ".join([*pairs.keys.all, "n", *sums, *[fine_bin] * binned])
        pairs.write(columns, target, by_bin=binned)


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
    inside: bool
    outside: bool


def left_out_of(group: FileGroup, entry: CacheEntry) -> Mapping[int, int]:
    """Return per reason how many records of a group it covers.

    The rule of dates comes after all others but the box's: outside of the dates, it takes what
    would be kept, and what the box would leave out.
    """
    if not group.outside:
        return entry.reasons
    earlier = {reason: n for reason, n in entry.reasons.items() if reason not in (0, BOX)}
    return earlier | {DATES: sum(entry.reasons.get(reason, 0) for reason in (0, DATES, BOX))}


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


class CachedReading:
    """PRIVATE. One reading of files: those with a cache entry are not read again.

    Parameters
    ----------
    session : Session
    source : Files
    relation : Relation
    request : ReadRequest
        With a cache.
    """

    def __init__(
        self, session: Session, source: Files, relation: Relation, request: ReadRequest
    ) -> None:
        assert request.cache is not None  # noqa: S101  else all records are counted
        self._session, self._source, self._relation = session, source, relation
        self._versions = request.cache.versions
        self._stamps = {path: self._stamp(path) for path in source.paths}
        self._store = entries.CacheFolder.open(request.cache.folder)
        self._entries = self._store.entries()
        self._show(source.paths)
        self._query = CacheQuery.of(session, relation, request, source.kind)

    def count(self, *, is_private: bool = False) -> CountResult:
        """Count all records, from the cache where it has an entry; create the table of pairs.

        A file that has grown under its declared version is refused; where presence is private it is
        read again, for a refusal would tell that somebody's records were added or removed.
        """
        if not is_private:
            # Before any record is read: a grown file under an old version would be published as the
            # old one.
            entries.refuse_changed_sizes(self._stamps, self._entries)
        entry_of = self._entered(self._groups())
        left_out: Counter[int] = Counter()
        for group, entry in entry_of.items():
            left_out.update(left_out_of(group, entry))
        # Files outside of the dates give counts of rejects, and no pairs.
        used = {group: entry for group, entry in entry_of.items() if not group.outside}
        # Of used files alone: the release of one day keeps its identity when files of others are
        # added.
        numbers = (self._versions.number(path) for group in used for path in group.paths)
        request = replace(self._query.request, version=self._versions.describe(numbers))
        pairs = self._added_up(used.values(), left_out)
        self._show(self._source.paths)
        records = self._query.undated if request.rules.select.dates is None else self._query.checked
        repeats = sum(entry.repeats for entry in used.values())
        return CountResult(request, records, PairCounts(pairs, dict(left_out), repeats))

    def _stamp(self, path: str) -> FileStamp:
        return entries.stamp_file(path, self._versions.declared[self._versions.number(path)][1])

    def _show(self, paths: Sequence[str]) -> None:
        """Point the queries at the records of some files."""
        select = self._relation.select_files
        query = self._relation.query if select is None else select(paths)
        self._session.run(f"CREATE OR REPLACE TEMP VIEW {RECORDS} AS {query}")

    def _scanned(self, paths: Sequence[str], *, dated: bool) -> PairCounts:
        """Read all records of some files and return their pairs and counts."""
        records = self._query.checked if dated else self._query.undated
        self._relation.check_files(paths)
        self._show(paths)
        counts = count_records(self._session, records, self._query.keys, self._query.request)
        return counts.with_malformed(self._relation.skipped(paths))

    def _groups(self) -> list[FileGroup]:
        """Return the files, in groups that can share no repeat, and where the dates leave each."""
        grouped = [[path] for path in self._stamps]
        if self._has_mixed_columns():
            grouped = [list(self._stamps)]
        elif self._query.request.drops_repeats:
            grouped = group_overlapping(self._spans)
        return [FileGroup(tuple(paths), *self._date_sides(paths)) for paths in grouped]

    def _has_mixed_columns(self) -> bool:
        """Return whether the files have different columns, or one is listed twice."""
        paths, relation = self._source.paths, self._relation
        # A file listed twice has each record twice, which only reading both together can tell.
        if len({stamp.name for stamp in self._stamps.values()}) < len(paths):
            return True
        # Documents have no columns.
        if len(paths) == 1 or self._source.kind not in ("parquet", "csv"):
            return False
        if relation.text is not None:
            used = frozenset(relation.text.columns)
            return len({used.intersection(f.header.fields) for f in relation.text.files}) > 1
        if relation.one_schema or relation.select_files is None:
            return False
        columns = [self._session.types(relation.select_files([path])) for path in paths]
        kinds = [
            {name: types[name] for name in used_names(types, relation.configured)}
            for types in columns
        ]
        return any(types != kinds[0] for types in kinds)

    def _date_sides(self, paths: Sequence[str]) -> tuple[bool, bool]:
        """Return whether records of files all lie within the dates, and whether all outside."""
        days = self._query.request.rules.select.days
        if days is None:
            return True, False
        start, end = days[0] * DAY, days[1] * DAY + DAY - 1
        spans = [span for path in paths if (span := self._spans[path].local) is not None]
        # Also without a span: records without a usable time are rejected with dates and without.
        inside = all(start <= early and late <= end for early, late in spans)
        outside = bool(spans) and all(late < start or early > end for early, late in spans)
        return inside, outside

    @cached_property
    def _spans(self) -> dict[str, TimeSpan]:
        """First and last time of each file, cached or measured now."""
        spans: dict[FileStamp, TimeSpan] = {}
        for entry in self._entries:
            if entry.query == self._query.hash and entry.spans is not None:
                spans.update(zip(entry.files, entry.spans, strict=True))
        for path, stamp in self._stamps.items():
            if stamp not in spans:
                self._relation.check_files([path])
                self._show([path])
                spans[stamp] = self._query.span(self._session_of(path))
        # In the order of the files, whichever were measured now.
        return {path: spans[stamp] for path, stamp in self._stamps.items()}

    def _session_of(self, path: str) -> Session:  # noqa: ARG002  of Spark a file has its own
        """Return the session that asks the records of one file."""
        return self._session

    def _template(self, group: FileGroup) -> CacheEntry:
        """Return the entry of a group without its counts and table."""
        dates = self._query.request.rules.select.dates
        window = "" if dates is None or group.inside or group.outside else "..".join(dates)
        paths = sorted(group.paths)
        files = tuple(self._stamps[path] for path in paths)
        spans = tuple(self._spans[path] for path in paths) if self._query.timed else None
        return CacheEntry(self._query.hash, window, maker(), files, spans, {}, 0)

    def _entered(self, groups: Sequence[FileGroup]) -> dict[FileGroup, CacheEntry]:
        """Return a whole entry of each group: of those without one, the records are read."""
        templates = {group: self._template(group) for group in groups}
        known = {group: self._known(group, template) for group, template in templates.items()}
        entry_of = {
            group: entry or self._new_entry(templates[group], group.paths)
            for group, entry in known.items()
        }
        if None in known.values():
            self._store.clean(entry_of.values())
        return entry_of

    def _known(self, group: FileGroup, template: CacheEntry) -> CacheEntry | None:
        """Return the whole entry of a group that the cache has; None without one."""
        for entry in self._entries:
            # Outside of the dates any entry has the counts, whichever dates it was made for, and
            # its table is not needed.
            if (
                (entry.query, entry.files) == (template.query, template.files)
                and (group.outside or entry.window == template.window)
                and (entry.spans is not None or template.spans is None)
            ):
                return entry if group.outside or self._store.is_intact(entry) else None
        return None

    def _new_entry(self, template: CacheEntry, paths: Sequence[str]) -> CacheEntry:
        """Read the records of an entry's files and store it, with counts and a table."""
        # Files are in the order of their names, which is mostly that of time.
        place = self._source.paths.index(paths[0])
        with part_of_work(READING, place, len(self._source.paths)):
            counts = self._scanned(paths, dated=bool(template.window))
        # After the scan: a file that is written meanwhile may have been read in half.
        now = {path: self._stamp(path) for path in paths}
        entries.refuse_changed_while_read(self._stamps, now)
        entry = replace(template, reasons=counts.left_out, repeats=counts.repeats)
        n_kept = entry.reasons.get(0, 0)
        # Larger sums are refused, or not needed.
        if n_kept * self._query.request.rules.scale.span_quanta >= LARGEST_SUM:
            return entry
        return self._store.put(entry, partial(self._query.write, counts.pairs) if n_kept else None)

    def _added_up(self, used: Iterable[CacheEntry], left_out: Mapping[int, int]) -> PairStore:
        """Return the pairs of all records as the sum of cached tables."""
        query = self._query
        tables = [self._store.table(entry) for entry in used if entry.table]
        if not tables:
            return PairStore(self._session, query.keys, left_out)
        rows = f"read_parquet({file_list(tables)}, hive_partitioning=false)"
        by_bin = query.request.rules.bins is not None
        with contextlib.suppress(InputError):
            return aggregation.number_pairs(
                self._session, rows, query.keys, query.sums, left_out, by_bin=by_bin
            )
        # A table is gone that was whole: another process, or its owner, has removed one since.
        raise StorageError(
            "the cache folder was changed by somebody else while it was read; run again."
        )
