"""The joint plan: one factor per user and the noise of every cell, chosen together.

The class is stated, and the following proved at length, in docs/understand/plan-class.md.

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

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import TypeAlias

import numpy as np

from hexveil.base.arrays import Floats
from hexveil.base.work_share import SEARCH, tell_share
from hexveil.planning.optimizers.user_factors import ClippingProblem, InverseScales

RatesAt: TypeAlias = Callable[[Floats], InverseScales | None]
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
    rates : InverseScales
    factor : ndarray of float, shape (n_users,)
    """

    rates: InverseScales
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
    exposure: ClippingProblem,
    targets_at: Callable[[float], RatesAt],
    loss: float,
    largest: float,
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
    if rates is None or rates.total.any():
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
    tried: Callable[[float, InverseScales], JointSolution | None],
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
    exposure: ClippingProblem, targets: RatesAt, loss: float, start: InverseScales
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
        if (new.mean <= rates.mean * (1 + CONVERGENCE_TOLERANCE)).all() and (
            new.variance <= rates.variance * (1 + CONVERGENCE_TOLERANCE)
        ).all():
            return JointSolution(new, factor)
        # The maximum keeps the iteration monotone where rounding would let it go back.
        rates = InverseScales(
            np.maximum(rates.mean, new.mean), np.maximum(rates.variance, new.variance)
        )
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
