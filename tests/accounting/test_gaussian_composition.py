"""Squares of μ: against exact laws summed outcome by outcome, and an independent accountant."""

import math
from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from accounting.test_gaussian_loss import law
from examples import examples
from hexveil import InputError
from hexveil.accounting.gaussian_composition import (
    LATTICE,
    GaussianLoss,
    calibrated_square,
    cut_digits,
    delta_down,
    gaussian_delta,
    pure_of_square,
    square_epsilon,
    square_of_pure,
    to_delta,
)
from hexveil.accounting.promise import PARTS
from hexveil.model.declared_grid import MAX_GRID_CELLS

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
    total = GaussianLoss(math.sqrt(noise + square_of_pure(0.4)), shift)
    without = GaussianLoss(math.sqrt(noise), shift)
    grid = np.linspace(0.0, 2.0, 9)
    exact = [composed_delta(0.4, moved, deviations, epsilon) for epsilon in grid]
    assert all(total.delta(e) >= x - 1e-14 for e, x in zip(grid, exact, strict=True))
    assert any(without.delta(e) < x for e, x in zip(grid, exact, strict=True))


def test_the_lattice_term_covers_every_grid():
    """Over the largest grid, and a unit of 2^20 parts: √G / P of μ²."""
    assert Fraction(math.isqrt(MAX_GRID_CELLS), PARTS) <= LATTICE


@given(st.fractions(min_value=Fraction(1, 10**6), max_value=50))
def test_the_pure_loss_of_a_square_is_within_it(square):
    """The inverse is rounded down, and loses little."""
    epsilon = pure_of_square(square)
    assert square_of_pure(float(epsilon)) <= square
    assert square_of_pure(float(epsilon) * (1 + 1e-7)) > square


def test_small_numbers_and_refusals():
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
