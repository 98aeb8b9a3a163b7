"""Tails of the normal law: `ndtr` and the scaled `erfcx` of arrays.

Those of SciPy where it is installed, as it is with whoever publishes. A recipient lacks it, since
it would double what is installed, and checks numbers by `ndtr` alone: that of the C library, which
takes longer.
"""

import math
from functools import cache
from types import ModuleType

import numpy as np

from hexveil.base.arrays import Floats

_ERFC = np.vectorize(math.erfc, otypes=[np.float64])


@cache
def scipy_special() -> ModuleType | None:
    """Return the functions of SciPy, None where it is not installed."""
    try:
        from scipy import special  # noqa: PLC0415  takes a moment to load
    except ImportError:
        return None
    return special  # type: ignore[no-any-return]


def erfcx(x: Floats) -> Floats:
    """Return exp(x²) erfc(x) of each number, by SciPy.

    Examples
    --------
    >>> erfcx(np.array([0.0, 1.0, 1e9])).round(12).tolist()
    [1.0, 0.427583576156, 5.64e-10]
    """
    from scipy import special  # noqa: PLC0415  takes a moment to load

    return np.asarray(special.erfcx(x))


def ndtr(x: Floats) -> Floats:
    """Return how likely a standard normal number is below each number.

    Examples
    --------
    >>> ndtr(np.array([-1.0, 0.0, np.inf])).round(12).tolist()
    [0.158655253931, 0.5, 1.0]
    """
    if (special := scipy_special()) is not None:
        return np.asarray(special.ndtr(x))
    return np.asarray(0.5 * _ERFC(np.asarray(x) * -math.sqrt(0.5)))
