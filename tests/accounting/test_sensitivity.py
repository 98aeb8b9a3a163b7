import itertools
from fractions import Fraction

import pytest

from hexveil import InputError, theory

COUNTS = [
    counts
    for users in (1, 2, 3, 4)
    for counts in itertools.combinations_with_replacement(range(1, 7), users)
    if sum(counts) <= 7
]
GRID = (0, 1, 2, 3, 4)  # values in quarters of the span; both ends are in it


def reached(own, rest, statistic, grid=GRID):
    """Return the largest move of a statistic when `own` of own + rest values change."""
    largest = Fraction(0)
    for others in itertools.combinations_with_replacement(grid, rest):
        found = [
            statistic(others + mine) for mine in itertools.combinations_with_replacement(grid, own)
        ]
        largest = max(largest, max(found) - min(found))
    return largest


def mean(values):
    """Return the exact mean, in spans."""
    return Fraction(sum(values), 4 * len(values))


def variance(values):
    """Return the exact population variance, in squared spans."""
    return Fraction(sum(v * v for v in values), 16 * len(values)) - mean(values) ** 2


ONE_USER = sorted({(m, sum(counts)) for counts in COUNTS for m in counts})


@pytest.mark.parametrize(("own", "total"), ONE_USER)
def test_mean_sensitivity_is_reached_and_never_passed(own, total):
    """The formula of one user equals exhaustive search over all values on a grid."""
    counts = [own, *[1] * (total - own)]
    formula = theory.user_mean_sensitivity(counts, 8.0)[0]
    assert formula == pytest.approx(8.0 * float(reached(own, total - own, mean)), rel=1e-12)


@pytest.mark.parametrize(("own", "total"), ONE_USER)
def test_variance_sensitivity_is_reached_and_never_passed(own, total):
    """Proposition III.1 with the user's own count equals exhaustive search on a grid."""
    counts = [own, *[1] * (total - own)]
    formula = theory.user_variance_sensitivity(counts, 8.0)[0]
    assert formula == pytest.approx(64.0 * float(reached(own, total - own, variance)), rel=1e-12)


def test_large_share_is_not_understated():
    """Counts (3, 1): the branch for few samples, all that COMP eq. (12) uses, is 1.33 too small.

    ERRATA 4: 1/4 against the printed 3/16.
    """
    printed = 3 * (4 - 3) / 4**2
    assert theory.variance_sensitivity([3, 1], 1.0) == 0.25
    assert theory.variance_sensitivity([3, 1], 1.0) / printed == pytest.approx(4 / 3)


@pytest.mark.parametrize("counts", [[], [0], [2, -1], [1.5], [[1, 2]], ["3"], [True]])
def test_bad_counts_are_refused(counts):
    """Anything but whole counts of at least 1 is one clear sentence."""
    with pytest.raises(InputError, match="counts must be whole numbers of at least 1"):
        theory.user_mean_sensitivity(counts, 1.0)
