"""The methods side by side."""

from types import SimpleNamespace

import numpy as np
import pytest

import hexveil as hv
from hexveil.accounting.error_model import MAX_CONSTANT_ERROR
from hexveil.base.errors import InputError
from hexveil_research.papers.comp_setting import comp_setting
from planning.kinds_of_plans import planned, records_of
from stores import distributed


def figures(rows):
    """Return the figures of rows by name; None of one that is not possible."""
    return {row.name: SimpleNamespace(**row.figures) if row.figures else None for row in rows}


def test_within_a_loss_every_method_has_a_line():
    """Each stays within the loss; the joint plans have the least average and largest error."""
    plan = hv.plan(comp_setting(3, 0, cells=8), bounds=(0, 65), epsilon=2, advise=False)
    lines = figures(hv.compare(plan).methods)
    assert all(line.epsilon <= 2 for line in lines.values())
    largest, average = lines["joint, max"], lines["joint, mean"]
    assert largest.worst == min(line.worst for line in lines.values())
    assert average.gap >= 0
    assert 0 <= largest.gap < 0.01
    assert (largest.certifies, average.certifies) == ("max error", "mean error")
    assert largest.lower_bound == pytest.approx(largest.worst * (1 - largest.gap))
    assert average.lower_bound <= average.average == min(line.average for line in lines.values())
    assert lines["per-cell"].gap is None
    assert lines["equal-split"].epsilon < lines["per-cell"].epsilon


def test_rows_are_judged_by_one_measure():
    """Two statistics under the other objective have no certificate, which is of another measure."""
    options = {"bounds": (0, 1), "epsilon": 4, "statistics": ("mean", "variance"), "advise": False}
    counts = hv.Occupancy.from_dense([[4, 1], [2, 3]] * 20)
    comparison = hv.compare(hv.plan(counts, **options))
    lines = figures(comparison.methods)
    models = hv.plan(counts, objective="max", **options).error_models
    shares = [models[name].error / most for name, most in MAX_CONSTANT_ERROR.items()]
    assert lines["joint, max"].average == pytest.approx(np.mean(shares))
    assert lines["joint, mean"].certifies == "mean error"
    assert lines["joint, max"].certifies is None
    # Variances are for methods, not for mechanisms with stages of their own.
    assert comparison.mechanisms == []
    assert "for means within an epsilon only" in comparison.no_mechanisms


@pytest.mark.slow
def test_with_a_target_the_joint_plan_is_the_cheapest():
    """The question is turned round: prices at the same errors."""
    plan = hv.plan(comp_setting(3, 1), bounds=(0, 65), target_error="4%", advise=False)
    comparison = hv.compare(plan)
    lines = figures(comparison.methods)
    assert list(lines) == ["joint, max", "per-cell", "clip-user", "equal-split"]
    assert all(line.worst <= 0.04 * 65 * (1 + 1e-9) for line in lines.values())
    prices = [line.epsilon for line in lines.values()]
    assert prices[0] == min(prices) < prices[2] < lines["clip-user"].claimed
    assert comparison.mechanisms == []


def test_a_method_that_cannot_says_why():
    """Without a plan there are no figures; the others have theirs."""
    whole = hv.Occupancy.from_dense([[2, 1], [1, 3], [1, 1]])
    apart = hv.plan(distributed(whole, 3), bounds=(0, 1), epsilon=1, advise=False)
    rows = {row.name: row for row in hv.compare(apart).methods}
    assert "in one machine's memory" in rows["clip-user"].trouble
    assert not rows["clip-user"].figures
    assert (rows["joint, mean"].trouble, rows["joint, mean"].is_planned) == (None, True)


@pytest.mark.slow
def test_clipping_ranges_are_compared():
    """A row for each range at one price; a plan stands in its own row as it is."""
    crowd = hv.Occupancy.from_dense(1 + np.random.default_rng(3).poisson(1.0, (400, 6)))

    def ranges(**options):
        usual = {"epsilon": 1, "bounds": (0, 60), "advise": False}
        made = hv.plan(crowd, **usual | options)
        rows = {row.name: row for row in hv.compare(made).clipping_ranges}
        assert all(row.is_planned == (name == options["clipping_range"])
                   for name, row in rows.items())  # fmt: skip
        return made, rows

    plan, rows = ranges(clipping_range="per-cell")
    private, _ = ranges(clipping_range="private")
    assert list(rows) == ["bounds", "private", "per-cell"]
    found = figures(rows.values())
    assert all(one.epsilon <= 1 for one in found.values())
    assert found["per-cell"].average == pytest.approx(plan.expected_error)
    assert found["private"].average == pytest.approx(private.expected_error)
    _, rows = ranges(clipping_range="private", statistics=("mean", "sd"))
    assert "the mean alone" in rows["per-cell"].trouble
    assert rows["bounds"].trouble is None
    assert ranges(clipping_range="bounds", objective="max")[1] == {}


@pytest.fixture(scope="module")
def mechanism_rows():
    """Return mechanisms on a map whose busiest user is the only one in more than a cell."""
    counts = np.eye(3, dtype=int).repeat(20, axis=0)
    counts[0] = 1
    counts[1] = 6, 0, 0
    plan = hv.plan(hv.Occupancy.from_dense(counts), bounds=(0, 60), epsilon=6, advise=False)
    return figures(hv.compare(plan).mechanisms)


@pytest.mark.slow
def test_mechanisms_are_compared_by_what_is_predicted_and_proven(mechanism_rows):
    """All of the papers' and ours; the best prediction first; a worst case where one is proven."""
    rows = list(mechanism_rows.values())
    errors = [row.predicted_error for row in rows]
    assert errors == sorted(errors)
    assert {name.partition("(")[0] for name in mechanism_rows} == {
        "Baseline", "OptimalClipping", "ArrayAveraging", "OptArrayAveraging", "Levy",
        "FixedQuantile", "OptimizedQuantile", "AKMV", "Auto",
    }  # fmt: skip
    for name, row in mechanism_rows.items():
        assert row.epsilon <= 6
        has_bound = name.startswith(("Baseline", "Optimal", "Array", "OptArray"))
        if not name.startswith("Auto"):
            assert (row.proven_error is not None) == has_bound, name


@pytest.mark.slow
def test_private_ranges_gain_nothing_from_exact_accounting(mechanism_rows):
    """Their users lose all of a cell's loss, whatever share of the cell they have."""
    for name, row in mechanism_rows.items():
        if name.startswith(("Levy", "Fixed", "Optimized", "AKMV")):
            assert row.gain == pytest.approx(1, abs=1e-6), name
    # The user of three cells has 1 of 25 records where another has 6: a sixth of that loss.
    assert mechanism_rows["Baseline()"].gain > 1.2


def test_mechanisms_with_options_are_compared_with_the_others():
    """The requested one is in the table, too; the slow one says how to plan it on large maps."""
    counts = np.eye(61, dtype=int)
    plan = hv.plan(
        hv.Occupancy.from_dense(counts),
        bounds=(0, 60),
        epsilon=1,
        method="per-cell",
        mechanism="Levy(gamma=0.7)",
        advise=False,
    )
    rows = {row.name: row for row in hv.compare(plan).mechanisms}
    assert rows["Levy(gamma=0.7)"].figures["predicted_error"] > 0
    assert "on 61 cells its predictions take minutes" in rows["Auto()"].trouble


def test_large_maps_are_not_compared_by_mechanisms():
    """The reason names the limit and the cells."""
    occupancy = hv.Occupancy.from_dense([[2] * 201, [1] * 201])
    plan = hv.plan(occupancy, bounds=(0, 10), epsilon=1, advise=False)
    comparison = hv.compare(plan)
    assert comparison.mechanisms == []
    assert "on at most 200 cells; here are 201" in comparison.no_mechanisms


def test_what_is_no_plan_is_refused():
    """Two releases are compared by another function, which the message names."""
    with pytest.raises(InputError, match=r"compare takes a plan, got int; hv.compare_releases"):
        hv.compare(3)


def test_columns_are_compared_one_by_one():
    """Of several value columns the message names the way; a distribution has its estimators."""
    plan = planned("columns of medians", records_of("columns of medians"))
    with pytest.raises(InputError, match=r'hv.compare\(plan.plans\["speed"\]\)'):
        hv.compare(plan)
    for one in plan.plans.values():
        comparison = hv.compare(one)
        assert {way.name for way in comparison.estimators} == {"ranks", "bins"}
        assert [way.name for way in comparison.estimators if way.is_planned] == [one.estimator]
        assert comparison.methods == []
