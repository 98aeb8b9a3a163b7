"""Every small cell with every data set on a grid: the truth that COMP's formulas are held against.

Cells of up to six samples, split among users in every way; values at quarters of the width of the
bounds, which is 1. The statistics are averages of squares at most, so the extremes that the
papers' proofs use (all values at a bound) are among them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product

import numpy as np

from hexveil.base.arrays import Floats

MAX_SAMPLES = 6
QUARTERS = np.linspace(0.0, 1.0, 5)

Counts = tuple[int, ...]


def partitions(total: int, largest: int | None = None) -> Iterator[Counts]:
    """Yield every way to split a number of samples among users, larger counts first.

    Examples
    --------
    >>> list(partitions(3))
    [(3,), (2, 1), (1, 1, 1)]
    """
    if not total:
        yield ()
    for head in range(min(total, largest or total), 0, -1):
        for tail in partitions(total - head, head):
            yield (head, *tail)


def cells(max_samples: int = MAX_SAMPLES, users: int = 1) -> tuple[Counts, ...]:
    """Return all counts per user of up to `most` samples and at least that many users."""
    splits = (counts for total in range(1, max_samples + 1) for counts in partitions(total))
    return tuple(counts for counts in splits if len(counts) >= users)


def keeps(counts: Counts) -> Iterator[Counts]:
    """Yield every choice of kept samples per user, at least one in all."""
    return (
        kept_counts for kept_counts in product(*(range(m + 1) for m in counts)) if sum(kept_counts)
    )


def kept_numbers(counts: Counts) -> tuple[Counts, ...]:
    """Return one choice for each number of kept samples; which they are makes no difference."""
    return tuple({sum(kept_counts): kept_counts for kept_counts in keeps(counts)}.values())


@cache
def data_sets(total: int) -> Floats:
    """Return every data set of that many samples, one a row."""
    return np.array(list(product(QUARTERS, repeat=total)))


def weights(kept_counts: Sequence[int], counts: Counts) -> Floats:
    """Return 1/n for each kept sample, the first of each user, and 0 for the others."""
    mask = np.concatenate([np.arange(m) < g for g, m in zip(kept_counts, counts, strict=True)])
    return np.asarray(mask / mask.sum(), dtype=np.float64)


def means(counts: Counts, kept_counts: Sequence[int] | None = None) -> Floats:
    """Return the mean of the kept samples, of every data set; by default all are kept."""
    return np.asarray(data_sets(sum(counts)) @ weights(kept_counts or counts, counts))


def variances(counts: Counts, kept_counts: Sequence[int] | None = None) -> Floats:
    """Return the variance of the kept samples, of every data set; by default all are kept."""
    mass = weights(kept_counts or counts, counts)
    return np.asarray(data_sets(sum(counts)) ** 2 @ mass - means(counts, kept_counts) ** 2)


def neighbours(statistic: Floats, counts: Counts, user: int) -> Floats:
    """Return a statistic of every data set, data sets that differ in one user's values a row."""
    owner = np.repeat(np.arange(len(counts)), counts)
    user_columns, other_columns = np.flatnonzero(owner == user), np.flatnonzero(owner != user)
    # An axis per sample; with the user's axes last, each row is a set of neighbours.
    cube = statistic.reshape((QUARTERS.size,) * owner.size).transpose(*other_columns, *user_columns)
    return cube.reshape(-1, QUARTERS.size**user_columns.size)


def largest_move(statistic: Floats, counts: Counts) -> float:
    """Return the most that one user's values move a statistic: its sensitivity by search."""
    return max(
        float(np.ptp(neighbours(statistic, counts, user), axis=1).max())
        for user in range(len(counts))
    )


def loss(counts: Counts, mean_scale: float, variance_scale: float) -> float:
    """Return the privacy loss of mean and variance with Laplace noise, by search.

    The largest |difference of means|/b + |difference of variances|/b' over neighbours: of two
    signed sums, the wider range.
    """
    mean, variance = means(counts) / mean_scale, variances(counts) / variance_scale
    return max(largest_move(mean + sign * variance, counts) for sign in (1, -1))
