"""Claims of COMP's appendix D on one cap for all users of a cell, on every small cell.

Source: COMP appendix D (Lemmas D.1 to D.4) and section III-B, where it is announced.
Symbols: m samples of a user, m* the largest and m_* the smallest, L users; a cap keeps min(m, cap)
samples of each; U = 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

import numpy as np

from hexveil import theory
from hexveil_research.papers.comp.tiny_cells import Counts, cells
from hexveil_research.papers.study import Claim, Reading

OfCell = Callable[[Sequence[int], float], float]

SAME = 1e-12
MAX_SAMPLES = 13
"""Samples of the largest cells."""
CAP_STEPS = 8
"""Steps of a cap between two whole numbers, where real caps are meant."""


def claims() -> tuple[Claim, ...]:
    """Return the claims of appendix D."""
    return (
        lemma_1(theory.mean_sensitivity),
        lemma_2(theory.variance_sensitivity),
        lemma_3(theory.variance_sensitivity, users=2),
        lemma_3(theory.variance_sensitivity, users=3, reading="corrected"),
        *proof_claims(),
        lemma_4(theory.variance_sensitivity),
        announced(theory.variance_sensitivity),
    )


def capped(formula: OfCell, counts: Sequence[int], cap: int) -> float:
    """Return a sensitivity of the samples that a cap keeps."""
    return formula([min(m, cap) for m in counts], 1.0)


def every_cap(counts: Counts) -> range:
    """Return the whole caps from m_* to m*."""
    return range(min(counts), max(counts) + 1)


def _all_but(
    place: str, says: str, violations: list[str], n_cases: int, reading: Reading = "as printed"
) -> Claim:
    """Return the claim that nothing tried was wrong, with the first that was."""
    measured = f"none of {n_cases} cases against it"
    if violations:
        measured = f"{len(violations)} of {n_cases} cases against it; {violations[0]}"
    return Claim("COMP", place, says, measured, not violations, reading)


def raised(formula: OfCell, candidates: Iterable[Counts]) -> tuple[list[str], int]:
    """Return where a cap raises a sensitivity, and how many caps were tried."""
    violations, n_cases = [], 0
    for counts in candidates:
        uncapped = formula(counts, 1.0)
        for cap in every_cap(counts):
            sensitivity = capped(formula, counts, cap)
            n_cases += 1
            if sensitivity > uncapped + SAME:
                violations.append(
                    f"counts {counts} at cap {cap}: {sensitivity:.4g} above {uncapped:.4g}"
                )
    return violations, n_cases


def lemma_1(formula: OfCell) -> Claim:
    """Return Lemma D.1 (IOT Lemma III.1): no cap raises the mean's sensitivity."""
    says = "No cap up to m* raises the mean's sensitivity"
    return _all_but("Lemma D.1", says, *raised(formula, cells(MAX_SAMPLES)))


def lemma_2(formula: OfCell) -> Claim:
    """Return Lemma D.2: between neighbouring counts, but for the three largest, it is concave.

    Caps are multiples of 1/8 there: counts and caps times 8 have the same shares, and the formula
    depends on nothing else, for no user has half of what is kept.
    """
    violations, n_cases = [], 0
    for counts in cells(MAX_SAMPLES, users=4):
        low = sorted(counts)
        grown = [CAP_STEPS * m for m in counts]
        # The lemma says nothing of caps beyond the third-largest count.
        for lower, upper in pairwise(low[: len(low) - 2]):
            caps = range(CAP_STEPS * lower, CAP_STEPS * upper + 1)
            sensitivities_by_cap = [capped(formula, grown, cap) for cap in caps]
            bent = np.diff(sensitivities_by_cap, 2)
            n_cases += bent.size
            if (bent > SAME).any():
                violations.append(f"counts {counts}, caps from {lower} to {upper}")
    return _all_but(
        "Lemma D.2",
        "Between neighbouring counts, the three largest aside, the clipped variance's sensitivity "
        "is concave in the cap",
        violations,
        n_cases,
    )


def proof_claims() -> tuple[Claim, Claim]:
    """Return two steps of the proofs of Lemmas D.2 and D.3 that fail, though the lemmas do not.

    With y = m/(c1 + c2 m), the share of each of the c2 users at the cap m, the sensitivity is
    y - y². The proof of D.2 calls both terms concave; for c2 = 2 that of D.3 calls it decreasing.
    """
    step, violations, rising = 1 / CAP_STEPS, [], 0
    caps = np.arange(1, MAX_SAMPLES, step)
    for c1 in range(1, MAX_SAMPLES):
        for c2 in (3, 4, 5):
            bent = np.diff(-((caps / (c1 + c2 * caps)) ** 2), 2)
            if (bent > SAME).any():
                violations.append(
                    f"c1 = {c1}, c2 = {c2} at a cap of {caps[1:-1][bent > SAME][0]:.3g}"
                )
        y = caps / (c1 + 2 * caps)
        rising += bool((np.diff(y - y**2) > 0).all())
    return (
        _all_but(
            "Lemma D.2, its proof",
            "The term -m²/(c1 + c2 m)² is concave in the cap m by itself",
            violations,
            3 * (MAX_SAMPLES - 1),
        ),
        Claim(
            "COMP",
            "Lemma D.3, its proof",
            "From the third to the second largest count the sensitivity falls as the cap grows",
            f"it rises throughout in {rising} of {MAX_SAMPLES - 1} cases",
            rising == 0,
        ),
    )


def lemma_3(formula: OfCell, users: int, reading: Reading = "as printed") -> Claim:
    """Return Lemma D.3: some best cap is one of the counts; true from three users on."""
    violations, n_cases = [], 0
    # Small cells first, so that the counterexample on show is the smallest.
    for counts in sorted(cells(MAX_SAMPLES, users), key=sum):
        best = min(every_cap(counts), key=lambda cap: capped(formula, counts, cap))
        smallest = capped(formula, counts, best)
        n_cases += 1
        if min(capped(formula, counts, m) for m in counts) > smallest + SAME:
            violations.append(
                f"counts {counts}: cap {best} has {smallest:.4g}, less than any of them"
            )
    return _all_but(
        "Lemma D.3",
        f"With {users} users or more, one of the counts is a cap of least sensitivity of the "
        "variance",
        violations,
        n_cases,
        reading,
    )


def lemma_4(formula: OfCell) -> Claim:
    """Return Lemma D.4: for an even number of samples no count as cap raises it."""
    even = (counts for counts in cells(MAX_SAMPLES) if sum(counts) % 2 == 0)
    says = "For an even number of samples no cap raises the variance's sensitivity"
    return _all_but("Lemma D.4", says, *raised(formula, even))


def announced(formula: OfCell) -> Claim:
    """Return the claim that section III-B announces for appendix D, without the even number."""
    # The smallest counterexample is the one that is shown.
    by_size = sorted(cells(MAX_SAMPLES), key=sum)
    says = "No cap raises the variance's sensitivity, whatever the number of samples"
    return _all_but("Section III-B, of appendix D", says, *raised(formula, by_size))
