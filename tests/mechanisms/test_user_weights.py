"""Weights of users: the slope, the loss, the least error, and what weights make a cell off by."""

import itertools

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import example, given

from examples import examples
from hexveil import Occupancy
from hexveil.accounting.error_model import gaussian_noise_floor
from hexveil.accounting.noise_law import GAUSSIAN, LAPLACE
from hexveil.mechanisms.looks import user_weights
from hexveil.model.pair_columns import WEIGHT_RESOLUTION
from hexveil.planning.optimizers import pair_sums
from mechanisms.listed_weights import ListedWeights
from strategies import occupancies

PRIOR = user_weights.UserMeanPrior(0.3, 0.1)


def fleets(most=6):
    """Return small occupancies without empty cells."""
    return occupancies(users=most, most=9)


def parts(made):
    """Return each pair's part of its cell's number."""
    occupancy, weight = made.weight.occupancy, made.weight
    return weight.of(occupancy) / weight.totals[occupancy.cell]


def lost(occupancy, weighing):
    """Return what each user loses."""
    terms = parts(weighing) / weighing.noise[occupancy.cell]
    return np.bincount(occupancy.user, weights=terms, minlength=occupancy.n_users)


@examples(30)
@given(fleets(), st.sampled_from([0.2, 1.0, 5.0]))
def test_weights_sum_to_one_and_nobody_loses_more(occupancy, loss):
    """In every cell the weights are an average; the largest loss is what was allowed."""
    made = user_weights.find_user_weights(occupancy, loss, PRIOR)
    assert (made.weight.of(occupancy) >= 0).all()
    assert np.allclose(made.weight.totals, WEIGHT_RESOLUTION, atol=occupancy.n_users)
    assert (made.noise > 0).all()
    assert lost(occupancy, made).max() == pytest.approx(loss, rel=1e-6) or (
        lost(occupancy, made).max() < loss
    )


@examples(30)
@given(fleets(), st.integers(0, 2**32 - 1), st.sampled_from([LAPLACE, GAUSSIAN]))
def test_the_slope_is_that_of_the_value(occupancy, seed, law):
    """The slope agrees with differences of the value, away from where a factor reaches 1."""
    problem = user_weights.WeightProblem(occupancy, 1.0, PRIOR, law)
    logs = np.random.default_rng(seed).normal(0, 2, occupancy.n_cells)
    at = problem.norms(np.exp(logs))
    if np.abs(np.log(np.maximum(at, 1e-300))).min() < 1e-3:
        return
    _, slope = problem.value(logs)
    for g in range(occupancy.n_cells):
        step = np.zeros(occupancy.n_cells)
        step[g] = 1e-6
        up, down = (problem.value(logs + sign * step)[0] for sign in (1, -1))
        assert slope[g] == pytest.approx((up - down) / 2e-6, rel=1e-3, abs=1e-5)


@pytest.mark.parametrize("law", [LAPLACE, GAUSSIAN])
@pytest.mark.parametrize(("users", "cells", "loss"), [(50, 2, 1.0), (10, 7, 0.5), (3, 1, 4.0)])
def test_users_alike_reach_the_counting_bound(users, cells, loss, law):
    """Where all are alike no plan has less noise than G / (loss L), or √(G / loss) / L."""
    made = user_weights.find_user_weights(
        Occupancy.from_dense([[2] * cells] * users), loss, PRIOR, law=law
    )
    assert np.allclose(made.noise, (cells / loss) ** (1 / law.power) / users, rtol=1e-4)
    if law is GAUSSIAN:
        floor = gaussian_noise_floor(1.0, cells, users, loss)
        assert floor == pytest.approx(law.mean_absolute * made.noise[0], rel=1e-4)
    assert np.allclose(parts(made), 1 / users)


def test_light_users_of_a_heavy_one_s_cell_are_raised_unless_drift_is_feared():
    """A user of nine tenths of a cell binds the noise: its weight falls, or its noise is borne."""
    occupancy = Occupancy.from_dense([[90], *[[1]] * 10])
    carefree, afraid = (
        user_weights.find_user_weights(occupancy, 1.0, user_weights.UserMeanPrior(0.1, drift))
        for drift in (0.0, 20.0)
    )
    assert parts(carefree)[0] < 0.2
    assert parts(afraid)[0] == pytest.approx(0.9, rel=0.01)
    assert carefree.noise[0] < 0.2
    assert afraid.noise[0] > 0.8


@examples(20)
@example(Occupancy.from_dense([[1, 1], [3, 0]]), 0.5)
@given(fleets(4), st.sampled_from([0.5, 2.0]))
def test_no_better_weights_are_found_by_trying(occupancy, loss):
    """Of rates on a grid around the answer none has an objective smaller by three hundredths.

    On very few cells a first step can end where all users are reduced and the objective is flat.
    """
    problem = user_weights.WeightProblem(occupancy, loss, PRIOR)

    def value(weighing):
        return float((weighing.noise + user_weights.expected_bias(weighing.weight, PRIOR)).mean())

    found = value(user_weights.find_user_weights(occupancy, loss, PRIOR))
    grid = np.exp(np.linspace(-3, 3, 7))
    tried = itertools.islice(itertools.product(grid, repeat=occupancy.n_cells), 400)
    best = min(value(problem.weighing(np.array(rates))) for rates in tried)
    assert found <= best * 1.03 + 2e-3


@examples(30)
@given(fleets(5), st.integers(0, 2**32 - 1))
def test_weights_are_off_by_at_most_what_is_said_and_can_be(occupancy, seed):
    """Over all user means at either end of the range the largest distance is the one stated."""
    whole = np.random.default_rng(seed).integers(1, 10**6, occupancy.n_pairs)
    weight = whole / np.add.reduceat(whole, occupancy.start[:-1])[occupancy.cell]
    share = occupancy.n / occupancy.records_per_cell[occupancy.cell]
    stated = user_weights.max_bias(ListedWeights(occupancy, whole))
    for g in range(occupancy.n_cells):
        rows = slice(occupancy.start[g], occupancy.start[g + 1])
        away = (weight - share)[rows]
        largest = max(
            abs(float(away @ np.array(means)))
            for means in itertools.product((0.0, 1.0), repeat=away.size)
        )
        assert stated[g] == pytest.approx(largest, abs=1e-12)


def test_the_prior_s_distance_is_that_of_simulated_means():
    """With independent user means, what weights cost is the expected distance, nearly."""
    occupancy = Occupancy.from_dense([[9], [3], [1], [1]])
    weight, prior = np.full(4, 0.25), user_weights.UserMeanPrior(0.3, 0.0)
    share = occupancy.n / 14
    means = np.random.default_rng(4).normal(0.5, 0.3, (200_000, 4))
    seen = np.abs(means @ (weight - share)).mean()
    assert user_weights.expected_bias(ListedWeights(occupancy, np.ones(4, int)), prior)[
        0
    ] == pytest.approx(seen, rel=0.02)


@examples(30)
@given(fleets(), st.integers(0, 2**32 - 1), st.integers(1, 9))
def test_runs_of_cells_add_up_to_what_all_pairs_at_once_say(occupancy, seed, most):
    """The objective and its slope do not depend on how many pairs are looked at together."""
    logs = np.random.default_rng(seed).normal(0, 2, occupancy.n_cells)
    value, slope = user_weights.WeightProblem(occupancy, 1.0, PRIOR).value(logs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pair_sums, "BLOCK_PAIRS", most)
        problem = user_weights.WeightProblem(occupancy, 1.0, PRIOR)
        again, also = problem.value(logs)
    assert again == pytest.approx(value, rel=1e-12)
    assert np.allclose(also, slope, rtol=1e-9, atol=1e-12)
    made = problem.weighing(np.exp(logs))
    plain = float((made.noise + user_weights.expected_bias(made.weight, PRIOR)).mean())
    assert value == pytest.approx(plain, abs=2e-3)
