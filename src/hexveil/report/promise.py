"""The promise of a release: one wording for every text that states it.

The promise is the definition of pure ε-differential privacy for a privacy unit: it compares the
release with the one that would have been published from neighbouring data. It says nothing about
beliefs, on purpose. Where the values of several units are correlated, the odds on a fact about one
of them can change by far more than e^ε, because a statistic shows what units have in common;
tests/report/test_promise.py has an exact example.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Literal

from hexveil.exact import decimal_text, float_up

Protect = Literal["values"]
"""Privacy models: what of a unit is protected."""

ANY_UNIT = "one privacy unit"
WHO = {
    "user": "one user",
    "user-day": "one user on one day",
    "user-week": "one user in one week",
}
"""A privacy unit, in words."""
NEIGHBOURING: dict[Protect, str] = {"values": "had the values of {who} been anything else"}
"""The data that a release is compared with, by privacy model."""

IN_COMMON = (
    "What many users have in common, such as slow traffic on a line, can be learned from the "
    "release, and with it what follows for each of them: that is what a statistic is for."
)
PRESENCE = (
    "Presence, places, times and counts are not protected, nor is a value that can be worked out "
    "from them."
)
EXACT = "The numbers of users and records, the places and the times are exact."
NOT_PROTECTED = f"{PRESENCE} {EXACT} {IN_COMMON}"
_THREE_UP = Context(prec=3, rounding=ROUND_CEILING)


def promise(
    unit: str | None = None, epsilon: Fraction | None = None, *, protect: Protect = "values"
) -> str:
    """Return the promise in one sentence.

    Parameters
    ----------
    unit : str, optional
        The privacy unit; without it, the sentence speaks of any.
    epsilon : Fraction, optional
        The largest loss of a unit; without it, the factor is the formula.
    protect : str
        The privacy model.

    Examples
    --------
    >>> print(promise("user-day", Fraction(1)))  # doctest: +NORMALIZE_WHITESPACE
    Compared with the release that would have been published had the values of one user on one day
    been anything else, the probability of any outcome differs by a factor of at most 2.72.
    """
    neighbouring = NEIGHBOURING[protect].format(who=WHO[unit] if unit else ANY_UNIT)
    if epsilon == 0:
        return f"No value is read: {neighbouring}, the release would be the same."
    factor = (
        "by a factor of at most e^ε"
        if epsilon is None
        else factor_words(probability_factor(epsilon))
    )
    return (
        f"Compared with the release that would have been published {neighbouring}, the probability "
        f"of any outcome differs {factor}."
    )


def probability_factor(epsilon: Fraction) -> float:
    """Return e^ε rounded up; infinity where it is too large for a double."""
    if not epsilon:
        return 1.0  # nothing is read, so this is exact
    try:
        return math.nextafter(math.exp(float_up(epsilon)), math.inf)
    except OverflowError:
        return math.inf


def factor_words(factor: float | None) -> str:
    """Return by which factor probabilities differ, rounded up to at least three digits.

    Examples
    --------
    >>> factor_words(2.7181), factor_words(20085.54)
    ('by a factor of at most 2.72', 'by a factor of at most 20086')
    """
    if factor is None or not math.isfinite(factor):
        return "without a limit that a number of ordinary size could name"
    if factor >= 1e15:
        return f"by a factor of at most {Decimal(factor).normalize(_THREE_UP):.2e}"
    places = max(0, 2 - math.floor(math.log10(factor)))
    most = decimal_text(Fraction(math.ceil(Fraction(factor) * 10**places), 10**places))
    return f"by a factor of at most {most}"
