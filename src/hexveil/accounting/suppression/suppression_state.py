"""State of CLIP-USER: the error of a cell, and the remaining counts.

Source: COMP eq. (12), (13), Proposition III.1, Lemma III.3, Theorems IV.1 and IV.2 (ERRATA 1).
Neighbours: one user's values all change within the bounds; users and counts are public.
Symbols of one cell: N all samples, n contributed samples, t the largest contribution of a user, m
the count of the user that may be suppressed next, U the width of the bounds, ε the cell's loss for
mean and variance together, half of it for each.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hexveil.accounting.sensitivity import variance_share

if TYPE_CHECKING:
    from hexveil.accounting.suppression.heavy_users import SuppressionCounts
    from hexveil.base.arrays import Floats, Ints


@dataclass(frozen=True)
class CellError:
    """Error of one cell: bias and noise of mean and variance, added up or the larger of the two.

    Attributes
    ----------
    mean, mean_noise : float
        U and 2 U/ε, each divided by the mean's target if there is one.
    variance, variance_noise : float
        U² and 2 U²/ε, each divided by the variance's target if there is one.
    summed : bool
        COMP's sum, not the larger.
    """

    mean: float
    mean_noise: float
    variance: float
    variance_noise: float
    summed: bool

    @classmethod
    def of(cls, span: float, epsilon: float, targets: tuple[float, float] | None) -> CellError:
        """Return the measure in km/h + (km/h)², or in shares of the two targets."""
        mean_target, variance_target = targets or (1.0, 1.0)
        # Where every cell has one record the variance is 0 without error, and so is its target.
        mean, variance = (
            span / mean_target,
            span * span / variance_target if variance_target else 0.0,
        )
        return cls(mean, 2 * mean / epsilon, variance, 2 * variance / epsilon, targets is None)

    def parts(self, n: Ints, t: Ints, total: Ints) -> tuple[Floats, Floats]:
        """Return the errors of mean and variance, one per (n, t, N)."""
        size = total.astype(np.float64)
        n_moved = np.where(total < 2 * n, n, total // 2)
        mean = self.mean * ((total - n) / size) + self.mean_noise * (t / n)
        bias = self.variance * (n_moved / size * ((total - n_moved) / size))
        return mean, np.asarray(bias + self.variance_noise * variance_share(t, n), dtype=float)

    def errors(self, n: Ints, t: Ints, total: Ints) -> Floats:
        """Return the error by which cells are compared, one per (n, t, N)."""
        mean, variance = self.parts(n, t, total)
        return mean + variance if self.summed else np.maximum(mean, variance)

    def biases(self, n: int, total: int) -> tuple[float, float]:
        """Return the biases of mean and variance of one cell."""
        n_moved = n if total < 2 * n else total >> 1
        return (
            self.mean * (total - n) / total,
            self.variance * (n_moved * (total - n_moved)) / (total * total),
        )

    def noises(self, n: int, t: int) -> tuple[float, float]:
        """Return the expected |noise| of mean and variance of one cell."""
        majority = t if 2 * t < n else n >> 1
        return self.mean_noise * t / n, self.variance_noise * (majority * (n - majority)) / (n * n)

    def error(self, n: int, t: int, total: int) -> float:
        """Return the error by which cells are compared, of one cell: `biases` plus `noises`."""
        n_moved = n if total < 2 * n else total >> 1
        majority = t if 2 * t < n else n >> 1
        mean = self.mean * (total - n) / total + self.mean_noise * t / n
        bias = self.variance * (n_moved * (total - n_moved)) / (total * total)
        variance = bias + self.variance_noise * (majority * (n - majority)) / (n * n)
        return mean + variance if self.summed else max(mean, variance)

    def line(
        self, n: int, t: int, second_largest: int, total: int
    ) -> tuple[float, float, int, float]:
        """Return base and slope of a line in m below the error without a user of m < t; t; peak.

        The line holds for m up to the second largest count; the peak is the error without a user
        of count t. The mean's bias is linear in m, the variance's is concave and so above its
        chord. The mean's noise is convex and so above its tangent, the variance's above it up to
        m = n - 3t; beyond, it is at least what it is now, or that of t samples of which all move.
        """
        if not second_largest:
            return math.inf, 0.0, t, math.inf  # a cell keeps its last user
        (mean, variance), (later, rising) = (
            self.biases(n, total),
            self.biases(n - second_largest, total),
        )
        noise, spread = self.noises(n, t)
        slope, rise = (
            (later - mean) / second_largest + noise / n,
            (rising - variance) / second_largest,
        )
        if n - second_largest >= 3 * t:
            rise += spread * (n - 2 * t) / (n - t) / n
        else:
            spread = min(spread, self.variance_noise * (t * t - 1) / (4 * t * t))
        base, variance = mean + noise, variance + spread
        if self.summed:
            base, slope = base + variance, slope + rise
        elif variance > base:
            base, slope = variance, rise
        return base, slope, t, self.error(n - t, second_largest, total)


class RemainingCounts:
    """Remaining counts of each cell: records and the two largest users.

    The two largest are pointers into the cell's counts, sorted once; they only move on, so that
    all suppressions together cost no more than the pairs there are.
    """

    def __init__(self, occupancy: SuppressionCounts) -> None:
        order = np.lexsort((-occupancy.n, occupancy.cell))
        place = np.empty(order.size, dtype=np.int64)
        place[order] = np.arange(order.size)
        self._place: list[int] = place.tolist()
        self._counts: list[int] = [*occupancy.n[order].tolist(), 0]
        self._gone = bytearray(order.size)
        self._end: list[int] = occupancy.start[1:].tolist()
        self._first: list[int] = occupancy.start[:-1].tolist()
        self._next = [largest + 1 for largest in self._first]
        self.total: list[int] = occupancy.records_per_cell.tolist()
        self.left = list(self.total)
        self.top = [self._counts[i] for i in self._first]
        self.second = [
            self._counts[i] if i < end else 0 for i, end in zip(self._next, self._end, strict=True)
        ]

    def suppress(self, cell: int, count: int, pair: int) -> None:
        """Take a user's samples out of a cell."""
        self.left[cell] -= count
        self._gone[self._place[pair]] = 1
        if count >= self.second[cell]:
            self._advance(cell)

    def _advance(self, cell: int) -> None:
        gone, end = self._gone, self._end[cell]
        largest = self._first[cell]
        while largest < end and gone[largest]:
            largest += 1
        following = max(self._next[cell], largest + 1)
        while following < end and gone[following]:
            following += 1
        self._first[cell], self._next[cell] = largest, following
        self.top[cell] = self._counts[largest] if largest < end else 0
        self.second[cell] = self._counts[following] if following < end else 0
