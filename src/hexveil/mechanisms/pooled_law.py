"""Law of the values of a fleet, from a noisy histogram: the excess beyond ranges, and its error.

The histogram nearest to the noisy one that is not negative and has its total (a projection on the
simplex) is the law, even within bins. Beyond an end b its *excess* is the mean of (x - b)+; with E²
in place of it, the second moment says how large what is cut off is.

Noise of bins that hold nothing is cut at 0 by the projection, so that it adds to the tails: adding
noise once more to the law found, and projecting again, shows by how much. Half of this bias is
taken off the excess, and the spread of the repeats is its error. Bins far away that hold little
give most of it, so that an excess E of error e may be noise alone: where a range is chosen or an
estimate moved, E² / (E² + (SURE_ERRORS e)²) of it counts. Intervals have room for all of it.

**Clipping ranges of cells** under private presence. The values of all units, then their distances
from the centres of their cells, are released as histograms (`looks.pooled_means`). From the law of
either follows the excess beyond any end. For a window of half width r around a cell's centre, with
X + Y the noise of its weight W,

    (0.886 r sd(X + Y) / W)² + s E₂ / max(W, 1) + (CHOICE s E)² + (s e)²

is the predicted squared error: the noise; the second moment E₂ of the excess, of which a cell of W
units has a sample; its mean E, by which cells differ; and its error e, of both sides. Where most
values lie in a small part of the bounds, s is the part of an excess that counts, as above: there a
range is worth much, and noise in far bins would widen it. Elsewhere s is 1: small fleets
cannot be sure of the excess that they have. Each cell has the window of least predicted error,
lopsided if need be: the sensitivity of its halves is the same for any range (`contribution`). Ends
lie at half-octave distances from the centre, or at the bounds, beyond which there is nothing.

Post-processing of released numbers and public facts, with draws from a fixed seed: equal numbers
give equal laws.
Source: Euclidean projection on the simplex (Duchi, Shalev-Shwartz, Singer and Chandra, 2008);
parametric bootstrap (Efron, 1979).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hexveil.accounting.noise_law import Gaussian, NoiseLaw
from hexveil.accounting.promise import PARTS
from hexveil.base.arrays import Floats, Ints
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.smoothing.user_mean_law import CellDesign, ClippedLook, UserMeanSpread

N_DRAWS, SEED = 100, 20_261_126
BIAS_TAKEN_OFF = 0.5
LEAST_KEPT = 0.1
"""Part of an excess that is left whatever its bias is."""
SURE_ERRORS = 3.0
"""Errors of an excess from which on more than half of it counts."""
ENDS_AT_ONCE = 4096


@dataclass(frozen=True, eq=False)
class Excess(ReadOnlyArrays):
    """Excess beyond ends: of each end, over all votes.

    Attributes
    ----------
    mean, square, error : ndarray of float
        Mean and second moment of the distance beyond the end, 0 within it; error of the mean.
    """

    mean: Floats
    square: Floats
    error: Floats

    @property
    def sure(self) -> Floats:
        """Part of each excess that counts: less than half where it may be noise."""
        return sure_part(self.mean, self.error)

    def where(self, is_cut: np.typing.NDArray[np.bool_]) -> Excess:
        """Return the same, with nothing beyond the other ends: those at a bound."""
        return Excess(*(np.where(is_cut, one, 0.0) for one in (self.mean, self.square, self.error)))


@dataclass(frozen=True, eq=False)
class PooledLaw(ReadOnlyArrays):
    """A law over bins, even within each, with repeats of its noise.

    Attributes
    ----------
    edges : ndarray of float, shape (n_bins + 1,)
        All edges, ascending; in any unit.
    share : ndarray of float, shape (n_bins,)
        Of the votes; they sum to 1.
    draws : ndarray of float, shape (N_DRAWS, n_bins)
        The same after noise was added and projected once more.
    """

    edges: Floats
    share: Floats
    draws: Floats

    @classmethod
    def of(
        cls, edges: Floats, noisy: Ints | Floats, noise: NoiseLaw, total: float | None = None
    ) -> PooledLaw:
        """Return the law of a noisy histogram.

        Parameters
        ----------
        edges : ndarray of float, shape (n_bins + 1,)
            Bins without a width are left out.
        noisy : ndarray, shape (n_bins,)
            Votes, in any unit.
        noise : NoiseLaw
            Of every bin, in the same unit.
        total : float, optional
            All votes, where that is public; else the noisy votes are added up.
        """
        rng = np.random.default_rng(SEED)
        noisy = noisy[np.diff(edges) > 0].astype(np.float64)
        draw, scale = (rng.normal if isinstance(noise, Gaussian) else rng.laplace), noise.scale
        drawn = draw(0.0, scale, (N_DRAWS, noisy.size))
        known = max(float(noisy.sum()), scale) if total is None else total
        share = project(noisy[None], np.array([known]))[0] / known
        again = share * known + drawn
        totals = np.maximum(again.sum(axis=1), scale) if total is None else np.full(N_DRAWS, known)
        return cls(np.unique(edges), share, project(again, totals) / totals[:, None])

    def above(self, ends: Floats) -> Excess:
        """Return the excess above ends, shape (n_ends,)."""
        ends, place = np.unique(ends, return_inverse=True)
        chunks = [
            self._above(ends[begin : begin + ENDS_AT_ONCE])
            for begin in range(0, ends.size, ENDS_AT_ONCE)
        ]
        return Excess(*np.concatenate(chunks, axis=1)[:, place])

    def below(self, ends: Floats) -> Excess:
        """Return the excess below ends, shape (n_ends,)."""
        mirrored = PooledLaw(-self.edges[::-1], self.share[::-1], self.draws[:, ::-1])
        return mirrored.above(-ends)

    def _above(self, ends: Floats) -> Floats:
        """Return mean, second moment and error of the excess above few ends."""
        beyond = np.maximum(self.edges[None] - ends[:, None], 0.0)
        # Of (x - b)+ and its square over a bin, evenly: differences of their integrals.
        width = np.diff(self.edges)
        first, second = (np.diff(beyond**k, axis=1) / k / width for k in (2, 3))
        mean, again = first @ self.share, self.draws @ first.T
        bias = np.maximum(BIAS_TAKEN_OFF * (again.mean(axis=0) - mean), 0.0)
        kept = np.maximum(mean - bias, LEAST_KEPT * mean)
        ratio = kept / np.maximum(mean, np.finfo(float).tiny)
        return np.stack([kept, second @ self.share * ratio, again.std(axis=0)])

    def quantile(self, q: float) -> float:
        """Return the value with this share of the votes below it."""
        reached = np.concatenate([[0.0], np.cumsum(self.share)])
        return float(np.interp(q, reached / reached[-1], self.edges))

    @property
    def mean(self) -> float:
        """Mean value."""
        return float(self._middles @ self.share)

    @property
    def deviation(self) -> float:
        """Standard deviation of the values."""
        within = np.diff(self.edges) ** 2 / 12.0
        return float(np.sqrt(((self._middles - self.mean) ** 2 + within) @ self.share))

    @property
    def _middles(self) -> Floats:
        return np.asarray((self.edges[:-1] + self.edges[1:]) / 2.0)


@dataclass(frozen=True, eq=False)
class MeanView(ReadOnlyArrays):
    """All that released numbers show of the cells' means before clipping. Public.

    Attributes
    ----------
    looks : tuple of ClippedLook
        Independent looks in the order of their release, value units; the last one at a cell is its
        published number. A scale is infinite where a look leaves a cell out.
    design : CellDesign
        Users of each cell, and their weights.
    spread : UserMeanSpread
        Released centre and deviations of user means.
    bounds : pair of float
        Bounds of the values.
    shares : ndarray of float, shape (n_cells,)
        Part of the votes that each cell has; they sum to 1. Public.
    law : PooledLaw, optional
        The released law of all user means, in value units.
    """

    looks: tuple[ClippedLook, ...]
    design: CellDesign
    spread: UserMeanSpread
    bounds: tuple[float, float]
    shares: Floats
    law: PooledLaw | None = None


def sure_part(excess: Floats, error: Floats) -> Floats:
    """Return E² / (E² + (SURE_ERRORS e)²); 0 where both are 0.

    Examples
    --------
    >>> sure_part(np.array([3.0, 1.0, 0.0]), np.array([1.0, 1.0, 0.0])).tolist()
    [0.5, 0.1, 0.0]
    """
    square = excess**2
    divisor = np.maximum(square + (SURE_ERRORS * error) ** 2, np.finfo(float).tiny)
    return np.asarray(square / divisor)


def project(noisy: Floats, totals: Floats) -> Floats:
    """Return the nearest histograms that are not negative and have these totals.

    Examples
    --------
    >>> project(np.array([[3.0, -1.0, 2.0]]), np.array([4.0])).tolist()
    [[2.5, 0.0, 1.5]]
    """
    falling = np.sort(noisy, axis=-1)[:, ::-1]
    level = (np.cumsum(falling, axis=-1) - totals[:, None]) / np.arange(1, noisy.shape[-1] + 1)
    last = np.count_nonzero(falling > level, axis=-1) - 1
    return np.asarray(np.maximum(noisy - np.take_along_axis(level, last[:, None], -1), 0.0))


# ---- clipping ranges of cells ----

VALUE_BINS = 8
OCTAVES, PER_OCTAVE = 6, 2
RELATIVE_NOISE = 0.886
"""Expected noise of a mean at the middle of its range, in deviations of X + Y and half widths."""
CHOICE = 0.5
"""Deviation of cells' excess from the pooled one, as a part of it, where a range is chosen."""
CROWDED, NARROW = 0.9, 0.5
"""Quantiles between which bins are narrow, where that is at most such a part of the bounds."""
SMALL = 0.2
"""Part of the bounds between these quantiles up to which an excess counts by its error."""
CELLS_AT_ONCE = 4096

VALUE_EDGES: Ints = PARTS * np.arange(VALUE_BINS + 1) // VALUE_BINS
REACHES: Ints = np.rint(
    PARTS * 2.0 ** (-np.arange(OCTAVES * PER_OCTAVE + 1)[::-1] / PER_OCTAVE)
).astype(np.int64)
"""Distances from a centre at which windows may end, half octaves apart; the last is the span."""


RESIDUAL_EDGES: Ints = np.concatenate([-REACHES[::-1], REACHES])


def within_reach(centres: Ints, prices: Ints) -> Ints:
    """Return the edges of bins of distances from the centres of cells with a price, in parts.

    No distance is below that of the lower bound from the highest centre, nor above that of the
    upper bound from the lowest one: bins beyond are noise alone, and get no width.

    Examples
    --------
    >>> edges = within_reach(np.array([PARTS // 4, 0, PARTS // 2]), np.array([1, 0, 3]))
    >>> edges[[0, 1, 2, 3, -1]] / PARTS
    array([-0.5       , -0.5       , -0.5       , -0.35355377,  0.75      ])
    """
    used = centres[prices > 0] if (prices > 0).any() else centres
    return np.clip(RESIDUAL_EDGES, -used.max(), PARTS - used.min())


def used_bins(edges: Ints, votes: Ints) -> tuple[Ints, Ints]:
    """Return edges and votes of the bins that have a width."""
    return np.unique(edges), votes[np.diff(edges) > 0]


def crowded_range(law: PooledLaw) -> Ints:
    """Return where most values lie, in parts: all of the bounds if that is not narrow."""
    low, high = (round(PARTS * law.quantile(q)) for q in (1.0 - CROWDED, CROWDED))
    narrow = 0 < high - low <= NARROW * PARTS
    return np.array([low, high] if narrow else [0, PARTS], dtype=np.int64)


def refined_edges(low: int, high: int) -> Ints:
    """Return the edges of bins of values: even ones in a range, and those of wide bins outside it.

    Always as many; bins that are left over have no width.

    Examples
    --------
    >>> np.array_equal(np.unique(refined_edges(0, PARTS)), VALUE_EDGES)
    True
    >>> (refined_edges(PARTS // 8, PARTS // 4) * 64 // PARTS).tolist()
    [0, 8, 9, 10, 11, 12, 13, 14, 15, 16, 24, 32, 40, 48, 56, 64, 64, 64]
    """
    within = low + (high - low) * np.arange(VALUE_BINS + 1) // VALUE_BINS
    outside = VALUE_EDGES[np.abs(2 * VALUE_EDGES - low - high) > high - low]
    every = np.unique(np.concatenate([within, outside]))
    return np.pad(every, (0, 2 * VALUE_EDGES.size - every.size), constant_values=PARTS)


@dataclass(frozen=True, eq=False)
class BeyondRange(ReadOnlyArrays):
    """Excess beyond the ranges of cells, in shares of the span, by the pooled law.

    Attributes
    ----------
    below, above : Excess
        Of each cell; 0 where its range ends at a bound.
    deviation : float
        Standard deviation of the law.
    """

    below: Excess
    above: Excess
    deviation: float

    @classmethod
    def of(cls, law: PooledLaw, origin: Ints, low: Ints, high: Ints) -> BeyondRange:
        """Return the excess beyond the ends of ranges.

        Parameters
        ----------
        law : PooledLaw
        origin : ndarray of int64
            What the law's values are distances from, in parts: of each cell, or 0.
        low, high : ndarray of int64, shape (n_cells,)
            Ends of each cell's range, in parts.
        """
        return cls(
            law.below((low - origin) / PARTS).where(low > 0),
            law.above((high - origin) / PARTS).where(high < PARTS),
            law.deviation,
        )


def nothing_beyond(n_cells: int, deviation: float) -> BeyondRange:
    """Return that no excess is known of, where no histogram was released."""
    none = Excess(*np.zeros((3, n_cells)))
    return BeyondRange(none, none, deviation)


def best_ranges(
    law: PooledLaw, centres: Ints, noise: Floats, weight: Floats, *, around: bool
) -> tuple[Ints, Ints]:
    """Return the ends of each cell's range of least predicted error, in parts.

    Parameters
    ----------
    law : PooledLaw
    centres : ndarray of int64, shape (n_cells,)
    noise : ndarray of float, shape (n_cells,)
        Deviation of X + Y, over W.
    weight : ndarray of float, shape (n_cells,)
        W, in units.
    around : bool
        Whether the law is that of distances from centres, else of values: then all centres are one.
    """
    reach, origin = REACHES / PARTS, 0.0 if around else float(centres[0]) / PARTS
    below, above = law.below(origin - reach), law.above(origin + reach)
    is_small = law.quantile(CROWDED) - law.quantile(1.0 - CROWDED) <= SMALL
    sure = (below.sure, above.sure) if is_small else (np.ones(reach.size),) * 2
    low, high = np.empty_like(centres), np.empty_like(centres)
    for begin in range(0, centres.size, CELLS_AT_ONCE):
        rows = slice(begin, begin + CELLS_AT_ONCE)
        centre = centres[rows, None]
        down = np.minimum(REACHES, centre) / PARTS
        up = np.minimum(REACHES, PARTS - centre) / PARTS
        cost = _misfit(below, sure[0], reach >= centre / PARTS, weight[rows])[:, :, None]
        at_top = reach >= 1.0 - centre / PARTS
        cost = cost + _misfit(above, sure[1], at_top, weight[rows])[:, None, :]
        half = (down[:, :, None] + up[:, None, :]) / 2.0
        cost += (RELATIVE_NOISE * half * noise[rows, None, None]) ** 2
        best = cost.reshape(len(cost), -1).argmin(axis=1)
        low[rows] = np.maximum(centre[:, 0] - REACHES[best // REACHES.size], 0)
        high[rows] = np.minimum(centre[:, 0] + REACHES[best % REACHES.size], PARTS)
    return low, high


def _misfit(
    excess: Excess, sure: Floats, at_bound: np.typing.NDArray[np.bool_], weight: Floats
) -> Floats:
    """Return the squared error by one side, shape (n_cells, n_reaches); none from a bound on."""
    sampled = sure * excess.square / np.maximum(weight, 1.0)[:, None]
    common = sure**2 * ((CHOICE * excess.mean) ** 2 + excess.error**2)
    return np.where(at_bound, 0.0, sampled + common)
