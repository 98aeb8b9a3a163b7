"""Clipping ranges of cells and their excess, by the pooled law of the fleet's values.

The values of all units, then their distances from the centres of their cells, are released as
histograms (`looks.pooled_means`). From the law of either (`pooled_law`) follows the excess beyond
any end. For a window of half width r around a cell's centre, with X + Y the noise of its weight W,

    (0.886 r sd(X + Y) / W)² + s E₂ / max(W, 1) + (CHOICE s E)² + (s e)²

is the predicted squared error: the noise; the second moment E₂ of the excess, of which a cell of W
units has a sample; its mean E, by which cells differ; and its error e, of both sides. Where most
values lie in a small part of the bounds, s is the part of an excess that counts (`pooled_law`):
there a range is worth much, and noise in far bins would widen it. Elsewhere s is 1: small fleets
cannot be sure of the excess that they have. Each cell has the window of least predicted error,
lopsided if need be: the sensitivity of its halves is the same for any range (`contribution`). Ends
lie at half-octave distances from the centre, or at the bounds, beyond which there is nothing.

Post-processing of released numbers and of the declared grid: it costs no privacy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hexveil.accounting.promise import PARTS
from hexveil.base.arrays import Floats, Ints
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.mechanisms.pooled_law import Excess, PooledLaw
from hexveil.mechanisms.presence.contribution import CellWindow

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
    def of(cls, law: PooledLaw, origin: Ints, window: CellWindow) -> BeyondRange:
        """Return the excess beyond windows.

        Parameters
        ----------
        law : PooledLaw
        origin : ndarray of int64
            What the law's values are distances from, in parts: of each cell, or 0.
        window : CellWindow
        """
        return cls(
            law.below((window.low - origin) / PARTS).where(window.low > 0),
            law.above((window.high - origin) / PARTS).where(window.high < PARTS),
            law.deviation,
        )


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
