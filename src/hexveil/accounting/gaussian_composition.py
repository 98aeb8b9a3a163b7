"""Composition of stages under (ε, δ): squares of μ add up, and are converted once, at the end.

Neighbours: decided by the caller. An account holds M, an upper bound of Σ μ² over all stages of all
releases of a unit.

Loss of a stage, as μ²:
- Discrete Gaussian noise of parameter r on integers that the unit moves by d in L2: d² / r², with a
  lattice term s = Σ_g d_g / r² of at most μ² `LATTICE`. Contributions under private presence meet
  this: they have at least P = 2^20 parts, and at most G = 2^22 cells. With the two halves, or the
  bins, of a cell's weight counted together, Σ_g d_g <= √G P by Cauchy and Schwarz, while P² / r² is
  booked for μ²: s <= μ² √G / P = μ² / 2^9.
- A purely ε-private stage: μ = -2 Φ⁻¹(1 / (1 + e^ε)), no lattice term. The trade-off function of
  randomised response of ε has one kink, at (1, 1) / (1 + e^ε). That of Gaussian noise of this μ
  passes through the kink, and lies below both straight pieces, since it is convex (Dong, Roth and
  Su, JRSS B 84, 2022). In other words Φ(μ/2) - 1/2 = tanh(ε/2) / 2, so erf(μ / √8) = tanh(ε/2).
Loss of all: (ε, δ) with δ = δ_μ(ε - M LATTICE), μ² = M, δ_μ the profile of `gaussian_loss`.

Proof. A stage with μ² and s has a profile of at most δ_μ(ε - s) at every ε of any sign, in both
directions (`gaussian_loss`). That is the profile of the pair P = N(μ, 1), Q = e^-s N(0, 1) with the
rest of Q on a point that P never yields. By Blackwell's theorem the stage is a randomised function
of a draw from that pair (Dong, Roth and Su, Theorem 2.10). Draw N(μ, 1) or N(0, 1) as the increment
of a Brownian motion with or without drift over a time of μ²; then all stages together, later ones
chosen by the outcomes of earlier ones, are a function of one motion over a time of at most M, and
of lost points, whose chance under Q is at most 1 - exp(-M LATTICE) however the path was chosen.
Prolonging the motion to M exactly, and losing more, only helps to tell the pairs apart. The pair
N(√M, 1), exp(-M LATTICE) N(0, 1) has the profile above.
This is the fully adaptive composition of Gaussian privacy (Smith and Thakurta, 2022), with losses
fixed before each draw by what came before.

Rounding: μ² and ε up, calibrated numbers down.
"""

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np

from hexveil.accounting.gaussian_loss import (
    HALVINGS,
    MARGIN,
    GaussianLoss,
    calibrated_mu,
    check_delta,
)
from hexveil.base.arrays import Floats
from hexveil.base.errors import InputError
from hexveil.base.rational import Number, round_up, to_positive_fraction

LATTICE = Fraction(1, 2**9)
"""Lattice term of a stage of Gaussian noise, per unit of its μ²; see the module's head."""
STEPS = 10**12
"""Squares of μ are whole multiples of 1 / STEPS, those of a ledger."""
DIGITS = 9
"""Digits of calibrated numbers: fewer than those in which processors differ."""
FIGURE_POINTS = 65
"""Points between which losses of units are interpolated, for figures."""
CHOICES = 2
"""Private choices of a range: its ends, of equal loss."""
LARGE = 16.0
"""ε from which the bound μ² <= 8 ε is taken."""


def square_of_pure(epsilon: float) -> float:
    """Return μ² of a purely ε-private stage, rounded up.

    For large ε it is 8 ε: Φ(-x) <= exp(-x²/2) / 2 <= 1 / (1 + e^ε) at x² = 2 ε, with μ = 2 x.

    Examples
    --------
    >>> round(square_of_pure(0.1) / 0.1**2, 3), square_of_pure(0.0)
    (1.57, 0.0)
    """
    if not epsilon > 0.0:
        return 0.0
    if epsilon > LARGE:
        return math.nextafter(8.0 * epsilon, math.inf)
    wanted = math.tanh(epsilon / 2.0) * (1.0 + MARGIN)
    low, high = 0.0, math.sqrt(8.0 * epsilon) * (1.0 + MARGIN)
    if epsilon > 1.0:
        # Near 1 the tail itself is compared, in which nothing cancels.
        tail = 2.0 / (1.0 + math.exp(epsilon)) * (1.0 - MARGIN)
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        if not low < middle < high:
            break
        x = middle / math.sqrt(8.0)
        is_enough = math.erfc(x) <= tail if epsilon > 1.0 else math.erf(x) >= wanted
        low, high = (low, middle) if is_enough else (middle, high)
    return high * high * (1.0 + MARGIN)


def range_square(epsilon: Fraction, choices: int = CHOICES) -> float:
    """Return the square of μ of choices of equal loss that are purely private together.

    Examples
    --------
    >>> round(range_square(Fraction("0.1")) / square_of_pure(0.05), 6)
    2.0
    """
    if not epsilon:
        return 0.0
    each = square_of_pure(math.nextafter(round_up(epsilon / choices), math.inf))
    return math.nextafter(choices * each, math.inf)


@lru_cache(maxsize=64)
def pure_of_square(square: Fraction) -> Fraction:
    """Return the ε of a purely private stage within this μ², rounded down.

    Examples
    --------
    >>> float(pure_of_square(Fraction("0.01")))
    0.0797...
    """
    low, high = 0.0, 1.0
    while square_of_pure(high) <= square:
        low, high = high, 2.0 * high
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        if not low < middle < high:
            break
        low, high = (middle, high) if square_of_pure(middle) <= square else (low, middle)
    return cut_digits(low)


def square_epsilon(square: Fraction, delta: Fraction) -> float:
    """Return ε of stages that add up to this μ², at δ, rounded up.

    Examples
    --------
    >>> round(square_epsilon(Fraction("0.056"), Fraction("1e-6")), 2)
    1.0
    """
    if not square:
        return 0.0
    mu = math.nextafter(math.sqrt(round_up(square)), math.inf)
    return GaussianLoss(mu, round_up(square * LATTICE)).epsilon(delta_down(delta))


def epsilons_of_squares(squares: Floats, delta: Fraction) -> Floats:
    """Return ε of many units from their μ², for figures: the largest exactly, others nearly.

    ε at a δ is convex in μ, so that a line between two points is above it.

    Examples
    --------
    >>> epsilons_of_squares(np.array([0.0, 0.014, 0.056]), Fraction("1e-6")).round(2)
    array([0.  , 0.48, 1.  ])
    """
    largest = float(squares.max(initial=0.0))
    roots = np.linspace(0.0, math.sqrt(largest), FIGURE_POINTS)
    points = [square_epsilon(Fraction(float(root)) ** 2, delta) for root in roots[:-1].tolist()]
    epsilons = np.interp(
        np.sqrt(squares), roots, [*points, square_epsilon(Fraction(largest), delta)]
    )
    exact = square_epsilon(Fraction(largest), delta)
    return np.where(squares == largest, exact, np.minimum(epsilons, exact))


@lru_cache(maxsize=64)
def calibrated_square(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return a μ² of stages that are (ε, δ)-private together, near the largest, rounded down.

    Raises
    ------
    InputError
        If δ is no probability, or so little of both is asked for that nothing could be measured.

    Examples
    --------
    >>> round(1 / float(calibrated_square(Fraction(1), Fraction("1e-6"))) ** 0.5, 2)
    4.23
    """
    small, limit = delta_down(delta), math.nextafter(float(epsilon), 0.0)
    check_delta(small)
    low, high = 0.0, calibrated_mu(limit, small) ** 2
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        if not low < middle < high:
            break
        mu = math.nextafter(math.sqrt(middle), math.inf)
        is_private = GaussianLoss(mu, middle * float(LATTICE)).delta(limit) <= small
        low, high = (middle, high) if is_private else (low, middle)
    square = Fraction(math.floor(cut_digits(low) * STEPS), STEPS)
    if not square:
        raise InputError(
            f"epsilon {float(epsilon):g} with delta {float(delta):g} leaves nothing to measure "
            "with; use a larger delta, such as 1e-9, or a larger epsilon."
        )
    return square


def cut_digits(number: float) -> Fraction:
    """Return a positive number cut to `DIGITS` digits, so that processors agree on it.

    Examples
    --------
    >>> float(cut_digits(0.12345678987))
    0.123456789
    """
    if not number > 0.0:
        return Fraction(0)
    places = DIGITS - 1 - math.floor(math.log10(number))
    step = Fraction(10) ** places
    return Fraction(math.floor(Fraction(number) * step)) / step


def to_delta(delta: Number | None) -> Fraction:
    """Return the δ of an argument; 0 without one.

    Raises
    ------
    InputError
        If it is not above 0 and below 1.
    """
    if delta is None:
        return Fraction(0)
    exact = to_positive_fraction(delta, "delta")
    if exact >= 1:
        raise InputError(f"delta must be above 0 and below 1, got {delta}; write for example 1e-9.")
    return exact


def delta_down(delta: Fraction) -> float:
    """Return δ as a double that is not above it."""
    number = float(delta)
    return number if Fraction(number) <= delta else math.nextafter(number, 0.0)
