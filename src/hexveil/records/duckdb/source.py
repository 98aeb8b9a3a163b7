"""Records as a DuckDB relation: no type is ever guessed from values.

CSV is text, JSON is JSON, Parquet and tables have their declared types. Malformed lines are
skipped or null, and counted, never quoted.
"""

from __future__ import annotations

import contextlib
import difflib
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from duckdb.sqltypes import DuckDBPyType

from hexveil.base.errors import ColumnError, InputError
from hexveil.records.duckdb.expressions import file_list, identifier, literal
from hexveil.records.duckdb.formats.json_documents import (
    document_schema,
    merge_schemas,
    scan_documents,
)
from hexveil.records.duckdb.formats.nested_records import unnest_records
from hexveil.records.duckdb.formats.vehicle_positions import SCHEMA, PositionTable
from hexveil.records.sources.columns import (
    ColumnRef,
    ColumnType,
    Schema,
    TypeName,
    all_names,
    resolve,
    resolve_location,
)
from hexveil.records.sources.common_columns import uncommon_columns
from hexveil.records.sources.headers import MARKS, FirstLine, first_line, is_confirmed
from hexveil.records.sources.record_format import PLAIN
from hexveil.records.sources.source_files import Files, MemoryTable, safe_path

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from hexveil.records.duckdb.session import Session
    from hexveil.records.sources.record_format import RecordFormat

T = TypeVar("T")

_NEAR = 0.8
"""Least similarity of a key of a JSON document that a message suggests: keys can be ids."""
_KEYS = "check how the documents spell it; their keys are not listed, for keys can be data."
_ENVELOPE = (
    'the documents hold lists of others, as answers of an exchange do in "results"; name the list '
    'that holds the records, for example record_path = "results" (in [format], or --record-path).'
)


@dataclass(frozen=True)
class Relation:
    """Records to select from.

    Attributes
    ----------
    query : str
        A SELECT of all rows.
    schema : mapping of str to ColumnType
        What the columns hold.
    documents : bool
        Whether each row is one JSON document.
    skips : bool
        Whether malformed lines are missing from the rows; `skipped` then counts them.
    select_files : function, or None
        The SELECT of the rows of some of the files, by their paths; None for a table.
    respelled : frozenset of str
        Columns of text that hold numbers in some of the files, which the engine writes in its own
        way: no ids can be read from them.
    configured : collection of str
        Names of the configured columns. The names in a text file are shown only if some of
        these are among them.
    headers : tuple of (str, FirstLine)
        Path and first line of each file of delimited text; a file that is listed twice is twice
        in it.
    one_schema : bool
        Whether all files declare the same columns in the same order: Parquet files alone.
    load : function, or None
        Decodes files that the engine cannot read itself, some by their paths or all: until then
        their rows are missing. None where it can.
    """

    query: str
    schema: Schema
    documents: bool = False
    skips: bool = False
    select_files: Callable[[Sequence[str]], str] | None = None
    respelled: frozenset[str] = frozenset()
    configured: Collection[str] = ()
    headers: tuple[tuple[str, FirstLine], ...] = ()
    one_schema: bool = False
    load: Callable[[Sequence[str] | None], None] | None = None

    def load_files(self, paths: Sequence[str] | None = None) -> None:
        """Decode all files, or those about to be read, if the engine cannot read them itself."""
        if self.load is not None:
            self.load(paths)

    def skipped(self, session: Session, paths: Sequence[str] | None = None) -> int:
        """Return how many malformed lines the scans so far skipped, each counted once.

        Of all files, or of some.
        """
        # Files that were read without the engine's reader have no malformed line.
        if not self.skips or not session.has_table("reject_errors"):
            return 0
        selected = "" if paths is None else ", ".join(literal(path) for path in paths)
        query = (
            # Distinct: each scan of a file reports its bad lines anew, and a line may have several
            # errors.
            "SELECT count(DISTINCT (s.file_path, e.line)) FROM reject_errors e "
            "JOIN reject_scans s USING (scan_id, file_id)"
            + (f" WHERE s.file_path IN ({selected})" if selected else "")
        )
        return int(str(session.rows(query)[0][0]))

    def find(self, session: Session, role: str, name: str) -> ColumnRef:
        """Return where a configured column is found."""
        return self._search(session, lambda schema: resolve(role, name, schema))

    def find_user(self, session: Session, name: str) -> ColumnRef:
        """Return where the configured column of user ids is found.

        Raises
        ------
        InputError
            If some files have text there, and some numbers.
        """
        ref = self.find(session, "user", name)
        if ref.column in self.respelled:
            raise InputError(
                f"user: the column {ref.column!r} holds text in some files and numbers in "
                "others, so that one vehicle could count as two; write its ids in one type."
            )
        return ref

    def find_location(self, session: Session, name: str) -> tuple[ColumnRef, ColumnRef]:
        """Return where latitude and longitude of a configured location are found."""
        return self._search(session, lambda schema: resolve_location(name, schema))

    def _search(self, session: Session, look: Callable[[Schema], T]) -> T:
        """Look in the schema; a key of JSON documents may first occur late, so look twice."""
        schema = self.schema
        try:
            return look(schema)
        except ColumnError as error:
            missing = error
        if self.documents:
            schema = document_schema(session, self.query, limit=None)
            try:
                return look(schema)
            except ColumnError as error:
                missing = error
        # Not from within a handler: the error's context would hold the names that are left out.
        nested = any(kind.element is not None and kind.element.fields for kind in schema.values())
        raise self._careful(missing, tuple(all_names(schema)), _ENVELOPE if nested else _KEYS)

    def _careful(
        self, missing: ColumnError, names: Sequence[str], document_hint: str
    ) -> ColumnError:
        """Return the error with only those names that may be shown.

        A first line can be a record, and keys of JSON documents can be ids or values.
        """
        role, column = missing.role, missing.column
        confirmed = is_confirmed(names, self.configured)
        if not self.documents:
            # Parquet and tables declare their columns: their names are never records.
            typed = not self.skips
            hint = None if typed or confirmed else _unconfirmed_hint(len(names))
            return missing if hint is None else ColumnError(role, column, (), hint)
        closest = _closest_key(column, names) if confirmed else ()
        return ColumnError(role, column, closest, None if closest else document_hint)


def _unconfirmed_hint(number: int) -> str:
    """Return the hint that replaces the names in a first line that may be a record."""
    count = "one column was" if number == 1 else f"{number} columns were"
    marks = " ".join(repr(mark) for mark in MARKS)
    return (
        f"{count} found, whose names are not shown, for the first line may be a record; check that "
        f"it is a header, separated by one of {marks}."
    )


def _closest_key(column: str, names: Sequence[str]) -> Sequence[str]:
    """Return the closest key, if any; not one with digits of its own, which may be an id."""
    digits = {letter for letter in column if letter.isdigit()}
    candidates = [n for n in names if all(c in digits for c in n if c.isdigit())]
    return difflib.get_close_matches(column, candidates, n=1, cutoff=_NEAR)


def open_source(
    session: Session,
    source: Files | MemoryTable,
    configured: Collection[str] = (),
    record_format: RecordFormat | None = None,
) -> Relation:
    """Return the records of a source as a relation.

    Parameters
    ----------
    session : Session
    source : Files or MemoryTable
    configured : collection of str
        Configured columns: see `Relation`.
    record_format : RecordFormat, optional
        None where the caller cannot declare one, as for sums.

    Raises
    ------
    InputError
        If a file is malformed as a whole, holds no row, or has other columns than the rest, or
        if nested records are declared for a source that is no JSON.
    """
    steps = (record_format or PLAIN).record_steps
    if steps and (isinstance(source, MemoryTable) or source.kind != "json"):
        raise InputError(
            "record_path is for JSON documents; write one row for each record, or remove "
            "record_path (from [format])."
        )
    if isinstance(source, MemoryTable):
        return _open_table(session, source.data)
    if source.kind == "csv":
        return _open_csv(source, configured, record_format)
    if source.kind == "json":
        return _open_json(session, source, configured, record_format)
    if source.kind == "gtfs-realtime":
        return _open_feeds(session, source, configured)
    return _open_parquet(session, source, configured, record_format)


def _open_table(session: Session, table: pa.Table) -> Relation:
    _check_names(lambda: "the table in memory", table.column_names)
    session.register("records_in_memory", table)
    query = "SELECT * FROM records_in_memory"
    return Relation(query, _typed_schema(session, query))


def _open_parquet(
    session: Session,
    source: Files,
    configured: Collection[str],
    record_format: RecordFormat | None,
) -> Relation:
    first: pq.ParquetSchema | None = None
    columns: list[dict[str, str]] = []
    for path in source.paths:
        read = _parquet_schema(path, first)
        if read is None:
            raise InputError(
                f"source: {safe_path(path, source.paths)} is not a readable Parquet file; it may "
                "be truncated."
            )
        schema, fields = read
        first = schema if first is None else first
        if fields is None:
            columns.append(columns[0])
            continue
        _check_names(partial(safe_path, path, source.paths), fields.names)
        columns.append({f.name: str(f.type) for f in fields})
    one_schema = all(file_columns is columns[0] for file_columns in columns)
    uncommon = uncommon_columns(source, columns, configured, record_format)
    # Decided over all files, not over those of one query: a column must not come and go.
    folders = _folder_columns(source.paths, {name for c in columns for name in c})

    # One scan per set of columns where some are left out: their types may have no common one.
    layouts: dict[frozenset[str], list[str]] = {}
    for path, file_columns in zip(source.paths, columns, strict=True):
        layouts.setdefault(uncommon.intersection(file_columns), []).append(path)

    # By name: by position, a file with columns in another order would mix user and value. Where
    # none is, the engine need not open every file before it knows the columns.
    options = folders if one_schema else f"union_by_name=true, {folders}"

    def select_files(paths: Sequence[str]) -> str:
        wanted = frozenset(paths)
        scans = [
            f"{_select_without(excluded)} FROM read_parquet("
            f"{file_list([p for p in alike if p in wanted])}, {options})"
            for excluded, alike in layouts.items()
            if not wanted.isdisjoint(alike)
        ]
        return " UNION ALL BY NAME ".join(scans)

    query = select_files(source.paths)
    typed = _typed_schema(session, query)
    alike = all(types == columns[0] for types in columns)
    file_schemas = (
        () if alike else (_typed_schema(session, select_files([path])) for path in source.paths)
    )
    return Relation(
        query,
        typed,
        select_files=select_files,
        respelled=_respelled(typed, file_schemas),
        one_schema=one_schema,
    )


def _respelled(schema: Schema, file_schemas: Iterable[Schema]) -> frozenset[str]:
    """Return the text and nested columns that files with other types make ambiguous."""
    respelled = set()
    for file_schema in file_schemas:
        for name, kind in file_schema.items():
            merged = schema[name]
            # Whole numbers become text in one way; a float 7 becomes "7.0", another vehicle than
            # "7".
            spelled = merged.name == "text" and kind.name == "number" and not kind.is_integer
            if spelled or (merged.name in ("struct", "list") and kind != merged):
                respelled.add(name)
    return frozenset(respelled)


def _parquet_schema(
    path: str, first: pq.ParquetSchema | None
) -> tuple[pq.ParquetSchema, pa.Schema | None] | None:
    """Return the schema of a file and its fields; None for fields that are those of a first file.

    None if it cannot be read, and its error is not kept.
    """
    with contextlib.suppress(pa.ArrowException, OSError, ValueError):  # names that are no text, too
        schema = pq.read_metadata(path).schema
        # A year of days has one schema, which is taken apart once.
        if first is not None and schema.equals(first):
            # Only the innermost fields were compared: what is around them may have other names.
            nested = any("." in schema.column(i).path for i in range(len(schema)))
            if not nested or schema.to_arrow_schema().equals(first.to_arrow_schema()):
                return schema, None
        return schema, schema.to_arrow_schema()
    return None


def _folder_columns(paths: Sequence[str], file_columns: set[str]) -> str:
    """Return the option that makes folders named key=value columns of text, or that does not.

    They are columns where every file stands in folders of the same keys, and no file has one of
    these columns itself: what the records say is never replaced by what a folder is called.
    """
    keys = {
        tuple(folder.partition("=")[0] for folder in Path(p).parts[:-1] if "=" in folder)
        for p in paths
    }
    folded = {name.lower() for name in file_columns}
    has_folders = len(keys) == 1 and not folded.intersection(
        key.lower() for key in next(iter(keys))
    )
    return f"hive_partitioning={str(has_folders).lower()}, hive_types_autocast=false"


def _select_without(excluded: Collection[str]) -> str:
    """Return the beginning of a query of all columns but some."""
    names = ", ".join(map(identifier, sorted(excluded)))
    return f"SELECT * EXCLUDE ({names})" if names else "SELECT *"


def _open_csv(
    source: Files, configured: Collection[str], record_format: RecordFormat | None
) -> Relation:
    headers = [_header(path, source.paths) for path in source.paths]
    columns = [dict.fromkeys(sorted(header.fields), "text") for header in headers]
    uncommon = uncommon_columns(source, columns, configured, record_format)
    # One scan per header, as the columns of a scan are told by position.
    layouts: dict[FirstLine, list[str]] = {}
    for path, header in zip(source.paths, headers, strict=True):
        layouts.setdefault(header, []).append(path)

    def select_files(paths: Sequence[str]) -> str:
        selected = [(header, [p for p in alike if p in paths]) for header, alike in layouts.items()]
        return " UNION ALL BY NAME ".join(
            _csv_scan(h, alike, uncommon.intersection(h.fields)) for h, alike in selected if alike
        )

    names = (name for header in headers for name in header.fields if name not in uncommon)
    schema: Schema = {name: ColumnType("text") for name in names}
    return Relation(
        select_files(source.paths),
        schema,
        skips=True,
        select_files=select_files,
        configured=configured,
        headers=tuple(zip(source.paths, headers, strict=True)),
    )


def _csv_scan(header: FirstLine, paths: Sequence[str], excluded: Collection[str] = ()) -> str:
    columns = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in header.fields)
    return (
        f"{_select_without(excluded)} FROM "
        f"read_csv({file_list(paths)}, columns={{{columns}}}, auto_detect=false, "
        f"""header=true, delim={literal(header.mark)}, quote='"', escape='"', """
        # Every bad line is stored, to be counted; a limit would count some and drop the rest
        # unseen.
        "hive_partitioning=false, null_padding=false, ignore_errors=true, store_rejects=true, "
        "rejects_limit=0)"
    )


def _header(path: str, among: Sequence[str]) -> FirstLine:
    """Return the separator and the column names of a CSV file, from its first line alone."""
    header = first_line(path, among)
    _check_names(partial(safe_path, path, among), header.fields, show_names=False)
    return header


def _open_json(
    session: Session,
    source: Files,
    configured: Collection[str],
    record_format: RecordFormat | None,
) -> Relation:
    steps = (record_format or PLAIN).record_steps

    def select_files(paths: Sequence[str]) -> str:
        return unnest_records(scan_documents(paths, nested=bool(steps)), steps)

    schemas = [document_schema(session, select_files([path])) for path in source.paths]
    columns = [dict.fromkeys(sorted(schema), "json") for schema in schemas]
    # Documents are read whole: a key that is not used does no harm.
    uncommon_columns(source, columns, configured, record_format)
    return Relation(
        select_files(source.paths),
        merge_schemas(schemas),
        documents=True,
        select_files=select_files,
        configured=configured,
    )


def _open_feeds(session: Session, source: Files, configured: Collection[str]) -> Relation:
    positions = PositionTable(session, source.paths, configured)
    return Relation(
        positions.select(source.paths),
        SCHEMA,
        select_files=positions.select,
        configured=configured,
        load=positions.load,
    )


def _check_names(
    describe: Callable[[], str], names: Sequence[str], *, show_names: bool = True
) -> None:
    """Refuse columns that the engine takes for one: it reads names without regard to case.

    It would rename the second, perhaps to the name of a third.
    """
    by_folded_name: dict[bytes, str] = {}
    for name in names:
        # bytes.lower changes ASCII alone, as the engine does.
        earlier = by_folded_name.setdefault(name.encode(errors="replace").lower(), name)
        if name == earlier and list(names).count(name) > 1:
            raise InputError(f"source: {describe()} has two columns of one name; rename one.")
        if name != earlier:
            columns = f"columns {earlier!r} and {name!r}" if show_names else "two columns"
            raise InputError(
                f"source: {describe()} has {columns}, which differ in capital letters alone; "
                "rename one."
            )


def _typed_schema(session: Session, query: str) -> Schema:
    return {name: _kind(duckdb_type) for name, duckdb_type in session.types(query).items()}


_NESTED = ("struct", "list", "array")
_KINDS: dict[str, TypeName] = {
    "varchar": "text",
    "enum": "text",
    "uuid": "text",
    "boolean": "boolean",
    "date": "date",
    "timestamp": "naive time",
    "timestamp_s": "naive time",
    "timestamp_ms": "naive time",
    "timestamp_ns": "naive time",
    "timestamp with time zone": "time",
    "timestamptz_ns": "time",
    "decimal": "number",
    "null": "number",  # a column that is declared to hold nothing
}
_FLOAT_BITS = {"float": 24, "double": 53}


def _kind(duckdb_type: DuckDBPyType) -> ColumnType:
    name = duckdb_type.id
    children = {} if name not in _NESTED else dict(duckdb_type.children)
    # An array's children include its size, a plain number.
    inner = {n: _kind(t) for n, t in children.items() if isinstance(t, DuckDBPyType)}
    if name == "struct":
        return ColumnType("struct", inner)
    if name in _NESTED:
        return ColumnType("list", element=inner["child"])
    if name.endswith(("int", "integer")):
        return ColumnType("number", is_integer=True)
    if name in _FLOAT_BITS:
        return ColumnType("number", float_bits=_FLOAT_BITS[name])
    return ColumnType(_KINDS.get(name, "other"))
