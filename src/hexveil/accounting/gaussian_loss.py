"""Exact (ε, δ) of discrete Gaussian noise, by Gaussian differential privacy and a lattice term.

Neighbours: decided by the caller. Sensitivity: a unit moves entry g by at most d_g, an integer.
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

Composition: over several stages, also of other kinds, see `gaussian_composition`.

Rounding: δ and ε are rounded up. The two terms of δ_μ are enlarged and reduced by `MARGIN` of
themselves, far more than what the errors of the library's erfc and exp, and of their arguments, add
up to.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from hexveil.base.errors import InputError

MARGIN = 1e-11
"""Relative error that is allowed for in each term of a profile."""
MAX_ARGUMENT = 37.0
"""Standard deviations beyond which a normal tail is close to the smallest doubles."""
MIN_DEVIATION = 1.0
"""Smallest parameter r of the noise, in integer units, for which the lemma holds."""
HALVINGS = 200


@dataclass(frozen=True)
class GaussianLoss:
    """Loss of a unit from one stage of discrete Gaussian noise, as an upper bound.

    Attributes
    ----------
    mu : float
        √(Σ d_g² / r_g²), rounded up.
    shift : float
        Σ d_g / r_g², rounded up: what the lattice adds to ε.
    """

    mu: float
    shift: float

    def delta(self, epsilon: float) -> float:
        """Return δ at ε, rounded up."""
        return gaussian_delta(self.mu, math.nextafter(epsilon - self.shift, -math.inf))

    def epsilon(self, delta: float) -> float:
        """Return the smallest ε at δ, rounded up."""
        return smallest_epsilon(self.delta, delta)


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Return δ_μ(ε) of continuous Gaussian noise, rounded up.

    Parameters
    ----------
    mu : float
        Distance of two neighbours over the standard deviation; at least 0.
    epsilon : float
        Of any sign.

    Examples
    --------
    >>> f"{gaussian_delta(1 / 4.2247, 1.0):.2e}"
    '1.00e-06'
    """
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
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        if not low < middle < high:
            break
        low, high = (low, middle) if delta_at(middle) <= delta else (middle, high)
    # The upper end was computed to be enough.
    return high


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


def calibrated_mu(epsilon: float, delta: float) -> float:
    """Return the largest (ε, δ)-private μ of continuous Gaussian noise, rounded down.

    The standard deviation is the L2 distance of neighbours over μ.

    Parameters
    ----------
    epsilon, delta : float

    Raises
    ------
    InputError
        If ε is not positive or δ is out of range.

    Examples
    --------
    >>> [round(1 / calibrated_mu(1.0, delta), 2) for delta in (1e-6, 1e-9)]
    [4.22, 5.5]
    """
    check_delta(delta)
    if not (math.isfinite(epsilon) and epsilon > 0.0):
        raise InputError(f"epsilon must be positive and finite, got {epsilon!r}.")
    low, high = 0.0, 1.0
    while gaussian_delta(high, epsilon) <= delta:
        low, high = high, 2.0 * high
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        if not low < middle < high:
            break
        low, high = (middle, high) if gaussian_delta(middle, epsilon) <= delta else (low, middle)
    return low


def _normal(argument: float) -> float:
    """Return Φ, with full relative accuracy in the lower tail."""
    return 0.5 * math.erfc(-argument / math.sqrt(2.0))
