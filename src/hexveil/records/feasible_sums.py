"""Projection of given sums to the nearest feasible ones on the lattice.

Feasible means attainable by n values x within the bounds. In quanta above the lower bound, with
k = (x - lower) / quantum in [0, steps]:

- a total s = sum(k) is feasible from 0 to n * steps;
- with that total, a sum of squares is feasible from its least to its largest value over whole
  k: least where the k are as equal as can be, largest where all but one are 0 or steps.

Every whole number in this range is the sum of squares of some *real* k in [0, steps] with total
s: they form a convex set that holds both ends, on which the sum of squares is continuous.
(Whole k may skip some numbers in between; a sensitivity is a supremum over real values.)

Privacy: what a pair contributes after clamping is therefore what n values within the bounds
would contribute, whatever the input was. n is public, and clamping depends on nothing but the pair
itself. So if all given sums of one user change, the result changes as if that user's values had
changed within the bounds: exactly what every sensitivity here assumes. Given sums are handled
as doubles; that a double is inexact changes which possible sum is nearest, not this argument.

SQL for the number of a value's bin, the same in every dialect.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hexveil.base.errors import InputError
from hexveil.base.rational import decimal_text
from hexveil.model.public_metadata import ValueLattice

LARGEST_SUM = 2**61
LARGEST_SQUARES = 2**62
"""No sum of squares that is kept, in quanta above the lower bound, can reach this."""


def squares_fit(n: int, scale: ValueLattice) -> bool:
    """Return whether every sum of squares of n values within the bounds fits 64 bits.

    If the largest count of a pair does not fit, no squares are kept, whatever the values are.

    Parameters
    ----------
    n : int
        Records. Public.
    scale : ValueLattice
    """
    # Python's integers: no step of this comparison can itself overflow.
    return n * scale.span_quanta**2 < LARGEST_SQUARES


def refuse_overflow(n: NDArray[np.int64], scale: ValueLattice) -> None:
    """Raise InputError if sums of so many records could leave the range of whole numbers.

    Parameters
    ----------
    n : ndarray of int64, shape (n_rows,)
        Records of each row, at least 1. Public.
    scale : ValueLattice
    """
    # In two halves, since the plain sum of public counts could itself overflow.
    records = (int((n >> 31).sum()) << 31) + int((n & (2**31 - 1)).sum())
    # Both origins: sums are given about 0 and kept about the lower bound.
    reach = max(abs(scale.lower), abs(scale.upper), scale.span) / scale.quantum
    if records * reach >= LARGEST_SUM:
        raise InputError(
            f"quantum: sums of {records} records in steps of {decimal_text(scale.quantum)} could "
            "overflow; use a coarser quantum."
        )


def project_totals(
    sums: NDArray[np.float64], n: NDArray[np.int64], scale: ValueLattice
) -> NDArray[np.int64]:
    """Return the feasible total nearest to each given sum, in quanta above n times the lower bound.

    round(sum / quantum) - n * lower / quantum, from 0 to n * steps; halves away from zero, as
    one record's value is rounded.

    Parameters
    ----------
    sums : ndarray of float, shape (n_rows,)
        Sums in value units, finite. Private.
    n : ndarray of int64, shape (n_rows,)
        Public.
    scale : ValueLattice
    """
    quanta = _round_half_away(_divide_by_quantum(sums, scale, 1)) - n * int(
        scale.lower / scale.quantum
    )
    return np.asarray(np.clip(quanta, 0, n * scale.span_quanta), dtype=np.int64)


def project_squares(
    sums: NDArray[np.float64], n: NDArray[np.int64], total: NDArray[np.int64], scale: ValueLattice
) -> NDArray[np.int64]:
    """Return the feasible sum of squares nearest to each given one, on the lattice.

    sum(k^2) = sum(x^2) / quantum^2 - n l^2 - 2 l s, where l = lower / quantum and s is the
    total, clamped to `squares_range`.

    Parameters
    ----------
    sums : ndarray of float, shape (n_rows,)
        Sums of squares about 0, in squared value units, finite. Private.
    n, total : ndarray of int64, shape (n_rows,)
        Counts (public) that fit (`squares_fit`), and totals as `project_totals` returns them.
    scale : ValueLattice
    """
    lower = float(scale.lower / scale.quantum)
    # About the projected total, not the given one: total and squares must be feasible together.
    about_lower = _divide_by_quantum(sums, scale, 2) - n * lower * lower - 2.0 * lower * total
    squares = _round_half_away(about_lower)
    smallest, largest = squares_range(n, total, scale.span_quanta)
    return np.asarray(np.clip(squares, smallest, largest), dtype=np.int64)


def squares_range(
    n: NDArray[np.int64], total: NDArray[np.int64], steps: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the least and largest sum of squares of n whole numbers in [0, steps] of that total.

    Examples
    --------
    >>> [int(end[0]) for end in squares_range(np.array([2]), np.array([5]), 4)]
    [13, 17]
    """
    share, remainder = np.divmod(total, n)
    # remainder of the n numbers are share + 1, all others share.
    smallest = n * share * share + 2 * share * remainder + remainder
    full, last_value = np.divmod(total, steps)
    return smallest, full * steps * steps + last_value * last_value


def _divide_by_quantum(
    sums: NDArray[np.float64], scale: ValueLattice, power: int
) -> NDArray[np.float64]:
    """Return given sums over a power of the quantum; beyond all doubles it is infinite."""
    top, bottom = float(scale.quantum.denominator), float(scale.quantum.numerator)
    with np.errstate(over="ignore", under="ignore"):
        for _ in range(power):
            # Multiplied first, as one record's value is scaled: the two roundings are then the
            # same.
            sums = sums * top / bottom
    return sums


def _round_half_away(numbers: NDArray[np.float64]) -> NDArray[np.int64]:
    """Round to integers, halves away from zero, clamped to +-2^62."""
    size = np.minimum(np.abs(numbers), float(LARGEST_SQUARES))
    # Not floor(size + 0.5), which rounds 0.49999999999999994 up; nor np.round, halves to even.
    below = np.floor(size)
    rounded = below + (size - below >= 0.5)
    return np.where(numbers < 0, -rounded, rounded).astype(np.int64)


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
