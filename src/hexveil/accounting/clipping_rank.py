"""The projection of user sums that has the least worst-case error in one cell.

Source: WC Theorem III.1; its error as corrected in ERRATA 5.
Neighbours: one user's values all change; users and their counts are public.
Symbols: m samples per user, N their sum, U the width of the bounds, T the threshold.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from hexveil.accounting.sensitivity import check_counts
from hexveil.base.rational import Number, to_positive_fraction

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


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

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
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
