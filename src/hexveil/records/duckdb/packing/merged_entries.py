"""Pairs of many cached tables added up as packed integers: keys are numbered in their order.

Every key of a pair (hexagon, slot, labels, user, day) has a rank among its values in all tables; a
pair is then one integer, equal integers are equal pairs, and their order is that of the keys. Ranks
rise with values, so a table in the order of its keys stays in order whatever other tables hold: the
largest such table (a pack of days) is never sorted. The others are sorted, and put among its rows.
Tables are merged whenever as many rows wait as are merged already, so that memory is bounded by the
distinct pairs, not by the days. What comes out is what grouping by the engine gives. Of pairs that
are counted by fine bin, the bin is a last key, and a pair is its rows together.

Tables can be taken away as well: a pack that sums a day too many has that day subtracted. Sums are
whole numbers, so a pair is as it would be without the day, and one without a record is none.

Sums wrap as those of `unpacking` do: they are refused by the number of records, or not used.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hexveil.base.arrow_numbers import to_arrow, to_numpy, to_table
from hexveil.model.pair_bins import PairBins, sort_numbers
from hexveil.records.duckdb.aggregation import FINE_BIN
from hexveil.records.duckdb.packing.numbered_rows import NumberedPack, NumberedRows, read_table
from hexveil.records.duckdb.packing.pack_table import read_rows
from hexveil.records.duckdb.packing.unpacking import PackedPairs, rank_units, run_starts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hexveil.base.arrays import Ints
    from hexveil.records.duckdb.aggregation import GroupKeys


_ROWS_BEFORE_MERGING = 1 << 22
_BYTES_OF_PAIR = 160
"""Memory that a pair takes while two sets of them are merged."""
_PAIRS_ALWAYS_HELD = 2 * 10**9
"""Bytes of merged pairs that are held whatever the limit, as planning holds them."""
_KEY_BITS = 63


def merge_entries(
    tables: Sequence[str],
    keys: GroupKeys,
    left_out: Mapping[int, int],
    memory: float,
    n_bins: int = 0,
    pack: str | None = None,
    subtracted: Sequence[str] = (),
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
    pack : str, optional
        The table of a pack that is added too.
    subtracted : sequence of str
        Tables that the pack sums, to be taken away.

    Raises
    ------
    OSError, pyarrow.ArrowException
        If a table is gone or damaged.
    """
    names = [*keys.cell, *keys.unit]
    most = int(max(memory, _PAIRS_ALWAYS_HELD) / _BYTES_OF_PAIR)
    names += [FINE_BIN] if n_bins else []
    merged = _Merged(names, min(_ROWS_BEFORE_MERGING, most // 2))
    signed = [*((path, 1) for path in tables), *((path, -1) for path in subtracted)]
    if pack is not None:
        merged.add(NumberedPack(names, read_rows(pack)))
    for path, sign in signed:
        table = read_table(path)
        if table.num_rows:
            merged.add(NumberedRows.of(table, names, sign))
        if merged.n_rows > most:
            # Rows that wait may be pairs that are there already.
            merged.reduce()
        if merged.n_rows > most or merged.bits > _KEY_BITS:
            return None
    if not merged.n_rows:
        return None
    merged.reduce()
    if merged.n_rows > most or merged.bits > _KEY_BITS:
        return None
    found = merged.packed(len(keys.cell), len(keys.cell) + len(keys.unit), left_out)
    return _without_empty(found) if subtracted else found


@dataclass
class _Merged:
    """Pairs of the tables so far in order, and rows that wait to be merged."""

    names: list[str]
    at_once: int
    values: list[pa.Array] = field(default_factory=list)
    widths: list[int] = field(default_factory=list)
    pair: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    sums: dict[str, Ints] = field(default_factory=dict)
    waiting: list[NumberedRows | NumberedPack] = field(default_factory=list)
    n_rows: int = 0

    @property
    def bits(self) -> int:
        """Bits of a packed pair."""
        return sum(self.widths)

    def add(self, rows: NumberedRows | NumberedPack) -> None:
        """Add the rows of a table, of which there are some."""
        self.waiting.append(rows)
        self.n_rows += rows.n_rows
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
            runs.append(NumberedRows(self.values, _unpack(self.pair, self.widths), self.sums))
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

    def packed(self, n_cell_keys: int, n_keys: int, left_out: Mapping[int, int]) -> PackedPairs:
        """Return all merged pairs; their rows are used up."""
        pair, sums, bins = self.pair, self.sums, None
        if n_keys < len(self.names):
            values = to_numpy(self.values[-1]).astype(np.int64)
            pair, sums, bins = _split_bins(pair, sums, self.widths[-1], values)
        unit_bits = sum(self.widths[n_cell_keys:n_keys])
        unit, distinct = rank_units(pair.view(np.uint64), unit_bits)
        pair >>= unit_bits
        starts = run_starts(pair)
        cells = self._keys(pair[starts], slice(None, n_cell_keys))
        cells["users"] = np.diff(starts, append=pair.size)
        cells["records"] = np.add.reduceat(sums["n"], starts, dtype=np.int64)
        units = self._keys(distinct.view(np.int64), slice(n_cell_keys, n_keys))
        return PackedPairs(to_table(cells), to_table(units), unit, sums, dict(left_out), bins)

    def _keys(self, packed: Ints, some: slice) -> dict[str, Any]:
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


def _merged_runs(runs: list[tuple[Ints, dict[str, Ints]]]) -> tuple[Ints, dict[str, Ints]]:
    """Return the distinct pairs of some runs in order, and their sums; the runs are used up."""
    in_order = [run for run in runs if (run[0][1:] > run[0][:-1]).all()]
    if not in_order:
        return _summed(runs)
    base = max(in_order, key=lambda run: run[0].size)
    # By identity: runs hold arrays, which have no single answer to whether they are equal.
    others = [run for run in runs if run is not base]
    runs.clear()
    return _inserted(*base, *_summed(others)) if others else base


def _summed(runs: list[tuple[Ints, dict[str, Ints]]]) -> tuple[Ints, dict[str, Ints]]:
    """Return distinct pairs in order, and their sums, by sorting."""
    order, pair = sort_numbers(np.concatenate([pair for pair, _ in runs]))
    starts = run_starts(pair)
    sums = {}
    for name in runs[0][1]:
        column = np.concatenate([sums[name] for _, sums in runs])[order].astype(np.int64)
        sums[name] = column if starts.size == pair.size else np.add.reduceat(column, starts)
    return pair[starts], sums


def _inserted(
    base: Ints, base_sums: dict[str, Ints], more: Ints, more_sums: dict[str, Ints]
) -> tuple[Ints, dict[str, Ints]]:
    """Return the union of two ordered runs of distinct pairs; sums of equal pairs are added up."""
    place = np.searchsorted(base, more)
    known = place < base.size
    known[known] = base[place[known]] == more[known]
    new = np.flatnonzero(~known)
    at = place[new] + np.arange(new.size)
    stays = np.ones(base.size + new.size, dtype=np.bool_)
    stays[at] = False

    def joined(old: Ints, fresh: Ints) -> Ints:
        column = np.empty(stays.size, dtype=old.dtype)
        column[at], column[stays] = fresh, old
        return column

    pair, sums = joined(base, more[new]), {}
    # Where known pairs of the base are by now: behind the new ones that stand before them.
    moved = place[known] + np.searchsorted(place[new], place[known], side="right")
    for name, column in base_sums.items():
        # Narrow sums stay narrow where what comes fits: most of a year is not touched by a day.
        added = column[place[known]] + more_sums[name][known]
        fresh = more_sums[name][new]
        kept = _wide_enough(column, added, fresh)
        sums[name] = joined(kept, fresh)
        sums[name][moved] = added
    return pair, sums


def _wide_enough(column: Ints, *others: Ints) -> Ints:
    """Return a column in a type that holds other numbers too."""
    if column.dtype == np.int64:
        return column
    ends = np.array([(other.min(initial=0), other.max(initial=0)) for other in others])
    kind = np.iinfo(column.dtype)
    if ends.min() >= kind.min and ends.max() <= kind.max:
        return column
    return column.astype(np.int64)


def _without_empty(pairs: PackedPairs) -> PackedPairs | None:
    """Return pairs without those of no record; None if there is no other, or one has fewer."""
    n, bins = pairs.sums["n"], pairs.bins
    if n.min() < 0 or (bins is not None and bins.count.min() < 0):
        return None
    is_kept = n > 0
    if not is_kept.any():
        return None
    if bins is not None:
        filled = bins.count > 0
        bins = PairBins(bins.pair[filled], bins.bin[filled], bins.count[filled])
        bins = bins.of_pairs(is_kept)
    users = np.add.reduceat(is_kept, np.cumsum(pairs.users) - pairs.users, dtype=np.int64)
    names = pairs.cells.column_names
    cells = pairs.cells.set_column(names.index("users"), "users", to_arrow(users))
    cells = cells.filter(to_arrow(users > 0))
    used = np.bincount(pairs.unit[is_kept], minlength=pairs.units.num_rows) > 0
    number = np.cumsum(used) - 1
    return replace(
        pairs,
        cells=cells,
        units=pairs.units.filter(to_arrow(used)),
        unit=number[pairs.unit[is_kept]],
        sums={name: column[is_kept] for name, column in pairs.sums.items()},
        bins=bins,
    )


def _unpack(packed: Ints, widths: Sequence[int]) -> list[Ints]:
    columns, rest = [], packed
    for width in reversed(widths):
        columns.append(rest & ((1 << width) - 1))
        rest = rest >> width
    return columns[::-1]


def _split_bins(
    packed: Ints, sums: dict[str, Ints], bits: int, values: Ints
) -> tuple[Ints, dict[str, Ints], PairBins]:
    """Return distinct pairs, their sums, and their counts by the bin ranked in the lowest bits."""
    fine_bin = values[packed & ((1 << bits) - 1)]
    pair = packed >> bits
    starts = run_starts(pair)
    number = np.repeat(np.arange(starts.size), np.diff(starts, append=pair.size))
    added = {name: np.add.reduceat(column, starts, dtype=np.int64) for name, column in sums.items()}
    return pair[starts], added, PairBins(number, fine_bin, sums["n"].astype(np.int64))
