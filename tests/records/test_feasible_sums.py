"""The possible sums nearest to given ones, against trying every choice of values."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from hexveil.model.public_metadata import ValueLattice
from hexveil.records.feasible_sums import project_squares, project_totals, squares_range


@pytest.mark.parametrize(("n", "steps"), [(1, 1), (1, 4), (2, 3), (3, 3), (4, 2)])
def test_the_range_of_squares_is_that_of_all_whole_values(n, steps):
    """Least and largest sums of squares are those found by trying every choice of values."""
    every = {}
    for values in itertools.product(range(steps + 1), repeat=n):
        every.setdefault(sum(values), set()).add(sum(v * v for v in values))
    assert set(every) == set(range(n * steps + 1))
    for total, squares in every.items():
        ends = squares_range(np.array([n]), np.array([total]), steps)
        assert [int(end[0]) for end in ends] == [min(squares), max(squares)]


@pytest.mark.parametrize("lower", [0, -2, 5])
def test_nearest_sums_are_nearest(lower):
    """Given sums are moved to the nearest total, then to the nearest sum of squares it allows."""
    n, steps, quantum = 3, 4, Fraction(1, 2)
    scale = ValueLattice(Fraction(lower), lower + steps * quantum, quantum)
    count = np.array([n])
    for given_sum in np.arange(n * lower - 3, n * lower + 10, 0.25):
        total = int(project_totals(np.array([given_sum]), count, scale)[0])
        apart = [abs(given_sum - n * lower - k / 2) for k in range(n * steps + 1)]
        assert apart[total] == min(apart)
        least, largest = (int(e[0]) for e in squares_range(count, np.array([total]), steps))
        for given_sq in np.arange(-4.0, 200.0, 3.25):
            found = project_squares(np.array([given_sq]), count, np.array([total]), scale)
            about = given_sq * 4 - n * (2 * lower) ** 2 - 2 * (2 * lower) * total
            near = [abs(k - about) for k in range(least, largest + 1)]
            assert near[int(found[0]) - least] == min(near)


def test_halves_are_rounded_away_from_zero_and_nothing_nearly_half_is():
    """Exact halves go up in size; the double just below a half goes down."""
    scale = ValueLattice(Fraction(-4), Fraction(4), Fraction(1))
    given = np.array([0.5, -0.5, 1.5, -1.5, 0.49999999999999994, -0.49999999999999994])
    found = project_totals(given, np.ones(6, dtype=np.int64), scale)
    assert (found - 4).tolist() == [1, -1, 2, -2, 0, 0]
