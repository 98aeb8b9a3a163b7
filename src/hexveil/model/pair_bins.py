"""Records of each (cell, user) pair by fine bin of their values. PRIVATE.

Rows are sparse: one for each pair and bin with a record, so never more than there are records.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hexveil.base.errors import HexveilError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class PairBins:
    """PRIVATE. Counts of records per pair and fine bin.

    Attributes
    ----------
    pair : ndarray of int64, shape (n_rows,)
        Position of the pair in the occupancy; rising.
    bin : ndarray of int64, shape (n_rows,)
        Number of the fine bin; rising within a pair.
    count : ndarray of int64, shape (n_rows,)
        Records, at least 1.
    """

    pair: Ints
    bin: Ints
    count: Ints

    @classmethod
    def of_rows(cls, pair: Ints, fine_bin: Ints, count: Ints) -> PairBins:
        """Return the sorted counts of rows, those of one pair and bin added up."""
        width = int(fine_bin.max(initial=0)) + 1
        key = pair * width + fine_bin
        # Most rows come in order, none twice: then nothing is moved.
        if (key[1:] > key[:-1]).all():
            return cls(pair, fine_bin, count)
        order, key = sort_numbers(key)
        begin = np.flatnonzero(np.diff(key, prepend=-1))
        pairs, bins = np.divmod(key[begin], width)
        return cls(pairs, bins, np.add.reduceat(count[order], begin))

    def of_pairs(self, chosen: NDArray[np.bool_]) -> PairBins:
        """Return the counts of the chosen pairs, numbered among them; `chosen` has all pairs."""
        rows = np.flatnonzero(chosen[self.pair])
        number = np.cumsum(chosen) - 1
        return PairBins(number[self.pair[rows]], self.bin[rows], self.count[rows])

    def check(self, n: Ints, n_bins: int) -> None:
        """Raise HexveilError unless every record of every pair is counted in one bin."""
        sizes = {self.pair.size, self.bin.size, self.count.size}
        # The proof needs exactly this: a pair's distribution adds up to its records.
        if (
            len(sizes) > 1
            or self.count.min(initial=1) < 1
            or self.bin.min(initial=0) < 0
            or self.bin.max(initial=-1) >= n_bins
            or self.pair.min(initial=0) < 0
            or self.pair.max(initial=-1) >= n.size
            or not np.array_equal(np.bincount(self.pair, self.count, n.size).astype(np.int64), n)
        ):
            raise HexveilError("counts by bin and occupancy do not belong together.")

    def __repr__(self) -> str:
        return "PairBins(private)"

    def __reduce__(self) -> tuple[object, ...]:
        raise HexveilError("private counts are not pickled; read the records where they are used.")


def sort_numbers(key: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the sorting order of non-negative keys, and the sorted keys.

    Key and position are sorted as one number where they fit: sooner than by position alone.
    """
    bits = int(key.size).bit_length()
    # Key and position together must stay below the sign bit.
    if int(key.max(initial=0)) >= 1 << (63 - bits):
        order = np.argsort(key)
        return order, key[order]
    packed = np.sort((key << bits) | np.arange(key.size))
    return packed & ((1 << bits) - 1), packed >> bits
