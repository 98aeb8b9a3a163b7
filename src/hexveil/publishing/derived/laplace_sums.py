"""Tails and quantiles of sums of independent Laplace numbers.

A Laplace number of scale b has the characteristic function 1 / (1 + b² t²). Symbols: S the sum of
independent ones with scales b_i, q its 95 percent bound, P(|S| > q) = 0.05.

- One number: P(|S| > x) = exp(-x / b).
- Two, a > b: P(|S| > x) = (a² exp(-x/a) - b² exp(-x/b)) / (a² - b²); for a = b it is
  (1 + x / (2 a)) exp(-x / a). Both follow from partial fractions of the product.
- More: P(|S| > x) = 1 - (2/π) ∫ sin(x t) / t Π 1 / (1 + b_i² t²) dt over t > 0 (Gil-Pelaez, 1951),
  by the midpoint rule of Davies (Applied Statistics 29, 1980). In units of the standard deviation
  the rule errs by less than P(|S| > 2π / STEP - x), below 1e-12, and by what lies beyond LAST,
  below (4/π) / (2 LAST²) = 4e-6, since two factors of the product bound it. The bound is computed
  for 0.05 - 1e-5, so it is never too small.

Beyond its 95 percent bound a symmetric sum of log-concave numbers has P(|S| > x) <= 0.05^(x / q):
log-concave densities have log-concave tails (Prékopa, 1973), and the tail is 1 at 0.
"""

from __future__ import annotations

import math

import numpy as np

from hexveil.base.arrays import Floats

MISS = 0.05
"""Probability that the noise exceeds its bound."""
STEP, LAST = 0.2, 400.0
"""Distance of the nodes of the midpoint rule and their end, over the standard deviation."""
_ALLOWED = 1e-5
_EQUAL = 1e-5
"""Relative difference of scales below which both are taken as the larger: no digits cancel."""
_HALVINGS = 60
_BLOCK = 512
"""Scales whose factors are in memory at once."""


def pair_tail(distance: Floats, scale: Floats, other: Floats) -> Floats:
    """Return P(|S| > distance) of the sum of two Laplace numbers; a scale of 0 is no noise.

    Parameters
    ----------
    distance, scale, other : ndarray of float
        At least 0.

    Examples
    --------
    >>> pair_tail(np.array([0.0, 2.0]), np.array([1.0, 1.0]), np.array([1.0, 0.0])).round(4)
    array([1.    , 0.1353])
    """
    a, b = np.maximum(scale, other), np.minimum(scale, other)
    is_noisy, x = a > 0.0, np.asarray(distance, dtype=np.float64)
    a = np.where(is_noisy, a, 1.0)
    ratio, near = b / a, x / a
    equal = (1.0 + near / 2.0) * np.exp(-near)
    apart = 1.0 - ratio > _EQUAL
    # Powers of the ratio: squares of scales could overflow or vanish.
    safe = np.where(apart, ratio, 0.5)
    far = np.exp(-near / np.where(safe > 0.0, safe, 1.0)) * safe**2
    unequal = (np.exp(-near) - far) / (1.0 - safe**2)
    noisy = np.clip(np.where(apart, unequal, equal), 0.0, 1.0)
    return np.where(is_noisy, noisy, np.where(x > 0.0, 0.0, 1.0))


def pair_bound(scale: Floats, other: Floats) -> Floats:
    """Return the 95 percent bounds of sums of two Laplace numbers.

    Examples
    --------
    >>> pair_bound(np.array([1.0, 1.0]), np.array([0.0, 1.0])).round(3)
    array([2.996, 4.113])
    """
    low = np.zeros(np.broadcast(scale, other).shape)
    # The bound of a sum is at most the sum of the bounds.
    high = -math.log(MISS) * (scale + other)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        is_inside = pair_tail(middle, scale, other) > MISS
        low, high = np.where(is_inside, middle, low), np.where(is_inside, high, middle)
    return np.asarray(high)


def sum_bound(scales: Floats) -> float:
    """Return the 95 percent bound of a sum of Laplace numbers.

    Parameters
    ----------
    scales : ndarray of float, shape (n,)
        At least 0; those of 0 are no noise.

    Examples
    --------
    >>> round(sum_bound(np.ones(1)), 3), round(sum_bound(np.ones(100)) / 10, 3)
    (2.996, 2.775)
    """
    noisy = scales[scales > 0.0]
    if noisy.size <= 2:
        padded = np.concatenate([noisy, np.zeros(2 - noisy.size)])
        return float(pair_bound(padded[:1], padded[1:])[0])
    deviation = math.sqrt(2.0) * float(np.linalg.norm(noisy / noisy.max())) * float(noisy.max())
    nodes, heights = _transform(noisy / deviation)
    low, high = 0.0, -math.log(MISS)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        tail = 1.0 - float(np.sum(np.sin(middle * nodes) * heights))
        low, high = (middle, high) if tail > MISS - _ALLOWED else (low, middle)
    return high * deviation


def bounded_tail(distance: Floats, bound: Floats) -> Floats:
    """Return an upper bound on P(|S| > distance) from the 95 percent bound of S alone.

    Parameters
    ----------
    distance, bound : ndarray of float
        At least 0.
    """
    safe = np.where(bound > 0.0, bound, 1.0)
    beyond = np.where(distance < bound, 1.0, np.exp(math.log(MISS) * distance / safe))
    return np.where(bound > 0.0, beyond, np.where(distance > 0.0, 0.0, 1.0))


def _transform(scales: Floats) -> tuple[Floats, Floats]:
    """Return nodes, and the characteristic function there times the weights of the rule."""
    nodes = np.arange(STEP / 2.0, LAST, STEP)
    logarithm = np.zeros_like(nodes)
    for start in range(0, scales.size, _BLOCK):
        block = scales[start : start + _BLOCK, None]
        logarithm -= np.log1p((block * nodes) ** 2).sum(axis=0)
    return nodes, 2.0 / math.pi * STEP * np.exp(logarithm) / nodes
