"""Records as a DuckDB relation: no type is ever guessed from values.

CSV is text, JSON is JSON, Parquet and tables have their declared types. Malformed lines are
skipped or null, and counted, never quoted.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from duckdb.sqltypes import DuckDBPyType

from hexveil.errors import ColumnError, InputError
from hexveil.records.columns import Kind, KindName, Ref, Schema, resolve, resolve_location
from hexveil.records.duckdb.expressions import literal
from hexveil.records.sources import Files, Table, first_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hexveil.records.duckdb.session import Session

T = TypeVar("T")

DOCUMENT = "document"
"""The one column of a relation of JSON documents."""
_LOOKED_AT = 1000


@dataclass(frozen=True)
class Relation:
    """Records to select from.

    Attributes
    ----------
    query : str
        A SELECT of all rows.
    schema : mapping of str to Kind
        What the columns hold.
    documents : bool
        Whether each row is one JSON document.
    skips : bool
        Whether malformed lines are missing from the rows; `skipped` then counts them.
    """

    query: str
    schema: Schema
    documents: bool = False
    skips: bool = False

    def skipped(self, session: Session) -> int:
        """Return how many malformed lines the scans so far skipped, each counted once."""
        if not self.skips:
            return 0
        query = (
            "SELECT count(DISTINCT (s.file_path, e.line)) FROM reject_errors e "
            "JOIN reject_scans s USING (scan_id, file_id)"
        )
        return int(str(session.rows(query)[0][0]))

    def find(self, session: Session, role: str, name: str) -> Ref:
        """Return where a configured column is found."""
        return self._search(session, lambda schema: resolve(role, name, schema))

    def find_location(self, session: Session, name: str) -> tuple[Ref, Ref]:
        """Return where latitude and longitude of a configured location are found."""
        return self._search(session, lambda schema: resolve_location(name, schema))

    def _search(self, session: Session, look: Callable[[Schema], T]) -> T:
        """Look in the schema; a key of JSON documents may first occur late, so look twice."""
        try:
            return look(self.schema)
        except ColumnError:
            if not self.documents:
                raise
            return look(_document_schema(session, self.query, limit=None))


def open_source(session: Session, source: Files | Table) -> Relation:
    """Return the records of a source as a relation.

    Raises
    ------
    InputError
        If a file is malformed as a whole, holds no row, or has other columns than the rest.
    """
    if isinstance(source, Table):
        return _open_table(session, source.data)
    opened = {"parquet": _open_parquet, "csv": _open_csv, "json": _open_json}[source.kind]
    return opened(session, source)


def _open_table(session: Session, table: pa.Table) -> Relation:
    if len(set(table.column_names)) != table.num_columns:
        raise InputError("source: the table in memory has two columns of one name; rename one.")
    session.register("records_in_memory", table)
    query = "SELECT * FROM records_in_memory"
    return Relation(query, _typed_schema(session, query))


def _open_parquet(session: Session, source: Files) -> Relation:
    columns = []
    for path in source.paths:
        try:
            found = pq.read_schema(path)
        except (pa.ArrowException, OSError):
            raise InputError(
                f"source: {path!r} is not a readable Parquet file; it may be truncated."
            ) from None
        columns.append({f.name: str(f.type) for f in found})
    _check_same(source, [sorted(c.items()) for c in columns], [set(c) for c in columns])
    query = f"SELECT * FROM read_parquet({_paths(source.paths)}, union_by_name=true)"
    return Relation(query, _typed_schema(session, query))


def _open_csv(_session: Session, source: Files) -> Relation:
    headers = [_header(path) for path in source.paths]
    names = [set(header) for _, header in headers]
    _check_same(source, [sorted(n) for n in names], names)
    layouts: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for path, layout in zip(source.paths, headers, strict=True):
        layouts.setdefault(layout, []).append(path)
    parts = [_csv_scan(mark, header, paths) for (mark, header), paths in layouts.items()]
    schema: Schema = {name: Kind("text") for _, header in headers for name in header}
    return Relation(" UNION ALL BY NAME ".join(parts), schema, skips=True)


def _csv_scan(mark: str, header: Sequence[str], paths: Sequence[str]) -> str:
    columns = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in header)
    return (
        f"SELECT * FROM read_csv({_paths(paths)}, columns={{{columns}}}, auto_detect=false, "
        f"""header=true, delim={literal(mark)}, quote='"', escape='"', """
        "null_padding=false, ignore_errors=true, store_rejects=true, rejects_limit=0)"
    )


def _header(path: str) -> tuple[str, tuple[str, ...]]:
    """Return the separator and the column names of a CSV file, from its first line alone."""
    try:
        with _opened(path) as packed, io.TextIOWrapper(packed, "utf-8-sig", newline="") as text:
            first = text.readline()
            mark = max(",;\t|", key=first.count)
            text.seek(0)
            header = tuple(next(csv.reader(text, delimiter=mark), ()))
    except (OSError, EOFError, UnicodeDecodeError, csv.Error):
        raise InputError(f"source: {path!r} is not a readable CSV file in UTF-8.") from None
    if not any(header):
        raise InputError(f"source: the file {path!r} has no line of column names.")
    if len(set(header)) != len(header) or not all(header):
        raise InputError(
            f"source: the first line of {path!r} must name every column, each differently."
        )
    return mark, header


def _opened(path: str) -> IO[bytes] | gzip.GzipFile:
    if path.lower().endswith(".gz"):
        return gzip.GzipFile(path)
    return Path(path).open("rb")


def _open_json(session: Session, source: Files) -> Relation:
    scans = [_json_scan(path) for path in source.paths]
    if len(scans) == 1:
        return _documents(scans[0], _document_schema(session, scans[0]))
    schemas = [_document_schema(session, scan) for scan in scans]
    names = [set(schema) for schema in schemas]
    _check_same(source, [sorted(n) for n in names], names)
    merged = {name: kind for schema in schemas for name, kind in schema.items()}
    return _documents(" UNION ALL ".join(scans), merged)


def _documents(query: str, schema: Schema) -> Relation:
    return Relation(query, schema, documents=True)


def _json_scan(path: str) -> str:
    array = first_bytes(path, 4096).lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"["
    how = "format='array'" if array else "format='newline_delimited', ignore_errors=true"
    return f"SELECT json AS {DOCUMENT} FROM read_json_objects({_paths([path])}, {how})"


def _document_schema(session: Session, scan: str, limit: int | None = _LOOKED_AT) -> Schema:
    """Return the keys of JSON documents: of the first ones, or without a limit of all."""
    some = "" if limit is None else f" LIMIT {limit}"
    found = session.rows(
        f"SELECT json_group_structure({DOCUMENT}) FROM (SELECT * FROM ({scan}) "
        f"WHERE json_type({DOCUMENT}) = 'OBJECT'{some})"
    )[0][0]
    structure = json.loads(str(found)) if found is not None else {}
    if not isinstance(structure, dict):
        return {}
    return {name: _json_kind(inside) for name, inside in structure.items()}


def _json_kind(structure: object) -> Kind:
    if isinstance(structure, dict):
        return Kind("json", {name: _json_kind(inside) for name, inside in structure.items()})
    return Kind("json")


def _check_same(source: Files, columns: Sequence[object], names: Sequence[set[str]]) -> None:
    """Refuse files whose columns differ, unless the caller listed them one by one."""
    if source.listed:
        return
    for path, found, own in zip(source.paths, columns, names, strict=True):
        if found != columns[0]:
            odd = sorted(own ^ names[0])
            what = f"only one of them has {', '.join(odd)}" if odd else "their types differ"
            raise InputError(
                f"source: {source.paths[0]!r} and {path!r} have different columns ({what}); "
                "list the files by name to read them together."
            )


def _typed_schema(session: Session, query: str) -> Schema:
    return {name: _kind(found) for name, found in session.types(query).items()}


_NESTED = ("struct", "list", "array")
_KINDS: dict[str, KindName] = {
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
    "float": "number",
    "double": "number",
    "decimal": "number",
    "null": "number",  # a column that is declared to hold nothing
}


def _kind(found: DuckDBPyType) -> Kind:
    name = found.id
    children = {} if name not in _NESTED else dict(found.children)
    inner = {n: _kind(t) for n, t in children.items() if isinstance(t, DuckDBPyType)}
    if name == "struct":
        return Kind("struct", inner)
    if name in _NESTED:
        return Kind("list", element=inner["child"])
    if name.endswith(("int", "integer")):
        return Kind("number")
    return Kind(_KINDS.get(name, "other"))


def _paths(paths: Sequence[str]) -> str:
    # A path is a pattern to DuckDB: its special letters are taken literally.
    return "[" + ", ".join(literal(_escaped(path)) for path in paths) + "]"


def _escaped(path: str) -> str:
    return "".join(f"[{c}]" if c in "*?[" else c for c in path)
