"""The fast path to pairs: one 64-bit number a record, sorted, and summed where numbers are equal.

It gives what grouping by the engine gives (`aggregation.create_pairs`), in half of its time or
less, and nothing depends on it: both functions return None where 64 bits or memory do not suffice,
and the engine groups. From the highest bits to the lowest a number has the hexagon, the slot (or
the labels), the user, the day or week if a unit has one, and the value in quanta. Slots and days
are counted from their least, users and labels numbered in the order of their texts, hexagons as
they are met and then in their order. So sorted numbers have the records of a pair side by side,
and pairs in the order of cells, then of units.

Records are sorted in half of the memory that reading may use; where they are more, parts of them
are summed to pairs one after another, and pairs of all parts are added up. Cached tables are added
up in the same way: their rows have counts and sums in place of a value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hexveil.base.arrays import Ints
from hexveil.base.arrow_numbers import to_arrow, to_numpy, to_table
from hexveil.base.errors import InputError
from hexveil.base.work_share import READING, tell_share
from hexveil.model.cells import Cells
from hexveil.records.duckdb.aggregation import (
    ALL_CELLS,
    FINE_BIN,
    PAIR_BINS,
    PAIRS,
    RELATIONS,
    SQUARES,
    TOTAL,
    UNITS,
    GroupKeys,
    PairStore,
)
from hexveil.records.duckdb.hexagon_table import HexagonTable
from hexveil.records.duckdb.session import Session
from hexveil.records.duckdb.validation import ValidatedRecords
from hexveil.records.feasible_sums import squares_fit
from hexveil.records.read_request import Rules
from hexveil.records.utc_offsets import END_OF_TIMES

Numbers = NDArray[np.uint64]

MIN_RECORDS = 100_000
"""Records below which the engine's own grouping is as quick."""
BITS = 64
"""Of a number."""
HEXAGON_BITS = 16
"""Bits that are left for hexagons at least; each more doubles how many there may be."""
BYTES_OF_PAIR = 48
"""Memory of a pair while those of several parts are added up."""
PAIRS_ALWAYS_HELD = 2 * 10**9
"""Bytes of pairs that are kept, however small the memory."""
RANGED = ("slot", "day", "week", "kept_unit")
"""Keys that are whole numbers near each other; the others are texts, and numbered."""
_BLOCK = 1 << 15
"""Numbers of which something is made at once: they stay in a processor's own memory."""
_MIN_TABLE = 100_000
"""Numbers of units that may be tabled, however few pairs there are."""
_CHANGED = "source: the records changed while they were read; run again once they are written."


@dataclass(frozen=True)
class _Field:
    """A part of a number: how many steps a whole number is above the lowest, or a text's rank."""

    expression: str
    lowest: int
    highest: int
    step: int = 1
    texts: pa.Array | None = None

    @property
    def bits(self) -> int:
        """Number of bits of the largest value."""
        return ((self.highest - self.lowest) // self.step).bit_length()

    def read(self, steps: Ints) -> Any:  # noqa: ANN401  numbers, or the texts that they stand for
        """Return the keys of numbers."""
        if self.texts is not None:
            return self.texts.take(to_arrow(steps))
        return steps * self.step + self.lowest


@dataclass(frozen=True)
class _Layout:
    """Fields below the hexagon, high to low: of the cell, of the unit, and a value or bin."""

    cell: Mapping[str, _Field]
    unit: Mapping[str, _Field]
    value: _Field

    @property
    def unit_bits(self) -> int:
        """Bits of a unit."""
        return sum(field.bits for field in self.unit.values())

    @property
    def bits(self) -> int:
        """Bits below the hexagon."""
        return sum(f.bits for f in self.cell.values()) + self.unit_bits + self.value.bits

    def query(self, rows: str, columns: Sequence[str]) -> str:
        """Return the query of numbers, `below`: minus the reason of records that are left out.

        Null if a field is out of its range, as it is only if records change after their ranges
        were read: a number that its bits cannot hold would be taken for a neighbour's.
        """
        number, tests, fields = "CAST(0 AS BIGINT)", [], []
        for i, field in enumerate((*self.cell.values(), *self.unit.values(), self.value)):
            number = f"({number} * {1 << field.bits} + (f{i} - ({field.lowest})) // {field.step})"
            tests.append(f"f{i} BETWEEN {field.lowest} AND {field.highest}")
            fields.append(f"{field.expression} AS f{i}")
        return (
            f"SELECT {''.join(f'{name}, ' for name in columns)}CASE WHEN reject_reason <> 0 THEN "
            f"-CAST(reject_reason AS BIGINT) WHEN {' AND '.join(tests)} THEN {number} END AS below "
            f"FROM (SELECT {', '.join(['reject_reason', *columns, *fields])} FROM ({rows}))"
        )


@dataclass(frozen=True, repr=False)
class _Sums:
    """PRIVATE. Distinct numbers of pairs (and bins) in order, with counts and sums."""

    key: Numbers
    sums: dict[str, Ints]

    @classmethod
    def added(cls, parts: Sequence[_Sums]) -> _Sums:
        """Return the sums of all parts, which may be in any order."""
        key = np.concatenate([part.key for part in parts])
        # Each table is in order: runs of numbers are merged, sooner than sorted.
        order = np.argsort(key, kind="stable")
        key = key[order]
        starts, sums = _run_starts(key), {}
        for name in parts[0].sums:
            column = np.concatenate([part.sums[name] for part in parts])[order]
            sums[name] = np.add.reduceat(column, starts)
        return cls(key[starts], sums)

    @classmethod
    def of_records(
        cls, records: Numbers, value_bits: int, *, squares: bool, edges: Ints | None
    ) -> _Sums:
        """Return the sums of sorted records, whose room is used up; by bin with edges of bins."""
        # Room for a row per record, of which the system gives what is written to.
        names = ("n", TOTAL, SQUARES) if squares else ("n", TOTAL)
        sums = {name: np.empty(records.size, dtype=np.int64) for name in names}
        size = start = 0
        while start < records.size:
            stop = start + _BLOCK
            if stop < records.size:
                # No pair is cut in two: this block ends with all records of its last one.
                last_of_pair = records[stop - 1] | _mask(value_bits)
                stop = start + int(np.searchsorted(records[start:], last_of_pair, side="right"))
            block, start = records[start:stop], stop
            k, key = (block & _mask(value_bits)).view(np.int64), block >> np.uint64(value_bits)
            if edges is not None:
                key = key << np.uint64(_bin_bits(edges)) | np.searchsorted(edges, k).view(np.uint64)
            starts = _run_starts(key)
            rows = slice(size, size := size + starts.size)
            records[rows] = key[starts]
            sums["n"][rows] = np.diff(starts, append=key.size)
            # Overflow wraps, silently: sums of so many records are refused by their number alone.
            np.add.reduceat(k, starts, out=sums[TOTAL][rows])
            if squares:
                np.add.reduceat(k * k, starts, out=sums[SQUARES][rows])
        return cls(records[:size], {name: column[:size] for name, column in sums.items()})


def pack(
    session: Session,
    source: ValidatedRecords,
    keys: GroupKeys,
    rules: Rules,
    n_records: int | None,
) -> PairStore | None:
    """Return the pairs of validated records; None if the engine should group them.

    Parameters
    ----------
    session : Session
    source : ValidatedRecords
    keys : GroupKeys
    rules : Rules
    n_records : int or None
        Records before any check; None where that takes a look at all their columns.
    """
    if n_records is None or n_records < MIN_RECORDS:
        return None
    usable = f"({source.clocked}) WHERE time_us BETWEEN 0 AND {END_OF_TIMES * 10**6 - 1}"
    value = _Field("quanta", 0, rules.scale.span_quanta)
    # Over raw records: a user whose records are all rejected gets a number too, and no pair.
    labels = {f"label{i}": f"raw_label{i}" for i in range(len(keys.cell))}
    raw = {"user_id": "user_id", **labels}
    named = replace(keys, cell={n: sql for n, sql in keys.cell.items() if n != "hexagon"})
    layout = _layout(session, (f"({source.raw})", usable), raw, named, rules, value)
    if layout is None or layout.bits > BITS - (1 if source.labelled else HEXAGON_BITS):
        return None
    packer = _Packer(session, layout, rules, n_records)
    with session.sharing():
        sums = packer.summed(layout.query(source.query, () if source.labelled else source.places))
    if sums is None:
        return None
    return _decoded(session, layout, keys, sums, packer.names, rules, packer.left_out)


def add_up(
    session: Session,
    rows: str,
    keys: GroupKeys,
    rules: Rules,
    sums: Sequence[str],
    left_out: Mapping[int, int],
) -> PairStore | None:
    """Return the sum of rows of pairs, or of pairs and bins: see `counting.add_up`."""
    if int(str(session.rows(f"SELECT count(*) FROM {rows}")[0][0])) < MIN_RECORDS:
        return None
    raw = {name: name for name in keys.all}
    cell, unit = ({name: name for name in names} for names in (keys.cell, keys.unit))
    named = replace(keys, cell=cell, unit=unit)
    bins = _Field("0", 0, 0) if rules.bins is None else _Field(FINE_BIN, 0, rules.bins.n_bins - 1)
    layout = _layout(session, (rows, rows), raw, named, rules, bins)
    if layout is None or layout.bits >= BITS:
        return None
    query = layout.query(f"SELECT 0 AS reject_reason, * FROM {rows}", ("n", *sums))
    parts: list[_Sums] = []
    for batch in session.stream(query):
        *columns, below = _checked(batch)
        found = dict(zip(("n", *sums), columns, strict=True))
        parts.append(_Sums(below.view(np.uint64), found))
        if not _fit(parts, session.memory / 2):
            return None
    return _decoded(session, layout, keys, _Sums.added(parts), None, rules, left_out)


def _fit(parts: list[_Sums], memory: float) -> bool:
    """Return whether memory holds the pairs of all parts, which are added up where it does not."""
    most = max(memory, PAIRS_ALWAYS_HELD) / BYTES_OF_PAIR
    if len(parts) > 1 and sum(part.key.size for part in parts) > most:
        parts[:] = [_Sums.added(parts)]
    return sum(part.key.size for part in parts) <= most


def _checked(batch: pa.RecordBatch) -> list[NDArray[Any]]:
    """Return the columns of numbered rows, if the keys of all were there before."""
    if batch["below"].null_count:
        raise InputError(_CHANGED)
    return [to_numpy(column) for column in batch.columns]


def _layout(
    session: Session,
    rows: tuple[str, str],
    raw: Mapping[str, str],
    keys: GroupKeys,
    rules: Rules,
    value: _Field,
) -> _Layout | None:
    """Return the layout of rows; None if it needs times and no row has a usable one.

    `rows` are all of them, with the texts in `raw` columns, and those with usable times.
    """
    fields = {}
    for name, sql in keys.all.items():
        if name in RANGED:
            ends = session.rows(f"SELECT min({sql}), max({sql}) FROM {rows[1]}")[0]
            if None in ends:
                return None
            seconds = rules.cells.seconds if isinstance(rules.cells, Cells) else None
            step = (seconds or 1) if name == "slot" else 1
            fields[name] = _Field(sql, int(str(ends[0])), int(str(ends[1])), step)
            continue
        column, kind = raw[name], f"ranked_{name}"
        texts = session.arrow(
            f"SELECT DISTINCT {column} AS text FROM {rows[0]} WHERE {column} IS NOT NULL "
            "ORDER BY text"
        )
        session.register("texts", texts)
        session.run(f"DROP TYPE IF EXISTS {kind}")
        session.run(f"CREATE TYPE {kind} AS ENUM (SELECT CAST(text AS VARCHAR) FROM texts)")
        rank = f"CAST(enum_code(TRY_CAST(CAST({sql} AS VARCHAR) AS {kind})) AS BIGINT)"
        texts = texts["text"].combine_chunks()
        fields[name] = _Field(rank, 0, max(len(texts) - 1, 0), texts=texts)
    unit = {name: fields.pop(name) for name in keys.unit}
    return _Layout(fields, unit, value)


class _Packer:
    """PRIVATE. Reader of numbered records, which sums them part by part."""

    def __init__(self, session: Session, layout: _Layout, rules: Rules, n_records: int) -> None:
        self._session, self._layout, self._n_records = session, layout, n_records
        resolution = rules.cells.resolution if isinstance(rules.cells, Cells) else None
        self._table = None if resolution is None else HexagonTable(resolution, n_records)
        self._edges = None if rules.bins is None else rules.bins.edges
        self._squares = squares_fit(1, rules.scale)
        self._parts: list[_Sums] = []
        # Allocated once and filled: a list of batches would need twice the memory to join.
        self._records = np.empty(min(n_records, max(session.sortable, 1)), dtype=np.uint64)
        self._size = 0
        self.names: Numbers | None = None
        self.left_out = {0: 0}

    def summed(self, query: str) -> _Sums | None:
        """Return the sums of all records; None without one, or if pairs or hexagons do not fit."""
        for batch in self._session.stream(query):
            self._add(self._packed(batch))
            tell_share(READING, self.left_out[0] / self._n_records)
            # Found only while records are read: then the engine groups them from the start.
            most = 1 << (BITS - self._layout.bits)
            fit = self._table is None or self._table.names.size <= most
            if not fit or not _fit(self._parts, self._session.memory):
                return None
        only = not self._parts
        if self._table is not None:
            self._order_hexagons(self._table.names)
        if self._size:
            self._sum_part(only=only)
        if not self._parts or not _fit(self._parts, self._session.memory):
            return None
        return self._parts[0] if only else _Sums.added(self._parts)

    def _packed(self, batch: pa.RecordBatch) -> Numbers:
        """Return kept records as numbers, and count those that are left out."""
        *places, below = _checked(batch)
        if below.min(initial=0) < 0:
            for reason, n in zip(*np.unique(-below[below < 0], return_counts=True), strict=True):
                self.left_out[int(reason)] = self.left_out.get(int(reason), 0) + int(n)
            places = [column[below >= 0] for column in places]
            below = below[below >= 0]
        self.left_out[0] += below.size
        if self._table is not None:
            # Numbers of hexagons in place of their 64 bits, of which a number has no room.
            below = self._table.numbers(*places).astype(np.int64) << self._layout.bits | below
        return np.asarray(below.view(np.uint64))

    def _add(self, packed: Numbers) -> None:
        """Put records beside those that wait, which are summed whenever there is no room."""
        while packed.size:
            if self._size == self._records.size:
                self._sum_part()
            room = self._records[self._size : self._size + packed.size]
            room[:], packed = packed[: room.size], packed[room.size :]
            self._size += room.size

    def _sum_part(self, *, only: bool = False) -> None:
        """Sum the records that wait; `only` if there are no others."""
        records, self._size = self._records[: self._size], 0
        records.sort()
        bits = self._layout.value.bits
        part = _Sums.of_records(records, bits, squares=self._squares, edges=self._edges)
        if not only:  # the room of the records is for the next ones
            part = _Sums(part.key.copy(), {n: column.copy() for n, column in part.sums.items()})
        self._parts.append(part)

    def _order_hexagons(self, names: Numbers) -> None:
        """Put the rank of each hexagon in the place of the number that it has in a table."""
        order, rank = np.argsort(names), np.empty(names.size, dtype=np.uint64)
        rank[order] = np.arange(names.size, dtype=np.uint64)
        self.names, bits = names[order], self._layout.bits
        below_pair = bits - self._layout.value.bits + _bin_bits(self._edges)
        numbers = [(self._records[: self._size], bits), *((p.key, below_pair) for p in self._parts)]
        for number, below in numbers:
            for start in range(0, number.size, _BLOCK):
                block = number[start : start + _BLOCK]
                block[:] = rank[block >> np.uint64(below)] << np.uint64(below) | block & _mask(
                    below
                )


def _decoded(
    session: Session,
    layout: _Layout,
    keys: GroupKeys,
    summed: _Sums,
    names: Numbers | None,
    rules: Rules,
    left_out: Mapping[int, int],
) -> PairStore:
    """Return the pairs of numbers, which are used up."""
    session.forget(*RELATIONS)
    key, sums = summed.key, summed.sums
    unit_of_row, units = _ranked(
        key >> np.uint64(_bin_bits(None if rules.bins is None else rules.bins.edges)),
        layout.unit_bits,
    )
    if rules.bins is not None:
        bits = _bin_bits(None if rules.bins is None else rules.bins.edges)
        fine_bin, key = (key & _mask(bits)).view(np.int64), key >> np.uint64(bits)
        starts = _run_starts(key)
        of_cell = _run_starts(key >> np.uint64(layout.unit_bits))
        cell = np.arange(of_cell.size, dtype=np.int32)
        place = np.repeat(cell, np.diff(of_cell, append=key.size))
        rows = {"place": place, "unit": unit_of_row, FINE_BIN: fine_bin} | sums
        session.register(PAIR_BINS, to_table(rows))
        unit_of_row, key = unit_of_row[starts], key[starts]
        sums = {name: np.add.reduceat(column, starts) for name, column in sums.items()}
    key >>= np.uint64(layout.unit_bits)
    starts = _run_starts(key)
    cells, hexagon = _columns(layout.cell, key[starts])
    if names is not None:
        cells["hexagon"] = names[hexagon]
    cells["users"] = np.diff(starts, append=key.size)
    cells["records"] = np.add.reduceat(sums["n"], starts)
    cells["place"] = np.arange(starts.size)
    session.register(ALL_CELLS, to_table(cells))
    columns, _ = _columns(layout.unit, units)
    session.register(UNITS, to_table(columns | {"unit": np.arange(units.size)}))
    place = np.repeat(np.arange(starts.size, dtype=np.int32), cells["users"])
    pairs = {"place": place, "unit": unit_of_row} | sums
    session.register(PAIRS, to_table(pairs))
    return PairStore(session, keys, left_out, pairs)


def _columns(fields: Mapping[str, _Field], key: Numbers) -> tuple[dict[str, Any], Numbers]:
    """Decode the lowest fields of numbers; return the keys that they are, and what is above."""
    columns: dict[str, Any] = {}
    for name, field in reversed([*fields.items()]):
        columns[name] = field.read((key & _mask(field.bits)).view(np.int64))
        key = key >> np.uint64(field.bits)
    return columns, key


def _ranked(key: Numbers, bits: int) -> tuple[NDArray[Any], Numbers]:
    """Return the rank of each number's lowest bits among those that occur, and these."""
    number, reach = key & _mask(bits), 1 << bits
    # A table of flags of all possible units, unless it were larger than the pairs themselves.
    if reach > max(key.size, _MIN_TABLE):
        distinct, place = np.unique(number, return_inverse=True)
        return place.ravel(), distinct
    occurs = np.zeros(reach, dtype=np.bool_)
    occurs[number] = True
    place = np.cumsum(occurs, dtype=np.int32 if bits < 32 else np.int64) - 1
    return place[number], np.flatnonzero(occurs).view(np.uint64)


def _run_starts(ordered: NDArray[Any]) -> Ints:
    """Return the first position of each distinct value in sorted numbers."""
    return np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))


def _bin_bits(edges: Ints | None) -> int:
    """Return the bits of the number of a fine bin."""
    return 0 if edges is None else (edges.size - 1).bit_length()


def _mask(bits: int) -> np.uint64:
    """Return a number with so many lowest bits set."""
    return np.uint64((1 << bits) - 1)
