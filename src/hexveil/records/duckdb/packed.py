"""Counts and sums per (cell, unit) by sorting: each kept record is packed into one whole number.

From the highest bits to the lowest: the hexagon and the slot, or the labels; the user; the day or
week if a unit has one; the value in quanta. Slots, days and values are counted from their least,
users and combinations of labels numbered in the order of their bytes, hexagons as they are met and
then renumbered in their order. Nothing is hashed or rounded, so equal numbers are equal records,
and sorted numbers have the records of a pair side by side, pairs in the order of cells, then of
units. What comes out is what grouping by the engine gives, in a quarter of its time.

It is done where it pays and fits: many records, in columns that can be scanned one by one (the
users and the times are looked at before; text is parsed into such columns, see `rules.checked`),
and 64 bits for all of it. Records are sorted in half of
the memory that reading may use, 8 bytes each; where they do not fit, some users' records are read
and sorted after others'. `pack` returns None elsewhere, and the engine groups.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from hexveil.cells import Cells
from hexveil.errors import InputError
from hexveil.records.clock import END_OF_TIMES
from hexveil.records.duckdb.rules import TWIN
from hexveil.records.possible import squares_fit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hexveil.records.duckdb.pixels import Pixels
    from hexveil.records.duckdb.rules import Checked
    from hexveil.records.duckdb.session import Session
    from hexveil.records.duckdb.sums import Keys
    from hexveil.records.request import Rules

    Numbers = NDArray[np.uint64]
    Whole = NDArray[np.int64]

FEWEST = 100_000
"""Records below which the engine's own grouping is as quick."""
MOST_PARTS = 8
"""Times that records are read at most, to sort some users' after others'."""
HEXAGON_BITS = 16
"""Bits that are left for hexagons at least; each more doubles how many there may be."""
_USERS, _LABELS = "packed_users", "packed_labels"
_LABEL = "combination"
"""The number of a combination of labels."""
_CHANGED = "source: the records changed while they were read; run again once they are written."
_BITS = 64
_PLACES = 1 << 15
"""Places looked up at once: what is made of them stays in a processor's own memory."""
_REDUCED = 1 << 17


@dataclass(frozen=True, eq=False, repr=False)
class Packed:
    """PRIVATE. The table of pairs, in the order of its cells, then of its units.

    Attributes
    ----------
    cells : pyarrow.Table
        The keys of each cell, in order; `users` and `records` in it.
    units : pyarrow.Table
        The keys of each unit, in order.
    cell, unit : ndarray of int32, shape (n_pairs,)
        Rows of `cells` and `units`.
    sums : mapping of str to ndarray of int64
        `n`, `q` and perhaps `qq` of each pair. These may have overflowed where sums of as many
        values, or of their squares, could: those are refused, or not used.
    left_out : dict of int to int
        Per reason (0: kept) how many records it covers.
    """

    cells: pa.Table
    units: pa.Table
    cell: NDArray[np.int32]
    unit: NDArray[np.int32]
    sums: dict[str, Whole]
    left_out: dict[int, int]

    def pairs(self, chosen: Whole, names: Sequence[str]) -> pa.Table:
        """Return the pairs in the chosen cells, which are rows of `cells`, numbered as chosen."""
        columns: dict[str, Any] = {n: self.sums[n] for n in ("n", *names)}
        columns |= {"cell": self.cell, "unit": self.unit}
        if chosen.size < self.cells.num_rows:
            number = np.full(self.cells.num_rows, -1, dtype=np.int32)
            number[chosen] = np.arange(chosen.size)
            columns["cell"] = number[self.cell]
            kept = np.flatnonzero(columns["cell"] >= 0)
            columns = {name: column[kept] for name, column in columns.items()}
        return pa.table(columns)


@dataclass(frozen=True)
class _Field:
    """A whole number within a packed one.

    Attributes
    ----------
    name, expression : str
    least, largest, step : int
        It is kept as how many steps it is above the least.
    bits : int
    """

    name: str
    expression: str
    least: int
    largest: int
    step: int

    @property
    def bits(self) -> int:
        """Bits that the largest needs."""
        return ((self.largest - self.least) // self.step).bit_length()

    def read(self, packed: Numbers) -> Whole:
        """Return the numbers again from their counts of steps."""
        return packed.astype(np.int64) * self.step + self.least


@dataclass(frozen=True)
class _Layout:
    """What is packed, from high to low: hexagon, cell fields, user, unit fields, value."""

    cell: tuple[_Field, ...]
    unit: tuple[_Field, ...]
    value: _Field

    @property
    def fields(self) -> tuple[_Field, ...]:
        """All below the hexagon."""
        return (*self.cell, *self.unit, self.value)

    @property
    def unit_bits(self) -> int:
        """Bits of a unit."""
        return sum(field.bits for field in self.unit)

    @property
    def below(self) -> int:
        """Bits below the hexagon."""
        return sum(field.bits for field in self.fields)

    @property
    def columns(self) -> str:
        """The fields as columns of SQL."""
        return ", ".join(f"{f.expression} AS packed{i}" for i, f in enumerate(self.fields))

    @property
    def expression(self) -> str:
        """All below the hexagon as one number, made of these columns; null if one is not there.

        None can be, unless the records change after it was looked up how far they reach: then a
        number that its bits cannot hold would be taken for a neighbour's.
        """
        found, tests = "CAST(0 AS BIGINT)", []
        for i, field in enumerate(self.fields):
            counted = f"(packed{i} - ({field.least}))"
            counted = f"({counted} // {field.step})" if field.step > 1 else counted
            found = f"({found} * {1 << field.bits} + {counted})"
            tests.append(f"packed{i} BETWEEN {field.least} AND {field.largest}")
        return f"CASE WHEN {' AND '.join(tests)} THEN {found} END"


def pack(
    session: Session, source: Checked, query: str, grouping: Keys, rules: Rules
) -> Packed | None:
    """Return the pairs of checked records; None where the engine had better group them.

    Parameters
    ----------
    session : Session
    source : Checked
        All the records, looked at to see what there is.
    query : str
        The checked records that count: those of `source`, perhaps without repeats.
    grouping : Keys
    rules : Rules
    """
    if not source.columnar:
        return None
    placed = isinstance(rules.cells, Cells)
    records = int(str(session.rows(f"SELECT count(*) FROM ({source.raw})")[0][0]))
    if not FEWEST <= records <= MOST_PARTS * session.sortable:
        return None
    if query != source.query:  # without repeats there is text alone
        source = replace(source, twins=())
    layout = _layout(session, source, grouping, rules)
    # A number below 0 says why a record is left out.
    if layout is None or layout.below > _BITS - (HEXAGON_BITS if placed else 1):
        return None
    parts = _parts(session, source, records)
    if parts is None:
        return None
    pixels = None
    if isinstance(rules.cells, Cells):
        pixels = session.pixels(rules.cells.resolution)
        pixels.expected = records
    pairs = _Pairs(layout, pixels, squares=squares_fit(1, rules.scale))
    for part in parts:
        if not pairs.add(session, _query(source, query, layout, part), part):
            return None
    return pairs.packed(session)


def _layout(session: Session, source: Checked, grouping: Keys, rules: Rules) -> _Layout | None:
    """Return how records are packed; None if no record has a time, where they have any."""
    users = _number(session, source, _USERS, {"u": "u"}, "number")
    labels = _number_labels(session, source) if source.labelled else ()
    clocked = {n: e for n, e in grouping.all.items() if n in ("slot", "day", "week")}
    ends: list[int | None] = []  # least and largest of each
    if clocked:
        columns = ", ".join(f"min({e}), max({e})" for e in clocked.values())
        found = session.rows(
            f"SELECT {columns} FROM ({source.raw}) WHERE t BETWEEN 0 AND {END_OF_TIMES * 10**6 - 1}"
        )[0]
        ends = [None if end is None else int(str(end)) for end in found]
    fields = {}
    for i, (name, expression) in enumerate(clocked.items()):
        first, last = ends[2 * i : 2 * i + 2]
        if first is None or last is None:
            return None
        step = _step(rules) if name in grouping.cell else 1
        fields[name] = _Field(name, expression, first, last, step)
    user = _Field("u", "number", 0, max(users - 1, 0), 1)
    return _Layout(
        (*labels, *(fields[name] for name in grouping.cell if name in fields)),
        (user, *(fields[name] for name in grouping.unit if name in fields)),
        _Field("k", "k", 0, rules.scale.steps, 1),
    )


def _number_labels(session: Session, source: Checked) -> tuple[_Field, ...]:
    """Return the field of labels, all combinations numbered in the order of their bytes."""
    named = {f"l{i}": name for i, name in enumerate(source.places)}
    found = _number(session, source, _LABELS, named, _LABEL)
    return (_Field(_LABEL, _LABEL, 0, max(found - 1, 0), 1),)


def _number(
    session: Session, source: Checked, table: str, named: dict[str, str], number: str
) -> int:
    """Make a table of the distinct texts of raw columns, in order; return how many there are.

    Whole numbers are told apart in place of their texts, and stand beside them.
    """
    keys = [_key(source, name) for name in named]
    columns = [f"{key} AS {key}" for key in keys if key.startswith(TWIN)]
    texts = [
        f"CAST({key} AS VARCHAR) AS {named[name]}" if key.startswith(TWIN) else f"{key} AS {text}"
        for key, (name, text) in zip(keys, named.items(), strict=True)
    ]
    present = " AND ".join(f"{key} IS NOT NULL" for key in keys)
    session.run(
        f"CREATE OR REPLACE TEMP TABLE {table} AS SELECT *, row_number() OVER (ORDER BY "
        f"{', '.join(named.values())}) - 1 AS {number} FROM (SELECT {', '.join(columns + texts)} "
        f"FROM (SELECT DISTINCT {', '.join(keys)} FROM ({source.raw})) WHERE {present})"
    )
    return int(str(session.rows(f"SELECT count(*) FROM {table}")[0][0]))


def _key(source: Checked, name: str) -> str:
    """Return the column that tells a raw column's texts apart: the text, or its whole number."""
    return TWIN + name if TWIN + name in source.twins else name


def _join(source: Checked) -> str:
    """Return how checked records find the numbers of their users and labels."""
    found = f" LEFT JOIN {_USERS} USING ({_key(source, 'u')})"
    if not source.labelled:
        return found
    keys = [_key(source, f"l{i}") for i in range(len(source.places))]
    there = [key if key.startswith(TWIN) else f"p{key[1:]}" for key in keys]
    return f"{found} LEFT JOIN {_LABELS} USING ({', '.join(there)})"


def _step(rules: Rules) -> int:
    return (rules.cells.seconds or 1) if isinstance(rules.cells, Cells) else 1


def _parts(session: Session, source: Checked, records: int) -> list[_Part] | None:
    """Return the users whose records are sorted at once; None if one user's are too many."""
    most = session.sortable
    if records <= most:
        return [_Part(0, 0, records, last=True)]
    counts = session.arrow(
        f"SELECT number, count(*) AS n FROM ({source.raw}) JOIN {_USERS} "
        f"USING ({_key(source, 'u')}) "
        "GROUP BY number ORDER BY number"
    )["n"].to_numpy()
    parts, first = [], 0
    ends = np.cumsum(counts)
    while first < counts.size:
        before = int(ends[first - 1]) if first else 0
        end = int(np.searchsorted(ends, before + most, side="right"))
        if end == first:
            return None
        parts.append(_Part(first, end, int(ends[end - 1]) - before, end == counts.size))
        first = end
    return parts


@dataclass(frozen=True)
class _Part:
    """Users by their numbers, from `first` to before `end`, and how many records they have.

    The part that is first and last has all users.
    """

    first: int
    end: int
    records: int
    last: bool


def _query(source: Checked, query: str, layout: _Layout, part: _Part) -> str:
    """Return the query of kept records' places, and what is packed below their hexagon.

    Of a part of the users; records that are left out are in the first part, the reason below 0,
    and so are those of users whom nobody knows, which are null.
    """
    places = "" if source.labelled else "".join(f"{name}, " for name in source.places)
    some = f"why = 0 AND number >= {part.first} AND number < {part.end}"
    if not part.first:
        some = f"why <> 0 OR number < {part.end} OR number IS NULL"
    chosen = "" if part.last and not part.first else f" WHERE {some}"
    return (
        f"SELECT {places}CASE WHEN why = 0 THEN {layout.expression} "
        f"ELSE -CAST(why AS BIGINT) END AS below FROM (SELECT {places}why, {layout.columns} "
        f"FROM ({query}) {_join(source)}{chosen})"
    )


class _Pairs:
    """The pairs of records, added part by part.

    Parameters
    ----------
    layout : _Layout
    pixels : Pixels or None
        None where cells are labels.
    squares : bool
    """

    def __init__(self, layout: _Layout, pixels: Pixels | None, *, squares: bool) -> None:
        self._layout, self._pixels, self._squares = layout, pixels, squares
        self._left_out = np.zeros(1 << 8, dtype=np.int64)
        self._found: list[tuple[Numbers, dict[str, Whole]]] = []

    def add(self, session: Session, query: str, part: _Part) -> bool:
        """Add up some users' records; return whether their hexagons fit."""
        records, size = np.empty(part.records, dtype=np.uint64), 0
        for batch in session.stream(query):
            for start in range(0, len(batch), _PLACES):
                found = self._numbers(batch.slice(start, _PLACES))
                if found.size > records.size - size:
                    raise InputError(_CHANGED)
                records[size : size + found.size] = found
                size += found.size
            if self._hexagons.size > 1 << (_BITS - self._layout.below):
                return False
        self._left_out[0] += size
        records = records[:size]
        records.sort()
        if size:
            self._found.append(_sums(records, self._layout.value.bits, squares=self._squares))
        return True

    def _numbers(self, batch: pa.RecordBatch) -> Numbers:
        """Return kept records as packed numbers, and count those that are left out."""
        if batch["below"].null_count:
            raise InputError(_CHANGED)
        columns = [column.to_numpy(zero_copy_only=False) for column in batch.columns]
        below = columns[-1]
        if below.min(initial=0) < 0:
            out = below < 0
            self._left_out += np.bincount(-below[out], minlength=self._left_out.size)
            columns = [part[~out] for part in columns]
        *place, below = columns
        if self._pixels is None:
            return np.asarray(below.view(np.uint64))
        found = self._pixels.numbers(*place).astype(np.int64)
        found <<= self._layout.below
        found |= below
        return np.asarray(found.view(np.uint64))

    @property
    def _hexagons(self) -> Numbers:
        """The hexagons that were met."""
        return np.zeros(0, dtype=np.uint64) if self._pixels is None else self._pixels.names

    def packed(self, session: Session) -> Packed | None:
        """Return all pairs in order; None if there is none."""
        if not self._found:
            return None
        layout = self._layout
        bits = layout.below - layout.value.bits
        pair = np.concatenate([one for one, _ in self._found])
        hexagons = None if self._pixels is None else _renumber(pair, bits, self._hexagons)
        # Users' parts follow each other, and hexagons come in the order they were met.
        order = np.argsort(pair)
        pair = pair[order]
        names = tuple(self._found[0][1])
        sums = {n: np.concatenate([one.pop(n) for _, one in self._found])[order] for n in names}
        unit, units = _compressed(pair & _mask(layout.unit_bits), 1 << layout.unit_bits)
        cell = pair >> np.uint64(layout.unit_bits)
        first = _firsts(cell)
        columns, named = _columns(layout.cell, cell[first])
        if hexagons is None:
            columns |= _labels(session, columns.pop(_LABEL))
        else:
            columns["hexagon"] = hexagons[named]
        columns["users"] = users = np.diff(first, append=cell.size)
        columns["records"] = np.add.reduceat(sums["n"], first)
        cells = pa.table(columns)
        number = np.repeat(np.arange(first.size, dtype=np.int32), users)
        left_out = {i: int(self._left_out[i]) for i in np.flatnonzero(self._left_out).tolist()}
        return Packed(cells, _units(session, units, layout), number, unit, sums, left_out)


def _renumber(packed: Numbers, below: int, names: Numbers) -> Numbers:
    """Renumber hexagons, above some bits, in their order; return the hexagon of each number."""
    order = np.argsort(names)
    rank = np.empty(names.size, dtype=np.uint64)
    rank[order] = np.arange(names.size, dtype=np.uint64)
    rank <<= np.uint64(below)
    for start in range(0, packed.size, _REDUCED):
        part = packed[start : start + _REDUCED]
        part[:] = rank[part >> np.uint64(below)] | (part & _mask(below))
    return names[order]


def _sums(
    records: Numbers, value_bits: int, *, squares: bool
) -> tuple[Numbers, dict[str, NDArray[np.int64]]]:
    """Return the pairs of sorted records, as numbers, and counts and sums of each."""
    value, mask = np.uint64(value_bits), _mask(value_bits)
    parts: dict[str, list[NDArray[np.int64]]] = {"n": [], "q": [], "qq": []}
    pairs, start = [], 0
    while start < records.size:
        stop = start + _REDUCED
        if stop < records.size:
            # No pair is cut in two: this part ends with all records of its last one.
            last = records[stop - 1] | mask
            stop = start + int(np.searchsorted(records[start:], last, side="right"))
        part = records[start:stop]
        k = (part & mask).astype(np.int64)
        pair = part >> value
        first = _firsts(pair)
        pairs.append(pair[first])
        parts["n"].append(np.diff(first, append=pair.size))
        parts["q"].append(np.add.reduceat(k, first))
        if squares:
            parts["qq"].append(np.add.reduceat(k * k, first))
        start = stop
    return np.concatenate(pairs), {
        name: np.concatenate(part) for name, part in parts.items() if part
    }


def _labels(session: Session, numbers: Whole) -> dict[str, pa.ChunkedArray]:
    """Return the labels of numbered combinations, as `sums.keys` names them."""
    table = session.arrow(f"SELECT * FROM {_LABELS} ORDER BY {_LABEL}")
    texts = [name for name in table.column_names if name.startswith("p")]
    return {f"label{name[1:]}": table[name].take(pa.array(numbers)) for name in texts}


def _units(session: Session, units: Numbers, layout: _Layout) -> pa.Table:
    """Return the keys of packed units, in order."""
    columns, _ = _columns(layout.unit, units)
    ids = session.arrow(f"SELECT u FROM {_USERS} ORDER BY number")["u"]
    return pa.table({**columns, "u": ids.take(pa.array(columns["u"]))})


def _columns(fields: Sequence[_Field], packed: Numbers) -> tuple[dict[str, Any], Numbers]:
    """Return the fields that are the lowest of packed numbers, and what is above them."""
    columns: dict[str, Any] = {}
    for field in reversed(fields):
        columns[field.name] = field.read(packed & _mask(field.bits))
        packed = packed >> np.uint64(field.bits)
    return columns, packed


def _compressed(values: Numbers, reach: int) -> tuple[NDArray[np.int32], Numbers]:
    """Return the place of each value among the distinct ones, and those in order."""
    if reach > max(values.size, FEWEST):
        distinct: Numbers
        distinct, among = np.unique(values, return_inverse=True)
        return among.ravel().astype(np.int32), distinct
    there = np.zeros(reach, dtype=np.bool_)
    there[values] = True
    place = np.cumsum(there, dtype=np.int32) - np.int32(1)
    return place[values], np.flatnonzero(there).astype(np.uint64)


def _firsts(ordered: Numbers) -> NDArray[np.int64]:
    """Return where each distinct one of sorted numbers, of which there are some, first is."""
    return np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))


def _mask(bits: int) -> np.uint64:
    return np.uint64((1 << bits) - 1)
