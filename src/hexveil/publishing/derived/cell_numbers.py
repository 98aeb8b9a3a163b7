"""Released numbers of cells with the parts of their error, for averages and differences.

The error of a number is noise plus bias. Noise is drawn for each cell, so it averages out and adds
as independent numbers do. Bias (clipping, weights, private ranges) is no draw, and cells can share
it: it adds up linearly. Three kinds of parts:

- Within public bounds: noise of the released scale, bias up to the released bound. Proven,
  whatever the values.
- Under a private range, for a difference: the interval of the released posterior, all of it as if
  it were noise. By a model.
- Under a private range, for an average: noise of the released scale. The bias is the
  predicted effect of weights and clipping, `error - scale`, the mean absolute value of a normal
  number of which it takes the 95 percent bound, as if all cells had it in common. Posterior
  estimates are not averaged: each is shrunk towards the map's centre, and an average of them would
  lose what the averaged cells have in common. Where a range cuts a cell off, the bias extends to
  the posterior's estimate and the 95 percent bound of its expected error, at most to the end of the
  cell's interval; without a posterior, to that end. By a model.

Noise is Laplace, or under a δ Gaussian: then 95 percent bounds of independent numbers add up as the
root of the sum of their squares, exactly.

An average over cells weighs each by its records r_c, public in the model "values", with R their
sum: Σ r_c y_c / R from noisy numbers y_c = m_c + noise_c + bias_c is off by Σ r_c noise_c / R, a
sum of independent numbers whose bound is exact (sum_bound), and by Σ r_c bias_c / R, at most
Σ r_c |bias_c| / R, which does not average out. The interval adds both, so it covers the average of
the records with probability at least 95 percent where both parts are proven. Noise that cells share
adds up linearly: its bounds are averaged.

Cells of maps with private presence (open_cells.py), and averages, have the same type.

Tails and quantiles of sums of independent Laplace numbers.

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
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

import numpy as np

from hexveil.base.arrays import Floats, Ints
from hexveil.base.read_only import ReadOnlyArrays

Basis = Literal["proven", "model"]


@dataclass(frozen=True, eq=False)
class CellNumbers(ReadOnlyArrays):
    """Numbers of cells: the true one is from number - low parts to number + high parts.

    Attributes
    ----------
    number : ndarray of float, shape (n_cells,)
        Not clamped to the bounds, in the statistic's units.
    noise_low, noise_high : ndarray of float, shape (n_cells,)
        95 percent bounds of the noise, below and above.
    bias_low, bias_high : ndarray of float, shape (n_cells,)
        Largest bias, below and above.
    scale : ndarray of float, shape (n_cells,)
        Scale of the noise where it is one Laplace number; NaN elsewhere.
    basis : "proven" or "model"
    is_gaussian : bool
        Whether all noise is Gaussian.
    empty : ndarray of float, shape (n_cells,), or float
        Chance that noise alone opened a cell of a map; 0 elsewhere.
    """

    number: Floats
    noise_low: Floats
    noise_high: Floats
    bias_low: Floats
    bias_high: Floats
    scale: Floats
    basis: Basis
    is_gaussian: bool = False
    empty: Floats | float = 0.0

    @classmethod
    def of_interval(cls, number: Floats, low: Floats, high: Floats) -> CellNumbers:
        """Return numbers with intervals that hold by a model; their width counts as noise."""
        zero, unknown = np.zeros_like(number), np.full_like(number, np.nan)
        below, above = np.maximum(number - low, 0.0), np.maximum(high - number, 0.0)
        return cls(number, below, above, zero, zero, unknown, "model")

    @property
    def low(self) -> Floats:
        """Lower ends of the intervals."""
        return self.number - self.noise_low - self.bias_low

    @property
    def high(self) -> Floats:
        """Upper ends of the intervals."""
        return self.number + self.noise_high + self.bias_high


def average_cells(numbers: CellNumbers, records: Floats, group: Ints) -> CellNumbers:
    """Return the record-weighted average of each group of cells; see the module.

    Parameters
    ----------
    numbers : CellNumbers
    records : ndarray of float, shape (n_cells,)
        Above 0.
    group : ndarray of int64, shape (n_cells,)
        Group of each cell, from 0 to n_groups - 1; each has a cell.
    """
    return add_cells(numbers, group, records / np.bincount(group, records)[group])


def add_cells(numbers: CellNumbers, group: Ints, weight: Floats | float = 1.0) -> CellNumbers:
    """Return the weighted sum of each group of cells: noise is drawn for each, bias is shared.

    Where scales are not known, bounds are joined as the root of their squared sum: that is exact
    for Gaussian noise, and never below the bound of the sum where tails get lighter.
    """
    weights, counts = np.broadcast_to(weight, group.shape), np.bincount(group)

    def added(column: Floats) -> Floats:
        return np.asarray(np.bincount(group, weights * column), dtype=np.float64)

    noise = [
        np.sqrt(np.bincount(group, (weights * side) ** 2))
        for side in (numbers.noise_low, numbers.noise_high)
    ]
    if np.isfinite(numbers.scale).all():
        scales = (weights * numbers.scale)[np.argsort(group, kind="stable")]
        # Groups of equal scales have one bound.
        bound = cache(lambda piece: sum_bound(np.frombuffer(piece)))
        pieces = np.split(scales, np.cumsum(counts)[:-1])
        noise = [np.array([bound(piece.tobytes()) for piece in pieces])] * 2
    return replace(
        numbers,
        number=added(numbers.number),
        noise_low=noise[0],
        noise_high=noise[1],
        bias_low=added(numbers.bias_low),
        bias_high=added(numbers.bias_high),
        # A lone cell keeps its one Laplace number.
        scale=np.where(counts == 1, added(numbers.scale), np.nan),
        empty=0.0,
    )


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
    ratio, distance_ratio = b / a, x / a
    equal = (1.0 + distance_ratio / 2.0) * np.exp(-distance_ratio)
    is_unequal = 1.0 - ratio > _EQUAL
    # Powers of the ratio: squares of scales could overflow or vanish.
    safe = np.where(is_unequal, ratio, 0.5)
    far = np.exp(-distance_ratio / np.where(safe > 0.0, safe, 1.0)) * safe**2
    unequal = (np.exp(-distance_ratio) - far) / (1.0 - safe**2)
    noisy = np.clip(np.where(is_unequal, unequal, equal), 0.0, 1.0)
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
