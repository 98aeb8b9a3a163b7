"""Sums per (cell, unit) pair of private presence. PRIVATE, down to the number of its rows.

Under `protect="presence"` nothing about the records is public: not the values, not the counts, not
the number of units, pairs or records, so not the length of an array either. `PrivatePairs` is
therefore no `Occupancy`: it has none of its members, shows nothing in its repr, and is neither
pickled, compared, counted nor iterated. Only the modules that `tests/test_imports.py` lists may
import it: those that read records, and the stages in `mechanisms/presence`.

No content causes an error. Counts and cells are saturated at declared limits, so that whether a
release succeeds does not depend on a record (see `MAX_RECORDS`).
"""

from typing import NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hexveil.base.arrays import Floats, Ints
from hexveil.base.errors import HexveilError
from hexveil.model.pair_bins import PairBins

MAX_RECORDS = 2**20
"""Records of a unit in a cell beyond which further ones add no weight; a declared limit."""


class PrivatePairs:
    """PRIVATE. Record count and sum of values of each (cell, unit) pair on a declared grid.

    Attributes
    ----------
    cell : ndarray of int64, shape (n_pairs,)
        Number of the cell in the declared grid. Pairs are sorted by unit, then cell.
    records : ndarray of int64, shape (n_pairs,)
        Records, from 1 to `MAX_RECORDS`.
    mean : ndarray of float, shape (n_pairs,)
        Mean value of the pair, in quanta above the lower bound.
    begin : ndarray of int64, shape (n_units,)
        Position of the first pair of each unit.
    bins : PairBins or None
        Records of pairs by fine bin of their values, each count at most `MAX_RECORDS`; None unless
        statistics of distributions were asked for.
    """

    __slots__ = ("begin", "bins", "cell", "mean", "records")
    __hash__ = None  # type: ignore[assignment]  # equality would answer questions about records

    cell: Ints
    records: Ints
    mean: Floats
    begin: Ints
    bins: PairBins | None

    def __init__(
        self,
        cell: ArrayLike,
        unit: ArrayLike,
        n: ArrayLike,
        total: ArrayLike,
        by_bin: PairBins | None = None,
    ) -> None:
        """Group pairs by unit; equal pairs are added up.

        Parameters
        ----------
        cell, unit, n, total : array_like of int, shape (n_rows,)
            Cell number in the grid, any number that identifies the unit, record count, and the sum
            of the values in quanta above the lower bound. Rows with a negative cell lie outside the
            grid and are dropped, as are rows without records.
        by_bin : PairBins, optional
            Counts by bin of the rows above.
        """
        cells, units, counts, totals = (
            np.asarray(array, dtype=np.int64) for array in (cell, unit, n, total)
        )
        inside = np.flatnonzero((cells >= 0) & (counts > 0))
        inside = inside[np.lexsort((cells[inside], units[inside]))]
        cells, units = cells[inside], units[inside]
        is_new = (np.diff(cells, prepend=-1) != 0) | (np.diff(units, prepend=units[:1]) != 0)
        pair = np.flatnonzero(is_new)
        # As doubles: a sum of huge counts loses digits, where whole numbers would wrap around.
        summed = [_sums(array[inside].astype(np.float64), pair) for array in (counts, totals)]
        self.cell = cells[pair]
        self.records = np.minimum(summed[0], MAX_RECORDS).astype(np.int64)
        self.mean = summed[1] / summed[0]
        self.begin = np.flatnonzero(np.diff(units[pair], prepend=units[:1] - 1))
        self.bins = None
        if by_bin is not None:
            number = np.full(np.size(cell), -1)
            number[inside] = np.cumsum(is_new) - 1
            self.bins = _saturated(number[by_bin.pair], by_bin.bin, by_bin.count)

    def per_unit(self, numbers: Ints) -> Ints:
        """Return the sum of numbers of pairs over each unit's pairs. PRIVATE."""
        return _sums(numbers, self.begin)

    def of_unit(self, numbers: Ints) -> Ints:
        """Return numbers of units, repeated for each of their pairs. PRIVATE."""
        return np.repeat(numbers, np.diff(self.begin, append=self.cell.size))

    @property
    def counted(self) -> PairBins:
        """Records of pairs by fine bin; HexveilError without. PRIVATE."""
        if self.bins is None:
            raise HexveilError("this stage measures records by bin, which these pairs lack.")
        return self.bins

    def mean_scores(self, scores: Ints) -> Floats:
        """Return each pair's mean of public scores of fine bins, whole numbers. PRIVATE.

        Sums are exact, below 2^53, and quotients rounded once: the same on every processor.
        """
        rows, n_pairs = self.counted, self.cell.size
        count = np.bincount(rows.pair, rows.count, n_pairs)
        total = np.bincount(rows.pair, rows.count * scores[rows.bin], n_pairs)
        return np.asarray(total / np.maximum(count, 1.0))

    def __repr__(self) -> str:
        return "PrivatePairs(private)"

    def __eq__(self, other: object) -> bool:
        return self is other

    def __reduce__(self) -> NoReturn:
        raise HexveilError("private records are not pickled; read them where they are used.")


def _saturated(pair: Ints, fine_bin: Ints, count: Ints) -> PairBins:
    """Return the counts by bin of pairs, each at most `MAX_RECORDS`; of pair -1 there are none."""
    rows = np.flatnonzero(pair >= 0)
    # Before they are added up, too: no content may leave 64 bits.
    binned = PairBins.of_rows(pair[rows], fine_bin[rows], np.minimum(count[rows], MAX_RECORDS))
    return PairBins(binned.pair, binned.bin, np.minimum(binned.count, MAX_RECORDS))


def _sums(numbers: NDArray, begin: Ints) -> NDArray:  # type: ignore[type-arg]
    """Return the sums of runs of numbers that begin at these positions."""
    return np.add.reduceat(numbers, begin) if begin.size else numbers[:0]
