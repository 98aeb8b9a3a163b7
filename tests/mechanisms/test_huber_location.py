"""The balance of users about a point: its value, and how far one user moves it."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexveil.mechanisms.huber_location import UNIT, BalanceChoice, laws
from hexveil.mechanisms.permute_and_flip import law


def plain(choice, values):
    """Return the balance at every candidate by its definition."""
    pulls = choice.weights * (values[:, None, :] - choice.points[None, :, None])
    return np.clip(pulls, -choice.reach, choice.reach).sum(axis=2)


@given(
    weights=st.lists(st.integers(1, 50), min_size=1, max_size=8),
    reach=st.floats(0.001, 60),
    candidates=st.integers(1, 30),
    seed=st.integers(0, 1000),
)
def test_two_running_sums_give_the_balance(weights, reach, candidates, seed):
    """The balance by kinks is that of the definition, at the bounds of the values too."""
    choice = BalanceChoice(np.array(weights, float), reach, candidates, 1.0)
    rng = np.random.default_rng(seed)
    values = np.vstack(
        [rng.random((3, len(weights))), np.zeros(len(weights)), np.ones(len(weights))]
    )
    assert choice.balance(values) == pytest.approx(plain(choice, values), abs=1e-9)


@pytest.mark.parametrize("reach", [0.05, 0.7, 2.0, 9.0])
def test_one_user_moves_the_balance_by_r_and_no_more(reach):
    """Over all values on a grid the largest move is r at every candidate: reached, not passed."""
    choice = BalanceChoice(np.array([3.0, 1.0]), reach, 5, 1.0)
    grid = np.linspace(0, 1, 6)
    table = choice.balance(np.array(list(itertools.product(grid, grid)))).reshape(6, 6, 5)
    moved = np.maximum(np.ptp(table, axis=0).max(axis=0), np.ptp(table, axis=1).max(axis=0))
    assert moved == pytest.approx(choice.moved, abs=1e-12)


@given(seed=st.integers(0, 10_000), reach=st.floats(0.01, 40))
def test_one_user_moves_every_cost_by_at_most_q(seed, reach):
    """Whatever a user's value becomes, no candidate's cost moves by more than Q."""
    rng = np.random.default_rng(seed)
    choice = BalanceChoice(rng.integers(1, 30, 6).astype(float), reach, 9, 1.0)
    before = rng.random(6)
    after = before.copy()
    after[rng.integers(6)] = rng.choice([0.0, 1.0, rng.random()])
    assert np.abs(choice.costs(before) - choice.costs(after)).max() <= UNIT


def test_the_balance_stays_in_its_room():
    """Values at either bound reach the room's ends, which a reading is projected to."""
    choice = BalanceChoice(np.array([4.0, 2.0, 1.0]), 0.8, 6, 1.0)
    low, high = choice.room
    found = choice.balance(np.array([[0.0] * 3, [1.0] * 3]))
    assert found == pytest.approx(np.array([low, high]), abs=1e-12)


@pytest.mark.parametrize("scale", [0.1, 2.0, 40.0])
def test_predicted_laws_are_those_of_permute_and_flip(scale):
    """The law that a prediction uses is the exact one to 1e-5."""
    costs = np.abs(np.arange(40) - 13)[None]
    exact = law(costs[0], np.ones(40, dtype=np.int64), scale)
    assert laws(costs.astype(float), scale)[0] == pytest.approx(exact, abs=1e-5)
