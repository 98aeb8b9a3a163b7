"""Test cases of IOT's lemmas: cells drawn at random, and formulas of section III for U = 1.

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
