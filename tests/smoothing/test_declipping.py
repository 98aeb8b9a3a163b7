"""Clipping undone: against simulated cells whose law is the model's, and against other grids."""

import math

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from examples import examples
from hexveil.smoothing import declipping
from hexveil.smoothing.declipping import NoisyObservation, estimate_declipped, expected_observation

SPREAD, PRIOR = 4.0, 3.0
WIDE = 1.28 * math.hypot(SPREAD, PRIOR)
"""Half the width of a first look, as a release chooses it."""


def truth(rng, cells):
    """Return true means of cells."""
    return rng.normal(30.0, PRIOR, cells)


def look(rng, theta, middle, half, scale, spread=SPREAD):
    """Return what a projection to middle ± half shows of normal cells, with noise."""
    middle, scale = np.broadcast_to(middle, theta.shape), np.broadcast_to(scale, theta.shape)
    exact = middle + expected_observation(theta - middle, half, spread)
    return NoisyObservation(exact + rng.laplace(0.0, scale), middle, scale, half)


def two_looks(seed, cells=400, noise=0.5, narrow=3.0):
    """Return true means, a rough look at each cell, and a narrow one around what it showed."""
    rng = np.random.default_rng(seed)
    theta = truth(rng, cells)
    first = look(rng, theta, 30.0, WIDE, 2 * noise)
    middle = np.rint(estimate_declipped([first], SPREAD).estimate)
    return theta, first, look(rng, theta, middle, narrow, noise)


# What a projection shows


@pytest.mark.parametrize("half", [0.5, 3.0, 20.0])
def test_what_is_seen_is_the_average_of_simulated_users(half):
    """Users normal around θ, projected to ± half, have this average."""
    rng = np.random.default_rng(1)
    for theta in (-6.0, -1.0, 0.0, 2.5):
        users = np.clip(rng.normal(theta, SPREAD, 200_000), -half, half)
        found = float(expected_observation(np.array([theta]), half, SPREAD)[0])
        assert found == pytest.approx(users.mean(), abs=5 * users.std() / math.sqrt(users.size))


@given(st.floats(-1e3, 1e3), st.floats(0.01, 100), st.floats(0.01, 100))
def test_what_is_seen_is_odd_rises_and_stays_in_the_range(theta, half, spread):
    """Its sign is that of the mean, it never falls, and is at most half the width."""
    there, back, more = expected_observation(
        np.array([theta, -theta, theta + spread / 10]), half, spread
    )
    slack = 1e-9 * (half + abs(theta))
    assert there == pytest.approx(-back, abs=slack)
    assert abs(there) <= half + slack
    assert more >= there - slack
    assert abs(there) <= abs(theta) + slack


# Estimates


@pytest.mark.parametrize("half", [1.0, 2.5])
def test_without_noise_the_mean_is_found_where_a_part_of_it_is_seen(half):
    """What is pulled to the middle by clipping is put back, cell by cell."""
    rng = np.random.default_rng(2)
    theta = truth(rng, 200)
    shown = look(rng, theta, np.rint(theta + rng.normal(0, 1, 200)), half, 1e-3)
    found = estimate_declipped([shown], SPREAD)
    assert np.abs(found.estimate - theta).max() < 0.05
    assert np.abs(shown.noisy - theta).mean() > 10 * np.abs(found.estimate - theta).mean()


@pytest.mark.slow
def test_estimates_are_unbiased_and_deviations_honest():
    """Errors are centred, among high and low estimates too; 95% lie within 1.96 deviations."""
    errors, sizes, estimates = [], [], []
    for seed in range(12):
        theta, first, second = two_looks(seed)
        found = estimate_declipped([first, second], SPREAD)
        errors.append(found.estimate - theta)
        sizes.append(found.sd)
        estimates.append(found.estimate)
    error, size, estimate = map(np.concatenate, (errors, sizes, estimates))
    noise = 4 * error.std() / math.sqrt(error.size)
    assert abs(error.mean()) < noise
    for low, high in ((20, 28), (28, 32), (32, 40)):
        part = error[(estimate > low) & (estimate < high)]
        assert abs(part.mean()) < 0.2 * part.std()
    assert 0.925 < (np.abs(error) < 1.96 * size).mean() < 0.965
    assert math.sqrt((error**2).mean()) == pytest.approx(math.sqrt((size**2).mean()), rel=0.06)


def test_two_looks_are_better_than_either():
    """The narrow look is used where the rough one put it, the rough one says where it lies."""
    one, both, raw = [], [], []
    for seed in range(6):
        theta, first, second = two_looks(seed, noise=0.8)
        one.append(np.abs(estimate_declipped([first], SPREAD).estimate - theta).mean())
        both.append(np.abs(estimate_declipped([first, second], SPREAD).estimate - theta).mean())
        raw.append(np.abs(second.noisy - theta).mean())
    assert np.mean(both) < 0.9 * np.mean(one)
    assert np.mean(both) < 0.97 * np.mean(raw)


def test_the_order_of_looks_matters_only_for_how_cells_differ():
    """The prior is taken from the first one; with little noise both orders say the same."""
    _, first, second = two_looks(3, noise=0.05)
    there, back = (
        estimate_declipped([first, second], SPREAD),
        estimate_declipped([second, first], SPREAD),
    )
    assert np.abs(there.estimate - back.estimate).max() < 0.2


def test_huge_noise_leaves_the_average_of_cells():
    """Where nothing is seen, estimates are near one number, and deviations are the prior's."""
    rng = np.random.default_rng(4)
    theta = truth(rng, 500)
    found = estimate_declipped([look(rng, theta, 30.0, 5.0, 500.0)], SPREAD)
    assert np.ptp(found.estimate) < 3.0
    assert (found.sd > 0.9).all()
    assert np.isfinite(found.estimate).all()


# The spread of users


@pytest.mark.slow
@pytest.mark.parametrize("guess", [0.7, 1.0, 1.4])
def test_the_spread_is_found_near_a_guess(guess):
    """With a guess off by up to two fifths, what is found is nearer the truth, or as near."""
    found = []
    for seed in range(3):
        _, first, second = two_looks(seed, cells=300, noise=0.1)
        found.append(
            estimate_declipped([first, second], guess * SPREAD, fit_sd=True).within_cell_sd
        )
    assert np.mean(found) == pytest.approx(SPREAD, rel=0.12)
    assert estimate_declipped([first, second], guess * SPREAD).within_cell_sd == guess * SPREAD


def test_the_spread_stays_near_the_guess_where_nothing_is_seen():
    """Its prior holds it there, and it is never further than what is tried."""
    _, first, second = two_looks(5, cells=60, noise=30.0)
    found = estimate_declipped([first, second], 2.0, fit_sd=True).within_cell_sd / 2.0
    assert 0.6 < found < 1.6
    assert declipping.SD_MULTIPLES[0] <= found <= declipping.SD_MULTIPLES[-1]


# The same by another road


@pytest.mark.slow
def test_blocks_do_not_change_results(monkeypatch):
    """Cells are worked on some at a time; how many does not matter."""
    _, first, second = two_looks(6, cells=150)
    whole = estimate_declipped([first, second], SPREAD, fit_sd=True)
    for block in (1, 7, 149):
        monkeypatch.setattr(declipping, "BLOCK_CELLS", block)
        parts = estimate_declipped([first, second], SPREAD, fit_sd=True)
        assert parts.within_cell_sd == whole.within_cell_sd
        assert parts.estimate == pytest.approx(whole.estimate, abs=1e-9)
        assert parts.sd == pytest.approx(whole.sd, abs=1e-9)


@examples(15)
@given(st.integers(0, 1000))
def test_a_cell_s_posterior_is_that_of_a_fine_grid(seed):
    """Mean and deviation agree with a sum over many more points, laid once."""
    _, first, second = two_looks(seed, cells=30)
    found = estimate_declipped([first, second], SPREAD)
    own = first.noisy.var() - 2 * (first.scale**2).mean()
    prior = 1.2 * math.sqrt(max(own, (first.half_width / 4) ** 2))
    theta = np.linspace(-8, 8, 20_001) * prior + first.noisy.mean()
    for g in (0, 11, 29):
        logs = -0.5 * ((theta - first.noisy.mean()) / prior) ** 2
        for one in (first, second):
            shown = one.middle[g] + expected_observation(
                theta - one.middle[g], one.half_width, SPREAD
            )
            logs = logs - np.abs(one.noisy[g] - shown) / one.scale[g]
        likely = np.exp(logs - logs.max())
        likely /= likely.sum()
        mean = float(likely @ theta)
        assert found.estimate[g] == pytest.approx(mean, abs=0.02)
        deviation = math.sqrt(float(likely @ (theta - mean) ** 2))
        assert found.sd[g] == pytest.approx(deviation, rel=0.05)


@examples(15)
@given(st.integers(0, 1000), st.floats(-50, 50), st.floats(0.1, 20))
def test_units_and_names_do_not_matter(seed, shift, times):
    """Moved, stretched or in another order, the answer moves with the numbers."""
    _, first, second = two_looks(seed, cells=40)
    plain = estimate_declipped([first, second], SPREAD)
    order = np.random.default_rng(seed).permutation(40)

    def moved(one):
        return NoisyObservation(
            (one.noisy * times + shift)[order],
            (one.middle * times + shift)[order],
            (one.scale * times)[order],
            one.half_width * times,
        )

    other = estimate_declipped([moved(first), moved(second)], SPREAD * times)
    assert other.estimate == pytest.approx((plain.estimate * times + shift)[order], abs=1e-6)
    assert other.sd == pytest.approx((plain.sd * times)[order], rel=1e-6)


def test_one_cell_alone_can_be_undone():
    """A map of one cell has no spread of cells to learn; a quarter of the range is assumed."""
    found = estimate_declipped([NoisyObservation(*np.array([[31.0], [30.0], [0.1]]), 5.0)], SPREAD)
    assert 30.0 < found.estimate[0] < 33.0
    assert 0 < found.sd[0] < 5.0
