"""Statistics of distributions over fine bins: means, quantiles, shares and histograms.

All are functions of one distribution, so they agree: quantiles rise with their level, shares lie
from 0 to 1 and fall with their threshold, a histogram adds up to 1. Post-processing, public.

Scores of fine bins are what a mean measures of a distribution: indicators of thresholds, and ranks.
The mean of an indicator over a cell's records is the share of records beyond the threshold.

The rank of a record is the part of the points asked for that lie below it: the quantiles of the
pooled shape at the levels asked for, and the thresholds. A cell's mean rank is the mean of its
shares above these points: it says how far records lie above those of the whole map where statistics
are read off. The pooled rank r(x) = P(X <= x) (the ridit; Bross, 1958) counts as half a point
beside them, or else a mean rank would say nothing of values between two points.

Scores are whole numbers from 0 to `GRAIN`: values on the public lattice from 0 to 1. Public.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from hexveil.base.arrays import Bools, Floats, Ints
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.mechanisms.distribution import Component
from hexveil.mechanisms.distribution.pooled_shape import PooledShape
from hexveil.mechanisms.distribution.tilt_estimation import N_DRAWS, SEED, TiltFit
from hexveil.mechanisms.distribution.tilted_shapes import legendre_terms, pooled_ranks, tilt
from hexveil.mechanisms.stage_data import Outputs
from hexveil.model.public_metadata import FineBins, ValueLattice
from hexveil.model.statistic_terms import Histogram, Quantile, Share, Term, column_names, half_bin

MEAN = "mean"
MEAN_ABS_NORMAL = 0.7979
ATOM = 3.0
"""Density of an end bin, in those of its neighbour, from which its values are at the bound."""
MIN_BINS = 4
"""Fine bins from which on one of them is narrow enough to be read as a bound."""
GRAIN = 1024
"""Score of 1."""
SCORE_LATTICE = ValueLattice(Fraction(0), Fraction(1), Fraction(1, GRAIN))
ALL_LEVELS = 0.5
"""Weight of the pooled rank, where each point has 1: as a histogram has it alone."""


@dataclass(frozen=True, eq=False)
class ShapeStatistics:
    """Statistics that are measured of each distribution.

    Attributes
    ----------
    bins : FineBins
    lattice : ValueLattice
    terms : tuple of Term
    has_mean : bool
        Whether means are measured too, as the first column.
    """

    bins: FineBins
    lattice: ValueLattice
    terms: tuple[Term, ...]
    has_mean: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns, in order; a histogram has one for each bin, from the lowest."""
        names = [name for term in self.terms for name in column_names(term)]
        return (MEAN, *names) if self.has_mean else tuple(names)

    @property
    def is_quantile(self) -> NDArray[np.bool_]:
        """Which columns are quantiles; shape (n_columns,)."""
        of_terms = [isinstance(term, Quantile) for term in self.terms for _ in column_names(term)]
        return np.array([False] * self.has_mean + of_terms)

    @property
    def is_share(self) -> NDArray[np.bool_]:
        """Which columns are shares of records, not values; shape (n_columns,)."""
        are_shares = ~self.is_quantile
        are_shares[: int(self.has_mean)] = False
        return are_shares

    @property
    def limits(self) -> Floats:
        """Least and largest value of each column, shape (n_columns, 2)."""
        bounds = (float(self.lattice.lower), float(self.lattice.upper))
        return np.where(self.is_share[:, None], (0.0, 1.0), bounds)

    def to_bin_ends(self, low: Floats, high: Floats, place: Ints) -> tuple[Floats, Floats]:
        """Return intervals; those of quantiles reach to the ends of bins.

        Nothing is measured of where values lie within a bin: all may be one number.

        Parameters
        ----------
        low, high : ndarray of float, shape (n_cells, n_columns)
        place : ndarray of int64, shape (n_fine_bins,)
            Bin of each fine bin in the finest measurement of the pooled shape, rising.
        """
        lower, quantum = float(self.lattice.lower), float(self.lattice.quantum)
        last_fine_bin = np.append(np.flatnonzero(np.diff(place)), place.size - 1)
        ends = lower + quantum * self.bins.ends[last_fine_bin]
        starts = lower + quantum * self.bins.starts[np.append(0, last_fine_bin[:-1] + 1)]
        first_bin = np.minimum(np.searchsorted(ends, low, side="right"), ends.size - 1)
        last_bin = np.minimum(np.searchsorted(ends, high, side="left"), ends.size - 1)
        return (
            np.where(self.is_quantile, np.minimum(starts[first_bin], low), low),
            np.where(self.is_quantile, np.maximum(ends[last_bin], high), high),
        )

    @property
    def half_bins(self) -> Floats:
        """Half the width of a fine bin in columns of quantiles, 0 in others; (n_columns,)."""
        return np.where(self.is_quantile, half_bin(self.lattice), 0.0)

    def of(self, shares: Floats) -> Floats:
        """Return the statistics of distributions, shape (..., n_columns).

        Parameters
        ----------
        shares : ndarray of float, shape (..., n_fine_bins)
        """
        lower, quantum = float(self.lattice.lower), float(self.lattice.quantum)
        starts, ends = self.bins.starts, self.bins.ends
        at_lower, at_upper = self._atoms(shares)
        columns: list[Floats] = []
        if self.has_mean:
            half = (ends - starts) / 2.0
            mean = shares @ (starts + half) + (
                at_upper * shares[..., -1] * half[-1] - at_lower * shares[..., 0] * half[0]
            )
            columns.append(lower + quantum * mean)
        for term in self.terms:
            match term:
                case Quantile(level):
                    inside = quantiles(shares, float(level), starts, ends)
                    inside = np.where(at_lower & (inside <= ends[0]), 0.0, inside)
                    inside = np.where(at_upper & (inside >= starts[-1]), ends[-1], inside)
                    columns.append(lower + quantum * inside)
                case Share():
                    above = shares[..., self.bins.above(term.edge(self.lattice))].sum(axis=-1)
                    columns.append(above if term.is_above else 1.0 - above)
                case Histogram():
                    place = np.searchsorted(term.edges(self.lattice), self.bins.edges)
                    gather = np.eye(term.n_bins)[place]
                    columns += list(np.moveaxis(shares @ gather, -1, 0))
        return np.stack(columns, axis=-1)

    def _atoms(self, shares: Floats) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return whether each distribution's end bins hold values at the bounds themselves."""
        if self.bins.n_bins < MIN_BINS:
            none = np.zeros(shares.shape[:-1], dtype=bool)
            return none, none
        density = shares / (self.bins.ends - self.bins.starts)
        at_lower = density[..., 0] > ATOM * density[..., 1]
        return at_lower, density[..., -1] > ATOM * density[..., -2]


def quantiles(shares: Floats, level: float, starts: Floats, ends: Floats) -> Floats:
    """Return the value that a part of each distribution does not exceed, even within bins.

    Parameters
    ----------
    shares : ndarray of float, shape (..., n_bins)
    level : float
    starts, ends : ndarray of float, shape (n_bins,)

    Examples
    --------
    >>> quantiles(np.array([[0.5, 0.5]]), 0.75, np.array([0.0, 2.0]), np.array([2.0, 4.0])).tolist()
    [3.0]
    """
    below = np.cumsum(shares, axis=-1)
    number = np.minimum((below < level).sum(axis=-1), shares.shape[-1] - 1)
    bin_share = np.take_along_axis(shares, number[..., None], axis=-1)[..., 0]
    reached = np.take_along_axis(below, number[..., None], axis=-1)[..., 0] - bin_share
    inside = np.clip((level - reached) / np.maximum(bin_share, 1e-300), 0.0, 1.0)
    return np.asarray(starts[number] + inside * (ends - starts)[number])


# ---- statistics of tilted shapes ----

CELLS_AT_ONCE = 64
SHARE_ALLOWANCE = 0.02
"""Part of the limits by which intervals are widened: no tilt makes a share exactly 0 or 1."""


@dataclass(frozen=True, eq=False)
class CellEstimates(ReadOnlyArrays):
    """Statistics of all cells in their own units, shape (n_cells, n_columns), or one of them.

    Attributes
    ----------
    estimate, low, high : ndarray of float
        Estimates, and their 95 % intervals.
    error : ndarray of float
        Expected absolute errors by the model of the intervals; half a fine bin is in those of
        quantiles.
    """

    estimate: Floats
    low: Floats
    high: Floats
    error: Floats

    def at(self, place: slice | tuple[slice, int]) -> CellEstimates:
        """Return the estimates of some cells, or of one column."""
        every = (self.estimate, self.low, self.high, self.error)
        return CellEstimates(*(np.asarray(one[place]) for one in every))


def cell_statistics(
    statistics: ShapeStatistics,
    shares: Floats,
    fit: TiltFit,
    inflation: float,
    place: Ints,
    even: Floats | None = None,
    adjusted: Callable[[slice, Floats, Floats], tuple[Floats, Floats]] | None = None,
) -> CellEstimates:
    """Return the statistics of tilted shapes, with intervals from draws of their tilts.

    Parameters
    ----------
    statistics : ShapeStatistics
    shares : ndarray of float, shape (n_fine_bins,)
        Pooled ones.
    fit : TiltFit
        With draws, or covariances that were multiplied by `inflation`: expected errors are not.
    inflation : float
    place : ndarray of int64, shape (n_fine_bins,)
        Bin of each fine bin in the finest measurement of the pooled shape.
    even : ndarray of float, shape (n_fine_bins,), optional
        Pooled shares that are even within the bins that were measured: of few units the smooth law
        hides single numbers that many records share, so that intervals reach to both.
    adjusted : callable, optional
        Of the rows of some cells, of their shapes and of drawn ones to those that are measured.
    """
    middle, low, high, error = _drawn(statistics, shares, fit, adjusted)
    error, other = error / inflation**0.5, middle
    if even is not None:
        tilted = tilt(even, legendre_terms(even, fit.alpha.shape[1]), fit.alpha)
        other = np.where(statistics.is_quantile, statistics.of(tilted), middle)
    # A middle outside its own draws' interval would be no estimate of it.
    ends = np.minimum.reduce([low, middle, other]), np.maximum.reduce([high, middle, other])
    low, high = statistics.to_bin_ends(*ends, place)
    allowance = np.where(statistics.is_share, SHARE_ALLOWANCE, 0.0)
    least, largest = statistics.limits.T
    low, high = np.maximum(low - allowance, least), np.minimum(high + allowance, largest)
    return CellEstimates(middle, low, high, np.hypot(error, statistics.half_bins))


def _drawn(
    statistics: ShapeStatistics,
    shares: Floats,
    fit: TiltFit,
    adjusted: Callable[[slice, Floats, Floats], tuple[Floats, Floats]] | None,
) -> tuple[Floats, ...]:
    """Return estimates, ends of the middle 95 percent of draws, and mean distances of draws."""
    terms = legendre_terms(shares, fit.alpha.shape[1])
    # The same draws for every cell, from a fixed seed: equal outputs give equal intervals.
    normal = np.random.default_rng(SEED).standard_normal((N_DRAWS, terms.shape[1]))
    chunks = []
    for begin in range(0, len(fit.alpha), CELLS_AT_ONCE):
        rows = slice(begin, begin + CELLS_AT_ONCE)
        own = fit.rows(rows)
        tilts = own.draws
        if tilts is None:
            around = np.einsum("ckl,dl->dck", np.linalg.cholesky(own.covariance), normal)
            tilts = own.alpha + around
        middle, drawn = (tilt(shares, terms, alpha) for alpha in (own.alpha, tilts))
        if adjusted is not None:
            middle, drawn = adjusted(rows, middle, drawn)
        estimate, draws = statistics.of(middle), statistics.of(drawn)
        low, high = np.quantile(draws, (0.025, 0.975), axis=0)
        chunks.append((estimate, low, high, np.abs(draws - estimate).mean(axis=0)))
    return tuple(np.concatenate(parts) for parts in zip(*chunks, strict=True))


def between_cells(estimates: Floats, errors: Floats, half_bins: Floats | float = 0.0) -> Floats:
    """Return the standard deviation of true numbers between cells, of each statistic.

    The law of total variance: the variance of the estimates, and the mean variance of what is not
    known of each cell.

    Parameters
    ----------
    estimates, errors : ndarray of float, shape (n_cells, ...)
        Expected absolute errors are those of the model of cells, not widened for intervals.
    half_bins : ndarray of float, shape (...)
        Half a bin, which is in the errors of quantiles: where values lie within a bin is not known,
        and the same for all cells.
    """
    own = np.maximum(errors**2 - np.square(half_bins), 0.0) / MEAN_ABS_NORMAL**2
    return np.asarray(np.sqrt(estimates.var(axis=0) + own.mean(axis=0)))


# ---- scores of fine bins ----


def indicator(share: Share, lattice: ValueLattice, edges: Ints) -> Ints:
    """Return the scores of fine bins with these upper ends whose mean is a share."""
    return np.asarray(GRAIN * ((edges > share.edge(lattice)) == share.is_above).astype(np.int64))


@dataclass(frozen=True, eq=False)
class AskedPoints(ReadOnlyArrays):
    """Points of a distribution that statistics are read off, perhaps none.

    Attributes
    ----------
    levels : ndarray of float, shape (n_levels,)
        Levels of the quantiles, between 0 and 1.
    above : ndarray of bool, shape (n_thresholds, n_fine_bins)
        Bins above each threshold.
    """

    levels: Floats
    above: Bools

    @classmethod
    def of(cls, terms: Sequence[Term], lattice: ValueLattice, edges: Ints) -> AskedPoints:
        """Return the points of quantiles and shares, among fine bins with these upper ends."""
        levels = [float(term.level) for term in terms if isinstance(term, Quantile)]
        thresholds = [term.edge(lattice) for term in terms if isinstance(term, Share)]
        above = edges > np.unique(np.array(thresholds, dtype=np.int64))[:, None]
        return cls(np.array(levels), above)

    def ranks(self, shares: Floats) -> Floats:
        """Return the part of the points that lie below each bin: rising, from 0 to 1.

        A quantile within a bin lies below that part of the bin's records that is above it.

        Examples
        --------
        >>> points = AskedPoints(np.array([0.6]), np.array([[False, True, True]]))
        >>> points.ranks(np.array([0.5, 0.25, 0.25])).round(3).tolist()
        [0.05, 0.765, 0.975]
        """
        quantiles = (np.cumsum(shares) - self.levels[:, None]) / shares
        points = np.vstack([np.clip(quantiles, 0.0, 1.0), self.above])
        total = ALL_LEVELS * pooled_ranks(shares) + points.sum(axis=0)
        return np.asarray(total / (ALL_LEVELS + len(points)))


@dataclass(frozen=True, eq=False)
class PooledRankScores:
    """Ranks of fine bins among the points asked for, under the released shape.

    Attributes
    ----------
    shape : Component or ndarray of float
        The component that releases the shape, or the shares of fine bins of a published one.
    points : AskedPoints
    """

    shape: Component | Floats
    points: AskedPoints

    def __call__(self, earlier: Outputs) -> Ints:
        """Return the ranks, rounded: see `Component.scores`."""
        return np.rint(GRAIN * self.points.ranks(self.shares(earlier))).astype(np.int64)

    def shares(self, earlier: Outputs) -> Floats:
        """Return the released shares of fine bins."""
        if not isinstance(self.shape, Component):
            return self.shape
        plan: PooledShape = self.shape.plan  # type: ignore[assignment]
        return plan.bins.shares(self.shape.outputs(earlier))
