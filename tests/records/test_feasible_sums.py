"""The possible sums nearest to given ones, against trying every choice of values."""

import itertools
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from hexveil.model.public_metadata import ValueLattice
from hexveil.records.feasible_sums import (
    DecimalFormat,
    decimal_format,
    exact_squares,
    project_squares,
    project_totals,
    squares_range,
)


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


@pytest.mark.parametrize("quantum", ["0.001", "0.02"])
@pytest.mark.parametrize("lower", [-9_000_000, 5_000_000])
def test_long_decimals_are_taken_to_their_last_place(lower, quantum):
    """Of many values far from zero the nearest sum is exact from a decimal, ends included."""
    scale = ValueLattice.of((lower, lower + 65), quantum)
    n, first, half = 70_000, int(scale.lower / scale.quantum), scale.span_quanta // 2
    total = n * half
    least, largest = (
        int(end[0]) for end in squares_range(np.array([n]), np.array([total]), scale.span_quanta)
    )
    wanted = [least, least + 1, (least + largest) // 2 + 7, largest - 1, largest]
    about_zero = [w + n * first**2 + 2 * first * total for w in [least - 5, *wanted, largest + 5]]
    places = 2 * decimal_format(scale).places
    with localcontext(prec=60):
        written = [w * Decimal(quantum) ** 2 for w in about_zero]
    column = pa.array([*written, None], pa.decimal128(38, places))
    given = np.array([*map(float, written), 0.0])
    rows = np.ones(given.size, dtype=np.int64)
    found = project_squares(given, rows * n, rows * total, scale, column)
    # A null decimal leaves the double, here 0: too small.
    assert found.tolist() == [least, *wanted, largest, least]
    rough = project_squares(given, rows * n, rows * total, scale)
    assert rough.tolist() != found.tolist()


def test_halves_are_rounded_away_from_zero_and_nothing_nearly_half_is():
    """Exact halves go up in size; the double just below a half goes down."""
    scale = ValueLattice(Fraction(-4), Fraction(4), Fraction(1))
    given = np.array([0.5, -0.5, 1.5, -1.5, 0.49999999999999994, -0.49999999999999994])
    found = project_totals(given, np.ones(6, dtype=np.int64), scale)
    assert (found - 4).tolist() == [1, -1, 2, -2, 0, 0]


# ---- Sums of squares as decimals: how long they are, and that none of their digits is lost ----


@pytest.mark.parametrize(
    ("bounds", "quantum", "form"),
    [
        ((0, 65), "0.001", DecimalFormat(5, 3, 3, 1)),
        ((-900, 65), "0.25", DecimalFormat(4, 2, 2, 25)),
        ((0, 700), 100, DecimalFormat(1, 3, 0, 100)),
        ((0, 3), "1.5", DecimalFormat(1, 2, 1, 15)),
        ((0, 1), "1/3", None),
        ((0, "0.000000000000000007"), "0.000000000000000001", None),
        ((10**12, 10**12 + 1), "0.001", None),
        ((0, 10**20), 10**17, None),
    ],
)
def test_decimals_are_as_long_as_needed_and_no_longer_than_engines_have(bounds, quantum, form):
    """Digits of the values and of the quantum are counted; what cannot fit has no decimals."""
    assert decimal_format(ValueLattice.of(bounds, quantum)) == form


sized = st.integers(-(10**38) + 1, 10**38 - 1)


@examples(100)
@given(
    st.lists(st.tuples(sized, st.integers(1, 2**40), st.integers(0, 2**60)), min_size=1),
    st.sampled_from([((0, 65), "0.001"), ((-5, "2.5"), "0.5"), ((-50, 300), 25)]),
    st.integers(0, 3),
)
def test_no_digit_is_lost(rows, scale, skipped):
    """The result is that of fractions, for decimals of any size and sign, sliced or not."""
    scale = ValueLattice.of(*scale)
    places = 2 * decimal_format(scale).places
    lower = scale.lower / scale.quantum
    written = [Decimal(f"{digits}e-{places}") for digits, *_ in rows]
    column = pa.array([Decimal(1)] * skipped + written, pa.decimal128(38, places)).slice(skipped)
    _, n, total = (np.array(c, dtype=object) for c in zip(*rows, strict=True))
    found = exact_squares(column, n.astype(np.int64), total.astype(np.int64), scale)
    for (digits, count, k), exact in zip(rows, found, strict=True):
        value = Fraction(digits, 10**places) / scale.quantum**2
        assert abs(exact + count * lower**2 + 2 * lower * k - value) <= Fraction(1, 2)
