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
    paired_limit95 : float
        Size that is exceeded with probability 2.5 percent: where two noises must both stay within
        their limits, each may leave them half as often.
    absolute_excess : float
        Expected |X² - variance| of the noise X.
    """

    name: str
    mean_absolute: float
    limit95: float
    variance: float
    paired_limit95: float
    absolute_excess: float


LAPLACE = NoiseLaw(
    "Laplace",
    1.0,
    math.log(20.0),
    2.0,
    math.log(40.0),
    2.0 * math.exp(-math.sqrt(2.0)) * (2.0 + 2.0 * math.sqrt(2.0)),
)
"""Of scale b."""
GAUSSIAN = NoiseLaw(
    "Gaussian",
    math.sqrt(2.0 / math.pi),
    1.95996398454006,
    1.0,
    2.24140272760496,
    4.0 / math.sqrt(2.0 * math.pi * math.e),
)
"""Of standard deviation 1."""
