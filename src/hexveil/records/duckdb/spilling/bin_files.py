"""PRIVATE. Counts by bin on disk: of pairs in blocks of cells, of users in blocks of users.

They lie beside the blocks of `block_files`, block by block, as whole numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.base.column_file import ColumnFile
from hexveil.base.errors import HexveilError
from hexveil.model.pair_bins import PairBins
from hexveil.records.duckdb.spilling.block_files import cut_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from hexveil.model.distributed_occupancy import Partition
    from hexveil.model.occupancy import Arrays
    from hexveil.records.duckdb.spilling.block_files import Columns, PairFile


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
