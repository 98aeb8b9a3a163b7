"""Laws of the noise of a release: figures of noisy numbers, their errors and intervals.

Figures are of scale 1. Discrete noise of a scale of many quanta has the figures of the continuous
law, up to rounding. A unit's moves count in L1 under Laplace noise, in L2 under Gaussian noise: the
`power` of the law. What noise costs: accounting/promise.py, accounting/moves.py.

X and Y are independent noise of two numbers, of one scale. Gaussian tails are those of normal noise
one step nearer to zero, which are never smaller (the lemma of `gaussian_composition`). The Laplace
noise of n numbers together, at scale 1, is G - H with G and H of the gamma law of shape n,
so for t >= 0

    P(G - H > t) = exp(-t) Σ_{k<n} Σ_{i<=k} C(n+i-1, i) 2^-(n+i) t^(k-i) / (k-i)!

(P(G > x) of a gamma law with whole shape as a Poisson sum, and the moments of H exp(-H)). Noise is
discrete, at scales of 2^17 parts and more: this law is off by less than 1e-5.
Exactly, the sum Z of two discrete Laplace numbers of scale b has, with t = exp(-1/b) and T >= 0,

    P(Z >= T) = (1 - t) / (1 + t)² t^T (T + (1 + t²) / (1 - t²) + t / (1 - t)),

by sums over k of t^|k| t^|z-k|; the tests compare it with brute force. Its tail is heavier than
that of one number by a factor near T / 2b.
"""

import math
from bisect import bisect_left
from dataclasses import dataclass
from statistics import NormalDist
from typing import ClassVar, Literal, TypeAlias

import numpy as np

from hexveil.accounting.gaussian_composition import bisected
from hexveil.base.arrays import Floats
from hexveil.base.normal_law import ndtr

FAR = 700.0
"""Beyond it the tail is no normal double."""


@dataclass(frozen=True)
class _Law:
    """Noise of one scale: `Laplace` or `Gaussian`.

    Both state the norm in which moves count (`power`: 1 or 2) and, of noise of scale 1, the
    expected size of X and of X + Y (`mean_absolute`, `sum_absolute`), the size exceeded with
    probability 5 percent (`limit95`) and 2.5 percent (`paired_limit95`: where two noises must both
    stay within their limits, each may leave them half as often), and the expected |X² - variance|
    (`absolute_excess`).

    Attributes
    ----------
    scale : float
        b of Laplace noise, or the standard deviation.
    variance : float
        Of scale 1.
    """

    scale: float = 1.0
    variance: ClassVar[float]

    @property
    def number_deviation(self) -> float:
        """Standard deviation of X."""
        return math.sqrt(self.variance) * self.scale

    @property
    def sum_deviation(self) -> float:
        """Standard deviation of X + Y."""
        return math.sqrt(2.0 * self.variance) * self.scale


@dataclass(frozen=True)
class Laplace(_Law):
    """Discrete Laplace noise.

    Examples
    --------
    >>> round(Laplace(1000.0).sum_tail(0), 3), round(Laplace(1000.0).sum_tail(4000), 4)
    (0.5, 0.0275)
    >>> round(Laplace(1000.0).opening_threshold(24, 1.0) / 1000, 2)
    3.5
    >>> round(Laplace(1e6).quantile(0.025) / 1e6, 3)
    2.996
    """

    name: ClassVar[str] = "Laplace"
    power: ClassVar[Literal[1, 2]] = 1
    mean_absolute: ClassVar[float] = 1.0
    sum_absolute: ClassVar[float] = 1.5
    limit95: ClassVar[float] = math.log(20.0)
    variance: ClassVar[float] = 2.0
    paired_limit95: ClassVar[float] = math.log(40.0)
    absolute_excess: ClassVar[float] = (
        2.0 * math.exp(-math.sqrt(2.0)) * (2.0 + 2.0 * math.sqrt(2.0))
    )

    def opening_threshold(self, n_cells: int, false_openings: float) -> int:
        """Return the smallest sum that opens one of n empty cells, of so many expected.

        A cell is opened if its noisy A + B reaches T, with n P(X + Y >= T) at most the expected
        false openings: an empty cell has A + B = X + Y. Post-processing of released numbers and of
        the declared grid; true counts are never consulted.
        """
        every = range(2**62)
        return bisect_left(every, -false_openings, key=lambda t: -n_cells * self.sum_tail(t))

    def sum_tail(self, threshold: int) -> float:
        """Return P(X + Y >= threshold), exactly."""
        t = math.exp(-1.0 / self.scale)
        gap = -math.expm1(-1.0 / self.scale)  # 1 - t without cancellation
        series = threshold + (1.0 + t * t) / (gap * (1.0 + t)) + t / gap
        return gap / (1.0 + t) ** 2 * math.exp(-threshold / self.scale) * series

    def quantile(self, tail: float) -> int:
        """Return the smallest t >= 1 with P(X >= t) = exp(-t / b) / (1 + exp(-1 / b)) <= tail."""
        threshold = -self.scale * np.log(tail * (1.0 + np.exp(-1.0 / self.scale)))
        return max(int(np.ceil(threshold)), 1)

    def total_tails(self, n_terms: int, t: Floats) -> Floats:
        """Return P(Z > t b) of the sum Z of so many numbers.

        Examples
        --------
        >>> LAPLACE.total_tails(1, np.array([0.0, 1.0, -1.0])).round(3).tolist()
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

    def total_quantile(self, n_terms: int, tail: float) -> float:
        """Return the t >= 0 with P(Z > t b) = tail; 0 for a tail of one half and more.

        Examples
        --------
        >>> round(LAPLACE.total_quantile(1, 0.025), 3), round(LAPLACE.total_quantile(2, 0.025), 3)
        (2.996, 4.113)
        """

        def is_far(t: float) -> bool:
            return bool(self.total_tails(n_terms, np.array([t]))[0] <= tail)

        return bisected(0.0, FAR, is_far)[0]

    def mixture_tail(self, ratio: Floats, t: Floats) -> Floats:
        """Return P(|(1 - z) X - (1 + z) Y| > t b)."""
        # Near 0 both terms cancel: the limit is off by less than 1e-6 there.
        z = np.where(ratio < 1e-3, 0.5, ratio)
        a, c = np.maximum(1.0 - z, 1e-12), 1.0 + z
        apart = (c**2 * np.exp(-t / c) - a**2 * np.exp(-t / a)) / (c**2 - a**2)
        return np.where(ratio < 1e-3, (1.0 + t / 2.0) * np.exp(-t), apart)


@dataclass(frozen=True)
class Gaussian(_Law):
    """Discrete Gaussian noise; its scale is the standard deviation."""

    name: ClassVar[str] = "Gaussian"
    power: ClassVar[Literal[1, 2]] = 2
    mean_absolute: ClassVar[float] = math.sqrt(2.0 / math.pi)
    sum_absolute: ClassVar[float] = math.sqrt(2.0 / math.pi) * math.sqrt(2.0)
    limit95: ClassVar[float] = 1.95996398454006
    variance: ClassVar[float] = 1.0
    paired_limit95: ClassVar[float] = 2.24140272760496
    absolute_excess: ClassVar[float] = 4.0 / math.sqrt(2.0 * math.pi * math.e)

    def opening_threshold(self, n_cells: int, false_openings: float) -> int:
        """Return a T with n P(X + Y >= T) at most the expected false openings."""
        tail = min(false_openings / n_cells, 0.5)
        return max(math.ceil(-NormalDist(0.0, self.sum_deviation).inv_cdf(tail)), 0) + 2

    def quantile(self, tail: float) -> int:
        """Return a t >= 1 with P(X >= t) at most this."""
        return max(math.ceil(-NormalDist(0.0, self.scale).inv_cdf(tail)), 0) + 1

    def total_tails(self, n_terms: int, t: Floats) -> Floats:
        """Return P(Z > t r) of the sum Z of so many numbers, of normal noise."""
        return _normal_tails(t / math.sqrt(n_terms))

    def total_quantile(self, n_terms: int, tail: float) -> float:
        """Return the t >= 0 with P(Z > t r) = tail."""
        return max(-NormalDist(0.0, math.sqrt(n_terms)).inv_cdf(min(tail, 0.5)), 0.0)

    def mixture_tail(self, ratio: Floats, t: Floats) -> Floats:
        """Return P(|(1 - z) X - (1 + z) Y| > t r): a variance of (2 + 2 z²) r²."""
        return 2.0 * _normal_tails(t / np.sqrt(2.0 + 2.0 * ratio**2))


NoiseLaw: TypeAlias = Laplace | Gaussian
LAPLACE, GAUSSIAN = Laplace(), Gaussian()
"""Of scale 1."""


def law_at(delta: object) -> NoiseLaw:
    """Return the law of the noise of a promise with a δ, or without one."""
    return GAUSSIAN if delta else LAPLACE


def _normal_tails(t: Floats) -> Floats:
    return np.asarray(ndtr(-t))
