"""Searches over pairs that lie in blocks: how often these are asked, and what a sample gives up.

What a plan of such pairs states is in test_stored_plans.py.
"""

from collections import Counter

import numpy as np
import pytest

import hexveil as hv
from examples import some
from hexveil.mechanisms.looks.user_weights import DISTRIBUTED_ITERATIONS
from hexveil.planning.optimizers import mean_error, pair_sums
from hexveil.planning.saved_plans import encode, pack_decisions
from model.stores import distributed
from planning.test_stored_plans import ASKED, BOTH, RANGED, fleet, planned


def assert_near(plan, other, rtol):
    """Fail unless rows, losses and errors of two plans agree."""
    arrays = (pack_decisions(one)[1] for one in (plan, other))
    for (name, row), same in zip(next(arrays).items(), next(arrays).values(), strict=True):
        np.testing.assert_allclose(same, row, rtol, atol=1e-9, err_msg=name)
    np.testing.assert_allclose(plan.losses(), other.losses(), rtol)
    assert float(plan.l0_epsilon) == pytest.approx(float(other.l0_epsilon), rel=rtol)
    for part, same in zip(plan.error_models.values(), other.error_models.values(), strict=True):
        np.testing.assert_allclose(same.error, part.error, rtol)


@pytest.mark.slow
@pytest.mark.parametrize("name", ASKED)
def test_plans_are_those_of_pairs_at_hand_wherever_blocks_begin(name, monkeypatch):
    """Searches agree but for late digits; one block and many have one plan, hence one request."""
    whole = fleet(3, users=14, cells=5)
    plans = [planned(distributed(whole, room), **ASKED[name]) for room in (1, 9, 10_000)]
    assert len({encode(made) for made in plans}) == 1
    monkeypatch.setattr(mean_error, "DISTRIBUTED_SEARCH", mean_error.FULL_SEARCH)
    assert_near(planned(distributed(whole, 12), **ASKED[name]), planned(whole, **ASKED[name]), 1e-3)


@pytest.mark.parametrize("fetched", [10**9, 1500])
@pytest.mark.parametrize(
    "options",
    [{}, {"statistics": BOTH}, {"delta": "1e-6", "clipping_range": "bounds"}, RANGED["ranges"]],
)
def test_few_steps_from_a_sample_come_near(options, fetched, monkeypatch):
    """What a search in blocks gives up for asking seldom: a fiftieth with a seventh of users."""
    monkeypatch.setattr(pair_sums, "FETCHED_PAIRS", fetched)
    whole = fleet(4, users=600, cells=60)
    spread = distributed(whole, 3000)
    here, there = (planned(one, **options | {"epsilon": 3}) for one in (whole, spread))
    assert there.objective_errors().mean() <= here.objective_errors().mean() * 1.02
    assert there.epsilon <= 3
    steps = Counter(work for _, work in spread.store.asked)["_look_at_users"]
    is_searched = "epsilon" in options and fetched < whole.n_pairs
    assert is_searched <= steps <= 3 * DISTRIBUTED_ITERATIONS * is_searched


@pytest.mark.parametrize("name", some(RANGED, 2))
def test_ranges_are_planned_as_at_hand(name, monkeypatch):
    """Where all pairs of the search are fetched, weights are those of pairs at hand."""
    counts = np.random.default_rng(9).poisson(0.2, (400, 40))
    counts[counts.sum(axis=1) == 0, 0] = 1
    whole = hv.Occupancy.from_dense(counts)
    spread = distributed(whole, 700)
    here, there = (planned(one, **RANGED[name]) for one in (whole, spread))
    assert_near(there, here, 1e-12)
    assert there.epsilon <= RANGED[name]["epsilon"]
    # Figures of the weights are asked of the blocks once for each range that is tried.
    asked = Counter(spread.store.asked)
    assert all(asked[one] <= 8 for one in asked if "votes" in one[1] or "distances" in one[1])
    # Wherever blocks begin, with all users in the sample or some: the same bits.
    for fetched in (10**9, 300):
        monkeypatch.setattr(pair_sums, "FETCHED_PAIRS", fetched)
        small = fleet(9, users=60)
        plans = [planned(distributed(small, room), **RANGED[name]) for room in (33, 10_000)]
        assert len({encode(made) for made in plans}) == 1
        np.testing.assert_array_equal(*(made.losses() for made in plans))
