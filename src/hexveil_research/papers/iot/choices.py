"""Claims of IOT on its private choices, and on the preparation of the records.

Source: IOT Algorithm 3, section III-E (Algorithm 2 of its [16]) and section IV-A, with ERRATA 9,
11, 12 and 13. Small cells, whose chances are computed and not simulated; values are made up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from hexveil import theory
from hexveil.accounting.pseudo_users import PseudoUsers
from hexveil.base.arrays import Floats
from hexveil_research.papers import itms
from hexveil_research.papers.exponential_mechanism import middle_costs, rank_costs
from hexveil_research.papers.iot.surrogate import CLOSE, Counts, few_caps
from hexveil_research.papers.study import Claim, Reading

Costs = Callable[[Floats], NDArray[np.float64]]

EPSILON = math.log(2)
MIDDLES = np.array([1.0, 3.0, 5.0, 7.0])
"""Middles of four bins of [0, 8]."""
ARRAYS = (6.9, 7.0, 7.2)
"""Array means between 0 and 8, all nearest to 7 of the middles 1, 3, 5 and 7."""
MIRRORED = (1.1, 1.0, 0.8)
"""The same, all nearest to 1."""


def printed_costs(values: Floats) -> Floats:
    """Return Algorithm 3's cost of each middle, with the distances that step 3 prints."""
    distance = np.abs(values[:, None] - MIDDLES).min(axis=1)
    below, above = (
        # As printed, distances are compared with middles, quantities of another kind (ERRATA 11).
        (distance[:, None] < MIDDLES).sum(axis=0),
        (distance[:, None] > MIDDLES).sum(axis=0),
    )
    return np.asarray(np.maximum(below, above), dtype=np.float64)


def nearest_costs(values: Floats) -> Floats:
    """Return Algorithm 3's cost of each middle, with the nearest middles that are meant."""
    return np.asarray(middle_costs(values, 8, 4), dtype=np.float64)


def middle_law(costs: Floats) -> Floats:
    """Return the probabilities of Algorithm 3, step 5, at ε = 1."""
    weights = np.exp(-costs / 4)
    return np.asarray(weights / weights.sum())


def middle_claims(
    printed: Costs = printed_costs, corrected: Costs = nearest_costs
) -> tuple[Claim, Claim]:
    """Return whether Algorithm 3 prefers the middle near the array means: printed, ERRATA 11.

    A middle is preferred if it is more probable than each other one: a tie is no preference.
    """
    return (
        _middle_claim(
            "With the distances to the nearest middle as printed, the middle near the array means "
            "is more probable than any other",
            printed,
            "as printed",
        ),
        _middle_claim(
            "With the nearest middles themselves, which is meant, it is (ERRATA 11)",
            corrected,
            "corrected",
        ),
    )


def _middle_claim(says: str, costs: Costs, reading: Reading) -> Claim:
    """Return whether the middle near the array means is preferred, here and mirrored."""
    laws = [middle_law(costs(np.array(values))) for values in (ARRAYS, MIRRORED)]
    law, mirrored = (probabilities.tolist() for probabilities in laws)
    return Claim(
        "IOT",
        "Algorithm 3, step 3",
        says,
        f"array means {', '.join(map(str, ARRAYS))} of 0 to 8, ε = 1: the middles "
        f"{', '.join(f'{x:g}' for x in MIDDLES)} have the probabilities "
        f"{', '.join(f'{p:.2f}' for p in law)}; array means "
        f"{', '.join(map(str, MIRRORED))}: {', '.join(f'{p:.2f}' for p in mirrored)}",
        law[-1] > max(law[:-1]) and mirrored[0] > max(mirrored[1:]),
        reading,
    )


def log_ratio_loss(weights: Sequence[Floats]) -> float:
    """Return the largest log ratio of chances between any two of some laws of one choice."""
    laws = np.array([w / w.sum() for w in weights])
    return float(np.log(laws.max(axis=0) / laws.min(axis=0)).max())


def middle_loss(n_moving: int) -> float:
    """Return the loss of weights exp(-ε c/4) if that many of three array means move, by search."""
    # One value for each bin: within a bin all have the same costs.
    ends = [0.5, 3.5, 4.5, 7.5]
    worst = 0.0
    for fixed in product(ends, repeat=3 - n_moving):
        costs = [middle_costs((*fixed, *moving), 8, 4) for moving in product(ends, repeat=n_moving)]
        worst = max(worst, log_ratio_loss([np.exp(-EPSILON * c / 4) for c in costs]))
    return worst


def middle_private_claim() -> Claim:
    """Return that the choice of Algorithm 3 loses ε/2 under BESTFIT."""
    single, double = (middle_loss(n_moving) / EPSILON for n_moving in (1, 2))
    return Claim(
        "IOT",
        "Section III-D",
        "Weights exp(-ε c/4) lose ε/2 where a user is in one array, as under BESTFIT",
        f"search over three array means: {single:.3f} ε if one of them moves, {double:.3f} ε if "
        "two do, as they may under WRAPAROUND",
        single <= 1 / 2 + CLOSE < double,
    )


def rank_loss(factor: float, steps: int = 1000) -> float:
    """Return the loss of weights exp(-factor ε |rank - target|) on one pair of neighbours."""
    laws = [
        np.exp(-factor * EPSILON * rank_costs(values, steps, 1))
        for values in ((0.0, 0.001), (1.0, 0.001))
    ]
    return log_ratio_loss(laws)


def quantile_claims(factor: float = 1.0) -> tuple[Claim, Claim]:
    """Return the loss of the private quantile: without the 1/2, and ERRATA 12."""
    printed, corrected = (rank_loss(scale * factor) / EPSILON for scale in (1, 0.5))
    return (
        Claim(
            "IOT",
            "Section III-E, Algorithm 2 of [16]",
            "A quantile chosen with weights exp(-ε |rank - target|) loses ε",
            f"two values of 0 to 1, of which one moves from 0 to 1, among 1001 candidates: "
            f"{printed:.3f} ε",
            printed <= 1 + CLOSE,
        ),
        Claim(
            "IOT",
            "Section III-E, Algorithm 2 of [16]",
            "With weights exp(-ε |rank - target|/2) it loses ε (ERRATA 12)",
            f"on the same neighbours {corrected:.3f} ε",
            corrected <= 1 + CLOSE,
            "corrected",
        ),
    )


def zeros_claims() -> tuple[Claim, Claim]:
    """Return whether counts are public where zeros are removed first (ERRATA 13)."""
    original, changed = ((0.0, 5.0), (7.0,)), ((3.0, 5.0), (7.0,))
    removed, unremoved = (
        [tuple(sum(keep(v) for v in user) for user in data) for data in (original, changed)]
        # `bool` drops speeds of 0, as section IV-A does before it counts.
        for keep in (bool, lambda _: True)
    )
    return (
        Claim(
            "IOT",
            "Section IV-A",
            "Counts do not depend on values, also where samples of 0 are removed before counting",
            f"two users with speeds (0, 5) and (7): when the 0 becomes a 3, the counts go from "
            f"{removed[0]} to {removed[1]}",
            removed[0] == removed[1],
        ),
        Claim(
            "IOT",
            "Section IV-A",
            "They do not where nothing is removed by value (ERRATA 13)",
            f"the same neighbours: {unremoved[0]} and {unremoved[1]}",
            unremoved[0] == unremoved[1],
            "corrected",
        ),
    )


def sample_bias(groups: PseudoUsers, counts: Sequence[int]) -> float:
    """Return the worst-case bias for U = 1 if the first Γ samples of a user are in its places."""
    sample_weight = 1 / (groups.n_arrays * groups.fill)
    weights = np.zeros(int(np.sum(counts)))
    start = np.cumsum(counts) - np.array(counts)
    filled = np.zeros(len(counts), dtype=np.int64)
    for user, array, size in zip(
        groups.piece_user, groups.piece_array, groups.piece_size, strict=True
    ):
        first_sample = start[user] + filled[user]
        weights[first_sample : first_sample + size] = sample_weight[array]
        filled[user] += size
    return theory.linear_bias(weights, np.ones(weights.size, dtype=np.int64), 1.0)


def means_claim(cells: Sequence[Counts]) -> Claim:
    """Return that user means in the places lower the error of clipping (section IV-A, ERRATA 9)."""
    above = 0
    groupings = [(counts, cap) for counts in cells for cap in few_caps(counts)]
    for counts, cap in groupings:
        groups = theory.best_fit(counts, cap)
        with_means = theory.linear_bias(groups.weights, counts, 1.0)
        above += with_means > sample_bias(groups, counts) + CLOSE
    m = tuple(itms.counts().tolist())
    groups = theory.best_fit(m, theory.median_cap(m))
    on_itms = theory.linear_bias(groups.weights, m, itms.SPAN), itms.SPAN * sample_bias(groups, m)
    return Claim(
        "IOT",
        "Section IV-A",
        "A user's mean in all its places errs less by clipping than its first samples do",
        f"worst-case bias on a cell like ITMS, median cap: {on_itms[0]:.2f} km/h with means, "
        f"{on_itms[1]:.2f} with samples; larger with means in {above} of {len(groupings)} random "
        "groupings",
        not above and on_itms[0] < on_itms[1],
    )
