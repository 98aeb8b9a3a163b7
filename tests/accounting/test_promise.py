"""Promises of ε and of squares of μ: parts, noise and choices cost what they say."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from hexveil.accounting.gaussian_composition import calibrated_square, range_square
from hexveil.accounting.promise import (
    PARTS,
    Pure,
    Squares,
    check_units,
    choices_worth,
    of_amount,
    promised,
    summed,
)
from hexveil.base.errors import InputError
from hexveil.mechanisms.presence import AnyUnit
from hexveil.mechanisms.sensitivity_report import Separate, noise_of_law

DELTA = Fraction(1, 10**6)
DELTAS = (Fraction(0), DELTA)
SHARES = st.fractions(Fraction(1, 1000), Fraction(1))


def assert_costs(amount, noise, report):
    """Noise on two numbers costs a unit the amount or a hair less, as the meter adds it up."""
    request = noise_of_law(noise, np.full(2, noise.scale))
    charge = report.squares_lower_bound if noise.power == 2 else report.loss_lower_bound
    cost = Fraction(float(charge(request, 1)[0]))
    assert (1 - Fraction(1, 2**20)) * amount <= cost <= amount


@examples(40)
@given(st.sampled_from(DELTAS), st.integers(1, 40), SHARES)
def test_noise_costs_the_share_that_bought_it(delta, weights, share):
    """Any unit's weights, limited together: in L1, or in L2."""
    whole = promised(Fraction(3), delta)
    noise = whole.part(share).noise(weights)
    assert_costs(whole.amount * share, noise, AnyUnit.of(noise, weights))


@pytest.mark.parametrize("delta", DELTAS)
def test_a_move_from_one_number_to_another_costs_two_weights(delta):
    """Full weights at both of two numbers: the noise of two weights costs the amount."""
    promise = promised(Fraction(1), delta)
    moves = Separate(np.zeros(2, int), np.arange(2), np.full(2, PARTS))
    assert_costs(promise.amount, promise.noise(2), moves)


@examples(40)
@given(st.sampled_from(DELTAS), st.lists(st.integers(1, 60), min_size=2, max_size=5))
def test_parts_make_up_the_whole(delta, sizes):
    """Parts add up exactly; ε to plan with stays within each part, and is nearly all of it."""
    whole = promised(Fraction(2), delta)
    shares = [Fraction(size, sum(sizes)) for size in sizes]
    parts = [whole.part(share) for share in shares]
    assert sum(part.amount for part in parts) == whole.amount
    again = parts[0]
    for part in parts[1:]:
        again = of_amount(again.amount + part.amount, delta)
    assert again == whole
    for part in parts:
        own = promised(part.planned, delta).amount
        assert 0.99999 * part.amount <= own <= part.amount
    epsilons = whole.epsilons(shares)
    together = summed(epsilons, delta).amount
    assert 0.99999 * whole.amount <= together <= whole.amount
    assert delta or together == whole.amount == sum(epsilons)


@pytest.mark.parametrize("delta", DELTAS)
def test_division_has_the_least_weighted_error(delta):
    """No other division of a fine grid has a smaller Σ w e / x^(1/p)."""
    whole = promised(Fraction(1), delta)
    weights, errors = [Fraction(1), Fraction(3)], [0.2, 0.7]

    def cost(share):
        parts = np.array([share, 1 - share], dtype=float)
        sizes = np.array(weights, dtype=float) * errors
        return float((sizes / parts ** (1 / whole.law.power)).sum())

    found = whole.divide(weights, errors)
    assert sum(found) == 1
    assert cost(found[0]) <= 1.002 * min(map(cost, np.linspace(0.01, 0.99, 999)))


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("number", [1, 2, 3])
def test_choices_cost_what_they_may(delta, number):
    """Purely private choices within a part cost no more than it, and nearly all of it."""
    part = promised(Fraction(2), delta).part(Fraction(1, 5))
    epsilon = part.choices(number) if delta else part.epsilon
    worth = choices_worth(epsilon, delta, number).amount
    assert 0.99999 * part.amount <= worth <= part.amount * (1 + Fraction(1, 10**12))
    share = part.share_worth(epsilon, number)
    assert 0.99999 <= share <= 1
    assert not delta or worth == Fraction(range_square(epsilon, number))


@pytest.mark.parametrize(("delta", "power"), [(DELTAS[0], 1), (DELTAS[1], 2)])
def test_noise_of_a_share_of_the_cells(delta, power):
    """Two looks at f and 1 - f, of noise divided by their parts, cost as one of all."""
    promise = promised(Fraction(1), delta)
    for share in (Fraction(3, 10), Fraction(1, 7), Fraction(1)):
        assert 0 <= share - promise.noise_share(share) ** power < Fraction(1, 2**38)


def test_epsilon_of_squares_is_rounded_up_and_of_pure_losses_kept():
    """Stated ε of an amount, of a booked number and of many units agree."""
    square = calibrated_square(Fraction(1), DELTA)
    promise = Squares(square, DELTA)
    assert 0.9999 < promise.epsilon <= 1
    booked = np.array([0.0, float(square)])
    assert promise.losses(booked)[1] == float(of_amount(Fraction(booked[1]), DELTA).epsilon)
    assert Pure(Fraction(1, 3)).epsilon == Fraction(1, 3)
    assert Pure(Fraction(1)).losses(booked) is booked


def test_amounts_that_buy_no_noise_are_refused():
    """Noise beyond 64 bits, parts of nothing and a δ for one of the units are errors."""
    for promise in (Pure(Fraction(1, 2**40)), Squares(Fraction(1, 2**90), DELTA)):
        with pytest.raises(InputError, match="64-bit"):
            promise.noise()
    with pytest.raises(InputError, match="too small to be divided"):
        _ = Pure(Fraction(1, 2**41)).planned
    with pytest.raises(InputError, match="outright"):
        check_units(Fraction(1, 10), 10)
    check_units(Fraction(0), 10)
