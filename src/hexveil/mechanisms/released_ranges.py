"""Ranges and shares of the stages of a release: integer functions of released numbers.

A planner predicts errors with the same functions before anything is released. Public.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fractions import Fraction

STANDARD_NORMAL = NormalDist()


def centre_and_radius(ends: tuple[int, int], steps: int, radius: Fraction) -> tuple[int, int, int]:
    """Return the middle of a range, its half width, and the radius of squares; in quanta.

    Examples
    --------
    >>> from fractions import Fraction
    >>> centre_and_radius((10, 21), 100, Fraction(2))
    (15, 6, 12)
    >>> centre_and_radius((10, 21), 100, Fraction(50))
    (15, 6, 85)
    """
    middle = sum(ends) // 2
    half = ends[1] - middle
    # No value is further from the middle than the bounds are: a larger radius would only be noise.
    return middle, half, min(math.ceil(radius * half), max(middle, steps - middle))


def widened(ends: tuple[int, int], steps: int, widening: Fraction) -> tuple[int, int]:
    """Return a range made wider around its middle, within the bounds; in quanta.

    Examples
    --------
    >>> from fractions import Fraction
    >>> widened((2, 6), 10, Fraction(3, 2)), widened((0, 5), 10, Fraction(2))
    ((1, 7), (0, 8))
    """
    margin = math.ceil((ends[1] - ends[0]) * (widening - 1) / 2)
    return max(ends[0] - margin, 0), min(ends[1] + margin, steps)
