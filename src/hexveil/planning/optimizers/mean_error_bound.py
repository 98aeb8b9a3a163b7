"""Lower bound on the average error of every joint plan within a loss.

For any multipliers λ_l >= 0 of the users' losses, the least average error is at least
the least of error + Σ_l λ_l (loss_l - L), which falls apart into cells. In a cell whose kept shares
sum to C at the least price M(C) (users in the order of λ, each taken whole), noise of scale b costs
w b + M/b >= 2 √(w M). Between two users everything is concave in C, so the least is where whole
users are taken: every one of them is looked at. This holds for kept shares chosen pair by pair,
which is more than the class allows.
"""

from __future__ import annotations

from itertools import count, pairwise
from typing import TYPE_CHECKING

import numpy as np

from hexveil.accounting.error_model import MAX_CONSTANT_ERROR, WORST_CASE_BIAS
from hexveil.base.work_share import SEARCH, tell_share
from hexveil.planning.optimizers.mean_error import (
    ObjectiveWeights,
    loss_multipliers,
    weighted_errors,
)
from hexveil.planning.optimizers.minimax import PROOF_MARGIN
from hexveil.planning.optimizers.user_factors import ClippingProblem, InverseScales

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from hexveil.base.arrays import Floats
    from hexveil.planning.plan_data import MomentFigures

    BoundAt = Callable[[Floats, float], tuple[float, Floats]]

BINDING_SHARE = 0.99
"""Part of the allowed loss from which a user who is not reduced counts as held by it."""
ASCENT_STEPS, ASCENT_PAIRS = 300, 2e7
"""Steps towards the best lower bound, and how many pairs they may look at in all."""
USUAL_STEPS, USUAL_PAIRS = 150, 4e6
"""Steps that come near the best bound, beyond which steps may look at so many pairs in all."""
SMOOTHING, COOLING = 0.03, 0.6
"""Temperature of the cells' answers, as a part of their least cost, and the power of its fall."""
SMOOTHED_STEPS = 60
"""Steps with smoothed answers before any with exact ones, unless the bound stops rising."""
FIRST_RATE, MAX_RATE, MIN_RATE = 0.3, 2.0, 0.05
"""Length of a user's steps with smoothed answers, per excess of its loss."""
GROWTH, SHRINKAGE = 1.15, 0.75
"""Factors of a user's rate after an excess of the same and of the opposite sign."""
EXACT_RATE = 0.2
"""Length of steps with exact answers, per excess of a user's loss."""
STALL_STEPS, LEAST_GAIN = 15, 1e-4
"""Steps after which smoothing ends if the bound gained less in them, as a part of the bound."""
SAMPLED_RUNS = 2
"""Runs of cells that show the scale at which the multipliers begin."""
LOG_SCALES, LOG_REFINEMENTS = np.linspace(-4.0, 1.0, 6), np.linspace(-0.6, 0.6, 7)
"""Logarithms of scales that are looked at first, and around the best of them."""
BLOCK_PAIRS = 2**18
"""Pairs that the answer of the cells looks at together."""


# ---- of a plan ----


def compute_mean_error_bound(plan: MomentFigures) -> float:
    """Return a lower bound on the mean error of every plan of the joint plan's class."""
    return mean_error_lower_bound(
        ClippingProblem(plan.occupancy),
        ObjectiveWeights.of(plan.request, plan.span, plan.occupancy),
        float(plan.requested_epsilon),
        InverseScales(_inverse(plan.mean_noise), _inverse(plan.allocation.variance_noise)),
        plan.allocation.contribution_factor,
    )


def _inverse(noise: Floats) -> Floats:
    return np.divide(1.0, noise, out=np.zeros_like(noise), where=noise > 0)


# ---- of rates ----


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
    away = exposure.clipped_share(factor)
    multiplier = loss_multipliers(exposure, weights, rates, factor, multipliers, away)
    if not multiplier.any():  # constants alone: everybody might be held
        everybody = exposure.occupancy.n_users
        multiplier = np.full(everybody, weights.constant_error() / (loss * everybody))
    # Where noise is all of the error, the best multipliers weigh the loss as much as the error.
    worth = float(weighted_errors(weights, rates, away, exposure.law).sum())
    multiplier = multiplier * min(1.0, worth / (loss * float(multiplier.sum())))
    # The search for their scale takes about as long as a step.
    # On large maps few steps are affordable: any number of them gives a valid bound.
    n_pairs = exposure.occupancy.n_pairs
    most = min(ASCENT_STEPS, max(USUAL_PAIRS / n_pairs, USUAL_STEPS))
    steps = int(min(most, max(ASCENT_PAIRS / n_pairs - 1, 1)))
    begin = _scaled(exposure, weights, loss, np.maximum(multiplier, multiplier.max() * 1e-6))

    asked = count(1)

    def bound(logs: Floats, smoothing: float) -> tuple[float, Floats]:
        tell_share(SEARCH, next(asked) / steps)
        candidates = np.exp(logs)  # logarithms keep multipliers positive
        dual, losses = _answer(exposure, weights, candidates, smoothing=smoothing)
        return dual - loss * float(candidates.sum()), losses / loss - 1.0

    # Smoothed answers rise faster, and exact ones correct what those leave near the best.
    smoothed = min(steps, max(steps // 2, SMOOTHED_STEPS))
    taken, best, logs = _ascend_smoothed(bound, np.log(begin), smoothed)
    return max(best, _ascend(bound, logs, range(taken, steps))) * PROOF_MARGIN


def _ascend_smoothed(bound: BoundAt, logs: Floats, steps: int) -> tuple[int, float, Floats]:
    """Return the steps taken by smoothed slopes, the largest bound and its multipliers' logarithms.

    A cell's cheapest answer jumps as multipliers change, so that its slope leads back and forth;
    an average of its cheap answers follows them gradually. Users have rates of their own (Rprop).
    """
    bests, best_logs = [0.0], logs
    rate, before = np.full(logs.size, FIRST_RATE), np.zeros(logs.size)
    for step in range(steps):
        value, excess = bound(logs, SMOOTHING * (step + 1.0) ** -COOLING)
        if value > bests[-1]:
            best_logs = logs
        bests.append(max(bests[-1], value))
        gain = bests[-1] - bests[-1 - STALL_STEPS] if step >= STALL_STEPS else np.inf
        if gain < LEAST_GAIN * bests[-1]:
            break
        turn = np.sign(excess) * before
        rate = rate * np.where(turn > 0, GROWTH, np.where(turn < 0, SHRINKAGE, 1.0))
        rate = np.clip(rate, MIN_RATE / np.sqrt(step + 1.0), MAX_RATE)
        before = np.sign(excess)
        logs = logs + np.clip(rate * excess, -1.0, 1.0)
    return len(bests) - 1, bests[-1], best_logs


def _ascend(bound: BoundAt, logs: Floats, steps: range) -> float:
    """Return the largest bound by the slopes of exact answers."""
    best = 0.0
    for step in steps:
        value, excess = bound(logs, 0.0)
        best = max(best, value)
        # 1/√t is the usual rate of a subgradient.
        logs = logs + np.clip(EXACT_RATE / np.sqrt(step + 1.0) * excess, -1.0, 1.0)
    return best


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
    smoothing: float = 0.0,
) -> tuple[float, Floats]:
    """Return the least weighted error plus price of cells, and each user's loss in them.

    Of all cells, or of some runs of them. Smoothing concerns the losses alone.
    """
    occupancy = exposure.occupancy.local()
    total, losses = 0.0, np.zeros(occupancy.n_users)
    for cells in _blocks(occupancy.start) if runs is None else runs:
        start = occupancy.start[cells.start : cells.stop + 1]
        rows, start = slice(start[0], start[-1]), start - start[0]
        user, share = occupancy.user[rows], exposure.share[rows]
        price, moved = multiplier[user], np.zeros(user.size)
        if (weight := weights.mean[cells]).any():
            order = start, _by_price(price, start)
            smallest, x = _least(weight, price, share, order, "mean", smoothing)
            total += smallest
            moved += x
        if (weight := weights.variance[cells]).any():
            curved = 1.0 - share
            price *= curved
            order = start, _by_price(price, start)
            smallest, x = _least(weight, price, share, order, "variance", smoothing)
            total += smallest
            moved += x * curved
        losses += np.bincount(user, weights=moved, minlength=losses.size)
    return total, losses


def _blocks(start: NDArray[np.int64]) -> Iterator[slice]:
    """Yield slices of cells with about so many pairs: few enough for a processor's cache."""
    edges = np.searchsorted(start, np.arange(0, start[-1], BLOCK_PAIRS)).tolist()
    for begin, end in pairwise(dict.fromkeys([*edges, start.size - 1])):
        yield slice(begin, end)


def _by_price(price: Floats, start: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the pairs of each cell in the order of their prices, equal ones as they stand."""
    # Stable, so that equal prices have one order on every machine.
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
    smoothing: float,
) -> tuple[float, Floats]:
    """Return the minimum of bias + 2 √(price of the contribution), or of constants, and x / noise.

    `by_price` is where each cell's pairs begin, and their order by price.
    """
    start, order = by_price
    first, size = start[:-1], np.diff(start)
    share = share[order]
    clipped_share = np.maximum(1.0 - _running(share, start), 0.0)
    w = np.repeat(weight, size)
    root = np.sqrt(w * _running(share * price[order], start))
    errors = w * WORST_CASE_BIAS[name](clipped_share) + 2.0 * root
    constant = weight * MAX_CONSTANT_ERROR[name]
    smallest = np.minimum(np.minimum.reduceat(errors, first), constant)
    chosen = _choice_weights(errors, constant, smallest, start, smoothing)
    # 1 / noise is w / root; whoever is among the users of several choices has the sum of them.
    rates = np.divide(chosen * w, root, out=np.zeros_like(root), where=root > 0)
    running = _running(rates, start)
    moved = np.empty(order.size)
    moved[order] = share * (np.repeat(running[start[1:] - 1], size) - running + rates)
    return float(smallest.sum()), moved


def _choice_weights(
    errors: Floats, constant: Floats, smallest: Floats, start: NDArray[np.int64], smoothing: float
) -> Floats:
    """Return the weight of each choice of a cell: of its users up to each, but not of a constant.

    The cheapest has all of it; with smoothing choices have Gibbs weights, and a cell's sum to 1.
    """
    first, size = start[:-1], np.diff(start)
    if smoothing:
        temperature = np.where(smallest > 0, smoothing * smallest, 1.0)
        chosen = np.exp((np.repeat(smallest, size) - errors) / np.repeat(temperature, size))
        total = np.add.reduceat(chosen, first) + np.exp((smallest - constant) / temperature)
        return np.asarray(chosen / np.repeat(total, size))
    chosen = np.zeros(errors.size)
    places = np.flatnonzero(errors == np.repeat(smallest, size))
    position = np.searchsorted(places, start)
    live = (position[:-1] < position[1:]) & (smallest < constant)
    chosen[places[position[:-1][live]]] = 1.0  # the first place of the least in each cell
    return chosen


def _running(terms: Floats, start: NDArray[np.int64]) -> Floats:
    """Return running sums that begin anew in each cell."""
    total = np.cumsum(terms)
    preceding = np.concatenate(([0.0], total[start[1:-1] - 1]))
    total -= np.repeat(preceding, np.diff(start))
    return np.asarray(total)
