"""Tasks over blocks of pairs: pack them, and map functions over them.

A block travels as bytes, so that Spark keeps it as one value and numpy reads it where it lies.
Nothing of a block is in an error.
"""

from __future__ import annotations

import hashlib
import io
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa

from hexveil.base.errors import HexveilError
from hexveil.model.distributed_occupancy import Partition
from hexveil.model.pair_bins import PairBins
from hexveil.records.bin_number import bins_of_lists
from hexveil.records.dataset import check_sums

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from hexveil.model.distributed_occupancy import WholeGroup
    from hexveil.model.public_metadata import ValueLattice

    Batches = Iterator[pa.RecordBatch]
    Given = tuple[Callable[..., Any], Sequence[NDArray[Any]], Sequence[NDArray[Any]]]

Beside = Literal["nothing", "sums", "bins"]
"""What a question is about beside counts of pairs."""
BINS = "bins"
"""Column of a pair's counts by bin, where records are counted by bin."""
_BIN_COLUMNS = 3
PACKED = pa.schema(
    [("block", pa.int32()), ("first", pa.int64()), ("pairs", pa.binary()), ("sums", pa.binary())]
)
MAPPED = pa.schema([("block", pa.int32()), ("digest", pa.binary()), ("found", pa.binary())])
ADDED = pa.schema(
    [("block", pa.int32()), ("digest", pa.binary()), ("place", pa.int64()), ("number", pa.int64())]
)
NO_BLOCK, NO_PLACE = -1, -1
"""Block of numbers that are added up over blocks; place of a row about a block itself."""
_LOST = "a task of the Spark job failed while looking at pairs; its cause is not shown."


def pack_task(
    whole: WholeGroup, scale: ValueLattice, n_bins: int
) -> Callable[[pa.Table], pa.Table]:
    """Return the work that packs the pairs of one block: a table in, a row of `PACKED` out.

    A block has its sums beside it, and counts by bin where there are `n_bins`: of its pairs, or of
    its users in blocks of users. All are checked against the counts of pairs.
    """

    def pack(table: pa.Table) -> pa.Table:
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
        pairs = _to_bytes([_narrow(columns[name]) for name in ("cell", "user", "n")])
        row = [[int(columns["block"][0])], [lowest], [pairs], [_to_bytes(sums)]]
        return pa.table(row, schema=PACKED)

    return lambda table: _catch_errors(lambda: pack(table))


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
    whole: WholeGroup, others: int, load_query: Callable[[], Given], beside: Beside
) -> Any:  # noqa: ANN401
    """Return the work of a task that maps a function over its blocks.

    Parameters
    ----------
    whole : "cells" or "users"
        What its blocks hold all pairs of.
    others : int
        Users in all of the map, if cells are whole; else its cells.
    load_query : callable
        Returns the question's function and its arrays of all cells and users, on the executor.
    beside : "nothing", "sums" or "bins"
        What the question is about beside counts of pairs. PRIVATE, if it is about anything: what is
        found is as private as the work.
    """

    def answered(batches: Batches) -> Batches:
        for number, digest, mapped in _answers(whole, others, load_query, beside, batches):
            yield pa.RecordBatch.from_arrays(
                [[number], [digest], [_to_bytes(mapped)]], schema=MAPPED
            )

    return partial(_guarded, answered)


def add_task(others: int, load_query: Callable[[], Given]) -> Any:  # noqa: ANN401
    """Return the work of a task whose answers Spark adds up over blocks of users.

    It yields rows of `ADDED`: the numbers by their place, and for each block its digest with how
    many numbers there are.

    Parameters
    ----------
    others : int
        Cells in all of the map.
    load_query : callable
        As for `map_task`. PRIVATE, as the sums that the question is about.
    """

    def answered(batches: Batches) -> Batches:
        for number, digest, (numbers,) in _answers("users", others, load_query, "sums", batches):
            places = np.flatnonzero(numbers)
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array([number] + [NO_BLOCK] * places.size, pa.int32()),
                    pa.array([digest] + [b""] * places.size, pa.binary()),
                    pa.array(np.concatenate([[NO_PLACE], places])),
                    pa.array(np.concatenate([[numbers.size], numbers[places]])),
                ],
                schema=ADDED,
            )

    return partial(_guarded, answered)


def _answers(
    whole: WholeGroup,
    others: int,
    load_query: Callable[[], Given],
    beside: Beside,
    batches: Batches,
) -> Iterator[tuple[int, bytes, tuple[NDArray[Any], ...]]]:
    """Yield the number and the digest of each block, and the answer to the question."""
    work, cells, users = load_query()
    for batch in batches:
        for i in range(batch.num_rows):
            number, offset, pairs, private = (batch[name][i].as_py() for name in PACKED.names)
            # Of sums too, even if only counts are asked: an answer must come from the first
            # reading.
            digest = _digest(pairs, private)
            arrays = _from_bytes(private) if beside != "nothing" else []
            block = _partition(whole, offset, _from_bytes(pairs), others)
            yield number, digest, block.map(_with_private(work, arrays, beside), cells, users)


def _guarded(answered: Callable[[Batches], Batches], batches: Batches) -> Batches:
    """Yield the rows of a task; a failure reveals nothing but that it happened."""
    rows = answered(batches)
    while (row := _catch_errors(lambda: next(rows, None))) is not None:
        yield row


def unpack_arrays(mapped: bytes) -> tuple[NDArray[Any], ...]:
    """Return the arrays of an answer."""
    return tuple(_from_bytes(mapped))


def _digest(pairs: bytes, sums: bytes) -> bytes:
    """Return the digest that shows whether a block was rebuilt from the same records."""
    mapped = hashlib.blake2b(pairs, digest_size=16)
    mapped.update(sums)
    return mapped.digest()


def _with_private(
    work: Callable[..., Any], private: Sequence[NDArray[Any]], beside: Beside
) -> Callable[..., Any]:
    """Return the work with a block's sums, or counts by bin, behind its pairs. PRIVATE."""
    if beside == "nothing":
        return work
    if beside == "bins":
        bins = PairBins(*(column.astype(np.int64) for column in private[-_BIN_COLUMNS:]))
        return lambda pairs, *task_input: work(pairs, bins, *task_input)
    # Sums, perhaps sums of squares, perhaps counts by bin.
    total, *more = private
    squares = more[0] if len(more) % _BIN_COLUMNS else None
    return lambda pairs, *task_input: work(pairs, total, squares, *task_input)


def _partition(
    whole: WholeGroup, offset: int, columns: Sequence[NDArray[Any]], others: int
) -> Partition:
    cell, user, n = (column.astype(np.int64) for column in columns)
    size = int((cell if whole == "cells" else user)[-1]) + 1
    n_cells, n_users = (size, others) if whole == "cells" else (others, size)
    return Partition(whole, offset, cell, user, n, n_cells, n_users)


def _narrow(column: NDArray[np.int64]) -> NDArray[Any]:
    return column.astype(np.int32) if column.max(initial=0) < 2**31 else column


def _to_bytes(columns: Sequence[NDArray[Any]]) -> bytes:
    sink = io.BytesIO()
    for column in columns:
        # No pickle: what is read back can be numbers alone.
        np.save(sink, column, allow_pickle=False)
    return sink.getvalue()


def _from_bytes(packed: bytes) -> list[NDArray[Any]]:
    source, mapped = io.BytesIO(packed), []
    while source.tell() < len(packed):
        mapped.append(np.load(source, allow_pickle=False))
    return mapped


def _catch_errors(work: Callable[[], Any]) -> Any:  # noqa: ANN401  whatever the work returns
    """Return the result of the work; a failure reveals nothing but that it happened."""
    try:
        return work()
    except Exception:  # noqa: BLE001, S110  its words could hold a value
        pass
    raise HexveilError(_LOST)
