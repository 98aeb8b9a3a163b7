"""Closed cells: which cells of a declared grid have too little noisy weight to go on with.

A cell is opened if its noisy A + B reaches T, the smallest whole number with

    G P(Z >= T) <= f

for G cells, f expected false openings and Z the sum of two independent discrete Laplace numbers of
scale b of the published map: an empty cell has A + B = Z. The coarse map, where there is one,
closes the cells whose noisy weight is below the same T, and the fine map tests the others again.
With t = exp(-1/b), for T >= 0,

    P(Z >= T) = (1 - t) / (1 + t)² t^T (T + (1 + t²) / (1 - t²) + t / (1 - t)).

The tail of Z is heavier than that of one Laplace number of scale b by a factor near T / 2b.

Post-processing of released numbers and of the declared grid: it costs no privacy. True counts are
never consulted.
Source: sums over k of t^|k| t^|z-k|; the tests compare it with brute force.
"""

from __future__ import annotations

import math


def sum_tail(threshold: int, scale: float) -> float:
    """Return P(Z >= threshold) for the sum Z of two discrete Laplace numbers.

    Parameters
    ----------
    threshold : int
        At least 0.
    scale : float
        b, above 0.

    Examples
    --------
    >>> round(sum_tail(0, 1000.0), 3), round(sum_tail(4000, 1000.0), 4)
    (0.5, 0.0275)
    """
    t = math.exp(-1.0 / scale)
    gap = -math.expm1(-1.0 / scale)  # 1 - t without cancellation
    series = threshold + (1.0 + t * t) / (gap * (1.0 + t)) + t / gap
    return gap / (1.0 + t) ** 2 * math.exp(-threshold / scale) * series


def opening_threshold(n_cells: int, scale: float, false_openings: float) -> int:
    """Return T: the smallest weight, in parts, that opens a cell.

    Parameters
    ----------
    n_cells : int
        Of the declared grid.
    scale : float
        b, in parts.
    false_openings : float
        Number of empty cells expected to be opened if all are empty, above 0.

    Examples
    --------
    >>> round(opening_threshold(24, 1000.0, 1.0) / 1000, 2)
    3.5
    """
    low, high = 0, 1
    while n_cells * sum_tail(high, scale) > false_openings:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if n_cells * sum_tail(middle, scale) > false_openings:
            low = middle
        else:
            high = middle
    return high if n_cells * sum_tail(0, scale) > false_openings else 0
