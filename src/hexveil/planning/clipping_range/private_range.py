"""Private clipping range of the whole map: quantiles, share of ε, assumptions.

Before any value is read only a prior says how wide the interval will be: user means within the
bounds are taken as normal around a centre that nobody knows, with a standard deviation of an eighth
of the span, so that between the quantiles q and 1 - q lies a width of 2 z(q)/8 of it. Two quantiles
far from the ends of the bounds are found at a small price, but would clip much; so the interval is
widened around its middle. What a cell is off by has three parts: noise for the width after that,
what the weights cost (planning/clipping_range/user_weights.py), and what clipping costs for cells
whose middle is off the centre: by the prior these lie normal around it, with half of the variance.
Quantiles and widening are chosen from `QUANTILES` and `WIDENINGS` so that the sum is least; the
share of ε so that an end is rarely chosen where there are no user means.

The interval's loss is charged in full to every user of the map (mechanisms/private_quantile.py). A
prior that does not fit costs accuracy, never privacy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

import numpy as np

from hexveil.base.arrays import Floats
from hexveil.base.errors import InputError
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.mechanisms.estimates import STANDARD_NORMAL, centre_and_radius, to_value_units
from hexveil.model.pair_columns import Weights
from hexveil.planning.clipping_range.user_weights import UserMeanPrior, expected_bias, max_bias

ClippingRangeMode = Literal["bounds", "private", "per-cell", "auto"]

MAX_WIDTH = 1e6
"""Widths, errors and radii of a range are below this, in spans."""
PRIOR_SD = 1.0 / 8.0
"""Standard deviation of user means, as a part of the span."""
WITHIN_CELL_SHARE = math.sqrt(0.5)
"""The part of it that is within a cell; the same is between cells."""
WEIGHT_CONFOUNDING = 0.1
"""By how much users whose weight rises differ from others, as a part of the interval's width."""
QUANTILES = tuple(Fraction(n, 100) for n in (2, 5, 10, 15, 20))
WIDENINGS = tuple(Fraction(n, 4) for n in (4, 5, 6, 8, 10))
MIN_RANGE_SHARE, MAX_RANGE_SHARE = Fraction(1, 50), Fraction(1, 5)
"""Shares of ε for the interval."""
MIN_RANK_PRECISION = 32
"""The scale of a choice is 4 / (share ε) users, and a quantile is eight of them away from the end
of the bounds: else one of the many points beyond all user means would often be chosen."""
HERMITE = np.polynomial.hermite_e.hermegauss(31)


@dataclass(frozen=True, eq=False)
class PrivateClippingRange(ReadOnlyArrays):
    """Decisions of a plan with a private range; public.

    Attributes
    ----------
    epsilon : Fraction
        What finding the interval costs every user.
    quantiles : pair of Fraction
        Shares of user means wanted at or below its ends.
    widening : Fraction
        By how much the interval between them is made wider, around its middle.
    width : float
        Width that is assumed after that, as a part of the span.
    clipping_error : float
        What clipping is assumed to cost on average, for an interval of width 1.
    weight : Weights
        Whole weights of user means; a user's part of a cell's number is its weight over their sum.
    ends : pair of int, or None
        The interval that was found, in quanta above the records' lower bound: after a release.
    span_quanta : int or None
        Width of the records' bounds in quanta: after a release.
    votes : tuple of int
        Noisy votes of the bins of the pooled histogram: after a release.
    total : int
        Votes of all users.
    radius : Fraction or None
        For variances: how far from the interval's middle a user's samples may be on quadratic
        average before they are cut, in halves of its width; at least 1.
    """

    epsilon: Fraction
    quantiles: tuple[Fraction, Fraction]
    widening: Fraction
    width: float
    clipping_error: float
    weight: Weights
    ends: tuple[int, int] | None = None
    span_quanta: int | None = None
    votes: tuple[int, ...] = ()
    total: int = 0
    radius: Fraction | None = None

    def check(self) -> None:
        """Refuse numbers that no plan has: a stranger may have written them."""
        (low, high), numbers = self.quantiles, (self.width, self.clipping_error)
        sane = 0 < low < high < 1 and 1 <= self.widening < MAX_WIDTH and self.width > 0
        if not sane or not all(0 <= number < MAX_WIDTH for number in numbers):
            raise InputError("its interval has quantiles or a width that no plan has.")
        if self.epsilon <= 0:
            raise InputError("the epsilon of its interval must be above 0.")
        if self.radius is not None and not 1 <= self.radius < MAX_WIDTH:
            raise InputError("its interval has a radius that no plan has.")
        if (self.ends, self.span_quanta, self.votes, self.total) != (None, None, (), 0):
            raise InputError("its interval has the outputs of a release, which no plan has.")

    def ends_in_units(self, lower: float, span: float) -> tuple[float, float]:
        """Return the ends that were found in value units, for records of these bounds."""
        if self.ends is None or self.span_quanta is None:
            raise InputError("the interval is found by a release, not before.")
        low, high = (to_value_units(end, self.span_quanta, lower, span) for end in self.ends)
        return low, high

    def with_ends(self, ends: tuple[int, int], steps: int) -> PrivateClippingRange:
        """Return the same with the ends that a release found."""
        return replace(self, ends=ends, span_quanta=steps, width=(ends[1] - ends[0]) / steps)

    def half_width_and_radius(self) -> tuple[float, float]:
        """Return how far samples may be from the middle, as parts of the span: means, and squares.

        Before a release the middle is taken for that of the bounds.
        """
        radius = self.radius or Fraction(1)
        if self.ends is None or self.span_quanta is None:
            half = self.width / 2.0
            return half, max(half, min(float(radius) * half, 0.5))
        _, whole, reached = centre_and_radius(self.ends, self.span_quanta, radius)
        return whole / self.span_quanta, reached / self.span_quanta

    def max_bias(self) -> Floats:
        """Return the most that weights make each cell off by, for an interval of width 1."""
        return max_bias(self.weight)

    def expected_bias(self) -> Floats:
        """Return the expected bias of each cell under the prior, for a range of width 1."""
        prior = user_mean_prior(half_width_sd(self.quantiles[0], self.widening))
        weights = expected_bias(self.weight, prior)
        return np.asarray(np.hypot(weights, self.clipping_error))


def user_mean_prior(end: float) -> UserMeanPrior:
    """Return the prior of user means, as fractions of the width of a range of this half width."""
    return UserMeanPrior(WITHIN_CELL_SHARE / (2.0 * end), WEIGHT_CONFOUNDING)


def expected_clipping_error(end: float) -> float:
    """Return the expected clipping error of a cell under the prior, for a range of width 1.

    Examples
    --------
    >>> round(expected_clipping_error(1.28), 3), expected_clipping_error(2.05) < 0.01
    (0.035, True)
    """
    # Gauss-Hermite nodes: the middles of cells are normal by the prior, and 31 are exact enough.
    nodes, weights = HERMITE
    middle, spread = nodes * math.sqrt(1.0 - WITHIN_CELL_SHARE**2), WITHIN_CELL_SHARE
    below, above = (-end - middle) / spread, (end - middle) / spread
    cdf, pdf = np.vectorize(STANDARD_NORMAL.cdf), np.vectorize(STANDARD_NORMAL.pdf)
    inside = middle * (cdf(above) - cdf(below)) + spread * (pdf(below) - pdf(above))
    clipped = inside - end * cdf(below) + end * (1.0 - cdf(above))
    cost = float(np.abs(clipped - middle) @ weights / weights.sum())
    return cost / (2.0 * end)


def half_width_sd(quantile: Fraction, widening: Fraction) -> float:
    """Return how far the upper end is from the centre, in standard deviations of the prior."""
    return STANDARD_NORMAL.inv_cdf(1.0 - float(quantile)) * float(widening)


def range_epsilon_share(quantile: Fraction, n_users: int, epsilon: Fraction) -> Fraction:
    """Return the part of ε that finding the interval takes.

    Examples
    --------
    >>> range_epsilon_share(Fraction(1, 10), 4000, Fraction(1))
    Fraction(2, 25)
    >>> range_epsilon_share(Fraction(1, 10), 50, Fraction(1))
    Fraction(1, 5)
    """
    # Thousandths, rounded up: a share is printed and booked as a short exact number.
    required = MIN_RANK_PRECISION / (quantile * n_users * epsilon)
    share = Fraction(math.ceil(required * 1000), 1000)
    return min(max(share, MIN_RANGE_SHARE), MAX_RANGE_SHARE)


def check_share(share: Fraction) -> Fraction:
    """Return the share of ε for the interval; refuse one that leaves nothing for either side."""
    if not 0 < share < 1:
        raise InputError(
            f"range_share is the part of epsilon that finds the interval, between 0 and 1, got "
            f"{share}: at 0 there is no interval, at 1 nothing is left for the cells."
        )
    return share
