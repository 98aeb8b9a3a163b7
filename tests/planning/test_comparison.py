"""The methods side by side."""

from types import SimpleNamespace

import pytest

import hexveil as hv
from hexveil import InputError
from hexveil_research.papers.comp_setting import comp_setting
from model.stores import distributed
from planning.kinds_of_plans import planned, records_of


def figures(rows):
    """Return the figures of rows by name; None of one that is not possible."""
    return {row.name: SimpleNamespace(**row.figures) if row.figures else None for row in rows}


def test_within_a_loss_every_method_has_a_line():
    """Each stays within the loss; the joint plans have the least average and largest error.

    A private range goes with the joint method: others stand beside it as they are by themselves.
    """
    crowd = comp_setting(3, 0, cells=8)
    options = {"bounds": (0, 65), "epsilon": 2, "advise": False}
    for asked in ({}, {"clipping_range": "private"}):
        plan = hv.plan(crowd, **options | asked)
        lines = figures(hv.compare(plan))
        assert all(line.epsilon <= 2 for line in lines.values())
        assert lines["joint, mean"].average == plan.expected_error
        assert lines["joint, mean"].average == min(line.average for line in lines.values())
        assert lines["equal-split"].epsilon < lines["per-cell"].epsilon
        alone = hv.plan(crowd, method="per-cell", **options)
        assert lines["per-cell"].average == pytest.approx(alone.error.mean())
    plain = figures(hv.compare(hv.plan(crowd, **options)))
    largest, average = plain["joint, max"], plain["joint, mean"]
    assert largest.worst == min(line.worst for line in plain.values())
    assert (largest.certifies, average.certifies) == ("max error", "mean error")
    assert largest.lower_bound == pytest.approx(largest.worst * (1 - largest.gap))
    assert average.lower_bound <= average.average
    assert plain["per-cell"].gap is None


def test_rows_are_judged_by_one_measure():
    """Two statistics under the other objective have no certificate, which is of another measure."""
    options = {"bounds": (0, 1), "epsilon": 4, "statistics": ("mean", "variance"), "advise": False}
    lines = figures(hv.compare(hv.plan(hv.Occupancy.from_dense([[4, 1], [2, 3]] * 20), **options)))
    assert (lines["joint, mean"].certifies, lines["joint, max"].certifies) == ("mean error", None)


@pytest.mark.slow
def test_with_a_target_the_joint_plan_is_the_cheapest():
    """The question is turned round: prices at the same errors."""
    plan = hv.plan(comp_setting(3, 1), bounds=(0, 65), target_error="4%", advise=False)
    lines = figures(hv.compare(plan))
    assert list(lines) == ["joint, max", "per-cell", "clip-user", "equal-split"]
    assert all(line.worst <= 0.04 * 65 * (1 + 1e-9) for line in lines.values())
    prices = [line.epsilon for line in lines.values()]
    assert prices[0] == min(prices) < prices[2] < lines["clip-user"].claimed


def test_a_method_that_cannot_says_why():
    """Without a plan there are no figures; the others have theirs."""
    whole = hv.Occupancy.from_dense([[2, 1], [1, 3], [1, 1]])
    apart = hv.plan(distributed(whole, 3), bounds=(0, 1), epsilon=1, advise=False)
    rows = {row.name: row for row in hv.compare(apart)}
    assert "in one machine's memory" in rows["clip-user"].trouble
    assert not rows["clip-user"].figures
    assert (rows["joint, mean"].trouble, rows["joint, mean"].is_planned) == (None, True)


def test_what_is_no_plan_of_means_of_one_column_is_refused():
    """Two releases are compared by another function, columns one by one: the message names both."""
    with pytest.raises(InputError, match=r"compare takes a plan, got int; hv.compare_releases"):
        hv.compare(3)
    plan = planned("columns of medians", records_of("columns of medians"))
    with pytest.raises(InputError, match=r'hv.compare\(plan.plans\["speed"\]\)'):
        hv.compare(plan)
    with pytest.raises(InputError, match="plans of means and variances"):
        hv.compare(plan.plans["speed"])
