"""PRIVATE. Pairs and their sums in temporary files, in blocks of whole cells and of whole users.

This machine's store of a `DistributedOccupancy`: one block is in memory at a time, whatever the
number of pairs. Cells and users are numbered in memory; the engine puts the pairs in order, in its
own limit of memory, once by cell and once by user. Counts, sums and counts by bin are in files of
their own, without names where the system allows it (Linux, macOS): they vanish with the process,
however that ends. No public code is given those of sums and bins.
"""

from __future__ import annotations

import contextlib
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from hexveil.base import atomic_files
from hexveil.base import scratch as scratch_folder
from hexveil.base.arrays import Ints
from hexveil.base.arrow_tables import to_numpy
from hexveil.base.errors import HexveilError, StorageError
from hexveil.model.distributed_occupancy import DistributedOccupancy, partition_numbers
from hexveil.model.occupancy import Pairs, Partition, T, WholeGroup, sorted_by_cell
from hexveil.model.pair_bins import PairBins, PairSums
from hexveil.records.dataset import DistributedSums, check_sums
from hexveil.records.duckdb.aggregation import NUMBERED_BINS, NUMBERED_PAIRS, PairStore, renumbered
from hexveil.records.duckdb.session import Session
from hexveil.records.read_request import Rules

Columns = Sequence[Ints]

BLOCK_PAIRS = 2**20
"""Pairs of a block: some tens of megabytes while it is looked at."""
ROOM_OF_BINS = 8
"""How many fewer pairs a block has with their counts by bin."""
_MISMATCH = "pairs and their numbers do not belong together."


class ColumnFile:
    """PRIVATE. Blocks of whole-number columns in a file without a name, in a private folder."""

    def __init__(self, folder: Path) -> None:
        self._starts: list[tuple[int, int]] = []
        with _translate_errors():
            # Open as long as it is used: a file without a name is gone once it is closed.
            self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
        weakref.finalize(self, self._file.close)

    def __repr__(self) -> str:
        return "ColumnFile(private)"

    def append(self, columns: Columns) -> None:
        """Append a block of columns of numbers from 0 up."""
        with _translate_errors():
            self._starts.append((self._file.seek(0, 2), len(columns)))
            for column in columns:
                # The smallest type that holds them all.
                np.save(self._file, column.astype(np.min_scalar_type(column.max(initial=0))))
            self._file.flush()

    def read(self, number: int) -> list[Ints]:
        """Return the columns of a block."""
        start, n_columns = self._starts[number]
        self._file.seek(start)
        try:
            return [np.load(self._file).astype(np.int64) for _ in range(n_columns)]
        except (EOFError, ValueError):
            raise StorageError("a temporary file of pairs was cut short; run again.") from None


@contextlib.contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(
            "the pairs of cells and users do not fit in memory, and cannot be written to temporary "
            f"files ({atomic_files.reason(error)}); free space, or name another folder (scratch in "
            "[read], --set read.scratch)."
        ) from None


@dataclass(frozen=True, eq=False, repr=False)
class PairFile:
    """Counts of pairs, in blocks of whole cells or of whole users. Public.

    Attributes
    ----------
    whole : "cells" or "users"
    sizes : ndarray of int64, shape (n_whole,)
        Pairs of each.
    first : ndarray of int64, shape (n_blocks + 1,)
        Number of the first cell or user of each block, then how many there are.
    n_others : int
        Users in all, if cells are whole; else cells.
    file : ColumnFile
        The other's number and the count of each pair.
    """

    whole: WholeGroup
    sizes: Ints
    first: Ints
    n_others: int
    file: ColumnFile

    def __repr__(self) -> str:
        return f"PairFile({self.whole!r}, n_blocks={self.first.size - 1})"

    def blocks(self) -> Iterator[Partition]:
        """Yield the blocks in order."""
        for number in range(self.first.size - 1):
            begin, end = self.first[number : number + 2].tolist()
            other, n = self.file.read(number)
            whole = np.repeat(np.arange(begin, end), self.sizes[begin:end])
            if self.whole == "cells":
                yield Partition("cells", begin, whole, other, n, end - begin, self.n_others)
            else:
                yield Partition("users", begin, other, whole, n, self.n_others, end - begin)


@dataclass(frozen=True, eq=False, repr=False)
class FileStore:
    """PRIVATE. Blocks in files, perhaps with their sums and counts by bin.

    It is a `PartitionStore`, and a `SumsPartitionStore` where it has sums.

    Attributes
    ----------
    pairs : mapping of "cells" and "users" to PairFile
    sums : ColumnFile, optional
        Sums of the blocks of cells, perhaps sums of squares behind them.
    bins : mapping of "cells" and "users" to ColumnFile
        By block of a kind: position of the pair in it (or number of the user), fine bin, records.
    """

    pairs: Mapping[WholeGroup, PairFile]
    sums: ColumnFile | None = None
    bins: Mapping[WholeGroup, ColumnFile] = field(default_factory=dict)

    def __repr__(self) -> str:
        return "FileStore(private)"

    def map(self, whole: WholeGroup, work: Callable[[Pairs], T]) -> Iterator[T]:
        """Yield the answers of all blocks of a kind, in order."""
        return map(work, self.pairs[whole].blocks())

    def map_sums(self, work: Callable[[Pairs, PairSums], T]) -> Iterator[T]:
        """Yield the answers of all blocks of cells with their sums. PRIVATE."""
        assert self.sums is not None  # noqa: S101  not asked of counts alone
        for number, block in enumerate(self.pairs["cells"].blocks()):
            yield work(block, PairSums(*self.sums.read(number)))

    def map_bins(self, whole: WholeGroup, work: Callable[[Pairs, PairBins], T]) -> Iterator[T]:
        """Yield the answers of all blocks of a kind with their counts by bin. PRIVATE."""
        for number, block in enumerate(self.pairs[whole].blocks()):
            yield work(block, PairBins(*self.bins[whole].read(number)))


def spill_pairs(
    session: Session, stored: PairStore, sums: Sequence[str], rules: Rules, scratch: str | None
) -> tuple[DistributedOccupancy, DistributedSums, Ints]:
    """Return the pairs of the selected cells in blocks on disk, their sums, and which units remain.

    Raises
    ------
    StorageError
        If the disk is full.
    """
    folder = scratch_folder.place(scratch)
    n_bins = 0 if rules.bins is None else rules.bins.n_bins
    file = ColumnFile(folder)

    def note_sums(n: Ints, columns: Columns) -> None:
        check_sums(n, columns[0], columns[1] if columns[1:] else None, rules.scale)
        file.append(columns)

    occupancy, files, used = _spilled(
        session, stored, sums, folder, note_sums if sums else None, ROOM_OF_BINS if n_bins else 1
    )
    bins: dict[WholeGroup, ColumnFile] = {}
    if n_bins:
        stored.number_bins()
        user = renumbered(used)
        for kind, pairs in files.items():
            of_cells, key = kind == "cells", kind.replace("user", "unit")[:-1]
            rows = _stream(
                session,
                f"SELECT cell, unit, fine_bin, n FROM {NUMBERED_BINS} "
                f"ORDER BY {'cell, unit' if of_cells else 'unit'}, fine_bin",
            )
            numbered = ((cell, user[unit], *counts) for cell, unit, *counts in rows)
            _, sizes = _sizes(session, NUMBERED_BINS, key)
            bins[kind] = write_bins(numbered, pairs, sizes, n_bins, folder)
    store = FileStore(files, file, bins)
    return occupancy, DistributedSums(store, len(sums) > 1, n_bins > 0), used


def spill_occupancy(
    session: Session, stored: PairStore, scratch: str | None
) -> DistributedOccupancy:
    """Return the counts of the pairs of the selected cells in blocks on disk, without sums."""
    return _spilled(session, stored, (), scratch_folder.place(scratch), None, 1)[0]


def _spilled(
    session: Session,
    stored: PairStore,
    sums: Sequence[str],
    folder: Path,
    note_sums: Callable[[Ints, Columns], None] | None,
    fewer: int,
) -> tuple[DistributedOccupancy, dict[WholeGroup, PairFile], Ints]:
    """Return the occupancy, its blocks, and the units that its users are."""
    stored.number_pairs(sums)
    _, per_cell = _sizes(session, NUMBERED_PAIRS, "cell")
    used, per_user = _sizes(session, NUMBERED_PAIRS, "unit")
    # Units without a selected cell have a number too, and no pair: users are numbered without them.
    user = renumbered(used)
    columns = ", ".join(("cell", "unit", "n", *sums))
    by_cell = _stream(session, f"SELECT {columns} FROM {NUMBERED_PAIRS} ORDER BY cell, unit")
    # Sums are asked of cells alone.
    by_user = _stream(session, f"SELECT unit, cell, n FROM {NUMBERED_PAIRS} ORDER BY unit, cell")
    files: dict[WholeGroup, PairFile] = {
        "cells": write_pairs(
            ((cell, user[unit], *counts) for cell, unit, *counts in by_cell),
            "cells", per_cell, used.size, folder, note_sums, fewer=fewer,
        ),
        "users": write_pairs(
            ((user[unit], cell, n) for unit, cell, n in by_user),
            "users", per_user, per_cell.size, folder, fewer=fewer,
        ),
    }  # fmt: skip
    occupancy = DistributedOccupancy(
        FileStore(files), per_cell.size, used.size, int(per_cell.sum())
    )
    # Losses are asked of users, sums of cells: both must be of the same pairs.
    if occupancy.records_per_user.sum() != occupancy.n_records:
        raise HexveilError("pairs by cell and by user do not belong together.")
    return occupancy, files, used


def _sizes(session: Session, table: str, key: str) -> tuple[Ints, Ints]:
    """Return the numbers that have rows, in order, and how many each has."""
    rows = session.arrow(f"SELECT {key}, count(*) AS n FROM {table} GROUP BY {key} ORDER BY {key}")
    return to_numpy(rows[key]).astype(np.int64), to_numpy(rows["n"]).astype(np.int64)


def _stream(session: Session, query: str) -> Iterator[list[Ints]]:
    """Yield the columns of a query of whole numbers, batch by batch."""
    for batch in session.stream(query):
        yield [to_numpy(column).astype(np.int64) for column in batch.columns]


def write_pairs(
    rows: Iterable[Columns],
    whole: WholeGroup,
    sizes: Ints,
    n_others: int,
    folder: Path,
    note_sums: Callable[[Ints, Columns], None] | None = None,
    *,
    fewer: int = 1,
) -> PairFile:
    """Write ordered pairs to blocks.

    Parameters
    ----------
    rows : iterable of columns
        What is whole, the other, the count, and sums if `note_sums` takes them; in this order.
    sizes : ndarray of int64, shape (n_whole,)
        Pairs of each cell or user, at least 1.
    n_others : int
    folder : Path
    note_sums : callable, optional
        Gets the counts and the sums of each block, in order.
    fewer : int
        How many times fewer pairs a block has, where more than sums lies beside it.

    Raises
    ------
    HexveilError
        If the pairs are not those of the sizes, in order, each once.
    StorageError
        If the disk is full.
    """
    block = partition_numbers(sizes, max(BLOCK_PAIRS // fewer, 1))
    first = np.searchsorted(block, np.arange(int(block[-1]) + 2)).astype(np.int64)
    file = PairFile(whole, sizes, first, n_others, ColumnFile(folder))
    for number, columns in enumerate(_cut(rows, np.add.reduceat(sizes, first[:-1]).tolist())):
        run = slice(*first[number : number + 2].tolist())
        numbers, other, n, *sums = columns
        # What every loss and sensitivity rests on, as an occupancy in memory checks it.
        expected = np.repeat(np.arange(run.start, run.stop), sizes[run])
        if (
            not np.array_equal(numbers, expected)
            or not sorted_by_cell(numbers, other)
            or not 0 <= other.min() <= other.max() < n_others
            or n.min() < 1
        ):
            raise HexveilError(_MISMATCH)
        file.file.append((other, n))
        if note_sums is not None:
            note_sums(n, sums)
    return file


def write_bins(
    rows: Iterable[Columns], pairs: PairFile, sizes: Ints, n_bins: int, folder: Path
) -> ColumnFile:
    """Write ordered counts by bin beside the blocks of pairs.

    Parameters
    ----------
    rows : iterable of columns
        Cell, user, fine bin and records, in the order of the pairs.
    pairs : PairFile
    sizes : ndarray of int64, shape (n_whole,)
        Rows of each cell or user.
    n_bins : int
    folder : Path

    Raises
    ------
    HexveilError
        If the counts are not those of the pairs.
    StorageError
        If the disk is full.
    """
    file = ColumnFile(folder)
    per_block = np.add.reduceat(sizes, pairs.first[:-1]).tolist()
    for block, columns in zip(pairs.blocks(), _cut(rows, per_block), strict=True):
        cell, user, fine_bin, count = columns
        if pairs.whole == "users":
            bins = PairBins.of_rows(user - block.first, fine_bin, count)
            n = np.bincount(block.own_user, block.n).astype(np.int64)
        else:
            is_new = np.ones(cell.size, dtype=bool)
            is_new[1:] = (np.diff(cell) != 0) | (np.diff(user) != 0)
            numbers = (cell[is_new], user[is_new])
            if not all(map(np.array_equal, numbers, (block.cell, block.user))):
                raise HexveilError("counts by bin and occupancy do not belong together.")
            bins, n = PairBins(np.cumsum(is_new) - 1, fine_bin, count), block.n
        # The proof needs exactly this: what is apportioned adds up to the public records.
        bins.check(n, n_bins)
        file.append((bins.pair, bins.bin, bins.count))
    return file


def _cut(rows: Iterable[Columns], sizes: Sequence[int]) -> Iterator[Columns]:
    """Yield consecutive blocks of these sizes."""
    waiting: list[Columns] = []
    n_waiting = number = 0
    for columns in rows:
        waiting.append(columns)
        n_waiting += columns[0].size
        while number < len(sizes) and n_waiting >= sizes[number]:
            joined = [np.concatenate(column) for column in zip(*waiting, strict=True)]
            yield [column[: sizes[number]] for column in joined]
            waiting = [[column[sizes[number] :] for column in joined]]
            n_waiting -= sizes[number]
            number += 1
    if n_waiting or number < len(sizes):
        raise HexveilError(_MISMATCH)
