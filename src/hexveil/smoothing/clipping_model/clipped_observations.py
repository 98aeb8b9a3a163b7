"""Noisy averages of clipped user means, and their likelihood for each mean of a cell.

Model of a cell: user means follow a two-piece normal law of mode M, deviations s- below and s+
above it, censored at the bounds of the values. T is its mean, and of a range [a, b] a look shows

    m(T; a, b) + Laplace(scale) + N(0, misfit²),    m the mean after clipping to [a, b].

Both T and m rise with M, so that M is the coordinate of all grids: evenly spaced in M, points crowd
together where T comes close to a bound. T is the mean of the very users of the cell, weighted by
their shares p of the records; around it these vary less than around the mean of their law, by
1 - Σp² in the variance. The misfit is the sum, in squares, of

- sampling: the variance of clipped user means that T does not explain, times Σw²;
- weights w that differ from p: (s² Σ(w - p)²), and a systematic part of Σ|w - p|;
- a within-cell deviation that differs from the pooled one;
- tails heavier than normal: beyond a cut at distance d an exponential law has s exp(-1 - d/s) more.

What is known of a cell: cell_looks.py.

The law of user means in a cell: two-piece normal, censored at the bounds of the values.

Symbols: X a two-piece normal number of mode M with deviations s- below and s+ above it,
z = (x - M) / s, Φ and φ the normal law and its density, T the mean of X censored at the bounds.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hexveil.base.arrays import Floats
from hexveil.smoothing.clipping_model.bin_quantiles import invert_rows
from hexveil.smoothing.clipping_model.cell_looks import CellDesign, ClippedLook
from hexveil.smoothing.mixed_noise import log_mean_density

WEIGHT_DRIFT = 0.25
"""Deviations by which users whose weight rises may differ from those whose weight falls."""
SPREAD_MULTIPLES = ((1.0, 0.5), (0.5, 0.25), (2.0, 0.25))
"""Multiples of the within-cell deviation that a cell may have, with their prior probabilities."""
LOG_SPREAD_SD = 0.2
"""Standard deviation of the logarithm of the within-cell deviation around these multiples."""
TAIL_EXCESS = 1.2
"""Multiple of the exponential tail that is allowed for beyond each cut."""
SMALLEST_INSIDE = 1e-9
"""Smallest probability that a user mean is within the bounds."""
SMALLEST_NOISE = 2.0**-24
"""Smallest misfit and scale, as parts of the span."""


@dataclass(frozen=True, eq=False)
class LookModel:
    """Expected look and misfit of each mode of each cell.

    Attributes
    ----------
    expected, misfit_squares : ndarray of float, shape (n_cells, n_points)
    slope : ndarray of float, shape (n_cells, n_points)
        Of the expected look in T, between 0 and 1.
    """

    expected: Floats
    misfit_squares: Floats
    slope: Floats


def model_look(
    law: "UserMeanLaw",
    design: CellDesign,
    mode: Floats,
    ends: tuple[Floats, Floats],
    whole: "ClippedMoments",
) -> LookModel:
    """Return the expected look of each mode of each cell, and the variance of the misfit.

    Parameters
    ----------
    law : UserMeanLaw
    design : CellDesign
    mode : ndarray of float, shape (n_cells, n_points)
    ends : pair of ndarray of float, shape (n_cells,)
        Clipping range.
    whole : ClippedMoments
        Of the bounds of the values, for the same modes.
    """
    low, high = ends[0][:, None], ends[1][:, None]
    own = law.clipped(mode, low, high)
    slope = np.minimum(own.inside / np.maximum(whole.inside, SMALLEST_INSIDE), 1.0)
    sampling = np.maximum(own.variance - slope**2 * whole.variance, 0.0)
    weights = design.difference_squares + (WEIGHT_DRIFT * design.difference) ** 2
    misfit = (
        sampling * design.weight_squares[:, None]
        + law.deviation**2 * weights[:, None]
        + (LOG_SPREAD_SD * (own.log_slope - slope * whole.log_slope)) ** 2
        + _tails(law, mode, own.mean, low, high)
    )
    return LookModel(own.mean, misfit, slope)


def _tails(law: "UserMeanLaw", mode: Floats, expected: Floats, low: Floats, high: Floats) -> Floats:
    """Return the variance that is allowed for tails beyond both cuts."""
    total = np.zeros_like(mode)
    bottom, top = law.bounds
    for distance, room, end, sd in (
        (mode - low, low - bottom, expected - low, law.below),
        (high - mode, top - high, high - expected, law.above),
    ):
        excess = sd * np.exp(np.minimum(-1.0 - distance / sd, 0.0))
        # A cut moves nobody further than to the bound, and the average no further than the end.
        allowed = np.minimum(np.minimum(excess, end), np.maximum(room, 0.0))
        total += (TAIL_EXCESS * np.maximum(allowed, 0.0)) ** 2
    return total


def mixed_likelihood(
    law: "UserMeanLaw", design: CellDesign, looks: Sequence[ClippedLook], edges: Floats
) -> tuple[Floats, Floats]:
    """Return the edges of bins as means, and the likelihood of all looks in each bin.

    It is averaged over the within-cell deviations that a cell may have, and at most 1 in a cell.

    Parameters
    ----------
    law : UserMeanLaw
    design : CellDesign
    looks : sequence of ClippedLook
    edges : ndarray of float, shape (n_cells, n_bins + 1)
        Edges of bins, as modes of the law.
    """
    own = law.clipped(edges, *law.bounds)
    means = own.mean.copy()
    means[:, 0], means[:, -1] = law.bounds
    total = np.full((edges.shape[0], edges.shape[1] - 1), -np.inf)
    for multiple, share in SPREAD_MULTIPLES:
        as_laid = multiple == 1.0
        scaled = law if as_laid else law.scaled(multiple)
        modes = edges if as_laid else scaled.modes(means)
        whole = own if as_laid else scaled.clipped(modes, *scaled.bounds)
        log_density = np.full(total.shape, math.log(share))
        for look in looks:
            log_density += log_likelihood(scaled, design, look, modes, whole)
        total = np.logaddexp(total, log_density)
    return means, np.exp(total - np.max(total, axis=1, keepdims=True))


def log_likelihood(
    law: "UserMeanLaw",
    design: CellDesign,
    look: ClippedLook,
    edges: Floats,
    whole: "ClippedMoments",
) -> Floats:
    """Return the log likelihood of a look in each bin of the grid, shape (n_cells, n_bins).

    Parameters
    ----------
    law : UserMeanLaw
    design : CellDesign
    look : ClippedLook
    edges : ndarray of float, shape (n_cells, n_bins + 1)
        Edges of bins of M.
    whole : ClippedMoments
        Of the bounds of the values, at these edges.
    """
    span = law.bounds[1] - law.bounds[0]
    modelled = model_look(law, design, edges, (look.lower, look.upper), whole)
    m, v = modelled.expected, modelled.misfit_squares
    misfit = (v[:, 1:] + v[:, :-1]) / 2.0
    silent = np.isinf(look.scale)
    # An average of clipped values lies within the range, so that noise alone leads beyond it:
    # further out all means are as likely, relative to each other, as at the end.
    noisy = np.clip(np.where(silent, look.lower, look.noisy), look.lower, look.upper)[:, None]
    scale = np.maximum(np.where(silent, span, look.scale), SMALLEST_NOISE * span)[:, None]
    normal = np.sqrt(misfit + (SMALLEST_NOISE * span) ** 2)
    if look.is_gaussian:
        # Gaussian noise and misfit are one normal number; the Laplace part is next to nothing.
        normal, scale = np.hypot(normal, scale), np.full_like(scale, SMALLEST_NOISE * span)
    density = log_mean_density(noisy - m[:, 1:], noisy - m[:, :-1], scale, normal)
    return np.where(silent[:, None], 0.0, density)


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
    within: float | None

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
        from scipy.special import ndtr  # noqa: PLC0415  importing hexveil must stay light

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
        first, last = low - 5.0 * self.above, high + 5.0 * self.below
        return np.asarray(first + (last - first) * step)
