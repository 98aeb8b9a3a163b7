"""SQL for the number of a value's bin, the same in every dialect."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


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
