"""The δ that is suggested for a number of units, and the gain that makes it worth a sentence."""

from __future__ import annotations

from fractions import Fraction

USUAL_DELTA = Fraction("1e-6")
UNITS_REVEALED = Fraction(1, 10)
"""Largest δ times units of a δ that is suggested."""
WORTHWHILE = 0.95
"""Ratio of predicted errors below which a δ is suggested."""


def usual_delta(units: int) -> Fraction:
    """Return the δ that is suggested: 1e-6, or the power of ten at most 0.1 / units.

    Examples
    --------
    >>> float(usual_delta(5000)), float(usual_delta(3_000_000))
    (1e-06, 1e-08)
    """
    delta = USUAL_DELTA
    while delta * units > UNITS_REVEALED:
        delta /= 10
    return delta
