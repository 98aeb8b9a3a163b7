"""Pooled histogram of user means, and the range of every first look that it leads to.

A user casts at most PARTS votes over all its pairs (`weighted_mean`). The histogram gives the range
of the first look and the law of user means; these follow from its noisy votes and public facts, and
are stored with them.

Pooled histogram: whole votes of all units over bins, released in one norm.

Each unit casts whole votes, at most `PARTS` = 2^20 together, and a value with its votes lies in one
bin. The inner edges of the bins are public: fixed, or made from numbers that were released before.
All bins get noise of one scale, whatever their number. What a range cuts off, quantiles and
deviations follow from the noisy bins without further loss (`pooled_law`).

**Presence private.** Neighbours: all records of one privacy unit are added or removed.
Sensitivity: votes are not negative, and those of other units do not change. So a unit moves all
bins together by an L1 distance of its votes, at most PARTS, and by no more than that in L2.
Loss: PARTS / b with discrete Laplace noise of scale b; or PARTS² / r² as a square of μ with
discrete Gaussian noise of parameter r . Votes of a unit are limited by their
sum under either noise: values of several cells meet in one bin, where squares would not do.

**Values private.** Neighbours: one unit's values all change within the bounds; units, counts and
votes are public.
Sensitivity: a unit's bins are not negative and add up to its V <= PARTS votes, whatever its values
are. Two such vectors differ by an L1 distance of at most 2 V and an L2 distance of at most √2 V,
which all votes moving from one bin to another attain.
Loss: 2 V / b, or 2 V² / r² as a square of μ (`distribution.binned_stage`).

Source: L1 sensitivity of histograms (Dwork, McSherry, Nissim and Smith, 2006), with whole votes in
place of counts; the discrete Gaussian (Canonne, Kamath and Steinke, 2020).
Later ranges depend on the noisy bins and on public facts alone, so stages compose adaptively
(`mechanisms.contract`). Sums of votes of fewer than 2^32 units are below 2^53.

The range of every first look, and the law of user means within it: from the pooled law. Public.

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
from fractions import Fraction
from functools import partial

import numpy as np

from hexveil.accounting.noise_law import NoiseLaw
from hexveil.accounting.promise import PARTS, Promise
from hexveil.base.arrays import Floats, Ints
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.mechanisms.contract import NoisyTotals
from hexveil.mechanisms.distribution.binned_stage import SUBSTITUTED, two_bins
from hexveil.mechanisms.looks.weighted_mean import WeightedVotes
from hexveil.mechanisms.pooled_law import PooledLaw
from hexveil.model.pair_columns import Weights

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
POINTS = 4
"""Points of a bin."""


def choose_first_range(law: PooledLaw, noise: Floats, squares: Floats, steps: int) -> PooledChoice:
    """Return the first range and the spread of user means within it.

    Parameters
    ----------
    law : PooledLaw
        Of user means, from 0 to `steps`.
    noise : ndarray of float, shape (n_cells,)
        Laplace scale of each cell for a range of width 1 and all of the loss.
    squares : ndarray of float, shape (n_cells,)
        Σw² of each cell, weights w adding up to 1.
    steps : int
        Width of the bounds, in quanta.
    """
    ends = wider_range(law, usual_range(law, float(steps)), noise, squares, float(steps))
    return PooledChoice.of(law, *ends, steps)


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
    sure = [side.sure[0] for side in cut]
    systematic = sum(
        s**2 * (np.maximum(side.mean - smooth, 0.0) ** 2 + side.error**2)
        for s, side, smooth in zip(sure, cut, (smooth_above, smooth_below), strict=True)
    )
    sampled = sum(s * side.square for s, side in zip(sure, cut, strict=True))
    reached = np.concatenate([[0.0], np.cumsum(law.share)])
    low, high = (np.interp(ends, law.edges, reached) for ends in (lower, upper))
    inside = np.maximum(high - low, LEAST_INSIDE)
    # So many cells, evenly by their noise.
    n = min(noise.size, CELLS_COMPARED)
    cells = np.argsort(noise, kind="stable")[(2 * np.arange(n) + 1) * noise.size // (2 * n)]
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
    below, above = (max(side / OUTER_SD, SMALLEST_SPREAD * top) for side in distances)
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


def _normal_excess(z: Floats) -> Floats:
    """Return E (Z - z)+ of a standard normal number."""
    # Not by scipy, which mechanisms do not import: the tail by the error function of each.
    tail = np.array([math.erfc(side / math.sqrt(2.0)) / 2.0 for side in z.tolist()])
    density = np.exp(-(z**2) / 2.0) / math.sqrt(2.0 * math.pi)
    return np.asarray(np.maximum(density - z * tail, 0.0))


HISTOGRAM = "histogram"
"""Name of its stage, in the ledger."""
BINS, FINER_BINS = (8, 16, 32), (100, 800)
"""Numbers of bins; and the votes times epsilon from which there are more of them."""


# ---- pooled histogram ----


@dataclass(frozen=True, eq=False)
class PooledMeans(ReadOnlyArrays):
    """Stage of the votes of bins of equal width, and their law.

    Attributes
    ----------
    histogram : NoisyTotals
        Without its decisions.
    edges : ndarray of int64
        Between its bins.
    noise : NoiseLaw
    total : int
        Votes of all users. Public.
    steps : int
        Width of the records' bounds in quanta.
    """

    histogram: NoisyTotals
    edges: Ints
    noise: NoiseLaw
    total: int
    steps: int

    @classmethod
    def of(cls, weight: Weights, steps: int, promise: Promise) -> PooledMeans:
        """Return the stage for the user means of all pairs, at the loss of a user of all votes."""
        values = WeightedVotes(weight)
        user_votes = values.user_votes
        total = int(user_votes.sum())
        bins = n_bins(Fraction(total, PARTS) * promise.laplace_epsilon(SUBSTITUTED))
        edges, noise = inner_edges(steps, bins), promise.noise(SUBSTITUTED)
        users = np.arange(user_votes.size)
        report = two_bins(users, np.zeros_like(users), user_votes)
        total_of = partial(values.tally, edges=edges)
        histogram = NoisyTotals(HISTOGRAM, edges.size + 1, noise, report, total_of)
        return cls(histogram, edges, noise, total, steps)

    def law(self, noisy: Ints) -> PooledLaw:
        """Return the law of user means, in quanta, that noisy votes show."""
        edges = all_edges(self.edges, self.steps)
        return PooledLaw.of(edges, noisy, self.noise, float(self.total))


def inner_edges(steps: int, bins: int) -> Ints:
    """Return the edges between bins of equal width; fewer where the lattice has few steps."""
    return np.unique(steps * np.arange(1, bins, dtype=np.int64) // bins)


def all_edges(inner: Ints, steps: int) -> Floats:
    """Return all edges of bins with these inner ones, for bounds of so many quanta."""
    # On a lattice of few steps the first bin may be the lower bound alone.
    return np.concatenate([[min(0.0, inner[0] - 0.5)], inner, [float(steps)]])


def n_bins(precision: Fraction) -> int:
    """Return the number of bins for so many votes, times the epsilon of their noise.

    Examples
    --------
    >>> n_bins(Fraction(60)), n_bins(Fraction(100)), n_bins(Fraction(1000))
    (8, 16, 32)
    """
    few, some = FINER_BINS
    return BINS[(precision >= few) + (precision >= some)]


@dataclass(frozen=True)
class PooledChoice:
    """Decisions from the noisy votes, in whole quanta above the lower bound.

    Attributes
    ----------
    lower, upper : int
        The range of every cell's first look.
    centre, below, above : int
        Median of user means, and their deviations on either side of it within that range.
    """

    lower: int
    upper: int
    centre: int
    below: int
    above: int

    @classmethod
    def of(cls, law: PooledLaw, lower: float, upper: float, steps: int) -> PooledChoice:
        """Return a range in whole quanta, outward, with the spread of user means within it."""
        centre = law.quantile(0.5)
        step = (np.arange(POINTS) + 0.5) / POINTS
        points = law.edges[:-1, None] + np.diff(law.edges)[:, None] * step
        distance = np.clip(points, lower, upper) - centre
        share = law.share[:, None] / POINTS
        squares = (np.minimum(distance, 0.0) ** 2, np.maximum(distance, 0.0) ** 2)
        deviations = (math.sqrt(2.0 * float(np.sum(side * share))) for side in squares)
        # Nothing is without a width.
        spread = (math.ceil(max(side, SMALLEST_SPREAD * steps)) for side in deviations)
        low = min(max(math.floor(lower), 0), steps - 1)
        high = max(min(math.ceil(upper), steps), low + 1)
        return cls(low, high, min(max(round(centre), 0), steps), *spread)

    @property
    def row(self) -> Ints:
        """The numbers as they are stored."""
        return np.array([self.lower, self.upper, self.centre, self.below, self.above])


N_DECIDED = 5
"""Whole numbers of a `PooledChoice`."""
