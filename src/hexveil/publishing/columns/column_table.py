"""One table of several value columns: a row per cell of any column, prefixed columns of each.

Descriptions of several value columns for portals: one data set with the files of each.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from hexveil.base.errors import InputError
from hexveil.model.declared_grid import ColumnFacts, DeclaredColumns
from hexveil.publishing.catalogue.metadata_files import render_descriptions
from hexveil.publishing.catalogue.release_description import (
    DataFile,
    ReleaseDescription,
    describe_release,
    listed_files,
)
from hexveil.report.manifest_view import format_heading

MAX_PREFIX = 60
COUNTS, OPEN = "users", "is_open"
"""First column of a release that depends on the value column, by privacy model; those before it
name the cell."""


def column_prefixes(columns: Sequence[str]) -> dict[str, str]:
    """Return the prefix of each value column in names of columns and folders.

    Letters, digits and underscores of its name stay; prefixes differ in any case of letters.

    Examples
    --------
    >>> column_prefixes(["pm25", "PM25", "no2.value", "..."])
    {'pm25': 'pm25', 'PM25': 'PM25_2', 'no2.value': 'no2_value', '...': 'value'}
    """
    prefixes: dict[str, str] = {}
    used: set[str] = set()
    for column in columns:
        stem = re.sub(r"[^A-Za-z0-9]+", "_", column).strip("_")[:MAX_PREFIX] or "value"
        prefix, number = stem, 1
        while prefix.casefold() in used:
            number += 1
            prefix = f"{stem}_{number}"
        used.add(prefix.casefold())
        prefixes[column] = prefix
    return prefixes


def check_prefixes(facts: ColumnFacts | DeclaredColumns) -> None:
    """Refuse label columns with names that begin like the columns of a value column."""
    for prefix in column_prefixes([*facts.columns]).values():
        for label in facts.leading.cells.labels:
            if label.startswith(f"{prefix}_"):
                raise InputError(
                    f"the label column {label!r} has the name of a column of this release; give it "
                    "another name in the records."
                )


def join_columns(tables: Mapping[str, pa.Table]) -> pa.Table:
    """Return the released tables of all value columns as one.

    Cells are in the order of their first value column. Where a column has no such cell its
    numbers are null.

    Parameters
    ----------
    tables : mapping of str to pyarrow.Table
        Released table of each value column.
    """
    prefixes = column_prefixes([*tables])
    leading = next(iter(tables.values()))
    naming = _naming_columns(leading)
    rows = {column: _rows_by_cell(table) for column, table in tables.items()}
    cells = list(dict.fromkeys(cell for by_cell in rows.values() for cell in by_cell))
    columns, fields = _name_rows(tables, rows, naming, cells)
    for column, table in tables.items():
        table_rows = pa.array([rows[column].get(cell) for cell in cells], pa.int64())
        for field in table.schema:
            if field.name not in naming:
                columns.append(table[field.name].combine_chunks().take(table_rows))
                fields.append(_prefixed(field, column, prefixes[column]))
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def _naming_columns(table: pa.Table) -> list[str]:
    """Return the columns that name a cell: those before the first that is of a value column."""
    names: list[str] = table.column_names
    # A label may be named like the mark of open cells, but labels are texts.
    is_private = OPEN in names and pa.types.is_boolean(table.schema.field(OPEN).type)
    return names[: names.index(OPEN if is_private else COUNTS)]


def _rows_by_cell(table: pa.Table) -> dict[str, int]:
    return {cell: row for row, cell in enumerate(table["cell"].to_pylist())}


def _name_rows(
    tables: Mapping[str, pa.Table],
    rows: Mapping[str, Mapping[str, int]],
    naming: Sequence[str],
    cells: Sequence[str],
) -> tuple[list[pa.Array], list[pa.Field]]:
    """Return the columns that name each cell, from the first value column that has it."""
    stacked = pa.concat_tables([table.select(naming) for table in tables.values()])
    first_rows: dict[str, int] = {}
    start = 0
    for column, table in tables.items():
        for cell, row in rows[column].items():
            first_rows.setdefault(cell, start + row)
        start += table.num_rows
    positions = pa.array([first_rows[cell] for cell in cells], pa.int64())
    arrays = [stacked[name].combine_chunks().take(positions) for name in naming]
    return arrays, [stacked.schema.field(name) for name in naming]


def _prefixed(field: pa.Field, column: str, prefix: str) -> pa.Field:
    """Return the field of a value column by its name in the table of all."""
    metadata = dict(field.metadata or {})
    description = metadata.get(b"description", b"").decode()
    metadata[b"description"] = f"of {column}: {description}".encode()
    return pa.field(f"{prefix}_{field.name}", field.type, nullable=True, metadata=metadata)


Json = dict[str, Any]


def statements_of_whole(manifest: Json, columns: Sequence[Json]) -> Json:
    """Return the manifest of the whole with the facts about its cells, which all columns share.

    Parameters
    ----------
    manifest : dict
        Of the whole.
    columns : sequence of dict
        Manifest of each value column.
    """
    names = ", ".join(column["column"] for column in manifest["columns"])
    units = {column["value_unit"] for column in manifest["columns"]}
    shared = {name: columns[0][name] for name in ("grid", "selection")}
    value_unit = units.pop() if len(units) == 1 else ""
    return manifest | {
        **shared,
        "dataset": manifest["dataset"] | {"value": names, "value_unit": value_unit},
        "plan": {"statistics": manifest["statistics"]},
        "heading": format_heading(manifest["statistics"], names),
    }


def render_whole_metadata(
    table: pa.Table,
    statements: Json,
    names: frozenset[str],
    columns: Mapping[str, frozenset[str]],
) -> dict[str, bytes]:
    """Return the descriptions of a folder of several value columns, by file name.

    Parameters
    ----------
    table : pyarrow.Table
        Of all value columns.
    statements : dict
        As `statements_of_whole` returns them.
    names : frozenset of str
        Files beside the folders of the columns.
    columns : mapping of str to frozenset of str
        Files of each column by the name of its folder.
    """
    description = describe_release(table, statements, names)
    files = [
        file for folder, files_of in columns.items() for file in _files_of_column(folder, files_of)
    ]
    return render_descriptions(
        _with_gaps(replace(description, files=(*description.files, *files)), columns)
    )


def _files_of_column(folder: str, names: frozenset[str]) -> list[DataFile]:
    """Return the files of a value column that portals list: its data and its page."""
    return [
        replace(
            file,
            name=f"{folder}/{file.name}",
            key=f"{folder.lower()}-{file.key}",
            title=f"{file.title}, of {folder}",
        )
        for file in listed_files(names)
        if file.role in ("data", "overview")
    ]


def _with_gaps(
    description: ReleaseDescription, columns: Mapping[str, frozenset[str]]
) -> ReleaseDescription:
    """Return the description with columns that may be empty, where one has no such cell."""
    prefixes = tuple(f"{folder}_" for folder in columns)
    described = tuple(
        replace(column, optional=column.name.startswith(prefixes)) for column in description.columns
    )
    return replace(description, columns=described)
