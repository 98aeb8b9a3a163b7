"""JSON documents as DuckDB relations of one column, and the keys that are in them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from hexveil.records.duckdb.expressions import file_list
from hexveil.records.sources.columns import ColumnType, Schema
from hexveil.records.sources.source_files import first_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hexveil.records.duckdb.session import Session

DOCUMENT = "document"
"""The one column of a relation of JSON documents."""
_LOOKED_AT = 1000


def scan_documents(paths: Sequence[str]) -> str:
    """Return the query of all documents of files: arrays, or one document a line."""
    return " UNION ALL ".join(_scan(path) for path in paths)


def _scan(path: str) -> str:
    array = first_bytes(path, 4096).lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"["
    # Errors can be ignored by line alone: an array that is damaged anywhere fails as a whole.
    how = "format='array'" if array else "format='newline_delimited', ignore_errors=true"
    files = f"{file_list([path])}, hive_partitioning=false"
    return f"SELECT json AS {DOCUMENT} FROM read_json_objects({files}, {how})"


def document_schema(session: Session, scan: str, limit: int | None = _LOOKED_AT) -> Schema:
    """Return the keys of JSON documents: of the first ones, or without a limit of all."""
    limit_clause = "" if limit is None else f" LIMIT {limit}"
    structure_text = session.rows(
        f"SELECT json_group_structure({DOCUMENT}) FROM (SELECT * FROM ({scan}) "
        f"WHERE json_type({DOCUMENT}) = 'OBJECT'{limit_clause})"
    )[0][0]
    structure = json.loads(str(structure_text)) if structure_text is not None else {}
    if not isinstance(structure, dict):
        return {}
    return {name: _json_type(inside) for name, inside in structure.items()}


def _json_type(structure: object) -> ColumnType:
    """Return the type of a key from the engine's description, in which a list holds one element."""
    if isinstance(structure, dict):
        return ColumnType("json", {name: _json_type(nested) for name, nested in structure.items()})
    if isinstance(structure, list) and structure:
        return ColumnType("json", element=_json_type(structure[0]))
    return ColumnType("json")


def merge_schemas(schemas: Iterable[Schema]) -> Schema:
    """Return the keys of several files together, nested ones too.

    A key can be a number in one file and an NGSI-LD attribute in another.
    """
    merged: Schema = {}
    for schema in schemas:
        for name, kind in schema.items():
            other = merged.get(name, ColumnType("json"))
            fields = merge_schemas([dict(other.fields), dict(kind.fields)])
            merged[name] = ColumnType("json", fields, kind.element or other.element)
    return merged
