"""JSON documents as DuckDB relations of one column, and the keys that are in them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from hexveil.records.duckdb.expressions import file_list
from hexveil.records.sources.columns import ColumnType, Schema
from hexveil.records.sources.source_files import first_bytes, unpacked_size

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hexveil.records.duckdb.session import Session

DOCUMENT = "document"
"""The one column of a relation of JSON documents."""
_LOOKED_AT = 1000
_OBJECT_SIZE, _LARGEST_OBJECT = 1 << 24, (1 << 31) - 1
"""Bytes of one object: the default of the engine, and the most that it reads."""


def scan_documents(paths: Sequence[str], *, nested: bool = False) -> str:
    """Return the query of all documents of files: arrays, or one document a line.

    Where records are nested, one document may be large and take many lines.
    """
    return " UNION ALL ".join((_scan_nested if nested else _scan)(path) for path in paths)


def _is_array(path: str) -> bool:
    return first_bytes(path, 4096).lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"["


def _scan_nested(path: str) -> str:
    kind = "array" if _is_array(path) else "unstructured"
    # The engine refuses objects beyond this size, by default 16 MB.
    size = min(max(unpacked_size(path) + 1, _OBJECT_SIZE), _LARGEST_OBJECT)
    files = f"{file_list([path])}, hive_partitioning=false"
    how = f"format='{kind}', maximum_object_size={size}"
    return f"SELECT json AS {DOCUMENT} FROM read_json_objects({files}, {how})"


def _scan(path: str) -> str:
    array = _is_array(path)
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
