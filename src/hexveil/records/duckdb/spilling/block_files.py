"""PRIVATE. Pairs and their sums in temporary files, in blocks of whole cells and of whole users.

This machine's store of a `DistributedOccupancy`: one block is in memory at a time, whatever the
number of pairs. Counts are in two files, by cell and by user; sums are in one more, by cell, which
no public code is given. The files have no name where the system allows it (Linux, macOS): they
vanish with the process, however it ends. Columns have the smallest integer type that holds a
block. Counts by bin lie beside: of pairs in blocks of cells, of users in blocks of users.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.base.column_file import ColumnFile
from hexveil.base.errors import HexveilError
from hexveil.model.distributed_occupancy import partition_numbers
from hexveil.model.occupancy import Partition, sorted_by_cell
from hexveil.model.pair_bins import PairBins

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from hexveil.model.occupancy import Arrays, WholeGroup

    Columns = Sequence[NDArray[np.int64]]

BLOCK_PAIRS = 2**20
"""Pairs of a block: some tens of megabytes while it is looked at."""


@dataclass(frozen=True, eq=False, repr=False)
class PairFile:
    """Counts of pairs, in blocks of whole cells or of whole users. Public.

    Attributes
    ----------
    whole : "cells" or "users"
    start : ndarray of int64, shape (n_whole + 1,)
        Position of the first pair of each, then the number of pairs.
    first : ndarray of int64, shape (n_blocks + 1,)
        Number of the first cell or user of each block, then how many there are.
    n_others : int
        Users in all, if cells are whole; else cells.
    file : ColumnFile
        The other's number and the count of each pair.
    """

    whole: WholeGroup
    start: NDArray[np.int64]
    first: NDArray[np.int64]
    n_others: int
    file: ColumnFile

    def __repr__(self) -> str:
        return f"PairFile({self.whole!r}, n_blocks={self.first.size - 1})"

    def blocks(self) -> Iterator[Partition]:
        """Yield the blocks in order."""
        for number in range(self.first.size - 1):
            begin, end = self.first[number : number + 2].tolist()
            other, n = self.file.read(number)
            whole = np.repeat(np.arange(end - begin), np.diff(self.start[begin : end + 1]))
            if self.whole == "cells":
                yield Partition("cells", begin, whole, other, n, end - begin, self.n_others)
            else:
                yield Partition("users", begin, other, whole, n, self.n_others, end - begin)


class PairFileStore:
    """Blocks of counts on this machine: `hexveil.model.distributed_occupancy.PartitionStore`.

    Parameters
    ----------
    by_cell, by_user : PairFile
    """

    def __init__(self, by_cell: PairFile, by_user: PairFile) -> None:
        self._files: dict[WholeGroup, PairFile] = {"cells": by_cell, "users": by_user}

    def __repr__(self) -> str:
        return "PairFileStore(blocks)"

    def map(
        self, whole: WholeGroup, work: Callable[..., Any], cells: Arrays, users: Arrays
    ) -> Iterator[tuple[NDArray[Any], ...]]:
        """Yield the answers of all blocks of a kind, in order."""
        return (block.map(work, cells, users) for block in self._files[whole].blocks())


class SumsFileStore:
    """PRIVATE. Blocks with their sums: `hexveil.records.distributed_sums.SumsPartitionStore`.

    Parameters
    ----------
    pairs : PairFile
        Blocks of cells.
    sums : ColumnFile
        Sums of the same blocks, perhaps sums of squares behind them.
    bins : mapping of "cells" and "users" to BinFile
        Counts by bin of blocks of cells and of users; empty without.
    """

    def __init__(
        self,
        pairs: PairFile,
        sums: ColumnFile,
        bins: Mapping[WholeGroup, BinFile],
    ) -> None:
        self._pairs, self._sums, self._bins = pairs, sums, bins

    def __repr__(self) -> str:
        return "SumsFileStore(private)"

    def map_sums(
        self, work: Callable[..., Any], cells: Arrays, users: Arrays
    ) -> Iterator[tuple[NDArray[Any], ...]]:
        """Yield the answers of all blocks of cells with their sums. PRIVATE."""
        for number, block in enumerate(self._pairs.blocks()):
            total, *squares = self._sums.read(number)
            beside = (total, squares[0] if squares else None)
            yield block.map(_with_sums(work, beside), cells, users)

    def map_bins(
        self, whole: WholeGroup, work: Callable[..., Any], cells: Arrays, users: Arrays
    ) -> Iterator[tuple[NDArray[Any], ...]]:
        """Yield the answers of all blocks of a kind with their counts by bin. PRIVATE."""
        return self._bins[whole].map(work, cells, users)

    def close(self) -> None:
        """Remove the files of sums and of counts by bin."""
        for file in (self._sums, *(one.file for one in self._bins.values())):
            file.close()


@dataclass(frozen=True, eq=False, repr=False)
class BinFile:
    """PRIVATE. Counts by bin of the blocks of a file of pairs.

    Attributes
    ----------
    pairs : PairFile
    file : ColumnFile
        Position of the pair in its block (or number of the user in it), fine bin, and records.
    """

    pairs: PairFile
    file: ColumnFile

    def __repr__(self) -> str:
        return f"BinFile({self.pairs.whole!r}, private)"

    def map(
        self, work: Callable[..., Any], cells: Arrays, users: Arrays
    ) -> Iterator[tuple[NDArray[Any], ...]]:
        """Yield the answers of all blocks with their counts by bin, in order. PRIVATE."""
        for number, block in enumerate(self.pairs.blocks()):
            yield block.map(_with_bins(work, PairBins(*self.file.read(number))), cells, users)


def write_pairs(
    rows: Iterable[Columns],
    whole: WholeGroup,
    sizes: NDArray[np.int64],
    n_others: int,
    folder: Path,
    note_sums: Callable[[NDArray[np.int64], Columns], None] | None = None,
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
    start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    block = partition_numbers(sizes, max(BLOCK_PAIRS // fewer, 1))
    first = np.searchsorted(block, np.arange(int(block[-1]) + 2)).astype(np.int64)
    file = PairFile(whole, start, first, n_others, ColumnFile(folder))
    for number, columns in enumerate(cut_rows(rows, np.diff(start[first]).tolist())):
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
            raise HexveilError("pairs and their numbers do not belong together.")
        file.file.append((other, n))
        if note_sums is not None:
            note_sums(n, sums)
    return file


def cut_rows(rows: Iterable[Columns], sizes: Sequence[int]) -> Iterator[Columns]:
    """Yield consecutive blocks of these sizes."""
    waiting: list[Columns] = []
    n_waiting = number = 0
    for columns in rows:
        waiting.append(columns)
        n_waiting += columns[0].size
        while number < len(sizes) and n_waiting >= sizes[number]:
            joined = [np.concatenate(parts) for parts in zip(*waiting, strict=True)]
            yield [column[: sizes[number]] for column in joined]
            waiting = [[column[sizes[number] :] for column in joined]]
            n_waiting -= sizes[number]
            number += 1
    if n_waiting or number < len(sizes):
        raise HexveilError("pairs and their numbers do not belong together.")


def _with_sums(
    work: Callable[..., Any], beside: tuple[NDArray[np.int64], NDArray[np.int64] | None]
) -> Callable[..., Any]:
    return lambda pairs, *given: work(pairs, *beside, *given)


# ---- counts by bin ----


def write_bins(
    rows: Iterable[Columns],
    pairs: PairFile,
    sizes: NDArray[np.int64],
    n_bins: int,
    folder: Path,
) -> BinFile:
    """Write ordered counts by bin beside the blocks of pairs.

    Parameters
    ----------
    rows : iterable of columns
        Of blocks of cells: cell, user, fine bin and records; of blocks of users: user, fine bin and
        records.
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
    made = BinFile(pairs, ColumnFile(folder))
    ends = np.concatenate([[0], np.cumsum(sizes)])[pairs.first]
    for block, columns in zip(pairs.blocks(), cut_rows(rows, np.diff(ends).tolist()), strict=True):
        bins = _of_pairs(block, columns) if pairs.whole == "cells" else _of_users(block, columns)
        made.file.append((bins.pair, bins.bin, bins.count))
        records = block.n if pairs.whole == "cells" else np.bincount(block.user, block.n)
        # The proof needs exactly this: what is apportioned adds up to the public records.
        bins.check(records.astype(np.int64), n_bins)
    return made


def _of_pairs(block: Partition, columns: Columns) -> PairBins:
    """Return the counts of the pairs of a block. PRIVATE."""
    cell, user, fine_bin, count = columns
    is_new = np.ones(cell.size, dtype=bool)
    is_new[1:] = (np.diff(cell) != 0) | (np.diff(user) != 0)
    begin = np.flatnonzero(is_new)
    if not np.array_equal(cell[begin] - block.first, block.cell) or not np.array_equal(
        user[begin], block.user
    ):
        raise HexveilError("counts by bin and occupancy do not belong together.")
    return PairBins(np.cumsum(is_new) - 1, fine_bin, count)


def _of_users(block: Partition, columns: Columns) -> PairBins:
    """Return the counts of the users of a block. PRIVATE."""
    user, fine_bin, count = columns
    return PairBins(user - block.first, fine_bin, count)


def _with_bins(work: Callable[..., Any], bins: PairBins) -> Callable[..., Any]:
    return lambda pairs, *given: work(pairs, bins, *given)
