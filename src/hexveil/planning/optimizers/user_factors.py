"""How far one factor per user can go: the largest that keeps every user within a loss.

A plan with factors keeps the share x = f p of the cell's samples of a user, p = m/N. With a the
rate of the mean's noise (1 / scale, for bounds of width 1; 0 for a constant) and c that of the
variance's, the user loses Σ_g a_g x + c_g spread(x) over its cells (accounting/error_model.py),
which grows with f. So each user has a largest factor, at most 1, whose loss is within a given one.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np

from hexveil.accounting import contributions, privacy_loss
from hexveil.planning.optimizers.pair_sums import PairFigureSums

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from hexveil.base.arrays import Floats
    from hexveil.model.distributed_occupancy import WholeGroup
    from hexveil.model.occupancy import Occupancy


CACHED_ANSWERS = 4
"""Answers about pairs that stay elsewhere that are kept."""


@dataclass(frozen=True, eq=False)
class InverseScales:
    """1 / Laplace scale of each cell, for bounds of width 1; 0 where there is no noise.

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

    @cached_property
    def share(self) -> Floats:
        """Share of each pair in its cell: m/N."""
        occupancy = self.occupancy.local()
        return contributions.record_shares(occupancy, occupancy.records_per_cell)

    @cached_property
    def _shares(self) -> PairFigureSums:
        return PairFigureSums(self.occupancy.local(), self.share)

    @cached_property
    def _squares(self) -> PairFigureSums:
        return PairFigureSums(self.occupancy.local(), self.share**2)

    def sum_per_user(self, per_cell: Floats) -> Floats:
        """Return per user the sum over its cells of its share times a figure of the cell."""
        return self._shares.per_user(per_cell)

    def _linear_losses(self, rates: InverseScales) -> Floats:
        """Return the sum per user of its shares times the cells' rates; the last answer is kept."""
        # One look at these rates asks twice: for the largest factors, and for their slope.
        if not self._last_linear or self._last_linear[0][0] is not rates:
            self._last_linear[:] = [(rates, self.sum_per_user(rates.total))]
        return self._last_linear[0][1]

    @cached_property
    def _last_linear(self) -> list[tuple[InverseScales, Floats]]:
        return []

    def _weighed_squares(self, per_cell: Floats) -> Floats:
        """Return per user the sum of squared shares times a figure of the cell."""
        return self._squares.per_user(per_cell)

    def _gathered(self, per_user: Floats) -> Floats:
        """Return per cell the sum over its users of their share times a figure of the user."""
        return self._shares.per_cell(per_user)

    def _gathered_both(self, per_user: Floats, squared: Floats) -> tuple[Floats, Floats]:
        """Return the same, and per cell the sum of squared shares times another figure."""
        return self._gathered(per_user), self._squares.per_cell(squared)

    def clipped_share(self, factor: Floats) -> Floats:
        """Return the share of each cell's samples that the factors put at the middle."""
        # The sum of the small parts keeps digits that 1 - Σ would cancel; rounding may exceed 1.
        return np.minimum(self._gathered(1.0 - factor), 1.0)

    def clipped_share_in_quanta(self, factor: Floats) -> Floats:
        """Return the share with contributions rounded to whole quanta, as those of the mean are."""
        if self.span_quanta is None:
            return self.clipped_share(factor)
        occupancy = self.occupancy
        clipped = occupancy.map_cells(
            contributions.clipped_by_caps, (occupancy.largest_count, self.span_quanta), (factor,)
        )
        return np.asarray(
            # Whole quanta only take away; the maximum guards against rounding of the two sums.
            np.maximum(clipped / occupancy.records_per_cell, self.clipped_share(factor))
        )

    def losses(self, rates: InverseScales, factor: Floats) -> Floats:
        """Return the loss of each user, not rounded; the plan itself rounds up."""
        cells = self.occupancy.records_per_cell, rates.mean, rates.variance
        return np.asarray(self.occupancy.map_users(privacy_loss.loss_at, cells, (factor,)))

    @cached_property
    def largest_share(self) -> Floats:
        """Largest share of a user in each cell."""
        return np.asarray(self.occupancy.largest_count / self.occupancy.records_per_cell)

    def marginal_sums(
        self, weight: Floats, factor: Floats, *, spread: bool = True
    ) -> tuple[Floats, Floats]:
        """Return per cell the sums over its users of a weight times x, and times spread(x).

        Without `spread` the second is left out, and zero.
        """
        if not spread:
            mean = self._gathered(weight * factor)
            return mean, np.zeros_like(mean)
        mean, bent = self._gathered_both(weight * factor, weight * factor**2)
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
        return np.asarray(flat - 2.0 * factor * self._weighed_squares(rates.variance) + large)

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
        bent = self._weighed_squares(rates.variance)
        # 2 L / (A + √(A² - 4 B L)) is the smaller root without the cancellation of A - √.
        root = np.sqrt(np.maximum(linear**2 - 4.0 * bent * loss, 0.0))
        down = linear + root
        solved = np.divide(2.0 * loss, down, out=np.ones_like(down), where=down > 0)
        # A - B is the loss at factor 1: whoever is within it is not clipped.
        factor = np.where(linear - bent <= loss, 1.0, np.minimum(solved, 1.0))
        # Only a majority user leaves the parabola, and only where a variance is published.
        if not (rates.variance[self._large[0]] > 0).any():
            return factor
        cells = self.occupancy.records_per_cell, rates.mean, rates.variance
        halved = partial(privacy_loss.bisect_factors, loss=loss, lower_bound=least)
        return np.asarray(self.occupancy.map_users(halved, cells, (factor,)))

    @cached_property
    def _large(self) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
        """Cells with a majority user, that user, and its share."""
        total = self.occupancy.records_per_cell
        who, n = self.occupancy.map_cells(contributions.majority_user, (total,))
        cell = np.flatnonzero(who >= 0)
        return cell, who[cell], n[cell] / total[cell]


class DistributedClippingProblem(ClippingProblem):
    """The same of pairs that stay elsewhere: every sum is asked of their blocks.

    A step of a search asks for some sums twice, so the last answers are remembered.
    """

    def sum_per_user(self, per_cell: Floats) -> Floats:
        """Return per user the sum over its cells of its share times a figure of the cell."""
        return self._remembered("users", contributions.sum_per_user, per_cell)

    def _weighed_squares(self, per_cell: Floats) -> Floats:
        return self._remembered("users", contributions.sum_squares_per_user, per_cell)

    def _gathered(self, per_user: Floats) -> Floats:
        return self._remembered("cells", contributions.sum_per_cell, per_user)

    def _gathered_both(self, per_user: Floats, squared: Floats) -> tuple[Floats, Floats]:
        total = self.occupancy.records_per_cell
        sums = self.occupancy.map_cells(contributions.sums_per_cell, (total,), (per_user, squared))
        return sums[0], sums[1]

    def _remembered(self, whole: WholeGroup, work: Callable[..., Floats], figure: Floats) -> Floats:
        # The hash, not the array: figures have an entry per user and would stay in memory.
        key = f"{work.__name__} {hashlib.sha256(figure.tobytes()).hexdigest()}"
        last = self._last
        if key not in last:
            if len(last) >= CACHED_ANSWERS:
                # Dictionaries keep the order of insertion: the oldest answer goes.
                del last[next(iter(last))]
            total = self.occupancy.records_per_cell
            ask = self.occupancy.map_users if whole == "users" else self.occupancy.map_cells
            given = ((total, figure),) if whole == "users" else ((total,), (figure,))
            last[key] = np.asarray(ask(work, *given), dtype=np.float64)
        return last[key]

    @cached_property
    def _last(self) -> dict[str, Floats]:
        return {}


def clipping_problem(occupancy: Occupancy, steps: Floats | None = None) -> ClippingProblem:
    """Return the exposure of an occupancy, wherever its pairs are."""
    kind = DistributedClippingProblem if not occupancy.is_local else ClippingProblem
    return kind(occupancy, steps)
