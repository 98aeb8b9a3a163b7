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
        order = np.lexsort((fine_bin, pair))
        pairs, bins, counts = pair[order], fine_bin[order], count[order]
        is_new = np.ones(pairs.size, dtype=bool)
        is_new[1:] = (np.diff(pairs) != 0) | (np.diff(bins) != 0)
        begin = np.flatnonzero(is_new)
        return cls(
            pairs[begin], bins[begin], np.add.reduceat(counts, begin) if begin.size else counts
        )

    def check(self, n: Ints, n_bins: int) -> None:
        """Raise HexveilError unless every record of every pair is counted in one bin."""
        sizes = {self.pair.size, self.bin.size, self.count.size}
        # The proof needs exactly this: a pair's distribution adds up to its records.
        if (
            len(sizes) > 1
            or (self.count < 1).any()
            or ((self.bin < 0) | (self.bin >= n_bins)).any()
            or ((self.pair < 0) | (self.pair >= n.size)).any()
            or not np.array_equal(np.bincount(self.pair, self.count, n.size).astype(np.int64), n)
        ):
            raise HexveilError("counts by bin and occupancy do not belong together.")

    def __repr__(self) -> str:
        return "PairBins(private)"

    def __reduce__(self) -> tuple[object, ...]:
        raise HexveilError("private counts are not pickled; read the records where they are used.")
