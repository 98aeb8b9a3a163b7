"""Bounds on chances and losses: exact against binomial laws, and sharp enough to be of use."""

import math

import numpy as np
import pytest
from scipy.stats import beta, binom

from hexveil_research.audit.run import detection, loss_bound, lower_end, tail, upper_end

LEVELS = [0.05, 1e-3, 3e-9]


@pytest.mark.parametrize("n", [1, 7, 200, 10_000, 1_000_000])
def test_tails_are_binomial(n):
    """The short sum is the binomial tail, wherever the chance is at most k/n."""
    for k in sorted({0, 1, n // 100, n // 3, n - 1, n}):
        for part in (1.0, 0.999, 0.7):
            expected = binom.sf(k - 1, n, part * k / n)
            assert tail(k, n, part * k / n) == pytest.approx(expected, rel=1e-7, abs=1e-300)


@pytest.mark.parametrize("n", [1, 7, 200, 10_000, 1_000_000])
@pytest.mark.parametrize("level", LEVELS)
def test_ends_are_those_of_clopper_and_pearson(n, level):
    """Both ends agree with the quantiles of the beta law."""
    for k in sorted({0, 1, n // 100, n // 3, n - 1, n}):
        low = beta.ppf(level, k, n - k + 1) if k else 0.0
        high = beta.isf(level, k + 1, n - k) if k < n else 1.0
        assert lower_end(k, n, level) == pytest.approx(low, rel=1e-7)
        assert upper_end(k, n, level) == pytest.approx(high, rel=1e-7)


@pytest.mark.parametrize("n", [5, 40, 300])
@pytest.mark.parametrize("level", [0.05, 1e-3])
def test_ends_are_wrong_no_more_often_than_allowed(n, level):
    """For many chances, the exact chance that an end is wrong is at most the level.

    Just above a lower end the chance of error is the level itself: no shorter interval would do.
    """
    lows = np.array([lower_end(k, n, level) for k in range(n + 1)])
    for p in np.linspace(0.001, 0.999, 200):
        law = binom.pmf(np.arange(n + 1), n, p)
        assert law[lows > p].sum() <= level
        assert law[1.0 - lows[::-1] < p].sum() <= level
    tight = math.nextafter(lows[n // 2], 0.0)
    assert binom.sf(n // 2 - 1, n, tight) == pytest.approx(level, rel=1e-6)


def randomised_response(epsilon):
    """Return the chances of "yes" if the truth is yes, and if it is no: exactly e^ε apart."""
    yes = math.exp(epsilon) / (1.0 + math.exp(epsilon))
    return yes, 1.0 - yes


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.0])
def test_a_known_loss_is_approached_and_not_exceeded(epsilon):
    """Randomised response loses exactly ε: every bound is below, and within 0.02 of it."""
    rng = np.random.default_rng(7)
    n, level = 1_000_000, 3e-9
    yes, no = randomised_response(epsilon)
    bounds = [loss_bound(*rng.binomial(n, (yes, no)), n, level) for _ in range(10)]
    assert max(bounds) <= epsilon
    assert min(bounds) > epsilon - 0.03
    assert loss_bound(*rng.binomial(n, (no, yes)), n, level) < 0


def refuted(n, level, claim):
    """Return whether k against j events refute the claim, for all k and j."""
    lows = np.array([lower_end(k, n, level) for k in range(n + 1)])
    return lows[:, None] > math.exp(claim) * (1.0 - lows[::-1])


def test_a_bound_is_the_ratio_of_two_ends():
    """The bound on a loss takes the lower end of the one chance and the upper of the other."""
    over = refuted(30, 0.01, 0.5)
    for k in range(31):
        for j in (0, 3, 11, 30):
            assert over[k, j] == (loss_bound(k, j, 30, 0.01) > 0.5)


def test_losses_are_overstated_no_more_often_than_allowed():
    """By exact enumeration, a bound exceeds the true loss with a chance of at most 2 levels."""
    n, level, (yes, no) = 60, 0.02, randomised_response(1.0)
    k = np.arange(n + 1)
    wrong = binom.pmf(k, n, yes) @ refuted(n, level, 1.0) @ binom.pmf(k, n, no)
    assert 0 < wrong <= 2 * level


@pytest.mark.parametrize("p", [0.3, 0.5, 0.9])
def test_power_is_never_overstated(p):
    """By exact enumeration, detection is at least what is said; what is certain is said to be."""
    n, level, claim = 400, 1e-3, 0.5
    k = np.arange(n + 1)
    caught = refuted(n, level, claim)
    exact, said = [], []
    for q in np.linspace(0.02, 0.6 * p, 12):
        exact.append(binom.pmf(k, n, p) @ caught @ binom.pmf(k, n, q))
        said.append(detection(p, q, n, level, claim))
        assert said[-1] <= exact[-1] + 1e-12
        assert exact[-1] < 0.9999 or said[-1] > 0.98
    assert min(exact) < 0.5
    assert max(exact) > 0.9999


def test_what_keeps_its_claim_has_no_power():
    """At a true loss equal to the claim, nothing is promised."""
    assert detection(0.5, 0.5 / math.e, 1_000_000, 3e-9, 1.0) == 0.0


def test_chances_at_the_ends():
    """An event that never, or always, occurs has the ends that follow from n alone."""
    assert lower_end(0, 50, 0.01) == 0.0
    assert upper_end(50, 50, 0.01) == 1.0
    assert upper_end(0, 50, 0.01) == pytest.approx(1 - 0.01 ** (1 / 50))
    assert loss_bound(0, 0, 50, 0.01) == -math.inf
    assert tail(3, 5, 0.0) == 0.0
    assert tail(3, 5, 1.0) == tail(0, 5, 0.3) == 1.0
