"""Exact (ε, δ) of discrete Gaussian noise, against the law itself summed term by term."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from examples import examples
from hexveil import InputError
from hexveil.accounting.gaussian_composition import (
    GaussianLoss,
    calibrated_mu,
    check_delta,
    gaussian_delta,
    smallest_epsilon,
)

EPSILONS = (0.0, 0.1, 0.5, 1.0, 3.0)


def law(deviation):
    """Return integers out to 40 deviations, with their discrete Gaussian probabilities."""
    reach = math.ceil(40 * deviation) + 5
    k = np.arange(-reach, reach + 1)
    weight = np.exp(-(k**2) / (2.0 * deviation**2))
    return k, weight / math.fsum(weight)


def loss_of(moved, deviations):
    """Return the loss of a unit that moves each entry by at most so many integers."""
    shares = [(d, Fraction(r)) for d, r in zip(moved, deviations, strict=True)]
    mu = math.sqrt(math.nextafter(float(sum((d / r) ** 2 for d, r in shares)), math.inf))
    shift = math.nextafter(float(sum(d / r**2 for d, r in shares)), math.inf)
    return GaussianLoss(math.nextafter(mu, math.inf), shift)


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
        assert loss.delta(epsilon) >= exact - 1e-14
        if deviation == 900.0 and exact > 1e-6:
            assert loss.delta(epsilon) <= 1.02 * exact


@pytest.mark.slow
@pytest.mark.parametrize(
    ("moved", "deviations"), [((2, 3), (4.0, 9.0)), ((1, 1), (1.0, 1.3)), ((5, 0), (8.0, 2.0))]
)
def test_the_bound_holds_for_two_entries(moved, deviations):
    """Jointly over entries with noise of their own, and for every smaller move."""
    loss = loss_of(moved, deviations)
    for epsilon in (0.0, 0.4, 1.5):
        for smaller in itertools.product(*({move // 2, move} for move in moved)):
            assert loss.delta(epsilon) >= exact_delta(smaller, deviations, epsilon) - 1e-14


def test_without_the_lattice_term_the_bound_would_fail():
    """The profile of continuous noise is below the exact one somewhere: the term is needed."""
    below = [
        gaussian_delta(by / deviation, epsilon) < exact_delta([by], [deviation], epsilon) - 1e-12
        for by in (1, 2)
        for deviation in (1.0, 1.3, 2.0)
        for epsilon in np.linspace(0.0, 3.0, 25)
    ]
    assert any(below)


@examples(60)
@given(st.floats(min_value=1.0, max_value=30.0), st.integers(min_value=-80, max_value=80))
def test_the_lemma_of_the_proof(deviation, threshold):
    """P(X >= m) <= P(G >= m - 1), which the whole bound rests on."""
    k, mass = law(deviation)
    discrete = math.fsum(mass[k >= threshold])
    normal = 0.5 * math.erfc((threshold - 1) / (deviation * math.sqrt(2.0)))
    assert discrete <= normal * (1 + 1e-12) + 1e-15


@given(st.floats(min_value=0.01, max_value=5.0), st.floats(min_value=-2.0, max_value=20.0))
def test_the_profile_is_rounded_up(mu, epsilon):
    """It is that of scipy's logarithms of normal tails, from above, to nine digits."""
    upper = special.log_ndtr(mu / 2 - epsilon / mu)
    lower = epsilon + special.log_ndtr(-mu / 2 - epsilon / mu)
    reference = math.exp(upper) * -math.expm1(min(lower - upper, 0.0))
    delta = gaussian_delta(mu, epsilon)
    assert delta >= reference * (1 - 1e-9) or delta == 1e-290
    assert delta <= reference + 1e-9 * math.exp(upper) + 1e-290


def test_noise_at_the_figures_of_the_plan():
    """Deviations at ε = 1 per unit of L2: 4.22 and 5.50, as an independent computation had them."""
    assert 1 / calibrated_mu(1.0, 1e-6) == pytest.approx(4.22, abs=0.005)
    assert 1 / calibrated_mu(1.0, 1e-9) == pytest.approx(5.50, abs=0.005)


def test_cells_from_which_gaussian_noise_is_smaller():
    """Of a unit in k equal cells: expected noise is k, and with Gaussian noise √(2k/π) over μ."""
    for delta, cells in ((1e-6, 11.4), (1e-9, 19.2)):
        break_even = 2 / (math.pi * calibrated_mu(1.0, delta) ** 2)
        assert break_even == pytest.approx(cells, abs=0.06)


@given(st.floats(min_value=0.01, max_value=4.0), st.floats(min_value=1e-12, max_value=0.1))
def test_conversions_invert_each_other_on_the_safe_side(mu, delta):
    """ε of a μ is enough for δ, and a little less is not; a calibrated μ is within its ε."""
    loss = GaussianLoss(mu, 0.0)
    epsilon = loss.epsilon(delta)
    assert loss.delta(epsilon) <= delta
    if epsilon > 1e-6:
        assert loss.delta(epsilon * (1 - 1e-6)) > delta
        assert calibrated_mu(epsilon, delta) <= mu * (1 + 1e-5)
        assert gaussian_delta(calibrated_mu(epsilon, delta), epsilon) <= delta


def test_nothing_moved_is_nothing_lost():
    """Equal laws have no loss; an infinite one has all of it."""
    none = GaussianLoss(0.0, 0.0)
    assert none.epsilon(1e-9) == 0.0
    assert none.delta(0.0) <= 1e-300
    assert gaussian_delta(math.inf, 1.0) == 1.0
    assert smallest_epsilon(lambda _: 1.0, 1e-9) == math.inf


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: check_delta(0.0), "above 0 and below 1"),
        (lambda: check_delta(math.nan), "above 0 and below 1"),
        (lambda: check_delta(0.01, 100), "not below 1 / 100 units"),
        (lambda: calibrated_mu(0.0, 1e-6), "epsilon must be positive"),
        (lambda: calibrated_mu(1.0, 2.0), "above 0 and below 1"),
    ],
)
def test_what_cannot_be_promised_is_refused(call, message):
    """Coarse lattices, and a δ that is no probability or as large as one unit's share."""
    with pytest.raises(InputError, match=message):
        call()
    check_delta(0.009, 100)
