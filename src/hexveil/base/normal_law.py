"""Tails of the normal law: `erfc`, scaled `erfcx` and `ndtr` of arrays, to about 1e-15 relative.

Beside numpy nothing provides them that is small: SciPy would double what a recipient installs.

On [0, 12] `erfcx` is its Taylor series around the nearest of the places k / 64, to the sixth power.
There erfcx' = 2 x erfcx - 2 / √π, so that each coefficient follows from the two before it. From 12
on it is its asymptotic series (Abramowitz and Stegun, 7.1.23), whose terms fall below 1e-17.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from hexveil.base.arrays import Floats

_STEPS, _END = 64, 12
_CHUNK = 8_192
"""Numbers at once, so that they stay in the cache of the processor."""


def _taylor_coefficients() -> Floats:
    """Return the coefficients at each place, shape (7, n_places)."""
    x = np.arange(_STEPS * _END + 1) / _STEPS
    # The squares of the places are exact, and so is the exponential.
    value = np.array([math.erfc(place) * math.exp(place * place) for place in x])
    rows = [value, 2.0 * (x * value - 1.0 / math.sqrt(math.pi))]
    for order in range(2, 7):
        rows.append(2.0 * (x * rows[-1] + rows[-2]) / order)
    return np.stack(rows)


_COEFFICIENTS = _taylor_coefficients()


def erfcx(x: Floats) -> Floats:
    """Return exp(x²) erfc(x) of each number.

    Examples
    --------
    >>> erfcx(np.array([0.0, 1.0, 1e9])).round(12).tolist()
    [1.0, 0.427583576156, 1e-09]
    """
    x = np.asarray(x, dtype=np.float64)
    value = _in_chunks(_upper, np.abs(x))
    negative = x < 0.0
    if negative.any():
        with np.errstate(over="ignore"):
            value[negative] = 2.0 * np.exp(x[negative] ** 2) - value[negative]
    return value


def erfc(x: Floats) -> Floats:
    """Return the complementary error function of each number.

    Examples
    --------
    >>> erfc(np.array([-np.inf, 0.0, 1.0])).round(12).tolist()
    [2.0, 1.0, 0.157299207050]
    """
    return _in_chunks(_complement, np.asarray(x, dtype=np.float64))


def ndtr(x: Floats) -> Floats:
    """Return how likely a standard normal number is below each number.

    Examples
    --------
    >>> ndtr(np.array([-1.0, 0.0, np.inf])).round(12).tolist()
    [0.158655253931, 0.5, 1.0]
    """
    return 0.5 * erfc(np.asarray(x) * -math.sqrt(0.5))


def _in_chunks(work: Callable[[Floats], Floats], x: Floats) -> Floats:
    value = np.empty(x.shape)
    flat, result = x.ravel(), value.reshape(-1)
    for start in range(0, flat.size, _CHUNK):
        result[start : start + _CHUNK] = work(flat[start : start + _CHUNK])
    return value


def _complement(x: Floats) -> Floats:
    """Return `erfc`."""
    size = np.minimum(np.abs(x), 30.0)
    # The square in two parts, one of them exact: that of a large number loses digits.
    head = np.floor(size * 16.0) / 16.0
    value = _upper(size)
    value *= np.exp((head - size) * (head + size))
    value *= np.exp(-head * head)
    return np.where(x < 0.0, 2.0 - value, value)


def _upper(x: Floats) -> Floats:
    """Return `erfcx` of numbers of 0 or more."""
    clipped = np.fmin(x, _END)
    place = np.rint(clipped * _STEPS).astype(np.int64)
    offset = clipped - place / _STEPS
    value: Floats = _COEFFICIENTS[-1].take(place, mode="clip")
    for row in _COEFFICIENTS[-2::-1]:
        value *= offset
        value += row.take(place, mode="clip")
    distant = ~(x <= _END)
    if distant.any():
        value[distant] = _asymptotic(x[distant])
    return value


def _asymptotic(x: Floats) -> Floats:
    inverse, total = 0.5 * (1.0 / x) ** 2, np.ones_like(x)
    for factor in range(17, 0, -2):
        total = 1.0 - factor * inverse * total
    return np.asarray(total / (x * math.sqrt(math.pi)))
