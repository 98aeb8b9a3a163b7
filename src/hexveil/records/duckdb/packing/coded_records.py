"""Counts and sums per (cell, unit) of plain delimited text, without a table of records.

Each block of text is validated by the same query as everywhere (`validation`), with ids as numbers,
and leaves nothing but whole numbers: hexagon, user, slot, day or week, value in quanta. At the end
these are packed and sorted as `packed_records` does. What comes out is the same; the engine neither
stores the records nor looks at them again.

A number of a user is first one of the block's distinct texts; all blocks' texts are numbered in
the order of their bytes once they are known.

Repeats: records of a user and time are found by sorting one whole number for each, exactly. Of
those the record of smallest place stays, on a tie the one of smallest value, as everywhere.

`pack_text` returns None where that does not fit: labels, two clocks, few records, more than memory
has room for, files that are not plain. The records are then parsed into a table.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hexveil.base.arrow_numbers import to_arrow, to_numpy, to_table
from hexveil.base.work_share import READING, tell_share
from hexveil.model.cells import DAY, Cells
from hexveil.records.duckdb import aggregation
from hexveil.records.duckdb.delimited.block_loading import BlockLoader
from hexveil.records.duckdb.delimited.parsed_records import declarations
from hexveil.records.duckdb.delimited.plain_blocks import NotPlainError, plain_blocks
from hexveil.records.duckdb.delimited.typed_columns import TYPES
from hexveil.records.duckdb.packing import packed_records
from hexveil.records.duckdb.packing.bit_layout import USERS, clocked_keys, layout_of_ranges
from hexveil.records.duckdb.packing.block_rules import BlockRules
from hexveil.records.duckdb.packing.packed_records import PairBuilder
from hexveil.records.duckdb.packing.repeated_records import user_times, without_repeats
from hexveil.records.duckdb.validation import used_columns, validate_records
from hexveil.records.feasible_sums import squares_fit
from hexveil.records.sources.columns import ColumnType
from hexveil.records.sources.source_files import ZSTD
from hexveil.records.units import canonical_texts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hexveil.records.duckdb.aggregation import GroupKeys
    from hexveil.records.duckdb.delimited.block_loading import Types
    from hexveil.records.duckdb.delimited.typed_columns import Declarations
    from hexveil.records.duckdb.hexagons.pixel_lookup import PixelLookup
    from hexveil.records.duckdb.packing.bit_layout import Layout
    from hexveil.records.duckdb.packing.unpacking import PackedPairs
    from hexveil.records.duckdb.relation import Relation
    from hexveil.records.duckdb.session import Session
    from hexveil.records.read_request import ReadRequest
    from hexveil.records.sources.columns import ColumnRef

    Numbers = NDArray[np.uint64]
    Whole = NDArray[np.int64]
    Part = dict[str, NDArray[Any]]

MIN_BYTES = 4_000_000
"""Bytes of text below which the engine's own grouping is as quick."""
MEMORY_SHARE = 0.65
"""Share of the memory limit for the numbers of all records."""
_BLOCK, _NAMES = "coded_block", "coded_users"
_PLACES = ("place0", "place1")
_SAMPLE = 1 << 16
"""Bytes of the first file by which the number of records is estimated."""
_PACKED_ENDINGS, _PACKED_TIMES = (".gz", ZSTD), 3
"""Packed files, and how much larger their text is, about."""
_MOST_TEXT = 2**30
"""Bytes of users' ids, of each block apart, that are numbered; offsets have 32 bits."""
_WHOLE_NUMBER = ColumnType("number", is_integer=True)


class _NoRoomError(Exception):
    """The records are more than memory has room for, or of a kind that is not packed."""


@dataclass(frozen=True, repr=False)
class CodedPairs:
    """PRIVATE. The pairs of all records, and how many records were repeats.

    Attributes
    ----------
    pairs : PackedPairs
    keys : GroupKeys
    repeats : int
    """

    pairs: PackedPairs
    keys: GroupKeys
    repeats: int


def pack_text(session: Session, relation: Relation, request: ReadRequest) -> CodedPairs | None:
    """Return the pairs of the records of plain files; None if they must be parsed into a table.

    Raises
    ------
    ColumnError, InputError
        As `validate_records`.
    """
    rules = request.rules
    if not relation.headers or not isinstance(rules.cells, Cells) or rules.two_clocks:
        return None
    if _text_bytes(relation) < MIN_BYTES:
        return None
    used = used_columns(session, relation, request)
    declared = replace(declarations(used, request), coded=_user_column(used))
    if declared.coded is None or any(
        not set(declared.columns) <= set(header.fields) for _, header in relation.headers
    ):
        return None
    # Within: after a failure, sharing would leave the engine with half of its memory.
    with session.sharing():
        sink = _coded(session, relation, request, declared, rules.cells.resolution)
    return None if sink is None else sink.packed()


def _coded(
    session: Session,
    relation: Relation,
    request: ReadRequest,
    declared: Declarations,
    resolution: int,
) -> _CodedRecords | None:
    """Return the numbers of all records; None if a file is not plain, or there is no room."""
    try:
        pixels = session.pixels(resolution)
        pixels.expected = _expected_records(relation)
        sink = _CodedRecords(session, relation, request, declared, pixels)
        loader = BlockLoader(sink, declared, session.memory)
        for path, header in relation.headers:
            loader.load(path, header)
            if loader.others:
                return None
        loader.finish()
    except (NotPlainError, _NoRoomError):
        session.forget(_BLOCK)
        return None
    return None if loader.others else sink


def _text_bytes(relation: Relation) -> int:
    """Return about how many bytes of text the files of a relation hold."""
    return sum(
        Path(path).stat().st_size * (_PACKED_TIMES if path.lower().endswith(_PACKED_ENDINGS) else 1)
        for path, _ in relation.headers
    )


def _expected_records(relation: Relation) -> int:
    """Return about how many records the files hold, by the first lines of the first."""
    with closing(plain_blocks(relation.headers[0][0], _SAMPLE)) as blocks:
        first = next(blocks, None)
    if first is None:
        raise NotPlainError
    return _text_bytes(relation) * first.text.count(b"\n") // len(first.text) + 1


def _user_column(used: Sequence[tuple[str, ColumnRef]]) -> str | None:
    """Return the column of users, if it has no other role and nothing is inside of it."""
    (user,) = (ref for role, ref in used if role == "user")
    is_alone = sum(ref.column == user.column for _, ref in used) == 1
    return user.column if is_alone and not user.path and user.kind.name == "text" else None


class _CodedRecords:
    """PRIVATE. Validated records as whole numbers, one part after another.

    Parameters
    ----------
    session : Session
    relation : Relation
    request : ReadRequest
    declared : Declarations
        With the coded column of users.
    pixels : PixelLookup
        Which expects about as many places as records will come.
    """

    def __init__(
        self,
        session: Session,
        relation: Relation,
        request: ReadRequest,
        declared: Declarations,
        pixels: PixelLookup,
    ) -> None:
        self._session, self._relation, self._request = session, relation, request
        self._user, self._pixels = str(declared.coded), pixels
        self._drops = aggregation.drops_repeats(request)
        rules = request.rules
        self._keys = aggregation.group_keys(session, rules.cells, rules.privacy_unit, _PLACES)
        self._rules = BlockRules(request, declared.roles, timed=self._drops)
        self._queries: dict[Types, str] = {}
        self._parts: list[Part] = []
        self._texts: list[pa.Array] = []
        self._n_texts = self._text_bytes = self._n_records = 0
        self._left_out = np.zeros(1 << 8, dtype=np.int64)
        # Numbers of 4 bytes and one of 8; a time, a place and their key where repeats are dropped.
        self._room = MEMORY_SHARE * session.memory / (28 + 32 * self._drops)
        if pixels.expected > self._room:
            raise _NoRoomError

    def insert(self, types: Types, table: pa.Table) -> None:
        """Validate the records of a table of blocks, and keep their numbers."""
        if self._n_records + table.num_rows > self._room:
            raise _NoRoomError
        place = table.column_names.index(self._user)
        codes = pa.chunked_array([self._coded(chunk) for chunk in table[self._user].chunks])
        table = table.set_column(place, self._user, codes)
        if self._rules.fit(dict(types)):
            for batch in table.to_batches():
                kept = self._rules.apply(batch, dict(types))
                self._left_out += kept.left_out
                self._keep(kept.columns)
        else:
            self._session.register(_BLOCK, table)
            for batch in self._session.stream(self._query(types)):
                self._take(batch)
            self._session.forget(_BLOCK)
        tell_share(READING, min(self._n_records / self._pixels.expected, 0.9))

    def begin(self) -> None:
        """Do nothing: if a file is not plain, all files are read in another way."""

    commit = rollback = begin

    def _coded(self, chunk: pa.DictionaryArray) -> pa.Array:
        """Return the numbers of a block's users among the texts of all blocks so far."""
        offset = self._n_texts
        self._texts.append(chunk.dictionary)
        self._n_texts += len(chunk.dictionary)
        self._text_bytes += chunk.dictionary.nbytes
        if self._text_bytes > min(MEMORY_SHARE * self._session.memory, _MOST_TEXT):
            raise _NoRoomError
        # By numpy, as Arrow's sum with a number would load pandas.
        validity, indices = chunk.indices.buffers()
        codes = np.frombuffer(indices, np.int32)[: len(chunk)] + np.int32(offset)
        return pa.Array.from_buffers(pa.int32(), len(chunk), [validity, pa.py_buffer(codes)])

    def _query(self, types: Types) -> str:
        """Return the query of the numbers of validated records."""
        if types in self._queries:
            return self._queries[types]
        schema = {name: TYPES[kind] for name, kind in types} | {self._user: _WHOLE_NUMBER}
        typed = replace(self._relation, query=f"SELECT * FROM {_BLOCK}", schema=schema)
        records = validate_records(self._session, replace(typed, skips=False), self._request)
        # A day is added, as local times in 1970 can be below 0; null where a record is left out.
        clocked = [
            f"TRY_CAST({expression} + {DAY} AS UINTEGER) AS {name}"
            for name, expression in clocked_keys(self._keys).items()
        ]
        (user,) = records.twins
        columns = [f"{user} AS user_id", *clocked, "quanta", *_PLACES]
        columns += ["time_us"] * self._drops
        self._queries[types] = f"SELECT reject_reason, {', '.join(columns)} FROM ({records.query})"
        return self._queries[types]

    def _take(self, batch: pa.RecordBatch) -> None:
        """Keep the numbers of kept records, and count those that are left out."""
        reason = to_numpy(batch["reject_reason"])
        if reason.any():
            self._left_out += np.bincount(reason[reason > 0], minlength=self._left_out.size)
            batch = batch.take(to_arrow(np.flatnonzero(reason == 0)))
        if not len(batch):
            return
        if any(column.null_count for column in batch.columns):
            raise _NoRoomError
        # Copied: a view would keep all columns of the batch in memory.
        self._keep({n: to_numpy(batch[n]).copy() for n in batch.schema.names[1:]})

    def _keep(self, columns: Part) -> None:
        """Keep the numbers of kept records, with the numbers of their hexagons."""
        lat, lon = (columns[name] for name in _PLACES)
        hexagon = np.empty(lat.size, dtype=np.int32)
        for start in range(0, lat.size, packed_records.PLACES):
            rows = slice(start, start + packed_records.PLACES)
            hexagon[rows] = self._pixels.numbers(lat[rows], lon[rows])
        if not self._drops:
            columns = {name: columns[name] for name in columns if name not in _PLACES}
        self._parts.append({**columns, "hexagon": hexagon})
        self._n_records += lat.size

    def packed(self) -> CodedPairs | None:
        """Return the pairs of all records; None if they do not fit."""
        if not self._parts:
            return None
        rank = self._number_users()
        for part in self._parts:
            part["user_id"] = rank[part["user_id"]]
        stays, repeats = None, 0
        if self._drops:
            keys = user_times(self._column("user_id"), self._column("time_us"))
            if keys is None:
                return None
            tied = list(zip(*(self._column(name) for name in (*_PLACES, "quanta")), strict=True))
            stays, repeats = without_repeats(keys, tied)
        layout = self._layout(self._keys)
        if layout.below > packed_records.BITS - packed_records.HEXAGON_BITS:
            return None
        if self._pixels.names.size > 1 << (packed_records.BITS - layout.below):
            return None
        rules = self._request.rules
        edges = None if rules.bins is None else rules.bins.edges
        pairs = PairBuilder(layout, self._pixels, squares=squares_fit(1, rules.scale), edges=edges)
        records = self._packed_numbers(layout, stays, repeats)
        if not pairs.add_packed(records, self._left_out, self._session.memory):
            return None
        found = pairs.packed(self._session)
        return None if found is None else CodedPairs(found, self._keys, repeats)

    def _column(self, name: str) -> list[Whole]:
        return [part[name] for part in self._parts]

    def _number_users(self) -> NDArray[np.int32]:
        """Create the table of users in the order of their bytes; return each text's number."""
        encoded = canonical_texts(pa.chunked_array(self._texts, pa.string())).dictionary_encode()
        self._texts = []
        names = encoded.chunk(0).dictionary
        order = to_numpy(pc.sort_indices(names))
        rank = np.empty(order.size, dtype=np.int32)
        rank[order] = np.arange(order.size, dtype=np.int32)
        table = to_table({"user_id": names.take(to_arrow(order)), "number": np.arange(order.size)})
        self._session.register(_NAMES, table)
        self._session.run(f"CREATE OR REPLACE TEMP TABLE {USERS} AS SELECT * FROM {_NAMES}")
        self._session.forget(_NAMES)
        codes = [to_numpy(chunk.indices) for chunk in encoded.chunks]
        return np.asarray(rank[np.concatenate(codes)])

    def _layout(self, keys: GroupKeys) -> Layout:
        ranges = {}
        for name in clocked_keys(keys):
            columns = self._column(name)
            lowest = min(int(column.min()) for column in columns) - DAY
            ranges[name] = lowest, max(int(column.max()) for column in columns) - DAY
        users = 1 + max(int(column.max()) for column in self._column("user_id"))
        return layout_of_ranges(keys, self._request.rules, ranges, users)

    def _packed_numbers(
        self, layout: Layout, stays: list[NDArray[np.bool_]] | None, repeats: int
    ) -> Numbers:
        """Return the packed numbers of the records that stay; the parts are used up."""
        records = np.empty(self._n_records - repeats, dtype=np.uint64)
        start = 0
        for i, part in enumerate(self._parts):
            number = part["hexagon"].astype(np.int64)
            for field in layout.fields:
                number <<= field.bits
                counted = part[field.name]
                if field.name in ("slot", "day", "week"):
                    counted = counted.astype(np.int64)
                    counted -= DAY + field.smallest
                    if field.step > 1:
                        counted //= field.step
                number |= counted
            kept = number if stays is None else number[stays[i]]
            records[start : start + kept.size] = kept.view(np.uint64)
            start += kept.size
            part.clear()
        return records
