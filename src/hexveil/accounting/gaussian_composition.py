"""Exact (ε, δ) of discrete Gaussian noise, and of many stages: Gaussian differential privacy.

Neighbours: decided by the caller.
ONE STAGE. Sensitivity: a unit moves entry g by at most d_g, an integer.
Noise: entry g has discrete Gaussian noise X_g of parameter r_g >= 1 (mechanisms/noise.py), all
independent and drawn in one stage, so that no scale depends on another's outcome.
Symbols: μ² = Σ d_g² / r_g², s = Σ d_g / r_g², Φ the normal distribution function.
Loss: (ε, δ) with δ = δ_μ(ε - s), where

    δ_μ(ε) = Φ(μ/2 - ε/μ) - e^ε Φ(-μ/2 - ε/μ)

is the exact profile of continuous Gaussian noise (Balle and Wang, ICML 2018; Dong, Roth and Su,
JRSS B 84, 2022, Corollary 2.13).

Proof. The privacy profile is E (1 - exp(ε - L))+, L the log-ratio of probabilities of the outcome
under both data sets. A unit that moves entry g by k_g, 0 <= |k_g| <= d_g, has L = Σ (2 k_g X_g +
k_g²) / (2 r_g²): the constants of the laws cancel. X_g is symmetric, so let k_g >= 0. Lemma: X_g is
stochastically at most G_g + 1 with G_g normal of standard deviation r_g. Independent X_g then give
L stochastically at most Σ (2 k_g G_g + k_g²) / (2 r_g²) + Σ k_g / r_g², the loss of continuous
Gaussian noise plus at most s. The profile rises with L, so it is at most that of Gaussian noise of
μ_k² = Σ k_g² / r_g² at ε - s; and δ_μ rises with μ. The roles of both data sets are alike.

Lemma. P(X >= m) <= P(G >= m - 1) for all whole m if r >= 1. Let f(x) = exp(-x² / 2r²) and Z = Σ
f(j) over the integers. By Poisson's summation Z = √(2π) r (1 + η) with 0 < η < 2.1 exp(-2π² r²).
For m >= 1, Σ f(j) over j >= m is at most ∫ f over x >= m - 1, and Z is at least √(2π) r (Canonne,
Kamath and Steinke, NeurIPS 2020). For m <= 0 let k = 1 - m >= 1; by symmetry P(X >= k) >= P(G >= k)
is needed. On [j, j + 1], j >= 1, the integral of f is at most f(j) ∫ exp(-t / r²) over 0 <= t <= 1,
at most f(j) (1 - 1/(2r²) + 1/(6r⁴)). So Σ f(j) over j >= k is at least (1 + 1/(3r²)) ∫ f over x >=
k, and 1/(3r²) exceeds η for r >= 1. This completes it.
Rounding: δ and ε up, calibrated numbers down. The two terms of δ_μ are enlarged and reduced by
`MARGIN` of themselves, far more than all errors of the library's erfc and exp.

SEVERAL STAGES: squares of μ add up, and are converted once, at the end.
An account holds M, an upper bound of Σ μ² over all stages of all releases of a unit.
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
Loss of all: (ε, δ) with δ = δ_μ(ε - M LATTICE), μ² = M.

Proof. A stage with μ² and s has a profile of at most δ_μ(ε - s) at every ε of any sign, in both
directions. That is the profile of the pair P = N(μ, 1), Q = e^-s N(0, 1) with the rest of Q on a
point that P never yields. By Blackwell's theorem the stage is a randomised function of a draw from
that pair (Dong, Roth and Su, Theorem 2.10). Draw N(μ, 1) or N(0, 1) as the increment of a Brownian
motion with or without drift over a time of μ²; then all stages together, later ones chosen by the
outcomes of earlier ones, are a function of one motion over a time of at most M, and of lost points,
whose chance under Q is at most 1 - exp(-M LATTICE) however the path was chosen. Prolonging the
motion to M exactly, and losing more, only helps to tell the pairs apart. The pair N(√M, 1), exp(-M
LATTICE) N(0, 1) has the profile above.
This is the fully adaptive composition of Gaussian privacy (Smith and Thakurta, 2022), with losses
fixed before each draw by what came before.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np

from hexveil.base.arrays import Floats
from hexveil.base.errors import InputError
from hexveil.base.rational import Number, round_up, to_positive_fraction

MARGIN = 1e-11
"""Relative error that is allowed for in each term of a profile."""
MAX_ARGUMENT = 37.0
"""Standard deviations beyond which a normal tail is close to the smallest doubles."""
MIN_DEVIATION = 1.0
"""Smallest parameter r of the noise, in integer units, for which the lemma holds."""
HALVINGS = 200


def bisected(low: float, high: float, is_high: Callable[[float], bool]) -> tuple[float, float]:
    """Return neighbouring numbers around the place from which on a condition holds."""
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        if not low < middle < high:
            break
        low, high = (low, middle) if is_high(middle) else (middle, high)
    return low, high


def gaussian_delta(mu: float, epsilon: float, shift: float = 0.0) -> float:
    """Return δ_μ(ε - s), rounded up: of continuous Gaussian noise, or with its lattice term s.

    Parameters
    ----------
    mu : float
        Distance of two neighbours over the standard deviation; at least 0.
    epsilon : float
        Of any sign.
    shift : float
        What the lattice adds to ε.

    Examples
    --------
    >>> f"{gaussian_delta(1 / 4.2247, 1.0):.2e}"
    '1.00e-06'
    """
    if shift:
        epsilon = math.nextafter(epsilon - shift, -math.inf)
    if not mu > 0.0:
        # Equal laws: only a negative ε leaves anything.
        return min(1.0, -math.expm1(epsilon) * (1.0 + MARGIN)) if epsilon < 0.0 else 0.0
    if not math.isfinite(mu):
        return 1.0
    upper, lower = mu / 2.0 - epsilon / mu, -mu / 2.0 - epsilon / mu
    if -upper > MAX_ARGUMENT:
        # Below exp(-684), and so below any δ that is asked for.
        return 1e-290
    far = math.exp(min(epsilon, 700.0)) * _normal(lower) if -lower < MAX_ARGUMENT else 0.0
    return min(1.0, _normal(upper) * (1.0 + MARGIN) - far * (1.0 - MARGIN))


def smallest_epsilon(delta_at: Callable[[float], float], delta: float) -> float:
    """Return the smallest ε >= 0 at which a falling profile is at most δ, rounded up.

    Parameters
    ----------
    delta_at : callable
        δ at each ε, rounded up.
    delta : float
        Above 0 and below 1.

    Raises
    ------
    InputError
        If δ is out of range.
    """
    check_delta(delta)
    if delta_at(0.0) <= delta:
        return 0.0
    low, high = 0.0, 1.0
    while delta_at(high) > delta:
        low, high = high, 2.0 * high
        if high > 1e6:
            return math.inf
    # The upper end was computed to be enough.
    return bisected(low, high, lambda epsilon: delta_at(epsilon) <= delta)[1]


def check_delta(delta: float, n_units: int | None = None) -> None:
    """Refuse a δ that is no probability, or that would allow to publish a unit's values outright.

    A mechanism that publishes each unit's values as they are with probability δ is (0, δ)-private.
    With n units it reveals n δ of them on average: at 1/n one of them, in every release.

    Parameters
    ----------
    delta : float
    n_units : int, optional
        Units of the population.

    Raises
    ------
    InputError
        If δ is not above 0 and below 1, or at least 1/n.
    """
    if not 0.0 < delta < 1.0:
        raise InputError(
            f"delta must be above 0 and below 1, got {delta!r}; write for example 1e-9."
        )
    if n_units is not None and delta * n_units >= 1.0:
        raise InputError(
            f"delta {delta:g} is not below 1 / {n_units:,} units: it would allow to publish one of "
            "them outright; use a far smaller delta, such as 1e-9."
        )


def _normal(argument: float) -> float:
    """Return Φ, with full relative accuracy in the lower tail."""
    return 0.5 * math.erfc(-argument / math.sqrt(2.0))


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
    tail = 2.0 / (1.0 + math.exp(epsilon)) * (1.0 - MARGIN)

    def is_enough(mu: float) -> bool:
        # Near 1 the tail itself is compared, in which nothing cancels.
        x = mu / math.sqrt(8.0)
        return math.erfc(x) <= tail if epsilon > 1.0 else math.erf(x) >= wanted

    _, high = bisected(0.0, math.sqrt(8.0 * epsilon) * (1.0 + MARGIN), is_enough)
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
    return cut_digits(bisected(low, high, lambda epsilon: square_of_pure(epsilon) > square)[0])


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
    shift = round_up(square * LATTICE)
    return smallest_epsilon(partial(gaussian_delta, mu, shift=shift), delta_down(delta))


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
    exact = square_epsilon(Fraction(largest), delta)
    epsilons = np.interp(np.sqrt(squares), roots, [*points, exact])
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

    def is_too_large(square: float) -> bool:
        mu = math.nextafter(math.sqrt(square), math.inf)
        return gaussian_delta(mu, limit, square * float(LATTICE)) > small

    high = 1.0
    while not is_too_large(high):
        high *= 4.0
    low, _ = bisected(0.0, high, is_too_large)
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
    check_delta(float(exact))
    return exact


def delta_down(delta: Fraction) -> float:
    """Return δ as a double that is not above it."""
    number = float(delta)
    return number if Fraction(number) <= delta else math.nextafter(number, 0.0)
