"""Sums of losses in whole parts: above the exact sum, by next to nothing, in any order."""

from fractions import Fraction

import numpy as np
import pytest

from hexveil.accounting.moves import LossParts
from hexveil.base.errors import HexveilError
from hexveil.model.occupancy import Partition


def sum_users(user, parts):
    """Return the sums of 7 users as blocks make them."""
    return Partition("users", 0, 0 * user, user, 0 * user, 1, 7).sum_users(parts)


@pytest.mark.parametrize("epsilon", [Fraction(1, 10**6), Fraction(1, 3), Fraction(10**6)])
def test_sums_of_parts_are_bounds_in_any_order(epsilon):
    """Rounded up and rounded down they enclose the exact sum; the order changes no bit."""
    rng = np.random.default_rng(7)
    user = rng.integers(0, 5, 400)
    user[:2] = 6
    terms = rng.random(400) * float(epsilon) * (user < 6)
    parts = LossParts.of_cells(epsilon, int(np.bincount(user).max()))
    up, order = sum_users(user, parts.rounded_up(terms)), rng.permutation(400)
    np.testing.assert_array_equal(sum_users(user[order], parts.rounded_up(terms[order])), up)
    down = sum_users(user, parts.rounded_down(terms))
    for number, (low, high) in enumerate(
        zip(parts.lower_bounds(down), parts.upper_bounds(up), strict=True)
    ):
        exact = sum((Fraction(float(term)) for term in terms[user == number]), Fraction(0))
        assert Fraction(float(low)) <= exact <= Fraction(float(high)) <= exact * (1 + 2**-40)
    assert parts.upper_bounds(up)[5:].tolist() == [0, 0]


@pytest.mark.parametrize("wrong", [np.nan, np.inf, 1.01, -0.1])
def test_losses_beyond_those_of_a_cell_are_refused(wrong):
    """None is cut off silently, in whatever direction it is rounded."""
    parts = LossParts.of_cells(Fraction(1, 2), 3)
    for rounded in (parts.rounded_up, parts.rounded_down):
        with pytest.raises(HexveilError, match="more than the loss of its cell"):
            rounded(np.array([0.2, wrong]))
