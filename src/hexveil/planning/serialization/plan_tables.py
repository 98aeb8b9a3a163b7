"""Tables of a saved plan: figures for reviewers, and the exact arrays beside them."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from hexveil.base.errors import InputError, StorageError
from hexveil.model.cells import Cells, CellTable, Labels, OneCell
from hexveil.model.occupancy import LocalOccupancy
from hexveil.model.suppressed_pairs import SuppressedPairs

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from hexveil.model.occupancy import Occupancy
    from hexveil.planning.plan import Plan
    from hexveil.planning.serialization.codec import Arrays, Words

    Tables = dict[str, pa.Table]

WORDS = "plan.json"
TABLES = ("cells.parquet", "users.parquet", "pairs.parquet")
CELLS, USERS, PAIRS = TABLES
COLUMNS = {
    "contribution_cap": (CELLS, "mean_kept"),
    "noise_scale_records": (CELLS, "noise_records"),
    "variance_cap": (CELLS, "variance_kept"),
    "variance_noise": (CELLS, "variance_noise"),
    "lower": (CELLS, "lower"),
    "upper": (CELLS, "upper"),
    "predicted_error": (CELLS, "predicted_error"),
    "total": (CELLS, "weight_total"),
    "contribution_factor": (USERS, "factor"),
    "factor": (USERS, "weight_factor"),
    "suppressed_pairs": (PAIRS, "dropped"),
    "weight": (PAIRS, "weight"),
    "cell": (PAIRS, "cell"),
    "user": (PAIRS, "user"),
}
"""File and column of each array, by its field."""
TYPES = {
    CELLS: {"cell": pa.string(), "hexagon": pa.uint64(), "slot": pa.int64()},
    USERS: {"user": pa.int64(), "loss": pa.float64()},
    PAIRS: {"cell": pa.int64(), "user": pa.int64(), "n": pa.int64()},
}
NEEDED = {CELLS: ("cell",), USERS: ("user", "loss"), PAIRS: ("cell", "user", "n")}
TARGET, LABEL = "target_", "label_"
"""Prefixes of the columns of targets and of labels."""
DISTRIBUTED = "distributed"
"""Word of plans with pairs that do not fit in memory: pairs.parquet has suppressed ones alone."""


# ---- writing ----


def tables_of(plan: Plan, arrays: Arrays) -> Tables:
    """Return the tables of the folder by file name: figures first, then the exact arrays."""
    tables = {CELLS: plan.table, USERS: plan.users, PAIRS: _pairs_table(plan)}
    columns = {_column(name): pa.array(array) for name, array in arrays.items()}
    if plan.facts is not None:
        cells = plan.facts.cells
        for name, place in (("hexagon", cells.hexagon), ("slot", cells.slot)):
            if place is not None:
                columns[CELLS, name] = pa.array(place)
        for name, labels in cells.labels.items():
            columns[CELLS, LABEL + name] = pa.array(labels, type=pa.string())
    for (file, column), values in columns.items():
        if column not in tables[file].column_names:
            tables[file] = tables[file].append_column(column, values)
    return tables


def _column(name: str) -> tuple[str, str]:
    """Return the file and the column of an array by the path of its field."""
    *_, around, last = ("", *name.split("."))
    return (CELLS, TARGET + last) if around == "target" else COLUMNS[last]


def _pairs_table(plan: Plan) -> pa.Table:
    """Return the counts of all pairs; where they stay elsewhere, the suppressed ones alone."""
    if plan.occupancy.is_local:
        local = plan.occupancy.local()
        return pa.table({"cell": local.cell, "user": local.user, "n": local.n})
    suppressed, none = plan.allocation.suppressed_pairs, np.zeros(0, dtype=np.int64)
    cell, user = none, none
    if isinstance(suppressed, SuppressedPairs):
        cell, user = suppressed.cell, suppressed.user
    return pa.table({"cell": cell, "user": user, "n": 0 * cell})


def digest(words: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> str:
    """Return the SHA-256 of the contents of a plan's files, whatever their bytes.

    Parameters
    ----------
    words : mapping
        Contents of plan.json, without "digest".
    tables : mapping of file name to Table
        Of a plan of means and variances; none of others.
    """
    total = hashlib.sha256(json.dumps(words, sort_keys=True).encode())
    for name, table in tables.items():
        for column in table.column_names:
            values = table[column].combine_chunks()
            # Lengths and types first, so that no two folders share the hashed bytes.
            head = [name, column, str(values.type), len(values), values.null_count]
            total.update(json.dumps(head).encode())
            total.update(_canonical(values))
    return total.hexdigest()


def _canonical(values: pa.Array) -> bytes:
    """Return bytes that equal columns share: little-endian numbers, or JSON of anything else."""
    # Arrow's own buffers keep offsets, padding and whatever stands under a null.
    is_number = pa.types.is_integer(values.type) or pa.types.is_floating(values.type)
    if values.null_count or not (is_number or pa.types.is_boolean(values.type)):
        return json.dumps(values.to_pylist(), default=str).encode()
    array = values.to_numpy(zero_copy_only=False)
    return bytes(np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).tobytes())


def grid_words(grid: Cells | Labels) -> Words:
    """Return the grid in words; places stand in the table of cells."""
    if isinstance(grid, Labels):
        return {"columns": [] if isinstance(grid, OneCell) else list(grid.columns)}
    return {name: getattr(grid, name) for name in ("resolution", "timeslot", "timezone", "slot")}


# ---- reading ----


def array_names(tables: Tables) -> set[str]:
    """Return the fields of the arrays that the tables of a former folder have."""
    has = {(file, name) for file, table in tables.items() for name in table.column_names}
    return {name for name, place in COLUMNS.items() if place in has}


class TableArrays(dict[str, Any]):
    """Arrays of a folder by the path of their field, each a column of a table."""

    def __init__(self, tables: Tables) -> None:
        super().__init__()
        self.tables = tables

    def __missing__(self, name: str) -> np.ndarray[Any, Any]:
        file, column = _column(name)
        return numbers(self.tables[file], column)


def numbers(table: pa.Table, column: str) -> np.ndarray[Any, Any]:
    """Return a column without gaps as an array; InputError for one that there is not."""
    if column not in table.column_names:
        raise InputError(f"its tables have no column {column}.")
    return np.asarray(table[column].combine_chunks().to_numpy(zero_copy_only=False))


def occupancy_of(words: Words, tables: Tables, elsewhere: Occupancy | None) -> Occupancy:
    """Return the counts of the folder; where their pairs are elsewhere, those that were given."""
    cells, users, pairs = (tables[name] for name in TABLES)
    if not words["occupancy"].get(DISTRIBUTED, False):
        columns = {name: numbers(pairs, name) for name in ("cell", "user", "n")}
        return LocalOccupancy(**columns, n_cells=cells.num_rows, n_users=users.num_rows)
    if elsewhere is None:
        raise InputError(
            "its pairs of cells and users are not in the folder, because they did not fit in "
            "memory; read the records as they were read then and load hv.Plan.load(folder, "
            "dataset.occupancy)."
        )
    sizes = elsewhere.n_cells, elsewhere.n_users
    stated = words["occupancy"]["fingerprint"]
    if elsewhere.fingerprint != stated or sizes != (cells.num_rows, users.num_rows):
        raise InputError(
            "it was made for other records, or for these with all pairs in memory; plan and save "
            "again, or read them as they were read then (memory, spark.hexveil.pairsOnDriver)."
        )
    return elsewhere


def cells_of(words: Words, table: pa.Table) -> CellTable:
    """Return the cells of a folder, with the names that a recipient reads."""
    if "columns" not in words:
        grid: Cells | Labels = Cells(**words)
    else:
        grid = Labels(*words["columns"]) if words["columns"] else OneCell()
    columns = table.column_names
    labels = {
        name.removeprefix(LABEL): tuple(table[name].to_pylist())
        for name in columns
        if name.startswith(LABEL)
    }
    places = {name: numbers(table, name) for name in ("hexagon", "slot") if name in columns}
    cells = CellTable(grid, **places, labels=labels)
    if list(cells.names()) != table["cell"].to_pylist():
        raise InputError("the names of cells do not fit its places or labels.")
    return cells


def read_bytes(file: Path) -> bytes:
    """Return the bytes of a file of a saved plan; InputError where it is missing."""
    try:
        return file.read_bytes()
    except FileNotFoundError:
        raise InputError(
            f"{file} is missing; a saved plan has {WORDS}, {', '.join(TABLES)}: plan and save "
            "again."
        ) from None
    except OSError as error:
        raise StorageError(
            f"{file} cannot be read ({error.strerror or type(error).__name__})."
        ) from None


def damaged_file(file: Path, what: str) -> NoReturn:
    """Raise InputError for a file that is no part of a saved plan."""
    raise InputError(f"{file} {what}; plan and save again.")


def read_table(file: Path) -> pa.Table:
    """Return the table of a file that has the columns of a saved plan, without gaps."""
    data = read_bytes(file)
    try:
        # From memory: the bytes that are checked are the bytes that are used.
        table = pa.parquet.ParquetFile(pa.BufferReader(data)).read()
    except (pa.ArrowException, OSError, ValueError):
        damaged_file(file, "is not a Parquet file that can be read")
    names, types = table.column_names, TYPES[file.name]
    # A reader by name would see one of the two, a reader by position the other.
    if len(set(names)) < len(names):
        damaged_file(file, "has two columns of one name")
    for name in NEEDED[file.name]:
        if name not in names:
            damaged_file(file, f"has no column {name}")
    for name in names:
        kind = types.get(name, pa.string() if name.startswith(LABEL) else None)
        if kind is not None and table.schema.field(name).type != kind:
            damaged_file(
                file, f"has a column {name} of {table.schema.field(name).type}, not {kind}"
            )
        if table[name].null_count:
            damaged_file(file, f"has empty places in the column {name}")
    return table
