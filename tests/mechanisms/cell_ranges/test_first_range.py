"""The first range by the pooled law: usual ones, wider ones, and the spread within them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from hexveil.accounting.noise_law import Laplace
from hexveil.mechanisms import pooled_law
from hexveil.mechanisms.looks.pooled_means import (
    choose_first_range,
    describe,
    usual_range,
    wider_range,
)
from hexveil.mechanisms.pooled_law import PooledLaw

TOP = 64.0
NOISE, SQUARES = np.full(5, 0.01), np.full(5, 0.02)


def law_of(values, scale=0.01, bins=16):
    """Return the law of user means with next to no noise."""
    votes, edges = np.histogram(values, bins, (0.0, TOP))
    return PooledLaw.of(edges, votes.astype(float), Laplace(scale), float(len(values)))


def normal(mean=32.0, sd=6.0, n=20_000):
    """Return averages that are normal within the bounds."""
    return np.clip(np.random.default_rng(3).normal(mean, sd, n), 0.0, TOP)


def test_a_normal_law_has_the_usual_range():
    """1.6 deviations either way of the median, and the deviations of what lies within."""
    law = law_of(normal())
    found = choose_first_range(law, NOISE, SQUARES, TOP)
    assert found.centre == pytest.approx(32.0, abs=0.5)
    assert (found.lower, found.upper) == pytest.approx((22.4, 41.6), abs=1.0)
    clipped = np.clip(normal(), found.lower, found.upper) - found.centre
    sd = np.sqrt(2 * np.mean(np.minimum(clipped, 0) ** 2))
    assert (found.below, found.above) == pytest.approx((sd, sd), rel=0.1)


def test_a_few_far_users_widen_the_range_where_noise_is_small():
    """Of 5% express buses; not where noise costs more than what is cut off."""
    values = normal(mean=12.0, sd=4.0)
    values[:1000] = 62.0
    law = law_of(values)
    low, high = usual_range(law, TOP)
    assert high < 30.0
    assert wider_range(law, (low, high), NOISE, SQUARES, TOP)[1] > 50.0
    assert wider_range(law, (low, high), 30 * NOISE, SQUARES, TOP) == (low, high)


def test_what_may_be_the_noise_of_far_bins_widens_no_range(monkeypatch):
    """A far bin holds one error of the excess; were all of it to count, the range would reach."""
    votes, edges = np.histogram(normal(mean=12.0, sd=4.0), 16, (0.0, TOP))
    votes[-2] += 300
    law = PooledLaw.of(edges, votes.astype(float), Laplace(200.0), float(votes.sum()))
    usual = usual_range(law, TOP)
    assert wider_range(law, usual, NOISE, SQUARES, TOP) == usual
    monkeypatch.setattr(pooled_law, "SURE_ERRORS", 0.0)
    assert wider_range(law, usual, NOISE, SQUARES, TOP)[1] > usual[1] + 8.0


def test_a_skewed_range_ends_with_the_law():
    """Where half of the averages are 0 it does not reach far beyond all others."""
    values = np.concatenate([np.zeros(10_000), normal(mean=25.0, sd=4.0, n=10_000)])
    low, high = usual_range(law_of(values), TOP)
    assert low == 0.0
    assert 27.0 < high < 36.0


@examples(60)
@given(st.lists(st.integers(-20, 200), min_size=16, max_size=16), st.floats(0.1, 50.0))
def test_every_law_has_a_range_within_the_bounds(votes, scale):
    """Whatever the noisy votes are, the range contains the usual one and has a width."""
    edges = np.linspace(0.0, TOP, 17)
    law = PooledLaw.of(edges, np.array(votes, dtype=float), Laplace(scale), 500.0)
    usual, found = usual_range(law, TOP), choose_first_range(law, NOISE, SQUARES, TOP)
    assert 0.0 <= found.lower <= usual[0] <= found.centre <= usual[1] <= found.upper <= TOP
    assert min(found.below, found.above) >= TOP / 256
    again = describe(law, found.lower, found.upper, TOP)
    assert (again.centre, again.below, again.above) == (found.centre, found.below, found.above)
