"""Claims of IOT on the convex surrogate Ē of the worst-case error, in section VI.

Source: IOT eq. (19), Lemma VI.2, the procedure and the remark after it (RW section VI, appendix
I), with ERRATA 6 and docs/understand/errata.md. Symbols as in `lemmas`; q = N/m*,
m_q the q-th largest count.

Test cases of IOT's lemmas: cells drawn at random, and formulas of section III for U = 1.

Source: IOT section III. Random cells have heavy-tailed counts, as the published one has. Exact
fractions, so that an equality can be told from a near miss.
Symbols: m samples of a user, N their sum, m_UB the cap, Γ = min(m, m_UB); Δ the sensitivity of the
plain mean, Δ̃ = m_UB/ΣΓ that of arrays that are all full.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from hexveil import theory
from hexveil_research.papers import itms
from hexveil_research.papers.study import Claim

Counts = tuple[int, ...]

CapRule = Callable[[Sequence[int]], int]

DRAWN = 300
MAX_SAMPLES = 60
"""Samples of a user, at most."""
CLOSE = 1e-9
"""Room for rounding in comparisons that are exact on paper."""


def instances(seed: int, number: int = DRAWN) -> tuple[Counts, ...]:
    """Return counts of up to 15 users each, the largest first.

    Examples
    --------
    >>> all(m == tuple(sorted(m, reverse=True)) for m in instances(0, 5))
    True
    """
    draw = np.random.default_rng([seed, 5])
    drawn = []
    for _ in range(number):
        # Without a finite mean: one user may hold most of a cell, as in the published one.
        m = np.ceil(3 * draw.pareto(1.0, draw.integers(1, 16)) + 0.1).clip(1, MAX_SAMPLES)
        drawn.append(tuple(sorted(map(int, m), reverse=True)))
    return tuple(drawn)


def kept_samples(counts: Sequence[int], cap: Fraction | int) -> Fraction:
    """Return ΣΓ.

    Examples
    --------
    >>> kept_samples([5, 2, 1], 3)
    Fraction(6, 1)
    """
    return Fraction(sum(min(m, cap) for m in counts))


def proxy(counts: Sequence[int], cap: Fraction | int) -> Fraction:
    """Return Δ̃ for U = 1.

    Examples
    --------
    >>> proxy([5, 2, 1], 3)
    Fraction(1, 2)
    """
    return Fraction(cap) / kept_samples(counts, cap)


def gain(counts: Sequence[int], cap: Fraction | int) -> Fraction:
    """Return Δ/Δ̃.

    Examples
    --------
    >>> gain([5, 2, 1], 5), gain([5, 2, 1], 1)
    (Fraction(1, 1), Fraction(15, 8))
    """
    return Fraction(max(counts), sum(counts)) / proxy(counts, cap)


def largest_gain(counts: Sequence[int]) -> Fraction:
    """Return OPT = m* L/N."""
    return Fraction(max(counts) * len(counts), sum(counts))


def caps_of(counts: Sequence[int]) -> range:
    """Return every whole cap from m_* to m*."""
    return range(min(counts), max(counts) + 1)


def worst_error(counts: Sequence[int], cap: Fraction | int, epsilon: Fraction) -> Fraction:
    """Return the worst-case error of eq. (15) for U = 1, which takes all arrays as full."""
    return 1 - kept_samples(counts, cap) / sum(counts) + proxy(counts, cap) / epsilon


def few_caps(counts: Sequence[int]) -> tuple[int, ...]:
    """Return some caps: 1, the median, that of eq. (9), and the largest count."""
    return 1, theory.median_cap(counts), theory.sqrt_cap(counts), max(counts)


def counts_text(counts: Sequence[int]) -> str:
    """Return counts for the reader.

    Examples
    --------
    >>> counts_text((3, 1))
    '(3, 1)'
    """
    return f"({', '.join(map(str, counts))})"


Rule = Callable[[Counts], float]

FLAT: Counts = (6, 4, 1, 1)
"""q = 2: Ē is constant from the mean, 3, to m_2 = 4."""


def ends_claim(cells: Sequence[Counts]) -> Claim:
    """Return the remark on Ē at both ends of the caps."""
    n_wrong = 0
    for counts in cells:
        low, total = min(counts), sum(counts)
        mean = Fraction(total, len(counts))
        n_wrong += theory.surrogate_objective(counts, Fraction(max(counts))) != 1
        at_low = 1 - Fraction(low * len(counts), total) + mean / max(counts)
        n_wrong += theory.surrogate_objective(counts, Fraction(low)) != at_low
    return Claim(
        "IOT",
        "Section VI, remark",
        "Ē(m*) = 1 and Ē(m_*) = (1 - ΣΓ/N) + m̄/m*",
        f"another value in {n_wrong} of {2 * len(cells)} cases, exactly",
        not n_wrong,
    )


def undecided_claim(cells: Sequence[Counts]) -> Claim:
    """Return the remark that either end can be the better one."""
    lower = sum(theory.surrogate_objective(c, Fraction(min(c))) < 1 for c in cells)
    higher = sum(theory.surrogate_objective(c, Fraction(min(c))) > 1 for c in cells)
    return Claim(
        "IOT",
        "Section VI, remark",
        "Which of Ē(m_*) and Ē(m*) is smaller depends on the counts",
        f"of {len(cells)} random cells Ē(m_*) is smaller in {lower}, larger in {higher}",
        lower > 0 and higher > 0,
    )


def stationary_claims(cells: Sequence[Counts]) -> tuple[Claim, Claim]:
    """Return Lemma VI.2: its stationary points, and the correct statement on its cap."""
    # Inside the stretch from 3 to 4 on which Ē is flat, so that no kink is among them.
    quarters = [Fraction(k, 4) for k in range(13, 16)]
    flat = {theory.surrogate_objective(FLAT, cap) for cap in quarters}
    covered = [
        (counts, cap) for counts in (*map(padded, cells), FLAT) if (cap := _named_cap(counts))
    ]
    worse = sum(
        theory.surrogate_objective(counts, Fraction(cap)) > _smallest_surrogate(counts)
        for counts, cap in covered
    )
    return (
        Claim(
            "IOT",
            "Lemma VI.2",
            "The derivative of Ē is zero only at m_q, for a whole q with m_q >= m̄",
            f"counts {counts_text(FLAT)}: Ē at the caps 3.25, 3.5 and 3.75 is "
            f"{', '.join(sorted(map(str, flat)))}; the lemma names 4 alone",
            len(flat) > 1,
        ),
        Claim(
            "IOT",
            "Lemma VI.2",
            "The cap that it names minimises Ē, where there is one (docs/understand/errata.md)",
            f"a smaller Ē exists in {worse} of {len(covered)} random cells with such a cap",
            not worse and bool(covered),
            "corrected",
        ),
    )


def rule_claims(
    cells: Sequence[Counts],
    printed: Rule = lambda counts: theory.surrogate_cap(counts, rule="printed"),
    exact: Rule = theory.surrogate_cap,
) -> tuple[Claim, Claim]:
    """Return the procedure after Lemma VI.2: as printed, and ERRATA 6.

    Parameters
    ----------
    cells : sequence of counts
    printed, exact : callable
        The two rules; others in a test.
    """
    missed = [_value(counts, printed) / _smallest_surrogate(counts) for counts in cells]
    n_wrong = sum(_value(counts, exact) > _smallest_surrogate(counts) for counts in cells)
    m = tuple(itms.counts().tolist())
    on_itms = tuple(float(_value(m, rule)) for rule in (printed, exact))
    return (
        Claim(
            "IOT",
            "Section VI, procedure after Lemma VI.2",
            "m_q where the lemma names it, else the better of m_* and m*, minimises Ē",
            f"it misses the minimum in {sum(ratio > 1 for ratio in missed)} of {len(cells)} random "
            f"cells, by up to {float(max(missed) - 1):.0%}; on a cell like ITMS Ē = "
            f"{on_itms[0]:.3f} at its cap {printed(m):g}, {on_itms[1]:.3f} at {exact(m):.1f}",
            max(missed) <= 1,
        ),
        Claim(
            "IOT",
            "Section VI, procedure after Lemma VI.2",
            "The best of the counts and their mean minimises Ē (ERRATA 6)",
            f"a search over halves and hundredths about the mean finds a smaller Ē in {n_wrong} of "
            f"{len(cells)} random cells",
            not n_wrong,
            "corrected",
        ),
    )


def padded(counts: Counts) -> Counts:
    """Return counts with users of one sample added until q is whole.

    Examples
    --------
    >>> padded((4, 1))
    (4, 1, 1, 1, 1)
    """
    return counts + (1,) * (-sum(counts) % max(counts))


def _named_cap(counts: Counts) -> int | None:
    """Return m_q if Lemma VI.2 names it."""
    q = Fraction(sum(counts), max(counts))
    if q.denominator != 1:
        return None
    cap = sorted(counts, reverse=True)[int(q) - 1]
    return cap if cap * len(counts) >= sum(counts) else None


def _smallest_surrogate(counts: Counts) -> Fraction:
    """Return the least Ē on a grid of caps that has all its kinks but for the mean, and the mean.

    The grid is what makes it a search; the kinks alone would be the rule that it is to judge.
    """
    mean = Fraction(sum(counts), len(counts))
    grid = {Fraction(k, 2) for k in range(2 * min(counts), 2 * max(counts) + 1)}
    around_mean = (
        {mean + Fraction(k, 100) for k in range(-3, 4)} if max(counts) > min(counts) else {mean}
    )
    caps = {cap for cap in grid | around_mean if min(counts) <= cap <= max(counts)}
    return min(theory.surrogate_objective(counts, cap) for cap in caps)


def _value(counts: Counts, rule: Rule) -> Fraction:
    """Return Ē at a rule's cap, which may be a rounded mean."""
    # A rule returns a float; the mean of L counts is a fraction with a denominator of at most L.
    cap = Fraction(rule(counts)).limit_denominator(len(counts))
    return theory.surrogate_objective(counts, cap)
