"""Division of ε among parts of a plan, by the errors that each is predicted to have."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from hexveil.accounting.gaussian_composition import calibrated_square, cut_digits, square_epsilon

if TYPE_CHECKING:
    from collections.abc import Sequence

RESOLUTION = 2**40
"""Parts of ε are rounded down to this part of 1, which leaves room for sums of doubles."""
SMALLEST = 0.1
"""Share of a part of least need, times the number of parts."""
STEPS = 32
"""Shares are multiples of 1 / (32 times the number of parts)."""


PURE_EXPONENT, GAUSSIAN_EXPONENT = 1.0 / 2.0, 2.0 / 3.0
"""Powers of weighted errors that shares of ε, and of squares of μ, are as."""


def divide_epsilon(
    weights: Sequence[Fraction], errors: Sequence[float], exponent: float = PURE_EXPONENT
) -> list[Fraction]:
    """Return each part's share of ε or of squares of μ, of least weighted sum of predicted errors.

    Errors fall about as 1 / ε, and Σ w e / x is least, given Σ x, where x is as the root of w e.
    With squares of μ they fall as the root, and Σ w e / √x is least where x is as (w e)^(2/3).

    Parameters
    ----------
    weights : sequence of Fraction
        Importance of each part.
    errors : sequence of float
        Predicted error of each part at the same ε, without a unit of measure.
    exponent : float

    Examples
    --------
    >>> [str(share) for share in divide_epsilon([Fraction(1), Fraction(4)], [0.5, 0.5])]
    ['21/64', '43/64']
    """
    roots = [
        (float(weight) * max(error, 1e-9)) ** exponent
        for weight, error in zip(weights, errors, strict=True)
    ]
    ideal = np.array(roots) / sum(roots)
    shares = np.maximum(ideal, SMALLEST / ideal.size)
    # What the smallest gained is the largest's loss: shares are of one whole.
    shares[np.argmax(ideal)] -= float(shares.sum() - 1.0)
    steps = STEPS * ideal.size
    later = [Fraction(round(share * steps), steps) for share in shares[1:].tolist()]
    return [1 - sum(later, Fraction(0)), *later]


def part_of_square(square: Fraction, share: Fraction, delta: Fraction) -> Fraction:
    """Return the ε at δ of a part of a square of μ, rounded down.

    Examples
    --------
    >>> square, delta = calibrated_square(Fraction(1), Fraction("1e-6")), Fraction("1e-6")
    >>> half = part_of_square(square, Fraction(1, 2), delta)
    >>> bool(2 * calibrated_square(half, delta) <= square), round(float(half), 2)
    (True, 0.69)
    """
    target = square * share * (1 - Fraction(1, 2**30))
    epsilon = cut_digits(square_epsilon(target, delta))
    while calibrated_square(epsilon, delta) > target:
        epsilon = cut_digits(float(epsilon) * (1.0 - 1e-8))
    return epsilon


def round_part_down(epsilon: Fraction) -> Fraction:
    """Return ε rounded down, so that sums of losses in doubles stay within the whole."""
    # At least one step less: the sum of rounded parts must stay below the ε that was asked for.
    return Fraction(math.floor(epsilon * RESOLUTION) - 1, RESOLUTION)
