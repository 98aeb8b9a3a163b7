"""The possible sums nearest to given ones, against trying every choice of values."""

import itertools

import pyarrow as pa
import pytest

from hexveil import from_sums


def nearest(rows, lower, upper, quantum=1):
    """Return the (total, squares) of given (n, sum, sum of squares), in quanta above `lower`."""
    n, *sums = zip(*rows, strict=True)
    cells = [f"{i:05d}" for i in range(len(n))]
    columns = {"cell": cells, "user": ["u"] * len(n), "n": n, "sum": sums[0], "sum_sq": sums[1]}
    found = from_sums(pa.table(columns), bounds=(lower, upper), quantum=quantum, min_users=1).sums
    return list(zip(found.total.tolist(), found.total_sq.tolist(), strict=True))


def squares_by_total(n, steps):
    """Return the least and the largest sum of squares of n whole values, by their sum."""
    every = {}
    for values in itertools.product(range(steps + 1), repeat=n):
        every.setdefault(sum(values), []).append(sum(v * v for v in values))
    return {total: (min(squares), max(squares)) for total, squares in every.items()}


@pytest.mark.parametrize(("n", "steps"), [(1, 1), (1, 4), (2, 3), (3, 3), (4, 2)])
def test_the_range_of_squares_is_that_of_all_whole_values(n, steps):
    """Least and largest sums of squares are those found by trying every choice of values."""
    ends = squares_by_total(n, steps)
    asked = list(itertools.product(ends, range(-1, n * steps**2 + 2)))
    expected = [(t, max(ends[t][0], min(square, ends[t][1]))) for t, square in asked]
    assert nearest([(n, float(t), float(square)) for t, square in asked], 0, steps) == expected


@pytest.mark.parametrize("lower", [0, -2, 5])
def test_nearest_sums_are_nearest(lower):
    """Given sums are moved to the nearest total, then to the nearest sum of squares it allows."""
    n, steps, ends = 3, 4, squares_by_total(3, 4)
    sums = [n * lower - 3 + k / 4 for k in range(52)]
    asked = list(itertools.product(sums, [-4 + 3.25 * k for k in range(63)]))
    found = nearest([(n, *row) for row in asked], lower, lower + steps / 2, "0.5")
    for (given_sum, given_sq), (total, squares) in zip(asked, found, strict=True):
        apart = [abs(given_sum - n * lower - k / 2) for k in range(n * steps + 1)]
        assert apart[total] == min(apart)
        least, largest = ends[total]
        about = given_sq * 4 - n * (2 * lower) ** 2 - 2 * (2 * lower) * total
        near = [abs(k - about) for k in range(least, largest + 1)]
        assert near[squares - least] == min(near)


def test_halves_are_rounded_away_from_zero_and_nothing_nearly_half_is():
    """Exact halves go up in size; the double just below a half goes down."""
    given = [0.5, -0.5, 1.5, -1.5, 0.49999999999999994, -0.49999999999999994]
    found = nearest([(1, value, 0.0) for value in given], -4, 4)
    assert [total - 4 for total, _ in found] == [1, -1, 2, -2, 0, 0]
