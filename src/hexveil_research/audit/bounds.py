"""Bounds on chances and on a privacy loss from counts of events, in plain numpy.

Source: Clopper and Pearson (1934): the ends of an interval are the chances at which the count seen,
or a more extreme one, has a given small chance itself. They hold for every number of trials.
Symbols: k events in n trials, level the chance that one end is wrong.

Why the tail is a short sum: at the lower end the chance is below k/n, so the odds of k, k + 1, ...
events fall from the first, and beyond 8 √n of them they are below exp(-50) of the first.
"""

from __future__ import annotations

import math

import numpy as np

_HALVINGS = 100
"""More than it takes to find an end to 1e-13 of itself."""

_DEVIATIONS = (8.0, 6.0, 5.0, 4.0, 3.5, 3.0, 2.5, 2.0, 1.5, 1.0)


def tail(k: int, n: int, chance: float) -> float:
    """Return P(X >= k) for X binomial of n trials, to about 1e-8 of it; needs chance <= k/n.

    Parameters
    ----------
    k, n : int
        0 <= k <= n.
    chance : float
        Of an event in one trial.

    Examples
    --------
    >>> round(tail(2, 3, 0.5), 12)
    0.5
    """
    if k <= 0 or chance >= 1.0:
        return 1.0
    if chance <= 0.0:
        return 0.0
    extra = np.arange(1, min(n - k, int(8.0 * math.sqrt(n)) + 50) + 1)
    ratios = (n - k + 1 - extra) / (k + extra) * (chance / (1.0 - chance))
    log_first = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    log_first += k * math.log(chance) + (n - k) * math.log1p(-chance)
    return math.exp(log_first) * (1.0 + float(np.cumprod(ratios).sum()))


def lower_end(k: int, n: int, level: float) -> float:
    """Return a chance that the true one is below with a chance of at most `level`.

    Examples
    --------
    >>> round(lower_end(10, 10, 0.01), 6) == round(0.01**0.1, 6), lower_end(0, 10, 0.01)
    (True, 0.0)
    """
    low, high = 0.0, k / n
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        # Relative, not absolute: chances as small as 1e-9 keep their digits.
        if high - low <= 1e-13 * high:
            break
        if tail(k, n, middle) < level:
            low = middle
        else:
            high = middle
    # The outer side: rounding may only make the proven loss smaller.
    return low


def upper_end(k: int, n: int, level: float) -> float:
    """Return a chance that the true one is above with a chance of at most `level`."""
    return 1.0 - lower_end(n - k, n, level)


def loss_bound(k: int, other_k: int, n: int, level: float) -> float:
    """Return a lower bound on ln(p/q): wrong with a chance of at most 2 `level`.

    Parameters
    ----------
    k, other_k : int
        Events in n trials each: of chance p, and of chance q.
    level : float
        Of either end.

    Examples
    --------
    >>> loss_bound(0, 5, 100, 1e-6)
    -inf
    >>> 0.9 < loss_bound(500, 100, 1000, 1e-6) < 1.6
    True
    """
    low = lower_end(k, n, level)
    return math.log(low / upper_end(other_k, n, level)) if low else -math.inf


def detection(p: float, q: float, n: int, level: float, claim: float) -> float:
    """Return a chance with which, or with more, n trials each give a bound above the claim.

    For counts z standard deviations below n p and above n q: if they would refute the claim, so
    would all counts above the one and below the other, and the chance of any others is a sum of
    two exact binomial tails. The largest of a few z that would.

    Parameters
    ----------
    p, q : float
        True chances of the event.
    n, level
        As for `loss_bound`.
    claim : float
        The loss to be refuted.
    """
    for z in _DEVIATIONS:
        k = max(math.floor(n * p - z * math.sqrt(n * p * (1.0 - p))), 0)
        other_k = min(math.ceil(n * q + z * math.sqrt(n * q * (1.0 - q))), n)
        if loss_bound(k, other_k, n, level) > claim:
            too_few = tail(n - k + 1, n, 1.0 - p)  # P(X < k)
            too_many = tail(other_k + 1, n, q)
            return max(1.0 - too_few - too_many, 0.0)
    return 0.0
