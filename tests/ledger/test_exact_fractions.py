"""Losses that are exact fractions add up exactly: three thirds fit a budget of 1."""

import math
from fractions import Fraction

import hypothesis.strategies as st
import pytest
from hypothesis import example, given

import hexveil as hv
from examples import examples
from ledger.books import Place, spend

PART = Fraction(1, 10**12)
FRACTIONS = st.fractions(min_value=Fraction(1, 50), max_value=1, max_denominator=90)


def reserve(book, number, loss, ids="a", rest=0):
    """Book the loss for one unit, and less for all others."""
    parts = {name: rest if k else loss for k, name in enumerate(ids) if rest or not k}
    return spend(book, f"request {number}", parts, limit=loss)


@pytest.mark.slow
@examples(200)
@given(st.lists(FRACTIONS, min_size=1, max_size=8), st.integers(-1, 1))
@example([Fraction(1, 3)] * 3, 0)
@example([Fraction(1, 6), Fraction(1, 3), Fraction(1, 2)], 0)
@example([Fraction(1, 7)] * 7, 0)
@example([Fraction(1, 3)], 0)
def test_fractions_fit_exactly_when_their_sum_does(losses, below):
    """The last one is booked if and only if the exact sum is within the budget."""
    budget = sum(losses) + below * Fraction(1, 10**15)
    book = Place("memory://").open(budget=budget)
    for number, loss in enumerate(losses[:-1]):
        reserve(book, number, loss)
    if below < 0:
        with pytest.raises(hv.BudgetError):
            reserve(book, "last", losses[-1])
    else:
        reserve(book, "last", losses[-1])
        assert book.spent <= max(budget, sum(losses)) + len(losses) * PART
    assert not book.verify().problems


def test_losses_that_are_no_fractions_still_round_up():
    """Of a unit below the exact bound the rounded loss counts, and no rest is given away."""
    book = Place("memory://").open(budget=1)
    for number in range(3):
        reserve(book, number, Fraction(1, 3), "ab", 1 / 3 - 1e-6)
    assert 0 <= book.spent - 1 < 3 * PART
    with pytest.raises(hv.BudgetError):
        reserve(book, 3, Fraction(1, 10**12), "ab")
    with pytest.raises(hv.BudgetError):
        reserve(book, 4, Fraction(1, 10**5), "b")
    reserve(book, 5, Fraction(1, 10**6), "b")
    assert not book.verify().problems


def test_one_unit_beyond_the_budget_is_enough():
    """A booking that fits one unit exactly is refused if another has less left."""
    book, third = Place("memory://").open(budget=1), Fraction(1, 3)
    for number in range(2):
        reserve(book, number, third)
    reserve(book, 2, 2 * third + 5 * PART, "b")
    with pytest.raises(hv.BudgetError):
        reserve(book, 3, third, "ab", math.nextafter(1 / 3, 1.0))
    reserve(book, 4, third)
