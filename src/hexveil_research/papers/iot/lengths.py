"""Claims of IOT on the best length of an array, in sections V and VI.

Source: IOT Lemmas V.1 to V.4, Corollary V.1, Lemmas VI.1 and VI.2 and the remarks beside them, eq.
(12) to (19) (RW section VI, appendices G to I), with ERRATA 6 and 8 and docs/understand/errata.md.
Symbols as in `lemmas`; m^(ε) the smallest minimiser of eq. (15), w a user's weight, x̄ a
user's mean.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from itertools import pairwise, product

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hexveil import theory
from hexveil.accounting.pseudo_user_caps import NOISE_WEIGHT, Noise
from hexveil_research.papers import itms
from hexveil_research.papers.iot.surrogate import (
    CLOSE,
    Counts,
    caps_of,
    few_caps,
    kept_samples,
    proxy,
    worst_error,
)
from hexveil_research.papers.study import Claim

Curve = Callable[[Fraction], Fraction]

Shape = Callable[[Counts, Fraction], Fraction]

LOSSES = tuple(Fraction(text) for text in ("0.01", "0.1", "0.5", "1", "2", "10"))
SEARCHED_CELLS = 100
"""Random cells of a search over data sets."""
MAX_USERS = 9
"""Users of cells that are searched over all values at either bound, at most."""
CAP_STEPS = 6
"""Parts of the way between two counts at which a real cap is tried."""


def full_claim(cells: Sequence[Counts]) -> Claim:
    """Return Lemma V.1 where arrays are full: dropping, and the plain mean of the rest."""
    gap = 0.0
    for counts in cells:
        for cap in few_caps(counts):
            n = int(kept_samples(counts, cap))
            # A weight for each sample: dropping keeps the first Γ of a user.
            weights = np.concatenate([np.where(np.arange(m) < cap, 1 / n, 0.0) for m in counts])
            truth = theory.linear_bias(weights, np.ones(weights.size, dtype=np.int64), 1.0)
            gap = max(gap, abs(truth - float(1 - Fraction(n, sum(counts)))))
    return Claim(
        "IOT",
        "Lemma V.1",
        "If all arrays are full, the worst-case error of clipping is U(1 - ΣΓ/N)",
        f"the exact worst-case bias of the kept samples' mean differs by at most {gap:.1e} U in "
        f"{len(cells)} random cells",
        gap <= CLOSE,
    )


def filled_claims(cells: Sequence[Counts]) -> tuple[Claim, Claim]:
    """Return Lemma V.1 for arrays as BESTFIT fills them: as printed, and ERRATA 8."""
    small_cells = [counts for counts in cells if len(counts) <= MAX_USERS]
    n_wrong, gap = 0, 0.0
    for counts in small_cells:
        for cap in few_caps(counts):
            weights = theory.best_fit(counts, cap).weights
            truth = searched_bias(weights, counts)
            gap = max(gap, abs(truth - theory.linear_bias(weights, counts, 1.0)))
            n_wrong += abs(truth - float(1 - kept_samples(counts, cap) / sum(counts))) > CLOSE
    # The samples of counts (2, 1) at cap 2: one array full, the other half full (ERRATA 8).
    raw = theory.linear_bias([1 / 4, 1 / 4, 1 / 2], [1, 1, 1], 1.0)
    return (
        Claim(
            "IOT",
            "Lemma V.1",
            "So it is for ARRAY-AVERAGING's arrays as BESTFIT fills them",
            f"counts (2, 1), cap 2: 0 stated, {raw:.4f} U true; with user means in the places "
            f"another number in {n_wrong} of {len(small_cells) * 4} random groupings",
            not n_wrong and raw <= CLOSE,
        ),
        Claim(
            "IOT",
            "Lemma V.1",
            "It is U Σ max(m/N - w, 0), w the weight of a user's mean (ERRATA 8)",
            f"differs by at most {gap:.1e} U from a search over all user means at either bound, "
            f"in {len(small_cells) * 4} random groupings",
            gap <= CLOSE,
            "corrected",
        ),
    )


def searched_bias(weights: ArrayLike, counts: Sequence[int]) -> float:
    """Return the largest |Σ w x̄ - mean of all samples| over user means of 0 or 1."""
    # The error is linear in the user means, so its largest size is reached at the bounds.
    ends = np.array(list(product((0.0, 1.0), repeat=len(counts))))
    return float(np.abs(ends @ (np.asarray(weights) - np.array(counts) / sum(counts))).max())


def best_cap_claims(noise: Noise = "mean") -> tuple[Claim, Claim, Claim]:
    """Return the claims of eq. (12) to (15) on the best cap, on a cell like ITMS.

    Parameters
    ----------
    noise : {"mean", "std"}
        What is counted of it: IOT's and RW's.
    """
    m = itms.counts()
    caps = np.arange(m.min(), m.max() + 1)
    groups = [theory.best_fit(m, int(cap)) for cap in caps]
    missed = np.array([grouping.weights for grouping in groups]) - m / m.sum()
    bias = np.maximum(missed, 0).sum(axis=1)
    # For each cap the data set that it errs most on: user means of 0 or 1.
    sets = (missed > 0).astype(np.float64)
    ratios = []
    for epsilon in LOSSES:
        price = float(NOISE_WEIGHT[noise] / epsilon)
        paid = price * np.array([grouping.weights.max() for grouping in groups])
        stated_cap = theory.minimax_cap(m, epsilon, noise)
        stated = float(worst_error(tuple(m.tolist()), stated_cap, Fraction(1 / price)))
        errors = bias + paid
        surest = (np.abs(sets @ missed.T) + paid).min(axis=1).max()
        stated_error = errors[np.searchsorted(caps, stated_cap)]
        ratios.append((errors.min() / stated, surest / stated, stated_error / errors.min()))
    best_ratio, any_set, excess = np.array(ratios).T
    return (
        Claim(
            "IOT",
            "Section V, eq. (12) to (15)",
            "Eq. (15) is the least worst-case total error of ARRAY-AVERAGING over all caps",
            f"on a cell like ITMS BESTFIT's is {_by_loss(best_ratio)} of it",
            bool((np.abs(best_ratio - 1) <= CLOSE).all()),
        ),
        Claim(
            "IOT",
            "Section V, eq. (12) to (15)",
            "So on no data set is the best cap's total error above it",
            f"on the data sets that are the worst for some cap, at most {_by_loss(any_set)} of it",
            bool((any_set <= 1 + CLOSE).all()),
        ),
        Claim(
            "IOT",
            "Section V, eq. (12) to (15)",
            "The least worst-case error is found with the arrays as they are filled, at a cap that "
            "eq. (15) need not name (ERRATA 8)",
            f"on a cell like ITMS the cap of eq. (15) errs {excess.min():.3f} to "
            f"{excess.max():.3f} times as much in the worst case as the best cap",
            bool((excess >= 1 - CLOSE).all() and excess.max() > 1 + CLOSE),
            "corrected",
        ),
    )


def _by_loss(values: NDArray[np.float64]) -> str:
    """Return a number for each of the losses."""
    return ", ".join(f"{v:.3f} (ε = {float(e):g})" for v, e in zip(values, LOSSES, strict=True))


def order_claim(cells: Sequence[Counts], noise: Noise = "mean") -> Claim:
    """Return the remark that the least over caps of the largest error is at least the converse."""
    n_above = n_cases = 0
    price = NOISE_WEIGHT[noise]
    for counts in cells[:SEARCHED_CELLS]:
        for epsilon in LOSSES[2:5]:
            cap = theory.minimax_cap(counts, epsilon, noise)
            stated = worst_error(counts, cap, epsilon / price)
            n_cases += 1
            n_above += _largest_least(counts, epsilon / price) > float(stated) + CLOSE
    return Claim(
        "IOT",
        "Section V",
        "The least over caps of the largest error is at least the largest over data sets of the "
        "least error, for full arrays",
        f"over data sets whose four largest users' first and further samples are each 0 or U, the "
        f"others' 0, it was exceeded in {n_above} of {n_cases} cases",
        not n_above,
    )


def _largest_least(counts: Counts, epsilon: Fraction) -> float:
    """Return the largest over some data sets of the least error over caps, for U = 1.

    Of each of the four largest users the first ⌈m/2⌉ samples are alike, and so are the others.
    """
    m = np.array(counts)
    users = min(m.size, 4)
    halves = np.array(list(product((0.0, 1.0), repeat=2 * users)))
    heads, tails = np.zeros((2, len(halves), m.size))
    heads[:, :users], tails[:, :users] = halves[:, :users], halves[:, users:]
    half = -(-m // 2)
    truth = (heads @ half + tails @ (m - half)) / m.sum()
    lowest = np.full(len(halves), np.inf)
    for cap in caps_of(counts):
        g = np.minimum(m, cap)
        estimates = (heads @ np.minimum(g, half) + tails @ np.maximum(g - half, 0)) / g.sum()
        lowest = np.minimum(lowest, np.abs(estimates - truth) + cap / (float(epsilon) * g.sum()))
    return float(lowest.max())


def counts_claim(
    cells: Sequence[Counts], rule: Callable[[Counts, Fraction], int] = theory.minimax_cap
) -> Claim:
    """Return Lemma V.2, among real caps."""
    n_wrong = n_cases = 0
    for counts in cells:
        ends = [Fraction(m) for m in sorted(set(counts))]
        caps = {low + (high - low) * Fraction(k, CAP_STEPS) for low, high in pairwise(ends)
                for k in range(CAP_STEPS + 1)} | set(ends)  # fmt: skip
        for epsilon in LOSSES[::2]:
            best = min(worst_error(counts, cap, epsilon) for cap in caps)
            cap = rule(counts, epsilon)
            n_cases += 1
            n_wrong += cap not in counts or worst_error(counts, cap, epsilon) > best
    return Claim(
        "IOT",
        "Lemma V.2",
        "One of the counts minimises eq. (15)",
        f"real caps between the counts of {len(cells)} random cells have a smaller error in "
        f"{n_wrong} of {n_cases} cases",
        not n_wrong,
    )


def growing_claim(
    cells: Sequence[Counts], rule: Callable[[Counts, Fraction], int] = theory.minimax_cap
) -> Claim:
    """Return Lemma V.3."""
    falls = sum(
        rule(counts, high) < rule(counts, low) for counts in cells for low, high in pairwise(LOSSES)
    )
    return Claim(
        "IOT",
        "Lemma V.3",
        "m^(ε) does not fall as ε grows",
        f"ε from 0.01 to 10 in {len(cells)} random cells: it falls {falls} times",
        not falls,
    )


def ends_claim(
    cells: Sequence[Counts], rule: Callable[[Counts, Fraction], int] = theory.minimax_cap
) -> Claim:
    """Return Lemma V.4 and Corollary V.1."""
    n_wrong = 0
    for counts in cells:
        total, smallest = sum(counts), min(counts)
        low = Fraction(smallest, len(counts) * total)
        high = Fraction(total, len(counts) * smallest) ** 2
        # At the threshold that the lemma names, and far beyond it.
        for factor in (1, 3, 100):
            n_wrong += rule(counts, low / factor) != smallest
            n_wrong += rule(counts, high * factor) != max(counts)
    m = itms.PUBLISHED
    return Claim(
        "IOT",
        "Lemma V.4, Corollary V.1",
        "m^(ε) = m_* for ε up to m_*/(L N), and m* for ε from (N/(L m_*))² on",
        f"another cap in {n_wrong} of {6 * len(cells)} cases; on the published cell the two are "
        f"{m.smallest / m.users / m.samples:.1e} and {(m.samples / m.users / m.smallest) ** 2:.0f}",
        not n_wrong,
    )


def bends(curve: Curve, points: Sequence[Fraction]) -> tuple[bool, bool]:
    """Return whether a curve is convex, and whether it is concave, on points of equal distance.

    Examples
    --------
    >>> bends(lambda x: x * x, [Fraction(k) for k in range(4)])
    (True, False)
    """
    y = [curve(x) for x in points]
    curvatures = [y[i - 1] + y[i + 1] - 2 * y[i] for i in range(1, len(y) - 1)]
    return all(s >= 0 for s in curvatures), all(s <= 0 for s in curvatures)


def concave_claims(cells: Sequence[Counts], eta: Shape = proxy) -> tuple[Claim, Claim, Claim]:
    """Return Lemma VI.1, and the remarks that η and eq. (15) need not be convex."""
    stretches = [(c, ends) for c in cells for ends in pairwise(sorted(set(c)))]
    bent = sum(not bends(partial(eta, c), _between(*ends))[1] for c, ends in stretches)
    gaps = [c for c in cells if any(a - b > 2 for a, b in pairwise(c))]
    not_convex = sum(not bends(partial(eta, c), _whole_caps(c))[0] for c in gaps)
    errors = sum(
        not bends(partial(worst_error, c, epsilon=Fraction(1)), _whole_caps(c))[0] for c in cells
    )
    return (
        Claim(
            "IOT",
            "Lemma VI.1",
            "η(m) = m/ΣΓ is concave between two neighbouring counts",
            f"not so in {bent} of {len(stretches)} such stretches of {len(cells)} random cells",
            not bent,
        ),
        Claim(
            "IOT",
            "Section VI",
            "η is not convex over whole caps where two neighbouring counts differ by more than 2",
            f"not convex in {not_convex} of {len(gaps)} random cells with such counts",
            not_convex == len(gaps) > 0,
        ),
        Claim(
            "IOT",
            "Section VI",
            "The worst-case error of eq. (15) is in general not convex in the cap",
            f"not convex over whole caps at ε = 1 in {errors} of {len(cells)} random cells",
            errors > 0,
        ),
    )


def convex_claim(cells: Sequence[Counts], surrogate: Shape = theory.surrogate_objective) -> Claim:
    """Return the remarks that the worst-case clipping error and Ē are convex."""
    # The error of clipping is 1 - ΣΓ/N: convex exactly if ΣΓ is concave.
    n_wrong = sum(
        (not bends(partial(kept_samples, c), _whole_caps(c))[1])
        + (not bends(partial(surrogate, c), _whole_caps(c))[0])
        for c in cells
    )
    return Claim(
        "IOT",
        "Section VI",
        "The worst-case clipping error and the surrogate Ē are convex in the cap",
        f"not so in {n_wrong} of {2 * len(cells)} curves over all whole caps of random cells",
        not n_wrong,
    )


def _between(low: int, high: int) -> list[Fraction]:
    """Return equally distant points from one count to another."""
    return [low + Fraction(high - low) * k / CAP_STEPS for k in range(CAP_STEPS + 1)]


def _whole_caps(counts: Counts) -> list[Fraction]:
    return [Fraction(k) for k in caps_of(counts)]
