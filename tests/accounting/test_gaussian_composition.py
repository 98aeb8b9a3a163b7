"""(ε, δ) of discrete Gaussian noise, and squares of μ, against laws summed term by term."""

import itertools
import math
from fractions import Fraction
from functools import partial

import numpy as np
import opendp.prelude as dp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from examples import examples
from hexveil import InputError
from hexveil.accounting.gaussian_composition import (
    LATTICE,
    calibrated_square,
    check_delta,
    cut_digits,
    delta_down,
    gaussian_delta,
    pure_of_square,
    smallest_epsilon,
    square_epsilon,
    square_of_pure,
    to_delta,
)
from hexveil.accounting.promise import PARTS
from hexveil.model.declared_grid import MAX_GRID_CELLS

EPSILONS = (0.0, 0.1, 0.5, 1.0, 3.0)


def law(deviation):
    """Return integers out to 40 deviations, with their discrete Gaussian probabilities."""
    reach = math.ceil(40 * deviation) + 5
    k = np.arange(-reach, reach + 1)
    weight = np.exp(-(k**2) / (2.0 * deviation**2))
    return k, weight / math.fsum(weight)


def loss_of(moved, deviations):
    """Return δ by ε of a unit that moves each entry by at most so many integers."""
    shares = [(d, Fraction(r)) for d, r in zip(moved, deviations, strict=True)]
    mu = math.sqrt(math.nextafter(float(sum((d / r) ** 2 for d, r in shares)), math.inf))
    shift = math.nextafter(float(sum(d / r**2 for d, r in shares)), math.inf)
    return partial(gaussian_delta, math.nextafter(mu, math.inf), shift=shift)


def exact_delta(moved, deviations, epsilon):
    """Return E (P - e^ε Q)+ over all outcomes of independent entries: no formula of a loss."""
    laws = [law(deviation) for deviation in deviations]
    before = after = np.ones(1)
    for (_, mass), by in zip(laws, moved, strict=True):
        # The same probabilities, moved: outcomes that only one law has are of no weight.
        shifted = np.concatenate([np.zeros(by), mass])[: mass.size]
        before = np.multiply.outer(before, mass).ravel()
        after = np.multiply.outer(after, shifted).ravel()
    return math.fsum(np.maximum(before - math.exp(epsilon) * after, 0.0))


@pytest.mark.parametrize("deviation", [1.0, 1.7, 6.0, 40.0, 900.0])
@pytest.mark.parametrize("by", [1, 3, 20])
def test_the_bound_is_above_the_law_and_close(deviation, by):
    """Of one entry: never below the exact profile, within 2 percent of it for a fine lattice."""
    loss = loss_of([by], [deviation])
    for epsilon in EPSILONS:
        exact = exact_delta([by], [deviation], epsilon)
        # The reference sums doubles: it is good to some 1e-15.
        assert loss(epsilon) >= exact - 1e-14
        if deviation == 900.0 and exact > 1e-6:
            assert loss(epsilon) <= 1.02 * exact


@pytest.mark.slow
@pytest.mark.parametrize(
    ("moved", "deviations"), [((2, 3), (4.0, 9.0)), ((1, 1), (1.0, 1.3)), ((5, 0), (8.0, 2.0))]
)
def test_the_bound_holds_for_two_entries(moved, deviations):
    """Jointly over entries with noise of their own, and for every smaller move."""
    loss = loss_of(moved, deviations)
    for epsilon in (0.0, 0.4, 1.5):
        for smaller in itertools.product(*({move // 2, move} for move in moved)):
            assert loss(epsilon) >= exact_delta(smaller, deviations, epsilon) - 1e-14


def test_without_the_lattice_term_the_bound_would_fail():
    """The profile of continuous noise is below the exact one somewhere: the term is needed."""
    below = [
        gaussian_delta(by / deviation, epsilon) < exact_delta([by], [deviation], epsilon) - 1e-12
        for by in (1, 2)
        for deviation in (1.0, 1.3, 2.0)
        for epsilon in np.linspace(0.0, 3.0, 25)
    ]
    assert any(below)


DELTA = Fraction(1, 10**6)


@pytest.mark.parametrize("epsilon", [1e-4, 0.05, 1.0, 1.5, 4.0, 15.0, 20.0])
def test_randomised_response_is_dominated(epsilon):
    """Gaussian noise of the square tells two data sets apart as well, at every ε; less would not.

    Randomised response of ε tells two data sets apart best of all purely ε-private mechanisms.
    """
    p = math.exp(epsilon) / (1 + math.exp(epsilon))
    square = square_of_pure(epsilon)
    at = epsilon * np.linspace(-1.2, 1.2, 49)
    exact = [max(p - math.exp(e) * (1 - p), 0.0) + max((1 - p) - math.exp(e) * p, 0.0) for e in at]
    bound = [gaussian_delta(math.sqrt(square), e) for e in at]
    assert all(b >= x * (1 - 1e-9) for b, x in zip(bound, exact, strict=True))
    if epsilon < 16:  # above it a simpler and larger bound is taken
        less = [gaussian_delta(math.sqrt(0.999 * square), e) for e in at]
        assert any(b < x * (1 - 1e-9) for b, x in zip(less, exact, strict=True))


@examples(60)
@given(st.floats(min_value=0.01, max_value=8.0), st.integers(min_value=3, max_value=12))
def test_calibrated_squares_keep_their_promise(epsilon, places):
    """A calibrated square is (ε, δ)-private, and no twentieth more is; all by a second formula."""
    asked, delta = Fraction(str(round(epsilon, 4))), Fraction(1, 10**places)
    square = calibrated_square(asked, delta)
    assert square_epsilon(square, delta) <= asked
    assert (square * 10**12).denominator == 1
    mu, far = math.sqrt(square), float(asked - square * LATTICE)

    def profile(m):
        # In place of the library's formula: P(loss > ε) - e^ε Q(loss > ε), by scipy's normal law.
        return stats.norm.sf(far / m - m / 2) - math.exp(far) * stats.norm.sf(far / m + m / 2)

    assert profile(mu) <= float(delta) * (1 + 1e-6)
    assert profile(mu * 1.025) > float(delta)


@pytest.mark.parametrize("delta", [DELTA, Fraction(1, 10**9)])
def test_an_independent_accountant_agrees(delta):
    """The zCDP accountant of OpenDP is above the exact ε, by less than a tenth."""
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float)
    for epsilon in (Fraction(1, 2), Fraction(2)):
        square = calibrated_square(epsilon, delta)
        noise = dp.m.make_gaussian(*space, scale=1 / math.sqrt(square))
        stated = dp.c.make_zCDP_to_approxDP(noise).map(1.0).epsilon(float(delta))
        assert float(epsilon) <= stated <= 1.1 * float(epsilon)


def composed_delta(first, moved, deviations, epsilon):
    """Return the exact δ of randomised response, then noise of a parameter that it chooses."""
    yes = math.exp(first) / (1 + math.exp(first))
    total = 0.0
    for deviation, p, q in zip(deviations, (yes, 1 - yes), (1 - yes, yes), strict=True):
        _, mass = law(deviation)
        shifted = np.concatenate([np.zeros(moved), mass])[: mass.size]
        total += math.fsum(np.maximum(p * mass - math.exp(epsilon) * q * shifted, 0.0))
    return total


@pytest.mark.parametrize(("moved", "deviations"), [(1, (2.0, 2.0)), (5, (9.0, 8.5))])
def test_the_composition_is_above_the_exact_law(moved, deviations):
    """Of a choice, then a stage that the choice decides; forgetting the choice would be below."""
    shift = max(moved / r**2 for r in deviations)
    noise = max((moved / r) ** 2 for r in deviations)
    total = partial(gaussian_delta, math.sqrt(noise + square_of_pure(0.4)), shift=shift)
    without = partial(gaussian_delta, math.sqrt(noise), shift=shift)
    grid = np.linspace(0.0, 2.0, 9)
    exact = [composed_delta(0.4, moved, deviations, epsilon) for epsilon in grid]
    assert all(total(e) >= x - 1e-14 for e, x in zip(grid, exact, strict=True))
    assert any(without(e) < x for e, x in zip(grid, exact, strict=True))


def test_the_lattice_term_covers_every_grid():
    """Over the largest grid, and a unit of 2^20 parts: √G / P of μ²."""
    assert Fraction(math.isqrt(MAX_GRID_CELLS), PARTS) <= LATTICE


@given(st.fractions(min_value=Fraction(1, 10**6), max_value=50))
def test_the_pure_loss_of_a_square_is_within_it(square):
    """The inverse is rounded down, and loses little."""
    epsilon = pure_of_square(square)
    assert square_of_pure(float(epsilon)) <= square
    assert square_of_pure(float(epsilon) * (1 + 1e-7)) > square


def test_what_cannot_be_promised_is_refused():
    """Nothing is lost without a loss; δ is a probability; too little of both is refused."""
    assert (square_epsilon(Fraction(0), DELTA), square_of_pure(0.0)) == (0.0, 0.0)
    assert cut_digits(0.0) == 0
    assert Fraction(delta_down(Fraction(1, 10))) <= Fraction(1, 10)
    assert to_delta(None) == 0
    assert to_delta("1e-6") == DELTA
    with pytest.raises(InputError, match="below 1"):
        to_delta(1)
    with pytest.raises(InputError, match="nothing to measure"):
        calibrated_square(Fraction(1, 10**6), Fraction(1, 10**9))
    with pytest.raises(InputError, match="not below 1 / 100 units"):
        check_delta(0.01, 100)
    check_delta(0.009, 100)
    # Equal laws have no loss; what nothing keeps within δ has an infinite one.
    assert smallest_epsilon(partial(gaussian_delta, 0.0), 1e-9) == 0.0
    assert gaussian_delta(math.inf, 1.0) == 1.0
    assert smallest_epsilon(lambda _: 1.0, 1e-9) == math.inf
