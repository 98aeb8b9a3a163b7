"""How many samples of a user an array takes: the rules for the cap of ARRAY-AVERAGING.

Source: median, square-root rule and minimax from IOT section III, eq. (9) and (15), Lemma V.2;
RW eq. (4) weighs noise by its standard deviation (ERRATA 15). Convex surrogate: IOT Lemma VI.2,
whose rule misses the minimum (ERRATA 6). Exact: planning error of BESTFIT by ERRATA 8.
Every cap depends on public counts and ε alone; the width of the bounds cancels. Of equally good
caps the smallest is taken.
Symbols: m samples per user, N their sum, m_* and m* the smallest and largest, L users,
Γ = min(m, cap), w the weight of a user's mean in the average of array means.

The projection of user sums that has the least worst-case error in one cell.

Source: WC Theorem III.1; its error as corrected in ERRATA 5.
Neighbours: one user's values all change; users and their counts are public.
Symbols: m samples per user, N their sum, U the width of the bounds, T the threshold.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from hexveil.accounting.bias import linear_error
from hexveil.accounting.pseudo_users import best_fit
from hexveil.accounting.sensitivity import check_counts
from hexveil.base.arrays import Floats, Ints
from hexveil.base.errors import InputError
from hexveil.base.rational import Number, to_positive_fraction

Noise = Literal["mean", "std"]

NOISE_WEIGHT = {"mean": Fraction(1), "std": Fraction(math.sqrt(2.0))}
"""What is counted of Laplace noise of scale 1: its mean absolute value (IOT) or its standard
deviation (RW)."""

TIE = 1e-12
"""Relative difference below which two floating-point objectives may be equal."""
MANY_CAPS = 10_000
"""The largest count up to which `exact_cap` tries every cap."""


def median_cap(counts: ArrayLike) -> int:
    """Return the ⌈L/2⌉-th largest count: IOT's median, in samples.

    IOT asks for exactly ⌈L/2⌉ counts not below it; with equal counts there may be none, and this
    is then the largest value with at least as many, which is all that Lemma III.2 needs.

    Parameters
    ----------
    counts : array_like of int, shape (n_users,)
        Samples per user, each >= 1. Public.

    Examples
    --------
    >>> median_cap([5, 4, 2, 1]), median_cap([5, 4, 2])
    (4, 4)
    """
    m = np.sort(check_counts(counts))
    return int(m[m.size // 2])


def sqrt_cap(counts: ArrayLike) -> int:
    """Return the cap with the largest Σ min(m, cap) / √cap between m_* and m* (IOT eq. (9)).

    It is one of the counts: between two of them the objective is c/√cap + k √cap, which has no
    inner maximum.

    Parameters
    ----------
    counts : array_like of int, shape (n_users,)
        Samples per user, each >= 1. Public.

    Examples
    --------
    >>> sqrt_cap([9, 4, 1, 1]), sqrt_cap([9, 1, 1, 1])
    (4, 1)
    """
    # Exactly: near ties of doubles would go by their rounding.
    return _best_cap(check_counts(counts), lambda cap, capped: -Fraction(capped**2, cap))


def minimax_cap(counts: ArrayLike, epsilon: Number, noise: Noise = "mean") -> int:
    """Return the cap with the least worst-case error, if every array were full.

    1 - ΣΓ/N + c cap / (ε ΣΓ) is least at one of the counts (IOT eq. (15), Lemma V.2); c is 1 for
    the mean of |noise| (IOT) and √2 for its standard deviation (RW eq. (4)).

    Parameters
    ----------
    counts : array_like of int, shape (n_users,)
        Samples per user, each >= 1. Public.
    epsilon : int, str, Decimal, Fraction or float
        Loss of the release.
    noise : {"mean", "std"}
        What is counted of the noise.

    Raises
    ------
    InputError
        If a count is below 1, epsilon is not positive, or noise is another word.

    Examples
    --------
    >>> minimax_cap([9, 3, 1], "0.1"), minimax_cap([9, 3, 1], 10)
    (1, 9)
    """
    m, price = check_counts(counts), _price(epsilon, noise)
    total = int(m.sum())
    return _best_cap(m, lambda cap, capped: price * cap / capped - Fraction(capped, total))


def surrogate_cap(counts: ArrayLike, rule: Literal["exact", "printed"] = "exact") -> float:
    """Return the minimiser of the convex surrogate 1 - ΣΓ/N + max(cap, mean)/m*; maybe no integer.

    "exact": the best of the counts and their mean (ERRATA 6); a mechanism that needs a whole
    number tries the floor and the ceiling. "printed": IOT Lemma VI.2's two steps, for comparison:
    the N/m*-th largest count if N/m* is whole and that count is not below the mean, else the
    better of m_* and m*.

    Parameters
    ----------
    counts : array_like of int, shape (n_users,)
        Samples per user, each >= 1. Public.
    rule : {"exact", "printed"}
        Which of the two.

    Raises
    ------
    InputError
        If a count is below 1 or the rule is another word.

    Examples
    --------
    >>> surrogate_cap([10, 3, 1, 1]), surrogate_cap([10, 3, 1, 1], rule="printed")
    (3.75, 10.0)
    """
    m = check_counts(counts)
    mean = Fraction(int(m.sum()), m.size)
    if rule == "exact":
        caps = [mean, *(Fraction(int(c)) for c in np.unique(m) if c >= mean)]
    elif rule == "printed":
        caps = _printed_candidates(m, mean)
    else:
        raise InputError(f'rule must be "exact" or "printed", got {rule!r}.')
    return float(min(caps, key=lambda cap: (surrogate_objective(m, cap), cap)))


def surrogate_objective(counts: ArrayLike, cap: Fraction) -> Fraction:
    """Return 1 - ΣΓ/N + max(cap, mean)/m*, exactly (IOT eq. (19)).

    Examples
    --------
    >>> surrogate_objective([3, 1], Fraction(2))
    Fraction(11, 12)
    """
    m = check_counts(counts)
    total, mean = int(m.sum()), Fraction(int(m.sum()), m.size)
    below = m <= math.floor(cap)
    capped = int(m[below].sum()) + cap * int((~below).sum())
    return 1 - Fraction(capped) / total + max(cap, mean) / int(m.max())


def exact_cap(counts: ArrayLike, epsilon: Number, noise: Noise = "mean") -> int:
    """Return the cap with the least worst-case error of BESTFIT as it fills its arrays.

    Σ max(m/N - w, 0) + c max w / ε with BESTFIT's own weights (ERRATA 8), over every whole cap
    from m_* to m*; where m* is above `MANY_CAPS` over the counts only, which is quicker.

    A cap is skipped when it cannot win. With K arrays every w is at most 1/K, and 1/K for a user
    of at least `cap` samples, so the error is at least g(1/K) with
    g(x) = Σ max(m/N - x, 0) + c x / ε, convex and least at the ⌈c/ε⌉-th largest m/N. K is at
    least ⌈ΣΓ/cap⌉, and, since no two arrays of BESTFIT would fit into one, at most the number of
    users with m >= cap plus 2 S/(cap + 1), S the samples of the others (or 1 if that is more).

    Parameters
    ----------
    counts : array_like of int, shape (n_users,)
        Samples per user, each >= 1. Public.
    epsilon : int, str, Decimal, Fraction or float
        Loss of the release.
    noise : {"mean", "std"}
        What is counted of the noise, as in `minimax_cap`.

    Raises
    ------
    InputError
        If a count is below 1, epsilon is not positive, or a word is unknown.

    Examples
    --------
    >>> exact_cap([6, 4, 3, 1], 2), minimax_cap([6, 4, 3, 1], 2)
    (4, 6)
    """
    m, price = check_counts(counts), _price(epsilon, noise)
    caps = np.unique(m) if m.max() > MANY_CAPS else np.arange(m.min(), m.max() + 1)
    floor = _error_floor(m, caps, price)
    errors: dict[int, float] = {}
    best = math.inf
    for index in np.argsort(floor, kind="stable"):
        # Caps come by ascending lower bound: once it is above the best error, so are all that
        # follow.
        if floor[index] > best * (1 + TIE):
            break
        cap = int(caps[index])
        errors[cap] = linear_error(best_fit(m, cap).weights, m, 1.0, 1 / price)
        best = min(best, errors[cap])
    return min(cap for cap, error in errors.items() if error <= best * (1 + TIE))


def capped_total(counts: ArrayLike, caps: ArrayLike) -> Ints:
    """Return Σ min(m, cap) for each cap.

    Examples
    --------
    >>> capped_total([5, 2, 1], [1, 2, 9]).tolist()
    [3, 5, 8]
    """
    m = np.sort(check_counts(counts))
    tops = np.asarray(caps, dtype=np.int64)
    below = np.searchsorted(m, tops)
    sums = np.concatenate(([0], np.cumsum(m)))
    return np.asarray(sums[below] + tops * (m.size - below), dtype=np.int64)


def _price(epsilon: Number, noise: str) -> Fraction:
    """Return c/ε: the error per unit of sensitivity."""
    if noise not in NOISE_WEIGHT:
        raise InputError(f'noise must be "mean" or "std", got {noise!r}.')
    return NOISE_WEIGHT[noise] / to_positive_fraction(epsilon, "epsilon")


def _best_cap(m: Ints, objective: Callable[[int, int], Fraction]) -> int:
    """Return the smallest count of least objective, which is of a cap and of Σ min(m, cap)."""
    caps = np.unique(m)
    every = zip(caps.tolist(), capped_total(m, caps).tolist(), strict=True)
    best: int = min(every, key=lambda one: objective(*one))[0]
    return best


def _printed_candidates(m: Ints, mean: Fraction) -> list[Fraction]:
    """Return the candidate caps of IOT Lemma VI.2."""
    rank = Fraction(int(m.sum()), int(m.max()))
    if rank.denominator == 1 and (stationary := int(np.sort(m)[-int(rank)])) >= mean:
        return [Fraction(stationary)]
    return [Fraction(int(m.min())), Fraction(int(m.max()))]


def _error_floor(m: Ints, caps: Ints, price: Fraction) -> Floats:
    """Return per cap a number that BESTFIT's worst-case error is not below (see exact_cap)."""
    share = np.sort(m)[::-1] / m.sum()
    tails = np.concatenate((np.cumsum(share[::-1])[::-1], [0.0]))
    capped = capped_total(m, caps)
    n_full = m.size - np.searchsorted(np.sort(m), caps)
    remainder = capped - n_full * caps
    largest = n_full + np.minimum(m.size - n_full, np.maximum(1, 2 * remainder // (caps + 1)))
    rank = math.ceil(price)
    lowest = share[rank - 1] if rank <= m.size else 0.0
    x = np.clip(lowest, 1.0 / largest, 1.0 / -(-capped // caps))
    above = np.searchsorted(-share, -x)  # users with m/N > x
    head = 1.0 - tails[above]
    return np.asarray(head - above * x + float(price) * x, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Clipping:
    """Projection interval of each user's mean, for values shifted to [0, U].

    Attributes
    ----------
    lower, upper : ndarray of float, shape (n_users,)
        Ends of the interval, in value units above the lower bound; they sum to U.
    threshold : float
        T: the widest interval times its user's count, in value units.
    worst_case_error : float
        Worst-case bias plus expected |noise| at scale T / (epsilon N).
    """

    lower: Floats
    upper: Floats
    threshold: float
    worst_case_error: float


def clipping_rank(epsilon: Number) -> int:
    """Return ⌈2/ε⌉: which largest count sets the threshold (WC Theorem III.1).

    Examples
    --------
    >>> clipping_rank(1), clipping_rank("0.3"), clipping_rank(5)
    (2, 7, 1)
    """
    return math.ceil(Fraction(2) / to_positive_fraction(epsilon, "epsilon"))


def optimal_clipping(counts: ArrayLike, span: float, epsilon: Number) -> Clipping:
    """Return the clipping with the least worst-case error among all projections of samples.

    T is the ⌈2/ε⌉-th largest U m (0 if there are fewer users); a user with U m > T is projected
    to U/2 ± T/(2m). Error: (Σ max((U m - T)/2, 0) + max min(T, U m) / ε) / N (ERRATA 5).

    Parameters
    ----------
    counts : array_like of int, shape (n_users,)
        Samples per user, each >= 1. Public.
    span : float
        U, the width of the bounds, in value units.
    epsilon : int, str, Decimal, Fraction or float
        The cell's loss bound.

    Raises
    ------
    InputError
        If a count is below 1 or epsilon is not positive and finite.

    Examples
    --------
    >>> clip = optimal_clipping([4, 2, 1], 8.0, 1)
    >>> clip.threshold, clip.lower.tolist(), clip.upper.tolist()
    (16.0, [2.0, 0.0, 0.0], [6.0, 8.0, 8.0])
    """
    m = check_counts(counts)
    rank = clipping_rank(epsilon)
    # With fewer than ⌈2/ε⌉ users noise would cost more than any value is worth: the middle is
    # published.
    capped = int(np.sort(m)[-rank]) if rank <= m.size else 0
    half = np.maximum(m - capped, 0) / (2.0 * m) * span
    bias = span * float(np.maximum(m - capped, 0).sum()) / 2.0
    noise = (
        span * float(np.minimum(m, capped).max()) / float(to_positive_fraction(epsilon, "epsilon"))
    )
    return Clipping(half, span - half, span * capped, (bias + noise) / float(m.sum()))
