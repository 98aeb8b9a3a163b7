"""Law of the values of a fleet, from a noisy histogram: the excess beyond ranges, and its error.

The histogram nearest to the noisy one that is not negative and has its total (a projection on the
simplex) is the law, even within bins. Beyond an end b its *excess* is the mean of (x - b)+; with E²
in place of it, the second moment says how large what is cut off is.

Noise of bins that hold nothing is cut at 0 by the projection, so that it adds to the tails: adding
noise once more to the law found, and projecting again, shows by how much. Half of this bias is
taken off the excess, and the spread of the repeats is its error. Bins far away that hold little
give most of it, so that an excess E of error e may be noise alone: where a range is chosen or an
estimate moved, E² / (E² + (SURE_ERRORS e)²) of it counts. Intervals have room for all of it.

Post-processing of released numbers and public facts, with draws from a fixed seed: equal numbers
give equal laws.
Source: Euclidean projection on the simplex (Duchi, Shalev-Shwartz, Singer and Chandra, 2008);
parametric bootstrap (Efron, 1979).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hexveil.accounting.noise_law import Gaussian, NoiseLaw
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
