"""Tasks over blocks of pairs: pack them, and map functions over them.

A block travels as bytes that numpy reads, cut into pieces: Java copies each value of a row several
times, and must find room for it in one piece of its heap. So what Java holds at once is bounded by
pieces and by the blocks of one task, not by the number of pairs. Nothing of a block is in an error.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hexveil.base.errors import HexveilError
from hexveil.model.occupancy import Partition, WholeGroup
from hexveil.model.pair_bins import PairBins, PairSums
from hexveil.model.public_metadata import ValueLattice
from hexveil.records.dataset import check_sums
from hexveil.records.feasible_sums import bins_of_lists

if TYPE_CHECKING:
    from hexveil.records.spark.tasks import Batches, Work

    Question = Callable[..., Any]

Beside = Literal["nothing", "sums", "bins"]
"""What a question is about beside counts of pairs."""
BINS = "bins"
"""Column of a pair's counts by bin, where records are counted by bin."""
_PAIR_COLUMNS = ("cell", "user", "n")
_BIN_COLUMNS = 3
PACKED = pa.schema(
    [
        ("block", pa.int32()),
        ("first", pa.int64()),
        ("left", pa.int32()),
        ("packed", pa.binary()),
    ]
)
"""A piece of a block: `left` more follow it in the same part of the frame. PRIVATE."""
ROOM_OF_BINS = 8
"""How many fewer pairs are held in one piece with their counts by bin."""
_PIECE_BYTES = 2**18
"""Bytes of a piece: less than what Java's collector takes for humongous in a heap of 1 GB."""
MAPPED = pa.schema([("block", pa.int32()), ("digest", pa.binary()), ("found", pa.binary())])
NO_BLOCK = -1
"""Block of numbers that are added up over blocks."""
_LOST = "a task of the Spark job failed while looking at pairs; its cause is not shown."


def pack_task(whole: WholeGroup, scale: ValueLattice, n_bins: int) -> Work:
    """Return the work of a task that packs pairs sorted by block into rows of `PACKED`.

    A block has its sums beside it, and counts by bin where there are `n_bins`: of its pairs, or of
    its users in blocks of users. All are checked against the counts of pairs.
    """

    def packed(batches: Batches) -> Batches:
        for table in _tables_of_blocks(batches):
            yield from to_pieces(*_packed(table, whole, scale, n_bins))

    return guarded(packed)


def _tables_of_blocks(batches: Batches) -> Iterator[pa.Table]:
    """Yield the pairs of one block after another, from rows sorted by block."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        numbers = batch["block"].to_numpy()
        edges = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), numbers.size]
        for begin, end in pairwise(edges):
            if held and held[0]["block"][0].as_py() != numbers[begin]:
                yield pa.Table.from_batches(held)
                held.clear()
            held.append(batch.slice(begin, end - begin))
    if held:
        yield pa.Table.from_batches(held)


def _packed(
    table: pa.Table, whole: WholeGroup, scale: ValueLattice, n_bins: int
) -> tuple[int, int, bytes]:
    """Return a block's number, its first cell or user, and its pairs with their sums. PRIVATE."""
    names = [name for name in table.column_names if name != BINS]
    columns = {name: table[name].to_numpy().astype(np.int64) for name in names}
    primary, secondary = ("cell", "user") if whole == "cells" else ("user", "cell")
    # Spark keeps no order; a block that is lost and made again must have the same bytes.
    order = np.lexsort((columns[secondary], columns[primary]))
    columns = {name: column[order] for name, column in columns.items()}
    lowest = int(columns[primary][0])
    columns[primary] = columns[primary] - lowest
    sums = [columns[name] for name in ("total", "total_sq") if name in columns]
    if sums:
        # Here, where all sums pass once: they never come together on one machine.
        check_sums(columns["n"], sums[0], sums[1] if sums[1:] else None, scale)
    if BINS in table.column_names:
        # One whole number for the lists of a row: their order is that of the pairs.
        bins = bins_of_lists(table[BINS].take(pa.array(order)))
        sums += _checked_bins(whole, columns, bins, n_bins)
    pairs = [_narrow(columns[name]) for name in _PAIR_COLUMNS]
    return int(columns["block"][0]), lowest, to_bytes([*pairs, *sums])


def to_pieces(number: int, first: int, packed: bytes) -> Batches:
    """Yield a block as rows of `PACKED`, one a batch. PRIVATE."""
    begins = range(0, len(packed), _PIECE_BYTES)
    for left, begin in zip(reversed(range(len(begins))), begins, strict=True):
        row = (number, first, left, packed[begin : begin + _PIECE_BYTES])
        columns = [pa.array([value], kind) for value, kind in zip(row, PACKED.types, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, schema=PACKED)


def join_pieces(batches: Batches) -> Iterator[tuple[int, int, bytes]]:
    """Yield the blocks that `to_pieces` has cut: number, first cell or user, bytes. PRIVATE."""
    pieces: list[pa.Buffer] = []
    following = None
    for batch in batches:
        for i in range(batch.num_rows):
            number, first, left = (batch[name][i].as_py() for name in PACKED.names[:3])
            if following not in (None, (number, left)):
                raise ValueError("the pieces of a block are not one after another")
            following = (number, left - 1) if left else None
            pieces.append(batch["packed"][i].as_buffer())
            if not left:
                yield number, first, b"".join(pieces)
                pieces.clear()


def _checked_bins(
    whole: WholeGroup, columns: dict[str, NDArray[np.int64]], bins: PairBins, n_bins: int
) -> list[NDArray[np.int64]]:
    """Return the counts by bin of a block's pairs, or of its users. PRIVATE."""
    n = columns["n"]
    if whole == "users":
        users = columns["user"]
        bins = PairBins.of_rows(users[bins.pair], bins.bin, bins.count)
        n = np.bincount(users, n).astype(np.int64)
    bins.check(n, n_bins)
    return [bins.pair, bins.bin, bins.count]


def map_task(
    whole: WholeGroup, others: int, load_query: Callable[[], Question], beside: Beside
) -> Any:  # noqa: ANN401
    """Return the work of a task that maps a function over its blocks.

    Parameters
    ----------
    whole : "cells" or "users"
        What its blocks hold all pairs of.
    others : int
        Users in all of the map, if cells are whole; else its cells.
    load_query : callable
        Returns the question's function, with the arrays that it takes, on the executor.
    beside : "nothing", "sums" or "bins"
        What the question is about beside counts of pairs. PRIVATE, if it is about anything: what is
        found is as private as the work.
    """

    def answered(batches: Batches) -> Batches:
        for number, digest, mapped in _answers(whole, others, load_query, beside, batches):
            yield pa.RecordBatch.from_arrays(
                [[number], [digest], [to_bytes(mapped)]], schema=MAPPED
            )

    return guarded(answered)


def _answers(
    whole: WholeGroup,
    others: int,
    load_query: Callable[[], Question],
    beside: Beside,
    batches: Batches,
) -> Iterator[tuple[int, bytes, tuple[NDArray[Any], ...]]]:
    """Yield the number and the digest of each block, and the answer to the question."""
    work = load_query()
    for number, offset, packed in join_pieces(batches):
        # Of sums too, even if only counts are asked: an answer must come from the first reading.
        digest = hashlib.blake2b(packed, digest_size=16).digest()
        # Sums lie behind the pairs.
        arrays = from_bytes(packed, len(_PAIR_COLUMNS) if beside == "nothing" else None)
        pairs, private = arrays[: len(_PAIR_COLUMNS)], arrays[len(_PAIR_COLUMNS) :]
        block = _partition(whole, offset, pairs, others)
        found = work(block, *_private(private, beside))
        yield number, digest, found if isinstance(found, tuple) else (found,)


def guarded(work: Callable[[Batches], Batches]) -> Callable[[Batches], Batches]:
    """Return work with failures that tell nothing but that they happened."""

    def run(batches: Batches) -> Batches:
        failed = False
        try:
            yield from work(batches)
        except Exception:  # noqa: BLE001  its words could hold a value
            failed = True
        # Raised here: else the cause would hang on it.
        if failed:
            raise HexveilError(_LOST)

    return run


def _private(columns: Sequence[NDArray[Any]], beside: Beside) -> tuple[PairSums | PairBins, ...]:
    """Return a block's sums, or counts by bin, if it is asked about them. PRIVATE."""
    if beside == "nothing":
        return ()
    if beside == "bins":
        return (PairBins(*(column.astype(np.int64) for column in columns[-_BIN_COLUMNS:])),)
    # Sums, perhaps sums of squares, perhaps counts by bin.
    return (PairSums(*columns[: 1 + bool((len(columns) - 1) % _BIN_COLUMNS)]),)


def _partition(
    whole: WholeGroup, offset: int, columns: Sequence[NDArray[Any]], others: int
) -> Partition:
    cell, user, n = (column.astype(np.int64) for column in columns)
    numbers = cell if whole == "cells" else user
    size = int(numbers[-1]) + 1
    numbers += offset
    n_cells, n_users = (size, others) if whole == "cells" else (others, size)
    return Partition(whole, offset, cell, user, n, n_cells, n_users)


def _narrow(column: NDArray[np.int64]) -> NDArray[Any]:
    return column.astype(np.int32) if column.max(initial=0) < 2**31 else column


def to_bytes(columns: Sequence[NDArray[Any]]) -> bytes:
    """Return arrays as bytes."""
    sink = io.BytesIO()
    for column in columns:
        # No pickle: what is read back can be numbers alone.
        np.save(sink, column, allow_pickle=False)
    return sink.getvalue()


def from_bytes(packed: bytes, most: int | None = None) -> list[NDArray[Any]]:
    """Return the arrays in bytes, or the first few of them."""
    source = io.BytesIO(packed)
    mapped: list[NDArray[Any]] = []
    while source.tell() < len(packed) and len(mapped) != most:
        mapped.append(np.load(source, allow_pickle=False))
    return mapped
