"""How far one factor per user can go: the largest that keeps every user within a loss.

A plan with factors keeps the share x = f p of the cell's samples of a user, p = m/N. With a the
rate of the mean's noise (1 / scale, for bounds of width 1; 0 for a constant) and c that of the
variance's, the user loses Σ_g a_g x + c_g spread(x) over its cells under Laplace noise
(accounting/error_model.py), and the square of μ Σ_g (a_g² + c_g²) x² at most under Gaussian noise:
a variance moves by at most x. Both grow with f. So each user has a largest factor, at most 1, whose
loss is within a given one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from hexveil.accounting import privacy_loss as contributions
from hexveil.accounting.noise_law import LAPLACE, NoiseLaw
from hexveil.accounting.privacy_loss import KeptRecords
from hexveil.base.arrays import Floats, Ints
from hexveil.model.occupancy import Occupancy, Pairs
from hexveil.planning.optimizers.pair_sums import ShareSums, share_sums


@dataclass(frozen=True, eq=False)
class InverseScales:
    """1 / noise scale of each cell, for bounds of width 1; 0 where there is no noise.

    Attributes
    ----------
    mean, variance : ndarray of float, shape (n_cells,)
    """

    mean: Floats
    variance: Floats

    @property
    def total(self) -> Floats:
        """Sum of both: the cost to a user of small share, per share."""
        return np.asarray(self.mean + self.variance)


@dataclass(frozen=True, eq=False)
class ClippingProblem:
    """Shares of an occupancy, ready to be weighed under noise of a law.

    Under Laplace noise rates are inverse scales and losses ε; under Gaussian noise they are inverse
    deviations and squares of μ. The loss of a user falls with the power of the law of the noise.

    Attributes
    ----------
    occupancy : Occupancy
    span_quanta : ndarray of float, shape (n_cells,), or None
        Width of the bounds in quanta, where there are records: what the mean keeps is whole in it.
    law : NoiseLaw
    """

    occupancy: Occupancy
    span_quanta: Floats | None = None
    law: NoiseLaw = LAPLACE

    @property
    def is_gaussian(self) -> bool:
        """Whether losses are squares of μ."""
        return self.law.power == 2

    @cached_property
    def shares(self) -> ShareSums:
        """Sums of the shares."""
        return share_sums(self.occupancy)

    @cached_property
    def share(self) -> Floats:
        """Share of each pair at hand in its cell: m/N."""
        occupancy = self.occupancy.local()
        return contributions.record_shares(occupancy, occupancy.records_per_cell)

    def clipped_share(self, factor: Floats) -> Floats:
        """Return the share of each cell's samples that the factors put at the middle."""
        # The sum of the small parts keeps digits that 1 - Σ would cancel; rounding may exceed 1.
        return np.minimum(self.shares.per_cell(1.0 - factor), 1.0)

    def clipped_share_in_quanta(self, factor: Floats) -> Floats:
        """Return the share with contributions rounded to whole quanta, as those of the mean are."""
        if self.span_quanta is None:
            return self.clipped_share(factor)
        occupancy = self.occupancy
        kept = KeptRecords(occupancy.largest_count, factor, self.span_quanta)
        clipped = occupancy.map_cells(partial(contributions.clipped_by_caps, kept=kept))
        return np.asarray(
            # Whole quanta only take away; the maximum guards against rounding of the two sums.
            np.maximum(clipped / occupancy.records_per_cell, self.clipped_share(factor))
        )

    def losses(self, rates: InverseScales, factor: Floats) -> Floats:
        """Return the loss of each user, not rounded; the plan itself rounds up."""
        if self.is_gaussian:
            return factor**2 * self._squares(rates)
        return self.occupancy.map_users(self._at(contributions.loss_at, rates, factor))

    def _squares(self, rates: InverseScales) -> Floats:
        """Return the square of μ of each user at factor 1."""
        return self.shares.per_user(rates.mean**2 + rates.variance**2, 2)

    def _at(
        self, work: Callable[..., Floats], rates: InverseScales, factor: Floats
    ) -> Callable[[Pairs], Floats]:
        """Return a function of pairs at these rates and factors."""
        total = self.occupancy.records_per_cell
        return partial(work, total=total, mean=rates.mean, variance=rates.variance, factor=factor)

    def marginal_sums(
        self, rates: InverseScales, weight: Floats, factor: Floats
    ) -> tuple[Floats, Floats]:
        """Return how the weighed sum of users' losses rises with both rates of each cell.

        Under Laplace noise the sums over its users of the weight times x, and times spread(x).
        """
        if self.is_gaussian:
            squares = self.shares.per_cell(2.0 * weight * factor**2, 2)
            return rates.mean * squares, rates.variance * squares
        mean = self.shares.per_cell(weight * factor)
        # Without noise for variances nothing goes down their slope.
        if not rates.variance.any():
            return mean, np.zeros_like(mean)
        bent = self.shares.per_cell(weight * factor**2, 2)
        cell, user, x = self._majorities(factor)
        margin = np.bincount(cell, weights=weight[user] * (x - 0.5) ** 2, minlength=mean.size)
        return mean, np.asarray(mean - bent + margin)

    def loss_slope(self, rates: InverseScales, factor: Floats) -> Floats:
        """Return how fast each user's loss grows with its factor."""
        if self.is_gaussian:
            return 2.0 * factor * self._squares(rates)
        flat = self.shares.per_user(rates.total)
        if not rates.variance.any():
            return flat
        cell, user, x = self._majorities(factor)
        margin = self._large[2] * rates.variance[cell] * (2.0 * x - 1.0)
        large = np.bincount(user, weights=margin, minlength=flat.size)
        return np.asarray(flat - 2.0 * factor * self.shares.per_user(rates.variance, 2) + large)

    def largest_factors(self, rates: InverseScales, loss: float, *, least: bool = False) -> Floats:
        """Return each user's largest factor, at most 1, with a loss of at most `loss`.

        Under Laplace noise, for x <= 1/2 in all its cells, the loss is A f - B f², solved exactly;
        the few users who hold more of a cell whose variance is published are bisected. With `least`
        those are charged the least that a plan may charge them, for lower bounds.
        """
        if self.is_gaussian:
            norms, limit = np.sqrt(self._squares(rates)), math.sqrt(loss)
            return np.where(norms > limit, limit / np.maximum(norms, 1e-300), 1.0)
        linear = self.shares.per_user(rates.total)
        if not rates.variance.any():
            return np.minimum(
                1.0, np.divide(loss, linear, out=np.ones_like(linear), where=linear > 0)
            )
        bent = self.shares.per_user(rates.variance, 2)
        # 2 L / (A + √(A² - 4 B L)) is the smaller root without the cancellation of A - √.
        down = linear + np.sqrt(np.maximum(linear**2 - 4.0 * bent * loss, 0.0))
        solved = np.divide(2.0 * loss, down, out=np.ones_like(down), where=down > 0)
        # A - B is the loss at factor 1: whoever is within it is not clipped.
        factor = np.where(linear - bent <= loss, 1.0, np.minimum(solved, 1.0))
        # Only a majority user leaves the parabola, and only where a variance is published.
        if not (rates.variance[self._large[0]] > 0).any():
            return factor
        halved = partial(contributions.bisect_factors, loss=loss, lower_bound=least)
        return self.occupancy.map_users(self._at(halved, rates, factor))

    @cached_property
    def _large(self) -> tuple[Ints, Ints, Floats]:
        """Cells with a majority user, that user, and its share."""
        total = self.occupancy.records_per_cell
        who, n = self.occupancy.map_cells(partial(contributions.majority_user, total=total))
        cell = np.flatnonzero(who >= 0)
        return cell, who[cell], n[cell] / total[cell]

    def _majorities(self, factor: Floats) -> tuple[Ints, Ints, Floats]:
        """Return these cells and users, and x where it is above one half, else one half."""
        cell, user, share = self._large
        # Beyond one half the spread is 1/4, which is x (1 - x) + (x - 1/2)².
        return cell, user, np.maximum(share * factor[user], 0.5)
