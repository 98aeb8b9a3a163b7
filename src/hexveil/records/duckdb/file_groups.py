"""Groups of files that are cached as one, and the entries that hold for them.

Two rules look beyond a file:

- Repeats: records of one user and time can be in two files. Such files hold an instant that is
  between the first and the last of both; files that meet so, directly or through others, are read
  together and cached as one. All others cannot share a record.
- Dates: a file whose records all lie within the dates is as without them; of one whose records
  all lie outside, only counts are needed, and these follow from any entry of it. What lies across
  an end of the dates is cached for these dates alone.

An entry is found by the hash of all that shapes its table but its files: of the SQL that checks
records, which follows from the types of columns and from the request. Tables are made here, and in
tasks of Spark, by the same function (`CacheQuery`).
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, cached_property
from typing import NamedTuple

from hexveil.model.cells import DAY
from hexveil.records.duckdb import aggregation
from hexveil.records.duckdb.aggregation import PairStore
from hexveil.records.duckdb.counting import PairCounts, count_records
from hexveil.records.duckdb.expressions import literal
from hexveil.records.duckdb.relation import Relation
from hexveil.records.duckdb.session import Session
from hexveil.records.duckdb.validation import BOX, DATES, ValidatedRecords, validate_records
from hexveil.records.feasible_sums import LARGEST_SUM, squares_fit
from hexveil.records.read_request import ReadRequest
from hexveil.records.sources.cache import (
    Cache,
    CacheEntry,
    CacheFolder,
    FileStamp,
    TimeSpan,
    query_hash,
    refuse_changed_sizes,
)
from hexveil.records.sources.versions import Versions
from hexveil.records.units import CANONICAL_IDS
from hexveil.records.utc_offsets import END_OF_TIMES

Fill = Callable[[CacheFolder, Sequence[tuple[CacheEntry, Sequence[str]]]], list[CacheEntry]]
"""Reads the files of entries without counts and tables, and returns the entries."""


VIEW = "some_records"
"""The records that are looked at: of one group of files, or of all."""
_MADE_BY = ("hexveil", "duckdb", "h3ronpy")


@cache
def maker() -> str:
    """Return the versions of the software that makes tables."""
    # Another engine or H3 may parse a text or place a point differently: its sums are not mixed.
    return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in _MADE_BY)


@dataclass(frozen=True)
class CacheQuery:
    """All that shapes the table of an entry but its files; it names no file.

    Attributes
    ----------
    request : ReadRequest
    undated, checked : ValidatedRecords
        The records in `VIEW` by all rules but that of dates, and by all.
    hash : str
        Of all that shapes a table, but for dates. Two readings with one hash make the same table of
        the same files.
    """

    request: ReadRequest
    undated: ValidatedRecords
    checked: ValidatedRecords
    hash: str

    @classmethod
    def of(
        cls,
        session: Session,
        relation: Relation,
        request: ReadRequest,
        kind: str,
        terms: Sequence[str] = (),
    ) -> CacheQuery:
        """Return the query of a reading, given a view with the columns of the relation.

        Parameters
        ----------
        session : Session
        relation : Relation
        request : ReadRequest
        kind : str
            Kind of the files.
        terms : sequence of str
            What else shapes the tables, where another engine reads the files.
        """
        viewed = replace(relation, query=f"SELECT * FROM {VIEW}")
        checked = validate_records(session, viewed, request)
        select = replace(request.rules.select, dates=None)
        undated = replace(request, rules=replace(request.rules, select=select))
        records = validate_records(session, viewed, undated)
        query = cls(request, records, checked, "")
        shape = [
            maker(),
            CANONICAL_IDS,
            kind,
            request.format.describe(),
            records.clocked,
            records.query,
            asdict(query.keys(session)),
            request.repeats_rule,
            query.squares,
            *([] if request.rules.bins is None else [request.rules.bins.identity()]),
            *terms,
        ]
        return replace(query, hash=query_hash(shape))

    def keys(self, session: Session) -> aggregation.GroupKeys:
        """Return the keys of pairs, for the queries of a session."""
        rules = self.request.rules
        return aggregation.group_keys(session, rules.cells, rules.privacy_unit, self.undated.places)

    @property
    def squares(self) -> bool:
        """Whether tables have sums of squares."""
        return squares_fit(1, self.request.rules.scale)

    @property
    def timed(self) -> bool:
        """Whether the time span of files matters."""
        return self.request.drops_repeats or self.request.rules.select.dates is not None

    def span(self, session: Session) -> TimeSpan:
        """Return the first and last usable instant, and local second, of the records in `VIEW`."""
        local = "min(local_s), max(local_s)" if self.undated.local else "NULL, NULL"
        row = session.rows(
            f"SELECT min(time_us), max(time_us), {local} FROM ({self.undated.clocked}) "
            f"WHERE time_us BETWEEN 0 AND {END_OF_TIMES * 10**6 - 1}"
        )[0]
        ends = [int(str(end)) for end in row if end is not None]
        instants = (ends[0], ends[1]) if ends else None
        return TimeSpan(instants, (ends[2], ends[3]) if ends[2:] else None)

    def counted(self, session: Session, *, dated: bool) -> PairCounts:
        """Return pairs and counts of the records in `VIEW`; malformed lines are no records."""
        records = self.checked if dated else self.undated
        return count_records(session, records, self.keys(session), self.request)

    def write(self, pairs: PairStore, path: str) -> None:
        """Write the pairs of kept records; sums have the smallest integer type of Parquet."""
        total, binned = aggregation.TOTAL, self.request.rules.bins is not None
        names = [*pairs.keys.all, "n", f"CAST({total} AS BIGINT) AS {total}"]
        if self.squares:
            # Where a sum exceeds 64 bits, no sums of squares are used.
            exact = f"coalesce(TRY_CAST({aggregation.SQUARES} AS BIGINT), 0)"
            names.append(f"{exact} AS {aggregation.SQUARES}")
        if binned:
            # One type however pairs were counted: numbers of several tables are compared.
            names.append(f"CAST({aggregation.FINE_BIN} AS SMALLINT) AS {aggregation.FINE_BIN}")
        # No temporary file of the engine's: its name would be neither locked nor private.
        target = f"TO {literal(path)} (FORMAT parquet, COMPRESSION zstd, USE_TMP_FILE false)"
        pairs.write(", ".join(names), target, by_bin=binned)

    def is_kept(self, counts: PairCounts) -> bool:
        """Return whether an entry is kept: larger sums are refused, or not needed."""
        return counts.left_out.get(0, 0) * self.request.rules.scale.span_quanta < LARGEST_SUM


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


class EnteredFiles(NamedTuple):
    """Used entries, paths of their tables, counts by reason, the request."""

    used: list[CacheEntry]
    tables: list[str]
    left_out: dict[int, int]
    request: ReadRequest


@dataclass(frozen=True)
class CacheState:
    """An opened cache, and the files of a source as they are now.

    Attributes
    ----------
    store : CacheFolder
    entries : sequence of CacheEntry
        Those of the folder.
    versions : Versions
    stamps : mapping of str to FileStamp
        By path, in the order of the files.
    """

    store: CacheFolder
    entries: Sequence[CacheEntry]
    versions: Versions
    stamps: Mapping[str, FileStamp]

    @classmethod
    def of(cls, cache: Cache, stamps: Mapping[str, FileStamp], *, is_private: bool) -> CacheState:
        """Open a cache; refuse a file that has grown or shrunk under its declared version.

        Parameters
        ----------
        cache : Cache
        stamps : mapping of str to FileStamp
        is_private : bool
            Whether presence is private. A file of another size is then read again: a refusal would
            tell that somebody's records were added or removed.
        """
        store = CacheFolder.open(cache.folder)
        entries = store.entries()
        if not is_private:
            # Before any record is read: a grown file under an old version would be published as the
            # old one.
            refuse_changed_sizes(stamps, entries)
        return cls(store, entries, cache.versions, stamps)


@dataclass(frozen=True)
class GroupedFiles:
    """Files of a reading, which of them go together, and which entries hold for these.

    Attributes
    ----------
    query : CacheQuery
    cache : CacheState
    mixed : bool
        Whether all files are read together: how a column is read depends on all of them, or one
        is listed twice.
    measure : function
        Returns the time spans of files by their paths.
    """

    query: CacheQuery
    cache: CacheState
    mixed: bool
    measure: Callable[[Sequence[str]], Mapping[str, TimeSpan]]

    def groups(self) -> list[FileGroup]:
        """Return the files, in groups that can share no repeat, and where the dates leave each."""
        grouped = [[path] for path in self.cache.stamps]
        if self.mixed:
            grouped = [list(self.cache.stamps)]
        elif self.query.request.drops_repeats:
            grouped = group_overlapping(self.spans)
        return [FileGroup(tuple(paths), *self._date_sides(paths)) for paths in grouped]

    def _date_sides(self, paths: Sequence[str]) -> tuple[bool, bool]:
        """Return whether records of files all lie within the dates, and whether all outside."""
        days = self.query.request.rules.select.days
        if days is None:
            return True, False
        start, end = days[0] * DAY, days[1] * DAY + DAY - 1
        spans = [span for path in paths if (span := self.spans[path].local) is not None]
        # Also without a span: records without a usable time are rejected with dates and without.
        inside = all(start <= early and late <= end for early, late in spans)
        outside = bool(spans) and all(late < start or early > end for early, late in spans)
        return inside, outside

    @cached_property
    def spans(self) -> dict[str, TimeSpan]:
        """First and last time of each file, cached or measured now."""
        cached: dict[FileStamp, TimeSpan] = {}
        for entry in self.cache.entries:
            if entry.query == self.query.hash and entry.spans is not None:
                cached.update(zip(entry.files, entry.spans, strict=True))
        # In the order of the files, whichever were measured now.
        stamps = self.cache.stamps
        measured = self.measure([path for path, now in stamps.items() if now not in cached])
        return {path: cached.get(now) or measured[path] for path, now in stamps.items()}

    def template(self, group: FileGroup) -> CacheEntry:
        """Return the entry of a group without its counts and table."""
        dates = self.query.request.rules.select.dates
        window = "" if dates is None or group.inside or group.outside else "..".join(dates)
        paths = sorted(group.paths)
        files = tuple(self.cache.stamps[path] for path in paths)
        spans = tuple(self.spans[path] for path in paths) if self.query.timed else None
        return CacheEntry(self.query.hash, window, maker(), files, spans, {}, 0)

    def entered(self, fill: Fill) -> EnteredFiles:
        """Return a whole entry of each group: of those without one, the records are read."""
        entries, groups, store = {}, self.groups(), self.cache.store
        for group in groups:
            known = self._known(group)
            # Of files outside of the dates only the counts are needed.
            if known is not None and (group.outside or store.is_intact(known)):
                entries[group] = known
        if missing := [group for group in groups if group not in entries]:
            filled = fill(store, [(self.template(group), group.paths) for group in missing])
            entries |= dict(zip(missing, filled, strict=True))
            store.clean()
        left_out: dict[int, int] = {}
        for group in groups:
            for reason, n in _left_out(group, entries[group]).items():
                left_out[reason] = left_out.get(reason, 0) + n
        # Files outside of the dates give counts of rejects, and no pairs.
        used = [group for group in groups if not group.outside]
        # Of used files alone: the release of one day keeps its identity when files of others are
        # added.
        versions = self.cache.versions
        stated = versions.describe(versions.number(path) for group in used for path in group.paths)
        request = replace(self.query.request, version=stated)
        found = [entries[group] for group in used]
        tables = [store.table(entry) for entry in found if entry.table]
        return EnteredFiles(found, tables, left_out, request)

    def _known(self, group: FileGroup) -> CacheEntry | None:
        """Return the cached entry of a group, whole or not; None without one."""
        made = self.template(group)
        for entry in self.cache.entries:
            # Outside of the dates any entry has the counts, whichever dates it was made for.
            applies = group.outside or entry.window == made.window
            is_of_group = entry.query == made.query and entry.files == made.files
            if is_of_group and applies and not (self.query.timed and entry.spans is None):
                return entry
        return None


def _left_out(group: FileGroup, entry: CacheEntry) -> Mapping[int, int]:
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
