"""Ranges and shares of the stages of a release: integer functions of released numbers.

A planner predicts errors with the same functions before anything is released. Public.
"""

from __future__ import annotations

import math
from fractions import Fraction
from statistics import NormalDist
from typing import Literal

Strategy = Literal["single_stage", "user_residuals", "cell_residuals"]
STRATEGIES: tuple[Strategy, ...] = ("single_stage", "user_residuals", "cell_residuals")
"""Second stages of a two-stage mean. The journal stores positions in this tuple: never reorder."""
FIRST_STAGE_SHARE = Fraction(3, 10)
"""Part of the remaining ε for the first mean of each cell, in the strategy `cell_residuals`."""
RESIDUAL_QUANTILE = Fraction(4, 5)
"""Share of the distances from users' own means that lie within h."""
STANDARD_NORMAL = NormalDist()
# A range whose ends are the 10 % and 90 % quantiles of a normal law is 2 x 1.28 deviations wide.
RANGE_HALF_WIDTH_SD = STANDARD_NORMAL.inv_cdf(0.9)
# 80 % of |residuals| lie within 1.28 deviations as well, since a residual may have either sign.
RESIDUAL_HALF_WIDTH_SD = STANDARD_NORMAL.inv_cdf(0.9)
CELL_RESIDUAL_HALF_WIDTH_SD = 0.8
"""h' in deviations of a cell's user means."""


def centre_and_radius(ends: tuple[int, int], steps: int, radius: Fraction) -> tuple[int, int, int]:
    """Return the middle of a range, its half width, and the radius of squares; in quanta.

    Examples
    --------
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
    >>> widened((2, 6), 10, Fraction(3, 2)), widened((0, 5), 10, Fraction(2))
    ((1, 7), (0, 8))
    """
    margin = math.ceil((ends[1] - ends[0]) * (widening - 1) / 2)
    return max(ends[0] - margin, 0), min(ends[1] + margin, steps)


def within_cell_sd(width: float, half: float) -> float:
    """Return s for a range of this width at 1.28 deviations and for h.

    Examples
    --------
    >>> round(within_cell_sd(2.56, 1.28), 2), round(within_cell_sd(2.56, 0.0), 2)
    (0.71, 1.0)
    """
    total_sd, within_user_sd = width / (2.0 * RANGE_HALF_WIDTH_SD), half / RESIDUAL_HALF_WIDTH_SD
    # Half of the variance within users is taken to lie between cells. Where h is so large that
    # nothing would be left, a fifth of the variance stays, so that no range is empty.
    return math.sqrt(max(total_sd**2 - within_user_sd**2 / 2.0, total_sd**2 / 5.0))


def user_mean_range_width(width: float, half: float) -> float:
    """Return the width for users' own means, which vary less than (cell, user) means.

    Examples
    --------
    >>> user_mean_range_width(5.0, 2.0), user_mean_range_width(5.0, 4.0)
    (3.0, 2.5)
    """
    return math.sqrt(
        max(
            width**2 - (2.0 * half * RANGE_HALF_WIDTH_SD / RESIDUAL_HALF_WIDTH_SD) ** 2,
            width**2 / 4.0,
        )
    )


def user_mean_range(ends: tuple[int, int], inside: int) -> tuple[int, int]:
    """Return the range for users' own means in quanta, around the same middle."""
    width = ends[1] - ends[0]
    centre = max(round(user_mean_range_width(width, inside)), 1)
    low = ends[0] + (width - centre) // 2
    return low, low + centre


def second_stage_half_width(strategy: str, ends: tuple[int, int], inside: int) -> int:
    """Return the half width of a strategy's second stage in quanta, h or h'; at least 1."""
    # A half width of 0 would have no noise, and its stage would publish its centres unprotected.
    if strategy != "cell_residuals":
        return max(inside, 1)
    return max(round(CELL_RESIDUAL_HALF_WIDTH_SD * within_cell_sd(ends[1] - ends[0], inside)), 1)
