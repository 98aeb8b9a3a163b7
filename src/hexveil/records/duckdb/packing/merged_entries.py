"""Pairs of many cached tables added up as packed integers: keys are numbered in their order.

Every key of a pair (hexagon, slot, labels, user, day) has a rank among its values in all tables; a
pair is then one integer, equal integers are equal pairs, and their order is that of the keys. Ranks
rise with values, so a table in the order of its keys stays in order whatever other tables hold:
the largest such table (a pack of days) is never sorted. The others are sorted, and put among its
rows. Tables are merged whenever as many rows wait as are merged already, so that memory is bounded
by the distinct pairs, not by the days. What comes out is what grouping by the engine gives.

Sums wrap as those of `unpacking` do: they are refused by the number of records, or not used.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hexveil.base.arrow_numbers import to_arrow, to_numpy, to_table
from hexveil.records.duckdb.aggregation import SQUARES, TOTAL, sort_numbers
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
    tables: Sequence[str], keys: GroupKeys, left_out: Mapping[int, int], memory: float
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

    Raises
    ------
    OSError, pyarrow.ArrowException
        If a table is gone or damaged.
    """
    names = [*keys.cell, *keys.unit]
    most = int(memory / _BYTES_OF_PAIR)
    merged = _Merged(names, min(_ROWS_BEFORE_MERGING, most // 2))
    for path in tables:
        merged.add(_read(path))
        if merged.n_rows > most or merged.bits > _KEY_BITS:
            return None
    if not merged.n_rows:
        return None
    merged.reduce()
    return None if merged.bits > _KEY_BITS else merged.packed(len(keys.cell), left_out)


def _read(path: str) -> pa.Table:
    """Return a table, with texts numbered as in the file."""
    metadata = pq.read_metadata(path)
    texts = [one.name for one in metadata.schema.to_arrow_schema() if pa.types.is_string(one.type)]
    # Of small tables, waking other threads takes longer than reading.
    with pq.ParquetFile(path, metadata=metadata, read_dictionary=texts) as file:
        return file.read(use_threads=metadata.num_rows > _ROWS_FOR_THREADS)


@dataclass
class _NumberedRows:
    """Rows with their keys numbered by values of their own, and their sums."""

    values: list[pa.Array]
    numbers: list[Whole]
    sums: dict[str, Whole]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.numbers[0].size)

    @classmethod
    def of(cls, table: pa.Table, names: Sequence[str]) -> _NumberedRows:
        """Return the rows of a table."""
        keys = [_encode(table[name]) for name in names]
        summed = [name for name in ("n", TOTAL, SQUARES) if name in table.column_names]
        return cls(
            [values for values, _ in keys],
            [numbers for _, numbers in keys],
            {name: _low_bits(table[name]) for name in summed},
        )

    def packed(self, values: Sequence[pa.Array], widths: Sequence[int]) -> Whole:
        """Return each row's keys as one number, by their ranks among values in order."""
        pair = np.zeros(self.n_rows, dtype=np.int64)
        for own, number, every, width in zip(
            self.values, self.numbers, values, widths, strict=True
        ):
            pair <<= width
            pair |= to_numpy(pc.index_in(own, every)).astype(np.int64)[number]
        return pair


def _encode(column: pa.ChunkedArray) -> tuple[pa.Array, Whole]:
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


@dataclass
class _Merged:
    """Pairs of the tables so far in order, and rows that wait to be merged."""

    names: list[str]
    at_once: int
    values: list[pa.Array] = field(default_factory=list)
    widths: list[int] = field(default_factory=list)
    pair: Whole = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    sums: dict[str, Whole] = field(default_factory=dict)
    waiting: list[_NumberedRows] = field(default_factory=list)
    n_rows: int = 0

    @property
    def bits(self) -> int:
        """Bits of a packed pair."""
        return sum(self.widths)

    def add(self, table: pa.Table) -> None:
        """Add the rows of a table."""
        if not table.num_rows:
            return
        self.waiting.append(_NumberedRows.of(table, self.names))
        self.n_rows += table.num_rows
        # The largest is not sorted, and nothing is won by merging it before others wait.
        largest = max(self.pair.size, *(run.n_rows for run in self.waiting))
        if self.n_rows - largest > max(largest, self.at_once):
            self.reduce()

    def reduce(self) -> None:
        """Merge all rows to distinct pairs in order."""
        runs, self.waiting = self.waiting, []
        if not runs:
            return
        if self.pair.size:
            runs.append(_NumberedRows(self.values, _unpack(self.pair, self.widths), self.sums))
        self.values = [
            _ordered([run.values[key] for run in runs]) for key in range(len(self.names))
        ]
        self.widths = [max((len(every) - 1).bit_length(), 1) for every in self.values]
        if self.bits > _KEY_BITS:
            return
        packed = [(run.packed(self.values, self.widths), run.sums) for run in runs]
        runs.clear()
        self.pair, self.sums = _merged_runs(packed)
        self.n_rows = self.pair.size

    def packed(self, n_cell_keys: int, left_out: Mapping[int, int]) -> PackedPairs:
        """Return all merged pairs; their rows are used up."""
        pair, sums = self.pair, self.sums
        unit_bits = sum(self.widths[n_cell_keys:])
        unit, distinct = rank_units(pair.view(np.uint64), unit_bits)
        pair >>= unit_bits
        starts = np.flatnonzero(np.diff(pair, prepend=-1))
        cells = self._keys(pair[starts], slice(None, n_cell_keys))
        cells["users"] = users = np.diff(starts, append=pair.size)
        cell = np.repeat(np.arange(starts.size), users)
        cells["records"] = np.add.reduceat(sums["n"], starts)
        units = self._keys(distinct.view(np.int64), slice(n_cell_keys, None))
        return PackedPairs(to_table(cells), to_table(units), cell, unit, sums, dict(left_out))

    def _keys(self, packed: Whole, some: slice) -> dict[str, Any]:
        """Return some keys of packed ranks, by their names."""
        ranks = _unpack(packed, self.widths[some])
        return {
            name: values.take(to_arrow(rank))
            for name, values, rank in zip(self.names[some], self.values[some], ranks, strict=True)
        }


def _ordered(parts: Sequence[pa.Array]) -> pa.Array:
    """Return the distinct values of some arrays in order: texts in the order of their bytes."""
    every = pa.concat_arrays(parts).unique()
    return every.take(pc.array_sort_indices(every))


def _merged_runs(runs: list[tuple[Whole, dict[str, Whole]]]) -> tuple[Whole, dict[str, Whole]]:
    """Return the distinct pairs of some runs in order, and their sums; the runs are used up."""
    in_order = [run for run in runs if (run[0][1:] > run[0][:-1]).all()]
    if not in_order:
        return _summed(runs)
    base = max(in_order, key=lambda run: run[0].size)
    # By identity: runs hold arrays, which have no single answer to whether they are equal.
    others = [run for run in runs if run is not base]
    runs.clear()
    return _inserted(*base, *_summed(others)) if others else base


def _summed(runs: list[tuple[Whole, dict[str, Whole]]]) -> tuple[Whole, dict[str, Whole]]:
    """Return distinct pairs in order, and their sums, by sorting."""
    order, pair = sort_numbers(np.concatenate([pair for pair, _ in runs]))
    starts = np.flatnonzero(np.diff(pair, prepend=-1))
    sums = {}
    for name in runs[0][1]:
        column = np.concatenate([sums[name] for _, sums in runs])[order]
        sums[name] = column if starts.size == pair.size else np.add.reduceat(column, starts)
    return pair[starts], sums


def _inserted(
    base: Whole, base_sums: dict[str, Whole], more: Whole, more_sums: dict[str, Whole]
) -> tuple[Whole, dict[str, Whole]]:
    """Return the union of two ordered runs of distinct pairs; sums of equal pairs are added up."""
    place = np.searchsorted(base, more)
    known = place < base.size
    known[known] = base[place[known]] == more[known]
    new = np.flatnonzero(~known)
    at = place[new] + np.arange(new.size)
    stays = np.ones(base.size + new.size, dtype=np.bool_)
    stays[at] = False

    def joined(old: Whole, fresh: Whole) -> Whole:
        column = np.empty(stays.size, dtype=np.int64)
        column[at], column[stays] = fresh, old
        return column

    pair, sums = joined(base, more[new]), {}
    # Where known pairs of the base are by now: behind the new ones that stand before them.
    moved = place[known] + np.searchsorted(place[new], place[known], side="right")
    for name, column in base_sums.items():
        sums[name] = joined(column, more_sums[name][new])
        sums[name][moved] += more_sums[name][known]
    return pair, sums


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
