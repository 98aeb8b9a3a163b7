"""Law of the sum of n independent Laplace numbers of scale 1: the noise of a cell's bins together.

The sum is G - H with G and H of the gamma law of shape n, so for t >= 0

    P(G - H > t) = exp(-t) Σ_{k<n} Σ_{i<=k} C(n+i-1, i) 2^-(n+i) t^(k-i) / (k-i)!

Noise is discrete, at scales of 2^17 parts and more: this law is off by less than 1e-5.
Post-processing of released numbers and of the declared grid: it costs no privacy.
Source: P(G > x) of a gamma law with whole shape as a Poisson sum, and the moments of H exp(-H).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from hexveil.base.arrays import Floats

FAR = 700.0
"""Beyond it the tail is no normal double."""
HALVINGS = 60


def laplace_sum_tail(n_terms: int, t: Floats) -> Floats:
    """Return P(Z > t) of the sum Z of n Laplace numbers of scale 1.

    Examples
    --------
    >>> laplace_sum_tail(1, np.array([0.0, 1.0, -1.0])).round(3).tolist()
    [0.5, 0.184, 0.816]
    """
    size = np.minimum(np.abs(t), FAR)
    coefficients = np.zeros(n_terms)
    for k in range(n_terms):
        for i in range(k + 1):
            of_moment = math.comb(n_terms + i - 1, i) * 2.0 ** -(n_terms + i)
            coefficients[k - i] += of_moment / math.factorial(k - i)
    tail = np.exp(-size) * np.polynomial.polynomial.polyval(size, coefficients)
    return np.asarray(np.where(t >= 0.0, tail, 1.0 - tail))


def laplace_sum_quantile(n_terms: int, tail: float) -> float:
    """Return the t >= 0 with P(Z > t) = tail; 0 for a tail of one half and more.

    Examples
    --------
    >>> round(laplace_sum_quantile(1, 0.025), 3), round(laplace_sum_quantile(2, 0.025), 3)
    (2.996, 4.113)
    """
    low, high = 0.0, FAR
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        is_above = laplace_sum_tail(n_terms, np.array([middle]))[0] > tail
        low, high = (middle, high) if is_above else (low, middle)
    return low
