"""How far one factor per user can go: the largest that keeps every user within a loss.

A plan with factors keeps the share x = f p of the cell's samples of a user, p = m/N. With a the
rate of the mean's noise (1 / scale, for bounds of width 1; 0 for a constant) and c that of the
variance's, the user loses Σ_g a_g x + c_g spread(x) over its cells (planning/part.py), which grows
with f. So each user has a largest factor, at most 1, whose loss is within a given one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.planning.part import in_quanta, spread
from hexveil.theory.sensitivity import variance_share

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hexveil.occupancy import Occupancy

    Floats = NDArray[np.float64]

HALVINGS = 60


@dataclass(frozen=True, eq=False)
class Rates:
    """1 / Laplace scale of each cell, for bounds of width 1; 0 where there is no noise.

    Attributes
    ----------
    mean, variance : ndarray of float, shape (n_cells,)
    """

    mean: Floats
    variance: Floats

    @property
    def total(self) -> Floats:
        """Sum of both: what they cost a user of small share, per share."""
        return np.asarray(self.mean + self.variance)


@dataclass(frozen=True, eq=False)
class Exposure:
    """Shares of an occupancy, ready to be weighed.

    Attributes
    ----------
    occupancy : Occupancy
    steps : ndarray of float, shape (n_cells,), or None
        Width of the bounds in quanta, where there are records: what the mean keeps is whole in it.
    """

    occupancy: Occupancy
    steps: Floats | None = None

    @cached_property
    def share(self) -> Floats:
        """Share of each pair in its cell: m/N."""
        occupancy = self.occupancy
        return np.asarray(occupancy.n / self._total)

    @property
    def _total(self) -> NDArray[np.int64]:
        """Records of each pair's cell."""
        return np.repeat(self.occupancy.records_per_cell, self.occupancy.users_per_cell)

    @cached_property
    def _of_cells(self) -> Any:  # noqa: ANN401  scipy has no types
        """Shares as a sparse matrix, cells down and users across."""
        import scipy.sparse  # noqa: PLC0415  slow to import

        occupancy = self.occupancy
        columns, first = occupancy.user.astype(np.int32), occupancy.start.astype(np.int32)
        size = (occupancy.n_cells, occupancy.n_users)
        return scipy.sparse.csr_array((self.share, columns, first), shape=size)

    @cached_property
    def _of_users(self) -> Any:  # noqa: ANN401
        """The same matrix, users down and cells across."""
        return self._of_cells.T.tocsr()

    @cached_property
    def _squares(self) -> Any:  # noqa: ANN401
        return self._of_users.power(2)

    @cached_property
    def _squares_of_cells(self) -> Any:  # noqa: ANN401
        return self._of_cells.power(2)

    def weighed(self, per_cell: Floats) -> Floats:
        """Return per user the sum over its cells of its share times a figure of the cell."""
        return np.asarray(self._of_users @ per_cell, dtype=np.float64)

    def by_user(self, terms: Floats) -> Floats:
        """Return sums of pairs per user."""
        occupancy = self.occupancy
        sums = np.bincount(occupancy.user, weights=terms, minlength=occupancy.n_users)
        return np.asarray(sums, dtype=np.float64)

    def by_cell(self, terms: Floats) -> Floats:
        """Return sums of pairs per cell."""
        return np.asarray(np.add.reduceat(terms, self.occupancy.start[:-1]))

    def spread_out(self, per_cell: Floats) -> Floats:
        """Return a figure of each cell for each of its pairs."""
        return np.repeat(per_cell, self.occupancy.users_per_cell)

    def away(self, factor: Floats) -> Floats:
        """Return the share of each cell's samples that the factors put at the middle."""
        taken = np.asarray(self._of_cells @ (1.0 - factor), dtype=np.float64)
        return np.minimum(taken, 1.0)

    def away_in_quanta(self, factor: Floats) -> Floats:
        """Return the same share when what is kept is whole in quanta, as the mean's is."""
        if self.steps is None:
            return self.away(factor)
        n = self.occupancy.n
        kept = in_quanta(n * factor[self.occupancy.user], self.spread_out(self.steps))
        taken = self.by_cell(np.maximum(n - kept, 0.0)) / self.occupancy.records_per_cell
        return np.maximum(taken, self.away(factor))

    def losses(self, rates: Rates, factor: Floats) -> Floats:
        """Return the loss of each user, not rounded; the plan itself rounds up."""
        share = self.share * factor[self.occupancy.user]
        terms = self.spread_out(rates.mean) * share
        if rates.variance.any():
            terms += self.spread_out(rates.variance) * spread(share)
        return self.by_user(terms)

    @cached_property
    def largest(self) -> Floats:
        """Largest share of a user in each cell."""
        return np.asarray(np.maximum.reduceat(self.share, self.occupancy.start[:-1]))

    def pushed(self, weight: Floats, factor: Floats) -> tuple[Floats, Floats]:
        """Return per cell the sums over its users of a weight times x, and times spread(x)."""
        mean = np.asarray(self._of_cells @ (weight * factor), dtype=np.float64)
        bent = np.asarray(self._squares_of_cells @ (weight * factor**2), dtype=np.float64)
        x, user, cell = self._large_share(factor)
        # Beyond one half the spread is 1/4, which is x (1 - x) + (x - 1/2)².
        more = np.bincount(cell, weights=weight[user] * (x - 0.5) ** 2, minlength=mean.size)
        return mean, np.asarray(mean - bent + more)

    def slope(self, rates: Rates, factor: Floats) -> Floats:
        """Return how fast each user's loss grows with its factor."""
        flat = self.weighed(rates.total)
        if not rates.variance.any():
            return flat
        bent = np.asarray(self._squares @ rates.variance, dtype=np.float64)
        x, user, cell = self._large_share(factor)
        more = self.share[self._large] * rates.variance[cell] * (2.0 * x - 1.0)
        large = np.bincount(user, weights=np.where(x > 0.5, more, 0.0), minlength=flat.size)
        return np.asarray(flat - 2.0 * factor * bent + large)

    def _large_share(self, factor: Floats) -> tuple[Floats, NDArray[np.int64], NDArray[np.int64]]:
        """Return what is kept of the pairs of more than half a cell, at least 1/2; user, cell."""
        user, cell = (a[self._large] for a in (self.occupancy.user, self.occupancy.cell))
        return np.maximum(self.share[self._large] * factor[user], 0.5), user, cell

    def factors(self, rates: Rates, loss: float, *, least: bool = False) -> Floats:
        """Return each user's largest factor, at most 1, with a loss of at most `loss`.

        For x <= 1/2 in all its cells the loss is A f - B f², solved exactly; the few users who
        hold more of a cell whose variance is published are bisected. With `least` those are
        charged the least that a plan may charge them (`_least_charge`), for lower bounds.
        """
        linear = self.weighed(rates.total)
        if not rates.variance.any():
            return np.minimum(
                1.0, np.divide(loss, linear, out=np.ones_like(linear), where=linear > 0)
            )
        bent = np.asarray(self._squares @ rates.variance, dtype=np.float64)
        root = np.sqrt(np.maximum(linear**2 - 4.0 * bent * loss, 0.0))
        down = linear + root
        solved = np.divide(2.0 * loss, down, out=np.ones_like(down), where=down > 0)
        factor = np.where(linear - bent <= loss, 1.0, np.minimum(solved, 1.0))
        return self._large_users(rates, loss, factor, least=least)

    @cached_property
    def _large(self) -> NDArray[np.int64]:
        """Pairs of more than half a cell."""
        return np.flatnonzero(self.share > 0.5)

    def _large_users(self, rates: Rates, loss: float, factor: Floats, *, least: bool) -> Floats:
        if not self._large.size:
            return factor
        large = np.zeros(self.occupancy.n_pairs, dtype=bool)
        large[self._large] = rates.variance[self.occupancy.cell[self._large]] > 0
        who = np.unique(self.occupancy.user[large])
        pairs = np.flatnonzero(np.isin(self.occupancy.user, who))
        share, at = self.share[pairs], np.searchsorted(who, self.occupancy.user[pairs])
        mean, variance = (self.spread_out(r)[pairs] for r in (rates.mean, rates.variance))
        most = variance_share(self.occupancy.n[pairs], self._total[pairs])
        low, high = np.zeros(who.size), np.ones(who.size)
        for _ in range(HALVINGS):
            tried = (low + high) / 2.0 if _ else high
            x = share * tried[at]
            terms = mean * x + variance * spread(x)
            if least:
                terms = _least_charge(x, most, mean, variance)
            lost = np.bincount(at, weights=terms, minlength=who.size)
            low, high = np.where(lost <= loss, tried, low), np.where(lost <= loss, high, tried)
        factor[who] = high if least else low
        return factor


def _least_charge(x: Floats, most: Floats, mean: Floats, variance: Floats) -> Floats:
    """Return what a pair is charged at least, whether or not its cell is reduced.

    Where nothing of a cell is put at the middle a plan charges COMP Proposition III.1 (`most`)
    and, of both statistics, no more than the joint formula (theory/loss.py).
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        far = np.where(variance > 0, (1.0 + mean / variance) / 2.0, np.inf)
    z = np.minimum(x, far)
    together = mean * z + variance * z * (1.0 - z)
    plain = mean * x + variance * np.minimum(spread(x), most)
    return np.asarray(np.where(variance > 0, np.minimum(plain, together), mean * x))
