"""The range of every first look, and the law of user means within it: from the pooled law. Public.

The usual range reaches some deviations either way of the median, by quantiles of the law. A wider
one is taken where it promises a tenth less error. Of a cell with noise b for a range of width 1 and
weights w, the squared error in a range from a to z is about

    2 (b (z - a) / P)² + Σw² s E² + (s C)² + (s e)²

with P the part of user means within the range, which shows how far noise is stretched when clipping
is undone; E² the second moment of what is cut off; C its mean beyond what a normal law puts there,
by which cells may differ; e the error of that mean; s the part of it that counts (`pooled_law`):
noise in far bins widens no range. Only wider ranges are tried: the law is too
rough to choose a small part of it.

Deviations are those within the range, about the median on either side: they describe what the looks
show, and what lies beyond is added to estimates by itself (`surplus`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hexveil.base.arrays import Floats
from hexveil.mechanisms.pooled_law import PooledLaw

HALF_WIDTH, SKEWED_HALF_WIDTH, SKEWED_RATIO = 1.6, 2.2, 2.0
"""Deviations that the usual range reaches; and if one deviation is so many times the other."""
OUTER, OUTER_SD = 0.2, 0.8416
"""Level of the lower quantile, and its distance from the median in deviations of a normal law."""
TAIL = 0.05
"""Part of user means on a side that a range beyond a skewed law's tail need not hold."""
SMALLEST_SPREAD = 1.0 / 256.0
"""Smallest deviation, as a part of the bounds."""
GAIN = 0.1
"""Part of the predicted error that a wider range must save."""
LEVELS = 24
"""Steps between candidates for an end."""
LEAST_INSIDE = 0.3
CELLS_COMPARED = 64
"""Cells by which ranges are compared: of all noises, evenly."""
PARTS = 4
"""Points of a bin."""


@dataclass(frozen=True)
class FirstRange:
    """The first range, and centre and deviations of user means; in the unit of the law.

    Attributes
    ----------
    lower, upper : float
    centre, below, above : float
    """

    lower: float
    upper: float
    centre: float
    below: float
    above: float


def choose_first_range(law: PooledLaw, noise: Floats, squares: Floats, top: float) -> FirstRange:
    """Return the first range and the spread of user means within it.

    Parameters
    ----------
    law : PooledLaw
        Of user means, from 0 to `top`.
    noise : ndarray of float, shape (n_cells,)
        Laplace scale of each cell for a range of width 1 and all of the loss.
    squares : ndarray of float, shape (n_cells,)
        Σw² of each cell, weights w adding up to 1.
    top : float
        Width of the bounds.
    """
    ends = wider_range(law, usual_range(law, top), noise, squares, top)
    return describe(law, *ends, top)


def wider_range(
    law: PooledLaw, usual: tuple[float, float], noise: Floats, squares: Floats, top: float
) -> tuple[float, float]:
    """Return the usual range, or a wider one that promises less error; see the module's head."""
    centre = law.quantile(0.5)
    below, above = _outer_deviations(law, centre, top)
    lower, upper = _candidates(usual, top)
    smooth_above = _normal_excess((upper - centre) / above) * above
    smooth_below = _normal_excess((centre - lower) / below) * below
    cut = law.above(upper).where(upper < top), law.below(lower).where(lower > 0.0)
    # Whether anything lies beyond the usual range, the first: further out less is left of it.
    sure = [one.sure[0] for one in cut]
    systematic = sum(
        s**2 * (np.maximum(one.mean - smooth, 0.0) ** 2 + one.error**2)
        for s, one, smooth in zip(sure, cut, (smooth_above, smooth_below), strict=True)
    )
    sampled = sum(s * one.square for s, one in zip(sure, cut, strict=True))
    inside = np.maximum(_share_between(law, lower, upper), LEAST_INSIDE)
    cells = np.argsort(noise, kind="stable")[_evenly(noise.size)]
    squared = (
        2.0 * np.outer(noise[cells] ** 2, ((upper - lower) / inside) ** 2)
        + np.outer(squares[cells], sampled)
        + systematic
    )
    error = np.sqrt(squared).mean(axis=0)
    # The first candidate is the usual range.
    best = int(error.argmin())
    chosen = best if error[best] < (1.0 - GAIN) * error[0] else 0
    return float(lower[chosen]), float(upper[chosen])


def describe(law: PooledLaw, lower: float, upper: float, top: float) -> FirstRange:
    """Return a first range with the median of user means, and their deviations within it."""
    centre = law.quantile(0.5)
    step = (np.arange(PARTS) + 0.5) / PARTS
    points = law.edges[:-1, None] + np.diff(law.edges)[:, None] * step
    distance = np.clip(points, lower, upper) - centre
    share = law.share[:, None] / PARTS
    squares = (np.minimum(distance, 0.0) ** 2, np.maximum(distance, 0.0) ** 2)
    deviations = (math.sqrt(2.0 * float(np.sum(one * share))) for one in squares)
    below, above = (max(one, SMALLEST_SPREAD * top) for one in deviations)
    return FirstRange(lower, upper, centre, below, above)


def usual_range(law: PooledLaw, top: float) -> tuple[float, float]:
    """Return the range by quantiles: further where the law is skewed, not beyond its tails."""
    centre = law.quantile(0.5)
    below, above = _outer_deviations(law, centre, top)
    if max(below, above) > SKEWED_RATIO * min(below, above):
        reach_down = min(SKEWED_HALF_WIDTH * below, max(centre - law.quantile(TAIL), below))
        reach_up = min(SKEWED_HALF_WIDTH * above, max(law.quantile(1.0 - TAIL) - centre, above))
    else:
        reach_down, reach_up = HALF_WIDTH * below, HALF_WIDTH * above
    return to_bounds(law, centre - reach_down, centre + reach_up, top)


def to_bounds(law: PooledLaw, lower: float, upper: float, top: float) -> tuple[float, float]:
    """Return a range without an end in an outermost bin: user means there may be at the bound."""
    first, last = float(law.edges[1]), float(law.edges[-2])
    return 0.0 if lower < first else lower, top if upper > last else upper


def _outer_deviations(law: PooledLaw, centre: float, top: float) -> tuple[float, float]:
    """Return the deviations of normal laws that have the outer quantiles."""
    distances = (centre - law.quantile(OUTER), law.quantile(1.0 - OUTER) - centre)
    below, above = (max(one / OUTER_SD, SMALLEST_SPREAD * top) for one in distances)
    return below, above


def _candidates(usual: tuple[float, float], top: float) -> tuple[Floats, Floats]:
    """Return ranges that contain the usual one, which is the first."""
    levels = np.linspace(0.0, top, LEVELS + 1)
    low, high = (
        np.concatenate([[end], levels[kept]])
        for end, kept in zip(usual, (levels < usual[0], levels > usual[1]), strict=True)
    )
    lower, upper = np.meshgrid(low, high, indexing="ij")
    return lower.ravel(), upper.ravel()


def _share_between(law: PooledLaw, lower: Floats, upper: Floats) -> Floats:
    """Return the share of user means between ends."""
    reached = np.concatenate([[0.0], np.cumsum(law.share)])
    low, high = (np.interp(ends, law.edges, reached) for ends in (lower, upper))
    return np.asarray(high - low)


def _evenly(n_cells: int) -> np.typing.NDArray[np.int64]:
    """Return so many numbers of cells, evenly."""
    n = min(n_cells, CELLS_COMPARED)
    return np.asarray((2 * np.arange(n) + 1) * n_cells // (2 * n))


def _normal_excess(z: Floats) -> Floats:
    """Return E (Z - z)+ of a standard normal number."""
    # Not by scipy, which mechanisms do not import: the tail by the error function of each.
    tail = np.array([math.erfc(one / math.sqrt(2.0)) / 2.0 for one in z.tolist()])
    density = np.exp(-(z**2) / 2.0) / math.sqrt(2.0 * math.pi)
    return np.asarray(np.maximum(density - z * tail, 0.0))
