"""Numbers in plain words."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexveil.cli.output import formatting
from hexveil.ledger import Spend
from hexveil.model.cells import Cells, Labels


@pytest.mark.parametrize(
    ("loss", "said"),
    [
        (0, "1"),
        (1, "2.72"),
        (3, "20.1"),
        (5, "149"),
        (10, "22,027"),
        (30, "more than a million"),
        (1e6, "more than a million"),
    ],
)
def test_factor(loss, said):
    """A loss is said as a factor, e to its power."""
    assert formatting.factor(loss) == said


@given(st.floats(0, 50), st.floats(0, 50))
def test_more_loss_never_sounds_safer(first, second):
    """The printed factor never falls when the loss grows."""

    def size(loss):
        text = formatting.factor(loss)
        return math.inf if "million" in text else float(text.replace(",", ""))

    low, high = sorted((first, second))
    assert size(low) <= size(high)


@given(st.floats(0, 13))
def test_factors_never_sound_safer_than_they_are(loss):
    """The printed factor is the true one or, by up to a percent, above it."""
    said, true = float(formatting.factor(loss).replace(",", "")), math.exp(loss)
    assert true * (1 - 1e-8) <= said <= true * 1.01


@given(st.floats(1e-9, 1e6))
def test_prices_are_rounded_up(loss):
    """A printed price is never below what is booked."""
    said = float(formatting.price(loss).replace(",", ""))
    assert loss * (1 - 1e-5) <= said <= loss * 1.01


def test_measures_carry_their_unit():
    """A number has three figures and its unit, if it has one."""
    assert formatting.measured(1.23456, "km/h") == "1.23 km/h"
    assert formatting.measured(12345.6, "") == "12,346"
    assert formatting.number_text(1234567) == "1,234,567"


def test_grids_are_said_in_words():
    """A grid is said by its resolution and slot, or by its columns."""
    assert formatting.grid_words(Labels("route", "hour")) == "combinations of route, hour"
    pooled = Cells(5, "1h", "UTC", "pooled")
    assert formatting.grid_words(pooled).endswith("1h slots, pooled over all days")
    assert formatting.grid_words(Cells(5, None)) == "hexagons at resolution 5, all times pooled"


@given(st.text(st.characters(categories=["L"]), min_size=1, max_size=12), st.integers(1, 80))
def test_paragraphs_are_aligned_and_narrow(word, times):
    """Every line is at most 100 wide and starts under the first."""
    lines = formatting.wrapped("Label", " ".join([word] * times))
    assert all(len(line) <= 100 for line in lines)
    assert all(line.startswith(" " * 19) for line in lines[1:])
    assert " ".join(" ".join(lines).split()) == f"Label {' '.join([word] * times)}"


@given(st.floats(1e-9, 1e9))
def test_a_lower_bound_is_never_said_too_high(number):
    """It is rounded down, and loses at most a hundredth."""
    said = float(formatting.at_least(number).replace(",", ""))
    assert 0.98 * number <= said <= number * (1 + 1e-9)


@pytest.mark.parametrize(
    ("statistic", "value_unit", "said"),
    [
        ("mean", "km/h", "km/h"),
        ("mean", "", ""),
        ("variance", "km/h", "squared km/h"),
        ("variance", "", "squared units"),
    ],
)
def test_the_unit_of_a_statistic(statistic, value_unit, said):
    """A variance is in squared units."""
    assert formatting.unit_of(statistic, value_unit) == said


@pytest.mark.parametrize(
    ("kind", "window", "lifetime", "said"),
    [
        ("lifetime", 0, 0, "nothing of 2.125 is spent, now or in the lifetime."),
        (
            "lifetime", 1, 1,
            "spent 1 of 2.125, 1.12 left; lifetime total at most 1 (probability factor 2.72).",
        ),
        (
            "month", 0, 3,
            ("spent this month 0 of 2.125, 2.12 left; lifetime total at most 3 "
             "(probability factor 20.1)."),
        ),
        (
            "day", 3, 3,
            ("spent this day 3 of 2.125, 0 left; lifetime total at most 3 "
             "(probability factor 20.1)."),
        ),
    ],
)  # fmt: skip
def test_the_spend_is_two_numbers(kind, window, lifetime, said):
    """What is spent in the window never stands without the lifetime; what is left rounds down."""
    spend = Spend(Fraction("2.125"), kind, "", Fraction(window), Fraction(lifetime), 1, 0)
    assert formatting.spent(spend) == said
