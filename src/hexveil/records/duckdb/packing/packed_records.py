"""Counts and sums per (cell, unit) by sorting records that are packed into integers.

Which field stands where: `bit_layout`. Hexagons are numbered as they are met and then renumbered in
their order. Nothing is hashed or rounded, so equal numbers are equal records, and sorted numbers
have the records of a pair side by side, pairs in the order of cells, then of units; `unpacking`
makes the table of pairs of them. What comes out is what grouping by the engine gives, in a quarter
of its time.

It is done where it pays and fits: many records, in columns that can be scanned one by one (the
users and the times are looked at before; text is parsed into such columns, see `validate_records`),
and 64 bits for all of it. Records are sorted in half of the memory that reading may use, 8 bytes
each; where they do not fit, some users' records are read and sorted after others'. `pack` returns
None elsewhere, and the engine groups.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from hexveil.base.arrow_numbers import to_numpy
from hexveil.base.errors import InputError
from hexveil.base.work_share import READING, part_of_work, tell_share
from hexveil.model.cells import Cells
from hexveil.records.duckdb.packing.bit_layout import (
    COMBINATION,
    USERS,
    join_numbers,
    make_layout,
)
from hexveil.records.duckdb.packing.unpacking import (
    PackedPairs,
    PairSums,
    count_distinct,
    merge_sorted,
    renumber,
    sum_pairs,
    unpack,
)
from hexveil.records.duckdb.record_repeats import deduplicated_query
from hexveil.records.duckdb.validation import key_column
from hexveil.records.feasible_sums import squares_fit

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from hexveil.records.duckdb.aggregation import GroupKeys
    from hexveil.records.duckdb.hexagons.pixel_lookup import PixelLookup
    from hexveil.records.duckdb.packing.bit_layout import Layout
    from hexveil.records.duckdb.session import Session
    from hexveil.records.duckdb.validation import ValidatedRecords
    from hexveil.records.read_request import Rules

    Numbers = NDArray[np.uint64]

MIN_RECORDS = 100_000
"""Records below which the engine's own grouping is as quick."""
MAX_PASSES = 8
"""Times that records are read at most, to sort some users' after others'."""
HEXAGON_BITS = 16
"""Bits that are left for hexagons at least; each more doubles how many there may be."""
_CHANGED = "source: the records changed while they were read; run again once they are written."
BITS = 64
"""Of a packed record."""
_BYTES_OF_PAIR = 48
"""Memory of a packed pair while those of several ranges of users are put in order."""
_PAIRS_ALWAYS_HELD = 2 * 10**9
"""Bytes of packed pairs that are kept, however small the memory."""
PLACES = 1 << 15
"""Places looked up at once: what is made of them stays in a processor's own memory."""


def pack(
    session: Session,
    source: ValidatedRecords,
    grouping: GroupKeys,
    rules: Rules,
    n_records: int | None,
    *,
    deduplicated: bool,
) -> PackedPairs | None:
    """Return the pairs of validated records; None if the engine should group them.

    Parameters
    ----------
    session : Session
    source : ValidatedRecords
        All the records.
    grouping : GroupKeys
    rules : Rules
    n_records : int or None
        Records before any check; None where that takes a look at all their columns.
    deduplicated : bool
        Whether repeats were found: then records are packed without them.
    """
    if n_records is None:
        return None
    placed = isinstance(rules.cells, Cells)
    # Counted over raw records: an upper bound of those that are kept.
    if not MIN_RECORDS <= n_records <= MAX_PASSES * session.sortable:
        return None
    if deduplicated:  # without repeats there is text alone
        source = replace(source, twins=())
    layout = make_layout(session, source, grouping, rules)
    # A number below 0 says why a record is left out.
    if layout is None or layout.below > BITS - (HEXAGON_BITS if placed else 1):
        return None
    ranges = _user_ranges(session, source, n_records)
    if ranges is None:
        return None
    pixels = None
    if isinstance(rules.cells, Cells):
        pixels = session.pixels(rules.cells.resolution)
        pixels.expected = n_records
    edges = None if rules.bins is None else rules.bins.edges
    pairs = PairBuilder(layout, pixels, squares=squares_fit(1, rules.scale), edges=edges)
    with session.sharing():
        for number, user_range in enumerate(ranges):
            query = _query(source, layout, user_range, deduplicated=deduplicated)
            with part_of_work(READING, number, len(ranges)):
                if not pairs.add(session, query, user_range):
                    return None
    return pairs.packed(session)


def _user_ranges(
    session: Session, source: ValidatedRecords, records: int
) -> list[_UserRange] | None:
    """Split users into ranges that are sorted at once; None if one user has too many records."""
    capacity = session.sortable
    if records <= capacity:
        return [_UserRange(0, 0, records, is_last=True)]
    numbered = session.arrow(
        f"SELECT number, count(*) AS n FROM ({source.raw}) JOIN {USERS} "
        f"USING ({key_column('user_id', source.twins)}) "
        "GROUP BY number ORDER BY number"
    )["n"]
    ranges, start = [], 0
    counts = to_numpy(numbered)
    ends = np.cumsum(counts)
    while start < counts.size:
        n_before = int(ends[start - 1]) if start else 0
        end = int(np.searchsorted(ends, n_before + capacity, side="right"))
        if end == start:
            return None
        ranges.append(_UserRange(start, end, int(ends[end - 1]) - n_before, end == counts.size))
        start = end
    return ranges


@dataclass(frozen=True)
class _UserRange:
    """A range of user numbers, from `start` to before `end`, with its number of records.

    The range that starts at 0 and is the last one has all users.
    """

    start: int
    end: int
    records: int
    is_last: bool


def _query(
    source: ValidatedRecords, layout: Layout, user_range: _UserRange, *, deduplicated: bool
) -> str:
    """Return the query of kept records: their places, and the packed bits below the hexagon.

    Only of the users of one range. Rejected records are in the first range, as minus their reason,
    and so are those of unknown users, which are null. If records are deduplicated, the range is
    selected first: fewer records are compared with the repeated ones.
    """
    places = "" if source.labelled else "".join(f"{name}, " for name in source.places)
    restriction = (
        f"reject_reason = 0 AND number >= {user_range.start} AND number < {user_range.end}"
    )
    if not user_range.start:
        restriction = f"reject_reason <> 0 OR number < {user_range.end} OR number IS NULL"
    joins = join_numbers(source) + (
        "" if user_range.is_last and not user_range.start else f" WHERE {restriction}"
    )
    numbers = ("number", *([COMBINATION] * source.labelled))
    records = (
        f"({deduplicated_query(source, joins, numbers)})"
        if deduplicated
        else f"({source.query}){joins}"
    )
    return (
        f"SELECT {places}CASE WHEN reject_reason = 0 THEN {layout.expression} "
        "ELSE -CAST(reject_reason AS BIGINT) END AS below FROM ("
        f"SELECT {places}reject_reason, {layout.columns} FROM {records})"
    )


class PairBuilder:
    """Builder of the pairs, one range of users after another.

    Parameters
    ----------
    layout : Layout
    pixels : PixelLookup or None
        None where cells are labels.
    squares : bool
    edges : ndarray of int64, or None
        Of fine bins, where records are counted by bin.
    """

    def __init__(
        self,
        layout: Layout,
        pixels: PixelLookup | None,
        *,
        squares: bool,
        edges: NDArray[np.int64] | None = None,
    ) -> None:
        self._layout, self._pixels, self._squares = layout, pixels, squares
        self._edges = edges
        self._left_out = np.zeros(1 << 8, dtype=np.int64)
        self._sorted_pairs: list[PairSums] = []
        self._n_pairs = 0
        self._hexagons_in_order: Numbers | None = None

    def add(self, session: Session, query: str, user_range: _UserRange) -> bool:
        """Sum the records of a range of users; return whether their hexagons fit."""
        # Allocated once and filled: a list of batches would need twice the memory to join.
        records, size = np.empty(user_range.records, dtype=np.uint64), 0
        for batch in session.stream(query):
            for start in range(0, len(batch), PLACES):
                packed = self._numbers(batch.slice(start, PLACES))
                if packed.size > records.size - size:
                    raise InputError(_CHANGED)
                records[size : size + packed.size] = packed
                size += packed.size
            tell_share(READING, size / max(user_range.records, 1))
            # Found only while records are read: then the engine groups them from the start.
            if self._hexagons.size > 1 << (BITS - self._layout.below):
                return False
        self._left_out[0] += size
        only = user_range.is_last and not user_range.start
        return not size or self._sort(records[:size], session.memory, only=only)

    def _sort(self, records: Numbers, memory: float, *, only: bool) -> bool:
        """Sum kept records in place; return whether their pairs fit.

        `only` if there are no other ranges of users.
        """
        if only and self._pixels is not None:
            self._hexagons_in_order = renumber(records, self._layout.below, self._hexagons)
        records.sort()
        self._n_pairs += count_distinct(records, self._layout.value.bits)
        if self._n_pairs * _BYTES_OF_PAIR > max(memory, _PAIRS_ALWAYS_HELD):
            return False
        pairs = sum_pairs(
            records, self._layout.value.bits, squares=self._squares, edges=self._edges
        )
        # While others are sorted, the room of these records must be free.
        self._sorted_pairs.append(pairs if only else pairs.copy())
        return True

    def _numbers(self, batch: pa.RecordBatch) -> Numbers:
        """Return kept records as packed numbers, and count those that are left out."""
        if batch["below"].null_count:
            raise InputError(_CHANGED)
        columns = [to_numpy(column) for column in batch.columns]
        below = columns[-1]
        if below.min(initial=0) < 0:
            out = below < 0
            self._left_out += np.bincount(-below[out], minlength=self._left_out.size)
            columns = [column[~out] for column in columns]
        *place, below = columns
        if self._pixels is None:
            return np.asarray(below.view(np.uint64))
        # Numbers of hexagons in place of their 64 bits, of which a packed record has no room.
        numbers = self._pixels.numbers(*place).astype(np.int64)
        numbers <<= self._layout.below
        numbers |= below
        return np.asarray(numbers.view(np.uint64))

    @property
    def _hexagons(self) -> Numbers:
        """The hexagons that were met."""
        return np.zeros(0, dtype=np.uint64) if self._pixels is None else self._pixels.names

    def packed(self, session: Session) -> PackedPairs | None:
        """Return all pairs in order; None if there is none."""
        if not self._sorted_pairs:
            return None
        pairs, hexagons = self._sorted_pairs[0], self._hexagons_in_order
        if len(self._sorted_pairs) > 1 or (self._pixels is not None and hexagons is None):
            names = None if self._pixels is None else self._hexagons
            bits = self._layout.below - self._layout.value.bits
            pairs, hexagons = merge_sorted(self._sorted_pairs, names, bits)
        return unpack(session, pairs, hexagons, self._layout, self._left_out)
