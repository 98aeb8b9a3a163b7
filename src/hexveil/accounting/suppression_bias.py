"""Bias of down-weighting or midpoint-clipping heavy users, instead of truncation.

Source: ERRATA 9 (re-weighting, as IOT section IV-A does in its experiments) and 10 (suppression
towards the midpoint, the limit T = 0 of WC Theorem III.1). Neither biases a mean more than dropping
(COMP Theorems IV.1 and IV.2, `bias`). "Exact" means attained by some values, "bound" never
exceeded.
Neighbours: one user's values all change within the bounds; users and counts are public.
Symbols: m samples per user, N their sum, Γ contributed samples of a user, n their sum, w = Γ/n,
U the width of the bounds, δ the mass taken away.

Dropped towards the midpoint (proof for U = 1): let the contributed samples have mass 1 - δ and
mean t, the dropped ones mean s and variance v <= s(1 - s). Then V - V' = δ v + δ(1 - δ)((t - s)² -
(t - 1/2)²) is linear in t. It is least, -δ(1 - δ)/4, where all values are equal to a bound, and
largest where contributed samples lie at one bound and k dropped ones at the other:
k (N - k)/N² - δ(1 - δ)/4, with k as near to N/2 as N - n allows. The published constant is the
middle of the two, the bias half their distance.
"""

import numpy as np
from numpy.typing import ArrayLike

from hexveil.accounting.bias import check_contributions, linear_bias
from hexveil.base.arrays import Floats


def contribution_weights(contributions: ArrayLike, counts: ArrayLike) -> Floats:
    """Return Γ/n: weights on the means of all of a user's samples (ERRATA 9).

    Examples
    --------
    >>> contribution_weights([1, 1], [3, 1]).tolist()
    [0.5, 0.5]
    """
    n, _ = check_contributions(contributions, counts, minimum=1)
    return np.asarray(np.asarray(contributions) / n, dtype=np.float64)


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
    return linear_bias(contribution_weights(contributions, counts), counts, span)


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
    return span**2 * float(_spread(np.array(delta)))


def user_reweighted_mean_sensitivity(
    contributions: ArrayLike, counts: ArrayLike, span: float
) -> Floats:
    """Largest change of the re-weighted mean, per user, in value units; exact: U Γ/n (ERRATA 9).

    Examples
    --------
    >>> user_reweighted_mean_sensitivity([1, 1], [3, 1], 8.0).tolist()
    [4.0, 4.0]
    """
    return span * contribution_weights(contributions, counts)


def user_reweighted_variance_sensitivity(
    contributions: ArrayLike, counts: ArrayLike, span: float
) -> Floats:
    """Largest change of the re-weighted variance, per user, in squared value units.

    U² w(1 - w) for w = Γ/n <= 1/2, exact; else the bound U²/4 (ERRATA 9). COMP Proposition III.1
    with Γ in place of m is too small here.

    Parameters
    ----------
    contributions, counts, span
        As for `truncation_mean_bias`.

    Examples
    --------
    >>> user_reweighted_variance_sensitivity([2, 1], [4, 1], 1.0).round(9).tolist()
    [0.25, 0.222222222]
    """
    return span**2 * _spread(contribution_weights(contributions, counts))


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
    n, total = check_contributions(contributions, counts, minimum=0)
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


def user_midpoint_mean_sensitivity(
    contributions: ArrayLike, counts: ArrayLike, span: float
) -> Floats:
    """Largest change of the mean with dropped samples at the midpoint, per user: U Γ/N; exact.

    Examples
    --------
    >>> user_midpoint_mean_sensitivity([1, 1], [3, 1], 8.0).tolist()
    [2.0, 2.0]
    """
    _, total = check_contributions(contributions, counts, minimum=0)
    return np.asarray(span * np.asarray(contributions) / total, dtype=np.float64)


def user_midpoint_variance_sensitivity(
    contributions: ArrayLike, counts: ArrayLike, span: float
) -> Floats:
    """Bound on the change of the variance with dropped samples at the midpoint, per user.

    U² p(1 - p) for the remaining mass p = Γ/N <= 1/2, else U²/4 (ERRATA 10).

    Examples
    --------
    >>> user_midpoint_variance_sensitivity([1, 1], [3, 1], 8.0).tolist()
    [12.0, 12.0]
    """
    return span**2 * _spread(user_midpoint_mean_sensitivity(contributions, counts, 1.0))


def _spread(p: Floats) -> Floats:
    """Return p(1 - p) for p <= 1/2, else 1/4: most variance that a mass p can make or unmake."""
    half = np.minimum(p, 0.5)
    return np.asarray(half * (1.0 - half), dtype=np.float64)


def _midpoint_variance_error(contributions: ArrayLike, counts: ArrayLike) -> tuple[float, float]:
    """Return the ends of (variance - variance with dropped samples at the midpoint) for U = 1."""
    n, total = check_contributions(contributions, counts, minimum=0)
    # Half of all samples at the far bound make the variance largest, or all that were dropped if
    # they are fewer.
    n_moved = min(total - n, total // 2)
    quarter = n * (total - n) / (4 * total**2)
    return -quarter, n_moved * (total - n_moved) / total**2 - quarter
