"""The promise of a release, as its manifest states it."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from hexveil.base.rational import decimal_text
from hexveil.report.promise_wording import (
    PURE,
    Protect,
    assumptions,
    neighbours,
    not_protected,
    probability_factor,
    promise,
)


def promise_section(
    unit: str, requested: str, spent: str, *, dropped: str, protect: Protect, delta: Fraction = PURE
) -> dict[str, Any]:
    """Return the section of a manifest about the promise, in the words of its privacy model.

    Parameters
    ----------
    unit : str
        The privacy unit.
    requested, spent : str
        Decimal text of ε.
    dropped : str
        Values that mean no reading.
    protect : str
    delta : Fraction
        0 of a pure promise.
    """
    factor = probability_factor(Fraction(spent))
    return {
        "protect": protect,
        "privacy_unit": unit,
        "promise": promise(unit, Fraction(spent), protect=protect, delta=delta),
        "neighbours": neighbours(unit, protect=protect),
        "epsilon_requested": requested,
        "epsilon_spent": spent,
        "probability_factor": factor if math.isfinite(factor) else None,  # JSON has no infinity
        **({"delta": decimal_text(delta)} if delta else {}),
        "assumptions": assumptions(unit, dropped, protect=protect, delta=delta),
        "not_protected": not_protected(protect=protect),
    }


def epsilon_text(epsilon: Fraction) -> str:
    """Return ε as decimal text of at most 12 places, rounded up."""
    # Up, because a stated loss must not be below the real one.
    return decimal_text(Fraction(math.ceil(epsilon * 10**12), 10**12))


def requested_text(requested: Fraction, spent: Fraction) -> str:
    """Return the requested ε as decimal text."""
    # What errors cost is a double, of which the exact text is a ratio that nobody reads.
    return epsilon_text(spent) if requested == spent else decimal_text(requested)
