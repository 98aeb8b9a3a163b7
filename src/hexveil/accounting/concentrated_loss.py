"""Zero-concentrated loss rho: composition over stages of any kind, and its (ε, δ).

Not offered by a plan or a release yet: no public name leads here.

Symbols: a the order of a divergence, r_g the parameter of the noise of entry g.
Definition: a release is rho-zCDP for a unit if for all its neighbours and every a > 1 the Rényi
divergence of order a is at most rho a (Bun and Steinke, TCC 2016).
Loss of a stage:
- Discrete Gaussian noise of parameter r_g on entries that the unit moves by at most d_g integers:
  rho = Σ d_g² / (2 r_g²) (Canonne, Kamath and Steinke, NeurIPS 2020, Theorem 14).
- A stage that is purely ε-private (Laplace noise, permute-and-flip): rho = ε² / 2 (Bun and Steinke,
  Proposition 3.3).
Composition: rho adds up, also where a stage was chosen by earlier outcomes (Bun and Steinke, Lemma
2.3; with budgets that depend on outcomes, Whitehouse, Ramdas, Rogers and Wu, ICML 2023).
Conversion: for every a > 1, rho-zCDP implies (ε, δ) with

    δ = exp((a - 1) (a rho - ε)) (1 - 1/a)^a / (a - 1)

(Canonne, Kamath and Steinke, Proposition 12). Any a is valid, so a search for the best one needs no
accuracy, and δ is rounded up by `MARGIN` of itself.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from hexveil.accounting.gaussian_loss import MARGIN, smallest_epsilon
from hexveil.base.rational import sum_upper_bounds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
NARROWINGS = 100
LOWEST, HIGHEST = math.log(1e-6), math.log(1e9)
"""Ends of the search for ln(a - 1)."""


def gaussian_stage_losses(
    user: NDArray[np.int64], moved: NDArray[np.int64], deviation: Floats, n_users: int
) -> Floats:
    """Return rho of each user from a stage of discrete Gaussian noise, rounded up.

    Parameters
    ----------
    user : ndarray of int64, shape (n,)
    moved : ndarray of int64, shape (n,)
        Integers by which the user moves the entry at most.
    deviation : ndarray of float, shape (n,)
        s of the entry's noise, above 0.
    n_users : int

    Examples
    --------
    >>> user, moved = np.array([0, 0, 1]), np.array([3, 4, 0])
    >>> gaussian_stage_losses(user, moved, np.full(3, 5.0), 2).round(12).tolist()
    [0.5, 0.0]
    """
    ratio = moved / deviation
    # Three roundings in a term; the sum allows for half an ulp of each.
    return sum_upper_bounds(user, ratio * ratio / 2.0 * (1.0 + 2.0**-50), n_users)


def pure_stage_losses(losses: Floats) -> Floats:
    """Return rho of stages with these pure losses, rounded up.

    Parameters
    ----------
    losses : ndarray of float
        In ε.
    """
    return np.asarray(losses * losses / 2.0 * (1.0 + 2.0**-50))


def concentrated_delta(rho: float, epsilon: float) -> float:
    """Return δ at ε of a rho-zCDP release, rounded up.

    Parameters
    ----------
    rho : float
        At least 0.
    epsilon : float
        At least 0.
    """
    if not rho > 0.0:
        return 0.0
    low, high = LOWEST, HIGHEST
    # A golden-section search; the logarithm of δ has one minimum in a.
    for _ in range(NARROWINGS):
        width = GOLDEN * (high - low)
        left, right = high - width, low + width
        if _log_delta(rho, epsilon, left) <= _log_delta(rho, epsilon, right):
            high = right
        else:
            low = left
    logarithm = _log_delta(rho, epsilon, (low + high) / 2.0)
    return min(1.0, math.exp(min(logarithm, 0.0)) * (1.0 + MARGIN * (1.0 + abs(logarithm))))


def concentrated_epsilon(rho: float, delta: float) -> float:
    """Return the smallest ε at δ of a rho-zCDP release, rounded up.

    Parameters
    ----------
    rho : float
        At least 0.
    delta : float
        Above 0 and below 1.

    Raises
    ------
    InputError
        If δ is out of range.

    Examples
    --------
    >>> round(concentrated_epsilon(0.5, 1e-6), 2)
    5.22
    """
    return smallest_epsilon(lambda epsilon: concentrated_delta(rho, epsilon), delta)


def _log_delta(rho: float, epsilon: float, log_excess: float) -> float:
    """Return ln δ by the order a = 1 + exp(log_excess)."""
    excess = math.exp(log_excess)
    alpha = 1.0 + excess
    # ln(1 - 1/a) = ln(a - 1) - ln a, without a difference of nearly equal numbers.
    return excess * (alpha * rho - epsilon) + alpha * (log_excess - math.log1p(excess)) - log_excess
