"""Lower bound on the average error of every joint plan within a loss.

For any multipliers λ_l >= 0 of the users' losses, the least average error is at least
the least of error + Σ_l λ_l (loss_l - L), which falls apart into cells. In a cell whose kept shares
sum to C at the least price M(C) (users in the order of λ, each taken whole), noise of scale b costs
w b + M/b >= 2 √(w M). Between two users everything is concave in C, so the least is where whole
users are taken: every one of them is looked at. This holds for kept shares chosen pair by pair,
which is more than the class allows.
"""

from functools import partial
from itertools import pairwise

import numpy as np

from hexveil.accounting.error_model import MAX_CONSTANT_ERROR, WORST_CASE_BIAS
from hexveil.accounting.privacy_loss import record_shares
from hexveil.base.arrays import Floats, Ints
from hexveil.planning.allocation import PlanAllocation, PlanningProblem
from hexveil.planning.optimizers.mean_error import (
    constant_error,
    loss_multipliers,
    objective_weights,
    weighted_errors,
)
from hexveil.planning.optimizers.pair_sums import descend
from hexveil.planning.optimizers.user_factors import PROOF_MARGIN, ClippingProblem, Rates

BINDING_SHARE = 0.99
"""Part of the allowed loss from which a user who is not reduced counts as held by it."""
ASCENT_STEPS, ASCENT_PAIRS = 100, 7e6
"""Steps of the ascent at each temperature, and how many pairs they may look at in all, about."""
TEMPERATURES = (0.005, 0.001, 0.0002)
"""Temperatures of the cells' answers, as a part of the error of a constant."""
COLDEST = 1e-13
"""Temperature of exact answers: the bound is as little below the best for these multipliers."""
REACH, STEEPNESS, GAIN = 10.0, 100.0, 1e-8
"""How far the roots of multipliers, which begin at 1, may go; what the error of constants is scaled
to, and the relative gain of a step below which the ascent ends."""
BLOCK_PAIRS = 2**18
"""Pairs that the answer of the cells looks at together."""


# ---- of a plan ----


def compute_mean_error_bound(
    problem: PlanningProblem, allocation: PlanAllocation, epsilon: float
) -> float:
    """Return a lower bound on the mean error of every plan of the joint plan's class."""
    noise = np.stack((allocation.mean_noise(problem), allocation.variance_noise))
    return mean_error_lower_bound(
        ClippingProblem(problem.occupancy),
        objective_weights(problem.request, problem.span, problem.occupancy),
        epsilon,
        np.divide(1.0, noise, out=np.zeros_like(noise), where=noise > 0),
        allocation.contribution_factor,
    )


# ---- of rates ----


def mean_error_lower_bound(
    exposure: ClippingProblem, weights: Floats, loss: float, rates: Rates, factor: Floats
) -> float:
    """Return a lower bound on the error of every plan within the loss, from a good plan's rates.

    Any multipliers give a bound; they are raised where the cheapest answer of the cells loses more
    than is allowed, and lowered where it loses less.
    """
    largest = constant_error(weights)
    if not loss or not largest:
        return largest * PROOF_MARGIN  # only constants cost nothing
    multipliers = (factor < 1.0) | (exposure.losses(rates, factor) >= BINDING_SHARE * loss)
    clipped = exposure.clipped_share(factor)
    multiplier = loss_multipliers(exposure, weights, rates, factor, multipliers, clipped)
    if not multiplier.any():  # constants alone: everybody might be held
        everybody = exposure.occupancy.n_users
        multiplier = np.full(everybody, largest / (loss * everybody))
    # Where noise is all of the error, the best multipliers weigh the loss as much as the error.
    worth = float(weighted_errors(weights, rates, clipped, exposure.law).sum())
    multiplier = multiplier * min(1.0, worth / (loss * float(multiplier.sum())))
    first = np.maximum(multiplier, multiplier.max() / 100.0)
    scale = STEEPNESS / largest

    def below(root: Floats, temperature: float) -> tuple[float, Floats]:
        """Return the bound and its slope in the roots of multipliers, with signs turned."""
        multiplier = first * root**2
        least, losses = _answer(exposure, weights, multiplier, temperature)
        bound = least - loss * float(multiplier.sum())
        return -bound * scale, 2.0 * first * root * (loss - losses) * scale

    # On large maps few steps are affordable: any number of them gives a valid bound.
    steps = int(min(ASCENT_STEPS, max(ASCENT_PAIRS / exposure.occupancy.n_pairs, 1)))
    root = np.ones(first.size)
    bounds = [-below(root, 0.0)[0]]
    # A cell's cheapest answer jumps as multipliers change; an average of its cheap answers follows
    # them gradually, and is the nearer to the cheapest the colder it is.
    for temperature in TEMPERATURES:
        work = partial(below, temperature=temperature)
        root, _ = descend(work, root, REACH, maxiter=steps, ftol=GAIN, gtol=0.0)
        bounds.append(-below(root, 0.0)[0])
    return max(bounds) / scale * PROOF_MARGIN


def _answer(
    exposure: ClippingProblem, weights: Floats, multiplier: Floats, temperature: float
) -> tuple[float, Floats]:
    """Return the least weighted error plus price of cells, and each user's loss in them.

    Above a temperature of 0 it is a soft least, which is below it.
    """
    occupancy = exposure.occupancy.local()
    shares = record_shares(occupancy, occupancy.records_per_cell)
    total, losses = 0.0, np.zeros(occupancy.n_users)
    edges = np.searchsorted(occupancy.start, np.arange(0, occupancy.n_pairs, BLOCK_PAIRS)).tolist()
    # Few enough pairs at once for a processor's cache.
    for begin, end in pairwise(dict.fromkeys([*edges, occupancy.n_cells])):
        cells = slice(begin, end)
        start = occupancy.start[cells.start : cells.stop + 1]
        rows, start = slice(start[0], start[-1]), start - start[0]
        user, share = occupancy.user[rows], shares[rows]
        price, pair_losses = multiplier[user], np.zeros(user.size)
        # A share moves a variance by less: its spread.
        for (name, curve), weight in zip(
            (("mean", np.ones_like(share)), ("variance", 1.0 - share)),
            weights[:, cells],
            strict=True,
        ):
            if weight.any():
                order = start, _by_price(price * curve, start)
                smallest, x = _least(weight, price * curve, share, order, name, temperature)
                total += smallest
                pair_losses += x * curve
        losses += np.bincount(user, weights=pair_losses, minlength=losses.size)
    return total, losses


def _by_price(price: Floats, start: Ints) -> Ints:
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
    by_price: tuple[Ints, Ints],
    name: str,
    temperature: float,
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
    # Gibbs weights of choices; at a temperature of 0 the least have all.
    heat = max(temperature, COLDEST) * np.where(constant > 0, constant, 1.0)
    chosen = np.exp(np.maximum((np.repeat(smallest, size) - errors) / np.repeat(heat, size), -700))
    total = np.add.reduceat(chosen, first) + np.exp(np.maximum((smallest - constant) / heat, -700))
    # 1 / noise is w / root; whoever is among the users of several choices has the sum of them.
    rates = chosen * w / np.repeat(total, size)
    rates = np.divide(rates, root, out=np.zeros_like(root), where=root > 0)
    running = _running(rates, start)
    pair_losses = np.empty(order.size)
    pair_losses[order] = share * (np.repeat(running[start[1:] - 1], size) - running + rates)
    return float((smallest - heat * np.log(total)).sum()), pair_losses


def _running(terms: Floats, start: Ints) -> Floats:
    """Return running sums that begin anew in each cell."""
    total = np.cumsum(terms)
    preceding = np.concatenate(([0.0], total[start[1:-1] - 1]))
    total -= np.repeat(preceding, np.diff(start))
    return np.asarray(total)
