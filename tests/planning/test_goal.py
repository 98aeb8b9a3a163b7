"""The goal of a plan, as its request: what was asked, and nothing that a solver found."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import hexveil as hv
from planning.kinds_of_plans import records_of
from planning.sums import sums_of

COUNTS = [[2, 1], [1, 1], [1, 3]]
ASKED = {"epsilon": 1, "advise": False}


def released(data, plan, book=None):
    """Return the release of a plan, in an account of its own or in one that is given."""
    book = book or hv.Ledger("memory://", dataset="buses", budget=1000)
    return hv.release(data, plan, ledger=book, accept_noise=True)


def planned(counts=COUNTS, **options):
    """Return a small data set, and a plan of it."""
    data = sums_of(counts, bounds=(0, 10))
    return data, hv.plan(data, **ASKED | options)


def request(**options):
    """Return the digest of the request of a small data set."""
    return released(*planned(**options)).manifest["request"]


def test_equal_goals_are_one_request():
    """However its numbers were written, the same goal is the same request."""
    one = request()
    assert request(epsilon="1.0") == request(epsilon=Fraction(1)) == one
    assert request(bounds=("0", 10.0)) == request(bounds=(0, 10))
    assert request(mechanism=None) == one


@pytest.mark.parametrize(
    "options",
    [
        {"epsilon": 2},
        {"epsilon": None, "target_error": "10%"},
        {"bounds": (2, 8)},
        {"statistics": ("mean", "variance")},
        {"statistics": ("variance",)},
        {"method": "per-cell"},
        {"method": "per-cell", "mechanism": "Baseline"},
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
    assert request(**options) != request()


def test_targets_of_each_statistic_and_fields_of_a_mechanism_are_told_apart():
    """Equal targets for other statistics, and other settings of one mechanism, are other goals."""
    both = {"epsilon": None, "statistics": ("mean", "variance")}
    asked = [
        *(both | {"target_error": {"mean": a, "variance": 5 - a}} for a in (2, 3)),
        *({"method": "per-cell", "mechanism": f"Levy(gamma={gamma})"} for gamma in ("0.5", 1)),
    ]
    assert len({request(**one) for one in asked}) == 4


def test_the_goal_has_no_number_of_a_solver():
    """Other noise or factors, and another prior, are the request that was drawn."""
    book = hv.Ledger("memory://", dataset="buses", budget=1)
    data, plan = planned()
    released(data, plan, book)
    rows = replace(
        plan.allocation,
        noise_scale_records=np.nextafter(plan.allocation.noise_scale_records, 9),
        contribution_factor=np.ones(3),
    )
    assert released(data, plan.changed(allocation=rows), book).replayed
    assert released(*planned(baseline_error=2), book).replayed


def test_targets_that_predictions_meet_are_the_request_and_not_the_epsilon_found():
    """The ε of a search may differ in a late digit; the plan booked first is then the plan."""
    records, book = records_of("ranks"), hv.Ledger("memory://", dataset="buses", budget=1000)
    asked = {"statistics": ("p50",), "estimator": "ranks", "advise": False}
    plan = hv.plan(records, target_error="10%", **asked)
    first = released(records, plan, book)
    elsewhere = hv.plan(records, epsilon=plan.requested_epsilon + Fraction(1, 100), **asked)
    elsewhere = elsewhere.changed(target_errors=plan.target_errors)
    for one in (elsewhere, hv.plan(records, target_error=8, **asked)):
        again = released(records, one, book)
        assert (again.replayed, again.manifest) == (True, first.manifest)
    for other in ({"target_error": 9}, {"epsilon": plan.requested_epsilon}):
        assert not released(records, hv.plan(records, **other, **asked), book).replayed
