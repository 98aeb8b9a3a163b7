"""Contribution of one privacy unit to all cells of a map, in whole numbers.

From a unit's own records and released numbers alone, with P = 2^20 parts:

    x_c = min(n_c, N) p_c                 priced records in cell c; N, p_c <= 2^20
    w_c = floor(P x_c / ‖x‖)              weight
    v_c = position of the mean, or mean score, in [0, P], y_c = clip(v_c, l_c, h_c) - l_c
    A_c = floor((2 w_c y_c + h_c - l_c) / 2 (h_c - l_c)),   B_c = w_c - A_c

n_c counts the unit's records in the cell. ‖x‖ is the sum of x under Laplace noise, and the root of
the sum of squares under Gaussian noise. Prices p_c and the ends l_c < h_c of each cell's range are
whole numbers that were declared or released. A + B adds up to the weight of the units in a cell,
and l + (h - l) A / (A + B) is the mean of their clipped positions.

Neighbours: all records of one privacy unit are added or removed.
Sensitivity: w_c >= 0 and Σ_c w_c <= P Σ_c x_c / Σ_c x_c = P. As 0 <= y_c <= h_c - l_c, A_c rises
with y_c from floor(1 / 2) = 0 to floor(w_c + 1 / 2) = w_c, so A_c and B_c are not negative and add
up to w_c, whatever range each cell has. Other units' numbers do not change.
So a unit moves (A, B) over all cells together by
an L1 distance of Σ_c w_c <= P. Nothing else about the records is used: the bound holds for any
counts, any values and any number of cells.
With the root of squares, Σ_c w_c² <= P² Σ_c x_c² / ‖x‖² <= P², and A_c² + B_c² <= (A_c + B_c)² =
w_c²: a unit moves (A, B) over all cells together by an L2 distance of at most P.
Loss: P / b with discrete Laplace noise of scale b on every A_c and B_c; or P² / r² as a square of μ
with discrete Gaussian noise of parameter r.
Source: weights as in user-level bounds on contributions (Amin, Kulesza, Munoz and Vassilvitskii,
2019), sums of both signs in place of a count and a sum; the proof is above.

The stages that release a map (`weight_map`) have these sums: every cell of the declared grid gets
noise, whether records lie in it or not. Prices, centres and ranges were released before, so stages
compose adaptively: their losses add up (`mechanisms.contract`).

**Votes** for where values lie. A unit votes with its positions relative
to public centres: evenly over its pairs, or by its weights at public prices.
Sensitivity: the votes of a unit add up to at most P: floor(P / K) for each of K pairs, or weights
limited by their sum. They follow from its own records alone.
Loss: that of the histogram (`looks.pooled_means`).

**Centres and prices** of a fine map (`refine_map`) follow from the noisy coarse map: with W and
D the noisy A + B and A - B of a cell, in units, and s the standard deviation of the noise of
either, estimates are m + r q with m and r the middle and half the width of the range, q = D /
max(W, s) within [-1, 1], of variance r² s² (1 + q²) / max(W, s)². Centres are these estimates,
shrunk towards their common mean by the variance between cells (Paule and Mandel, 1982); cells
without an estimate have the median of the fleet. Prices fall as 1 / max(W, floor), so that noise
relative to weight is alike in all open cells; closed cells have price 0. All of it is stored in the
row of the coarse map, since late digits of doubles differ between processors.

Nothing overflows 64 bits: x_c <= 2^40, P x_c <= 2^60, Σ_c x_c <= 2^62 on a grid of at most 2^22
cells, 2 w_c y_c <= 2^41. Sums over fewer than 2^32 units are exact in doubles; no machine holds
the records of more.
"""

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from hexveil.accounting.noise_law import NoiseLaw
from hexveil.accounting.promise import PARTS
from hexveil.base.arrays import Floats, Ints
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.mechanisms.contract import NoisyTotals
from hexveil.mechanisms.presence import L1, Norm, any_unit_stage, norm_of
from hexveil.model.private_pairs import PrivatePairs

MAX_PRICE = 2**20
"""Largest price of a cell."""


def positions(pairs: PrivatePairs, span_quanta: int, scores: Ints | None = None) -> Ints:
    """Return the means of pairs, or mean scores, in parts of the span: 0 to `PARTS`. PRIVATE.

    Three rounded operations per pair: the same integers on every processor.
    """
    means = pairs.mean if scores is None else pairs.mean_scores(scores)
    scaled = np.floor(means / span_quanta * PARTS)
    return np.clip(scaled, 0, PARTS).astype(np.int64)


def unit_weights(pairs: PrivatePairs, prices: Ints, norm: Norm = L1) -> Ints:
    """Return the weight w of each pair, within `PARTS` in the norm for each unit. PRIVATE.

    Parameters
    ----------
    prices : ndarray of int64, shape (n_cells,)
        From 0, of closed cells, to `MAX_PRICE`. Public.
    norm : Norm, optional
        Default their sum.
    """
    return norm.weights(pairs, pairs.records * prices[pairs.cell])


def split_weights(weights: Ints, above: Ints, width: Ints) -> tuple[Ints, Ints]:
    """Return the halves A and B of weights, by positions above the low ends of ranges. PRIVATE.

    Examples
    --------
    >>> upper, lower = split_weights(np.full(3, 9), np.array([-3, 4, 6]), np.full(3, 8))
    >>> upper.tolist(), lower.tolist()
    ([0, 5, 7], [9, 4, 2])
    """
    clipped = np.clip(above, 0, width)
    upper = (2 * weights * clipped + width) // (2 * width)
    return np.asarray(upper), np.asarray(weights - upper)


@dataclass(frozen=True, eq=False)
class CellWindow(ReadOnlyArrays):
    """Public parameters of a map: prices and ranges, all whole numbers.

    Attributes
    ----------
    prices : ndarray of int64, shape (n_cells,)
        p, 0 where a cell is closed.
    low, high : ndarray of int64, shape (n_cells,)
        l < h, the clipping range of each cell, from 0 to `PARTS`.
    """

    prices: Ints
    low: Ints
    high: Ints

    @property
    def middle(self) -> Floats:
        """Middle of each range, in parts."""
        return np.asarray((self.low + self.high) / 2.0)

    @property
    def radius(self) -> Floats:
        """Half the width of each range, in parts."""
        return np.asarray((self.high - self.low) / 2.0)

    def halves(
        self, pairs: PrivatePairs, span_quanta: int, norm: Norm = L1, scores: Ints | None = None
    ) -> Ints:
        """Return ΣA of each cell, then ΣB of each cell, shape (2 n_cells,). PRIVATE."""
        weights = unit_weights(pairs, self.prices, norm)
        above = positions(pairs, span_quanta, scores) - self.low[pairs.cell]
        halves = split_weights(weights, above, (self.high - self.low)[pairs.cell])
        # Exact: every partial sum is a whole number below 2^53.
        totals = [np.bincount(pairs.cell, half, self.prices.size) for half in halves]
        return np.concatenate(totals).astype(np.int64)

    def decode(self, noisy: Ints) -> tuple[Floats, Floats]:
        """Return the noisy A + B and A - B of each cell, in units: post-processing.

        Parameters
        ----------
        noisy : ndarray of int64, shape (..., 2 n_cells)
        """
        upper, lower = np.split(noisy / PARTS, 2, axis=-1)
        return upper + lower, upper - lower


def weight_map(
    name: str, window: CellWindow, span_quanta: int, law: NoiseLaw, scores: Ints | None = None
) -> NoisyTotals:
    """Return the stage of A of each cell, then B of each cell: of values, or of public scores."""
    halves = partial(window.halves, span_quanta=span_quanta, norm=norm_of(law), scores=scores)
    return any_unit_stage(name, 2 * window.prices.size, law, halves)


# ---- votes ----


def value_votes(
    name: str, span_quanta: int, edges: Ints, law: NoiseLaw, around: tuple[Ints, Ints] | None = None
) -> NoisyTotals:
    """Return the stage of votes for where units' means lie, in parts of the span.

    Votes are even; or, `around` centres of cells, at prices by which a unit votes as it weighs.
    """
    votes = partial(_votes, span_quanta=span_quanta, edges=edges, around=around)
    return any_unit_stage(name, edges.size + 1, law, votes)


def _votes(
    pairs: PrivatePairs, *, span_quanta: int, edges: Ints, around: tuple[Ints, Ints] | None
) -> Ints:
    """Return the votes of some units by place. PRIVATE."""
    values, votes = positions(pairs, span_quanta), _even_votes(pairs)
    if around is not None:
        centres, prices = around
        values, votes = values - centres[pairs.cell], unit_weights(pairs, prices)
    # Exact: every partial sum is a whole number below 2^53.
    places = np.searchsorted(edges, values)
    return np.bincount(places, votes, edges.size + 1).astype(np.int64)


def _even_votes(pairs: PrivatePairs) -> Ints:
    """Return each unit's votes, spread evenly over its pairs. PRIVATE."""
    return np.asarray(PARTS // pairs.of_unit(pairs.per_unit(np.ones_like(pairs.cell))))


# ---- from a coarse map to prices and centres ----

MAX_SHRINKAGE_STEPS = 60
MIN_CELLS = 3
"""Open cells below which their estimates are not compared: all get the median."""


def refine_map(
    window: CellWindow, noisy: Ints, deviation: float, threshold: int | None, median: int
) -> Ints:
    """Return centre, then price of each cell of the fine map, shape (2 n_cells,).

    Parameters
    ----------
    window : CellWindow
        Of the coarse map.
    noisy : ndarray of int64, shape (2 n_cells,)
    deviation : float
        s, in parts.
    threshold : int or None
        Noisy weight, in parts, from which a cell is open; None opens every cell.
    median : int
        Of the fleet's values, in parts.
    """
    weight, difference = window.decode(noisy)
    is_open = weight * PARTS >= (-np.inf if threshold is None else threshold)
    centres, sd = np.full(weight.size, float(median)), deviation / PARTS
    if is_open.sum() >= MIN_CELLS:
        sure = np.maximum(weight, sd)
        ratio = np.clip(difference / sure, -1.0, 1.0)
        variance = (1.0 + ratio**2) * (window.radius * sd / sure) ** 2
        estimates = window.middle + window.radius * ratio
        centres[is_open] = shrink_to_mean(estimates[is_open], variance[is_open])
    whole = np.rint(np.clip(centres, 0, PARTS)).astype(np.int64)
    return np.concatenate([whole, prices_of_weights(weight, is_open)])


def prices_of_weights(weight: Floats, is_open: NDArray[np.bool_]) -> Ints:
    """Return MAX_PRICE for the smallest open weight, less for larger ones, 0 for closed cells."""
    prices = np.zeros(weight.size, dtype=np.int64)
    if is_open.any():
        middle = max(float(np.median(weight[is_open])), 0.0)
        # Below the root of a typical weight, a noisy weight says that it is small, not how small.
        raised = np.maximum(weight[is_open], math.sqrt(middle + 1.0))
        prices[is_open] = np.maximum(np.rint(MAX_PRICE * raised.min() / raised), 1.0)
    return prices


def shrink_to_mean(estimates: Floats, variances: Floats) -> Floats:
    """Return estimates shrunk towards their mean, by the Paule-Mandel variance between them.

    Examples
    --------
    >>> shrink_to_mean(np.array([0.0, 10.0, 20.0]), np.full(3, 1e9)).round(6).tolist()
    [10.0, 10.0, 10.0]
    >>> shrink_to_mean(np.array([0.0, 10.0, 20.0]), np.full(3, 1e-9)).round(6).tolist()
    [0.0, 10.0, 20.0]
    """
    between = variance_between(estimates, variances)
    precision = 1.0 / (variances + between)
    mean = float((precision * estimates).sum() / precision.sum())
    return np.asarray(mean + between / (between + variances) * (estimates - mean))


def variance_between(estimates: Floats, variances: Floats) -> float:
    """Return the variance between true values that explains the spread of noisy estimates.

    It solves Σ (y - mean)² / (v + x) = n - 1 for x, with means of weights 1 / (v + x); 0 if noise
    alone explains more.
    """

    def excess(between: float) -> float:
        precision = 1.0 / (variances + between)
        mean = (precision * estimates).sum() / precision.sum()
        return float((precision * (estimates - mean) ** 2).sum()) - (estimates.size - 1)

    if excess(0.0) <= 0.0:
        return 0.0
    # At this variance every term is below (n - 1) / n².
    low, high = 0.0, float(np.ptp(estimates)) ** 2 * estimates.size + 1.0
    for _ in range(MAX_SHRINKAGE_STEPS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if excess(middle) > 0.0 else (low, middle)
    return (low + high) / 2.0
