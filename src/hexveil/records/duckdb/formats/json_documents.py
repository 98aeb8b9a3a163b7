"""JSON documents as DuckDB relations of one column, and the keys that are in them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from hexveil.records.duckdb.expressions import file_list, literal
from hexveil.records.duckdb.session import Session
from hexveil.records.sources.columns import ColumnType, Schema
from hexveil.records.sources.source_files import read_bytes, unpacked_size

DOCUMENT = "document"
"""The one column of a relation of JSON documents."""


def unnest_records(documents: str, steps: Sequence[str]) -> str:
    """Return the query of the records inside documents.

    Each key leads to a list of objects, or to one object. Fields beside it become fields of each
    record, unless the record has them itself. A document without the key stays one row, a null,
    so that it is counted as unparsable.

    Parameters
    ----------
    documents : str
        Query of whole documents, in the column `DOCUMENT`.
    steps : sequence of str
        Keys from a document to its records.
    """
    for key in steps:
        documents = _follow(documents, key)
    return documents


def _follow(documents: str, key: str) -> str:
    path = "$." + json.dumps(key, ensure_ascii=False)
    # RFC 7396: a null in a patch removes the key. The list leaves its document before the elements
    # are laid out, for else each of them would carry all others.
    parent = f"json_merge_patch({DOCUMENT}, {literal(json.dumps({key: None}, ensure_ascii=False))})"
    elements = (
        f"CASE json_type({DOCUMENT}, {literal(path)}) "
        f"WHEN 'ARRAY' THEN json_extract({DOCUMENT}, {literal(path + '[*]')}) "
        f"WHEN 'OBJECT' THEN [json_extract({DOCUMENT}, {literal(path)})] "
        "ELSE [CAST(NULL AS JSON)] END"
    )
    return (
        f"SELECT CASE WHEN json_type(element) = 'OBJECT' "
        f"THEN json_merge_patch(parent, element) END AS {DOCUMENT} "
        f"FROM (SELECT {parent} AS parent, unnest({elements}) AS element FROM ({documents}))"
    )


VIEW = "json_documents"
"""The view of all documents of a source."""
LINES = "newline_delimited"
_LOOKED_AT = 1000
_OBJECT_SIZE, _LARGEST_OBJECT = 1 << 24, (1 << 31) - 1
"""Bytes of one object: the default of the engine, and the most that it reads."""
_LETTERS, _HEAD = 1 << 12, 1 << 20
_DEEPEST = 100
"""Nesting of documents that are looked at for their keys: the engine fails on some hundreds."""
_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)


def scan_documents(path: str, *, nested: bool) -> str:
    """Return the query of the documents of a file: an array, or one document a line.

    Of lines a damaged one is null; an array that is damaged fails the query, as does a line of more
    than 16 MB. With nested records one document may be large, and take many lines.
    """
    kind = _kind(path)
    if nested and not (kind == LINES and _has_lines(read_bytes(path, (), _HEAD))):
        # One document may be as large as the file; the engine has a default, and a limit.
        size = min(max(unpacked_size(path) + 1, _OBJECT_SIZE), _LARGEST_OBJECT)
        return _read(path, "unstructured" if kind == LINES else kind, size)
    return _read(path, kind)


def _kind(path: str) -> str:
    """Return the kind of a file of documents, by its first letters."""
    head = read_bytes(path, (), _LETTERS).removeprefix(b"\xef\xbb\xbf")
    # Of records, not of numbers: a line may hold a list, too.
    return "array" if re.match(rb"\s*\[\s*([{\]]|$)", head) else LINES


def _read(path: str, kind: str, size: int = _OBJECT_SIZE) -> str:
    # Errors can be ignored by line alone: an array that is damaged anywhere fails as a whole.
    errors = ", ignore_errors=true" * (kind == LINES)
    how = f"format='{kind}', maximum_object_size={size}{errors}"
    files = f"{file_list([path])}, hive_partitioning=false"
    return f"SELECT json AS {DOCUMENT} FROM read_json_objects({files}, {how})"


def _has_lines(head: bytes) -> bool:
    """Return whether a file begins with a line that is a document, and has a second one."""
    line, _, further = head.partition(b"\n")
    try:
        return bool(further.strip()) and isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def document_schema(session: Session, scan: str, limit: int | None = _LOOKED_AT) -> Schema:
    """Return the keys of JSON documents: of the first ones, or without a limit of all."""
    session.add_test(
        "is_shallow", lambda texts: pa.array(map(_is_shallow, texts.to_pylist()), pa.bool_())
    )
    limit_clause = "" if limit is None else f" LIMIT {limit}"
    structure_text = session.rows(
        f"SELECT json_group_structure({DOCUMENT}) FROM (SELECT * FROM ({scan}) "
        f"WHERE json_type({DOCUMENT}) = 'OBJECT' "
        f"AND is_shallow(CAST({DOCUMENT} AS VARCHAR)){limit_clause})"
    )[0][0]
    structure = json.loads(str(structure_text)) if structure_text is not None else {}
    if not isinstance(structure, dict):
        return {}
    return {name: _json_type(inside) for name, inside in structure.items()}


def _is_shallow(text: str) -> bool:
    """Return whether a document is nested less than the engine's limit."""
    if text.count("[") + text.count("{") <= _DEEPEST:
        return True
    marks = np.frombuffer(_STRING.sub("", text).encode(errors="replace"), dtype=np.uint8)
    steps = np.isin(marks, (91, 123)).astype(np.int64) - np.isin(marks, (93, 125))
    return bool(np.cumsum(steps).max() <= _DEEPEST)


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
