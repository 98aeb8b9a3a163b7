"""Claims of COMP on one cell: sensitivities and biases, by search over every small cell.

Source: COMP sections III (BASELINE, CLIP), IV (biases) and the appendices A to C and E, with
ERRATA 1. Each formula comes from `theory`, each truth from `tiny_cells`. The printed bias, which
differs, stands here. Noise is in `composition_figures`, appendix D in `cap_claims`.
Symbols: m samples of a user, m* the largest, N their sum, n kept samples, L users; U = 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from hexveil import theory
from hexveil.base.arrays import Floats
from hexveil_research.papers.comp import tiny_cells
from hexveil_research.papers.comp.tiny_cells import Counts
from hexveil_research.papers.study import Claim, Reading

OfCell = Callable[[Sequence[int], float], float]

OfKept = Callable[[Sequence[int], Sequence[int], float], float]

Comparison = tuple[str, float, float]

SAME = 1e-9
ITEMS = 1000
"""Most users of one sample each for which formulas are compared."""


def claims() -> tuple[Claim, ...]:
    """Return the claims about one cell; they depend on nothing drawn."""
    return (
        sensitivity_claim("Eq. (5)", "mean", theory.mean_sensitivity),
        sensitivity_claim("Proposition III.1", "variance", theory.variance_sensitivity),
        corollary_claim(),
        factor_claim(),
        growth_claim(theory.variance_sensitivity),
        lemma_1_claim(),
        lemma_2_claim(),
        clipped_claim("Eq. (9)", "mean", theory.mean_sensitivity),
        clipped_claim("Lemma III.3", "variance", theory.variance_sensitivity),
        bias_claim("Theorem IV.1", "mean", theory.truncation_mean_bias),
        bias_claim("Theorem IV.2", "variance", printed_variance_bias),
        bias_claim(
            "Theorem IV.2", "variance", theory.truncation_variance_bias, "corrected", " (ERRATA 1)"
        ),
        lemma_e_1_claim(),
        lemma_e_2_claim(),
        spread_claim(),
    )


def printed_variance_bias(kept_counts: Sequence[int], counts: Sequence[int], span: float) -> float:
    """Return the bias of the kept samples' variance with its cases as Theorem IV.2 prints them.

    Examples
    --------
    >>> printed_variance_bias([1, 0], [2, 2], 1.0)
    0.1875
    """
    n, total = sum(kept_counts), sum(counts)
    if n == total:
        return 0.0
    # As printed; the formula belongs to N < 2n (ERRATA 1).
    if total > 2 * n:
        return span**2 * n * (total - n) / total**2
    return span**2 / 4 * (1 - total % 2 / total**2)


def compared(
    place: str, says: str, comparisons: Iterable[Comparison], reading: Reading = "as printed"
) -> Claim:
    """Return the claim that a stated number is the true one in every case.

    Parameters
    ----------
    place, says : str
    comparisons : iterable of (case, stated, true)
    reading : str
    """
    cases = list(comparisons)
    worst = max(cases, key=lambda case: abs(case[1] - case[2]))
    difference = abs(worst[1] - worst[2])
    measured = f"no difference above 1e-9 in {len(cases)} cases"
    if difference > SAME:
        n_wrong = sum(abs(stated - true) > SAME for _, stated, true in cases)
        measured = (
            f"wrong in {n_wrong} of {len(cases)} cases; for {worst[0]} it states {worst[1]:.4g}, "
            f"and {worst[2]:.4g} is reached"
        )
    return Claim("COMP", place, says, measured, difference <= SAME, reading)


def _statistic(kind: str, counts: Counts, kept_counts: Counts | None = None) -> Floats:
    return (
        tiny_cells.means(counts, kept_counts)
        if kind == "mean"
        else tiny_cells.variances(counts, kept_counts)
    )


def sensitivity_claim(place: str, kind: str, formula: OfCell) -> Claim:
    """Return the claim that a formula is the most one user's values move a statistic."""
    return compared(
        place,
        f"The formula is the most that one user's values can move the {kind}, exactly",
        (
            (f"counts {counts}", formula(counts, 1.0),
             tiny_cells.largest_move(_statistic(kind, counts), counts))
            for counts in tiny_cells.cells()
        ),
    )  # fmt: skip


def corollary_claim() -> Claim:
    """Return Corollary III.1: users of one sample each."""
    return compared(
        "Corollary III.1",
        "With one sample a user the variance moves by at most U²(L - 1)/L²",
        (
            (f"{users} users", (users - 1) / users**2,
             tiny_cells.largest_move(tiny_cells.variances((1,) * users), (1,) * users))
            for users in range(1, tiny_cells.MAX_SAMPLES + 1)
        ),
    )  # fmt: skip


def factor_claim() -> Claim:
    """Return the remark that the usual bound 8 U²/L is more than eight times too large."""
    users = np.arange(2, ITEMS + 1)
    # From two users on: one user's variance of one sample is 0, and any bound is too large.
    exact = np.array([theory.variance_sensitivity([1] * int(n), 1.0) for n in users])
    ratio = 8 / users / exact
    return Claim(
        "COMP",
        "Section III-A, after Corollary III.1",
        "The usual bound 8 U²/L for one sample a user is more than 8 times the exact sensitivity",
        f"{ratio.min():.4f} to {ratio.max():.0f} times for 2 to {ITEMS} users (one user: 0)",
        bool((ratio > 8).all()),
    )


def growth_claim(formula: OfCell, largest_total: int = 60) -> Claim:
    """Return the remark that the variance's sensitivity grows with m* and is at most U²/4."""
    falls, largest = 0, 0.0
    for total in range(1, largest_total + 1):
        # One heavy user and as many of one sample as fill the total.
        by_count = [formula([m, *[1] * (total - m)], 1.0) for m in range(1, total + 1)]
        falls += int((np.diff(by_count) < -SAME).sum())
        largest = max(largest, *by_count)
    return Claim(
        "COMP",
        "Section III-A, after Corollary III.1",
        "For a fixed number of samples the variance's sensitivity never falls as m* grows, and is "
        "at most U²/4",
        f"{falls} falls for totals of 1 to {largest_total}; largest {largest:.4g} U²",
        falls == 0 and largest <= 0.25 + SAME,
    )


def lemma_1_claim() -> Claim:
    """Return Lemma III.1: a worst pair has the user at the mean of the others."""

    def reached(counts: Counts) -> float:
        x, total = tiny_cells.data_sets(sum(counts)), sum(counts)
        owner, reached_most = np.repeat(np.arange(len(counts)), counts), 0.0
        for user, m in enumerate(counts):
            others = x[:, owner != user]
            moves = tiny_cells.variances(counts) - others.var(axis=1) * (total - m) / total
            reached_most = max(reached_most, float(moves.max()))
        return reached_most

    return compared(
        "Lemma III.1",
        "The largest move of the variance ends with all of the user's samples at the mean of the "
        "others",
        (
            (f"counts {counts}", reached(counts),
             tiny_cells.largest_move(tiny_cells.variances(counts), counts))
            for counts in tiny_cells.cells(users=2)
        ),
    )  # fmt: skip


def lemma_2_claim() -> Claim:
    """Return Lemma III.2, and the remark that the others' common value is then a bound."""

    def reached(counts: Counts, values: Iterable[float]) -> float:
        total, reached_most = sum(counts), 0.0
        for m in set(counts):
            user_samples = tiny_cells.data_sets(m)
            for value in values:
                other_samples = np.full((len(user_samples), total - m), value)
                reached_most = max(
                    reached_most, float(np.hstack((user_samples, other_samples)).var(axis=1).max())
                )
        return reached_most

    cases = [
        (
            f"counts {counts}",
            reached(counts, (0.0, 1.0)),
            tiny_cells.largest_move(tiny_cells.variances(counts), counts),
            reached(counts, tiny_cells.QUARTERS),
        )
        for counts in tiny_cells.cells(users=2)
    ]
    return compared(
        "Lemma III.2",
        "The variance's sensitivity is the largest variance with all others at one value, which "
        "may be a bound",
        [(name, at_bounds, true) for name, at_bounds, true, _ in cases]
        + [(name, anywhere, true) for name, _, true, anywhere in cases],
    )


def clipped_claim(place: str, kind: str, formula: OfCell) -> Claim:
    """Return the claim that kept counts in the formula give the kept samples' sensitivity."""
    return compared(
        place,
        f"With the kept counts in place of the counts the formula is exact for the {kind} of the "
        "kept samples",
        (
            (f"{kept_counts} kept of {counts}", formula([g for g in kept_counts if g], 1.0),
             tiny_cells.largest_move(_statistic(kind, counts, kept_counts), counts))
            for counts in tiny_cells.cells(5)
            for kept_counts in tiny_cells.keeps(counts)
        ),
    )  # fmt: skip


def bias_claim(
    place: str, kind: str, formula: OfKept, reading: Reading = "as printed", note: str = ""
) -> Claim:
    """Return the claim that a formula is the most by which keeping fewer samples errs."""

    def reached(kept_counts: Counts, counts: Counts) -> float:
        error = _statistic(kind, counts, kept_counts) - _statistic(kind, counts)
        return float(np.abs(error).max())

    return compared(
        place,
        f"The formula is the largest error of the {kind} of the kept samples, exactly{note}",
        (
            (
                f"{sum(kept_counts)} kept of {sum(counts)}",
                formula(kept_counts, counts, 1.0),
                reached(kept_counts, counts),
            )
            for counts in tiny_cells.cells()
            for kept_counts in tiny_cells.kept_numbers(counts)
        ),
        reading,
    )


def _mostly_kept() -> list[tuple[Counts, Counts]]:
    """Return every (kept, counts) that keeps more than half of the samples, but not all."""
    return [
        (kept_counts, counts)
        for counts in tiny_cells.cells()
        for kept_counts in tiny_cells.kept_numbers(counts)
        if sum(counts) < 2 * sum(kept_counts) < 2 * sum(counts)
    ]


def lemma_e_1_claim() -> Claim:
    """Return Lemma E.1 with the bound (26) on the other sign."""
    comparisons, over = [], 0
    for kept_counts, counts in _mostly_kept():
        error = tiny_cells.variances(counts) - tiny_cells.variances(counts, kept_counts)
        name = f"{sum(kept_counts)} kept of {sum(counts)}"
        comparisons.append((name, float(error.max()), float(np.abs(error).max())))
        # Eq. (26) bounds the errors of the other sign, on which the lemma's proof rests.
        over += -error.min() > (1 - sum(kept_counts) / sum(counts)) / 4 + SAME
    claim = compared(
        "Lemma E.1",
        "If more than half is kept the largest error of the variance is one of too small a "
        "variance, and the others are within eq. (26)",
        comparisons,
    )
    measured = f"{claim.measured}; eq. (26) is exceeded in {over}"
    return Claim("COMP", claim.place, claim.says, measured, bool(claim.holds) and not over)


def lemma_e_2_claim() -> Claim:
    """Return Lemma E.2: all kept samples at one value are a worst case."""

    def constant_kept(kept_counts: Counts, counts: Counts) -> float:
        still = tiny_cells.variances(counts, kept_counts) < SAME
        return float(tiny_cells.variances(counts)[still].max())

    return compared(
        "Lemma E.2",
        "If more than half is kept, the largest error of the variance is reached with all kept "
        "samples equal",
        (
            (
                f"{sum(kept_counts)} kept of {sum(counts)}",
                constant_kept(kept_counts, counts),
                float(
                    np.abs(
                        tiny_cells.variances(counts) - tiny_cells.variances(counts, kept_counts)
                    ).max()
                ),
            )
            for kept_counts, counts in _mostly_kept()
        ),
    )


def spread_claim() -> Claim:
    """Return eq. (19): the largest variance of N samples."""
    return compared(
        "Eq. (19), appendix C",
        "The largest variance of N samples is U²/4, for odd N times 1 - 1/N²",
        (
            (
                f"{total} samples",
                # An odd number of samples cannot be split evenly between the bounds.
                (1 - total % 2 / total**2) / 4,
                float(tiny_cells.variances((total,)).max()),
            )
            for total in range(1, tiny_cells.MAX_SAMPLES + 1)
        ),
    )
