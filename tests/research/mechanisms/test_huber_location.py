"""Score sums about a point: their value in integers, and how far one user moves them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexveil.mechanisms.contract import Outputs, PrivateSums
from hexveil.mechanisms.simulated_noise import law
from hexveil_research.mechanisms.huber_location import (
    COST_STEPS,
    BalancePoint,
    ScoreSums,
    selection_laws,
)
from stage_laws import candidate_scores, every_data_set


def score_sums(weights, reach, candidates, span, counts=None):
    """Return score sums about the middles of equal bins."""
    counts = np.array(counts or [3] * len(weights))
    points = span * (2 * np.arange(candidates) + 1) // (2 * candidates)
    return ScoreSums(counts, np.array(weights), reach, points, span)


def by_definition(scores, total):
    """Return B at every candidate by its definition, in Python integers."""
    rows = []
    for row in total.tolist():
        users = list(zip(row, scores.counts.tolist(), scores.weight.tolist(), strict=True))
        rows.append(
            [
                sum(
                    max(-scores.reach, min(v * s // m - v * theta, scores.reach))
                    for s, m, v in users
                )
                for theta in scores.points.tolist()
            ]
        )
    return rows


@given(
    weights=st.lists(st.integers(1, 50), min_size=1, max_size=6),
    reach=st.integers(1, 40_000),
    candidates=st.integers(1, 30),
    span=st.integers(30, 1000),
    seed=st.integers(0, 1000),
)
def test_running_sums_give_the_definition(weights, reach, candidates, span, seed):
    """Running sums give the definition exactly, at the bounds of the values too."""
    scores = score_sums(weights, reach, candidates, span)
    rng = np.random.default_rng(seed)
    limits = span * scores.counts
    total = np.vstack([rng.integers(0, limits + 1, (3, len(weights))), 0 * limits, limits])
    assert scores.values(PrivateSums(total)).tolist() == by_definition(scores, total)


def test_sums_beyond_doubles_are_exact():
    """Where heights do not fit 53 bits, running sums are added in integers."""
    span = 2**45
    scores = score_sums([2**7 + 1, 3 * 2**6 + 1, 1], 2**50, 4, span)
    total = np.array([[3 * span - 1, 2 * span + 1, 7]])
    assert scores.total_weight * span > 2**53
    expected = [
        [
            sum(
                max(-scores.reach, min(v * s // 3 - v * theta, scores.reach))
                for s, v in zip(total[0].tolist(), scores.weight.tolist(), strict=True)
            )
            for theta in scores.points.tolist()
        ]
    ]
    assert scores.values(PrivateSums(total)).tolist() == expected


@pytest.mark.parametrize("reach", [1, 7, 20, 200])
def test_one_user_moves_the_sum_by_d_and_no_more(reach):
    """Over all sums the largest change of each user is d at every candidate, exactly."""
    scores = score_sums([3, 1], reach, 5, 10, counts=[2, 1])
    data = every_data_set(scores.counts, scores.span)
    cube = scores.values(PrivateSums(data)).reshape(21, 11, 5)
    assert np.ptp(cube, axis=0).max(axis=0).tolist() == scores.user_sensitivity[0].tolist()
    assert np.ptp(cube, axis=1).max(axis=0).tolist() == scores.user_sensitivity[1].tolist()


@given(seed=st.integers(0, 10_000), reach=st.integers(1, 4000))
def test_one_user_moves_every_cost_by_at_most_its_own_bound(seed, reach):
    """A user moves no candidate's cost by more than its own bound, which is at most Q."""
    rng = np.random.default_rng(seed)
    scores = score_sums(rng.integers(1, 30, 6).tolist(), reach, 9, 100)
    choice = BalancePoint(scores, 1.0)
    before = rng.integers(0, 301, 6)
    after, user = before.copy(), rng.integers(6)
    after[user] = rng.choice([0, 300, rng.integers(0, 301)])
    measured = choice.measure(PrivateSums(np.array([before, after])), Outputs())
    one, other = candidate_scores(measured[0])
    assert np.abs(one - other).max() <= choice.user_sensitivity[user] <= COST_STEPS


@pytest.mark.parametrize("scale", [0.1, 2.0, 40.0])
def test_predicted_laws_are_those_of_permute_and_flip(scale):
    """The law that a prediction uses is the exact one to 1e-5."""
    costs = np.abs(np.arange(40) - 13)[None]
    exact = law(costs[0], np.ones(40, dtype=np.int64), scale)
    assert selection_laws(costs.astype(float), scale)[0] == pytest.approx(exact, abs=1e-5)
