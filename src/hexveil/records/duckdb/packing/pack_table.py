"""PRIVATE. The table of a pack on disk: its cells, its units and its rows, an Arrow stream each.

Rows are in the order of their keys. A cell is therefore a number of rows, and a row names its unit
by number: reading a pack groups nothing, sorts nothing and compares no text. Numbers are not
compressed and as narrow as the largest of a column allows, so that a pack is read at the speed of
memory. Of pairs that are counted by fine bin, a row is a pair and bin.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from hexveil.base.arrow_numbers import to_arrow, to_numpy, to_table
from hexveil.records.duckdb.aggregation import FINE_BIN

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hexveil.records.duckdb.packing.unpacking import PackedPairs

ROWS, UNIT = "rows", "unit"
_NARROW = (np.uint8, np.uint16, np.uint32)


@dataclass(frozen=True, eq=False, repr=False)
class PackRows:
    """PRIVATE. Rows of a pack in order.

    Attributes
    ----------
    keys : pyarrow.Table
        The keys of each cell, in order.
    rows : ndarray of int64, shape (n_cells,)
        How many rows each cell has.
    units : pyarrow.Table
        The keys of each unit, in order.
    unit : ndarray of int, shape (n_rows,)
        Number of each row's unit.
    fine_bin : ndarray of int, or None
        Fine bin of each row, where records are counted by bin.
    sums : dict of str to ndarray of int
        `n`, `total` and perhaps `total_sq` of each row.
    """

    keys: pa.Table
    rows: NDArray[np.int64]
    units: pa.Table
    unit: NDArray[Any]
    fine_bin: NDArray[Any] | None
    sums: dict[str, NDArray[Any]]


def write_rows(pairs: PackedPairs, path: str) -> None:
    """Write pairs as the table of a pack.

    Raises
    ------
    OSError
    """
    numbers: dict[str, NDArray[Any]] = {UNIT: pairs.unit, **pairs.sums}
    rows = pairs.users
    if pairs.bins is not None:
        pair = pairs.bins.pair
        numbers = {UNIT: pairs.unit[pair], FINE_BIN: pairs.bins.bin, **pairs.binned_sums()}
        rows = np.bincount(pairs.cell[pair], minlength=rows.size)
    keys = pairs.cells.drop_columns(["users", "records"])
    narrow = {name: narrowed(column) for name, column in numbers.items()}
    tables = (keys.append_column(ROWS, to_arrow(rows)), pairs.units, to_table(narrow))
    # Each of one batch: what is read need not be joined.
    tables = tuple(table.combine_chunks() for table in tables)
    with pa.OSFile(path, "wb") as sink:
        for table in tables:
            with pa.ipc.new_stream(sink, table.schema) as stream:
                stream.write_table(table, max_chunksize=max(table.num_rows, 1))


def read_rows(path: str) -> PackRows:
    """Return the rows of a pack.

    Raises
    ------
    OSError, pyarrow.ArrowException
        If the table is gone or damaged.
    """
    # Read, not mapped: a file that is cut short while it is mapped ends the process.
    source = pa.BufferReader(Path(path).read_bytes())
    keys, units, table = (pa.ipc.open_stream(source).read_all() for _ in range(3))
    numbers = {name: to_numpy(table[name]) for name in table.column_names}
    rows = to_numpy(keys[ROWS])
    unit, fine_bin = numbers.pop(UNIT), numbers.pop(FINE_BIN, None)
    return PackRows(keys.drop_columns([ROWS]), rows, units, unit, fine_bin, numbers)


def narrowed(column: NDArray[Any]) -> NDArray[Any]:
    """Return whole numbers in the narrowest type without a sign; with negative ones, as they are.

    Examples
    --------
    >>> [narrowed(np.array([0, end])).dtype.name for end in (255, 256, 2**32, -1)]
    ['uint8', 'uint16', 'int64', 'int64']
    """
    # Sums that wrapped are negative: they are refused or not used, and stay what they are.
    if int(column.min(initial=0)) < 0:
        return column
    largest = int(column.max(initial=0))
    for kind in _NARROW:
        if largest <= np.iinfo(kind).max:
            return column.astype(kind, copy=False)
    return column.astype(np.int64, copy=False)
