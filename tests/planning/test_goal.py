"""The goal of a plan: what was asked, and nothing that a solver found."""

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest

import hexveil as hv
from hexveil.planning.component import goal, mechanism_text
from hexveil.planning.saved_plans import decode, encode
from planning.kinds_of_plans import records_of

COUNTS = [[2, 1], [1, 1], [1, 3]]
ASKED = {"bounds": (0, 10), "epsilon": 1, "advise": False}


def planned(**options):
    """Return a plan of a small occupancy."""
    return hv.plan(hv.Occupancy.from_dense(options.pop("counts", COUNTS)), **ASKED | options)


def test_equal_goals_are_equal_text():
    """However its numbers were written, the same goal is the same text."""
    one = goal(planned())
    assert goal(planned(epsilon="1.0")) == goal(planned(epsilon=Fraction(1))) == one
    assert goal(planned(bounds=("0", 10.0))) == one
    assert goal(planned(mechanism=None)) == one


@pytest.mark.parametrize(
    "options",
    [
        {"epsilon": 2},
        {"epsilon": None, "target_error": "10%"},
        {"bounds": (-5, 16)},
        {"statistics": ("mean", "variance")},
        {"statistics": ("variance",)},
        {"method": "per-cell"},
        {"method": "equal-split"},
        {"objective": "max"},
        {"clipping_range": "private"},
        {"clipping_range": "private", "range_share": "0.1"},
        {"clipping_range": "per-cell"},
        {"edition": "2"},
        {"edition": "none"},
        {"counts": [[2, 1], [1, 1], [1, 2]]},
    ],
    ids=str,
)
def test_every_option_is_part_of_the_goal(options):
    """Another option, bound, count or edition is another goal."""
    assert goal(planned(**options)) != goal(planned())


def test_targets_of_each_statistic_are_told_apart():
    """Equal targets for other statistics are other goals."""
    asked = [
        {"mean": 2, "variance": 3},
        {"mean": 3, "variance": 2},
    ]
    both = {"epsilon": None, "statistics": ("mean", "variance")}
    goals = {str(goal(planned(target_error=one, **both))) for one in asked}
    assert len(goals) == 2


def test_the_goal_has_no_number_of_a_solver():
    """Other noise, factors or thresholds, and another prior, leave the goal as it was."""
    plan = planned()
    rows = replace(
        plan.allocation,
        noise_scale_records=np.nextafter(plan.allocation.noise_scale_records, 9),
        contribution_factor=np.ones(3),
    )
    assert goal(plan.changed(allocation=rows)) == goal(plan)
    assert goal(planned(baseline_error=2)) == goal(plan)


def test_fields_of_a_mechanism_are_part_of_it():
    """Two of one name and other settings are told apart; the name alone is the usual text."""

    @dataclass(frozen=True)
    class Half:
        share: Fraction
        name: str = "Half"

    assert mechanism_text(Half(Fraction(1, 2))) != mechanism_text(Half(Fraction(1, 3)))
    assert mechanism_text(hv.mechanisms.Baseline()) != mechanism_text(
        hv.mechanisms.OptimalClipping()
    )


def test_targets_that_predictions_meet_are_the_request_and_not_the_epsilon_found():
    """The ε of a search may differ in a late digit; the plan booked first is then the plan."""
    records = records_of("ranks")
    asked = {"statistics": ("p50",), "estimator": "ranks", "advise": False}
    plan = hv.plan(records, target_error="10%", **asked)
    elsewhere = hv.plan(records, epsilon=plan.requested_epsilon + Fraction(1, 100), **asked)
    elsewhere = elsewhere.changed(target_errors=plan.target_errors)
    assert goal(elsewhere) == goal(plan) == goal(hv.plan(records, target_error=8, **asked))
    booked = decode(encode(plan), elsewhere)
    assert booked.requested_epsilon == plan.requested_epsilon < elsewhere.requested_epsilon
    assert goal(hv.plan(records, target_error=9, **asked)) != goal(plan)
    assert goal(hv.plan(records, epsilon=plan.requested_epsilon, **asked)) != goal(plan)
