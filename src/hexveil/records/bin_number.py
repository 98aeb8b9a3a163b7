"""SQL for the number of a value's bin, the same in every dialect; counts by bin as one column."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from hexveil.base.arrow_numbers import to_numpy
from hexveil.model.pair_bins import PairBins

COUNT_BITS = 48
"""Bits of a count in a whole number that holds a fine bin above it."""


def bin_number(quanta: str, edges: Sequence[int], begin: int = 0) -> str:
    """Return an expression for the number of the bin (a, b] that whole quanta lie in.

    A search by halves: a value is compared about log2(n_bins) times. Where there is no value there
    is no bin.

    Parameters
    ----------
    quanta : str
        Expression of a whole number, null for no value.
    edges : sequence of int
        Upper ends of the bins, rising; larger values count in the last bin.
    begin : int
        Number of the first bin.

    Examples
    --------
    >>> bin_number("k", (3, 7))
    'CASE WHEN k <= 3 THEN 0 WHEN k > 3 THEN 1 END'
    """
    if len(edges) == 1:
        return str(begin)
    half = len(edges) // 2
    low, high = (
        bin_number(quanta, edges[:half], begin),
        bin_number(quanta, edges[half:], begin + half),
    )
    edge = edges[half - 1]
    return f"CASE WHEN {quanta} <= {edge} THEN {low} WHEN {quanta} > {edge} THEN {high} END"


def bins_of_lists(column: pa.ChunkedArray) -> PairBins:
    """Return the counts of rows that hold a list each, of fine bin * 2^48 + records. PRIVATE.

    Parameters
    ----------
    column : pyarrow.ChunkedArray
        Lists of whole numbers, no bin twice in one.
    """
    lists = column.combine_chunks()
    packed = to_numpy(lists.flatten()).astype(np.int64)
    row = np.repeat(np.arange(len(lists)), to_numpy(lists.value_lengths()))
    return PairBins.of_rows(row, packed >> COUNT_BITS, packed & ((1 << COUNT_BITS) - 1))
