"""Error model of one statistic: the effect of noise and of clipping on each cell.

Everything is counted for bounds of width 1 and scaled at the end: by U for the mean, by U² for
the variance. Let a cell have N samples, and let x be what a user keeps, as a share of N. Then
d = 1 - Σ x is the share that is put at the middle of the bounds.

Mean: each user's mean is projected to an interval of width x N/m around the middle. Sensitivity x
per user; worst-case bias d/2 (exact: WC Lemma III.1 as corrected in ERRATA 14).
Variance: that of the samples with the share d placed at the middle, and d (1 - d) / 4 added.
Sensitivity at most x (1 - x) for x <= 1/2, else 1/4; worst-case bias at most d (1 - d) / 2 for
d <= 1/2, else 1/8 (ERRATA 10). Where nothing of the cell is put at the middle the sensitivity is
that of COMP Proposition III.1 with the user's own count, which is exact.
A statistic without noise is a constant: the middle of the bounds, and 1/8. The variance of a cell
of one record is 0 whatever the value is: it is published so, without noise, loss or error.

Noise floor: a lower bound on the error of every plan without clipping.

Noise floor: publish G cell means, each a public weighted average of user means (weights
non-negative, summing to one) plus independent Laplace noise of scale b_g. A user's loss is
U Σ_g w_gl / b_g. Summed over the L users that is U Σ_g 1/b_g, at most L ε; by the harmonic and
arithmetic mean the average b_g is at least U G / (ε L).

With Gaussian noise of deviation r_g a user costs U² Σ_g w_gl² / r_g² as a square of μ. The weights
of a cell sum to one over at most L users, so that their squares sum to at least 1 / L. Summed over
users that is at least U² Σ_g 1 / (L r_g²), and at most L M; by the power mean the average r_g is at
least U √G / (L √M).
"""

import math
from dataclasses import dataclass, field

import numpy as np

from hexveil.accounting.noise_law import GAUSSIAN, LAPLACE, NoiseLaw
from hexveil.accounting.sensitivity import variance_sensitivity_bound
from hexveil.base.arrays import Bools, Floats
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.model.occupancy import Occupancy
from hexveil.model.public_metadata import PublicMetadata

LN20 = math.log(20.0)
SECOND_MOMENT_ROUNDING = 2.0**-20 + 2.0**-30
"""What rounding may take from a second moment, as a part of the squared radius: it is counted in
parts of 2^-20, and a variance is published in parts of 2^-30
(mechanisms/looks/weighted_variance.py)."""
MAX_CONSTANT_ERROR = {"mean": 0.5, "variance": 0.125}
"""What a constant can miss, for bounds of width 1."""


def constant_error(name: str, occupancy: Occupancy) -> Floats:
    """Return the largest error of a constant in each cell, for bounds of width 1.

    Nothing where the constant is all there is to know: the variance of one record is 0.
    """
    largest = np.full(occupancy.n_cells, MAX_CONSTANT_ERROR[name])
    return np.where(has_single_record(occupancy), 0.0, largest) if name == "variance" else largest


def has_single_record(occupancy: Occupancy) -> Bools:
    """Return which cells have one record: their variance is 0 whatever its value is."""
    return np.asarray(occupancy.records_per_cell == 1)


def mean_bias(clipped_share: Floats) -> Floats:
    """Return the worst-case bias of the mean when a share `away` is put at the middle."""
    return np.asarray(clipped_share / 2.0)


def variance_bias(clipped_share: Floats) -> Floats:
    """Return the worst-case bias of the variance when a share `away` is put at the middle."""
    return variance_sensitivity_bound(clipped_share) / 2.0


def span_in_quanta(span: Floats, facts: PublicMetadata) -> Floats:
    """Return the width of each cell's bounds in quanta of the records."""
    return np.asarray(np.round(span / float(facts.lattice.quantum)))


def round_down_to_quanta(contribution: Floats, span_quanta: Floats) -> Floats:
    """Return contributed records, in whole quanta where they are not whole records."""
    # Whole records stay as they are: times the quanta and back would cost them a digit.
    return np.where(
        contribution != np.floor(contribution),
        np.floor(contribution * span_quanta) / span_quanta,
        contribution,
    )


WORST_CASE_BIAS = {"mean": mean_bias, "variance": variance_bias}


@dataclass(frozen=True, eq=False)
class ErrorModel(ReadOnlyArrays):
    """One statistic of every cell, in its own units: value units, or squared ones.

    Attributes
    ----------
    name : "mean" or "variance"
    unit : ndarray of float, shape (n_cells,)
        U or U²: what a figure for bounds of width 1 is multiplied by.
    noise : ndarray of float, shape (n_cells,)
        Scale of the noise for bounds of width 1; 0 where the statistic is a constant.
    clipped_share : ndarray of float, shape (n_cells,)
        Share of the cell's samples that is put at the middle.
    constant_error : ndarray of float, shape (n_cells,)
        What a constant can miss, for bounds of width 1; see `constant_error`.
    law : NoiseLaw
        Laplace, or Gaussian under a δ.
    """

    name: str
    unit: Floats
    noise: Floats
    clipped_share: Floats
    constant_error: Floats
    law: NoiseLaw = field(default=LAPLACE, kw_only=True)

    @property
    def noised(self) -> Bools:
        """Whether each cell's values are read for this statistic."""
        return self.noise > 0

    @property
    def informative(self) -> Bools:
        """Whether each cell's number says something of the cell: read, or known without reading."""
        return np.asarray(self.noised | (self.constant_error == 0))

    @property
    def scale(self) -> Floats:
        """Scale of each cell's noise: of Laplace noise, or a deviation; 0: a constant."""
        return np.asarray(self.unit * self.noise)

    @property
    def expected_noise(self) -> Floats:
        """Expected |noise| of each cell."""
        return np.asarray(self.scale * self.law.mean_absolute)

    @property
    def bias(self) -> Floats:
        """Worst-case bias of each cell."""
        return np.asarray(self.unit * np.where(self.noised, self._worst_share, self.constant_error))

    @property
    def _worst_share(self) -> Floats:
        """That of cells with noise, for bounds of width 1."""
        return np.asarray(WORST_CASE_BIAS[self.name](self.clipped_share))

    @property
    def error(self) -> Floats:
        """Planning error of each cell: worst-case bias plus expected |noise|."""
        return np.asarray(self.bias + self.expected_noise)

    @property
    def bound95(self) -> Floats:
        """Error of each cell not exceeded with probability 95 percent, whatever the values."""
        # P(|Laplace(b)| > b ln 20) = 1/20.
        return np.asarray(self.bias + self.scale * self.law.limit95)

    @property
    def graded_bound(self) -> Floats:
        """Bound by which each cell's quality is graded."""
        return self.bound95


@dataclass(frozen=True, eq=False)
class WeightedMeanErrorModel(ErrorModel):
    """A mean of user means in a private interval; its unit is the interval's width.

    Worst-case bias and the bound are about the mean of user means projected to the interval.

    Attributes
    ----------
    max_bias : ndarray of float, shape (n_cells,)
        The most that weights make each cell off by, for an interval of width 1.
    expected_bias : ndarray of float, shape (n_cells,)
        What weights and clipping make each cell off by, by the prior.
    """

    max_bias: Floats
    expected_bias: Floats

    @property
    def _worst_share(self) -> Floats:
        return self.max_bias

    @property
    def error(self) -> Floats:
        """Predicted error of each cell: likely bias plus expected |noise|."""
        expected = np.where(self.noised, self.expected_bias, self.constant_error)
        return np.asarray(self.unit * expected + self.expected_noise)


@dataclass(frozen=True, eq=False)
class WeightedVarianceErrorModel(WeightedMeanErrorModel):
    """A variance about the middle of a private interval; its unit is the squared radius r².

    It is a second moment M about the middle, less the square of the mean's distance x from it. Let
    h be half the interval's width and b the mean's Laplace scale. Published is
    M + noise - (x + e)² + 2 b², e the mean's noise, of which 2 b² is the expected square: so noise
    adds no bias. (Of Gaussian noise b is the deviation; 2 is then 1, and ln 40 its own limit.)
    Weights and rounding move M by at most r² (most + 2^-20), x by at most
    d = 2 h most + its rounding, and stay within h: x² moves by at most h² - (h - d)² for d <= h,
    else by h². Of Laplace noises each is beyond ln 40 of its scales with a chance of 1/40. With a
    chance of 95 percent neither is, and then |2 x e + e² - 2 b²| is at most
    2 h b ln 40 + (ln² 40 - 2) b², since |x| <= h: on the other side it is at most
    2 b² + (2 h |e| - e²), or 2 b² + h² where |e| may be above h, which is less.
    Worst-case bias and the bound are about Σ p min(q, r²) - (Σ p clip(mean) - middle)², p the
    users' shares of the records and q their second moments about the middle; it is at least 0
    (Jensen, with h <= r), and the variance itself where nothing was cut. What cuts it to a
    variance's range afterwards moves no two numbers further apart.

    Attributes
    ----------
    half_width : float
        h, as a part of the radius; at most 1.
    mean_noise : ndarray of float, shape (n_cells,)
        Scale of the mean's noise, as a part of 2 h.
    rounding : ndarray of float, shape (n_cells,)
        What rounding may take from the mean, as a part of h.
    """

    half_width: float
    mean_noise: Floats
    rounding: Floats

    @property
    def _worst_share(self) -> Floats:
        clipped_share = np.minimum(2.0 * self.max_bias + self.rounding, 1.0)
        mean = self.half_width**2 * clipped_share * (2.0 - clipped_share)
        return np.asarray(self.max_bias + SECOND_MOMENT_ROUNDING + mean)

    @property
    def bound95(self) -> Floats:
        """Error of each cell not exceeded with probability 95 percent, whatever the values."""
        b, limit = 2.0 * self.half_width * self.mean_noise, self.law.paired_limit95
        # The bound of |2 x e + e² - 2 b²| in the docstring, at |x| <= h and |e| <= b ln 40.
        mean = 2.0 * self.half_width * b * limit + (limit**2 - self.law.variance) * b**2
        return np.asarray(
            self.bias + self.scale * limit + self.unit * np.where(self.noised, mean, 0.0)
        )


@dataclass(frozen=True, eq=False)
class CellMechanismErrorModel(ErrorModel):
    """A mean that a mechanism of one cell publishes; its unit is the width of the bounds.

    Its error is predicted by one public prior, whatever the mechanism, so that errors compare. The
    worst case is in bias and bound: where no bias below the width of the bounds is proven, the bias
    is that width, since estimates before noise and means both lie within the bounds. Published
    numbers are projected to the bounds, so that the bound is at most their width, too.

    Attributes
    ----------
    reads_values : ndarray of bool, shape (n_cells,)
        Whether a stage reads each cell's values, with Laplace noise or by a private choice alone.
    proven : ndarray of bool, shape (n_cells,)
        Whether a bias below the width of the bounds may be proven.
    max_bias, predicted_error, error_bound95 : ndarray of float, shape (n_cells,)
        For bounds of width 1.
    """

    reads_values: Bools
    proven: Bools
    max_bias: Floats
    predicted_error: Floats
    error_bound95: Floats

    @property
    def noised(self) -> Bools:
        """Whether each cell's values are read for this statistic."""
        return self.reads_values

    @property
    def bias(self) -> Floats:
        """Worst-case bias of each cell."""
        return np.asarray(self.unit * self.max_bias)

    @property
    def error(self) -> Floats:
        """Mean absolute error of each cell that the prior predicts."""
        return np.asarray(self.unit * self.predicted_error)

    @property
    def bound95(self) -> Floats:
        """Error of each cell not exceeded with probability 95 percent, whatever the values."""
        return np.asarray(self.unit * np.minimum(self.error_bound95, 1.0))

    @property
    def graded_bound(self) -> Floats:
        """Bound by which each cell's quality is graded."""
        return predicted_bound(self.error, self.bound95)


def predicted_bound(error: Floats, bound95: Floats) -> Floats:
    """Return the 95% bound of each cell by its predicted error, if that is below the proven one.

    A bound that holds for all values says little of likely ones. The prediction is of a mean
    absolute error; as that of Laplace noise it is exceeded ln 20 times with probability 5 percent.
    """
    return np.minimum(error * LN20, bound95)


PRIOR_SHARE = 20
"""Default prior: cells differ from one constant by span / 20 on average."""


def noise_floor(span: float, n_cells: int, n_users: int, epsilon: float) -> float:
    """Mean |noise| below which no unclipped map can fall, in value units: U G / (ε L).

    Examples
    --------
    >>> round(noise_floor(90.0, 26, 1565, 1.0), 3)
    1.495
    """
    return span * n_cells / (epsilon * n_users)


def gaussian_noise_floor(span: float, n_cells: int, n_users: int, square: float) -> float:
    """Mean |noise| below which no unclipped map can fall under (ε, δ), in value units.

    Parameters
    ----------
    span : float
    n_cells, n_users : int
    square : float
        M, the square of μ that no user exceeds.

    Examples
    --------
    >>> round(gaussian_noise_floor(90.0, 26, 1565, 0.056), 3)
    0.989
    """
    deviation = span * math.sqrt(n_cells) / (n_users * math.sqrt(square))
    return GAUSSIAN.mean_absolute * deviation
