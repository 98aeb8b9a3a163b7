"""Laws of the noise of a release: the figures of |noise| that errors and intervals are made of.

Discrete noise of a scale of many quanta has the figures of the continuous law, up to rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class NoiseLaw:
    """Figures of noise of scale 1.

    Attributes
    ----------
    name : str
        "Laplace" or "Gaussian".
    mean_absolute : float
        Expected size.
    limit95 : float
        Size that is exceeded with probability 5 percent.
    variance : float
    """

    name: str
    mean_absolute: float
    limit95: float
    variance: float


LAPLACE = NoiseLaw("Laplace", 1.0, math.log(20.0), 2.0)
"""Of scale b."""
GAUSSIAN = NoiseLaw("Gaussian", math.sqrt(2.0 / math.pi), 1.95996398454006, 1.0)
"""Of standard deviation 1."""


def law_of(name: str) -> NoiseLaw:
    """Return the law of a name; that of pure promises for any other.

    Examples
    --------
    >>> law_of("Gaussian").variance
    1.0
    """
    return GAUSSIAN if name == GAUSSIAN.name else LAPLACE
