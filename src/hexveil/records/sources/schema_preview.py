"""The columns of a source by name and declared type, for whoever has no run file yet."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hexveil.base.errors import InputError
from hexveil.records.sources.columns import Schema, all_names, find_column, record_lists
from hexveil.records.sources.headers import first_line, has_header, is_confirmed
from hexveil.records.sources.record_format import PLAIN, RecordFormat
from hexveil.records.sources.source_files import Files, resolve_source, safe_path
from hexveil.records.sources.vocabulary import is_envelope, is_id_name

if TYPE_CHECKING:
    from hexveil.records.duckdb.relation import Relation
    from hexveil.records.duckdb.session import Session

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
    value_units : mapping of str to str
        Units of measure, by column, that the format itself fixes.
    constant_ids : frozenset of str
        Columns named like ids that hold one and the same text in all rows.
    record_path : str or None
        Where the records of documents are, if it was not declared and its keys are known names.
    day_and_time : (str, str) or None
        Columns of dates and of times of day.
    time_formats : mapping of str to tuple of str
        By column, of a pair by that of the times of day: formats that the first times have, if
        they are not in the usual form.
    """

    schema: Schema
    documents: bool
    value_units: Mapping[str, str] = field(default_factory=dict)
    constant_ids: frozenset[str] = frozenset()
    record_path: str | None = None
    day_and_time: tuple[str, str] | None = None
    time_formats: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def inspect_schema(
    source: object,
    known_columns: Collection[str] = (),
    *,
    trusted: bool = False,
    record_format: RecordFormat = PLAIN,
    look_at_times: bool = False,
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
    look_at_times : bool
        Whether the first times may be looked at for their format: where times are public.

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
    from hexveil.records.duckdb.formats.vehicle_positions import (  # noqa: PLC0415  the engine
        VALUE_UNITS,
    )
    from hexveil.records.duckdb.session import Session  # noqa: PLC0415
    from hexveil.records.duckdb.source import open_source  # noqa: PLC0415

    resolved = resolve_source(source)
    with Session(_MEMORY) as session:
        opened = open_source(session, resolved, known_columns, record_format)
        envelope_path = None
        if opened.documents and record_format.record_path is None:
            envelope_path = next(
                (p for p, _ in record_lists(opened.schema) if is_envelope(p)), None
            )
        if envelope_path is not None:
            inside = replace(record_format, record_path=envelope_path)
            opened = open_source(session, resolved, known_columns, inside)
        if isinstance(resolved, Files):
            # One file shows whether these are feeds at all; all of them could be thousands.
            opened.load_files(resolved.paths[:1])
        # The first line of a CSV file may be a record: no column of it is looked at before.
        if isinstance(resolved, Files) and resolved.kind == "csv" and not trusted:
            # Each file by itself: the second day's export may lack the header of the first.
            for path in resolved.paths:
                _refuse_doubtful(path, resolved.paths, known_columns, record_format)
        feed = isinstance(resolved, Files) and resolved.kind == "gtfs-realtime"
        # The schema of a feed names its id, and columns that nobody asked for are not decoded.
        constant_ids = frozenset() if feed else _constant_ids(session, opened)
        pair: tuple[str, str] | None = None
        formats: Mapping[str, tuple[str, ...]] = {}
        if look_at_times and not feed:
            from hexveil.records.duckdb.formats import time_formats  # noqa: PLC0415  the engine

            pair, formats = time_formats.guess(session, opened)
    units = VALUE_UNITS if feed else {}
    return SourceSchema(
        opened.schema, opened.documents, units, constant_ids, envelope_path, pair, formats
    )


def _constant_ids(session: Session, relation: Relation) -> frozenset[str]:
    """Return the columns named like ids with a single text; their ids stay in the engine."""
    from hexveil.records.duckdb.expressions import JsonColumn, text  # noqa: PLC0415  the engine
    from hexveil.records.duckdb.formats.json_documents import DOCUMENT  # noqa: PLC0415

    document = JsonColumn(DOCUMENT) if relation.documents else None
    names = [name for name in all_names(relation.schema) if is_id_name(name)]
    found = {name: find_column(name, relation.schema) for name in names}
    refs = {n: ref for n, ref in found.items() if ref and ref.kind.name not in ("struct", "list")}
    if not refs:
        return frozenset()
    texts = (text(ref, document) for ref in refs.values())
    # Two rows at least: a single record is of one vehicle, whatever its columns are.
    tests = ", ".join(f"min({one}) = max({one}) AND count({one}) > 1" for one in texts)
    columns = sorted({ref.column for ref in refs.values()})
    query = relation.query if relation.text is None else relation.text.query(columns)
    row = session.rows(f"SELECT {tests} FROM ({query})")[0]
    return frozenset(name for name, constant in zip(refs, row, strict=True) if constant)


def _refuse_doubtful(
    path: str, among: Sequence[str], known_columns: Collection[str], record_format: RecordFormat
) -> None:
    """Refuse a CSV file if its first line may be a record."""
    fields = first_line(path, among, record_format).fields
    if not is_confirmed(fields, known_columns) and not has_header(path, record_format):
        label = safe_path(path, among)
        raise InputError(
            f"source: the first line of {label} may be a record, so none of it is shown "
            f"({len(fields)} columns were found); add a header, or if the line is one, say so "
            "with --trust-header."
        )
