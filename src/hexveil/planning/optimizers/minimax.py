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

import numpy as np

from hexveil.base.arrays import Floats
from hexveil.base.work_share import SEARCH, tell_share
from hexveil.planning.calibration import ErrorTargets
from hexveil.planning.optimizers.user_factors import ClippingProblem, InverseScales

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
class FeasibilityResult:
    """Result of the search at one loss.

    Attributes
    ----------
    solution : JointSolution or None
    infeasible : bool
        Whether it was proved that no plan of the class is there.
    """

    solution: JointSolution | None
    infeasible: bool


def minimize_noise(
    exposure: ClippingProblem,
    rates_at: Callable[[Floats], InverseScales | None],
    loss: float,
    start: InverseScales | None = None,
) -> FeasibilityResult:
    """Return the plan with the least noise in every cell at a loss, or the proof of none."""
    # Without bias a target leaves the most room for noise: these are the smallest rates of any
    # plan.
    rates = rates_at(np.zeros(exposure.occupancy.n_cells))
    if rates is None:
        return FeasibilityResult(None, infeasible=True)
    # Rates of a plan at a larger loss are no larger than those here: they save steps.
    if start is not None:
        rates = InverseScales(
            np.maximum(rates.mean, start.mean), np.maximum(rates.variance, start.variance)
        )
    for _ in range(MAX_ITERATIONS):
        factor = exposure.largest_factors(rates, loss)
        new = rates_at(exposure.clipped_share(factor))
        if new is None:
            return FeasibilityResult(None, infeasible=True)
        # Larger rates never follow from smaller ones, so that the first that suffice are the least.
        if (new.mean <= rates.mean * (1 + CONVERGENCE_TOLERANCE)).all() and (
            new.variance <= rates.variance * (1 + CONVERGENCE_TOLERANCE)
        ).all():
            return FeasibilityResult(JointSolution(new, factor), infeasible=False)
        # The maximum keeps the iteration monotone where rounding would let it go back.
        rates = InverseScales(
            np.maximum(rates.mean, new.mean), np.maximum(rates.variance, new.variance)
        )
    # Slow convergence is no proof: the search treats it as undecided, the certificate does not
    # count it.
    return FeasibilityResult(None, infeasible=False)


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


def is_infeasible(
    exposure: ClippingProblem, rates_at: Callable[[Floats], InverseScales | None], loss: float
) -> bool:
    """Return whether it is proved that no plan of the class has this loss.

    The factors never grow: each step's is an upper bound for the factors of every such plan, by
    the rates that its own bias leaves room for. Steps are taken at a slightly larger loss, which
    covers their rounding.
    """
    factor = np.ones(exposure.occupancy.n_users)
    for _ in range(MAX_ITERATIONS):
        rates = rates_at(exposure.clipped_share(factor))
        if rates is None:
            return True
        # A larger loss makes the factors larger, hence still upper bounds after rounding.
        new = np.minimum(factor, exposure.largest_factors(rates, loss / PROOF_MARGIN, least=True))
        if (new >= factor * (1 - CONVERGENCE_TOLERANCE)).all():
            return False
        factor = new
    return False


def minimize_loss(exposure: ClippingProblem, targets: ErrorTargets, asked: ErrorTargets) -> SearchResult:
    """Return the plan that meets the targets at the least loss of the most exposed user.

    `asked` are the targets that the bound is about; those aimed at may be a little smaller.
    """
    nobody = np.ones(exposure.occupancy.n_users)
    rates = targets.rates(np.zeros(exposure.occupancy.n_cells))
    if rates is None:
        raise ValueError("no noise at all is left by these targets")
    high = float(exposure.losses(rates, nobody).max())
    first = SearchResult(JointSolution(rates, nobody), high, 0.0)
    if not high:
        return first

    def tried(loss: float, start: InverseScales | None) -> FeasibilityResult:
        return minimize_noise(exposure, targets.rates, loss, start)

    # At the first loss nobody is clipped, so that it works; half of it may or may not.
    result = _search(first, high / 2.0, tried)
    bound = _proved(result.bound, lambda loss: is_infeasible(exposure, asked.rates, loss))
    return SearchResult(result.solution, result.value, bound)


def _proved(bound: float, impossible: Callable[[float], bool]) -> float:
    """Return the largest loss or error, up to `bound`, that is proved impossible, nearly."""
    # Usually the search has come down to what can be proved.
    if impossible(bound):
        return bound * PROOF_MARGIN
    low, high = 0.0, bound
    for _ in range(PROOF_BISECTIONS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if impossible(middle) else (low, middle)
    return low * PROOF_MARGIN


def _search(
    first: SearchResult,
    guess: float,
    tried: Callable[[float, InverseScales | None], FeasibilityResult],
) -> SearchResult:
    """Return the smallest value that works, to a relative `SEARCH_TOLERANCE`; `first` works.

    A plan's rates are a valid start at every smaller value, where no plan has smaller ones.
    """
    best, low, proved = first, 0.0, 0.0
    value = guess
    for step in count():
        if not best.value - low > SEARCH_TOLERANCE * best.value:
            break
        # Halvings that are left, once a value has failed.
        left = np.log2((best.value - low) / (SEARCH_TOLERANCE * best.value))
        tell_share(SEARCH, step / (step + 1.0 + float(left)))
        answer = tried(value, best.solution.rates)
        if answer.solution is not None:
            best = SearchResult(answer.solution, value, proved)
        else:
            low = value
            proved = max(proved, value if answer.infeasible else 0.0)
        # Until one value fails, the least one may be of any size: halve.
        value = (low + best.value) / 2.0 if low else best.value / 2.0
    return SearchResult(best.solution, best.value, proved)


def minimize_max_error(
    exposure: ClippingProblem, targets_at: Callable[[float], ErrorTargets], loss: float, largest: float
) -> SearchResult:
    """Minimize a single number that determines all errors, within a loss.

    Parameters
    ----------
    targets_at : callable
        The targets for a number from 0 (none can be met) to `largest` (constants meet them).
    loss : float
    largest : float
    """
    targets = targets_at(largest)
    rates = targets.rates(np.zeros(exposure.occupancy.n_cells))
    if rates is None or rates.total.any():
        raise ValueError("constants must meet the largest targets")
    nobody = np.ones(exposure.occupancy.n_users)
    first = SearchResult(JointSolution(rates, nobody), largest, 0.0)

    def tried(value: float, start: InverseScales | None) -> FeasibilityResult:
        return minimize_noise(exposure, targets_at(value).rates, loss, start)

    result = _search(first, largest / 2.0, tried)

    def impossible(value: float) -> bool:
        return is_infeasible(exposure, targets_at(value).rates, loss)

    return SearchResult(result.solution, result.value, _proved(result.bound, impossible))
