"""Worst-case bias of estimators that weigh, drop or clip samples in one cell.

The worst-case bias is the largest |noiseless estimate - true statistic| over all values within
the bounds. It depends on public counts alone. "Exact" means attained by some values, "bound"
never exceeded.

Source: COMP Theorems IV.1 and IV.2 (its cases put right, ERRATA 1), ERRATA 8 for weights (it
replaces IOT Lemma V.1 and RW eq. (4)) and 14 for clipping (it replaces WC Lemma III.1). Instead of
dropping: ERRATA 9 (re-weighting, as IOT section IV-A does in its experiments) and 10 (suppression
towards the midpoint, the limit T = 0 of WC Theorem III.1); neither biases a mean more.
Neighbours: one user's values all change within the bounds; users and counts are public.
Symbols: m samples per user, N their sum, Γ contributed samples of a user, n their sum, w weights,
U the width of the bounds, a and b the ends of clipping intervals above the lower bound, δ the mass
taken away.

Dropped towards the midpoint (proof for U = 1): let the contributed samples have mass 1 - δ and
mean t, the dropped ones mean s and variance v <= s(1 - s). Then V - V' = δ v + δ(1 - δ)((t - s)² -
(t - 1/2)²) is linear in t. It is least, -δ(1 - δ)/4, where all values are equal to a bound, and
largest where contributed samples lie at one bound and k dropped ones at the other:
k (N - k)/N² - δ(1 - δ)/4, with k as near to N/2 as N - n allows. The published constant is the
middle of the two, the bias half their distance.
"""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from hexveil.accounting import sensitivity
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
    m = sensitivity.check_counts(counts)
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
    n, total = sensitivity.check_contributions(contributions, counts, minimum=1)
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
    n, total = sensitivity.check_contributions(contributions, counts, minimum=1)
    if n == total:
        return 0.0
    # With at most half of the samples contributing, all at one bound, the others fill either bound
    # up to half: the largest variance there is, beside one of 0.
    n_moved = n if total < 2 * n else total // 2
    return span**2 * (n_moved * (total - n_moved)) / total**2


def reweighted_mean_bias(contributions: ArrayLike, counts: ArrayLike, span: float) -> float:
    """Largest |Σ (Γ/n) user mean - mean of all samples|, in value units; exact.

    δ U with δ = Σ max(m/N - Γ/n, 0), at most 1 - n/N (ERRATA 9).

    Parameters
    ----------
    contributions, counts, span
        As for `truncation_mean_bias`.

    Examples
    --------
    >>> reweighted_mean_bias([1, 1], [3, 1], 8.0)
    2.0
    """
    return linear_bias(sensitivity.contribution_weights(contributions, counts), counts, span)


def reweighted_variance_bias(contributions: ArrayLike, counts: ArrayLike, span: float) -> float:
    """Bound on |re-weighted variance - variance of all samples|, in squared units.

    U² δ(1 - δ) for δ <= 1/2, else U²/4 (ERRATA 9). The re-weighted variance is
    Σ_l (w_l/m_l) Σ_j (x_lj - weighted mean)² with w = Γ/n.

    Parameters
    ----------
    contributions, counts, span
        As for `truncation_mean_bias`.

    Examples
    --------
    >>> reweighted_variance_bias([1, 1], [3, 1], 8.0)
    12.0
    """
    delta = reweighted_mean_bias(contributions, counts, 1.0)
    return span**2 * float(sensitivity.variance_sensitivity_bound(np.array(delta)))


def midpoint_mean_bias(contributions: ArrayLike, counts: ArrayLike, span: float) -> float:
    """Largest bias of the mean with dropped samples put at the midpoint, in value units; exact.

    (U/2)(1 - n/N), half of dropping (ERRATA 10). Contributions may all be 0.

    Parameters
    ----------
    contributions, counts, span
        As for `truncation_mean_bias`.

    Examples
    --------
    >>> midpoint_mean_bias([1, 1], [3, 1], 8.0)
    2.0
    """
    n, total = sensitivity.check_contributions(contributions, counts, minimum=0)
    return span * (total - n) / (2 * total)


def midpoint_variance_offset(contributions: ArrayLike, counts: ArrayLike, span: float) -> float:
    """Return the constant to add to the variance with dropped samples at the midpoint.

    U² δ(1 - δ)/4 for δ = 1 - n/N <= 1/2 (ERRATA 10); beyond, the same middle of the two ends of
    the error (module head). Public, in squared value units.

    Parameters
    ----------
    contributions, counts, span
        As for `truncation_mean_bias`, but contributions may all be 0.

    Examples
    --------
    >>> midpoint_variance_offset([1, 1, 1], [1, 2, 1], 4.0)
    0.75
    """
    low, high = _midpoint_variance_error(contributions, counts)
    return span**2 * (low + high) / 2


def midpoint_variance_bias(contributions: ArrayLike, counts: ArrayLike, span: float) -> float:
    """Largest bias of the variance with dropped samples at the midpoint; exact.

    After `midpoint_variance_offset` is added: U² δ(1 - δ)/2 for δ = 1 - n/N <= 1/2, half of
    dropping (ERRATA 10); beyond, U²/8, for odd N times 1 - 1/N² (module head).

    Parameters
    ----------
    contributions, counts, span
        As for `truncation_mean_bias`, but contributions may all be 0.

    Examples
    --------
    >>> midpoint_variance_bias([1, 1, 1], [1, 2, 1], 4.0), midpoint_variance_bias([0], [2], 4.0)
    (1.5, 2.0)
    """
    low, high = _midpoint_variance_error(contributions, counts)
    return span**2 * (high - low) / 2


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
    m = sensitivity.check_counts(np.ones(a.size, dtype=np.int64) if counts is None else counts)
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


def _midpoint_variance_error(contributions: ArrayLike, counts: ArrayLike) -> tuple[float, float]:
    """Return the ends of (variance - variance with dropped samples at the midpoint) for U = 1."""
    n, total = sensitivity.check_contributions(contributions, counts, minimum=0)
    # Half of all samples at the far bound make the variance largest, or all that were dropped if
    # they are fewer.
    n_moved = min(total - n, total // 2)
    quarter = n * (total - n) / (4 * total**2)
    return -quarter, n_moved * (total - n_moved) / total**2 - quarter
