"""Tails and bounds of sums of Laplace numbers, against partial fractions and direct sums."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexveil.publishing.derived.cell_numbers import (
    MISS,
    bounded_tail,
    pair_bound,
    pair_tail,
    sum_bound,
)

SCALES = st.floats(min_value=1e-3, max_value=1e3)


def tail_of_distinct(distance, scales):
    """Return P(|S| > distance) by partial fractions: Σ A_i exp(-x/b_i), for distinct scales."""
    total = 0.0
    for i, own in enumerate(scales):
        others = [scale for j, scale in enumerate(scales) if j != i]
        share = math.prod(own**2 / (own**2 - other**2) for other in others)
        total += share * math.exp(-distance / own)
    return total


@pytest.mark.parametrize(
    "scales", [(1.0,), (1.0, 0.3), (1.0, 2.0, 3.0), (1.0, 0.01, 0.02), (7.0, 5.0, 1.0, 0.1, 0.4)]
)
def test_a_bound_is_exceeded_one_time_in_twenty(scales):
    """The exact tail beyond the bound is 5 percent, never more and hardly less."""
    tail = tail_of_distinct(sum_bound(np.array(scales)), scales)
    assert MISS - 2e-5 <= tail <= MISS + 1e-12


def test_equal_scales_have_their_bound():
    """Four equal numbers: the tail of a difference of two gamma numbers, summed directly."""
    # P(|S| > x) of a sum of n Laplace numbers is a Poisson sum over both signs; n = 4 by a grid.
    step = 0.005
    grid = np.arange(-4000, 4001) * step
    density = np.exp(-np.abs(grid)) / 2.0
    both = np.convolve(density, density, mode="same") * step
    four = np.convolve(both, both, mode="same") * step
    beyond = four[np.abs(grid) > sum_bound(np.ones(4))].sum() * step
    assert beyond == pytest.approx(MISS, abs=2e-4)


def test_the_tail_of_two_numbers_has_its_closed_form():
    """Distinct, equal, nearly equal and missing scales."""
    x, one = np.array([0.0, 0.5, 3.0]), np.ones(3)
    far = pair_tail(x, one, 0.4 * one)
    assert far == pytest.approx([tail_of_distinct(d, (1.0, 0.4)) for d in x])
    equal = pair_tail(x, one, one)
    assert equal == pytest.approx((1 + x / 2) * np.exp(-x))
    assert pair_tail(x, one, one * (1 - 1e-7)) == pytest.approx(equal, rel=1e-6)
    assert pair_tail(x, one, one * (1 - 2e-5)) == pytest.approx(equal, rel=1e-4)
    assert pair_tail(x, one, 0 * one) == pytest.approx(np.exp(-x))
    assert pair_tail(x, 0 * one, 0 * one).tolist() == [1.0, 0.0, 0.0]


@given(SCALES, SCALES, st.floats(min_value=1.0, max_value=20.0))
def test_beyond_its_bound_the_tail_is_below_its_power(one, other, times):
    """The log-concave tail: P(|S| > k q) <= 0.05^k; nothing is claimed below the bound."""
    scale, second = np.array([one]), np.array([other])
    bound = pair_bound(scale, second)
    exact = pair_tail(times * bound, scale, second)
    assert exact <= bounded_tail(times * bound, bound) * (1 + 1e-6)
    assert bounded_tail(0.99 * bound, bound) == 1.0
