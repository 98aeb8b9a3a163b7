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
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hexveil.accounting import privacy_loss
from hexveil.accounting import privacy_loss as contributions
from hexveil.accounting.noise_law import GAUSSIAN, LAPLACE, NoiseLaw
from hexveil.accounting.privacy_loss import KeptRecords
from hexveil.base.arrays import Floats
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
    """Shares of an occupancy, ready to be weighed.

    Attributes
    ----------
    occupancy : Occupancy
    span_quanta : ndarray of float, shape (n_cells,), or None
        Width of the bounds in quanta, where there are records: what the mean keeps is whole in it.
    """

    occupancy: Occupancy
    span_quanta: Floats | None = None

    law: ClassVar[NoiseLaw] = LAPLACE
    power: ClassVar[int] = 1
    """The loss of a user falls with this power of the noise."""

    @cached_property
    def shares(self) -> ShareSums:
        """Sums of the shares."""
        return share_sums(self.occupancy)

    @cached_property
    def share(self) -> Floats:
        """Share of each pair at hand in its cell: m/N."""
        occupancy = self.occupancy.local()
        return contributions.record_shares(occupancy, occupancy.records_per_cell)

    def sum_per_user(self, per_cell: Floats) -> Floats:
        """Return per user the sum over its cells of its share times a figure of the cell."""
        return self.shares.per_user(per_cell)

    def _once(self, name: str, rates: InverseScales, compute: Callable[[], Floats]) -> Floats:
        """Return sums at these rates: one look at them asks for the same sums twice."""
        if self._last.get("rates") is not rates:
            self._last.clear()
            self._last["rates"] = rates
        if name not in self._last:
            self._last[name] = compute()
        return np.asarray(self._last[name])

    @cached_property
    def _last(self) -> dict[str, Any]:
        return {}

    def _linear_losses(self, rates: InverseScales) -> Floats:
        """Return the sum per user of its shares times the cells' rates."""
        return self._once("linear", rates, lambda: self.shares.per_user(rates.total))

    def _bent_losses(self, rates: InverseScales) -> Floats:
        """Return the sum per user of its squared shares times the cells' rates of variances."""
        return self._once("bent", rates, lambda: self.shares.per_user(rates.variance, 2))

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
        return self.occupancy.map_users(self._at(privacy_loss.loss_at, rates, factor))

    def _at(
        self, work: Callable[..., Floats], rates: InverseScales, factor: Floats
    ) -> Callable[[Pairs], Floats]:
        """Return a function of pairs at these rates and factors."""
        total = self.occupancy.records_per_cell
        return partial(work, total=total, mean=rates.mean, variance=rates.variance, factor=factor)

    @cached_property
    def largest_share(self) -> Floats:
        """Largest share of a user in each cell."""
        return np.asarray(self.occupancy.largest_count / self.occupancy.records_per_cell)

    def marginal_sums(
        self, rates: InverseScales, weight: Floats, factor: Floats
    ) -> tuple[Floats, Floats]:
        """Return how the weighed sum of users' losses rises with both rates of each cell.

        These are sums over its users of the weight times x, and times spread(x).
        """
        mean = self.shares.per_cell(weight * factor)
        # Without noise for variances nothing goes down their slope.
        if not rates.variance.any():
            return mean, np.zeros_like(mean)
        bent = self.shares.per_cell(weight * factor**2, 2)
        cell, user, share = self._large
        # Beyond one half the spread is 1/4, which is x (1 - x) + (x - 1/2)².
        x = np.maximum(share * factor[user], 0.5)
        margin = np.bincount(cell, weights=weight[user] * (x - 0.5) ** 2, minlength=mean.size)
        return mean, np.asarray(mean - bent + margin)

    def loss_slope(self, rates: InverseScales, factor: Floats) -> Floats:
        """Return how fast each user's loss grows with its factor."""
        flat = self._linear_losses(rates)
        if not rates.variance.any():
            return flat
        cell, user, share = self._large
        x = np.maximum(share * factor[user], 0.5)
        margin = share * rates.variance[cell] * (2.0 * x - 1.0)
        large = np.bincount(user, weights=np.where(x > 0.5, margin, 0.0), minlength=flat.size)
        return np.asarray(flat - 2.0 * factor * self._bent_losses(rates) + large)

    def largest_factors(self, rates: InverseScales, loss: float, *, least: bool = False) -> Floats:
        """Return each user's largest factor, at most 1, with a loss of at most `loss`.

        For x <= 1/2 in all its cells the loss is A f - B f², solved exactly; the few users who
        hold more of a cell whose variance is published are bisected. With `least` those are
        charged the least that a plan may charge them (`_least_charge`), for lower bounds.
        """
        linear = self._linear_losses(rates)
        if not rates.variance.any():
            return np.minimum(
                1.0, np.divide(loss, linear, out=np.ones_like(linear), where=linear > 0)
            )
        bent = self._bent_losses(rates)
        # 2 L / (A + √(A² - 4 B L)) is the smaller root without the cancellation of A - √.
        root = np.sqrt(np.maximum(linear**2 - 4.0 * bent * loss, 0.0))
        down = linear + root
        solved = np.divide(2.0 * loss, down, out=np.ones_like(down), where=down > 0)
        # A - B is the loss at factor 1: whoever is within it is not clipped.
        factor = np.where(linear - bent <= loss, 1.0, np.minimum(solved, 1.0))
        # Only a majority user leaves the parabola, and only where a variance is published.
        if not (rates.variance[self._large[0]] > 0).any():
            return factor
        halved = partial(privacy_loss.bisect_factors, loss=loss, lower_bound=least)
        return self.occupancy.map_users(self._at(halved, rates, factor))

    @cached_property
    def _large(self) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
        """Cells with a majority user, that user, and its share."""
        total = self.occupancy.records_per_cell
        who, n = self.occupancy.map_cells(partial(contributions.majority_user, total=total))
        cell = np.flatnonzero(who >= 0)
        return cell, who[cell], n[cell] / total[cell]


@dataclass(frozen=True, eq=False)
class GaussianClippingProblem(ClippingProblem):
    """The same under Gaussian noise: rates are inverse deviations, losses are squares of μ."""

    law = GAUSSIAN
    power = 2

    def _squares(self, rates: InverseScales) -> Floats:
        """Return the losses of users at factor 1."""
        rate = rates.mean**2 + rates.variance**2
        return self._once("squares", rates, lambda: self.shares.per_user(rate, 2))

    def losses(self, rates: InverseScales, factor: Floats) -> Floats:
        """Return the loss of each user, not rounded."""
        return factor**2 * self._squares(rates)

    def marginal_sums(
        self, rates: InverseScales, weight: Floats, factor: Floats
    ) -> tuple[Floats, Floats]:
        """Return how the weighed sum of users' losses rises with both rates of each cell."""
        squares = self.shares.per_cell(2.0 * weight * factor**2, 2)
        return rates.mean * squares, rates.variance * squares

    def loss_slope(self, rates: InverseScales, factor: Floats) -> Floats:
        """Return how fast each user's loss grows with its factor."""
        return 2.0 * factor * self._squares(rates)

    def largest_factors(self, rates: InverseScales, loss: float, *, least: bool = False) -> Floats:
        """Return each user's largest factor, at most 1, with a loss of at most `loss`."""
        del least  # nothing is charged that a plan need not charge
        norms, root = np.sqrt(self._squares(rates)), math.sqrt(loss)
        return np.where(norms > root, root / np.maximum(norms, 1e-300), 1.0)
