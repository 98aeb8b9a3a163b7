"""The columns of a source by name and declared type, for whoever has no run file yet.

Formats of public times and places, told by the first rows, which stay in the engine.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import product

from hexveil.base.errors import InputError
from hexveil.records.duckdb.expressions import literal, text
from hexveil.records.duckdb.relation import Relation
from hexveil.records.duckdb.session import Session
from hexveil.records.duckdb.source import open_source
from hexveil.records.duckdb.times import CLOCK, NAIVE_TEXT, OFFSET_TEXT, day_and_time
from hexveil.records.sources import vocabulary
from hexveil.records.sources.columns import ColumnRef, Schema, all_names, find_column, record_lists
from hexveil.records.sources.headers import first_line, has_header, has_rows, is_confirmed
from hexveil.records.sources.record_format import PLAIN, RecordFormat
from hexveil.records.sources.source_files import Files, resolve_source, safe_path
from hexveil.records.sources.vocabulary import is_envelope, is_id_name, is_place_name

_MEMORY = "500MB"


@dataclass(frozen=True)
class SourceSchema:
    """Names and types of a source's columns.

    Attributes
    ----------
    schema : mapping of str to ColumnType
    documents : bool
        Whether records are JSON documents, whose keys can be ids or values: a key is shown only
        if it is known to be none.
    constant_ids : frozenset of str
        Columns named like ids that hold one and the same text in all rows, if those are looked at.
    record_path : str or None
        Where the records of documents are, if it was not declared and its keys are known names.
    day_and_time : (str, str) or None
        Columns of dates and of times of day.
    time_formats : mapping of str to tuple of str
        By column, of a pair by that of the times of day: formats that the first times have, if
        they are not in the usual form; several where day and month can change places.
    decimal : str
        Decimal mark of the first latitudes and longitudes that are text.
    """

    schema: Schema
    documents: bool
    constant_ids: frozenset[str] = frozenset()
    record_path: str | None = None
    day_and_time: tuple[str, str] | None = None
    time_formats: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    decimal: str = "."


def inspect_schema(
    source: object,
    known_columns: Collection[str] = (),
    *,
    trusted: bool = False,
    record_format: RecordFormat = PLAIN,
    look_at_rows: bool = False,
    times: Collection[str] = (),
    places: Collection[str] = (),
) -> SourceSchema:
    """Return the columns of a source that `read` takes, without a value of its records.

    For JSON documents, the keys of the first thousand. The first line of a CSV file counts as a
    header if known columns are in it, or if it passes `headers.looks_like_header`.

    Parameters
    ----------
    source : as for `read`
    known_columns : collection of str
        Names of columns that the caller knows.
    trusted : bool
        Whether the caller declares that every first line is a header.
    record_format : RecordFormat
        Its record path and its file columns count here.
    look_at_rows : bool
        Whether times and places of the first rows may be looked at for formats, and ids for one
        that all rows have: where presence is public. Values are never looked at.
    times, places : collection of str
        Columns of times, and of latitudes and longitudes, that the caller knows.

    Raises
    ------
    InputError
        If the source cannot be read, or its first line may be a record instead of names.

    Examples
    --------
    >>> import pyarrow as pa
    >>> inspect_schema(pa.table({"bus": ["a"], "speed": [10.0]})).schema["speed"].name
    'number'
    """
    resolved = resolve_source(source)
    with Session(_MEMORY) as session:
        opened = open_source(session, resolved, known_columns, record_format)
        is_open = opened.documents and record_format.record_path is None
        lists = (path for path, _ in record_lists(opened.schema) if is_open and is_envelope(path))
        envelope_path = next(lists, None)
        if envelope_path is not None:
            inside = replace(record_format, record_path=envelope_path)
            opened = open_source(session, resolved, known_columns, inside)
        # The first line of a CSV file may be a record: no column of it is looked at before.
        if isinstance(resolved, Files) and resolved.kind == "csv" and not trusted:
            # Each file by itself: the second day's export may lack the header of the first.
            for path in resolved.paths:
                _refuse_doubtful(path, resolved.paths, known_columns, record_format)
        opened.check_files(())
        constant_ids = _constant_ids(session, opened) if look_at_rows else frozenset()
        pair, formats = guess(session, opened, times) if look_at_rows else (None, {})
        decimal = _decimal_mark(session, opened, places, known_columns) if look_at_rows else "."
    return SourceSchema(
        opened.schema, opened.documents, constant_ids, envelope_path, pair, formats, decimal
    )


def _found(
    relation: Relation, is_wanted: Callable[[str], bool]
) -> tuple[dict[str, ColumnRef], str]:
    """Return the columns of some names, and the query of the records that has these columns."""
    names = filter(is_wanted, all_names(relation.schema))
    refs = {name: ref for name in names if (ref := find_column(name, relation.schema))}
    columns = sorted({ref.column for ref in refs.values()})
    return refs, relation.query if relation.text is None else relation.text.query(columns)


def _constant_ids(session: Session, relation: Relation) -> frozenset[str]:
    """Return the columns named like ids with a single text; their ids stay in the engine."""
    found, query = _found(relation, is_id_name)
    refs = {n: ref for n, ref in found.items() if ref.kind.name not in ("struct", "list")}
    if not refs:
        return frozenset()
    texts = (text(ref, relation.document) for ref in refs.values())
    # Two rows at least: a single record is of one vehicle, whatever its columns are.
    tests = ", ".join(f"min({one}) = max({one}) AND count({one}) > 1" for one in texts)
    row = session.rows(f"SELECT {tests} FROM ({query})")[0]
    return frozenset(name for name, constant in zip(refs, row, strict=True) if constant)


def _refuse_doubtful(
    path: str, among: Sequence[str], known_columns: Collection[str], record_format: RecordFormat
) -> None:
    """Refuse a CSV file if its first line may be a record."""
    fields = first_line(path, among, record_format).fields
    if not is_confirmed(fields, known_columns) and not has_header(path, record_format):
        label = safe_path(path, among)
        if len(fields) == 1:
            raise InputError(
                f"source: the first line of {label} has a single column, so this is no table of "
                "records; export them as CSV with a line of column names, or name another file."
            )
        if not has_rows(path, record_format):
            raise InputError(
                f"source: {label} has no rows below its first line, so there is nothing to make a "
                "map of; export the records again, or name another file."
            )
        raise InputError(
            f"source: the first line of {label} may be a record, so none of it is shown "
            f"({len(fields)} columns were found); add a header, or if the line is one, say so "
            "with --trust-header, or name its columns (--user, --value, --time, --lat, --lon)."
        )


_LOOKED_AT = 1000
_LOOKED_AT_IN_DOUBT = 10**6
_DAYS = (
    *("%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y%m%d"),
    *("%d/%m/%y", "%m/%d/%y", "%d.%m.%y", "%d %b %Y", "%d-%b-%Y", "%d %B %Y", "%b %d, %Y"),
    "%Y-%m-%d",
)
_CLOCKS = (
    *(" %H:%M:%S", " %H:%M:%S.%f", " %H:%M", " %I:%M:%S %p", " %I:%M %p", "T%H:%M:%S", "T%H%M%S"),
    *(" %H%M%S", "%H%M%S", ", %H:%M:%S", " %H:%M:%S %z", " %H.%M.%S", "", "T%H%M%S%z"),
)
_MARKS = (r"[-+]?\d+,\d+", r"[-+]?\d+\.\d+")
"""Degrees with a decimal comma, and with a point."""
FORMATS = tuple(f"{day}{clock}" for day, clock in product(_DAYS, _CLOCKS))


def guess(
    session: Session, relation: Relation, times: Collection[str] = ()
) -> tuple[tuple[str, str] | None, dict[str, tuple[str, ...]]]:
    """Return columns of dates and times of day, and the formats of columns named like times."""
    refs, rows = _found(relation, lambda name: name in times or vocabulary.is_time_name(name))
    for day, clock in vocabulary.day_and_time(refs):
        with suppress(InputError):  # their types are others
            written = day_and_time(refs[day], refs[clock], relation.document)
            alone = f"coalesce({text(refs[clock], relation.document)}, '')"
            first = f"SELECT {alone} AS x FROM ({rows}) LIMIT {_LOOKED_AT}"
            test = f"bool_and(regexp_full_match(x, {literal(CLOCK)}))"
            if session.rows(f"SELECT {test} FROM ({first})")[0][0]:
                return (day, clock), _formats(session, rows, {clock: written})
    texts = {
        name: text(ref, relation.document)
        for name, ref in refs.items()
        if ref.kind.name in ("text", "json", "number") and not ref.kind.fields
    }
    return None, _formats(session, rows, texts)


def _formats(session: Session, records: str, texts: dict[str, str]) -> dict[str, tuple[str, ...]]:
    formats = {}
    for name, written in texts.items():
        times = f"SELECT trim({written}) AS x FROM ({records}) WHERE {written} IS NOT NULL LIMIT "
        usual = f"regexp_full_match(x, {literal(f'({OFFSET_TEXT})|({NAIVE_TEXT})')})"
        ((n, in_usual, largest),) = session.rows(
            f"SELECT count(*), coalesce(bool_and({usual}), true), "
            f"max(abs(TRY_CAST(x AS DOUBLE))) FROM ({times} {_LOOKED_AT})"
        )
        size = float(str(largest or 0))
        if not n or in_usual:
            continue
        by_unit = "ns" if size >= 1e16 else "us" if size >= 1e13 else ""
        patterns = _fitting(session, f"{times} {_LOOKED_AT}", FORMATS)
        # Within the first days of a month times fit both orders of day and month.
        if len(patterns) > 1:
            patterns = _fitting(session, f"{times} {_LOOKED_AT_IN_DOUBT}", patterns)
        # Numbers that have as many digits as a date are dates.
        if patterns or by_unit:
            formats[name] = patterns or (by_unit,)
    return formats


def _decimal_mark(
    session: Session, relation: Relation, places: Collection[str], known: Collection[str]
) -> str:
    """Return the decimal mark of latitudes and longitudes, which are public; never of values."""
    # A column that is known for something else may hold values.
    refs, records = _found(relation, lambda n: n in places or (n not in known and is_place_name(n)))
    texts = [text(ref, relation.document) for ref in refs.values() if ref.kind.name == "text"]
    first = f"SELECT unnest([{', '.join(texts)}]) AS x FROM ({records}) LIMIT {_LOOKED_AT}"
    marks = ", ".join(f"bool_or(regexp_full_match(trim(x), {literal(mark)}))" for mark in _MARKS)
    comma, point = session.rows(f"SELECT {marks} FROM ({first})")[0] if texts else (0, 0)
    if comma and point:
        raise InputError(
            f"source: some of the first places in {' and '.join(refs)} have a decimal comma, and "
            "some a decimal point; one mark holds for all numbers. Export the records again, or "
            "replace the commas in these columns by points (and declare the mark of the values)."
        )
    return "," if comma else "."


def _fitting(session: Session, times: str, patterns: Sequence[str]) -> tuple[str, ...]:
    """Return the patterns that all times have."""
    tests = ", ".join(
        f"count(*) FILTER (WHERE try_strptime(x, {literal(pattern)}) IS NULL) = 0"
        for pattern in patterns
    )
    (fits,) = session.rows(f"SELECT {tests} FROM ({times})")
    return tuple(pattern for pattern, fit in zip(patterns, fits, strict=True) if fit)
