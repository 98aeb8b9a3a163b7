import math
import sys
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexveil import InputError
from hexveil.base import rational

LARGEST = sys.float_info.max
ORDINARY = st.floats(1e-290, 1e290) | st.floats(-1e290, -1e-290) | st.just(0.0)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (0.1, Fraction(1, 10)), ("0.1", Fraction(1, 10)), (Decimal("0.1"), Fraction(1, 10)),
        (Fraction(1, 10), Fraction(1, 10)), ("1/10", Fraction(1, 10)), (3, Fraction(3)),
        (np.int64(3), Fraction(3)), (np.float64(0.1), Fraction(1, 10)), (1e-7, Fraction(1, 10**7)),
        (-2.5, Fraction(-5, 2)),
    ],
)  # fmt: skip
def test_each_way_of_writing_means_the_same(written, meant):
    """Text, decimals, fractions and floats of one number are one exact number."""
    assert rational.to_fraction(written, "epsilon") == meant


@given(ORDINARY)
def test_a_float_means_its_shortest_text(value):
    """A float is read as the shortest decimal text that is that float."""
    assert rational.to_fraction(value, "x") == Fraction(repr(value))
    assert float(rational.to_fraction(value, "x")) == value


NOT_NUMBERS = [math.nan, math.inf, -math.inf, "nan", "inf", "", "one", "1/0", None, [1], True]
OUT_OF_SIZE = ["1e-400", "1e400", "1e999999999", Decimal("1e-999999"), 10**300 + 1, 1e-301]


@pytest.mark.parametrize("value", [*NOT_NUMBERS, *OUT_OF_SIZE, Decimal("sNaN"), np.True_], ids=repr)
def test_what_is_no_finite_number_is_refused(value):
    """Anything but a finite number of ordinary size is one sentence with the name of the field."""
    with pytest.raises(InputError, match=r"^quantum must be a finite number"):
        rational.to_fraction(value, "quantum")


@pytest.mark.parametrize("value", [0, -1, "-0.5", 0.0])
def test_positive_refuses_zero_and_below(value):
    """A number that must be above zero says so and quotes what came."""
    with pytest.raises(InputError, match=f"^epsilon must be positive and finite, got {value}"):
        rational.to_positive_fraction(value, "epsilon")


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ((65, 0), r"smaller to the larger value, got \(65, 0\)"),
        ((1, 1), "smaller to the larger value"),
        ((0, math.inf), "upper bounds must be a finite number"),
        ((math.nan, 1), "lower bounds must be a finite number"),
        (5, "must be a pair like"),
        ((1, 2, 3), "must be a pair like"),
        (None, "must be a pair like"),
    ],
)
def test_bad_bounds_are_refused(bounds, message):
    """Reversed, infinite or missing bounds are one clear sentence."""
    with pytest.raises(InputError, match=message):
        rational.to_bounds(bounds)


@given(st.fractions())
def test_rounding_has_the_direction_of_its_name(value):
    """Up is the nearest double not below, down the nearest not above; no double lies between."""
    up, down = rational.round_up(value), rational.round_down(value)
    assert Fraction(down) <= value <= Fraction(up)
    assert up == down or up == math.nextafter(down, math.inf)


def test_rounding_at_the_ends_of_the_doubles():
    """Beyond the largest double up is infinite; below the smallest it is the smallest, never 0."""
    huge, tiny = Fraction(10) ** 400, Fraction(1, 10**400)
    assert (rational.round_up(huge), rational.round_down(huge)) == (math.inf, LARGEST)
    assert (rational.round_up(-huge), rational.round_down(-huge)) == (-LARGEST, -math.inf)
    assert (rational.round_up(tiny), rational.round_down(tiny)) == (5e-324, 0.0)
    assert (rational.round_up(-tiny), rational.round_down(-tiny)) == (0.0, -5e-324)


@given(st.fractions())
def test_any_fraction_reads_back(value):
    """A number without short decimal text is written as a ratio and reads back too."""
    assert Fraction(rational.decimal_text(value)) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("0", "0"), ("65", "65"), ("-0.05", "-0.05"), ("1000", "1000"), ("1/3", "1/3"),
        ("2.50", "2.5"), ("-7/3", "-7/3"), ("1e-30", "0." + "0" * 29 + "1"),
        ("1e-31", "1/1" + "0" * 31),
    ],
)  # fmt: skip
def test_decimal_text_of_known_numbers(value, text):
    """Known numbers are written as a person would."""
    assert rational.decimal_text(Fraction(value)) == text


TERMS = st.lists(st.tuples(st.integers(0, 4), st.fractions(0, 10**6)), max_size=60)


@given(TERMS)
def test_sums_are_rounded_up(pairs):
    """A sum of rounded terms is never below the exact sum, and within 1e-12 of it."""
    group = [g for g, _ in pairs]
    total = rational.sum_upper_bounds(group, [float(t) for _, t in pairs], 5)
    assert total.shape == (5,)
    for g in range(5):
        exact_sum = sum((t for h, t in pairs if h == g), Fraction(0))
        assert (
            exact_sum
            <= Fraction(total[g])
            <= exact_sum * (1 + Fraction(1, 10**12)) + Fraction(1, 10**300)
        )


def test_sums_of_many_terms_that_round_down():
    """A million terms that each lose almost half an ulp still add up to an upper bound."""
    term = Fraction(1) + Fraction(1, 2**53) - Fraction(1, 2**80)  # rounds down to 1
    assert float(term) == 1.0
    total = rational.sum_upper_bounds(np.zeros(10**6, dtype=int), np.ones(10**6), 1)[0]
    assert term * 10**6 <= Fraction(total) <= term * 10**6 * (1 + Fraction(1, 10**9))
