"""How far one user's values can move the mean and the variance of a cell.

Source: COMP eq. (5) and Proposition III.1; per user, the same with the user's own count in place
of the largest (ERRATA 3); ERRATA 9 for re-weighting, 10 for suppression towards the midpoint.
Neighbours: one user's values all change within the bounds; users and counts are public.
Symbols: m samples per user, N their sum, Γ contributed samples of a user, n their sum, w = Γ/n,
U the width of the bounds.
"""

import numpy as np
from numpy.typing import ArrayLike

from hexveil.base.arrays import Floats, Ints
from hexveil.base.errors import InputError


def check_counts(counts: ArrayLike) -> Ints:
    """Return counts as int64; raise InputError unless there is at least one and all are >= 1."""
    array = np.asarray(counts)
    if array.ndim != 1 or not array.size or array.dtype.kind not in "iu" or array.min() < 1:
        raise InputError("counts must be whole numbers of at least 1, one per user of the cell.")
    return array.astype(np.int64)


def user_mean_sensitivity(counts: ArrayLike, span: float) -> Floats:
    """Largest change of the cell's mean when one user's values change, per user.

    U m / N (COMP eq. (5) with the user's own count).

    Parameters
    ----------
    counts : array_like of int, shape (n_users,)
        Samples per user, each >= 1. Public.
    span : float
        Width of the bounds, in value units.

    Returns
    -------
    ndarray of float, shape (n_users,)
        In value units.

    Examples
    --------
    >>> user_mean_sensitivity([3, 1], 8.0).tolist()
    [6.0, 2.0]
    """
    m = check_counts(counts)
    return np.asarray(span * m / m.sum(), dtype=np.float64)


def mean_sensitivity(counts: ArrayLike, span: float) -> float:
    """Largest change of the cell's mean over all users (COMP eq. (5)), in value units.

    Examples
    --------
    >>> mean_sensitivity([3, 1], 8.0)
    6.0
    """
    return float(user_mean_sensitivity(counts, span).max())


def user_variance_sensitivity(counts: ArrayLike, span: float) -> Floats:
    """Largest change of the cell's population variance when one user's values change, per user.

    U² m (N - m) / N² where 2 m < N; else U²/4, for odd N times (1 - 1/N²)
    (COMP Proposition III.1 with the user's own count).

    Parameters
    ----------
    counts : array_like of int, shape (n_users,)
        Samples per user, each >= 1. Public.
    span : float
        Width of the bounds, in value units.

    Returns
    -------
    ndarray of float, shape (n_users,)
        In squared value units.

    Examples
    --------
    >>> user_variance_sensitivity([2, 2], 2.0).tolist()
    [1.0, 1.0]
    """
    m = check_counts(counts)
    return np.asarray(span**2 * variance_share(m, np.full(m.size, m.sum())), dtype=np.float64)


def variance_share(m: Ints, total: Ints) -> Floats:
    """Sensitivity of the variance for bounds of width 1, per (count, cell total)."""
    minority_share = m * (total - m) / total.astype(np.float64) ** 2
    many = 0.25 * (1.0 - (total % 2) / total.astype(np.float64) ** 2)
    return np.asarray(np.where(2 * m < total, minority_share, many), dtype=np.float64)


def variance_sensitivity_bound(share: Floats) -> Floats:
    """Return the most that a user of this share can move the variance: p (1 - p), at most 1/4."""
    half = np.minimum(share, 0.5)
    return np.asarray(half * (1.0 - half), dtype=np.float64)


def variance_sensitivity(counts: ArrayLike, span: float) -> float:
    """Largest change of the variance over all users (COMP Proposition III.1), squared units.

    Examples
    --------
    >>> variance_sensitivity([1, 1, 1], 3.0)
    2.0
    """
    return float(user_variance_sensitivity(counts, span).max())


def contribution_weights(contributions: ArrayLike, counts: ArrayLike) -> Floats:
    """Return Γ/n: weights on the means of all of a user's samples (ERRATA 9).

    Examples
    --------
    >>> contribution_weights([1, 1], [3, 1]).tolist()
    [0.5, 0.5]
    """
    n, _ = check_contributions(contributions, counts, minimum=1)
    return np.asarray(np.asarray(contributions) / n, dtype=np.float64)


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
    return span**2 * variance_sensitivity_bound(contribution_weights(contributions, counts))


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
    return span**2 * variance_sensitivity_bound(
        user_midpoint_mean_sensitivity(contributions, counts, 1.0)
    )


def check_contributions(
    contributions: ArrayLike, counts: ArrayLike, minimum: int
) -> tuple[int, int]:
    """Return (n, N); raise InputError unless 0 <= Γ <= m and n >= `minimum`."""
    m, g = check_counts(counts), np.asarray(contributions)
    if g.shape != m.shape or g.dtype.kind not in "iu" or (g < 0).any() or (g > m).any():
        raise InputError("contributions need a whole number from 0 to the count for each user.")
    n = int(g.sum())
    if n < minimum:
        raise InputError("at least one sample must contribute.")
    return n, int(m.sum())
