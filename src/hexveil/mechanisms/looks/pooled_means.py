"""Pooled histogram of user means, and their spread within cells: one bound on the votes of a user.

A user casts at most PARTS votes over all its pairs (`pair_votes`), in both stages. The
histogram (its proof is below) gives the range of the first look and the law of user means; these
follow from its noisy votes and public facts, and are stored with them.

The spread within cells is measured before any cell has a centre: as a quantile of the distances
between the means of two users of one cell, by a rank choice of `private_quantile`. Who is
compared with whom is public (`partners`), so a distance is moved by both of its users alone. In a
cell of k users each is compared with two others, and a distance has half the votes of that user of
both who has fewer: what a user moves in a cell is at most its votes there. Distances from noisy
centres of cells would contain the error of these, which is larger than the spread where cells have
few users.

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
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from hexveil.accounting.noise_law import NoiseLaw
from hexveil.accounting.promise import PARTS, Promise
from hexveil.base.arrays import Floats, Ints
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.mechanisms.contract import NoisyTotals
from hexveil.mechanisms.distribution.binned_stage import SUBSTITUTED, two_bins
from hexveil.mechanisms.estimates import STANDARD_NORMAL
from hexveil.mechanisms.looks.first_range import FirstRange
from hexveil.mechanisms.looks.pair_votes import WeightedDistances, WeightedVotes
from hexveil.mechanisms.pooled_law import PooledLaw
from hexveil.mechanisms.private_quantile import (
    ListedPoints,
    MapQuantiles,
    VotedValues,
    selection_scale,
    vote_targets,
)
from hexveil.mechanisms.sensitivity_report import SensitivityReport
from hexveil.mechanisms.stage_data import PrivateSums
from hexveil.model.pair_columns import Weights

HISTOGRAM, SPREAD = "histogram", "spread"
"""Names of both stages, in the ledger."""
BINS, FINER_BINS = (8, 16, 32), (100, 800)
"""Numbers of bins; and the votes times epsilon from which there are more of them."""
SPREAD_QUANTILE = Fraction(7, 10)
"""Share of the distances between two user means of a cell that lie within the measured point."""
SPREAD_POINTS = tuple(round(2**20 * 2 ** (-6 * k / 32)) for k in range(32, -1, -1))
"""Points for the spread, geometric over a factor of 64, in parts of 2^-20 of the largest."""
LARGEST_SPREAD = Fraction(5, 2)
"""Largest point, in deviations of all user means: 0.7 of distances lie within 1.47 of those."""
_Z_GRAIN = 2**20


def cell_shares(weight: Weights) -> Floats:
    """Return each cell's part of all votes, shape (n_cells,)."""
    votes = WeightedVotes(weight).cell_votes
    return np.asarray(votes / votes.sum())


# ---- pooled histogram ----


def histogram(
    name: str, values: VotedValues, edges: Ints, law: NoiseLaw, report: SensitivityReport
) -> NoisyTotals:
    """Return the stage of the votes of bins, one more than the inner edges between them."""

    def total(sums: PrivateSums) -> Ints:
        return values.tally(sums, ListedPoints(edges))

    return NoisyTotals(name, int(edges.size) + 1, law, report, total)


def user_histogram(
    name: str, values: VotedValues, edges: Ints, user_votes: Ints, law: NoiseLaw
) -> NoisyTotals:
    """Return the same where values alone are private: of the public votes of each user."""
    users = np.arange(user_votes.size)
    return histogram(name, values, edges, law, two_bins(users, np.zeros_like(users), user_votes))


@dataclass(frozen=True, eq=False)
class PooledMeans(ReadOnlyArrays):
    """The stage that releases the votes of bins of equal width, and what its votes show.

    Attributes
    ----------
    histogram : NoisyTotals
        Without its decisions.
    edges : ndarray of int64
        Between its bins.
    noise : NoiseLaw
    total : int
        Votes of all users. Public.
    lattice_steps : int
        Width of the records' bounds in quanta.
    """

    histogram: NoisyTotals
    edges: Ints
    noise: NoiseLaw
    total: int
    lattice_steps: int

    @classmethod
    def of(cls, weight: Weights, lattice_steps: int, promise: Promise) -> PooledMeans:
        """Return the stage for the user means of all pairs.

        Parameters
        ----------
        weight : Weights
        lattice_steps : int
        promise : Pure or Squares
            The loss of a user of all votes.
        """
        values = WeightedVotes(weight)
        user_votes = values.user_votes
        total = int(user_votes.sum())
        bins = n_bins(Fraction(total, PARTS) * promise.laplace_epsilon(SUBSTITUTED))
        edges, noise = inner_edges(lattice_steps, bins), promise.noise(SUBSTITUTED)
        histogram = user_histogram(HISTOGRAM, values, edges, user_votes, noise)
        return cls(histogram, edges, noise, total, lattice_steps)

    def units_law(self, noisy: Ints, lower: float, quantum: float) -> PooledLaw:
        """Return the same law in value units, for a lower bound and a quantum."""
        law = self.law(noisy)
        return replace(law, edges=lower + quantum * law.edges)

    def law(self, noisy: Ints) -> PooledLaw:
        """Return the law of user means, in quanta, that noisy votes show."""
        edges = all_edges(self.edges, self.lattice_steps)
        return PooledLaw.of(edges, noisy, self.noise, float(self.total))


def inner_edges(lattice_steps: int, bins: int) -> Ints:
    """Return the edges between bins of equal width; fewer where the lattice has few steps."""
    return np.unique(lattice_steps * np.arange(1, bins, dtype=np.int64) // bins)


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
    """What is decided from the noisy votes, in whole quanta above the lower bound.

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
    def of(cls, first: FirstRange, lattice_steps: int) -> PooledChoice:
        """Return the choice in whole quanta: ranges outward, and nothing without a width."""
        lower = min(max(math.floor(first.lower), 0), lattice_steps - 1)
        upper = max(min(math.ceil(first.upper), lattice_steps), lower + 1)
        centre = min(max(round(first.centre), 0), lattice_steps)
        deviations = (max(math.ceil(sd), 1) for sd in (first.below, first.above))
        return cls(lower, upper, centre, *deviations)

    @property
    def row(self) -> Ints:
        """The numbers as they are stored."""
        return np.array([self.lower, self.upper, self.centre, self.below, self.above])


N_DECIDED = 5
"""Whole numbers of a `PooledChoice`."""


# ---- spread within cells ----


def normal_quantile(share: Fraction) -> Fraction:
    """Return a quantile of the standard normal law, rounded so that processors agree on it."""
    return Fraction(round(_Z_GRAIN * STANDARD_NORMAL.inv_cdf(float(share))), _Z_GRAIN)


def within_cell_spread(
    weight: Weights, pooled: PooledChoice, epsilon: Fraction
) -> MapQuantiles | None:
    """Return the choice of a quantile of distances within cells; None if no cell has two users.

    Parameters
    ----------
    weight : Weights
    pooled : PooledChoice
        Of all user means: public by then.
    epsilon : Fraction
        Loss of every user.
    """
    votes = WeightedVotes(weight)
    if not votes.distance_votes:
        return None
    user_votes = votes.distance_user_votes
    targets = vote_targets(votes.distance_votes, (SPREAD_QUANTILE,))
    scale, points = selection_scale(int(user_votes.max()), epsilon), spread_points(pooled)
    return MapQuantiles(SPREAD, WeightedDistances(votes), points, targets, user_votes, scale)


def distance_vote_ratio(weight: Weights) -> Fraction:
    """Return the votes of all distances relative to the sensitivity; 0 if there are none."""
    choice = within_cell_spread(weight, _ANY_SPREAD, Fraction(1))
    if choice is None:
        return Fraction(0)
    return Fraction(WeightedVotes(weight).distance_votes, int(choice.user_votes.max()))


_ANY_SPREAD = PooledChoice(0, 1, 0, 1, 1)


def spread_points(pooled: PooledChoice) -> ListedPoints:
    """Return the points that a distance can be chosen from, in proportion to the pooled spread."""
    largest = LARGEST_SPREAD * max(pooled.below, pooled.above)
    points = [math.ceil(largest * ratio / SPREAD_POINTS[-1]) for ratio in SPREAD_POINTS]
    return ListedPoints(np.unique(points).astype(np.int64))


def within_cell_deviation(distance: int) -> float:
    """Return the normal deviation of user means with this quantile of distances; in quanta.

    Examples
    --------
    >>> round(within_cell_deviation(1466), 1)
    1000.2
    """
    # A difference of two user means has twice the variance of one.
    return distance / (math.sqrt(2.0) * float(normal_quantile((1 + SPREAD_QUANTILE) / 2)))
