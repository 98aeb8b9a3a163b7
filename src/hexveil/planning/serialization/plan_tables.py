"""Tables of a saved plan: figures for reviewers, and the exact arrays beside them."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from hexveil.base.errors import InputError, StorageError
from hexveil.model.occupancy import LocalOccupancy, Occupancy
from hexveil.model.pair_columns import SuppressedPairs

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from hexveil.planning.moment_part import MomentPart
    from hexveil.planning.serialization.codec import Arrays, Words

    Tables = dict[str, pa.Table]

WORDS = "plan.json"
TABLES = ("cells.parquet", "users.parquet", "pairs.parquet")
CELLS, USERS, PAIRS = TABLES
PER_USER = ("contribution_factor", "factor")
SUPPRESSED = "allocation.suppressed_pairs"
PER_PAIR = ("suppressed_pairs", "weight", "cell", "user")
"""Fields with arrays that have an entry for each user, and for each pair; others are of cells."""
LABEL = "label_"
"""Prefix of the columns of labels."""
DISTRIBUTED = "distributed"
"""Word of plans with pairs that do not fit in memory: pairs.parquet has suppressed ones alone."""


# ---- writing ----


def tables_of(plan: MomentPart, arrays: Arrays) -> Tables:
    """Return the tables of the folder by file name: figures first, then the exact arrays."""
    tables = {CELLS: plan.table, USERS: plan.users, PAIRS: _pairs_table(plan)}
    for name, array in _of_all_pairs(plan, arrays).items():
        field = name.rpartition(".")[2]
        file = USERS if field in PER_USER else PAIRS if field in PER_PAIR else CELLS
        if name not in tables[file].column_names:
            tables[file] = tables[file].append_column(name, pa.array(array))
    for name, labels in {} if plan.facts is None else plan.facts.cells.labels.items():
        column = pa.array(labels, type=pa.string())
        tables[CELLS] = tables[CELLS].append_column(LABEL + name, column)
    return tables


def _pairs_table(plan: MomentPart) -> pa.Table:
    """Return the counts of all pairs; where they stay elsewhere, the suppressed ones alone."""
    if plan.occupancy.is_local:
        local = plan.occupancy.local()
        return pa.table({"cell": local.cell, "user": local.user, "n": local.n})
    gone = plan.allocation.suppressed_pairs or SuppressedPairs.nothing(plan.occupancy)
    return pa.table({"cell": gone.cell, "user": gone.user, "n": 0 * gone.cell})


def _of_all_pairs(plan: MomentPart, arrays: Arrays) -> Arrays:
    """Return the arrays with suppressed pairs marked, where the table has all pairs."""
    gone = plan.allocation.suppressed_pairs
    if gone is None or not plan.occupancy.is_local:
        return arrays
    listed = {f"{SUPPRESSED}.{name}" for name in ("cell", "user")}
    others = {name: array for name, array in arrays.items() if name not in listed}
    return others | {SUPPRESSED: gone.of(plan.occupancy.local())}


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


# ---- reading ----


class TableArrays(dict[str, Any]):
    """Arrays of a folder by the path of their field, each a column of a table."""

    def __init__(self, tables: Tables) -> None:
        super().__init__()
        self.tables = tables

    def __missing__(self, name: str) -> np.ndarray[Any, Any]:
        for table in reversed(self.tables.values()):
            if name in table.column_names:
                return numbers(table, name)
            marked, _, column = name.rpartition(".")
            if marked in table.column_names:  # of all pairs: which are suppressed
                return np.asarray(numbers(table, column)[numbers(table, marked).astype(bool)])
        raise InputError(f"its tables have no column {name}.")


def numbers(table: pa.Table, column: str) -> np.ndarray[Any, Any]:
    """Return a column as an array; InputError for one with gaps."""
    values = table[column].combine_chunks()
    if values.null_count:
        raise InputError(f"its tables have empty places in the column {column}.")
    return np.asarray(values.to_numpy(zero_copy_only=False))


def labels_of(table: pa.Table) -> dict[str, tuple[str, ...]]:
    """Return the labels of cells by the column that they were read from."""
    names = (name for name in table.column_names if name.startswith(LABEL))
    return {name.removeprefix(LABEL): tuple(table[name].to_pylist()) for name in names}


def occupancy_of(words: Words, tables: Tables, elsewhere: Occupancy | None) -> Occupancy:
    """Return the counts of the folder; where their pairs are elsewhere, those that were given."""
    cells, users, pairs = (tables[name] for name in TABLES)
    if not words["occupancy"].get(DISTRIBUTED, False):
        columns = {name: numbers(pairs, name) for name in ("cell", "user", "n")}
        if any(column.dtype != np.int64 for column in columns.values()):
            raise InputError(f"{PAIRS} has numbers that are not whole.")
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
    """Return the table of a file of a saved plan."""
    data = read_bytes(file)
    try:
        # From memory: the bytes that are checked are the bytes that are used.
        return pa.parquet.ParquetFile(pa.BufferReader(data)).read()
    except (pa.ArrowException, OSError, ValueError):
        damaged_file(file, "is not a Parquet file that can be read")
