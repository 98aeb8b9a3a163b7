"""Parts of an (ε, δ) promise: each with an ε of its own at the same δ, squares of μ adding up.

A part with a share of the square is planned as a promise of its own. Errors of Gaussian noise fall
with the root of a share, so that Σ w e / √x is least, given Σ x, where x is as (w e)^(2/3).

Neighbours: one unit's values all change within the bounds.
Loss: squares of the parts add up to at most that of the whole.
Source: `hexveil.accounting.gaussian_composition`, with proof.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from hexveil.accounting.gaussian_composition import calibrated_square, square_epsilon
from hexveil.planning.columns.epsilon_shares import RESOLUTION, divide_epsilon

if TYPE_CHECKING:
    from collections.abc import Sequence

KEPT = 1 - Fraction(1, 2**26)
"""Share of a part that is planned with: sums of rounded squares stay within the whole."""


def part_epsilon(epsilon: Fraction, share: Fraction, delta: Fraction) -> Fraction:
    """Return the ε of a part with this share: of ε itself, or of its square of μ with a δ.

    Examples
    --------
    >>> float(part_epsilon(Fraction(1), Fraction(1, 2), Fraction(0)))
    0.5
    >>> round(float(part_epsilon(Fraction(1), Fraction(1, 2), Fraction("1e-6"))), 2)
    0.69
    """
    if not delta:
        return epsilon * share
    square = KEPT * share * calibrated_square(epsilon, delta)
    steps = math.floor(Fraction(square_epsilon(square, delta)) * RESOLUTION)
    while steps > 1 and calibrated_square(Fraction(steps, RESOLUTION), delta) > square:
        steps -= 1 + steps // 2**30
    return Fraction(max(steps, 1), RESOLUTION)


def divide_loss(
    weights: Sequence[Fraction], errors: Sequence[float], delta: Fraction
) -> list[Fraction]:
    """Return each part's share of the loss, of least weighted sum of predicted errors.

    Parameters
    ----------
    weights : sequence of Fraction
        Importance of each part.
    errors : sequence of float
        Predicted error of each part at the same loss, without a unit of measure.
    delta : Fraction
        0 of a pure promise, whose shares are of ε.

    Examples
    --------
    >>> [str(one) for one in divide_loss([Fraction(1), Fraction(8)], [0.5, 0.5], Fraction("1e-6"))]
    ['13/64', '51/64']
    """
    if not delta:
        return divide_epsilon(weights, errors)
    # The root of these is (w e)^(2/3).
    needs = [
        (float(weight) * max(error, 1e-9)) ** (4.0 / 3.0)
        for weight, error in zip(weights, errors, strict=True)
    ]
    return divide_epsilon([Fraction(1)] * len(needs), needs)
