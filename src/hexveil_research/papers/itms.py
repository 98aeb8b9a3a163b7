"""Counts and speeds like those of the published ITMS cell, searched from published figures.

Source: IOT section IV-B and IV-C. The records themselves are not public; published are L, m*, m_*,
the number of samples, the median, and how many arrays WRAPAROUND and BESTFIT make at the cap of
eq. (9). Counts that agree with all of these are made here: public, drawn, nobody's.
Symbols: L users, m samples of a user, m* and m_* the most and the fewest, K and K̄ the arrays under
WRAPAROUND and BESTFIT.

Speeds: what is published are their mean and variance, and for the scaled data that they are normal,
projected to [0, U]. A data set is drawn once, as in the paper, and stays the same in every trial:
the error of a release is that on the records at hand. `iid_means` are those; of the real cell it is
known only that users differ, so `mixed_means` has users with levels of their own, which make up a
stated share of the published variance. The paper dropped speeds of 0 before counting (ERRATA 13);
about 3% of these are 0, which is where projecting normal samples puts them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from hexveil import theory
from hexveil.base.arrays import Floats, Ints
from hexveil.base.errors import InputError
from hexveil.evaluation import Heterogeneous
from hexveil.mechanisms.priors import Normal, draw_user_means

SPAN = 65.0
"""U, in km/h."""
BOUNDS = (0, 65)
MEAN, VARIANCE = 20.66769, 115.135
"""Of the speeds, in km/h and its square."""
SHARE = 0.25
"""Part of the variance that lies between users of the cell that is not i.i.d.; our choice."""
SCALE = 10
"""λ of sample scaling and user scaling."""
_TAIL = 1.1
"""Standard deviation of the logarithm of the counts that the search starts from."""
_STEPS = 20_000
"""Moves of one start of the search."""
_STARTS = 20
_ROUNDS = 30
"""Of drawing speeds to the published mean and variance: more than enough for six digits."""


@dataclass(frozen=True)
class Facts:
    """Published figures of the counts of a cell.

    Attributes
    ----------
    users, largest, smallest, samples, median : int
        L, m*, m_*, the sum of all counts, and the cap that is their median.
    wrapped, fitted : int
        K and K̄ at the cap of eq. (9).
    """

    users: int
    largest: int
    smallest: int
    samples: int
    median: int
    wrapped: int
    fitted: int


PUBLISHED = Facts(217, 417, 1, 17166, 46, 160, 164)


def facts(counts: Ints) -> Facts:
    """Return the published figures of a cell, for any counts.

    Examples
    --------
    >>> facts(counts()) == PUBLISHED
    True
    """
    cap = theory.sqrt_cap(counts)
    return Facts(
        users=counts.size,
        largest=int(counts.max()),
        smallest=int(counts.min()),
        samples=int(counts.sum()),
        median=theory.median_cap(counts),
        wrapped=theory.wrap_around(counts, cap).n_arrays,
        fitted=theory.best_fit(counts, cap).n_arrays,
    )


@cache
def counts(seed: int = 0) -> Ints:
    """Return counts, the largest first, for which every published fact holds; read-only.

    Parameters
    ----------
    seed : int
        Another seed, other counts with the same facts.

    Raises
    ------
    InputError
        If the search finds none: with `PUBLISHED` it always did.
    """
    # The second number only keeps this stream apart from those of the speeds.
    generator = np.random.default_rng([seed, 417])
    for _ in range(_STARTS):
        matching = _search(_start(generator), generator)
        if matching is not None:
            matching.setflags(write=False)
            return matching
    raise InputError(f"no counts like the published ones were found with seed {seed}; try another.")


def _start(generator: np.random.Generator) -> Ints:
    """Return heavy-tailed counts, the largest first, with all facts but those about arrays."""
    want = PUBLISHED
    half = want.users // 2
    spread = np.abs(generator.normal(0.0, _TAIL, 2 * half))
    lower = np.clip(np.rint(want.median * np.exp(-spread[:half])), want.smallest, want.median - 1)
    upper = np.clip(np.rint(want.median * np.exp(spread[half:])), want.median, want.largest)
    m = -np.sort(-np.concatenate((upper, [want.median], lower)).astype(np.int64))
    m[0], m[half], m[-1] = want.largest, want.median, want.smallest
    low, high = _limits()
    while missing := want.samples - int(m.sum()):
        # Rounding and clipping moved the total: single samples go to, or come from, users with
        # room.
        free = np.flatnonzero(m < high if missing > 0 else m > low)
        m[generator.choice(free, min(abs(missing), free.size), replace=False)] += np.sign(missing)
    return m


def _limits() -> tuple[Ints, Ints]:
    """Return between which numbers the count at each place may move, without changing a fact."""
    want = PUBLISHED
    half = want.users // 2
    low, high = (np.full(want.users, end) for end in (want.median, want.largest))
    low[half + 1 :], high[half + 1 :] = want.smallest, want.median - 1
    for place, fixed in ((0, want.largest), (half, want.median), (-1, want.smallest)):
        low[place] = high[place] = fixed
    return low, high


def _search(m: Ints, generator: np.random.Generator) -> Ints | None:
    """Return the counts after moves of samples between users, or None if facts still fail.

    A move is kept unless it leads away from the published numbers of arrays.
    """
    low, high = _limits()
    remaining = _distance(m)
    for _ in range(_STEPS):
        if not remaining:
            return np.asarray(-np.sort(-m), dtype=np.int64)
        giver, taker = generator.choice(m.size, 2, replace=False)
        limit = min(m[giver] - low[giver], high[taker] - m[taker])
        if limit < 1:
            continue
        n_moved = generator.integers(1, limit + 1)
        candidate = m.copy()
        candidate[giver] -= n_moved
        candidate[taker] += n_moved
        if (distance := _distance(candidate, remaining)) <= remaining:
            m, remaining = candidate, distance
    return None


def _distance(m: Ints, limit: float = np.inf) -> float:
    """Return how far the numbers of arrays are from the published ones; 0 is there.

    Infinite where it exceeds the limit by WRAPAROUND's arrays alone: BESTFIT takes longer.
    """
    cap = theory.sqrt_cap(m)
    full = float(np.minimum(m, cap).sum()) / cap
    outside = max(PUBLISHED.wrapped - full, full - (PUBLISHED.wrapped + 1), 0.0)
    # A whole number is in the half-open interval [K, K + 1) at its lower end only.
    edge = 1e-3 if full == PUBLISHED.wrapped + 1 else 0.0
    if outside + edge > limit:
        return np.inf
    return outside + edge + abs(theory.best_fit(m, cap).n_arrays - PUBLISHED.fitted)


def sample_scaled(m: Ints, factor: int = SCALE) -> Ints:
    """Return the counts of sample scaling: every user has `factor` times as many samples."""
    return m * factor


def user_scaled(m: Ints, factor: int = SCALE) -> Ints:
    """Return the counts of user scaling: `factor` users in place of each."""
    return np.repeat(m, factor)


def iid_means(m: Ints, seed: int = 0) -> Floats:
    """Return user means of normal samples projected to [0, U], drawn once (IOT section IV-C).

    Parameters
    ----------
    m : ndarray of int64, shape (n_users,)
    seed : int
    """
    generator = np.random.default_rng([seed, 115])
    means = draw_user_means(Normal(MEAN, VARIANCE**0.5), m, BOUNDS, generator, 1)
    return np.asarray(means[0], dtype=np.float64)


def mixed_means(m: Ints, seed: int = 0, share: float = SHARE) -> Floats:
    """Return user means of samples about levels that differ between users, drawn once.

    The samples lie in [0, U], and their mean and variance are the published ones.

    Parameters
    ----------
    m : ndarray of int64, shape (n_users,)
    seed : int
    share : float
        Part of the variance between users, from 0 to 1.
    """
    speeds = mixed_speeds(m, seed, share)
    return np.asarray(np.add.reduceat(speeds, np.cumsum(m) - m) / m, dtype=np.float64)


def mixed_speeds(m: Ints, seed: int = 0, share: float = SHARE) -> Floats:
    """Return the samples themselves, user by user: see `mixed_means`."""
    generator = np.random.default_rng([seed, 206])
    sd = VARIANCE**0.5
    values = Heterogeneous(MEAN, sd * share**0.5, sd * (1 - share) ** 0.5)
    speeds: Floats = values.draw(generator, m, 1)[0]
    for _ in range(_ROUNDS):  # projecting moves mean and variance, each time by less
        speeds = MEAN + (speeds - speeds.mean()) * (sd / speeds.std())
        np.clip(speeds, *BOUNDS, out=speeds)
    return speeds


def array_means(groups: theory.PseudoUsers, user_means: Floats) -> Floats:
    """Return the mean of each array, for user means along the last axis.

    Examples
    --------
    >>> groups = theory.wrap_around([3, 2, 1], 3)
    >>> array_means(groups, np.array([6.0, 3.0, 0.0])).tolist()
    [6.0, 2.0]
    """
    order = np.argsort(groups.piece_array, kind="stable")
    begin = np.flatnonzero(np.diff(groups.piece_array[order], prepend=-1))
    pieces = user_means[..., groups.piece_user[order]] * groups.piece_share[order]
    return np.asarray(np.add.reduceat(pieces, begin, axis=-1), dtype=np.float64)
