"""Sums of each (cell, user) pair, and its records by fine bin of their values. PRIVATE.

Rows are sparse: one for each pair and bin with a record, so never more than there are records.
"""

from dataclasses import dataclass

import numpy as np

from hexveil.base.arrays import Bools, Ints
from hexveil.base.errors import HexveilError
from hexveil.model.occupancy import Pairs


@dataclass(frozen=True, eq=False, repr=False)
class PairSums:
    """PRIVATE. Sums of pairs, in quanta above the lower bound.

    Attributes
    ----------
    total : ndarray of int64, shape (n_pairs,)
    squares : ndarray of int64, shape (n_pairs,), or None
        Sums of squares, where they are kept.
    """

    total: Ints
    squares: Ints | None = None

    def of(self, pairs: Pairs) -> "PairSums":
        """Return the sums of some of the pairs in memory."""
        squares = None if self.squares is None else self.squares[pairs.rows]
        return PairSums(self.total[pairs.rows], squares)


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
    def of_rows(cls, pair: Ints, fine_bin: Ints, count: Ints) -> "PairBins":
        """Return the sorted counts of rows, those of one pair and bin added up."""
        width = int(fine_bin.max(initial=0)) + 1
        key = pair * width + fine_bin
        # Most rows come in order, none twice: then nothing is moved.
        if (key[1:] > key[:-1]).all():
            return cls(pair, fine_bin, count)
        order = np.argsort(key)
        key = key[order]
        begin = np.flatnonzero(np.diff(key, prepend=-1))
        pairs, bins = np.divmod(key[begin], width)
        return cls(pairs, bins, np.add.reduceat(count[order], begin))

    def of_pairs(self, chosen: Bools) -> "PairBins":
        """Return the counts of the chosen pairs, numbered among them; `chosen` has all pairs."""
        rows = np.flatnonzero(chosen[self.pair])
        number = np.cumsum(chosen) - 1
        return PairBins(number[self.pair[rows]], self.bin[rows], self.count[rows])

    def check(self, n: Ints, n_bins: int) -> None:
        """Raise HexveilError unless every record of every pair is counted in one bin."""
        # The proof needs exactly this: a pair's distribution adds up to its records.
        if not self._add_up(n, n_bins):
            raise HexveilError("counts by bin and occupancy do not belong together.")

    def _add_up(self, n: Ints, n_bins: int) -> bool:
        """Return whether the rows of every pair, in order, are counts of its records by bin."""
        pair, bins, counts = self.pair, self.bin, self.count
        if not pair.size == bins.size == counts.size or (np.diff(pair) < 0).any():
            return False
        if not (_within(pair, n.size) and _within(bins, n_bins) and counts.min(initial=1) >= 1):
            return False
        # Exact in doubles: no pair has 2^53 records.
        return np.array_equal(np.bincount(pair, counts, n.size).astype(np.int64), n)

    def __repr__(self) -> str:
        return "PairBins(private)"

    def __reduce__(self) -> tuple[object, ...]:
        raise HexveilError("private counts are not pickled; read the records where they are used.")


def _within(numbers: Ints, end: int) -> bool:
    """Return whether all numbers are from 0 to below an end."""
    return bool(numbers.min(initial=0) >= 0 and numbers.max(initial=-1) < end)
