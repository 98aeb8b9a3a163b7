"""Lower bound on the average error of every joint plan within a loss.

For any multipliers λ_l >= 0 of the users' losses, the least average error is at least
the least of error + Σ_l λ_l (loss_l - L), which falls apart into cells. In a cell whose kept shares
sum to C at the least price M(C) (users in the order of λ, each taken whole), noise of scale b costs
w b + M/b >= 2 √(w M). Between two users everything is concave in C, so the least is where whole
users are taken: every one of them is looked at. This holds for kept shares chosen pair by pair,
which is more than the class allows.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from hexveil.accounting.error_model import MAX_CONSTANT_ERROR, WORST_CASE_BIAS
from hexveil.base.work_share import SEARCH, tell_share
from hexveil.planning.optimizers.mean_error import loss_multipliers, weighted_errors
from hexveil.planning.optimizers.minimax import PROOF_MARGIN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from hexveil.planning.optimizers.mean_error import ObjectiveWeights
    from hexveil.planning.optimizers.user_factors import ClippingProblem, InverseScales

    Floats = NDArray[np.float64]

BINDING_SHARE = 0.99
"""Part of the allowed loss from which a user who is not reduced counts as held by it."""
ASCENT_STEPS, ASCENT_PAIRS = 300, 2e7
"""Steps towards the best lower bound, and how many pairs they may look at in all."""
SAMPLED_RUNS = 2
"""Runs of cells that show the scale at which the multipliers begin."""
LOG_SCALES, LOG_REFINEMENTS = np.linspace(-4.0, 1.0, 6), np.linspace(-0.6, 0.6, 7)
"""Logarithms of scales that are looked at first, and around the best of them."""
BLOCK_PAIRS = 2**18
"""Pairs that the answer of the cells looks at together."""


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
    multiplier = loss_multipliers(exposure, weights, rates, factor, multipliers)
    if not multiplier.any():  # constants alone: everybody might be held
        everybody = exposure.occupancy.n_users
        multiplier = np.full(everybody, weights.constant_error() / (loss * everybody))
    # Where noise is all of the error, the best multipliers weigh the loss as much as the error.
    worth = float(weighted_errors(weights, rates, exposure.clipped_share(factor)).sum())
    multiplier = multiplier * min(1.0, worth / (loss * float(multiplier.sum())))
    # The search for their scale takes about as long as a step.
    # On large maps few steps are affordable: any number of them gives a valid bound.
    steps = int(min(ASCENT_STEPS, max(ASCENT_PAIRS / exposure.occupancy.n_pairs - 1, 1)))
    candidates = _scaled(exposure, weights, loss, np.maximum(multiplier, multiplier.max() * 1e-6))
    best = 0.0
    for step in range(steps):
        dual, losses = _answer(exposure, weights, candidates)
        best = max(best, dual - loss * float(candidates.sum()))
        # Steps in logarithms keep multipliers positive; 1/√t is the usual rate of a subgradient.
        push = 0.3 / np.sqrt(step + 1.0) * (losses / loss - 1.0)
        candidates = candidates * np.exp(np.clip(push, -1.0, 1.0))
        tell_share(SEARCH, (step + 1) / steps)
    return best * PROOF_MARGIN


def _scaled(
    exposure: ClippingProblem, weights: ObjectiveWeights, loss: float, multiplier: Floats
) -> Floats:
    """Return the multipliers scaled to about the largest bound, judged by some cells.

    The bound is concave in the scale. Its largest value is looked for at scales a factor e apart,
    then at closer ones around the best: steps towards the best multipliers follow in any case.
    """
    occupancy = exposure.occupancy.local()
    runs = list(_blocks(occupancy.start))
    sample = runs[:: max(len(runs) // SAMPLED_RUNS, 1)]
    pairs = sum(int(np.diff(occupancy.start[[run.start, run.stop]])[0]) for run in sample)
    price = loss * float(multiplier.sum()) * pairs / occupancy.n_pairs

    def bound(log: float) -> float:
        times = float(np.exp(log))
        return _answer(exposure, weights, multiplier * times, sample)[0] - times * price

    coarse = max(LOG_SCALES, key=bound)
    return multiplier * float(np.exp(max(coarse + LOG_REFINEMENTS, key=bound)))


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
    # Stable, so that equal prices have one order on every machine.
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
