"""Tails of the normal law: `erfc`, scaled `erfcx` and `ndtr` of arrays, to about 1e-15 relative.

Those of SciPy where it is installed, as it is with whoever publishes. A recipient lacks it, since
it would double what is installed, and checks numbers by the functions below: they are slower.

On [0, 12] `erfcx` is its Taylor series around the nearest of the places k / 64, to the sixth power.
There erfcx' = 2 x erfcx - 2 / √π, so that each coefficient follows from the two before it. From 12
on it is its asymptotic series (Abramowitz and Stegun, 7.1.23), whose terms fall below 1e-17.
"""

from __future__ import annotations

import math
from functools import cache
from types import ModuleType

import numpy as np

from hexveil.base.arrays import Floats

_STEPS, _END = 64, 12


@cache
def scipy_special() -> ModuleType | None:
    """Return the functions of SciPy, None where it is not installed."""
    try:
        from scipy import special  # noqa: PLC0415  takes a moment to load
    except ImportError:
        return None
    return special  # type: ignore[no-any-return]


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
    [1.0, 0.427583576156, 5.64e-10]
    """
    if (special := scipy_special()) is not None:
        return np.asarray(special.erfcx(x))
    x = np.asarray(x, dtype=np.float64)
    value = np.asarray(_upper(np.abs(x)))
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
    [2.0, 1.0, 0.15729920705]
    """
    if (special := scipy_special()) is not None:
        return np.asarray(special.erfc(x))
    x = np.asarray(x, dtype=np.float64)
    size = np.minimum(np.abs(x), 30.0)
    # The square in two parts, one of them exact: that of a large number loses digits.
    head = np.floor(size * 16.0) / 16.0
    value = _upper(size) * np.exp((head - size) * (head + size)) * np.exp(-head * head)
    return np.asarray(np.where(x < 0.0, 2.0 - value, value))


def ndtr(x: Floats) -> Floats:
    """Return how likely a standard normal number is below each number.

    Examples
    --------
    >>> ndtr(np.array([-1.0, 0.0, np.inf])).round(12).tolist()
    [0.158655253931, 0.5, 1.0]
    """
    if (special := scipy_special()) is not None:
        return np.asarray(special.ndtr(x))
    return 0.5 * erfc(np.asarray(x) * -math.sqrt(0.5))


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
