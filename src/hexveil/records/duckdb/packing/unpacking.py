"""Decode sorted, packed records to the table of pairs.

What is made is as large as the pairs are many, and a system takes longer to hand out memory than to
fill it: so the numbers of pairs stand in the room of the records they are made of, everything else
is made once, in its last form, and what is in between is made in blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hexveil.base.arrow_numbers import to_arrow, to_numpy, to_table
from hexveil.model.pair_bins import PairBins
from hexveil.records.duckdb.packing.bit_layout import COMBINATION, LABELS, USERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from hexveil.base.arrays import Ints
    from hexveil.records.duckdb.packing.bit_layout import Field, Layout
    from hexveil.records.duckdb.session import Session

    Numbers = NDArray[np.uint64]

_BLOCK = 1 << 15
"""Numbers of which something is made at once: it stays in a processor's own memory."""
_AT_ONCE = 1 << 18
"""Pairs that are counted by user at once."""
_MAX_LOOKUP = 1 << 20
"""Values of which a table of bins is made."""
_MIN_TABLE = 100_000
"""Numbers of units that may be tabled, however few pairs there are."""


@dataclass(frozen=True, eq=False, repr=False)
class PackedPairs:
    """PRIVATE. The table of pairs, in the order of its cells, then of its units.

    Attributes
    ----------
    cells : pyarrow.Table
        The keys of each cell, in order; `users` and `records` in it.
    units : pyarrow.Table
        The keys of each unit, in order.
    unit : ndarray of int, shape (n_pairs,)
        Rows of `units`.
    sums : mapping of str to ndarray of int
        `n`, `total` and perhaps `total_sq` of each pair, of any whole type. Where sums of as many
        values, or of their squares, could overflow, these may have: they are refused, or not used.
    left_out : dict of int to int
        Per reason (0: kept) how many records it covers.
    bins : PairBins or None
        Records of each pair by fine bin; None where they were not counted.
    """

    cells: pa.Table
    units: pa.Table
    unit: NDArray[Any]
    sums: dict[str, Ints]
    left_out: dict[int, int]
    bins: PairBins | None = None

    @cached_property
    def users(self) -> Ints:
        """Pairs of each cell, shape (n_cells,)."""
        return to_numpy(self.cells["users"])

    @property
    def cell(self) -> Ints:
        """Row of `cells` of each pair, shape (n_pairs,): made anew, since it is rarely needed."""
        return np.repeat(np.arange(self.users.size), self.users)

    def pairs(self, selected: Ints, names: Sequence[str]) -> pa.Table:
        """Return the pairs in the chosen cells, which are rows of `cells`, numbered as chosen."""
        columns: dict[str, Any] = {n: self.sums[n] for n in ("n", *names)} | {"unit": self.unit}
        number = np.arange(self.users.size, dtype=np.int32)
        users = self.users
        if selected.size < users.size:
            is_chosen = np.zeros(users.size, dtype=np.bool_)
            is_chosen[selected] = True
            number[selected] = np.arange(selected.size)
            is_kept = np.repeat(is_chosen, users)
            columns = {name: column[is_kept] for name, column in columns.items()}
            number, users = number[is_chosen], users[is_chosen]
        # Widened last: sums of a pack are narrow.
        unit = columns.pop("unit")
        columns = {name: column.astype(np.int64, copy=False) for name, column in columns.items()}
        return to_table(columns | {"unit": unit, "cell": np.repeat(number, users)})

    def binned(self, selected: Ints) -> PairBins:
        """Return the counts by bin of the pairs in the chosen cells, which are in order."""
        assert self.bins is not None  # noqa: S101  asked for where bins are counted alone
        if selected.size == self.cells.num_rows:
            return self.bins
        is_chosen = np.zeros(self.cells.num_rows, dtype=np.bool_)
        is_chosen[selected] = True
        return self.bins.of_pairs(is_chosen[self.cell])

    def single_records(self) -> tuple[int, int]:
        """Return the number of users, and of those with a single record."""
        user = self.unit
        if self.units.num_columns > 1:
            names = self.units["user_id"].combine_chunks()
            # Units of one user, its days or weeks, follow each other.
            is_start = np.ones(len(names), dtype=np.bool_)
            is_start[1:] = pc.not_equal(names[1:], names[:-1]).to_numpy(zero_copy_only=False)
            user = (np.cumsum(is_start) - 1)[self.unit]
        records, step = np.zeros(self.units.num_rows), max(self.units.num_rows, _AT_ONCE)
        for start in range(0, user.size, step):
            rows = slice(start, start + step)
            records += np.bincount(user[rows], self.sums["n"][rows], records.size)
        return int((records > 0).sum()), int((records == 1).sum())

    def keyed(self) -> pa.Table:
        """Return the keys of each pair, as the table of pairs has them, and its sums."""
        return to_table({**self._keys(slice(None)), **self.sums})

    def keyed_bins(self) -> pa.Table:
        """Return the keys of each pair and bin, and sums: those of a pair in the first of its rows.

        The others are 0, so that sums of a pair's rows are the pair's.
        """
        assert self.bins is not None  # noqa: S101  asked for where bins are counted alone
        return to_table(
            {**self._keys(self.bins.pair), "fine_bin": self.bins.bin, **self.binned_sums()}
        )

    def binned_sums(self) -> dict[str, Ints]:
        """Return the sums of each pair and bin: `n` is the bin's, the others as in `keyed_bins`."""
        assert self.bins is not None  # noqa: S101  asked for where bins are counted alone
        pair = self.bins.pair
        first = np.searchsorted(pair, np.arange(self.unit.size))
        sums = {"n": self.bins.count}
        for name in self.sums:
            if name != "n":
                sums[name] = np.zeros(pair.size, dtype=np.int64)
                sums[name][first] = self.sums[name]
        return sums

    def _keys(self, pair: Ints | slice) -> dict[str, Any]:
        """Return the keys of pairs, as the table of pairs has them."""
        cells = self.cells.drop_columns(["users", "records"]).take(to_arrow(self.cell[pair]))
        units = self.units.take(to_arrow(self.unit[pair]))
        return {name: table[name] for table in (cells, units) for name in table.column_names}


def merge_sorted(
    ranges: list[PairSums], names: Numbers | None, bits: int
) -> tuple[PairSums, Numbers | None]:
    """Return the pairs of all ranges in order, and the hexagons that they number, in order.

    Parameters
    ----------
    ranges : list of PairSums
        Each in order, with hexagons numbered as they were met. What they hold is used up.
    names : ndarray of uint64, or None
        The hexagon of each number; None where cells are labels.
    bits : int
        Below a pair's hexagon.
    """
    pair = np.concatenate([sums_of_range.pair for sums_of_range in ranges])
    hexagons = None if names is None else renumber(pair, bits, names)
    order = np.argsort(pair)
    bins = _merged_bins(ranges, order)
    sums = {
        name: np.concatenate([sums_of_range.sums.pop(name) for sums_of_range in ranges])[order]
        for name in tuple(ranges[0].sums)
    }
    return PairSums(pair[order], sums, bins), hexagons


def _merged_bins(ranges: list[PairSums], order: Ints) -> PairBins | None:
    """Return the counts by bin of pairs put in another order; None where there are none."""
    counted = [one.bins for one in ranges if one.bins is not None]
    if len(counted) < len(ranges):
        return None
    place = np.empty_like(order)
    place[order] = np.arange(order.size)
    starts = np.cumsum([0, *(one.pair.size for one in ranges[:-1])])
    pair = [bins.pair + start for bins, start in zip(counted, starts, strict=True)]
    return PairBins.of_rows(
        place[np.concatenate(pair)],
        np.concatenate([bins.bin for bins in counted]),
        np.concatenate([bins.count for bins in counted]),
    )


@dataclass(frozen=True, eq=False, repr=False)
class PairSums:
    """PRIVATE. Counts and sums of pairs, identified by their packed numbers."""

    pair: Numbers
    sums: dict[str, Ints]
    bins: PairBins | None = None

    def copy(self) -> PairSums:
        """Return a copy, which frees the memory of the records."""
        sums = {name: sums.copy() for name, sums in self.sums.items()}
        return PairSums(self.pair.copy(), sums, self.bins)


def renumber(packed: Numbers, below: int, names: Numbers) -> Numbers:
    """Renumber hexagons, above some bits, in their order; return the hexagon of each number."""
    order = np.argsort(names)
    rank = np.empty(names.size, dtype=np.uint64)
    rank[order] = np.arange(names.size, dtype=np.uint64)
    rank <<= np.uint64(below)
    for block in _blocks(packed.size):
        chunk = packed[block]
        chunk[:] = rank[chunk >> np.uint64(below)] | (chunk & _mask(below))
    return names[order]


def sum_pairs(
    records: Numbers, value_bits: int, *, squares: bool, edges: Ints | None = None
) -> PairSums:
    """Sum sorted records to pairs, in place: the pairs overwrite the records.

    With edges of fine bins, the records of each pair are counted by bin as well.
    """
    value, mask = np.uint64(value_bits), _mask(value_bits)
    # Room for a pair per record, of which the system gives what is written to.
    names = ("n", "total", "total_sq") if squares else ("n", "total")
    sums = {name: np.empty(records.size, dtype=np.int64) for name in names}
    size = start = 0
    by_bin = None if edges is None else _BinCounts(records.size, edges)
    while start < records.size:
        stop = start + _BLOCK
        if stop < records.size:
            # No pair is cut in two: this part ends with all records of its last one.
            last_of_pair = records[stop - 1] | mask
            stop = start + int(np.searchsorted(records[start:], last_of_pair, side="right"))
        chunk = records[start:stop]
        k = (chunk & mask).view(np.int64)
        pair = chunk >> value
        starts = run_starts(pair)
        rows = slice(size, size + starts.size)
        np.take(pair, starts, out=records[rows], mode="clip")  # not past what was read
        np.subtract(starts[1:], starts[:-1], out=sums["n"][rows][:-1])
        sums["n"][rows.stop - 1] = pair.size - starts[-1]
        # Overflow wraps here, silently; sums of so many records are refused by their number alone.
        np.add.reduceat(k, starts, out=sums["total"][rows])
        if by_bin is not None:
            by_bin.add(k, starts, size)
        if squares:
            k *= k
            np.add.reduceat(k, starts, out=sums["total_sq"][rows])
        start, size = stop, rows.stop
    bins = None if by_bin is None else by_bin.counted()
    return PairSums(records[:size], {name: chunk[:size] for name, chunk in sums.items()}, bins)


def count_distinct(ordered: Numbers, below: int) -> int:
    """Return how many numbers there are above some bits of sorted, non-empty numbers.

    Examples
    --------
    >>> count_distinct(np.array([4, 5, 6, 9], dtype=np.uint64), 2)
    2
    """
    shift = np.uint64(below)
    return 1 + sum(
        int(np.count_nonzero(np.diff(ordered[block.start : block.stop + 1] >> shift)))
        for block in _blocks(ordered.size)
    )


def _bin_lookup(edges: Ints) -> Callable[[Ints], Ints]:
    """Return a function from values to their fine bins, by a table where it is small."""
    if edges[-1] >= _MAX_LOOKUP:
        return lambda k: np.asarray(np.searchsorted(edges, k))
    table = np.searchsorted(edges, np.arange(int(edges[-1]) + 1)).astype(np.int16)
    return lambda k: np.asarray(table[k])


class _BinCounts:
    """PRIVATE. Counts by bin of sorted records, one part of them after another."""

    def __init__(self, room: int, edges: Ints) -> None:
        self._lookup, self._size = _bin_lookup(edges), 0
        # Room for a row per record, of which the system gives what is written to.
        self._pair, self._bin, self._count = (np.empty(room, dtype=np.int64) for _ in range(3))

    def add(self, k: Ints, starts: Ints, first: int) -> None:
        """Count the values of whole pairs, which begin at `starts`; `first` numbers the first."""
        fine_bin = self._lookup(k)
        # Values of a pair are in order, so each of its bins is a run.
        differs = np.empty(fine_bin.size, dtype=np.bool_)
        np.not_equal(fine_bin[1:], fine_bin[:-1], out=differs[1:])
        differs[starts] = True
        begin = np.flatnonzero(differs)
        rows = slice(self._size, self._size + begin.size)
        self._size = rows.stop
        self._bin[rows] = fine_bin[begin]
        count = self._count[rows]
        np.subtract(begin[1:], begin[:-1], out=count[:-1])
        count[-1] = fine_bin.size - begin[-1]
        # Every pair begins with a run of its own.
        n_runs = np.diff(np.searchsorted(begin, starts), append=begin.size)
        self._pair[rows] = np.repeat(np.arange(first, first + starts.size), n_runs)

    def counted(self) -> PairBins:
        """Return all counts."""
        return PairBins(*(column[: self._size] for column in (self._pair, self._bin, self._count)))


def unpack(
    session: Session, pairs: PairSums, hexagons: Numbers | None, layout: Layout, left_out: Ints
) -> PackedPairs:
    """Return the table of pairs that are in order; their numbers are used up.

    Parameters
    ----------
    session : Session
    pairs : PairSums
    hexagons : ndarray of uint64, or None
        The hexagon of each number; None where cells are labels.
    layout : Layout
    left_out : ndarray of int64
        How many records each reason covers.
    """
    unit, units = rank_units(pairs.pair, layout.unit_bits)
    cell = pairs.pair
    cell >>= np.uint64(layout.unit_bits)
    starts = run_starts(cell)
    columns, hexagon_number = _columns(layout.cell, cell[starts])
    if hexagons is None:
        columns |= _labels(session, columns.pop(COMBINATION))
    else:
        columns["hexagon"] = hexagons[hexagon_number]
    columns["users"] = np.diff(starts, append=cell.size)
    columns["records"] = np.add.reduceat(pairs.sums["n"], starts)
    reasons = {i: int(left_out[i]) for i in np.flatnonzero(left_out).tolist()}
    return PackedPairs(
        to_table(columns),
        _units(session, units, layout),
        unit,
        pairs.sums,
        reasons,
        pairs.bins,
    )


def _labels(session: Session, numbers: Ints) -> dict[str, pa.ChunkedArray]:
    """Return the labels of numbered combinations, as `group_keys` names them."""
    table = session.arrow(f"SELECT * FROM {LABELS} ORDER BY {COMBINATION}")
    texts = [name for name in table.column_names if name.startswith("place")]
    return {
        f"label{name.removeprefix('place')}": table[name].take(to_arrow(numbers)) for name in texts
    }


def _units(session: Session, units: Numbers, layout: Layout) -> pa.Table:
    """Return the keys of packed units, in order."""
    columns, _ = _columns(layout.unit, units)
    ids = session.arrow(f"SELECT user_id FROM {USERS} ORDER BY number")["user_id"]
    return to_table({**columns, "user_id": ids.take(to_arrow(columns["user_id"]))})


def _columns(fields: Sequence[Field], packed: Numbers) -> tuple[dict[str, Any], Numbers]:
    """Decode the lowest fields of packed integers; return them and the remaining high bits."""
    columns: dict[str, Any] = {}
    for field in reversed(fields):
        columns[field.name] = field.read(packed & _mask(field.bits))
        packed = packed >> np.uint64(field.bits)
    return columns, packed


def rank_units(pair: Numbers, bits: int) -> tuple[NDArray[Any], Numbers]:
    """Return the rank of each pair's unit among the distinct units, and the sorted units."""
    reach = 1 << bits
    # A table of flags of all possible units, unless it were larger than the pairs themselves.
    if reach > max(pair.size, _MIN_TABLE):
        distinct, place = np.unique(pair & _mask(bits), return_inverse=True)
        return place.ravel(), distinct
    occurs = np.zeros(reach, dtype=np.bool_)
    for block in _blocks(pair.size):
        occurs[pair[block] & _mask(bits)] = True
    place = np.cumsum(occurs) - 1
    # As narrow as the engine numbers units: written once, and not as a number of 64 bits before.
    unit: NDArray[Any] = np.empty(pair.size, dtype=np.int32 if reach <= 1 << 31 else np.int64)
    for block in _blocks(pair.size):
        unit[block] = place[pair[block] & _mask(bits)]
    return unit, np.flatnonzero(occurs).view(np.uint64)


def run_starts(ordered: NDArray[Any]) -> Ints:
    """Return the first position of each distinct value in a sorted, non-empty array."""
    differs = np.empty(ordered.size, dtype=np.bool_)
    differs[0] = True
    np.not_equal(ordered[1:], ordered[:-1], out=differs[1:])
    return np.flatnonzero(differs)


def _blocks(size: int) -> Iterator[slice]:
    for start in range(0, size, _BLOCK):
        yield slice(start, start + _BLOCK)


def _mask(bits: int) -> np.uint64:
    return np.uint64((1 << bits) - 1)
