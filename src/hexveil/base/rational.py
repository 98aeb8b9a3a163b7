"""Exact rational numbers and directed rounding.

Budgets, bounds and quanta are Fractions internally. A float stands for its shortest decimal text,
so that 0.1 means one tenth. Where floats are unavoidable (noise scales, losses of millions of
pairs), the function's name states the direction of rounding; a guarantee uses the safe one.

Also items of an argument, whatever holds them: requests must not depend on a container or its
order. The items of a set come in an order of their own, which hash seeds do not change.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.base.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

Number = int | str | Decimal | Fraction | float
"""The types that a caller may pass for an exact number."""

_NUMBER = re.compile(r"-?[0-9]{1,30}([.][0-9]{1,30})?")
ULP = 2.0**-52
MAX_DOUBLE = Fraction(sys.float_info.max)
_TINY = Fraction(1, 10**300)
_LONG_EXPONENT = re.compile(r"[eE][+-]?\d{4}")  # its digits would exhaust time and memory


def to_fraction(value: Number, name: str) -> Fraction:
    """Return `value` as a Fraction; a float means its shortest decimal text.

    Raises
    ------
    InputError
        If it is not a finite number, or if it is neither 0 nor between 1e-300 and 1e300 in size:
        such a number is a mistake, and would be 0 or infinite as a double.

    Examples
    --------
    >>> to_fraction(0.1, "epsilon")
    Fraction(1, 10)
    """
    long = isinstance(value, (str, Decimal)) and _LONG_EXPONENT.search(str(value))
    written: Any = value.item() if isinstance(value, np.generic) else value
    try:
        # True is 1 to Fraction: an epsilon of True is a mistake.
        if isinstance(written, bool):
            raise TypeError
        # repr is the shortest decimal that reads back as this double: 0.1 becomes 1/10, not its
        # binary neighbour.
        exact = Decimal(repr(written)) if isinstance(written, float) else written
        number = _TINY ** (2 if "-" in long[0] else -2) if long else Fraction(exact)
    except (ValueError, TypeError, OverflowError, InvalidOperation, ZeroDivisionError):
        raise InputError(f"{name} must be a finite number, got {value!r}.") from None
    if number and not _TINY <= abs(number) <= 1 / _TINY:
        other = "larger" if abs(number) < 1 else "smaller"
        raise InputError(
            f"{name} must be a finite number of ordinary size, got {value!r}; write a {other} one."
        )
    return number


def to_positive_fraction(value: Number, name: str) -> Fraction:
    """Return `value` as a Fraction above zero; raise InputError otherwise."""
    number = to_fraction(value, name)
    if number <= 0:
        raise InputError(f"{name} must be positive and finite, got {value}.")
    return number


def to_bounds(bounds: object, name: str = "bounds") -> tuple[Fraction, Fraction]:
    """Return (lower, upper) as Fractions with lower < upper; raise InputError otherwise."""
    try:
        low, high = in_order(bounds, name)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be a pair like (0, 65), got {bounds!r}.") from None
    lower, upper = to_fraction(low, f"lower {name}"), to_fraction(high, f"upper {name}")
    if lower >= upper:
        raise InputError(
            f"{name} must run from the smaller to the larger value, got ({low}, {high})."
        )
    return lower, upper


def round_up(value: Fraction) -> float:
    """Return the smallest double that is not below `value`; infinity beyond all doubles."""
    if value > MAX_DOUBLE:
        return math.inf
    # Python rounds a fraction to the nearest double, which may lie on the wrong side.
    nearest = float(max(value, -MAX_DOUBLE))
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def round_down(value: Fraction) -> float:
    """Return the largest double that is not above `value`; -infinity below all doubles."""
    return -round_up(-value)


def decimal_text(value: Fraction) -> str:
    """Return `value` as decimal text if 30 places suffice, else as a ratio."""
    for places in range(31):
        if (digits := value * 10**places).denominator == 1:
            return f"{Decimal(f'{digits}e-{places}'):f}"
    return f"{value.numerator}/{value.denominator}"


def sum_upper_bounds(group: ArrayLike, terms: ArrayLike, n_groups: int) -> NDArray[np.float64]:
    """Return per group an upper bound of the sum of non-negative terms.

    Adding k doubles in any order is off by a factor of at most (1 + ulp/2)^(k-1); each term may
    itself be half an ulp too small. The sum is enlarged by (k + 4) ulps, which covers both and
    the rounding of the enlargement itself.

    Parameters
    ----------
    group : array_like of int, shape (n,)
    terms : array_like of float, shape (n,)
        Each the correctly rounded value of an exact non-negative term.
    n_groups : int
    """
    group = np.asarray(group, dtype=np.int64)
    total = np.bincount(group, weights=np.asarray(terms, dtype=np.float64), minlength=n_groups)
    size = np.bincount(group, minlength=n_groups)
    return np.asarray(total * (1.0 + (size + 4.0) * ULP), dtype=np.float64)


def items_of(value: object) -> list[Any]:
    """Return the items of a list, tuple, set, array or column; another value alone.

    Examples
    --------
    >>> import numpy as np
    >>> items_of({"b", "a", "10", "9"}), items_of(np.array([2, 1])), items_of("mean")
    (['9', '10', 'a', 'b'], [2, 1], ['mean'])
    """
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=natural_order)
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        return [value]
    # Of arrays and columns these give numbers of Python, whose text is theirs.
    for method in ("tolist", "to_list", "to_pylist"):
        if hasattr(value, method):
            items = getattr(value, method)()
            return list(items) if isinstance(items, list) else [items]
    return list(value)


def in_order(value: object, name: str) -> list[Any]:
    """Return the items of an ordered container; refuse a set, which has no order.

    Raises
    ------
    InputError
        If it is a set.
    """
    if isinstance(value, (set, frozenset)):
        raise InputError(f"{name} is a set, whose items have no order; write a list.")
    return items_of(value)


def natural_order(item: object) -> tuple[bool, Fraction, str]:
    """Return the sort key of items: numbers by their size, then texts by their letters."""
    text = str(item)
    is_number = _NUMBER.fullmatch(text) is not None
    return not is_number, Fraction(text) if is_number else Fraction(0), text
