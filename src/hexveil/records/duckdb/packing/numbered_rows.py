"""Rows of cached tables with their keys as numbers: of a day's table, and of a pack.

Numbers are a table's own, until the keys of all tables are in order: `packed` then makes one
integer of each row. Of a day, values are numbered as they are met; a pack's cells and units are
numbered already, so that none of its rows is looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hexveil.base.arrow_numbers import to_arrow, to_numpy
from hexveil.records.duckdb.aggregation import FINE_BIN, SQUARES, TOTAL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexveil.base.arrays import Ints
    from hexveil.records.duckdb.packing.pack_table import PackRows


_BLOCK = 1 << 16
"""Rows that are numbered at once, so that they stay in a processor's own memory."""
_ROWS_FOR_THREADS = 1 << 18


def read_table(path: str) -> pa.Table:
    """Return a table, with texts numbered as in the file."""
    metadata = pq.read_metadata(path)
    texts = [one.name for one in metadata.schema.to_arrow_schema() if pa.types.is_string(one.type)]
    # Of small tables, waking other threads takes longer than reading.
    with pq.ParquetFile(path, metadata=metadata, read_dictionary=texts) as file:
        return file.read(use_threads=metadata.num_rows > _ROWS_FOR_THREADS)


@dataclass
class NumberedRows:
    """Rows with their keys numbered by values of their own, and their sums."""

    values: list[pa.Array]
    numbers: list[Ints]
    sums: dict[str, Ints]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.numbers[0].size)

    @classmethod
    def of(cls, table: pa.Table, names: Sequence[str], sign: int = 1) -> NumberedRows:
        """Return the rows of a table; with a sign of -1 they are taken away."""
        keys = [_encode(table[name]) for name in names if name != FINE_BIN]
        if FINE_BIN in names:
            # Of one type however pairs were counted: bins of several tables are put in order.
            keys.append(_encode(table[FINE_BIN].cast(pa.int64())))
        summed = [name for name in ("n", TOTAL, SQUARES) if name in table.column_names]
        return cls(
            [values for values, _ in keys],
            [numbers for _, numbers in keys],
            {name: sign * _low_bits(table[name]) for name in summed},
        )

    def packed(self, values: Sequence[pa.Array], widths: Sequence[int]) -> Ints:
        """Return each row's keys as one number, by their ranks among values in order."""
        pair = np.zeros(self.n_rows, dtype=np.int64)
        for own, number, every, width in zip(
            self.values, self.numbers, values, widths, strict=True
        ):
            pair <<= width
            pair |= to_numpy(pc.index_in(own, every)).astype(np.int64)[number]
        return pair


@dataclass
class NumberedPack:
    """Rows of a pack, numbered by cells and units: no row is looked at to number its keys."""

    names: list[str]
    rows: PackRows

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.rows.unit.size)

    @property
    def sums(self) -> dict[str, Ints]:
        """The sums of each row, as narrow as they are stored."""
        return self.rows.sums

    @property
    def values(self) -> list[pa.Array]:
        """Values of each key; those of cells and units repeat."""
        return [self._column(name) for name in self.names]

    def _column(self, name: str) -> pa.Array:
        if name == FINE_BIN:
            return to_arrow(np.unique(self._bins()))
        table = self.rows.keys if name in self.rows.keys.column_names else self.rows.units
        return table[name].combine_chunks()

    def _bins(self) -> Ints:
        assert self.rows.fine_bin is not None  # noqa: S101  where bins are counted alone
        return self.rows.fine_bin.astype(np.int64, copy=False)

    def packed(self, values: Sequence[pa.Array], widths: Sequence[int]) -> Ints:
        """Return each row's keys as one number, by their ranks among values in order."""
        n_cell_keys, bits = self.rows.keys.num_columns, sum(widths)
        cell = np.zeros(self.rows.rows.size, dtype=np.int64)
        unit = np.zeros(self.rows.units.num_rows, dtype=np.int64)
        every = list(zip(self.names, values, widths, strict=True))
        for place, (name, ordered, width) in enumerate(every):
            bits -= width
            if name != FINE_BIN:
                rank = to_numpy(pc.index_in(self._column(name), ordered)).astype(np.int64)
                part = cell if place < n_cell_keys else unit
                part |= rank << bits
        pair = np.repeat(cell, self.rows.rows)
        for start in range(0, pair.size, _BLOCK):
            block = slice(start, start + _BLOCK)
            pair[block] |= unit[self.rows.unit[block]]
        if self.rows.fine_bin is not None:
            pair |= np.searchsorted(to_numpy(values[-1]), self._bins())
        return pair


def _encode(column: pa.ChunkedArray) -> tuple[pa.Array, Ints]:
    """Return distinct values of a key, and the number of each row's value."""
    encoded = column.combine_chunks()
    if pa.types.is_dictionary(encoded.type):
        return encoded.dictionary, to_numpy(encoded.indices)
    if pa.types.is_integer(encoded.type) and len(encoded):
        # Rows in order have runs of equal hexagons and slots, of which few are numbered.
        whole = to_numpy(encoded)
        starts = np.flatnonzero(np.concatenate([[True], whole[1:] != whole[:-1]]))
        if 4 * starts.size < whole.size:
            values, numbers = _encode(pa.chunked_array([to_arrow(whole[starts])]))
            return values, np.repeat(numbers, np.diff(starts, append=whole.size))
    encoded = encoded.dictionary_encode()
    return encoded.dictionary, to_numpy(encoded.indices)


def _low_bits(column: pa.ChunkedArray) -> Ints:
    """Return whole numbers, of a decimal the lowest 64 bits."""
    if not pa.types.is_decimal128(column.type):
        return to_numpy(column).astype(np.int64, copy=False)
    array = column.combine_chunks()
    words = np.frombuffer(array.buffers()[1], np.int64)
    return words[2 * array.offset : 2 * (array.offset + len(array)) : 2]
