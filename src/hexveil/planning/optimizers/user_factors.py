"""How far one factor per user can go: the largest that keeps every user within a loss.

A plan with factors keeps the share x = f p of the cell's samples of a user, p = m/N. With a the
rate of the mean's noise (1 / scale, for bounds of width 1; 0 for a constant) and c that of the
variance's, the user loses Σ_g a_g x + c_g spread(x) over its cells under Laplace noise
(accounting/error_model.py), and the square of μ Σ_g (a_g² + c_g²) x² at most under Gaussian noise:
a variance moves by at most x. Both grow with f. So each user has a largest factor, at most 1, whose
loss is within a given one.

The joint plan: one factor per user and the noise of every cell, chosen together. The class is
stated, and the following proved at length, in docs/understand/plan-class.md.

Feasibility. Given a loss L and targets, let d_g be the share that cell g puts at the middle. The
rates r(d) that meet a target of each statistic grow with d; the largest factor of a user within L
falls with the rates; d falls with the factors. So r -> factors -> d -> r is monotone: from r(0) the
steps converge, to the plan with the least noise in every cell at once, or a target is left no room.
A search over L (targets given) or over the error (L given) ends with a plan and, just below it, a
value at which none was found.
Certificate (`is_infeasible`). By induction no plan of the class has larger factors than the steps',
if users are charged the least that any plan may charge them: so where a target is left no room, no
plan of the class has loss L. The bound is lowered until this is proved.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import count
from typing import TypeAlias

import numpy as np

from hexveil.accounting import privacy_loss as contributions
from hexveil.accounting.noise_law import LAPLACE, NoiseLaw
from hexveil.accounting.privacy_loss import KeptRecords
from hexveil.base.arrays import Floats, Ints
from hexveil.base.work_share import SEARCH, tell_share
from hexveil.model.occupancy import Occupancy, Pairs
from hexveil.planning.optimizers.pair_sums import ShareSums, share_sums

Rates: TypeAlias = Floats
"""1 / noise scale of mean and variance of each cell, for bounds of width 1, shape (2, n_cells); 0
where there is no noise. Errors, weights and targets of both have the same shape."""


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

    def losses(self, rates: Rates, factor: Floats) -> Floats:
        """Return the loss of each user, not rounded; the plan itself rounds up."""
        if self.is_gaussian:
            return factor**2 * self._squares(rates)
        return self.occupancy.map_users(self._at(contributions.loss_at, rates, factor))

    def _squares(self, rates: Rates) -> Floats:
        """Return the square of μ of each user at factor 1."""
        return self.shares.per_user((rates**2).sum(axis=0), 2)

    def _at(
        self, work: Callable[..., Floats], rates: Rates, factor: Floats
    ) -> Callable[[Pairs], Floats]:
        """Return a function of pairs at these rates and factors."""
        total, (mean, variance) = self.occupancy.records_per_cell, rates
        return partial(work, total=total, mean=mean, variance=variance, factor=factor)

    def marginal_sums(self, rates: Rates, weight: Floats, factor: Floats) -> Floats:
        """Return how the weighed sum of users' losses rises with each rate, shape (2, n_cells).

        Under Laplace noise the sums over its users of the weight times x, and times spread(x).
        """
        if self.is_gaussian:
            return np.asarray(rates * self.shares.per_cell(2.0 * weight * factor**2, 2))
        mean = self.shares.per_cell(weight * factor)
        # Without noise for variances nothing goes down their slope.
        if not rates[1].any():
            return np.stack((mean, np.zeros_like(mean)))
        bent = self.shares.per_cell(weight * factor**2, 2)
        cell, user, x = self._majorities(factor)
        margin = np.bincount(cell, weights=weight[user] * (x - 0.5) ** 2, minlength=mean.size)
        return np.stack((mean, mean - bent + margin))

    def loss_slope(self, rates: Rates, factor: Floats) -> Floats:
        """Return how fast each user's loss grows with its factor."""
        if self.is_gaussian:
            return 2.0 * factor * self._squares(rates)
        flat, variance = self.shares.per_user(rates.sum(axis=0)), rates[1]
        if not variance.any():
            return flat
        cell, user, x = self._majorities(factor)
        margin = self._large[2] * variance[cell] * (2.0 * x - 1.0)
        large = np.bincount(user, weights=margin, minlength=flat.size)
        return np.asarray(flat - 2.0 * factor * self.shares.per_user(variance, 2) + large)

    def largest_factors(self, rates: Rates, loss: float, *, least: bool = False) -> Floats:
        """Return each user's largest factor, at most 1, with a loss of at most `loss`.

        Under Laplace noise, for x <= 1/2 in all its cells, the loss is A f - B f², solved exactly;
        the few users who hold more of a cell whose variance is published are bisected. With `least`
        those are charged the least that a plan may charge them, for lower bounds.
        """
        if self.is_gaussian:
            norms, limit = np.sqrt(self._squares(rates)), math.sqrt(loss)
            return np.where(norms > limit, limit / np.maximum(norms, 1e-300), 1.0)
        linear, variance = self.shares.per_user(rates.sum(axis=0)), rates[1]
        if not variance.any():
            return np.minimum(
                1.0, np.divide(loss, linear, out=np.ones_like(linear), where=linear > 0)
            )
        bent = self.shares.per_user(variance, 2)
        # 2 L / (A + √(A² - 4 B L)) is the smaller root without the cancellation of A - √.
        down = linear + np.sqrt(np.maximum(linear**2 - 4.0 * bent * loss, 0.0))
        solved = np.divide(2.0 * loss, down, out=np.ones_like(down), where=down > 0)
        # A - B is the loss at factor 1: whoever is within it is not clipped.
        factor = np.where(linear - bent <= loss, 1.0, np.minimum(solved, 1.0))
        # Only a majority user leaves the parabola, and only where a variance is published.
        if not variance[self._large[0]].any():
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


# ---- least noise, least loss, least error ----

RatesAt: TypeAlias = Callable[[Floats], Rates | None]
"""The least rates that meet some targets, by the share of each cell at the middle; None if none do.
They grow with every share."""
MAX_ITERATIONS = 20_000
"""Steps after which a loss too near the least one is given up as undecided."""
CONVERGENCE_TOLERANCE = 1e-9
"""Relative growth of the rates at which they count as converged."""
SEARCH_TOLERANCE = 2e-3
"""Relative width at which a search ends: the certificate's gap."""
PROOF_BISECTIONS = 12
"""Halvings for a proof, where a loss or error was only found hard and could not be proved so."""
PROOF_MARGIN = 1.0 - 1e-9
"""What the rounding of a proof's steps may have cost."""


@dataclass(frozen=True, eq=False)
class JointSolution:
    """Rates and factors that meet the targets within a loss.

    Attributes
    ----------
    rates : ndarray of float, shape (2, n_cells)
    factor : ndarray of float, shape (n_users,)
    """

    rates: Rates
    factor: Floats


@dataclass(frozen=True, eq=False)
class SearchResult:
    """The end of a search.

    Attributes
    ----------
    solution : JointSolution
    value : float
        The loss, or the error, at which it was found.
    bound : float
        No plan of the class is below it.
    """

    solution: JointSolution
    value: float
    bound: float


def minimize_loss(exposure: ClippingProblem, targets: RatesAt, asked: RatesAt) -> SearchResult:
    """Return the plan that meets the targets at the least loss of the most exposed user.

    `asked` are the targets that the bound is about; those aimed at may be a little smaller.
    """
    nobody = np.ones(exposure.occupancy.n_users)
    rates = targets(np.zeros(exposure.occupancy.n_cells))
    if rates is None:
        raise ValueError("no noise at all is left by these targets")
    # At this loss nobody is clipped, so that it works.
    largest = float(exposure.losses(rates, nobody).max())
    return _minimized(
        JointSolution(rates, nobody),
        largest,
        lambda loss, start: minimize_noise(exposure, targets, loss, start),
        lambda loss: is_infeasible(exposure, asked, loss),
    )


def minimize_max_error(
    exposure: ClippingProblem, targets_at: Callable[[float], RatesAt], loss: float, largest: float
) -> SearchResult:
    """Minimize a single number that determines all errors, within a loss.

    Parameters
    ----------
    targets_at : callable
        The targets for a number from 0 (none can be met) to `largest` (constants meet them).
    loss : float
    largest : float
    """
    rates = targets_at(largest)(np.zeros(exposure.occupancy.n_cells))
    if rates is None or rates.any():
        raise ValueError("constants must meet the largest targets")
    return _minimized(
        JointSolution(rates, np.ones(exposure.occupancy.n_users)),
        largest,
        lambda value, start: minimize_noise(exposure, targets_at(value), loss, start),
        lambda value: is_infeasible(exposure, targets_at(value), loss),
    )


def _minimized(
    solution: JointSolution,
    value: float,
    tried: Callable[[float, Rates], JointSolution | None],
    impossible: Callable[[float], bool],
) -> SearchResult:
    """Return the smallest value that works, to `SEARCH_TOLERANCE`, and one that is impossible.

    The solution works at the value. Its rates are a valid start at every smaller value, where no
    plan has smaller ones.
    """
    low, middle = 0.0, value / 2.0
    for step in count():
        if not value - low > SEARCH_TOLERANCE * value:
            break
        # Halvings that are left, once a value has failed.
        left = np.log2((value - low) / (SEARCH_TOLERANCE * value))
        tell_share(SEARCH, step / (step + 1.0 + float(left)))
        found = tried(middle, solution.rates)
        if found is None:
            low = middle
        else:
            solution, value = found, middle
        # Until one value fails, the least one may be of any size: halve.
        middle = (low + value) / 2.0
    # Usually the search has come down to what can be proved.
    bound, high = (low, low) if impossible(low) else (0.0, low)
    for _ in range(PROOF_BISECTIONS if bound < high else 0):
        middle = (bound + high) / 2.0
        bound, high = (middle, high) if impossible(middle) else (bound, middle)
    return SearchResult(solution, value, bound * PROOF_MARGIN)


def minimize_noise(
    exposure: ClippingProblem, targets: RatesAt, loss: float, start: Rates
) -> JointSolution | None:
    """Return the plan with the least noise in every cell at a loss; None if none was found.

    `start` are rates of a plan at a larger loss: no larger than those here, they save steps.
    """
    rates = start
    for _ in range(MAX_ITERATIONS):
        factor = exposure.largest_factors(rates, loss)
        new = targets(exposure.clipped_share(factor))
        if new is None:
            return None
        # Larger rates never follow from smaller ones, so that the first that suffice are the least.
        if (new <= rates * (1 + CONVERGENCE_TOLERANCE)).all():
            return JointSolution(new, factor)
        # The maximum keeps the iteration monotone where rounding would let it go back.
        rates = np.maximum(rates, new)
    # Slow convergence is no proof: the search goes on above, the certificate does not count it.
    return None


def is_infeasible(exposure: ClippingProblem, targets: RatesAt, loss: float) -> bool:
    """Return whether it is proved that no plan of the class has this loss.

    The factors never grow: each step's is an upper bound for the factors of every such plan, by
    the rates that its own bias leaves room for. Steps are taken at a slightly larger loss, which
    covers their rounding.
    """
    factor = np.ones(exposure.occupancy.n_users)
    for _ in range(MAX_ITERATIONS):
        rates = targets(exposure.clipped_share(factor))
        if rates is None:
            return True
        # A larger loss makes the factors larger, hence still upper bounds after rounding.
        new = np.minimum(factor, exposure.largest_factors(rates, loss / PROOF_MARGIN, least=True))
        if (new >= factor * (1 - CONVERGENCE_TOLERANCE)).all():
            return False
        factor = new
    return False
