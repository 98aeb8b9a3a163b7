"""The rules that a record passes before it is counted, as one query; rejects have a public reason.

Order (docs/reference/python.md): records that are malformed, or without a usable value, user, time
or place (records with an inexact float as id are counted apart, and refused); then drop_values,
hours, dates and box. The value is clamped as a double, rounded to the quantum half away from zero,
and clamped again in integers. Nothing in here can fail on a value: see
`hexveil.model.public_metadata.ValueLattice`.

Columns of the validating query: `reject_reason` (0 where the record is kept), `user_id`, `time_us`
(the instant in microseconds), `local_s` (the local wall clock in seconds), `place0, place1, ...`
(latitude and longitude, or labels), `quanta` (the value in quanta above the lower bound).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hexveil.model.cells import ALL_RECORDS, DAY, Cells, OneCell
from hexveil.model.public_metadata import ValueLattice
from hexveil.records.duckdb import expressions, times
from hexveil.records.duckdb.formats.delimited_text import TextSource
from hexveil.records.duckdb.formats.json_documents import DOCUMENT
from hexveil.records.duckdb.relation import Relation
from hexveil.records.duckdb.session import Session
from hexveil.records.read_request import DAY_AND_TIME, ReadRequest
from hexveil.records.sources.columns import ColumnRef

REASONS = (
    "kept",
    "unparsable",
    "without a usable value",
    "without a user",
    "with an id that is no exact whole number",
    "without a usable time",
    "without a usable place",
    "values that mean no reading",
    "outside the hours",
    "outside the dates",
    "outside the box",
)
"""Reject reasons, in the order of the rules; the index is the reason's number."""
UNPARSABLE, NO_VALUE, NO_USER, INEXACT_USER, NO_TIME, NO_PLACE = range(1, 7)
DROPPED, HOURS, DATES, BOX = range(7, 11)
UNUSABLE = (UNPARSABLE, NO_VALUE, NO_USER, NO_TIME, NO_PLACE)
"""Reasons that may cover some records; a single one with an inexact id is refused."""
PARSED = "parsed_records"
"""Temporary table: records that were text, parsed once."""
SCANNED = "scanned_records"
"""Temporary table: rows of text or documents, scanned once for several value columns."""


@dataclass(frozen=True)
class ValidatedRecords:
    """The validated records of one relation.

    Attributes
    ----------
    query : str
        Selects the columns that the head of this module lists.
    raw : str
        The same records before any check, for finding out what is wrong with them; without
        `local_s`, the expression of which takes longer to plan than few records to read.
    places : tuple of str
        Names of the columns of a place.
    timed, local : bool
        Whether `time_us`, and whether `local_s`, is there.
    clocked : str
        The same as `raw`, with `local_s` where it is there.
    naive : bool
        Whether a column `naive` is there: whether a time has no offset. Only under two clocks.
    labelled : bool
        Whether places are labels.
    columnar : bool
        Whether one column can be scanned without all others, so that looking twice costs little.
    text : TextSource or None
        The files of delimited text, which know why lines are malformed.
    """

    query: str
    raw: str
    places: tuple[str, ...]
    timed: bool
    local: bool
    labelled: bool = False
    columnar: bool = False
    naive: bool = False
    clocked: str = ""
    text: TextSource | None = None


def validate_records(
    session: Session, relation: Relation, request: ReadRequest, *, parse: bool = False
) -> ValidatedRecords:
    """Return the query that validates every record of a relation.

    Parameters
    ----------
    session : Session
    relation : Relation
    request : ReadRequest
    parse : bool
        Whether records that are text are parsed now, into a temporary table, since they will be
        looked at more than once.

    Raises
    ------
    ColumnError, InputError
        If a configured column is missing or of a type that cannot be used.
    """
    raw = _RawColumns(session, relation, request)
    columnar = not (relation.documents or relation.text)
    if parse and not columnar:
        session.run(f"CREATE OR REPLACE TEMP TABLE {PARSED} AS {raw.parsed}")
        raw.parsed, columnar = f"SELECT * FROM {PARSED}", True
    timed = request.columns.time is not None
    local = timed and request.rules.clock is not None
    naive = timed and request.rules.two_clocks
    places = ("lat", "lon") if isinstance(request.rules.cells, Cells) else raw.labels
    query = (
        f"SELECT {_reject_reason(request, raw)} AS reject_reason, user_id, "
        f"{'time_us, ' if timed else ''}{'local_s, ' if local else ''}"
        + ", ".join(f"{name} AS place{i}" for i, name in enumerate(places))
        + f", {quanta('value', request.rules.scale)} AS quanta{', naive' if naive else ''} "
        f"FROM ({raw.query})"
    )
    names = tuple(f"place{i}" for i in range(len(places)))
    return ValidatedRecords(
        query, raw.parsed, names, timed, local, bool(raw.labels), columnar, naive,
        raw.query, relation.text,
    )  # fmt: skip


def scan_once(session: Session, relation: Relation, requests: Sequence[ReadRequest]) -> Relation:
    """Return the relation with rows of text or documents in a temporary table, scanned now.

    Only the columns that some request needs are there.

    Raises
    ------
    ColumnError, InputError
        As `validate_records`.
    """
    relation.check_files(())
    if not (relation.documents or relation.text):
        return relation
    columns = "*"
    if not relation.documents:
        used = [ref for one in requests for ref in _RawColumns(session, relation, one).used]
        columns = ", ".join(map(expressions.identifier, dict.fromkeys(ref.column for ref in used)))
    session.run(
        f"CREATE OR REPLACE TEMP TABLE {SCANNED} AS SELECT {columns} FROM ({relation.query})"
    )
    return replace(relation, query=f"SELECT * FROM {SCANNED}")


def quanta(value: str, scale: ValueLattice) -> str:
    """Return a value as whole quanta above the lower bound: clamped, rounded, clamped again."""
    low, high, top, bottom = (
        expressions.number_literal(float(term))
        for term in (scale.lower, scale.upper, scale.quantum.denominator, scale.quantum.numerator)
    )
    # Four bytes where they suffice: there is one for each record.
    size = "INTEGER" if scale.span_quanta < 2**31 else "BIGINT"
    # Clamped before it is scaled, so that the product is finite and the cast never fails: an error
    # for some values would reveal them. Clamped again after rounding, as a double may round past a
    # bound.
    clamped = f"greatest(least({value}, {high}), {low})"
    whole_number = f"CAST(round({clamped} * {top} / {bottom}) AS BIGINT)"
    above = f"{whole_number} - {int(scale.lower / scale.quantum)}"
    return f"CAST(greatest(least({above}, {scale.span_quanta}), 0) AS {size})"


class _RawColumns:
    """The columns of a record as read: malformed, value, user_id, time_us, lat, raw_label0, ..."""

    def __init__(self, session: Session, relation: Relation, request: ReadRequest) -> None:
        self._document = expressions.JsonTexts(DOCUMENT) if relation.documents else None
        self._session, self._relation, self._request = session, relation, request
        self._format = request.format
        self.labels: tuple[str, ...] = ()
        self.used: list[ColumnRef] = []
        columns = {**self._identity(), **self._place(), **self._time(), **self._labels()}
        select_list = ", ".join(f"{sql} AS {name}" for name, sql in columns.items())
        records = relation.query if self._document is None else self._document.texts(relation.query)
        self.parsed = self._instants(f"SELECT {select_list} FROM ({records})")

    def _find(self, role: str, name: str) -> ColumnRef:
        ref = self._relation.find(self._session, role, name)
        self.used.append(ref)
        return ref

    def _identity(self) -> dict[str, str]:
        columns = self._request.columns
        value = self._find("value", columns.value)
        user = self._relation.find_user(self._session, columns.user)
        self.used.append(user)
        expression = expressions.canonical_id(user, self._document)
        self.inexact_users = expression.inexact is not None
        return {
            # Malformed lines of CSV never become rows; they are counted by `Relation.skipped`.
            "malformed": f"json_type({DOCUMENT}) IS DISTINCT FROM 'OBJECT'"
            if self._document
            else "false",
            "value": expressions.declared_number(value, "value", self._document, self._format),
            "user_id": expression.text,
            **({} if expression.inexact is None else {"inexact_user": expression.inexact}),
        }

    def _place(self) -> dict[str, str]:
        columns = self._request.columns
        if columns.location is not None:
            lat, lon = self._relation.find_location(self._session, columns.location)
            self.used += [lat, lon]
        elif columns.lat is not None and columns.lon is not None:
            lat = self._find("lat", columns.lat)
            lon = self._find("lon", columns.lon)
        else:
            return {}
        document = self._document
        return {
            role: expressions.declared_number(ref, role, document, self._format)
            for role, ref in (("lat", lat), ("lon", lon))
        }

    def _time(self) -> dict[str, str]:
        names = self._request.columns.times
        if not names:
            return {}
        naive, document = self._request.rules.naive, self._document
        if len(names) == 1:
            time = self._find("time", names[0])
            self._instant = times.declared_instant(time, naive, document, self._format)
        else:
            day, clock = map(self._find, DAY_AND_TIME, names)
            written = times.day_and_time(day, clock, document)
            self._instant = times.instant_of_text(written, naive, self._format)
        return {"written": self._instant.written}

    def _labels(self) -> dict[str, str]:
        cells = self._request.rules.cells
        if isinstance(cells, Cells):
            return {}
        self.labels = tuple(f"raw_label{i}" for i in range(len(cells.columns)))
        if isinstance(cells, OneCell):
            return {self.labels[0]: f"'{ALL_RECORDS}'"}
        return {
            label: expressions.name_text(self._find("label", name), "label", self._document)
            for label, name in zip(self.labels, cells.columns, strict=True)
        }

    def _instants(self, query: str) -> str:
        """Replace what is written by the instant, in separate steps, each computed once."""
        naive = self._request.rules.naive
        if self._request.columns.time is None:
            return query
        # An offset in the text goes before the declared time zone.
        wall = f"CASE WHEN utc IS NULL THEN {self._instant.wall} END AS wall"
        clocks = f"SELECT *, {wall} FROM (SELECT *, {self._instant.utc} AS utc FROM ({query}))"
        known = naive is None or self._instant.wall == times.Instant.wall
        instant = "utc" if known else f"coalesce(utc, {times.from_wall('wall', str(naive))})"
        two = ", utc IS NULL AND wall IS NOT NULL AS naive" * self._request.rules.two_clocks
        return f"SELECT * EXCLUDE (written, utc, wall), {instant} AS time_us{two} FROM ({clocks})"

    @property
    def query(self) -> str:
        """All columns: the local wall clock is a step of its own, too."""
        clock = self._request.rules.clock
        if self._request.columns.time is None or clock is None:
            return self.parsed
        return f"SELECT *, {times.local_second('time_us', clock)} AS local_s FROM ({self.parsed})"


def _reject_reason(request: ReadRequest, raw: _RawColumns) -> str:
    """Return the number of the first rule that rejects a record, 0 if none does."""
    tests = [
        (UNPARSABLE, "malformed"),
        # Whether a value is usable is public by the promise; how large it is decides nothing here.
        (NO_VALUE, "value IS NULL OR NOT isfinite(value)"),
        *[(INEXACT_USER, "inexact_user")] * raw.inexact_users,
        (NO_USER, "user_id IS NULL"),
    ]
    if request.columns.time is not None:
        # IS NOT TRUE, since NULL BETWEEN is null, which a CASE takes for false: the record would
        # stay.
        usable = f"time_us BETWEEN 0 AND {times.END_OF_TIMES * 10**6 - 1}"
        tests.append((NO_TIME, f"({usable}) IS NOT TRUE"))
    tests += [(NO_PLACE, f"{label} IS NULL") for label in raw.labels]
    if not raw.labels or request.rules.select.box is not None:
        # The engine leaves out ranges that a file's statistics promise, and those know of no NaN.
        inside = "lat BETWEEN -90 AND 90 AND lon BETWEEN -180 AND 180"
        tests.append((NO_PLACE, f"(isfinite(lat) AND isfinite(lon) AND {inside}) IS NOT TRUE"))
    tests += _selection_tests(request)
    # The first rule that fires counts, so that each record has one reason.
    cases = " ".join(f"WHEN {test} THEN {reason}" for reason, test in tests)
    return f"CAST(CASE {cases} ELSE 0 END AS TINYINT)"


def _selection_tests(request: ReadRequest) -> list[tuple[int, str]]:
    select, tests = request.rules.select, []
    if select.drop_values:
        dropped = ", ".join(expressions.number_literal(float(code)) for code in select.drop_values)
        # The one rule that looks at a value: asked for by name, and stated in what is published.
        tests.append((DROPPED, f"value IN ({dropped})"))
    if select.hours is not None:
        hours = ", ".join(map(str, select.hours))
        # Shifted by a day: local seconds of 1970-01-01 are negative west of Greenwich.
        tests.append((HOURS, f"((local_s + {DAY}) // 3600) % 24 NOT IN ({hours})"))
    if select.days is not None:
        start, end = select.days
        tests.append((DATES, f"local_s NOT BETWEEN {start * DAY} AND {end * DAY + DAY - 1}"))
    if select.box is not None:
        west, south, east, north = (expressions.number_literal(side) for side in select.box)
        tests.append(
            (BOX, f"NOT (lon BETWEEN {west} AND {east} AND lat BETWEEN {south} AND {north})")
        )
    return tests
