"""The fast path to pairs: one 64-bit number a record, sorted, and summed where numbers are equal.

It gives what grouping by the engine gives (`aggregation.create_pairs`), in half of its time or
less, and nothing depends on it: `pack` returns None where 64 bits or memory do not suffice, and the
engine groups. From the highest bits to the lowest a number has the hexagon, the slot (or the
labels), the user, the day or week if a unit has one, and the value in quanta. Slots and days are
counted from their least, users and labels numbered in the order of their texts, hexagons as they
are met and then in their order. So sorted numbers have the records of a pair side by side, and
pairs in the order of cells, then of units.

Records are sorted in half of the memory that reading may use; where they are more, parts of them
are summed to pairs one after another, and pairs of all parts are added up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hexveil.base import hexagons
from hexveil.base.arrays import Ints
from hexveil.base.arrow_tables import to_arrow, to_numpy, to_table
from hexveil.base.errors import InputError
from hexveil.base.work_share import READING, tell_share
from hexveil.records.duckdb import aggregation
from hexveil.records.duckdb.aggregation import SQUARES, TOTAL, GroupKeys, PairStore
from hexveil.records.duckdb.session import Session
from hexveil.records.duckdb.times import END_OF_TIMES
from hexveil.records.duckdb.validation import REASONS, ValidatedRecords
from hexveil.records.read_request import ReadRequest, Rules

Numbers = NDArray[np.uint64]
Sums = dict[str, NDArray[Any]]
"""PRIVATE. Distinct numbers of pairs (and bins) in order, `key`, with counts and sums."""

MIN_RECORDS = 100_000
"""Records below which the engine's own grouping is as quick."""
BITS = 64
"""Of a number."""
BYTES_OF_PAIR = 48
"""Memory of a pair while those of several parts are added up; of a row with fewer sums, less."""
PAIRS_ALWAYS_HELD = 2 * 10**9
"""Bytes of pairs that are kept, however small the memory."""
COLUMNS = ("n", TOTAL, SQUARES)
"""Counts and sums of pairs."""
RANGED = ("slot", "day", "week")
"""Keys that are whole numbers near each other; the others are texts, and numbered."""
_BLOCK = 1 << 15
"""Numbers of which something is made at once: they stay in a processor's own memory."""


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


@dataclass(frozen=True)
class _Layout:
    """Fields below the hexagon, high to low: of the cell, of the unit, and the value.

    Of a pair's number a fine bin takes the place of the value, or nothing without `edges` of bins.
    """

    cell: Mapping[str, _Field]
    unit: Mapping[str, _Field]
    value: _Field
    edges: Ints | None

    @property
    def unit_bits(self) -> int:
        """Bits of a unit."""
        return sum(field.bits for field in self.unit.values())

    @property
    def bin_bits(self) -> int:
        """Bits of a fine bin."""
        return 0 if self.edges is None else (self.edges.size - 1).bit_length()

    @property
    def bits(self) -> int:
        """Bits below the hexagon."""
        return sum(f.bits for f in self.cell.values()) + self.unit_bits + self.value.bits

    def query(self, records: str, columns: Sequence[str]) -> str:
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
            f"FROM (SELECT {', '.join(['reject_reason', *columns, *fields])} FROM ({records}))"
        )


def _added(one: Sums, other: Sums) -> Sums:
    """Return the sums of two parts, which may be in any order."""
    joined = {name: np.concatenate((one[name], other[name])) for name in one}
    # Each part is in order: runs of numbers are merged, sooner than sorted.
    order = np.argsort(joined["key"], kind="stable")
    key = joined.pop("key")[order]
    starts = _run_starts(key)
    sums = {name: np.add.reduceat(column[order], starts) for name, column in joined.items()}
    return {"key": key[starts]} | sums


def _summed(records: Numbers, layout: _Layout, names: Sequence[str], *, by_bin: bool) -> Sums:
    """Return these sums of sorted records."""
    value, mask = np.uint64(layout.value.bits), _mask(layout.value.bits)
    # Room for a row per record, of which the system gives what is written to.
    sums: Sums = {name: np.empty(records.size, np.int64) for name in names}
    sums["key"] = np.empty_like(records)
    size = start = 0
    while start < records.size:
        stop = start + _BLOCK
        if stop < records.size:
            # No pair is cut in two: this block ends with all records of its last one.
            stop = start + np.searchsorted(records[start:], records[stop - 1] | mask, side="right")
        block, start = records[start:stop], stop
        k, key = (block & mask).view(np.int64), block >> value
        if by_bin and layout.edges is not None:
            fine_bin = np.searchsorted(layout.edges, k).view(np.uint64)
            key = key << np.uint64(layout.bin_bits) | fine_bin
        starts = _run_starts(key)
        rows = slice(size, size := size + starts.size)
        sums["key"][rows] = key[starts]
        sums["n"][rows] = np.diff(starts, append=key.size)
        if TOTAL in sums:
            # Overflow wraps, silently: sums of so many records are refused by their number alone,
            # and their squares not used.
            np.add.reduceat(k, starts, out=sums[TOTAL][rows])
            np.add.reduceat(k * k, starts, out=sums[SQUARES][rows])
    for column in sums.values():
        column.resize(size, refcheck=False)
    return sums


def pack(
    session: Session, source: ValidatedRecords, keys: GroupKeys, request: ReadRequest
) -> PairStore | None:
    """Return the pairs of validated records; None if the engine should group them."""
    # Where columns are not scanned alone a count would take another reading.
    count = f"SELECT count(*) FROM ({source.raw})"
    n_records = session.numbers(count)[0] if source.columnar else 0
    layout = _layout(session, source, keys, request.rules) if n_records >= MIN_RECORDS else None
    if layout is None or layout.bits >= BITS:
        return None
    packer = _Packer(session, layout, request, n_records)
    with session.sharing():
        sums = packer.summed(layout.query(source.query, () if source.labelled else source.places))
    return _decoded(session, layout, keys, sums, packer) if sums else None


def _layout(
    session: Session, source: ValidatedRecords, keys: GroupKeys, rules: Rules
) -> _Layout | None:
    """Return the layout of records; None if it needs times and no record has a usable one."""
    fields, steps = {}, {"slot": getattr(rules.cells, "seconds", None)}
    for name, sql in keys.all.items():
        if name == "hexagon":
            continue
        if name in RANGED:
            ends = session.numbers(
                f"SELECT min({sql}), max({sql}) FROM ({source.clocked}) "
                f"WHERE time_us BETWEEN 0 AND {END_OF_TIMES * 10**6 - 1} HAVING count(*) > 0"
            )
            if not ends:
                return None
            fields[name] = _Field(sql, ends[0], ends[1], steps.get(name) or 1)
            continue
        # Of raw records: a user whose records are all rejected gets a number too, and no pair.
        column, kind = name.replace("label", "raw_label"), f"ranked_{name}"
        distinct = f"SELECT DISTINCT {column} FROM ({source.raw}) WHERE {column} IS NOT NULL"
        session.run(f"DROP TYPE IF EXISTS {kind}")
        session.run(f"CREATE TYPE {kind} AS ENUM ({distinct} ORDER BY ALL)")
        listed = session.arrow(f"SELECT unnest(enum_range(CAST(NULL AS {kind}))) AS text")
        texts = listed["text"].combine_chunks()
        rank = f"CAST(enum_code(TRY_CAST({sql} AS {kind})) AS BIGINT)"
        fields[name] = _Field(rank, 0, max(len(texts) - 1, 0), texts=texts)
    unit = {name: fields.pop(name) for name in keys.unit}
    edges = None if rules.bins is None else rules.bins.edges
    return _Layout(fields, unit, _Field("quanta", 0, rules.scale.span_quanta), edges)


class _Packer:
    """PRIVATE. Reader of numbered records, which sums them part by part."""

    def __init__(self, session: Session, layout: _Layout, request: ReadRequest, n: int) -> None:
        self._session, self._layout, self._n_records = session, layout, n
        self._resolution = getattr(request.rules.cells, "resolution", None)
        # Room for records: a list of batches would need twice the memory to join.
        self._at_once, self._size = min(n, max(session.sortable, 1)), 0
        self._room = np.empty(self._at_once, dtype=np.uint64)
        # Sums of pairs, and of pairs by bin, which a cache keeps.
        of_bins = COLUMNS if request.cache is not None else COLUMNS[:1]
        self._names = [COLUMNS, of_bins][: 1 if layout.edges is None else 2]
        self._sums: list[Sums] = []
        self._known: dict[int, int] = {}
        self.left_out = np.zeros(len(REASONS), dtype=np.int64)

    def summed(self, query: str) -> list[Sums]:
        """Return the sums of pairs, and by bin; none without a record, or if they do not fit."""
        for batch in self._session.stream(query):
            self._add(self._packed(batch))
            tell_share(READING, self.left_out[0] / self._n_records)
            # Found only while records are read: then the engine groups them from the start.
            if len(self._known) > 1 << (BITS - self._layout.bits) or not self._fit():
                return []
        if not self.left_out[0]:
            return []
        if self._resolution is not None:
            self._order_hexagons()
        self._sum_part()
        return self._sums if self._fit() else []

    def _packed(self, batch: pa.RecordBatch) -> Numbers:
        """Return kept records as numbers, and count those that are left out."""
        if batch["below"].null_count:
            raise InputError(
                "source: the records changed while they were read; run again once they are written."
            )
        *places, below = map(to_numpy, batch.columns)
        self.left_out += np.bincount(-np.minimum(below, 0), minlength=len(REASONS))
        *places, below = (column[below >= 0] for column in (*places, below))
        if self._resolution is not None:
            # Numbers of hexagons in place of their 64 bits, of which a number has no room.
            lat, lon = map(to_arrow, places)
            found = hexagons.of_places(lat, lon, self._resolution).dictionary_encode()
            names, known = found.dictionary.to_pylist(), self._known
            number = np.array([known.setdefault(name, len(known)) for name in names], np.int64)
            below = number[to_numpy(found.indices)] << self._layout.bits | below
        return np.asarray(below.view(np.uint64))

    def _add(self, packed: Numbers) -> None:
        """Put records beside those that wait, which are summed whenever there is no room."""
        while packed.size:
            if self._size == self._at_once:
                self._sum_part()
            taken, packed = np.split(packed, [self._at_once - self._size])
            self._room[self._size : self._size + taken.size] = taken
            self._size += taken.size

    def _sum_part(self) -> None:
        """Sum the records that wait, and add them to those before."""
        records, self._room = self._room, np.empty(self._at_once, dtype=np.uint64)
        records.resize(self._size, refcheck=False)
        records.sort()
        self._size, by_name = 0, enumerate(self._names)
        levels = [_summed(records, self._layout, names, by_bin=i > 0) for i, names in by_name]
        self._sums = [*map(_added, self._sums, levels)] if self._sums else levels

    def _fit(self) -> bool:
        """Return whether memory holds the pairs of so many records, and of others beside them."""
        size = BYTES_OF_PAIR * sum(len(sums) * sums["key"].size for sums in self._sums)
        return size <= (1 + len(COLUMNS)) * max(self._session.memory, PAIRS_ALWAYS_HELD)

    def hexagons(self) -> Numbers:
        """Return the hexagons that were met, in order."""
        return np.sort(np.fromiter(self._known, np.uint64))

    def _order_hexagons(self) -> None:
        """Put the rank of each hexagon in the place of the number that it was given."""
        rank = np.argsort(np.argsort(np.fromiter(self._known, np.uint64))).astype(np.uint64)
        layout = self._layout
        numbers = [(self._room[: self._size], layout.bits)]
        for sums, bits in zip(self._sums, (0, layout.bin_bits), strict=False):
            numbers.append((sums["key"], layout.bits - layout.value.bits + bits))
        for number, below in numbers:
            for start in range(0, number.size, _BLOCK):
                block = number[start : start + _BLOCK]
                hexagon, rest = block >> np.uint64(below), block & _mask(below)
                block[:] = rank[hexagon] << np.uint64(below) | rest


def _decoded(
    session: Session, layout: _Layout, keys: GroupKeys, levels: list[Sums], packer: _Packer
) -> PairStore:
    """Return the pairs of numbers, which are used up."""
    session.forget(*aggregation.RELATIONS)
    sums, *by_bin = levels
    key = sums.pop("key")
    for bins in by_bin:
        number = bins.pop("key")
        bins[aggregation.FINE_BIN] = (number & _mask(layout.bin_bits)).view(np.int64)
        number >>= np.uint64(layout.bin_bits)
        n_bins = np.diff(_run_starts(number), append=number.size)
        del number
        bins["pair"] = np.repeat(np.arange(key.size), n_bins)
    # Units that have pairs, in order, and the number of each pair's among them.
    encoded = to_arrow(key & _mask(layout.unit_bits)).dictionary_encode()
    found = to_numpy(encoded.dictionary)
    units = np.sort(found)
    unit = np.searchsorted(units, found).astype(np.int32)[to_numpy(encoded.indices)]
    key >>= np.uint64(layout.unit_bits)
    starts = _run_starts(key)
    cells, hexagon = _columns(layout.cell, key[starts])
    if "hexagon" in keys.cell:
        cells["hexagon"] = packer.hexagons()[hexagon]
    cells["users"] = np.diff(starts, append=key.size)
    cells["records"] = np.add.reduceat(sums["n"], starts)
    cells["place"] = np.arange(starts.size, dtype=np.int32)
    pairs = {"place": np.repeat(cells["place"], cells["users"]), "unit": unit} | sums
    of_units = _columns(layout.unit, units)[0] | {"unit": np.arange(units.size)}
    session.register(aggregation.ALL_CELLS, to_table(cells))
    session.register(aggregation.UNITS, to_table(of_units))
    session.register(aggregation.PAIRS, to_table(pairs))
    left_out = {reason: n for reason, n in enumerate(packer.left_out.tolist()) if n}
    return PairStore(session, keys, left_out, pairs, *by_bin)


def _columns(fields: Mapping[str, _Field], key: Numbers) -> tuple[dict[str, Any], Numbers]:
    """Return the keys in the lowest fields of numbers, and the higher bits."""
    columns: dict[str, Any] = {}
    for name, field in reversed([*fields.items()]):
        steps, key = (key & _mask(field.bits)).view(np.int64), key >> np.uint64(field.bits)
        whole = steps * field.step + field.lowest
        columns[name] = whole if field.texts is None else field.texts.take(to_arrow(steps))
    return columns, key


def _run_starts(ordered: NDArray[Any]) -> Ints:
    """Return the first position of each distinct value in sorted numbers."""
    return np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))


def _mask(bits: int) -> np.uint64:
    """Return a number with so many lowest bits set."""
    return np.uint64((1 << bits) - 1)
