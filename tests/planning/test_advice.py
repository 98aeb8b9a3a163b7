import re
import warnings

import numpy as np
import pytest

import hexveil as hv
from fleets import fleet, recount
from hexveil.planning.feasibility.advice import advice, epsilon_needed, finest_useful
from hexveil.planning.feasibility.capacity import assess_grids


def test_warning_names_an_epsilon_that_is_enough_and_counts_nothing():
    """A grid that is too fine is warned of; no record is counted again."""

    def counted_again(grids, unit):
        raise AssertionError("the warning counts records again")

    with pytest.warns(hv.GridTooFineWarning, match="hexveil inspect finds grids") as caught:
        plan = hv.plan(fleet(7, recount=counted_again), epsilon=1, clipping_range="bounds")
    assert not plan.support.beats_constant
    needed = float(re.search(r"with epsilon ([\d.]+\d)", str(caught[0].message))[1])
    assert hv.plan(
        fleet(7), epsilon=needed, clipping_range="bounds", advise=False
    ).support.beats_constant


@pytest.mark.parametrize(("users", "resolution", "taken"), [(60, 6, "private"), (19, 6, "bounds")])
def test_plan_release_and_capacity_name_one_epsilon_that_is_enough(users, resolution, taken):
    """Also where the default takes a range there, and has none in the plan."""

    def same(grids, unit):
        return tuple(fleet(grid.resolution, unit, users=users) for grid in grids)

    with pytest.warns(hv.GridTooFineWarning) as caught:
        plan = hv.plan(fleet(resolution, users=users, recount=same), epsilon=1)
    assert plan.allocation.clipping.mode == taken
    named = float(re.search(r"with epsilon ([\d.]+\d)", str(caught[0].message))[1])
    assert hv.plan(plan.facts, epsilon=named, advise=False).support.beats_constant
    assert named == epsilon_needed(plan)
    assert f"epsilon {named:g}" in advice(plan)
    # The refusal of a release is the text of this advice; the table has the number.
    table = hv.capacity(plan.facts, epsilon=1, resolutions=(resolution,), timeslots=("1h",))
    assert table.offers[0].epsilon_needed == named


def test_advice_names_the_finest_usable_grid():
    """Where it is asked for, advice names the finest resolution and the ε that would do."""
    plan = hv.plan(fleet(7, recount=recount), epsilon=1, clipping_range="bounds", advise=False)
    text = advice(plan)
    assert "use resolution 5" in text
    assert ", the finest usable grid" in text
    needed = float(text.split("epsilon ")[1].rstrip("."))
    assert hv.plan(
        fleet(7), epsilon=needed, clipping_range="bounds", advise=False
    ).support.beats_constant
    assert not hv.plan(
        fleet(7), epsilon=needed * 0.9, clipping_range="bounds", advise=False
    ).support.beats_constant


@pytest.mark.parametrize("method", ["per-cell", "equal-split"])
def test_the_epsilon_that_is_named_is_enough(method):
    """Planned by the same method, the named ε supports the grid, and a tenth less does not."""
    plan = hv.plan(fleet(7), epsilon=1, method=method, advise=False)
    needed = epsilon_needed(plan)
    for epsilon, enough in ((needed, True), (needed * 0.9, False)):
        again = hv.plan(fleet(7), epsilon=epsilon, method=method, advise=False)
        assert again.support.beats_constant is enough


@pytest.mark.parametrize("clipping_range", ["bounds", "auto", "private"])
def test_advice_and_the_table_agree_on_what_is_usable(clipping_range):
    """The finest usable grid of the advice is usable in the table, and no finer one is."""
    plan = hv.plan(
        fleet(7, recount=recount), epsilon=1, clipping_range=clipping_range, advise=False
    )
    finest = finest_useful(plan)
    table = assess_grids(plan, losses="none")
    usable = [one.cells for one in table.offers if one.beats_constant and one.resolution < 7]
    assert finest.cells == max(usable)


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
            mechanism=hv.mechanisms.Baseline(),
            advise=False,
        )
        assert plan.scale.mean() >= plan.support.floor * (1 - 1e-9)


def test_floor_is_reached_by_equal_users():
    """Where all users are alike, the floor is what the plan reaches."""
    plan = hv.plan(
        fleet(6), epsilon=1, method="per-cell", mechanism=hv.mechanisms.Baseline(), advise=False
    )
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
