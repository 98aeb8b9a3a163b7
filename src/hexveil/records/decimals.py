"""Sums of squares as exact decimals, for tables of sums that another system makes.

A value on the lattice is k * quantum, with k whole and at most `reach` = max(|lower|, |upper|) /
quantum in size. If the quantum is a * 10^-p, its square is a^2 k^2 * 10^-2p: a decimal of 2p
places, and so is a sum of squares. A double holds about 16 of its digits, which is not enough for
some users of many records; the decimals here have up to 38, as engines do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hexveil.model.public_metadata import ValueLattice

WIDTH = 38
"""Digits of the widest decimal that engines share."""
_LARGEST_SUM = 2**61


@dataclass(frozen=True)
class DecimalFormat:
    """Decimal format of the values of a lattice.

    Attributes
    ----------
    digits : int
        Of k, the value in quanta.
    width, places : int
        Digits of the quantum, and how many of them are behind the point (p).
    factor : int
        The quantum without its point (a).
    """

    digits: int
    width: int
    places: int
    factor: int


def decimal_format(scale: ValueLattice) -> DecimalFormat | None:
    """Return the decimal format of a lattice's values; None if their squares would not fit.

    The square of a product of `digits` and `width` digits has at most 2 * (digits + width + 1) +
    1 by any engine's rules. Sums of less than 2^61 quanta in all, as are asked for everywhere,
    have sums of squares below reach * 2^61 squared quanta.

    Examples
    --------
    >>> from hexveil.model.public_metadata import ValueLattice
    >>> decimal_format(ValueLattice.of((0, 65), "0.005"))
    DecimalFormat(digits=5, width=3, places=3, factor=5)
    """
    quantum = scale.quantum
    # Exact: both bounds are multiples of the quantum.
    reach = int(max(abs(scale.lower), abs(scale.upper)) / quantum)
    # None for a quantum such as 1/3, which no decimal ends.
    places = next((p for p in range(WIDTH // 2) if (quantum * 10**p).denominator == 1), None)
    if places is None:
        return None
    factor, digits = int(quantum * 10**places), len(str(reach))
    width = max(places, len(str(factor)))
    fits = 2 * (digits + width + 1) + 1 <= WIDTH and factor**2 * reach * _LARGEST_SUM < 10**WIDTH
    return DecimalFormat(digits, width, places, factor) if fits else None


def exact_squares(
    written: pa.Array, n: NDArray[np.int64], total: NDArray[np.int64], scale: ValueLattice
) -> NDArray[Any]:
    """Return sums of squares about the lower bound, in squared quanta, as Python's whole numbers.

    round(sum(x^2) / quantum^2) - n l^2 - 2 l s, where l = lower / quantum and s is the total;
    halves away from zero.

    Parameters
    ----------
    written : pyarrow.Array of decimal128, shape (n_rows,)
        Sums of squares about 0 in squared value units, of 2p places, none null. Private.
    n, total : ndarray of int64, shape (n_rows,)
        Counts (public), and totals in quanta above n times the lower bound.
    scale : ValueLattice
        A lattice with a decimal format.
    """
    form = decimal_format(scale)
    assert form is not None  # noqa: S101  decimals were asked for
    square = form.factor**2
    digits = _without_point(written)
    # On absolute values, since Python's floor division would round negative halves up.
    rounded = (2 * np.abs(digits) + square) // (2 * square)
    quanta = np.where(digits < 0, -rounded, rounded)
    lower = int(scale.lower / scale.quantum)
    about: NDArray[Any] = quanta - n.astype(object) * lower**2 - total.astype(object) * (2 * lower)
    return about


def _without_point(written: pa.Array) -> NDArray[Any]:
    """Return the digits of decimals as Python integers."""
    # 128 bits each, the lower half first; only the upper half has a sign.
    halves = np.frombuffer(written.buffers()[1], dtype="<i8").reshape(-1, 2)
    low, high = halves[written.offset : written.offset + len(written)].T
    digits: NDArray[Any] = high.astype(object) * 2**64 + low.view("<u8").astype(object)
    return digits
