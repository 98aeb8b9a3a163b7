"""The pooled histogram, and the first range that follows from it."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from hexveil import Occupancy
from hexveil.accounting.noise_law import Laplace
from hexveil.accounting.promise import PARTS, Pure
from hexveil.mechanisms.looks.pooled_means import (
    PooledMeans,
    choose_first_range,
    usual_range,
    wider_range,
)
from hexveil.mechanisms.looks.weighted_mean import WeightedVotes
from hexveil.mechanisms.pooled_law import PooledLaw
from hexveil.mechanisms.stage_data import Outputs, PrivateSums
from mechanisms.listed_weights import ListedWeights

STEPS = 40


def weighted_votes(weights):
    """Return the votes of all pairs."""
    return WeightedVotes(weights).column.of(weights.occupancy)


@st.composite
def maps(draw):
    """Return an occupancy, whole weights, and two sets of sums that differ in one user's alone."""
    n_users, n_cells = draw(st.integers(1, 7)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**20)))
    table = rng.integers(0, 4, (n_users, n_cells))
    table[0] = np.maximum(table[0], table.sum(axis=0) == 0)  # each cell has a user
    table[:, 0] = np.maximum(table[:, 0], table.sum(axis=1) == 0)  # and each user a cell
    occupancy = Occupancy.from_dense(table)
    weight = ListedWeights(occupancy, rng.integers(1, 10, occupancy.n_pairs))
    one = rng.integers(0, STEPS * occupancy.n + 1)
    changed = occupancy.user == rng.integers(n_users)
    # Values at the ends move numbers furthest.
    ends = STEPS * occupancy.n * rng.integers(0, 2, occupancy.n_pairs)
    other = np.where(changed, ends, one)
    return occupancy, weight, one, other


@examples(100)
@given(maps())
def test_no_user_has_more_than_its_votes(drawn):
    """Votes are whole, above 0, and at most the grain for all pairs of a user."""
    occupancy, weight, _, _ = drawn
    votes = weighted_votes(weight)
    by_user = np.bincount(occupancy.user, votes)
    assert votes.dtype == np.int64
    assert (votes > 0).all()
    assert (by_user <= PARTS).all()
    assert by_user.max() >= PARTS - 2 * occupancy.n_cells - 1


@examples(200)
@given(maps())
def test_no_neighbour_moves_more_than_its_votes(drawn):
    """Bins move together by twice a user's votes at most, and the loss is nearly all used."""
    occupancy, weight, one, other = drawn
    stage = PooledMeans.of(weight, STEPS, Pure(Fraction(1))).histogram
    (measured,) = stage.measure(PrivateSums(np.stack([one, other])), Outputs())
    (report,) = stage.sensitivity(Outputs())
    moved_user = np.unique(occupancy.user[one != other])
    moved = np.abs(np.diff(measured.integers, axis=0)).sum()
    assert moved <= report.by[np.isin(report.user, moved_user)].sum()
    (request,) = stage.noise(Outputs())
    assert 0.99 <= report.loss_lower_bound(request, occupancy.n_users).max() <= 1


TOP = 64
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
    assert (found.lower, found.upper) == pytest.approx((22.4, 41.6), abs=1.5)
    clipped = np.clip(normal(), found.lower, found.upper) - found.centre
    sd = np.sqrt(2 * np.mean(np.minimum(clipped, 0) ** 2))
    assert (found.below, found.above) == pytest.approx((sd, sd), abs=1.0)


def test_a_few_far_users_widen_the_range_where_noise_is_small():
    """Of 5% express buses; not where noise costs more than what is cut off."""
    values = normal(mean=12.0, sd=4.0)
    values[:1000] = 62.0
    law = law_of(values)
    low, high = usual_range(law, TOP)
    assert high < 30.0
    assert wider_range(law, (low, high), NOISE, SQUARES, TOP)[1] > 50.0
    assert wider_range(law, (low, high), 30 * NOISE, SQUARES, TOP) == (low, high)


@examples(60)
@given(st.lists(st.integers(-20, 200), min_size=16, max_size=16), st.floats(0.1, 50.0))
def test_every_law_has_a_range_within_the_bounds(votes, scale):
    """Whatever the noisy votes are, the range contains the usual one and has a width."""
    edges = np.linspace(0.0, TOP, 17)
    law = PooledLaw.of(edges, np.array(votes, dtype=float), Laplace(scale), 500.0)
    usual, found = usual_range(law, TOP), choose_first_range(law, NOISE, SQUARES, TOP)
    assert 0 <= found.lower <= usual[0] <= law.quantile(0.5) <= usual[1] <= found.upper <= TOP
    assert found.centre == round(law.quantile(0.5))
    assert min(found.below, found.above) >= 1
