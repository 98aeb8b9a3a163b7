"""Laws of the noise of a map: discrete Laplace, or discrete Gaussian where a δ is promised.

A law decides three things together: the norm in which a unit's contribution is limited, the noise
that goes with it, and what is known about noisy numbers afterwards.

Neighbours: all records of one privacy unit are added or removed.
Sensitivity: of a contribution worth k full weights of P = 2^20 parts, k P in L1 under Laplace
noise, √k P in L2 under Gaussian noise. A unit in many cells thereby has more weight in all under
Gaussian noise: in k cells alike 1/√k in each, not 1/k (`contribution`, `count_map`).
Loss: k P / b, purely; or k P² / r² as a square of μ, r the parameter of the Gaussian noise.
Source: `accounting.gaussian_composition`.

In what is public, X and Y are independent noise of two numbers. Gaussian tails are those of normal
noise one step nearer to zero, which are never smaller (the lemma of `accounting.gaussian_loss`).
The noise of a cell's n bins together, at scale 1, is G - H with G and H of the gamma law of shape
n, so for t >= 0

    P(G - H > t) = exp(-t) Σ_{k<n} Σ_{i<=k} C(n+i-1, i) 2^-(n+i) t^(k-i) / (k-i)!

(P(G > x) of a gamma law with whole shape as a Poisson sum, and the moments of H exp(-H)). Noise is
discrete, at scales of 2^17 parts and more: this law is off by less than 1e-5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from hexveil.mechanisms.contract import GaussianNoise, LaplaceNoise
from hexveil.mechanisms.presence.any_unit import JointDistance, JointSensitivity
from hexveil.mechanisms.presence.cell_opening import opening_threshold, sum_tail
from hexveil.mechanisms.presence.contribution import L1, L2, PARTS, Norm

if TYPE_CHECKING:
    from hexveil.base.arrays import Floats, Ints
    from hexveil.mechanisms.contract import NoiseRequest, SensitivityReport


MEAN_ABS_NORMAL = math.sqrt(2.0 / math.pi)
LAPLACE_SUM_ERROR = 1.5
"""E|X + Y| of two independent Laplace numbers of scale 1."""


@dataclass(frozen=True)
class LaplaceMapNoise:
    """Discrete Laplace noise of one scale on all numbers of a map.

    Attributes
    ----------
    scale : float
        b, in parts.
    """

    scale: float

    def request(self, entries: int) -> NoiseRequest:
        """Return the noise of so many numbers."""
        return LaplaceNoise(np.full(entries, self.scale))

    def report(self, weights: int = 1) -> SensitivityReport:
        """Return that any unit contributes at most so many full weights, in L1."""
        return JointSensitivity(weights * PARTS)

    @property
    def norm(self) -> Norm:
        """Size of a unit's priced records: their sum."""
        return L1

    def count_weights(self, cell_cap: int, visited: Ints) -> Ints:
        """Return a unit's weight in each of so many cells: floor(P min(1, k / K)). PRIVATE."""
        return np.asarray(PARTS * cell_cap // np.maximum(visited, cell_cap))

    @property
    def number_error(self) -> float:
        """E|X|, in parts."""
        return self.scale

    @property
    def number_deviation(self) -> float:
        """Standard deviation of X, in parts."""
        return math.sqrt(2.0) * self.scale

    @property
    def sum_error(self) -> float:
        """E|X + Y|, in parts."""
        return LAPLACE_SUM_ERROR * self.scale

    @property
    def sum_deviation(self) -> float:
        """Standard deviation of X + Y, in parts."""
        return 2.0 * self.scale

    def opening_threshold(self, n_cells: int, false_openings: float) -> int:
        """Return the smallest T with n P(X + Y >= T) at most the expected false openings."""
        return opening_threshold(n_cells, self.scale, false_openings)

    def sum_tail(self, threshold: int) -> float:
        """Return P(X + Y >= threshold), for a threshold of at least 0."""
        return sum_tail(threshold, self.scale)

    def quantile(self, tail: float) -> int:
        """Return the smallest t >= 1 with P(X >= t) at most this."""
        return laplace_quantile(tail, self.scale)

    def total_tails(self, n_terms: int, t: Floats) -> Floats:
        """Return P(Z > t b) of the sum Z of so many numbers; the law is symmetric."""
        return laplace_sum_tail(n_terms, t)

    def total_quantile(self, n_terms: int, tail: float) -> float:
        """Return the t >= 0 with P(Z > t b) = tail; 0 for a tail of one half and more."""
        return laplace_sum_quantile(n_terms, tail)

    def mixture_tail(self, ratio: Floats, t: Floats) -> Floats:
        """Return P(|(1 - z) X - (1 + z) Y| > t b)."""
        # Near 0 both terms cancel: the limit is off by less than 1e-6 there.
        z = np.where(ratio < 1e-3, 0.5, ratio)
        a, c = np.maximum(1.0 - z, 1e-12), 1.0 + z
        apart = (c**2 * np.exp(-t / c) - a**2 * np.exp(-t / a)) / (c**2 - a**2)
        return np.where(ratio < 1e-3, (1.0 + t / 2.0) * np.exp(-t), apart)


@dataclass(frozen=True)
class GaussianMapNoise:
    """Discrete Gaussian noise of one parameter on all numbers of a map.

    Attributes
    ----------
    scale : float
        r, in parts: the standard deviation.
    """

    scale: float

    def request(self, entries: int) -> NoiseRequest:
        """Return the noise of so many numbers."""
        return GaussianNoise(np.full(entries, self.scale))

    def report(self, weights: int = 1) -> SensitivityReport:
        """Return that any unit contributes at most so many full weights, in squares."""
        return JointDistance(weights * PARTS**2)

    @property
    def norm(self) -> Norm:
        """Size of a unit's priced records: the root of the sum of squares."""
        return L2

    def count_weights(self, cell_cap: int, visited: Ints) -> Ints:
        """Return a unit's weight in each of K cells: w = floor(P min(1, √(k/K))). PRIVATE.

        K w² <= k P². Roots of whole numbers below 2^52 are exact enough for their floor.
        """
        squares = PARTS**2 * cell_cap // np.maximum(visited, cell_cap)
        return np.floor(np.sqrt(squares.astype(np.float64))).astype(np.int64)

    @property
    def number_error(self) -> float:
        """E|X|, in parts."""
        return MEAN_ABS_NORMAL * self.scale

    @property
    def number_deviation(self) -> float:
        """Standard deviation of X, in parts."""
        return self.scale

    @property
    def sum_error(self) -> float:
        """E|X + Y|, in parts."""
        return MEAN_ABS_NORMAL * self.sum_deviation

    @property
    def sum_deviation(self) -> float:
        """Standard deviation of X + Y, in parts."""
        return math.sqrt(2.0) * self.scale

    def opening_threshold(self, n_cells: int, false_openings: float) -> int:
        """Return a T with n P(X + Y >= T) at most the expected false openings."""
        tail = min(false_openings / n_cells, 0.5)
        return max(math.ceil(-NormalDist(0.0, self.sum_deviation).inv_cdf(tail)), 0) + 2

    def sum_tail(self, threshold: int) -> float:
        """Return P(X + Y >= threshold), of normal noise."""
        return 0.5 * math.erfc(threshold / self.sum_deviation / math.sqrt(2.0))

    def quantile(self, tail: float) -> int:
        """Return a t >= 1 with P(X >= t) at most this."""
        return max(math.ceil(-NormalDist(0.0, self.scale).inv_cdf(tail)), 0) + 1

    def total_tails(self, n_terms: int, t: Floats) -> Floats:
        """Return P(Z > t r) of the sum Z of so many numbers, of normal noise."""
        return _normal_tails(t / math.sqrt(n_terms))

    def total_quantile(self, n_terms: int, tail: float) -> float:
        """Return the t >= 0 with P(Z > t r) = tail; 0 for a tail of one half and more."""
        return max(-NormalDist(0.0, math.sqrt(n_terms)).inv_cdf(min(tail, 0.5)), 0.0)

    def mixture_tail(self, ratio: Floats, t: Floats) -> Floats:
        """Return P(|(1 - z) X - (1 + z) Y| > t r): a variance of (2 + 2 z²) r²."""
        return 2.0 * _normal_tails(t / np.sqrt(2.0 + 2.0 * ratio**2))


MapNoise: TypeAlias = LaplaceMapNoise | GaussianMapNoise
UNIT_LAPLACE = LaplaceMapNoise(1.0)


def laplace_quantile(tail: float, scale: float) -> int:
    """Return the smallest t >= 1 with P(X >= t) <= tail, X discrete Laplace of this scale.

    P(X >= t) = exp(-t / b) / (1 + exp(-1 / b)) for t >= 1.

    Examples
    --------
    >>> round(laplace_quantile(0.025, 1e6) / 1e6, 3)
    2.996
    """
    threshold = -scale * np.log(tail * (1.0 + np.exp(-1.0 / scale)))
    return max(int(np.ceil(threshold)), 1)


def _normal_tails(t: Floats) -> Floats:
    from scipy.special import ndtr  # noqa: PLC0415  importing hexveil must stay light

    return np.asarray(ndtr(-t))


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
