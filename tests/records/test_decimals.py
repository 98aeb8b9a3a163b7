"""Sums of squares as decimals: how long they are, and that none of their digits is lost."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from hexveil.model.public_metadata import ValueLattice
from hexveil.records.feasible_sums import DecimalFormat, decimal_format, exact_squares


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
