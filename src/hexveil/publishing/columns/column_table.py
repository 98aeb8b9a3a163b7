"""One table of several value columns: a row per cell of any column, prefixed columns of each."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import pyarrow as pa

from hexveil.base.errors import InputError
from hexveil.model.declared_grid import ColumnFacts, DeclaredColumns

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
