"""Groups of files that are cached as one, and the entries that hold for them.

Two rules look beyond a file:

- Repeats: records of one user and time can be in two files. Such files hold an instant that is
  between the first and the last of both; files that meet so, directly or through others, are read
  together and cached as one. All others cannot share a record.
- Dates: a file whose records all lie within the dates is as without them; of one whose records
  all lie outside, only counts are needed, and these follow from any entry of it. What lies across
  an end of the dates is cached for these dates alone.

An entry is found by the hash of all that shapes its table but its files: of the SQL that checks
records, which follows from the types of columns and from the request.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache

from hexveil.records.duckdb import aggregation
from hexveil.records.duckdb.aggregation import PairStore
from hexveil.records.duckdb.counting import PairCounts, count_records
from hexveil.records.duckdb.expressions import literal
from hexveil.records.duckdb.relation import Relation
from hexveil.records.duckdb.session import Session
from hexveil.records.duckdb.times import END_OF_TIMES
from hexveil.records.duckdb.validation import BOX, DATES, ValidatedRecords, validate_records
from hexveil.records.feasible_sums import LARGEST_SUM, squares_fit
from hexveil.records.read_request import ReadRequest
from hexveil.records.sources.cache import CacheEntry, TimeSpan, query_hash
from hexveil.records.units import CANONICAL_IDS

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
        cls, session: Session, relation: Relation, request: ReadRequest, kind: str
    ) -> CacheQuery:
        """Return the query of a reading of files of a kind, given a view with their columns."""
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
