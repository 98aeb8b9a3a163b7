"""The law of user means in a cell: two-piece normal, censored at the bounds of the values.

Symbols: X a two-piece normal number of mode M with deviations s- below and s+ above it,
z = (x - M) / s, Φ and φ the normal law and its density, T the mean of X censored at the bounds.

Noisy numbers of cells, and the public facts that their likelihood needs.

Quantiles of laws in bins, and bins that follow a law: a row for each cell.
"""

import math
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import TypeVar

import numpy as np

from hexveil.base.arrays import Floats, Ints
from hexveil.base.normal_law import ndtr
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.model.occupancy import PairColumn, Pairs
from hexveil.model.pair_columns import Weights

WEIGHT_DRIFT = 0.25
"""Deviations by which users whose weight rises may differ from those whose weight falls."""


@dataclass(frozen=True, eq=False)
class ClippedLook(ReadOnlyArrays):
    """A noisy weighted average of user means per cell, clipped to a range per cell.

    Attributes
    ----------
    noisy : ndarray of float, shape (n_cells,)
        Value units; not read where the scale is infinite.
    lower, upper : ndarray of float, shape (n_cells,)
        Ends of each cell's range, value units.
    scale : ndarray of float, shape (n_cells,)
        Scale of the Laplace noise, value units; infinite where the cell was not looked at.
    is_gaussian : bool
        Whether the noise is Gaussian, and `scale` its standard deviation.
    """

    noisy: Floats
    lower: Floats
    upper: Floats
    scale: Floats
    is_gaussian: bool = False


@dataclass(frozen=True, eq=False)
class RatioLook(ClippedLook):
    """A noisy average whose weight is noisy too: the position in the range is a ratio D / W.

    With X and Y the noise of the weights above and below, D - z W = (1 - z) X - (1 + z) Y has a
    known law for the ratio z without noise, whatever the weight is.

    Attributes
    ----------
    weight : ndarray of float, shape (n_cells,)
        Noisy W, in the unit of the scale; `noisy` is D in the same unit.
    """

    weight: Floats = field(kw_only=True)


@dataclass(frozen=True, eq=False)
class CellDesign(ReadOnlyArrays):
    """Public facts of each cell: its users, and how far weights are from shares of records.

    Attributes
    ----------
    users : ndarray of int64, shape (n_cells,)
    weight_squares, share_squares : ndarray of float, shape (n_cells,)
        Σw² and Σp², both w and p adding up to one.
    difference_squares, difference : ndarray of float, shape (n_cells,)
        Σ(w - p)² and Σ|w - p|.
    """

    users: Ints
    weight_squares: Floats
    share_squares: Floats
    difference_squares: Floats
    difference: Floats

    @classmethod
    def of(cls, weight: Weights) -> "CellDesign":
        """Return the facts of cells in which pairs have whole weights.

        Parameters
        ----------
        weight : Weights
            At least one of each cell above 0.

        Examples
        --------
        >>> from hexveil.model.pair_columns import FactoredWeights
        >>> from hexveil.model.occupancy import LocalOccupancy
        >>> crowd = LocalOccupancy.from_dense([[3], [1]])
        >>> CellDesign.of(FactoredWeights(crowd, np.array([1 / 3, 1]), np.array([0.5]))).difference
        array([0.5])
        """
        records = weight.occupancy.records_per_cell
        work = partial(_design_sums, weights=weight.column, records=records)
        sums = weight.once("design", lambda: weight.occupancy.map_cells(work))
        return cls(weight.occupancy.users_per_cell, *sums)


T = TypeVar("T", bound=ReadOnlyArrays)


def take_rows(arrays: T, rows: slice | Ints) -> T:
    """Return a dataclass of arrays with an entry per cell, of some of the cells."""
    columns = {one.name: getattr(arrays, one.name) for one in fields(arrays)}  # type: ignore[arg-type]  # all are dataclasses
    taken = {name: array[rows] for name, array in columns.items() if isinstance(array, np.ndarray)}
    return replace(arrays, **taken)  # type: ignore[type-var]  # all are dataclasses


def _design_sums(pairs: Pairs, *, weights: PairColumn, records: Ints) -> tuple[Floats, ...]:
    begin, weight = pairs.start[:-1], weights.of(pairs)
    w, p = weight / pairs.repeat(np.add.reduceat(weight, begin)), pairs.n / pairs.spread(records)
    return (
        np.add.reduceat(w * w, begin),
        np.add.reduceat(p * p, begin),
        np.add.reduceat((w - p) ** 2, begin),
        np.add.reduceat(np.abs(w - p), begin),
    )


EVEN_SHARE = 0.2
"""Share of the bins of a later grid that stay evenly spaced."""


def invert_rows(edges: Floats, masses: Floats, levels: Floats) -> Floats:
    """Return the points at which each row's distribution reaches the levels, linear within bins.

    Parameters
    ----------
    edges : ndarray of float, shape (n_cells, n_bins + 1)
    masses : ndarray of float, shape (n_cells, n_bins)
    levels : ndarray of float, shape (n_cells, n_levels)
    """
    rows, bins = masses.shape
    below = np.zeros_like(edges)
    np.cumsum(masses, axis=1, out=below[:, 1:])
    below = np.minimum(below / below[:, -1:], 1.0)
    # All rows in one search: each is moved to numbers of its own.
    offset = 2.0 * np.arange(rows)[:, None]
    place = np.searchsorted((below + offset)[:, 1:].ravel(), (levels + offset).ravel())
    k = np.clip(place.reshape(levels.shape) - bins * np.arange(rows)[:, None], 0, bins - 1)
    start, mass = np.take_along_axis(below, k, axis=1), np.take_along_axis(masses, k, axis=1)
    share = np.clip((levels - start) / np.maximum(mass, 1e-300), 0.0, 1.0)
    low, high = np.take_along_axis(edges, k, axis=1), np.take_along_axis(edges, k + 1, axis=1)
    return np.asarray(low + share * (high - low))


def refine(edges: Floats, masses: Floats) -> Floats:
    """Return edges between which a mixture of the masses and of an even law is the same.

    Parameters
    ----------
    edges : ndarray of float, shape (n_cells, n_bins + 1)
    masses : ndarray of float, shape (n_cells, n_bins)
        Adding up to one in each cell.
    """
    even = np.diff(edges, axis=1) / (edges[:, -1:] - edges[:, :1])
    levels = np.linspace(0.0, 1.0, edges.shape[1])
    mixture = (1.0 - EVEN_SHARE) * masses + EVEN_SHARE * even
    return invert_rows(edges, mixture, np.broadcast_to(levels, edges.shape))


WITHIN_SHARE = 0.85
"""Deviation of user means within a cell where it was not measured, as a part of the pooled one."""
SMALLEST_SPREAD = 1.0 / 256.0
"""Smallest deviation of user means, as a part of the span."""
SMALLEST_SAMPLE = 1e-4
"""Smallest factor 1 - Σp²: the law of a cell of one user would be a point."""
TABLE_STEPS, NEWTON_STEPS, LEAST_SLOPE = 96, 2, 0.05
"""Steps of the table in which modes of means are looked up, and of Newton's method after that;
slope below which it stays near the table."""


@dataclass(frozen=True)
class UserMeanSpread:
    """Released centre and deviations of user means.

    Attributes
    ----------
    centre : float
        Median of all user means, value units.
    below, above : float
        Standard deviations on either side, of normal laws.
    within : float or None
        Standard deviation of user means within a cell; None where it was not measured.
    """

    centre: float
    below: float
    above: float
    within: float | None = None

    def pooled(self, span: float) -> float:
        """Return the mean of both deviations."""
        return max((self.below + self.above) / 2.0, SMALLEST_SPREAD * span)

    def within_cells(self, bounds: tuple[float, float]) -> tuple[float, float]:
        """Return the deviations below and above within a cell, as asymmetric as the pooled ones."""
        span = bounds[1] - bounds[0]
        pooled = self.pooled(span)
        within = WITHIN_SHARE * pooled if self.within is None else self.within
        within = max(within, SMALLEST_SPREAD * span)
        # Neither side below a quarter of their mean: user means may be at the centre itself.
        below = min(max(self.below / pooled, 0.25), 1.75)
        return within * below, within * (2.0 - below)


@dataclass(frozen=True, eq=False)
class ClippedMoments:
    """Moments of clipped user means, for each mode of each cell.

    Attributes
    ----------
    mean, variance : ndarray of float, shape (n_cells, n_points)
    inside : ndarray of float, shape (n_cells, n_points)
        Probability that a user mean is not clipped: the slope of the mean in the mode.
    log_slope : ndarray of float, shape (n_cells, n_points)
        Slope of the mean in the logarithm of the deviations, for a law without skew.
    """

    mean: Floats
    variance: Floats
    inside: Floats
    log_slope: Floats


@dataclass(frozen=True, eq=False)
class UserMeanLaw:
    """The law of user means in some cells, two-piece normal and censored at the bounds.

    Attributes
    ----------
    below, above : ndarray of float, shape (n_cells, 1)
        s- and s+.
    bounds : pair of float
    """

    below: Floats
    above: Floats
    bounds: tuple[float, float]

    @classmethod
    def of(
        cls, design: CellDesign, spread: UserMeanSpread, bounds: tuple[float, float]
    ) -> "UserMeanLaw":
        """Return the law around the mean of the cell's own users."""
        below, above = spread.within_cells(bounds)
        factor = np.sqrt(np.maximum(1.0 - design.share_squares, SMALLEST_SAMPLE))[:, None]
        return cls(below * factor, above * factor, bounds)

    def scaled(self, multiple: float) -> "UserMeanLaw":
        """Return the law with other deviations."""
        return UserMeanLaw(self.below * multiple, self.above * multiple, self.bounds)

    @property
    def deviation(self) -> Floats:
        """Mean of both deviations, shape (n_cells, 1)."""
        return np.asarray((self.below + self.above) / 2.0)

    def cut(self, mode: Floats, x: Floats | float) -> tuple[Floats, Floats, Floats, Floats]:
        """Return E(x - X)+ and E((x - X)+)², P(X < x), and the derivative of the first in log s.

        Parameters
        ----------
        mode : ndarray of float, shape (n_cells, n_points)
        x : ndarray of float, shape (n_cells, 1), or float
        """
        lower = x < mode
        sd = np.where(lower, self.below, self.above)
        share = sd / self.deviation
        z = (x - mode) / sd
        tail, density = ndtr(-np.abs(z)), np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
        # Moments of the part of the law beyond x, on its own side of the mode.
        beyond = share * sd * (density - np.abs(z) * tail)
        squares = share * sd * sd * ((1.0 + z * z) * tail - np.abs(z) * density)
        mean = mode + self._mean_above_mode
        # E(x - X)+ = (x - E X) + E(X - x)+, and alike for squares.
        whole = self._variance + (x - mean) ** 2
        first = np.where(lower, beyond, x - mean + beyond)
        second = np.where(lower, squares, whole - squares)
        below = np.where(lower, share * tail, 1.0 - share * tail)
        return first, second, below, share * sd * density

    @property
    def _mean_above_mode(self) -> Floats:
        return np.asarray(math.sqrt(2.0 / math.pi) * (self.above - self.below))

    @property
    def _variance(self) -> Floats:
        skewed = (1.0 - 2.0 / math.pi) * (self.above - self.below) ** 2
        return np.asarray(skewed + self.above * self.below)

    def mean(self, mode: Floats) -> Floats:
        """Return T of each mode, shape (n_cells, n_points)."""
        return self.clipped(mode, *self.bounds).mean

    def clipped(self, mode: Floats, low: Floats | float, high: Floats | float) -> ClippedMoments:
        """Return moments of user means clipped to a range, for each mode of each cell.

        Parameters
        ----------
        mode : ndarray of float, shape (n_cells, n_points)
        low, high : ndarray of float, shape (n_cells, 1), or float
        """
        first_low, second_low, below_low, log_low = self.cut(mode, low)
        first_high, second_high, below_high, log_high = self.cut(mode, high)
        mean = high - first_high + first_low
        # (high - clipped)² = (high - X)+² - (low - X)+² - 2 (high - low) (low - X)+
        square = second_high - second_low - 2.0 * (high - low) * first_low
        variance = np.maximum(square - (high - mean) ** 2, 0.0)
        return ClippedMoments(mean, variance, below_high - below_low, log_low - log_high)

    def modes(self, means: Floats) -> Floats:
        """Return the modes that have these means, shape (n_cells, n_points)."""
        low, high = self.bounds
        table = self.edge_modes(TABLE_STEPS)
        reached = np.maximum.accumulate(self.mean(table), axis=1)
        span = reached[:, -1:] - reached[:, :1]
        modes = invert_rows(table, np.diff(reached, axis=1), (means - reached[:, :1]) / span)
        # Steps of Newton's method: the table is linear between its points.
        for _ in range(NEWTON_STEPS):
            reached_there = self.clipped(modes, low, high)
            slope = np.maximum(reached_there.inside, LEAST_SLOPE)
            modes = modes + (means - reached_there.mean) / slope
        return modes

    def edge_modes(self, bins: int) -> Floats:
        """Return evenly spaced modes with means T from one bound to the other."""
        low, high = self.bounds
        step = np.linspace(0.0, 1.0, bins + 1)
        first, final = low - 5.0 * self.above, high + 5.0 * self.below
        return np.asarray(first + (final - first) * step)
