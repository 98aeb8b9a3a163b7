"""The methods side by side."""

import numpy as np
import pytest

import hexveil as hv
from hexveil.accounting.error_model import MAX_CONSTANT_ERROR
from hexveil.base.errors import InputError
from hexveil.planning.alternatives import compare_mechanisms, explain_absence
from hexveil.planning.comparison import compare_methods, shrunk
from hexveil_research.papers.comp_setting import comp_setting
from planning.kinds_of_plans import planned, records_of


def test_within_a_loss_every_method_has_a_line():
    """Each stays within the loss; the joint plans have the least average and largest error."""
    plan = hv.plan(comp_setting(3, 0, cells=8), bounds=(0, 65), epsilon=2, advise=False)
    lines = {(line.method, line.objective): line for line in compare_methods(plan.single)}
    assert all(line.trouble is None and line.epsilon <= 2 for line in lines.values())
    largest, average = lines["joint", "max"], lines["joint", "mean"]
    assert largest.worst == min(line.worst for line in lines.values())
    assert average.gap >= 0
    assert 0 <= largest.gap < 0.01
    assert (largest.certifies, average.certifies) == ("max error", "mean error")
    assert largest.lower_bound == pytest.approx(largest.worst * (1 - largest.gap))
    assert average.lower_bound <= average.average == min(line.average for line in lines.values())
    assert lines["per-cell", "max"].gap is None
    assert lines["equal-split", "max"].epsilon < lines["per-cell", "max"].epsilon


def test_rows_are_judged_by_one_measure():
    """Two statistics under the other objective have no certificate, which is of another measure."""
    options = {"bounds": (0, 1), "epsilon": 4, "statistics": ("mean", "variance"), "advise": False}
    counts = hv.Occupancy.from_dense([[4, 1], [2, 3]] * 20)
    average, largest = compare_methods(hv.plan(counts, **options).single)[:2]
    models = hv.plan(counts, objective="max", **options).error_models
    shares = [models[name].error / most for name, most in MAX_CONSTANT_ERROR.items()]
    assert largest.average == pytest.approx(np.mean(shares))
    assert (average.certifies, largest.certifies) == ("mean error", None)


@pytest.mark.slow
def test_with_a_target_the_joint_plan_is_the_cheapest():
    """The question is turned round: prices at the same errors."""
    plan = hv.plan(comp_setting(3, 1), bounds=(0, 65), target_error="4%", advise=False)
    lines = compare_methods(plan.single)
    assert [line.method for line in lines] == ["joint", "per-cell", "clip-user", "equal-split"]
    assert all(line.worst <= 0.04 * 65 * (1 + 1e-9) for line in lines)
    assert lines[0].epsilon == min(line.epsilon for line in lines)
    assert lines[0].epsilon < lines[2].epsilon < lines[2].claimed


def test_a_method_that_cannot_says_why():
    """CLIP-USER needs one span; its line says so and the others have their figures."""
    occupancy = hv.Occupancy.from_dense([[2, 1], [1, 3], [1, 1]])
    plan = hv.plan(occupancy, bounds=(0, 1), epsilon=1, advise=False)
    wide = plan.changed(upper=np.array([1.0, 2.0]))
    lines = {(line.method, line.objective): line for line in hv.compare(wide).methods}
    assert "same bounds" in lines["clip-user", "max"].trouble
    assert lines["clip-user", "max"].epsilon is None
    assert lines["joint", "mean"].trouble is None


@pytest.mark.parametrize("statistics", [("mean",), ("mean", "variance"), ("sd",)])
def test_users_shrunk_are_those_not_kept_whole(statistics):
    """A user counts once, however many of its cells keep less than all."""
    plan = hv.plan(
        comp_setting(3, 0), bounds=(0, 65), epsilon=1, statistics=statistics, advise=False
    )
    occupancy, cut = plan.occupancy, set()
    for name, part in plan.error_models.items():
        kept = plan.contributions("mean") if name == "mean" else plan.contributions("variance")
        for cell, user, n, k in zip(occupancy.cell, occupancy.user, occupancy.n, kept, strict=True):
            if part.noised[cell] and k < n:
                cut.add(int(user))
    assert shrunk(plan) == len(cut)
    assert 0 < len(cut) < occupancy.n_users


@pytest.fixture(scope="module")
def mechanism_rows():
    """Return mechanisms on a map whose busiest user is the only one in more than a cell."""
    counts = np.eye(3, dtype=int).repeat(20, axis=0)
    counts[0] = 1
    counts[1] = 6, 0, 0
    plan = hv.plan(hv.Occupancy.from_dense(counts), bounds=(0, 60), epsilon=6, advise=False)
    return {row.mechanism: row for row in hv.compare(plan).mechanisms}


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
        assert (row.proven_error is not None) == row.is_proven
        if not name.startswith("Auto"):
            assert row.is_proven == has_bound, name


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
    rows = {row.mechanism: row for row in hv.compare(plan).mechanisms}
    assert rows["Levy(gamma=0.7)"].predicted_error > 0
    assert "on 61 cells its predictions take minutes" in rows["Auto()"].trouble


@pytest.mark.parametrize("options", [{"epsilon": 1, "statistics": "sd"}, {"target_error": "20%"}])
def test_requests_that_few_mechanisms_answer_are_not_compared(options):
    """Variances and targets are for methods, not for mechanisms with stages of their own."""
    occupancy = hv.Occupancy.from_dense([[3, 1], [1, 2]] * 20)
    comparison = hv.compare(hv.plan(occupancy, bounds=(0, 10), advise=False, **options))
    assert comparison.mechanisms == []
    assert len(comparison.methods) > 3


def test_large_maps_are_not_compared_by_mechanisms():
    """The reason names the limit and the cells."""
    occupancy = hv.Occupancy.from_dense([[2] * 201, [1] * 201])
    plan = hv.plan(occupancy, bounds=(0, 10), epsilon=1, advise=False)
    assert compare_mechanisms(plan.single) == []
    assert "on at most 200 cells; here are 201" in explain_absence(plan)


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
        assert {way.estimator for way in comparison.estimators} == {"ranks", "bins"}
        assert [way.estimator for way in comparison.estimators if way.is_chosen] == [one.estimator]
        assert comparison.methods == []
