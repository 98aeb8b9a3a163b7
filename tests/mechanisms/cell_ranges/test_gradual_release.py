"""Gradual release: the law of the first number, and what both numbers cost together."""

import itertools
import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from hexveil.base.errors import InputError
from hexveil.mechanisms.looks import cell_looks

WIDE = 400
"""Integers on either side of 0 that hold all but exp(-100) of each law below."""
INTEGERS = np.arange(-WIDE, WIDE + 1)
CASES = [(2.0, 4.0), (1.0, 3.3), (0.5, 0.6), (3.7, 3.7), (0.3, 2.0)]


def laplace_law(scale):
    """Return the probabilities of discrete Laplace noise on INTEGERS."""
    p = math.exp(-1.0 / scale)
    return (1.0 - p) / (1.0 + p) * np.exp(-np.abs(INTEGERS) / scale)


def exact_zero_probability(scale, first_scale):
    """Return q*, by its definition in p and p1."""
    p, p1 = math.exp(-1.0 / scale), math.exp(-1.0 / first_scale)
    return p / p1 * ((1.0 - p1) / (1.0 - p)) ** 2


def increment_law(first_scale, q):
    """Return the probabilities of η on INTEGERS."""
    law = (1.0 - q) * laplace_law(first_scale)
    law[WIDE] += q
    return law


def first_law(scale, first_scale, q):
    """Return the probabilities of y1 - C on INTEGERS, summed over all y."""
    return np.convolve(laplace_law(scale), increment_law(first_scale, q), mode="same")


def largest_loss(law, moved):
    """Return the largest log-ratio between a law and the same moved, where neither is cut off."""
    near = law[WIDE - 60 : WIDE + 61]
    return max(np.abs(np.log(near[d:]) - np.log(near[: near.size - d])).max() / d for d in moved)


def probability(noise):
    """Return the probability of η = 0 under the scale that goes to the noise source."""
    return math.tanh(1.0 / (2.0 * noise.indicator_scale()))


@pytest.mark.parametrize(("scale", "first"), CASES)
def test_at_the_exact_probability_the_first_number_is_discrete_laplace(scale, first):
    """The sum of both noises has the law of noise of the first scale, at every integer."""
    law = first_law(scale, first, exact_zero_probability(scale, first))
    near = slice(WIDE - 60, WIDE + 61)
    assert law[near] == pytest.approx(laplace_law(first)[near], rel=1e-9, abs=1e-18)


@pytest.mark.parametrize("part", [1.0, 0.9, 0.5, 0.0, None])
@pytest.mark.parametrize(("scale", "first"), CASES)
def test_the_first_number_costs_no_more_than_its_scale(scale, first, part):
    """Nor does it at any smaller probability, among them that of the noise source itself."""
    noise = cell_looks.GradualLaplace(np.array([scale]), np.array([first]))
    q = probability(noise) if part is None else part * exact_zero_probability(scale, first)
    loss = largest_loss(first_law(scale, first, q), (1, 2, 5))
    assert 0.9 / first <= loss <= (1.0 + 1e-6) / first


@pytest.mark.parametrize(("scale", "first"), CASES)
def test_both_numbers_together_cost_no_more_than_the_finer_one(scale, first):
    """Of every pair of numbers the log-ratio is that of the finer one alone."""
    noise = cell_looks.GradualLaplace(np.array([scale]), np.array([first]))
    increment = increment_law(first, probability(noise))
    finer = laplace_law(scale)
    near = range(WIDE - 6, WIDE + 7)
    laws = [
        (finer[y] * increment[WIDE + y1 - y], finer[y - 3] * increment[WIDE + y1 - y])
        for y, y1 in itertools.product(near, near)
    ]
    ratios = [math.log(law / neighbour) for law, neighbour in laws]
    assert max(map(abs, ratios)) == pytest.approx(3.0 / scale, rel=1e-9)


def to_decimal(number):
    """Return a fraction to 120 digits."""
    return Decimal(number.numerator) / Decimal(number.denominator)


def hyperbolic_sine(x):
    """Return sinh to 100 digits."""
    return (x.exp() - (-x).exp()) / 2


@examples(200)
@given(
    st.floats(0.125, 1e15),
    st.fractions(min_value=Fraction(1, 1000), max_value=1, max_denominator=1000),
)
def test_the_bound_is_below_the_exact_probability_and_close(scale, ratio):
    """The bound of q* holds for every pair of scales, and is tight for scales above ten."""
    with localcontext() as context:
        context.prec = 120
        half = 1 / (2 * to_decimal(Fraction(scale)))
        exact = (hyperbolic_sine(half * to_decimal(ratio)) / hyperbolic_sine(half)) ** 2
        bound = cell_looks.zero_probability_bound(Fraction(scale), ratio)
        assert to_decimal(bound) <= exact
        if scale > 10:
            assert to_decimal(bound) >= exact * Decimal("0.999")
        if bound:
            doubled = (1 / to_decimal(Fraction(cell_looks.indicator_scale(bound)))).exp()
            drawn = (doubled - 1) / (doubled + 1)
            assert to_decimal(bound) * Decimal("0.8") <= drawn <= to_decimal(bound)


def test_cells_share_the_smallest_probability():
    """Of several pairs of scales the safe probability of all is taken."""
    noise = cell_looks.GradualLaplace(np.array([50.0, 2.0, 9.0]), np.array([70.0, 4.0, 30.0]))
    exact = [exact_zero_probability(b, b1) for b, b1 in ((50, 70), (2, 4), (9, 30))]
    assert 0.9 * min(exact) <= probability(noise) <= min(exact)


@pytest.mark.parametrize(
    ("scale", "first"), [(0.1, 1.0), (2.0, 1.0), (math.nan, 1.0), (1.0, math.nan)]
)
def test_scales_without_a_proof_are_refused(scale, first):
    """Too small a scale, a first one below the second, or none at all."""
    with pytest.raises(InputError, match="noise of a first look"):
        cell_looks.GradualLaplace(np.array([3.0, scale]), np.array([3.0, first])).check()
