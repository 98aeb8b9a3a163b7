"""Wherever pairs lie, a plan is that of the same pairs at hand, and blocks are asked seldom."""

from collections import Counter

import numpy as np
import pytest

import hexveil as hv
from examples import some
from hexveil import InputError
from hexveil.mechanisms.looks.user_weights import DISTRIBUTED_ITERATIONS
from hexveil.planning.component import goal
from hexveil.planning.optimizers import mean_error, pair_sums
from hexveil.planning.optimizers.mean_error import FULL_SEARCH
from hexveil.planning.saved_plans import encode, pack_decisions
from model.stores import distributed, stored

BOUNDS, BOTH = (0, 60), ("mean", "variance")
DELTA = {"epsilon": 2, "delta": "1e-6"}
ASKED = {
    "joint": {"epsilon": 2},
    "largest": {"epsilon": 2, "objective": "max"},
    "target": {"target_error": 12},
    "target on average": {"target_error": 14, "objective": "mean"},
    "per-cell": {"epsilon": 2, "method": "per-cell"},
    "baseline": {"epsilon": 2, "method": "per-cell", "mechanism": hv.mechanisms.Baseline()},
    "equal-split": {"epsilon": 2, "method": "equal-split"},
    "both": {"epsilon": 3, "statistics": BOTH},
    "both, largest": {"epsilon": 3, "statistics": BOTH, "objective": "max"},
    "both, apart": {"epsilon": 3, "statistics": BOTH, "method": "per-cell"},
    "variance": {"epsilon": 3, "statistics": ("variance",)},
    "delta, both": DELTA | {"statistics": BOTH, "clipping_range": "bounds"},
}
RANGED = {
    "auto": {"epsilon": 1},
    "ranges": {"epsilon": 2, "clipping_range": "per-cell"},
    "one range": {"epsilon": 2, "clipping_range": "private"},
    "ranges, delta": DELTA | {"clipping_range": "per-cell"},
    "one range, delta": DELTA | {"clipping_range": "private", "statistics": BOTH},
}


def fleet(seed, users=30, cells=12):
    """Return an occupancy where few report much."""
    draw = np.random.default_rng(seed)
    counts = draw.poisson(draw.pareto(1.2, (users, 1)) + 0.3, (users, cells))
    counts[0] += 1
    counts[counts.sum(axis=1) == 0, 0] = 1
    return hv.Occupancy.from_dense(counts)


def planned(occupancy, **asked):
    """Return a plan without advice."""
    return hv.plan(occupancy, bounds=BOUNDS, advise=False, **asked)


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
    assert len({encode(made) for made in plans}) == len({str(goal(made)) for made in plans}) == 1
    monkeypatch.setattr(mean_error, "DISTRIBUTED_SEARCH", FULL_SEARCH)
    assert_near(planned(distributed(whole, 12), **ASKED[name]), planned(whole, **ASKED[name]), 1e-3)


@pytest.mark.parametrize("name", some(ASKED, 4))
def test_a_plan_states_the_losses_of_the_same_rows_at_hand(name):
    """Whatever rows were found: what is stated of them is what is stated of pairs at hand."""
    whole = fleet(2)
    there = planned(distributed(whole, 25), **ASKED[name])
    for store in ("memory", "runs"):
        with stored(whole, store):
            here = there.changed(occupancy=whole)
            np.testing.assert_array_equal(there.losses(), here.losses())
            assert (there.epsilon, there.l0_epsilon) == (here.epsilon, here.l0_epsilon)
            assert there.users.equals(here.users)
            assert there.table.equals(here.table)


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


@pytest.mark.slow
def test_comparisons_are_those_of_pairs_at_hand():
    """The same rows; what needs pairs at hand is a sentence.

    Of the joint plan of least average error no bound is computed in blocks.
    """
    whole = fleet(4, users=40, cells=4)
    here, there = (planned(one, epsilon=2) for one in (whole, distributed(whole, 30)))
    here, there = (hv.compare(one) for one in (here, there))
    for row, other in zip(here, there, strict=True):
        expected, found = row.to_json(), other.to_json()
        if row.name == "clip-user":
            continue
        if found["certifies"] is None:
            expected |= dict.fromkeys(("certifies", "lower_bound", "gap"))
        for name, value in expected.items():
            number = isinstance(value, float)
            assert found[name] == (pytest.approx(value, rel=1e-3) if number else value), name
    with pytest.raises(InputError, match="target_error with a delta needs all pairs"):
        planned(distributed(whole, 30), target_error=12, delta="1e-6")


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


def test_a_plan_of_the_mean_error_has_no_certificate_there_and_others_have():
    """The bound of an average looks at each pair; that of a largest error does not."""
    apart = distributed(fleet(7), 40)
    assert (planned(apart, epsilon=1).bound_kind, planned(apart, epsilon=1).gap) == (None, None)
    assert planned(apart, epsilon=1, objective="max").gap <= 0.05
