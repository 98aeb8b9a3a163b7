"""Re-weighting and midpoints on every small cell: the search that their formulas are held against.

Cells of up to five samples, every choice of kept samples, every data set of values at quarters of
the width of the bounds, which is 1 (`comp.tiny_cells`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from hexveil import theory
from hexveil.base.arrays import Floats
from hexveil_research.papers.comp.tiny_cells import (
    Counts,
    cells,
    data_sets,
    keeps,
    largest_move,
    means,
    variances,
    weights,
)
from hexveil_research.papers.study import Claim

Formula = Callable[[Counts, Counts, float], float]

Search = Callable[[Counts, Counts], float]

MAX_SAMPLES = 5
SAME = 1e-9
REWEIGHTED, MIDPOINTS = "Past COMP, ERRATA 9", "Past COMP, ERRATA 10"


def claims() -> tuple[Claim, ...]:
    """Return the claims that a search decides."""
    return (
        exact(
            REWEIGHTED,
            "The re-weighted mean's worst-case bias is δU",
            theory.reweighted_mean_bias,
            lambda kept_counts, counts: _largest(
                reweighted_means(kept_counts, counts) - means(counts)
            ),
        ),
        bounded(
            REWEIGHTED,
            "The re-weighted variance's worst-case bias is at most U²δ(1 - δ), U²/4 from δ = 1/2",
            theory.reweighted_variance_bias,
            lambda kept_counts, counts: _largest(
                reweighted_variances(kept_counts, counts) - variances(counts)
            ),
        ),
        bounded(
            REWEIGHTED,
            "The re-weighted variance moves by at most U²w(1 - w), U²/4 from w = 1/2",
            variance_sensitivity,
            lambda kept_counts, counts: largest_move(
                reweighted_variances(kept_counts, counts), counts
            ),
        ),
        naive_claim(),
        exact(
            MIDPOINTS,
            "With dropped samples at the midpoint the mean's worst-case bias is (U/2)(1 - n/N)",
            theory.midpoint_mean_bias,
            lambda kept_counts, counts: _largest(means_at(kept_counts, counts) - means(counts)),
        ),
        bounded(
            MIDPOINTS,
            "With dropped samples at the midpoint and the constant added, the variance's bias is "
            "at most U²δ(1 - δ)/2, U²/8 from δ = 1/2",
            theory.midpoint_variance_bias,
            lambda kept_counts, counts: _largest(
                variances_at(kept_counts, counts)
                + theory.midpoint_variance_offset(kept_counts, counts, 1.0)
                - variances(counts)
            ),
        ),
    )


def instances() -> Iterator[tuple[Counts, Counts]]:
    """Yield every choice of kept samples, at least one in all, of every small cell."""
    for counts in cells(MAX_SAMPLES):
        for kept_counts in keeps(counts):
            yield kept_counts, counts


def exact(place: str, says: str, formula: Formula, search: Search) -> Claim:
    """Return the claim that a formula equals the search result everywhere."""
    pairs = np.array([(formula(k, m, 1.0), search(k, m)) for k, m in instances()])
    gap = np.abs(pairs[:, 0] - pairs[:, 1])
    return Claim(
        "hexveil",
        place,
        f"{says}; exact",
        f"largest difference to an exhaustive search {gap.max():.1e} U, {gap.size} cases",
        bool(gap.max() <= SAME),
        "ours",
    )


def bounded(place: str, says: str, formula: Formula, search: Search) -> Claim:
    """Return the claim that a formula is never below the search result."""
    pairs = np.array([(formula(k, m, 1.0), search(k, m)) for k, m in instances()])
    over = pairs[:, 1] - pairs[:, 0]
    # A bound that some case attains cannot be lowered by a constant factor.
    met = (np.abs(over) <= SAME).sum()
    return Claim(
        "hexveil",
        place,
        says,
        f"an exhaustive search finds at most {over.max():.1e} U² more in {over.size} cases, and "
        f"just as much in {met}",
        bool(over.max() <= SAME),
        "ours",
    )


def naive_claim() -> Claim:
    """Return the claim that COMP's Proposition III.1 does not bound re-weighting."""
    # The counterexample of ERRATA 9.
    counts, kept_counts = (4, 1), (2, 1)
    naive = theory.variance_sensitivity(kept_counts, 1.0)
    true = largest_move(reweighted_variances(kept_counts, counts), counts)
    return Claim(
        "hexveil",
        REWEIGHTED,
        "COMP's Proposition III.1 on kept counts is too small for the re-weighted variance, so it "
        "must not be used there",
        f"counts {counts}, kept {kept_counts}: {naive:.4f} U² where the variance moves by "
        f"{true:.4f} U²",
        naive < true - SAME,
        "ours",
    )


def variance_sensitivity(kept_counts: Counts, counts: Counts, span: float) -> float:
    """Return the largest user's sensitivity of the re-weighted variance, in squared units."""
    return float(theory.user_reweighted_variance_sensitivity(kept_counts, counts, span).max())


def per_sample(kept_counts: Counts, counts: Counts) -> Floats:
    """Return Γ/(n m): the weight of each sample by re-weighting; they sum to 1."""
    share = theory.contribution_weights(kept_counts, counts) / np.asarray(counts)
    return np.repeat(share, counts)


def reweighted_means(kept_counts: Counts, counts: Counts) -> Floats:
    """Return the re-weighted mean of every data set."""
    return np.asarray(data_sets(sum(counts)) @ per_sample(kept_counts, counts))


def reweighted_variances(kept_counts: Counts, counts: Counts) -> Floats:
    """Return the re-weighted variance of every data set."""
    squares = data_sets(sum(counts)) ** 2 @ per_sample(kept_counts, counts)
    return np.asarray(squares - reweighted_means(kept_counts, counts) ** 2)


def means_at(kept_counts: Counts, counts: Counts) -> Floats:
    """Return the mean with dropped samples at the midpoint, of every data set."""
    return np.asarray(_midpoints(kept_counts, counts).mean(axis=1))


def variances_at(kept_counts: Counts, counts: Counts) -> Floats:
    """Return the variance with dropped samples at the midpoint, of every data set."""
    return np.asarray(_midpoints(kept_counts, counts).var(axis=1))


def _midpoints(kept_counts: Counts, counts: Counts) -> Floats:
    # The midpoint of [0, 1]: U is 1 here.
    return np.where(weights(kept_counts, counts) > 0, data_sets(sum(counts)), 0.5)


def _largest(gaps: Floats) -> float:
    return float(np.abs(gaps).max())
