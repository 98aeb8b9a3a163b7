"""Every count vector of a total up to seven, with all values on a 5-point grid."""

from functools import cache
from itertools import product

import numpy as np

SPAN = 2.0
GRID = np.linspace(0.0, SPAN, 5)


def partitions(total, most=None):
    if not total:
        yield ()
    for first in range(min(total, most or total), 0, -1):
        for rest in partitions(total - first, first):
            yield (first, *rest)


VECTORS = [counts for total in range(1, 8) for counts in partitions(total)]
SMALL = [counts for counts in VECTORS if sum(counts) <= 6]


def name(counts):
    return "-".join(map(str, counts))


@cache
def values(total):
    """Every data set of that many samples, one a row."""
    return np.array(list(product(GRID, repeat=total)))


def keeps(counts):
    return product(*(range(m + 1) for m in counts))


def mask(kept, counts):
    """Return 1 for each kept sample, the first Γ of each user."""
    return np.concatenate([np.arange(m) < g for g, m in zip(kept, counts, strict=True)])


def owners(counts):
    return np.repeat(np.arange(len(counts)), counts)


def variance(x, mass):
    """Variance of each row under weights that sum to one."""
    return (x**2) @ mass - (x @ mass) ** 2


def moved(statistic, counts, user):
    """Largest change of a statistic of every data set when one user's values change."""
    others = np.flatnonzero(owners(counts) != user)
    own = np.flatnonzero(owners(counts) == user)
    cube = statistic.reshape((5,) * sum(counts)).transpose(*others, *own)
    return float(np.ptp(cube.reshape(-1, 5 ** len(own)), axis=1).max())
