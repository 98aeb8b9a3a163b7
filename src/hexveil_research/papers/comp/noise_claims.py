"""Claims of COMP on the noise of one cell: enough for its ε, and how large it gets.

Source: COMP sections II-D (Theorem II.1, Proposition II.1), III-A (BASELINE) and eq. (12), with
ERRATA 4. The branch of Proposition III.1 that eq. (12) prints stands here.
Symbols: m* the largest count of a user, N all samples, ε the loss of the cell, half for each
statistic; U = 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from hexveil import theory
from hexveil_research.papers.comp import tiny_cells
from hexveil_research.papers.study import Claim, Reading

OfCell = Callable[[Sequence[int], float], float]

SAME = 1e-9


def claims(seed: int = 0) -> tuple[Claim, ...]:
    """Return the claims about noise; the seed is of the draws of Proposition II.1."""
    return (
        baseline_claim(theory.mean_sensitivity, theory.variance_sensitivity),
        _noise_claim(printed_variance_noise, "as printed", "as eq. (12) prints it"),
        _noise_claim(theory.variance_sensitivity, "corrected", "with all of it (ERRATA 4)"),
        *tail_claims(seed),
    )


def printed_variance_noise(counts: Sequence[int], span: float) -> float:
    """Return the sensitivity that eq. (12) puts into the noise: one branch of Prop. III.1.

    Examples
    --------
    >>> printed_variance_noise([3, 1], 1.0)
    0.1875
    """
    largest, total = max(counts), sum(counts)
    # The branch for N > 2 m* alone: too small where one user has more than half (ERRATA 4).
    return span**2 * largest * (total - largest) / total**2


def baseline_claim(mean: OfCell, variance: OfCell) -> Claim:
    """Return the claim that BASELINE with half of ε for each statistic loses at most ε."""
    losses = {
        counts: tiny_cells.loss(
            counts,
            2 * mean(counts, 1.0),
            # The variance of a single sample is 0: without noise, at an infinite scale, it loses
            # nothing.
            2 * variance(counts, 1.0) or math.inf,
        )
        for counts in tiny_cells.cells()
    }
    full = sum(loss > 1 - SAME for loss in losses.values())
    return Claim(
        "COMP",
        "Theorem II.1, section III-A",
        "BASELINE, Laplace noise of 2 Δ/ε for mean and variance each, loses at most ε",
        f"at most {max(losses.values()):.4f} ε over {len(losses)} cells, by search; ε itself in "
        f"{full}",
        max(losses.values()) <= 1 + SAME,
    )


def _noise_claim(formula: OfCell, reading: Reading, how: str) -> Claim:
    ratio = {
        counts: tiny_cells.largest_move(tiny_cells.variances(counts), counts) / formula(counts, 1.0)
        for counts in tiny_cells.cells(users=2)
    }
    worst = max((counts for counts in ratio if len(counts) == 2), key=lambda counts: ratio[counts])
    n_short = sum(factor > 1 + SAME for factor in ratio.values())
    return Claim(
        "COMP",
        "Eq. (12)",
        f"The variance's noise, from Proposition III.1 {how}, is enough for half of ε",
        f"too small in {n_short} of {len(ratio)} cells; counts (3, 1) lose {ratio[3, 1]:.2f} times "
        f"what is stated, counts {worst} {ratio[worst]:.2f} times",
        not n_short,
        reading,
    )


def tail_claims(seed: int, share: float = 0.05, draws: int = 100_000) -> tuple[Claim, Claim]:
    """Return Proposition II.1, for several numbers together and for one.

    Of d Laplace noises of scale 1 the sum of sizes is above t with probability
    e^-t (1 + t + ... + t^(d-1)/(d-1)!), here seen in draws.
    """
    sizes = np.abs(np.random.default_rng(seed).laplace(size=(draws, 4)))
    room = 4 * math.sqrt(share * (1 - share) / draws)  # four standard errors of a share
    summed = {d: (sizes[:, :d].sum(axis=1) > -math.log(share)).mean() for d in (1, 2, 4)}
    largest = {d: (sizes[:, :d].max(axis=1) > math.log(d / share)).mean() for d in (1, 2, 4)}
    return (
        Claim(
            "COMP",
            "Proposition II.1",
            "For any number d of released numbers, the sum of the noises' sizes is above "
            "(Δ/ε) ln(1/δ) with probability at most δ",
            f"δ = {share}, {draws} draws: {_by_number(summed)}",
            all(frequency <= share + room for frequency in summed.values()),
        ),
        Claim(
            "COMP",
            "Proposition II.1",
            "The largest of d noises is above (Δ/ε) ln(d/δ) with probability at most δ; for one "
            "number that is what is printed",
            f"δ = {share}, {draws} draws: {_by_number(largest)}",
            all(frequency <= share + room for frequency in largest.values()),
            "corrected",
        ),
    )


def _by_number(frequencies: dict[int, float]) -> str:
    return ", ".join(f"d = {d}: {p:.3f}" for d, p in frequencies.items())
