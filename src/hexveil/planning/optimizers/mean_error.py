"""Joint plan of least average error at a given loss, and a lower bound on it.

Class and symbols: planning/optimizers/minimax.py, docs/understand/plan-class.md. With the factors
at their largest within the loss, the average error is a smooth function of the logarithms of the
rates; it is minimised by L-BFGS, cells that would do better as constants are made so, and it is
minimised again.

Lower bound. For any multipliers λ_l >= 0 of the users' losses, the least average error is at least
the least of error + Σ_l λ_l (loss_l - L), which falls apart into cells. In a cell whose kept shares
sum to C at the least price M(C) (users in the order of λ, each taken whole), noise of scale b costs
w b + M/b >= 2 √(w M). Between two users everything is concave in C, so the least is where whole
users are taken: every one of them is looked at. This holds for kept shares chosen pair by pair,
which is more than the class allows.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from hexveil.accounting.error_model import MAX_CONSTANT_ERROR, WORST_CASE_BIAS, has_single_record
from hexveil.planning.optimizers.minimax import PROOF_MARGIN, JointSolution
from hexveil.planning.optimizers.user_factors import ClippingProblem, InverseScales

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from hexveil.model.occupancy import Occupancy
    from hexveil.planning.request import Request

    Floats = NDArray[np.float64]

CONSTANT_ROUNDS = 6
"""How often cells that are better constants are looked for."""
LOG_SCALE_RANGE = 30.0
"""How far the logarithms of the rates may go from where they began: numbers stay ordinary."""
BINDING_SHARE = 0.99
"""Part of the allowed loss from which a user who is not reduced counts as held by it."""
ASCENT_STEPS, ASCENT_PAIRS = 300, 2e7
"""Steps towards the best lower bound, and how many pairs they may look at in all."""
SAMPLED_RUNS, LOG_MULTIPLIER_RANGE = 2, (-4.0, 1.0)
"""Runs of cells that show the scale at which they begin, and between which logarithms it is."""
BLOCK_PAIRS = 2**18
"""Pairs that the answer of the cells looks at together."""


@dataclass(frozen=True, eq=False)
class ObjectiveWeights:
    """Weight of an error of 1, for bounds of width 1, in the average.

    Attributes
    ----------
    mean, variance : ndarray of float, shape (n_cells,)
        Zero for a statistic that is not asked for, and for the variance of one record, which is 0.
    """

    mean: Floats
    variance: Floats

    @classmethod
    def of(cls, request: Request, span: Floats, occupancy: Occupancy) -> ObjectiveWeights:
        """Return weights that make the sum of errors the average of `Plan.objective_errors`."""
        names, cells, varies = request.noised, float(span.size), ~has_single_record(occupancy)
        if len(names) == 2 and request.error != "sum":
            flat = np.ones(span.size) / (2.0 * cells)
            return cls(
                flat / MAX_CONSTANT_ERROR["mean"],
                np.where(varies, flat / MAX_CONSTANT_ERROR["variance"], 0.0),
            )
        zero = np.zeros(span.size)
        return cls(
            span / cells if "mean" in names else zero,
            np.where(varies, span**2 / cells, 0.0) if "variance" in names else zero,
        )

    def constant_error(self) -> float:
        """Return the average error of constants alone."""
        return float(
            (
                self.mean * MAX_CONSTANT_ERROR["mean"]
                + self.variance * MAX_CONSTANT_ERROR["variance"]
            ).sum()
        )


@dataclass(frozen=True)
class SearchLimits:
    """Limits of one descent.

    Near the minimum a line search compares errors that differ only by rounding, so the number of
    evaluations depends on the processor. Where an evaluation is dear, limit evaluations as well as
    iterations.

    Attributes
    ----------
    iterations : int
    evaluations : int
        Evaluations of the error and its slope after which no iteration begins.
    trials : int
        Evaluations of one line search.
    """

    iterations: int = 300
    evaluations: int = 15_000
    trials: int = 20

    @property
    def max_evaluations(self) -> int:
        """Largest possible number of evaluations.

        The last iteration may search its line twice: a failed search is repeated once along the
        steepest descent.
        """
        return self.evaluations + 2 * self.trials

    def options(self) -> dict[str, int]:
        """Return the limits in SciPy's terms."""
        return {
            "maxiter": self.iterations,
            "maxfun": self.evaluations,
            "maxls": self.trials,
        }


FULL_SEARCH = SearchLimits()
"""Limits of a descent with all pairs at hand."""


def minimize_mean_error(
    exposure: ClippingProblem,
    weights: ObjectiveWeights,
    loss: float,
    effort: SearchLimits = FULL_SEARCH,
    begin: InverseScales | None = None,
) -> JointSolution:
    """Minimize the weighted sum of errors within a loss.

    Less effort is good enough for a prediction, and from rates to begin with that are those of a
    like occupancy; the constants of these are kept.
    """
    if begin is not None:
        live = [begin.mean > 0, begin.variance > 0]
        if any(m.any() for m in live):
            begin = _descend(exposure, weights, loss, live, begin, effort)[1]
        return JointSolution(begin, exposure.largest_factors(begin, loss))
    target = [weights.mean > 0, weights.variance > 0]
    nothing = [np.zeros(m.size) for m in target]
    best: tuple[float, InverseScales] = (weights.constant_error(), InverseScales(*nothing))
    nobody = np.ones(exposure.occupancy.n_users)
    if not best[0]:  # constants miss nothing
        return JointSolution(best[1], nobody)
    begins = [target]
    if all(m.any() for m in target):  # with constants for one of them, both ways round
        begins += [[target[0], nothing[1] > 0], [nothing[0] > 0, target[1]]]
    for live in begins:
        result = _descents(exposure, weights, loss, live, effort)
        best = min(best, result, key=lambda one: one[0])
    _, rates = best
    return JointSolution(
        rates, exposure.largest_factors(rates, loss) if rates.total.any() else nobody
    )


def _descents(
    exposure: ClippingProblem,
    weights: ObjectiveWeights,
    loss: float,
    live: list[NDArray[np.bool_]],
    effort: SearchLimits,
) -> tuple[float, InverseScales]:
    """Return the least error found, making cells constants that would do better so."""
    start = _start(exposure, weights, loss)
    best: tuple[float, InverseScales] | None = None
    for _ in range(CONSTANT_ROUNDS):
        results = _descend(exposure, weights, loss, live, start, effort)
        best = results if best is None else min(best, results, key=lambda one: one[0])
        worse = _worse(exposure, results[1], loss, live)
        live = [m & ~w for m, w in zip(live, worse, strict=True)]
        if not any(w.any() for w in worse) or not any(m.any() for m in live):
            break
        start = results[1]
    assert best is not None  # noqa: S101  there is a round
    return best


def _start(exposure: ClippingProblem, weights: ObjectiveWeights, loss: float) -> InverseScales:
    """Return rates at which a typical user's loss is the one allowed."""
    size = exposure.occupancy.n_cells
    ones = InverseScales(*((w > 0).astype(np.float64) for w in (weights.mean, weights.variance)))
    linear = exposure.losses(ones, np.ones(exposure.occupancy.n_users))
    rate = np.full(size, loss / float(np.quantile(linear, 0.9)))
    return InverseScales(rate * ones.mean, rate * ones.variance)


def _descend(
    exposure: ClippingProblem,
    weights: ObjectiveWeights,
    loss: float,
    live: list[NDArray[np.bool_]],
    start: InverseScales,
    effort: SearchLimits,
) -> tuple[float, InverseScales]:
    import scipy.optimize  # noqa: PLC0415  slow to import, and only this objective needs it

    active = np.concatenate(live)
    first = np.concatenate((start.mean, start.variance))[active]

    def unpack(logs: Floats) -> InverseScales:
        full = np.zeros(active.size)
        full[active] = np.exp(logs)
        mean, variance = np.split(full, 2)
        return InverseScales(mean, variance)

    def value(logs: Floats) -> tuple[float, Floats]:
        error, slope = _value(exposure, weights, loss, unpack(logs))
        return error, slope[active] * np.exp(logs)

    begin = np.log(np.maximum(first, 1e-12))
    converged = scipy.optimize.minimize(
        value,
        begin,
        jac=True,
        method="L-BFGS-B",
        bounds=np.stack((begin - LOG_SCALE_RANGE, begin + LOG_SCALE_RANGE), axis=1),
        options=effort.options(),
    )
    return float(converged.fun), unpack(np.asarray(converged.x))


def _value(
    exposure: ClippingProblem, weights: ObjectiveWeights, loss: float, rates: InverseScales
) -> tuple[float, Floats]:
    """Return the weighed error of these rates and its slope in them."""
    factor = exposure.largest_factors(rates, loss)
    clipped_share = exposure.clipped_share(factor)
    error = _errors(weights, rates, clipped_share).sum()
    multiplier = _multipliers(exposure, weights, rates, factor, factor < 1.0)
    slope = [
        pushed - np.divide(w, r**2, out=np.zeros_like(r), where=r > 0)
        for w, r, pushed in zip(
            (weights.mean, weights.variance),
            (rates.mean, rates.variance),
            exposure.marginal_sums(multiplier, factor),
            strict=True,
        )
    ]
    return float(error), np.concatenate(slope)


def _errors(weights: ObjectiveWeights, rates: InverseScales, away: Floats) -> Floats:
    """Return the weighed error of each cell."""
    total = np.zeros(away.size)
    for name, w, r in (
        ("mean", weights.mean, rates.mean),
        ("variance", weights.variance, rates.variance),
    ):
        noise = np.divide(1.0, r, out=np.zeros_like(r), where=r > 0)
        total += w * np.where(r > 0, WORST_CASE_BIAS[name](away) + noise, MAX_CONSTANT_ERROR[name])
    return total


def _multipliers(
    exposure: ClippingProblem,
    weights: ObjectiveWeights,
    rates: InverseScales,
    factor: Floats,
    held: NDArray[np.bool_],
) -> Floats:
    """Return how much the weighed error falls per loss that a user who is held is allowed more."""
    steep = np.where(rates.mean > 0, weights.mean / 2.0, 0.0)
    if rates.variance.any():
        remaining = np.maximum(1.0 - 2.0 * exposure.clipped_share(factor), 0.0)
        steep += np.where(rates.variance > 0, weights.variance * remaining / 2.0, 0.0)
    gain = exposure.sum_per_user(steep)
    cost = exposure.loss_slope(rates, factor)
    return np.divide(gain, cost, out=np.zeros_like(gain), where=held & (cost > 0))


def _worse(
    exposure: ClippingProblem, rates: InverseScales, loss: float, live: list[NDArray[np.bool_]]
) -> list[NDArray[np.bool_]]:
    """Return the statistics of cells with a larger error than a constant."""
    clipped_share = exposure.clipped_share(exposure.largest_factors(rates, loss))
    is_worse = []
    for name, r, on in (("mean", rates.mean, live[0]), ("variance", rates.variance, live[1])):
        noise = np.divide(1.0, r, out=np.full_like(r, np.inf), where=r > 0)
        is_worse.append(
            on & (WORST_CASE_BIAS[name](clipped_share) + noise >= MAX_CONSTANT_ERROR[name])
        )
    return is_worse


def mean_error_lower_bound(
    exposure: ClippingProblem,
    weights: ObjectiveWeights,
    loss: float,
    rates: InverseScales,
    factor: Floats,
) -> float:
    """Return a lower bound on the error of every plan within the loss, from a good plan's rates.

    Any multipliers give a bound; they are raised where the cheapest answer of the cells loses more
    than is allowed, and lowered where it loses less.
    """
    if not loss or not weights.constant_error():
        return weights.constant_error() * PROOF_MARGIN  # only constants cost nothing
    multipliers = (factor < 1.0) | (exposure.losses(rates, factor) >= BINDING_SHARE * loss)
    multiplier = _multipliers(exposure, weights, rates, factor, multipliers)
    if not multiplier.any():  # constants alone: everybody might be held
        everybody = exposure.occupancy.n_users
        multiplier = np.full(everybody, weights.constant_error() / (loss * everybody))
    # Where noise is all of the error, the best multipliers weigh the loss as much as the error.
    worth = float(_errors(weights, rates, exposure.clipped_share(factor)).sum())
    multiplier = multiplier * min(1.0, worth / (loss * float(multiplier.sum())))
    # The search for their scale takes about as long as a step.
    steps = int(min(ASCENT_STEPS, max(ASCENT_PAIRS / exposure.occupancy.n_pairs - 1, 1)))
    candidates = _scaled(exposure, weights, loss, np.maximum(multiplier, multiplier.max() * 1e-6))
    best = 0.0
    for step in range(steps):
        dual, losses = _answer(exposure, weights, candidates)
        best = max(best, dual - loss * float(candidates.sum()))
        push = 0.3 / np.sqrt(step + 1.0) * (losses / loss - 1.0)
        candidates = candidates * np.exp(np.clip(push, -1.0, 1.0))
    return best * PROOF_MARGIN


def _scaled(
    exposure: ClippingProblem, weights: ObjectiveWeights, loss: float, multiplier: Floats
) -> Floats:
    """Return the multipliers scaled to about the largest bound, judged by some cells."""
    import scipy.optimize  # noqa: PLC0415  slow to import

    occupancy = exposure.occupancy.local()
    runs = list(_blocks(occupancy.start))
    sample = runs[:: max(len(runs) // SAMPLED_RUNS, 1)]
    pairs = sum(int(np.diff(occupancy.start[[run.start, run.stop]])[0]) for run in sample)
    price = loss * float(multiplier.sum()) * pairs / occupancy.n_pairs

    def below(log: float) -> float:
        times = float(np.exp(log))
        return times * price - _answer(exposure, weights, multiplier * times, sample)[0]

    scaled = scipy.optimize.minimize_scalar(
        below, bounds=LOG_MULTIPLIER_RANGE, method="bounded", options={"xatol": 0.1}
    )
    return multiplier * float(np.exp(scaled.x))


def _answer(
    exposure: ClippingProblem,
    weights: ObjectiveWeights,
    multiplier: Floats,
    runs: Iterable[slice] | None = None,
) -> tuple[float, Floats]:
    """Return the least weighted error plus price of cells, and each user's loss in them.

    Of all cells, or of some runs of them.
    """
    occupancy = exposure.occupancy.local()
    rank = np.empty(occupancy.n_users, dtype=np.int64)
    rank[np.argsort(multiplier, kind="stable")] = np.arange(occupancy.n_users)
    total, losses = 0.0, np.zeros(occupancy.n_users)
    for cells in _blocks(occupancy.start) if runs is None else runs:
        start = occupancy.start[cells.start : cells.stop + 1]
        rows, start = slice(start[0], start[-1]), start - start[0]
        user, share = occupancy.user[rows], exposure.share[rows]
        price, moved = multiplier[user], np.zeros(user.size)
        if (weight := weights.mean[cells]).any():
            smallest, x = _least(weight, price, share, (start, _by_rank(rank[user], start)), "mean")
            total += smallest
            moved += x
        if (weight := weights.variance[cells]).any():
            curved = 1.0 - share
            price *= curved
            order = start, _by_price(price, start)
            smallest, x = _least(weight, price, share, order, "variance")
            total += smallest
            moved += x * curved
        losses += np.bincount(user, weights=moved, minlength=losses.size)
    return total, losses


def _blocks(start: NDArray[np.int64]) -> Iterator[slice]:
    """Yield slices of cells with about so many pairs: few enough for a processor's cache."""
    edges = np.searchsorted(start, np.arange(0, start[-1], BLOCK_PAIRS)).tolist()
    for begin, end in pairwise(dict.fromkeys([*edges, start.size - 1])):
        yield slice(begin, end)


def _by_rank(rank: NDArray[np.int64], start: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the pairs of each cell in the order of their users' ranks.

    A pair's cell, rank and number stand in one whole number: those are sorted many times as fast
    as two columns.
    """
    numbers = int(rank.size).bit_length()
    ranks = int(rank.max()).bit_length()
    if numbers + ranks + int(start.size).bit_length() > 63:
        return _by_price(rank, start)
    key = np.repeat(np.arange(start.size - 1), np.diff(start)) << ranks
    key |= rank
    key <<= numbers
    key |= np.arange(rank.size)
    key.sort()
    key &= (1 << numbers) - 1
    return key


def _by_price(price: Floats | NDArray[np.int64], start: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the pairs of each cell in the order of their prices, equal ones as they stand."""
    order = np.empty(price.size, dtype=np.int64)
    for begin, end in pairwise(start.tolist()):
        order[begin:end] = np.argsort(price[begin:end], kind="stable")
        order[begin:end] += begin
    return order


def _least(
    weight: Floats,
    price: Floats,
    share: Floats,
    by_price: tuple[NDArray[np.int64], NDArray[np.int64]],
    name: str,
) -> tuple[float, Floats]:
    """Return the minimum of bias + 2 √(price of the contribution), or of constants, and x / noise.

    `by_price` is where each cell's pairs begin, and their order by price.
    """
    start, order = by_price
    first, size = start[:-1], np.diff(start)
    share = share[order]
    clipped_share = np.maximum(1.0 - _running(share, start), 0.0)
    paid = _running(share * price[order], start)
    w = np.repeat(weight, size)
    errors = w * WORST_CASE_BIAS[name](clipped_share) + 2.0 * np.sqrt(w * paid)
    smallest = np.minimum.reduceat(errors, first)
    constant = weight * MAX_CONSTANT_ERROR[name]
    places = np.flatnonzero(errors == np.repeat(smallest, size))
    last = places[np.searchsorted(places, first)]  # the first place of the least in each cell
    live = (smallest < constant) & (paid[last] > 0)
    noise = np.sqrt(paid[last] / np.where(weight > 0, weight, 1.0))
    end = np.where(live, last + 1, first)  # of the pairs that are taken
    capped = np.arange(order.size) < np.repeat(end, size)
    moved = np.zeros(order.size)
    moved[order[capped]] = (share / np.repeat(np.maximum(noise, 1e-300), size))[capped]
    return float(np.minimum(smallest, constant).sum()), moved


def _running(terms: Floats, start: NDArray[np.int64]) -> Floats:
    """Return running sums that begin anew in each cell."""
    total = np.cumsum(terms)
    preceding = np.concatenate(([0.0], total[start[1:-1] - 1]))
    total -= np.repeat(preceding, np.diff(start))
    return np.asarray(total)
