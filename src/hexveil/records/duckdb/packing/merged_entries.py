"""Pairs of many cached tables added up as packed integers: users are numbered, then grouped.

Every key of a pair (hexagon, slot, labels, user, day) is numbered as it is met; a pair is then one
integer, and equal integers are equal pairs. Tables are merged whenever as many rows wait as are
merged already, so that memory is bounded by the distinct pairs, not by the days. At the end keys
are renumbered in their order. Of pairs that are counted by fine bin, the bin is a last key, and a
pair is its rows together. What comes out is what grouping by the engine gives.

Sums wrap as those of `unpacking` do: they are refused by the number of records, or not used.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hexveil.base.arrow_numbers import to_arrow, to_numpy, to_table
from hexveil.model.pair_bins import PairBins, sort_numbers
from hexveil.records.duckdb.aggregation import FINE_BIN, SQUARES, TOTAL
from hexveil.records.duckdb.packing.unpacking import PackedPairs, rank_units

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from hexveil.records.duckdb.aggregation import GroupKeys

    Whole = NDArray[np.int64]

_ROWS_BEFORE_MERGING = 1 << 22
_BYTES_OF_PAIR = 160
"""Memory that a pair takes while two sets of them are merged."""
_KEY_BITS = 63
_ROWS_FOR_THREADS = 1 << 18


def merge_entries(
    tables: Sequence[str],
    keys: GroupKeys,
    left_out: Mapping[int, int],
    memory: float,
    n_bins: int = 0,
) -> PackedPairs | None:
    """Return the sum of cached tables of pairs; None if they do not fit, and the engine groups.

    Parameters
    ----------
    tables : sequence of str
        Parquet files with the keys, `n` and the sums.
    keys : GroupKeys
    left_out : mapping of int to int
        Per reason how many records it covers.
    memory : float
        Bytes.
    n_bins : int
        Fine bins, whose number is then a further column of the tables; 0 without.

    Raises
    ------
    OSError, pyarrow.ArrowException
        If a table is gone or damaged.
    """
    names = [*keys.cell, *keys.unit]
    most = int(memory / _BYTES_OF_PAIR)
    keyed: list[_Numbering | _BinField] = [_Numbering(name) for name in names]
    keyed += [_BinField((n_bins - 1).bit_length())] if n_bins else []
    merged = _Merged(keyed, min(_ROWS_BEFORE_MERGING, most // 2))
    for path in tables:
        merged.add(_read(path))
        if merged.n_rows > most or merged.bits > _KEY_BITS:
            return None
    return merged.packed(len(keys.cell), len(names), left_out) if merged.n_rows else None


def _read(path: str) -> pa.Table:
    """Return a table, with texts numbered as in the file."""
    metadata = pq.read_metadata(path)
    texts = [one.name for one in metadata.schema.to_arrow_schema() if pa.types.is_string(one.type)]
    # Of small tables, waking other threads takes longer than reading.
    with pq.ParquetFile(path, metadata=metadata, read_dictionary=texts) as file:
        return file.read(use_threads=metadata.num_rows > _ROWS_FOR_THREADS)


@dataclass
class _Numbering:
    """Numbers of the values of a key, in the order in which they are met."""

    name: str
    values: pa.Array | None = None
    bits: int = 1

    def number(self, column: pa.ChunkedArray) -> Whole:
        """Return the number of each value of a column."""
        encoded = column.combine_chunks()
        if not pa.types.is_dictionary(encoded.type):
            encoded = encoded.dictionary_encode()
        met = encoded.dictionary
        if self.values is None:
            self.values = met[:0]
        known = pc.index_in(met, self.values)
        new = met.filter(pc.is_null(known))
        if len(new):
            self.values = pa.concat_arrays([self.values, new])
            self.bits = max(len(self.values).bit_length(), self.bits)
            known = pc.index_in(met, self.values)
        numbers = to_numpy(known).astype(np.int64)
        return np.asarray(numbers[to_numpy(encoded.indices)])

    def order(self) -> tuple[Whole, pa.Array]:
        """Return the rank of each number, and the values in order."""
        assert self.values is not None  # noqa: S101  some row was numbered
        order = pc.array_sort_indices(self.values)
        rank = np.empty(len(order), dtype=np.int64)
        rank[to_numpy(order)] = np.arange(len(order))
        return rank, self.values.take(order)


@dataclass(frozen=True)
class _BinField:
    """The fine bin of a row: a number already, in the lowest bits."""

    bits: int
    name: str = FINE_BIN

    def number(self, column: pa.ChunkedArray) -> Whole:
        """Return the bin of each row."""
        return to_numpy(column).astype(np.int64)

    def order(self) -> tuple[Whole, pa.Array]:
        """Return the rank of each bin, and the bins in order."""
        bins = np.arange(1 << self.bits)
        return bins, to_arrow(bins)


@dataclass
class _Merged:
    """Pairs of the tables so far, and rows that wait to be merged."""

    keys: list[_Numbering | _BinField]
    at_once: int
    widths: list[int] = field(default_factory=list)
    waiting: list[tuple[Whole, dict[str, Whole]]] = field(default_factory=list)
    n_rows: int = 0
    _n_merged: int = 0

    @property
    def bits(self) -> int:
        """Bits of a packed pair."""
        return sum(key.bits for key in self.keys)

    def add(self, table: pa.Table) -> None:
        """Add the rows of a table."""
        columns = [key.number(table[key.name]) for key in self.keys]
        widths = [key.bits for key in self.keys]
        if self.bits > _KEY_BITS:
            return
        if widths != self.widths:
            self.waiting = [
                (_pack(_unpack(pair, self.widths), widths), sums) for pair, sums in self.waiting
            ]
            self.widths = widths
        names = [name for name in ("n", TOTAL, SQUARES) if name in table.column_names]
        self.waiting.append((_pack(columns, widths), {n: _low_bits(table[n]) for n in names}))
        self.n_rows += table.num_rows
        if self.n_rows - self._n_merged > max(self._n_merged, self.at_once):
            self.reduce()

    def reduce(self) -> None:
        """Merge all rows to distinct pairs."""
        pair, sums = _summed(*self._taken())
        self.waiting = [(pair, sums)]
        self.n_rows = self._n_merged = pair.size

    def _taken(self) -> tuple[Whole, dict[str, list[Whole]]]:
        """Return all rows, which wait no more."""
        rows, self.waiting = self.waiting, []
        parts = {name: [sums[name] for _, sums in rows] for name in rows[0][1]}
        return np.concatenate([pair for pair, _ in rows]), parts

    def packed(self, n_cell_keys: int, n_keys: int, left_out: Mapping[int, int]) -> PackedPairs:
        """Return all pairs in the order of their keys; their rows are used up.

        Parameters
        ----------
        n_cell_keys, n_keys : int
            Keys of a cell, and of a pair; a further one is the fine bin.
        left_out : mapping of int to int
        """
        pair, parts = self._taken()
        ordered = [key.order() for key in self.keys]
        numbers = [
            rank[number]
            for (rank, _), number in zip(ordered, _unpack(pair, self.widths), strict=True)
        ]
        # Sorted once, in the order of their keys, unless so many came that some are merged.
        pair, sums = _summed(_pack(numbers, self.widths), parts)
        bins = None
        if n_keys < len(self.keys):
            pair, sums, bins = _split_bins(pair, sums, self.widths[-1])
        unit_bits = sum(self.widths[n_cell_keys:n_keys])
        unit, distinct = rank_units(pair.view(np.uint64), unit_bits)
        unit_rows = distinct.view(np.int64)
        pair >>= unit_bits
        starts = np.flatnonzero(np.diff(pair, prepend=-1))
        cell_rows = pair[starts]
        cells = _values(cell_rows, self.keys[:n_cell_keys], ordered[:n_cell_keys])
        cells["users"] = users = np.diff(starts, append=pair.size)
        cell = np.repeat(np.arange(starts.size), users)
        cells["records"] = np.add.reduceat(sums["n"], starts)
        of_unit = slice(n_cell_keys, n_keys)
        units = _values(unit_rows, self.keys[of_unit], ordered[of_unit])
        return PackedPairs(to_table(cells), to_table(units), cell, unit, sums, dict(left_out), bins)


def _pack(columns: Sequence[Whole], widths: Sequence[int]) -> Whole:
    """Return columns of numbers as one number each row, the first in the highest bits."""
    packed = np.zeros(columns[0].size, dtype=np.int64)
    for column, width in zip(columns, widths, strict=True):
        packed <<= width
        packed |= column
    return packed


def _unpack(packed: Whole, widths: Sequence[int]) -> list[Whole]:
    columns, rest = [], packed
    for width in reversed(widths):
        columns.append(rest & ((1 << width) - 1))
        rest = rest >> width
    return columns[::-1]


def _low_bits(column: pa.ChunkedArray) -> Whole:
    """Return whole numbers, of a decimal the lowest 64 bits."""
    if not pa.types.is_decimal128(column.type):
        return to_numpy(column).astype(np.int64, copy=False)
    array = column.combine_chunks()
    words = np.frombuffer(array.buffers()[1], np.int64)
    return words[2 * array.offset : 2 * (array.offset + len(array)) : 2]


def _summed(pair: Whole, parts: dict[str, list[Whole]]) -> tuple[Whole, dict[str, Whole]]:
    """Return distinct pairs in order, and their sums; the parts are used up."""
    order, pair = sort_numbers(pair)
    starts = np.flatnonzero(np.diff(pair, prepend=-1))
    sums = {}
    for name in tuple(parts):
        column = np.concatenate(parts.pop(name))[order]
        sums[name] = column if starts.size == pair.size else np.add.reduceat(column, starts)
    return pair[starts], sums


def _split_bins(
    packed: Whole, sums: dict[str, Whole], bits: int
) -> tuple[Whole, dict[str, Whole], PairBins]:
    """Return distinct pairs, their sums, and their counts by the bin in the lowest bits."""
    fine_bin = packed & ((1 << bits) - 1)
    pair = packed >> bits
    starts = np.flatnonzero(np.diff(pair, prepend=-1))
    number = np.repeat(np.arange(starts.size), np.diff(starts, append=pair.size))
    added = {name: np.add.reduceat(column, starts) for name, column in sums.items()}
    return pair[starts], added, PairBins(number, fine_bin, sums["n"])


def _values(
    packed: Whole, keys: Sequence[_Numbering | _BinField], ordered: Sequence[tuple[Whole, pa.Array]]
) -> dict[str, NDArray[np.int64] | pa.Array]:
    """Return the keys of packed ranks, by their names."""
    numbers = _unpack(packed, [key.bits for key in keys])
    return {
        key.name: values.take(to_arrow(number))
        for key, (_, values), number in zip(keys, ordered, numbers, strict=True)
    }
