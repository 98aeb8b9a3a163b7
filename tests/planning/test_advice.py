import warnings

import numpy as np
import pytest

import hexveil as hv
from fleets import fleet, recount
from hexveil.planning.feasibility.advice import epsilon_needed


def test_warning_names_what_would_do():
    """A grid that is too fine is warned of, with the finest resolution and the ε that would do."""
    with pytest.warns(
        hv.GridTooFineWarning, match="use resolution 5.*, the finest usable grid"
    ) as caught:
        plan = hv.plan(fleet(7, recount=recount), epsilon=1, clipping_range="bounds")
    assert not plan.support.beats_constant
    needed = float(str(caught[0].message).split("epsilon ")[1].rstrip("."))
    for epsilon, enough in ((needed, True), (needed * 0.9, False)):
        again = hv.plan(fleet(7), epsilon=epsilon, clipping_range="bounds", advise=False)
        assert again.support.beats_constant is enough


@pytest.mark.parametrize("method", ["per-cell", "equal-split"])
def test_the_epsilon_that_is_named_is_enough(method):
    """Planned by the same method, the named ε supports the grid, and a tenth less does not."""
    plan = hv.plan(fleet(7), epsilon=1, method=method, advise=False)
    needed = epsilon_needed(plan)
    for epsilon, enough in ((needed, True), (needed * 0.9, False)):
        again = hv.plan(fleet(7), epsilon=epsilon, method=method, advise=False)
        assert again.support.beats_constant is enough


def test_supported_grid_is_not_warned_of():
    """A grid that says more than one constant passes without a word."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert hv.plan(fleet(5, recount=recount), epsilon=1).support.beats_constant


def test_prior_moves_the_verdict():
    """A fleet whose cells are known to differ much supports a finer grid."""
    options = {"epsilon": 1, "clipping_range": "bounds", "advise": False}
    assert not hv.plan(fleet(6), **options).support.beats_constant
    assert hv.plan(fleet(6), baseline_error=5, **options).support.beats_constant


def test_no_epsilon_up_to_100_is_said_to_be_none():
    """Where even a loss of 100 is not enough, no ε is named."""
    lonely = hv.Occupancy.from_dense(np.ones((1, 40), dtype=int))
    plan = hv.plan(lonely, bounds=(0, 1), epsilon=1, advise=False)
    assert epsilon_needed(plan) is None


def test_floor_is_never_beaten_without_clipping():
    """The average noise of a plan that clips nothing is at or above the floor."""
    rng = np.random.default_rng(3)
    for _ in range(50):
        dense = rng.integers(0, 4, (rng.integers(2, 30), rng.integers(1, 9)))
        dense[0, dense.sum(axis=0) == 0] = 1
        dense[dense.sum(axis=1) == 0, 0] = 1
        plan = hv.plan(
            hv.Occupancy.from_dense(dense),
            bounds=(0, 3),
            epsilon=1,
            method="per-cell",
            mechanism=hv.Baseline(),
            advise=False,
        )
        assert plan.scale.mean() >= plan.support.floor * (1 - 1e-9)


def test_floor_is_reached_by_equal_users():
    """Where all users are alike, the floor is what the plan reaches."""
    plan = hv.plan(fleet(6), epsilon=1, method="per-cell", mechanism=hv.Baseline(), advise=False)
    assert plan.scale.mean() == pytest.approx(plan.support.floor)


def test_capacity_lists_each_grid_once():
    """The table has a row per unit, resolution and timeslot, and says no where nothing is left."""
    table = hv.capacity(
        fleet(6, recount=recount),
        epsilon=1,
        resolutions=(1, 5, 6, 7),
        timeslots=("1h", "6h"),
        privacy_units=("user", "user-day"),
        clipping_range="bounds",
    ).to_arrow()
    rows = table.to_pylist()
    assert len(rows) == 16
    assert [r["beats_constant"] for r in rows[:8]] == [False] * 2 + [True] * 2 + [False] * 4
    assert rows[0]["cells"] == 0
    assert rows[4]["floor"] == pytest.approx(10 * 16 / 200)
    assert rows[4]["epsilon_needed"] == pytest.approx(1.7, abs=0.15)
    assert rows[2]["epsilon_needed"] is None


def test_capacity_needs_places():
    """A data set without places is told so."""
    with pytest.raises(hv.InputError, match="records with places"):
        hv.capacity(fleet(6), epsilon=1)
