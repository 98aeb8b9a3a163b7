"""Records as a DuckDB relation: no type is ever guessed from values.

CSV is text, JSON is JSON, Parquet and tables have their declared types. Malformed lines are
skipped or null, and counted, never quoted.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial

from hexveil.base.errors import InputError
from hexveil.records.duckdb.formats import json_documents
from hexveil.records.duckdb.formats.delimited_text import TextFile, TextSource
from hexveil.records.duckdb.formats.parquet_files import open_parquet
from hexveil.records.duckdb.relation import (
    RECORDS,
    Relation,
    check_names,
    refuse_different_columns,
    typed_schema,
    used_names,
)
from hexveil.records.duckdb.session import Session
from hexveil.records.sources.columns import ColumnType, Schema
from hexveil.records.sources.headers import duplicates, first_line
from hexveil.records.sources.record_format import PLAIN, RecordFormat
from hexveil.records.sources.source_files import Files, MemoryTable, check_compressed, safe_path

FEATURES = ("features",)
"""Where the records of a GeoJSON collection are."""


def open_source(
    session: Session,
    source: Files | MemoryTable,
    configured: Collection[str] = (),
    record_format: RecordFormat = PLAIN,
) -> Relation:
    """Return the records of a source as a relation.

    Parameters
    ----------
    session : Session
    source : Files or MemoryTable
    configured : collection of str
        Configured columns: see `Relation`.
    record_format : RecordFormat
        The usual one where the caller cannot declare another, as for sums.

    Raises
    ------
    InputError
        If a file is malformed as a whole, holds no row, or has other columns than the rest, or
        if nested records are declared for a source that is no JSON.
    """
    if record_format.record_steps and (isinstance(source, MemoryTable) or source.kind != "json"):
        raise InputError(
            "record_path is for JSON documents; write one row for each record, or remove "
            "record_path (from [format])."
        )
    if isinstance(source, MemoryTable):
        check_names(lambda: "the table in memory", source.data.column_names)
        session.register(RECORDS, source.data)
        query = f"SELECT * FROM {RECORDS}"
        return Relation(query, typed_schema(session, query))
    if source.kind == "csv":
        return _open_csv(session, source, configured, record_format)
    if source.kind == "json":
        return _open_json(session, source, configured, record_format)
    return open_parquet(session, source, configured)


def _open_csv(
    session: Session, source: Files, configured: Collection[str], declared: RecordFormat
) -> Relation:
    headers = {p: first_line(p, source.paths, declared) for p in dict.fromkeys(source.paths)}
    # What stands in two columns of one name that nobody asks for is nobody's concern.
    twice = {path: duplicates(header.fields) for path, header in headers.items()}
    names = [
        [name for name in headers[path].fields if name and name not in twice[path]]
        for path in source.paths
    ]
    columns = [dict.fromkeys(sorted(file_names), "text") for file_names in names]
    refuse_different_columns(source, columns, configured)
    schema: Schema = {name: ColumnType("text") for of_file in names for name in of_file}
    for path in source.paths:
        used = used_names([name for name in headers[path].fields if name], configured)
        check_names(partial(safe_path, path, source.paths), used, show_names=False)
    files = tuple(TextFile(path, headers[path], declared) for path in source.paths)
    text = TextSource(session, files, tuple(used_names(schema, configured)))
    return Relation(
        text.query(),
        schema,
        text=text,
        configured=configured,
        select_files=lambda paths: text.query(paths=paths),
    )


def is_collection(path: str) -> bool:
    """Return whether a file is a GeoJSON collection by its name.

    Examples
    --------
    >>> is_collection("buses.geojson.gz"), is_collection("buses.json")
    (True, False)
    """
    return path.lower().removesuffix(".gz").endswith(".geojson")


def _open_json(
    session: Session, source: Files, configured: Collection[str], declared: RecordFormat
) -> Relation:
    # A collection of GeoJSON has its records under one name.
    collections = all(is_collection(path) for path in source.paths)
    steps = declared.record_steps or FEATURES * collections
    if steps:
        keys = ".".join(steps)
        session.advice = (
            "; a JSON document whose records are a list is read whole: write one record a line "
            f"instead, for example by jq -c '.{keys}[]' FILE > records.ndjson"
        )
    scans = {path: json_documents.scan_documents(path, nested=bool(steps)) for path in source.paths}
    checked: set[str] = set()

    def select(paths: Sequence[str]) -> str:
        return json_documents.unnest_records(
            " UNION ALL ".join(scans[path] for path in paths), steps
        )

    def check(paths: Collection[str]) -> None:
        # Before records are read, and once: packed files may be damaged or too large.
        for path in set(paths or source.paths) - checked:
            check_compressed(path, source.paths, declared.max_unpacking)
            checked.add(path)

    schemas = [json_documents.document_schema(session, select([path])) for path in source.paths]
    # Documents are read whole: a key that is not used does no harm.
    columns = [dict.fromkeys(sorted(keys), "json") for keys in schemas]
    refuse_different_columns(source, columns, configured)
    view, query = json_documents.VIEW, select(source.paths)
    session.run(f"CREATE OR REPLACE TEMP VIEW {view} AS {query}")
    return Relation(
        f"SELECT * FROM {view}",
        json_documents.merge_schemas(schemas),
        documents=True,
        select_files=select,
        configured=configured,
        check_files=check,
    )
