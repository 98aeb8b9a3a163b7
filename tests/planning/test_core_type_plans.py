"""One goal is planned differently by different processors, and each plan is a plan of that goal."""

import pytest

import hexveil as hv
from planning.core_type_plans import GOALS, dataset, differing, digest, made, saved

pytestmark = pytest.mark.slow

SOURCE = "few cells"
NEAR = 1e-2
"""Part by which plans may differ; a search for a target ends within a few thousandths."""


@pytest.fixture(scope="module")
def plans(core_types, tmp_path_factory):
    """Return the folders of all plans by processor and goal."""
    folder = tmp_path_factory.mktemp("plans")
    return {core: saved(core, SOURCE, folder) for core in core_types}


def test_processors_give_goals_different_plans(plans):
    """What tests of a request's identity rely on: a plan's digits are no part of a goal."""
    assert differing(plans)


@pytest.mark.slow
@pytest.mark.parametrize("goal", GOALS)
def test_the_plans_of_all_processors_are_equally_good(plans, goal):
    """Each loads for the same records, stays within what was asked, and errs as little."""
    here = made(SOURCE, goal)
    for folders in plans.values():
        there = hv.Plan.load(folders[goal], dataset(SOURCE))
        assert there.occupancy.fingerprint == dataset(SOURCE).occupancy.fingerprint
        assert "epsilon" not in GOALS[goal] or there.epsilon <= GOALS[goal]["epsilon"]
        for figure in (
            lambda plan: float(plan.epsilon),
            lambda plan: plan.objective_errors().mean(),
        ):
            assert figure(there) == pytest.approx(figure(here), rel=NEAR)


def test_a_processor_plans_a_goal_the_same_each_time(plans, core_types, tmp_path):
    """Digits differ by the processor alone."""
    again = saved(core_types[-1], SOURCE, tmp_path, ["mean", "cell ranges"])
    for goal, folder in again.items():
        assert digest(folder) == digest(plans[core_types[-1]][goal])
