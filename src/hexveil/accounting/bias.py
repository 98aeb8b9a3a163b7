"""Worst-case bias of estimators that weigh, drop or clip samples in one cell.

The worst-case bias is the largest |noiseless estimate - true statistic| over all values within
the bounds. It depends on public counts alone. "Exact" means attained by some values, "bound"
never exceeded.

Source: COMP Theorems IV.1 and IV.2 (its cases put right, ERRATA 1), ERRATA 8 for weights (it
replaces IOT Lemma V.1 and RW eq. (4)) and 14 for clipping (it replaces WC Lemma III.1). Capping
without dropping (ERRATA 9, 10) is in `capping`.
Neighbours: one user's values all change within the bounds; users and counts are public.
Symbols: m samples per user, N their sum, Γ contributed samples of a user, n their sum, w weights,
U the width of the bounds, a and b the ends of clipping intervals above the lower bound.
"""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from hexveil.accounting.sensitivity import check_counts
from hexveil.base.arrays import Floats, Ints
from hexveil.base.errors import InputError
from hexveil.base.rational import Number, to_positive_fraction

Offset = Literal["best"] | None


def linear_bias(weights: ArrayLike, counts: ArrayLike, span: float, offset: Offset = None) -> float:
    """Largest |lo + Σ w (user mean - lo) - mean of all samples|, in value units; exact.

    U max(Σ max(m/N - w, 0), Σ max(w - m/N, 0)), where both sums agree if Σ w = 1 (ERRATA 8).
    With offset "best" the public constant `best_offset` is added: (U/2) Σ |m/N - w|.

    Parameters
    ----------
    weights : array_like of float, shape (n_users,)
        w, public. To weigh samples instead of user means, give one weight and count 1 per sample.
    counts : array_like of int, shape (n_users,)
        Samples per user, each >= 1. Public.
    span : float
        U, the width of the bounds, in value units.
    offset : "best", optional
        Whether the best public constant is added to the estimate.

    Raises
    ------
    InputError
        If a count is below 1, weights are missing or not finite, or offset is another word.

    Examples
    --------
    >>> linear_bias([0.5, 0.5], [3, 1], 8.0)
    2.0
    >>> linear_bias([0.25, 0.25], [3, 1], 8.0), linear_bias([0.25, 0.25], [3, 1], 8.0, "best")
    (4.0, 2.0)
    """
    m = check_counts(counts)
    # Values at one bound where a weight is too small and at the other where it is too large make
    # one of the two sums the bias: neither can be left out.
    gap = m / m.sum() - _per_user(weights, m, "weights")
    return span * _worst(float(np.maximum(gap, 0).sum()), float(np.maximum(-gap, 0).sum()), offset)


def best_offset(weights: ArrayLike, span: float) -> float:
    """Return the constant that halves the bias of weights not summing to one, in value units.

    (U/2)(1 - Σ w): the middle of what the estimate lacks (ERRATA 8). Public.

    Examples
    --------
    >>> best_offset([0.25, 0.25], 8.0)
    2.0
    """
    return float(span * (1.0 - np.asarray(weights, dtype=np.float64).sum()) / 2.0)


def linear_error(weights: ArrayLike, counts: ArrayLike, span: float, epsilon: Number) -> float:
    """Worst-case bias plus expected |noise| of a weighted mean of user means, in value units.

    U Σ max(m/N - w, 0) + U max w / ε for weights that sum to one (ERRATA 8).

    Parameters
    ----------
    weights, counts, span
        As for `linear_bias`.
    epsilon : int, str, Decimal, Fraction or float
        Loss of the user of largest weight.

    Examples
    --------
    >>> linear_error([0.5, 0.5], [3, 1], 8.0, 2)
    4.0
    """
    largest = float(np.abs(np.asarray(weights, dtype=np.float64)).max())
    noise = span * largest / float(to_positive_fraction(epsilon, "epsilon"))
    return linear_bias(weights, counts, span) + noise


def truncation_mean_bias(contributions: ArrayLike, counts: ArrayLike, span: float) -> float:
    """Largest |mean of the contributed samples - mean of all|, in value units; exact.

    U (1 - n/N) (COMP Theorem IV.1).

    Parameters
    ----------
    contributions : array_like of int, shape (n_users,)
        Γ, the samples that each user contributes, from 0 to its count; at least one in all. Public.
    counts : array_like of int, shape (n_users,)
        Samples per user, each >= 1. Public.
    span : float
        U, the width of the bounds, in value units.

    Raises
    ------
    InputError
        If a count is below 1, a contribution is out of range, or there is none.

    Examples
    --------
    >>> truncation_mean_bias([1, 1], [3, 1], 8.0)
    4.0
    """
    n, total = check_contributions(contributions, counts, minimum=1)
    return span * (total - n) / total


def truncation_variance_bias(contributions: ArrayLike, counts: ArrayLike, span: float) -> float:
    """Largest |variance of the contributed samples - variance of all|, in squared units; exact.

    0 if all contribute; U² n (N - n)/N² if N < 2n; else U²/4, for odd N times 1 - 1/N². COMP
    Theorem IV.2 prints the two conditions the wrong way round (ERRATA 1).

    Parameters
    ----------
    contributions, counts, span
        As for `truncation_mean_bias`.

    Examples
    --------
    >>> truncation_variance_bias([2, 1], [3, 1], 8.0), truncation_variance_bias([0, 1], [3, 1], 8.0)
    (12.0, 16.0)
    """
    n, total = check_contributions(contributions, counts, minimum=1)
    if n == total:
        return 0.0
    # With at most half of the samples contributing, all at one bound, the others fill either bound
    # up to half: the largest variance there is, beside one of 0.
    n_moved = n if total < 2 * n else total // 2
    return span**2 * (n_moved * (total - n_moved)) / total**2


def clipping_bias(
    lower: ArrayLike,
    upper: ArrayLike,
    span: float,
    counts: ArrayLike | None = None,
    offset: Offset = None,
) -> float:
    """Largest |mean of clipped samples - mean|, in value units; exact for any intervals.

    max(Σ a, Σ (U - b)) / N over all samples (ERRATA 14); WC Lemma III.1 adds the larger of each
    pair instead, but errors of opposite sign cancel. With offset "best" a public constant is
    added that makes the two sums equal: half of Σ (a + U - b) / N.

    Parameters
    ----------
    lower, upper : array_like of float, shape (n_intervals,)
        a <= b, the ends of each clipping interval above the lower bound, in [0, U]. Public.
    span : float
        U, the width of the bounds, in value units.
    counts : array_like of int, shape (n_intervals,), optional
        Samples that each interval stands for; one each if left out. Clipping a user's mean has
        the same worst case as clipping each of its samples.
    offset : "best", optional
        Whether the best public constant is added.

    Raises
    ------
    InputError
        If an interval is empty or leaves [0, U], or the arrays differ in length.

    Examples
    --------
    >>> clipping_bias([0.5, 0.0], [1.0, 0.5], 1.0)
    0.25
    """
    a = np.asarray(lower, dtype=np.float64)
    m = check_counts(np.ones(a.size, dtype=np.int64) if counts is None else counts)
    a, b = _per_user(a, m, "lower"), _per_user(upper, m, "upper")
    if (a < 0).any() or (b > span).any() or (a > b).any():
        raise InputError(f"each interval must run from a lower to a higher end within [0, {span}].")
    # Samples at the lower bound are raised by a, samples at the upper one lowered by U - b.
    return _worst(float((m * a).sum()), float((m * (span - b)).sum()), offset) / float(m.sum())


def _worst(left_bias: float, right_bias: float, offset: Offset) -> float:
    """Return the larger one-sided error, or half their sum if a constant balances them."""
    if offset is None:
        return max(left_bias, right_bias)
    if offset == "best":
        return (left_bias + right_bias) / 2
    raise InputError(f'offset must be None or "best", got {offset!r}.')


def _per_user(weights: ArrayLike, m: Ints, name: str) -> Floats:
    """Return one finite number per count; raise InputError otherwise."""
    array = np.asarray(weights, dtype=np.float64)
    if array.shape != m.shape or not np.isfinite(array).all():
        raise InputError(f"{name} needs one finite number for each of the {m.size} counts.")
    return array


def check_contributions(
    contributions: ArrayLike, counts: ArrayLike, minimum: int
) -> tuple[int, int]:
    """Return (n, N); raise InputError unless 0 <= Γ <= m and n >= `least`."""
    m, g = check_counts(counts), np.asarray(contributions)
    if g.shape != m.shape or g.dtype.kind not in "iu" or (g < 0).any() or (g > m).any():
        raise InputError("contributions need a whole number from 0 to the count for each user.")
    n = int(g.sum())
    if n < minimum:
        raise InputError("at least one sample must contribute.")
    return n, int(m.sum())
