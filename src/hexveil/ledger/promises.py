"""Kinds of promise that an account holds: pure ε, or (ε, δ) with squares of μ.

An account is opened as one or the other, for good. A pure account adds up ε. An account with a δ
adds up squares of μ, which compose without loss, and shows them as ε at its δ: never a sum of two
such ε, which would be too large (`accounting.gaussian_composition`, with the proof). Numbers of
either kind are whole multiples of 10^-12.
"""

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from hexveil.accounting.gaussian_composition import square_epsilon
from hexveil.base.errors import InputError
from hexveil.base.rational import decimal_text
from hexveil.ledger.unit_losses import MAX_PICO_EPSILON, PICO_EPSILON

PURE = Fraction(0)
"""δ of a pure account."""
SLACK = Fraction(1, 10**8)
"""Relative room by which a rest shown as ε lies below the rest that is booked."""


def shown_epsilon(parts: int, delta: Fraction) -> Fraction:
    """Return a loss that an account added up, as ε, rounded up.

    Examples
    --------
    >>> shown_epsilon(5 * 10**11, Fraction(0))
    Fraction(1, 2)
    >>> round(float(shown_epsilon(56 * 10**9, Fraction("1e-6"))), 2)
    1.0
    """
    exact = Fraction(parts, PICO_EPSILON)
    if not delta or not parts:
        return exact
    epsilon = square_epsilon(exact, delta)
    # No double holds the ε of an enormous loss: shown as the largest that a ledger counts.
    if not math.isfinite(epsilon):
        return Fraction(MAX_PICO_EPSILON, PICO_EPSILON)
    return Fraction(math.ceil(Fraction(epsilon) * PICO_EPSILON), PICO_EPSILON)


def affordable_epsilon(parts: int, delta: Fraction) -> Fraction:
    """Return the ε of one release that a rest of a budget still takes, rounded down.

    Examples
    --------
    >>> round(float(affordable_epsilon(56 * 10**9, Fraction("1e-6"))), 2)
    1.0
    """
    if parts <= 0:
        return Fraction(0)
    if not delta:
        return Fraction(parts, PICO_EPSILON)
    epsilon = shown_epsilon(parts, delta) * (1 - SLACK)
    return Fraction(math.floor(epsilon * PICO_EPSILON), PICO_EPSILON)


def check_same_promise(account: str, pinned: Fraction, requested: Fraction) -> None:
    """Refuse a release with another δ than its account: one account holds one kind of promise.

    Raises
    ------
    InputError
        With what to do.
    """
    if pinned == requested:
        return
    kinds = [
        f"delta {decimal_text(delta)}" if delta else "no delta" for delta in (pinned, requested)
    ]
    raise InputError(
        f"the ledger's account {account!r} was opened with {kinds[0]}, and this release has "
        f"{kinds[1]}; one account never mixes the two. Plan with the delta of the account (none "
        "for a pure one), or use another account."
    )


def booked_epsilon(body: Mapping[str, Any]) -> Fraction:
    """Return the largest loss of a unit that a reservation states, as ε, rounded up."""
    return shown_epsilon(body["cost"], Fraction(body["delta"]))
