"""Weighted variances in a private clipping range: one integer per cell from private sums.

Let the interval be [a, b] in quanta above the lower bound of the records, chosen privately or all
of the bounds; c its middle, r the radius around it (`centre_and_radius` in
mechanisms/stage_data.py): whole numbers, functions of a and b and of public facts. A pair with
m records k_j has the second moment about c

    q = Σ (k_j - c)² = ss - 2 c s + m c²,

from its three sums, and with the whole weight W it contributes

    v = W floor(2^20 min(q, m r²) / (m r²)).

The cell's statistic is Y = Σ v, its noise discrete Laplace of scale R. With y the mean's noisy
number (mechanisms/looks/weighted_mean.py), x = y / Σ W - c and B the mean's noise scale over
Σ W, published is

    quantum² (r² (Y + noise) / (2^20 Σ W) - x² + 2 B²),

to the nearest part of 2^-30 of r²: 2 B² is what the mean's noise adds to x² on average. No record
is read again, and everything after both noises is a function of noisy numbers and public facts.
How far that can be from which variance: accounting/error_model.py, `WeightedVarianceErrorModel`.

Neighbours: all values of one user, in all its cells at once, change within the bounds; users
and counts stay. Then only this user's contributions change. v is a whole number between 0 and
2^20 W and reaches both (all samples at c; all as far from it as the bounds are, which is r at
least): the sensitivity 2^20 W is exact, whatever the interval.
Loss: cells and statistics have independent noise, and discrete Laplace of scale R at integer
distance d costs at most d / R (mechanisms/noise.py). R is 2^20 (Σ W) n rounded up, n the plan's
noise for a radius of 1: a cell costs at most W / (n Σ W) here and W / (n' Σ W) for its mean, n' the
mean's noise, which is always drawn; the plan books the sum of both, and what the interval costs,
in one sum (planning/plan.py). Under a δ noise is Gaussian, 2 B² above is B², and squares of μ add
up (accounting/moves.py). Losses add up whatever earlier outputs chose (ledger/odometer.py).
What is used of the sums: that they are those of m real values within the bounds
(records/feasible_sums.py), so that 0 <= q <= m max(c, S - c)², S the width of the bounds in quanta.
The variance of a cell of one record is 0: the plan has no noise for it, charges nothing, and no
value is looked at; the door gets a 0 in its place, and what comes back is not shown. Whole numbers:
m S² is below 2^62 where squares are kept, so that q, its terms two at a time and m r² stay within
64 bits; the division is done bit by bit, without rounding. Source: as for
mechanisms/looks/weighted_mean.py, of squares; ERRATA 3 for the accounting.

Predicted errors of variances under a private interval, and how the loss is split.

A user of weight w moves the average of second moments by w r², so that noise grows with the square
of r; a small r cuts much. What is assumed of values beside what `user_weights` assumes: samples of
one user in one cell spread around their mean as user means spread. With the user means' own
deviation as the unit and m samples of a user, its second moment is Z² + 1 - 1/m, Z normal, and what
the radius k cuts of it is known in closed form (`expected_excess`). What the mean's noise and its
likely bias make the variance off by is 2 |mean - c| times theirs, and the noise's square.

The split is one for all cells: with noises n/φ for the mean and n/(1 - φ) for the second moment a
user of weight w loses w/n in a cell, whatever φ is. A prior that does not fit costs accuracy, never
privacy.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from hexveil.accounting.error_model import has_single_record
from hexveil.accounting.moves import StatisticMoves
from hexveil.accounting.noise_law import LAPLACE, NoiseLaw
from hexveil.base.arrays import Bools, Floats, Ints
from hexveil.base.errors import InputError
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.mechanisms.looks import user_weights
from hexveil.mechanisms.looks.clipped_variance import NO_SQUARES
from hexveil.mechanisms.looks.weighted_mean import WeightedMean, laplace_scales, weighted_moves
from hexveil.mechanisms.stage_data import ROOM, TAIL, EstimateGrid, PrivateSums, centre_and_radius
from hexveil.model.occupancy import PairColumn, Pairs
from hexveil.model.pair_bins import PairSums
from hexveil.model.pair_columns import Weights

BITS = 20
"""A second moment is counted in parts of 2^-20 of the squared radius."""
SHOWN = 2**30
"""A published variance is a whole number of parts of the squared radius, this many of them."""


def contributions(sums: tuple[Ints, Ints, Ints], weight: Ints, middle: int, radius: int) -> Ints:
    """Return v of each pair, from its count, its sum and its sum of squares. PRIVATE.

    Examples
    --------
    >>> whole = [np.array([one]) for one in (2, 7, 29, 3)]  # samples 2 and 5
    >>> (contributions(tuple(whole[:3]), whole[3], 4, 10) / 2**20).round(3)
    array([0.075])
    >>> contributions(tuple(whole[:3]), whole[3], 9, 5) // 2**20
    array([3])
    """
    n, total, squares = sums
    # In this order each partial sum stays within 64 bits where squares are kept.
    about = (squares - 2 * middle * total) + middle**2 * n
    largest = n * radius**2
    # One digit of the quotient after the other: 2^20 q itself would not fit.
    share, remainder = np.divmod(np.minimum(about, largest), largest)
    for _ in range(BITS):
        remainder = 2 * remainder
        digit = remainder >= largest
        remainder -= largest * digit
        share = 2 * share + digit
    return np.asarray(weight * share, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class WeightedVariance(ReadOnlyArrays):
    """The public side of variances about the middle of a private range.

    Attributes
    ----------
    mean : WeightedMean
        The means of the same cells; weights are those of both.
    noise : ndarray of float, shape (n_cells,)
        Laplace scale of each second moment for a radius of 1; 0 in cells of one record.
    radius : Fraction
        Radius in halves of the range's width.
    law : NoiseLaw
    """

    mean: WeightedMean
    noise: Floats
    radius: Fraction
    law: NoiseLaw = LAPLACE

    @property
    def scales(self) -> Floats:
        """R of each cell, its noise rounded up: the same for every range.

        Noise of any scale is as good for a cell whose number is 0 whatever the values are.
        """
        scales = laplace_scales(self.noise, self.mean.totals, 2**BITS)
        return np.where(self.noise > 0, scales, 1.0)

    @property
    def moves(self) -> StatisticMoves:
        """By how many parts a pair moves its cell's number: by 2^20 W, exactly."""
        width = self._varies * np.int64(2**BITS)
        return weighted_moves(self.mean.weight, width, np.ones(width.size))

    def measure(self, sums: PrivateSums, ends: tuple[int, int], lattice_steps: int) -> Ints:
        """Return Y of every cell, shape (batch, n_cells). PRIVATE.

        Privacy
        -------
        It leaves only through the noise door. One user moves entry g by at most 2^20 W, which it
        can (module head).
        """
        middle, _, radius = centre_and_radius(ends, lattice_steps, self.radius)
        weights, varies = self.mean.weight.column, self._varies
        work = partial(_measure, weights=weights, varies=varies, middle=middle, radius=radius)
        return sums.map_cells(self.mean.occupancy, work)

    @property
    def _varies(self) -> NDArray[np.bool_]:
        """Return which cells have a variance to measure."""
        return ~has_single_record(self.mean.occupancy)

    def estimates(
        self, noisy: Ints, noisy_mean: Ints, ends: tuple[int, int], lattice_steps: int
    ) -> Floats:
        """Return the published variance of each cell as a part of the squared radius."""
        total = self.mean.totals
        middle, _, radius = centre_and_radius(ends, lattice_steps, self.radius)
        second_moment = noisy / (total * 2.0**BITS)
        distance = (noisy_mean - middle * total) / (total * float(radius))
        # The square of a noisy number is larger by the variance of its noise on average:
        # without it variances would come out too small.
        b = self.mean.scales(ends[1] - ends[0]) / (total * float(radius))
        # On a stated grid: late digits of doubles differ between processors.
        rounded = np.round((second_moment - distance**2 + self.law.variance * b**2) * SHOWN)
        return np.where(self.noise > 0, rounded, 0.0)

    def grid(self, unit: Floats) -> EstimateGrid:
        """Return where published variances can lie, for a squared radius in value units."""
        step = np.where(self.noise > 0, unit / SHOWN, 0.0)
        return EstimateGrid(np.zeros_like(step), step)

    def check(self, epsilon: float, *, has_squares: bool) -> None:
        """Refuse, from public facts, variances that cannot be computed or noised.

        Raises
        ------
        InputError
            If a cell has no noise, there are no sums of squares, or statistic and noise could
            leave 64 bits.
        """
        single_record = has_single_record(self.mean.occupancy)
        if not (np.isfinite(self.noise) & ((self.noise > 0) ^ single_record)).all():
            raise InputError("the plan has a variance without noise, or noise for one record's.")
        if not has_squares:
            raise InputError(NO_SQUARES)
        if not (2.0**BITS * self.mean.totals + TAIL * self.scales < ROOM).all():
            raise InputError(
                f"noise of variances for epsilon {epsilon:.3g} does not fit whole numbers of "
                "64 bits; ask for a larger epsilon."
            )


def _measure(
    pairs: Pairs,
    sums: PairSums,
    *,
    weights: PairColumn,
    varies: NDArray[np.bool_],
    middle: int,
    radius: int,
) -> Ints:
    """Return the sums of second moments of the cells of a block. PRIVATE."""
    assert sums.squares is not None  # noqa: S101  checked with the plan
    weight = np.where(varies[pairs.cell], weights.of(pairs), 0)
    contribution = contributions((pairs.n, sums.total, sums.squares), weight, middle, radius)
    return np.asarray(np.add.reduceat(contribution, pairs.start[:-1]))


MEAN_CELL_OFFSET = math.sqrt(2.0 / math.pi * (1.0 - user_weights.WITHIN_CELL_SHARE**2))
"""Expected distance of a cell's mean from the centre by the prior, in deviations of user means."""


def split_noise(noise: Floats, split: float, known: Bools, law: NoiseLaw) -> tuple[Floats, Floats]:
    """Return the noise of both statistics, for the noise of one that has all of the loss."""
    parts = split, 1.0 - split
    # Squares of μ fall with the square of Gaussian noise, pure losses with Laplace noise itself.
    mean, square = (noise / part ** (1.0 / law.power) for part in parts)
    # The variance of one record is 0: the mean has all of the loss there.
    return np.where(known, noise, mean), np.where(known, 0.0, square)


def error_through_mean(
    half: float, deviations: float, noise: Floats, likely: Floats, law: NoiseLaw
) -> Floats:
    """Return the expected error of the variance by the mean's noise and bias, in units of r².

    Parameters
    ----------
    half : float
        Half of the interval's width, as a part of the radius.
    deviations : float
        The radius in deviations of user means.
    noise, likely : ndarray of float, shape (n_cells,)
        Scale and likely bias of the mean, for an interval of width 1.
    law : NoiseLaw
    """
    b, bias = (2.0 * half * one for one in (noise, likely))
    return np.asarray(
        2.0 * MEAN_CELL_OFFSET / deviations * np.hypot(law.mean_absolute * b, bias)
        + law.absolute_excess * b**2
    )


def expected_excess(k: float, n: Floats) -> Floats:
    """Return the average clipping of second moments of users with n samples at radius k.

    E max(Z² + 1 - 1/n - k², 0), Z normal; in squared deviations of user means.

    Examples
    --------
    >>> expected_excess(0.0, np.array([1.0, 2.0])), expected_excess(9.0, np.array([1.0])) < 1e-9
    (array([1. , 1.5]), array([ True]))
    """
    level = k**2 - 1.0 + 1.0 / n
    root = np.sqrt(np.maximum(level, 0.0))
    tail = np.array([0.5 * math.erfc(one / math.sqrt(2.0)) for one in root.tolist()])
    density = np.exp(-(root**2) / 2.0) / math.sqrt(2.0 * math.pi)
    return np.asarray(2.0 * ((1.0 - root**2) * tail + root * density) - np.minimum(level, 0.0))


def errors_without_noise(weight: Weights, radii: tuple[float, ...]) -> list[Floats]:
    """Return each cell's expected bias by weights and radius, of some radii in deviations.

    As a part of r².
    """
    priors = (1.0, 0.0), (0.0, user_weights.WEIGHT_CONFOUNDING)
    of_spread, of_drift = (
        user_weights.expected_bias(weight, user_weights.UserMeanPrior(*prior)) for prior in priors
    )
    work = partial(_excess, weights=weight.column, totals=weight.totals, radii=radii)
    cut = weight.once(f"excess {radii!r}", lambda: weight.occupancy.map_cells(work))
    # Z² has a variance of 2; nothing in [0, 1] deviates by more than a half.
    return [
        np.hypot(min(math.sqrt(2.0) / k**2, 0.5) * of_spread + of_drift, cut[:, column] / k**2)
        for column, k in enumerate(radii)
    ]


def _excess(pairs: Pairs, *, weights: PairColumn, totals: Ints, radii: tuple[float, ...]) -> Floats:
    """Return the clipping error of each radius per cell, in squared deviations of user means."""
    counts, which = np.unique(pairs.n, return_inverse=True)
    share, begin = weights.of(pairs) / pairs.spread(totals), pairs.start[:-1]
    excess = (expected_excess(k, counts.astype(np.float64))[which] for k in radii)
    return np.stack([np.add.reduceat(share * one, begin) for one in excess], axis=1)
