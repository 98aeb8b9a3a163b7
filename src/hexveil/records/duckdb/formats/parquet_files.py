"""Parquet files as one relation: columns by name, folders named key=value as columns of text."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from hexveil.base.errors import InputError
from hexveil.records.duckdb.expressions import file_list
from hexveil.records.duckdb.relation import (
    Relation,
    check_names,
    refuse_different_columns,
    typed_schema,
)
from hexveil.records.duckdb.session import Session
from hexveil.records.sources.columns import Schema
from hexveil.records.sources.memory_tables import calendar, readable_table
from hexveil.records.sources.source_files import Files, safe_path

_TIMES = {
    ("Timestamp", "milliseconds"): pa.timestamp("ms"),
    ("Time", "milliseconds"): pa.time32("ms"),
    ("Time", "microseconds"): pa.time64("us"),
    ("Time", "nanoseconds"): pa.time64("ns"),
}
"""Types of times that the engine may fail on, as files state them."""
_COPIED_ROWS = 1 << 16


def open_parquet(session: Session, source: Files, configured: Collection[str]) -> Relation:
    """Return the records of Parquet files; see `open_source`."""
    columns, timed = _declared_columns(source, configured)
    _check_times(columns, configured)
    one_schema = all([*types.items()] == [*columns[0].items()] for types in columns)
    refuse_different_columns(source, columns, configured)
    # Decided over all files, not over those of one query: a column must not come and go.
    folders = _folder_columns(source.paths, {name for c in columns for name in c})

    near_copies = _near_copies(session, timed)
    # By name: by position, a file with columns in another order would mix user and value. Where
    # none is, the engine need not open every file before it knows the columns.
    options = folders if one_schema else f"union_by_name=true, {folders}"
    # A byte that is not UTF-8 would stop the reading.
    options += ", utf8_validation='replace'"

    def select_files(paths: Sequence[str]) -> str:
        wanted = frozenset(paths)
        files = file_list([near_copies.get(p, p) for p in source.paths if p in wanted])
        return f"SELECT * FROM read_parquet({files}, {options})"

    query = select_files(source.paths)
    typed = typed_schema(session, query)
    alike = all(types == columns[0] for types in columns)
    file_schemas = (typed_schema(session, select_files([path])) for path in source.paths)
    return Relation(
        query,
        typed,
        select_files=select_files,
        respelled=frozenset() if alike else _respelled(typed, file_schemas),
        configured=configured,
        one_schema=one_schema,
    )


def _check_times(columns: Sequence[dict[str, str]], configured: Collection[str]) -> None:
    """Refuse a used column that files declare in types of time with different calendars."""
    # The engine reads it in one of the types, and fails on a single time that has no place there.
    for name in configured:
        types = {str(file_columns.get(name)) for file_columns in columns}
        timed = [kind for kind in types if kind.startswith(("date", "timestamp"))]
        if len({"nanoseconds" if "[ns" in kind else kind[:4] for kind in timed}) > 1:
            raise InputError(
                f"time: the column {name!r} holds dates, times or times in nanoseconds, by file; "
                "write one type, such as times in microseconds."
            )


def _declared_columns(
    source: Files, configured: Collection[str]
) -> tuple[list[dict[str, str]], dict[str, dict[int, tuple[int, int]]]]:
    """Return columns that files declare, and which hold times; refuse an unreadable file."""
    columns: list[dict[str, str]] = []
    timed: dict[str, dict[int, tuple[int, int]]] = {}
    for path in source.paths:
        fields = None
        with contextlib.suppress(pa.ArrowException, OSError, ValueError):  # names that are no text
            schema = pq.read_metadata(path).schema
            fields = schema.to_arrow_schema()
        # Outside, so that the error of the library is not the context of ours.
        if fields is None:
            raise InputError(
                f"source: {safe_path(path, source.paths)} is not a readable Parquet file; it may "
                "be truncated."
            )
        check_names(partial(safe_path, path, source.paths), fields.names)
        columns.append({field.name: str(field.type) for field in fields})
        if ends := _timed_columns(schema, configured):
            timed[path] = ends
    return columns, timed


def _timed_columns(
    schema: pq.ParquetSchema, configured: Collection[str]
) -> dict[int, tuple[int, int]]:
    """Return the numbers of used columns that the engine may fail on, and the times it knows."""
    ends = {}
    for i in range(len(schema)):
        stated = json.loads(schema.column(i).logical_type.to_json())
        kind = _TIMES.get((stated["Type"], stated.get("timeUnit", "")))
        limits = None if kind is None else calendar(kind)
        path = schema.column(i).path
        if limits is not None and any(_is_within(path, name) for name in configured):
            ends[i] = limits
    return ends


def _near_copies(
    session: Session, timed: Mapping[str, Mapping[int, tuple[int, int]]]
) -> dict[str, str]:
    """Return copies of the files with times that the engine may fail on: there they are null."""
    copies: dict[str, str] = {}
    for path, ends in timed.items():
        metadata = pq.read_metadata(path)
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        if all(_is_near(group.column(i), limits) for i, limits in ends.items() for group in groups):
            continue
        # In folders like the file's own, since folders can be columns.
        folders = [folder for folder in Path(path).parts[:-1] if "=" in folder]
        folder = Path(tempfile.mkdtemp(prefix="near", dir=session.folder))
        copy = folder.joinpath(*folders, "records.parquet")
        copy.parent.mkdir(parents=True, exist_ok=True)
        _copy_near(path, copy)
        copies[path] = str(copy)
    return copies


def _is_within(path: str, name: str) -> bool:
    return path == name or path.startswith(f"{name}.") or name.startswith(f"{path}.")


def _is_near(column: pq.ColumnChunkMetaData, ends: tuple[int, int]) -> bool:
    """Return whether a file's statistics promise that the engine knows all its times."""
    statistics = column.statistics
    if statistics is None or not statistics.has_min_max:
        return statistics is not None and statistics.null_count == column.num_values
    return bool(ends[0] <= statistics.min_raw <= statistics.max_raw <= ends[1])


def _copy_near(path: str, copy: Path) -> None:
    """Write a copy of a file with times that fit microseconds or are null."""
    with pq.ParquetFile(path) as file:
        empty = readable_table(file.schema_arrow.empty_table())
        with pq.ParquetWriter(copy, empty.schema) as writer:
            for batch in file.iter_batches(_COPIED_ROWS):
                writer.write_table(readable_table(pa.Table.from_batches([batch])))


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
