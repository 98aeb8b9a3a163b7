"""Requests with a δ where occupancy is public: the square of μ they may spend; the δ suggested."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from hexveil.accounting.gaussian_composition import calibrated_square
from hexveil.accounting.gaussian_loss import check_delta
from hexveil.base.errors import InputError
from hexveil.planning.request import WithinEpsilon, WithinErrors

if TYPE_CHECKING:
    from hexveil.model.occupancy import Occupancy
    from hexveil.planning.request import Request


USUAL_DELTA = Fraction("1e-6")
UNITS_REVEALED = Fraction(1, 10)
"""Largest δ times units of a δ that is suggested."""
WORTHWHILE = 0.95
"""Ratio of predicted errors below which a δ is suggested."""
RANGES = ("auto", "bounds", "private", "per-cell")
"""Clipping ranges that a δ goes with."""
WORKS = 'delta works for means and variances, by method "joint"; leave out delta'


def check_delta_request(request: Request) -> None:
    """Refuse options for which Gaussian noise is not proved or built.

    Raises
    ------
    InputError
        Naming what works.
    """
    if request.error != "separate":
        raise InputError(f'{WORKS}, or ask for error "separate".')
    if request.method != "joint":
        raise InputError(f"{WORKS}, or the method {request.method!r}.")
    if not isinstance(request.limit, (WithinEpsilon, WithinErrors)):
        raise InputError(f"{WORKS}, or give epsilon or target_error.")
    if request.objective != "mean" and isinstance(request.limit, WithinEpsilon):
        raise InputError(f'{WORKS}, or ask for objective "mean", or for target errors.')
    if request.clipping_range not in RANGES:
        raise InputError(
            f'delta works with clipping_range "bounds", "private" and "per-cell", not with '
            f"{request.clipping_range!r}, whose steps are purely private; leave out delta, or name "
            "one of these."
        )


def check_population(occupancy: Occupancy, delta: Fraction) -> None:
    """Refuse a δ of 1 over the number of units or more."""
    check_delta(float(delta), occupancy.n_users)


def square_to_spend(request: Request) -> Fraction:
    """Return the square of μ that a request may spend, rounded down.

    Raises
    ------
    InputError
        If so little is asked for that nothing could be measured.
    """
    assert request.epsilon is not None  # noqa: S101  see check_delta_request
    return calibrated_square(request.epsilon, request.delta)


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
