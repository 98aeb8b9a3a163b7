"""The methods side by side."""

from types import SimpleNamespace

import pytest

import hexveil as hv
from hexveil.base.errors import InputError
from hexveil_research.papers.comp_setting import comp_setting
from planning.kinds_of_plans import planned, records_of
from stores import distributed


def figures(rows):
    """Return the figures of rows by name; None of one that is not possible."""
    return {row.name: SimpleNamespace(**row.figures) if row.figures else None for row in rows}


def test_within_a_loss_every_method_has_a_line():
    """Each stays within the loss; the joint plan has the least average error; targets are its own.

    A private range goes with the joint method: others stand beside it as they are by themselves.
    """
    crowd = comp_setting(3, 0, cells=8)
    options = {"bounds": (0, 65), "epsilon": 2, "advise": False}
    for asked in ({}, {"clipping_range": "private"}):
        plan = hv.plan(crowd, **options | asked)
        lines = figures(hv.compare(plan).methods)
        assert list(lines) == ["joint", "per-cell", "equal-split", "clip-user"]
        assert all(line.epsilon <= 2 for line in lines.values())
        assert lines["joint"].average == plan.expected_error
        assert lines["joint"].average == min(line.average for line in lines.values())
        assert lines["equal-split"].epsilon < lines["per-cell"].epsilon
        alone = hv.plan(crowd, method="per-cell", **options)
        assert lines["per-cell"].average == pytest.approx(alone.error.mean())
    rows = hv.compare(hv.plan(crowd, bounds=(0, 65), target_error=9, advise=False)).methods
    assert rows[0].is_planned
    assert all("target_error goes with" in row.trouble for row in rows[1:])


def test_a_method_that_cannot_says_why():
    """Without a plan there are no figures; the others have theirs."""
    whole = hv.Occupancy.from_dense([[2, 1], [1, 3], [1, 1]])
    apart = hv.plan(distributed(whole, 3), bounds=(0, 1), epsilon=1, advise=False)
    rows = {row.name: row for row in hv.compare(apart).methods}
    assert "in one machine's memory" in rows["clip-user"].trouble
    assert not rows["clip-user"].figures
    assert (rows["joint"].trouble, rows["joint"].is_planned) == (None, True)


def test_what_is_no_plan_of_one_column_is_refused():
    """Two releases are compared by another function, columns one by one: the message names both.

    A distribution has its estimators.
    """
    with pytest.raises(InputError, match=r"compare takes a plan, got int; hv.compare_releases"):
        hv.compare(3)
    plan = planned("columns of medians", records_of("columns of medians"))
    with pytest.raises(InputError, match=r'hv.compare\(plan.plans\["speed"\]\)'):
        hv.compare(plan)
    for one in plan.plans.values():
        comparison = hv.compare(one)
        assert {way.name for way in comparison.estimators} == {"ranks", "bins"}
        assert [way.name for way in comparison.estimators if way.is_planned] == [one.estimator]
        assert comparison.methods == []
