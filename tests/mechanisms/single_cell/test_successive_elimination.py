"""Tests of `hexveil.mechanisms.single_cell.auto`."""

import tracemalloc

import numpy as np
import pytest

import hexveil as hv
from hexveil.mechanisms import priors
from hexveil.mechanisms.single_cell import auto as module
from hexveil.mechanisms.single_cell.auto import compare_candidates
from hexveil.mechanisms.single_cell.cell_allocation import study_cell

BOUNDS = (-3, 5)
CELL = study_cell([9, 5, 4, 4, 2, 1, 1, 1], BOUNDS)
MECHANISMS = [
    hv.mechanisms.Baseline(),
    hv.mechanisms.OptimalClipping(),
    hv.mechanisms.ArrayAveraging(),
    hv.mechanisms.Levy(gamma=1),
    hv.mechanisms.OptimizedQuantile(),
    hv.mechanisms.AKMV(),
]


def plans(mechanisms, cell=CELL, epsilon="0.5"):
    """Return a plan of each for the cell."""
    return [m.plan(cell.counts, bounds=cell.bounds, epsilon=epsilon) for m in mechanisms]


@pytest.mark.parametrize(
    "prior",
    [hv.mechanisms.Auto().prior, hv.evaluation.Uniform(), hv.evaluation.Normal(1, 2)],
    ids=str,
)
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
def test_predictions_agree_with_a_study(mechanism, prior):
    """What is predicted is what an evaluation on the prior's values finds, within 5 errors."""
    (found,) = compare_candidates(plans([mechanism]), CELL, prior, 4000)
    table = hv.evaluation.evaluate(
        [mechanism], counts=CELL.counts, bounds=BOUNDS, values=prior, epsilons=["0.5"],
        trials=20_000, seed=5,
    )  # fmt: skip
    study, error = table["mae"][0].as_py(), table["standard_error"][0].as_py()
    assert abs(found.mae - study) < 5 * np.hypot(found.standard_error, error)
    assert found.standard_error < 0.05 * found.mae


def test_values_at_a_bound_have_a_closed_form():
    """Where all values are at a bound, clipping misses by its worst-case bias."""
    (plan,) = plans([hv.mechanisms.OptimalClipping()])
    (found,) = compare_candidates([plan], CELL, hv.evaluation.Uniform(5, 5), 100)
    bias, scale = plan.worst_case_bias, plan.noise_scale
    assert found.mae == pytest.approx(bias + scale * np.exp(-bias / scale))
    assert found.standard_error == pytest.approx(0, abs=1e-12)


def test_a_plan_without_noise_misses_by_its_bias_alone():
    """With fewer users than the rank the middle of the bounds is published."""
    cell = study_cell([4, 1], BOUNDS)
    (plan,) = plans([hv.mechanisms.OptimalClipping()], cell)
    assert plan.noise_scale == 0
    (found,) = compare_candidates([plan], cell, hv.evaluation.Uniform(5, 5), 10)
    assert found.mae == pytest.approx(4)


def test_a_clearly_worse_plan_is_dropped_and_the_best_is_not():
    """Trials of a bad plan end early, those of the best run to the end."""
    good, bad = compare_candidates(
        plans([hv.mechanisms.ArrayAveraging(), hv.mechanisms.Baseline()]),
        CELL,
        hv.evaluation.PerUser(),
        1024,
    )
    assert (good.trials, bad.trials) == (1024, module.FIRST_TRIALS)


def test_dropping_changes_no_winner(monkeypatch):
    """Running all plans to the end picks the same one as dropping the hopeless on the way."""
    everything = [hv.mechanisms.AKMV("0.1"), hv.mechanisms.ArrayAveraging(cap="sqrt"), *MECHANISMS]

    def winner(cell, epsilon):
        found = compare_candidates(
            plans(everything, cell, epsilon), cell, hv.evaluation.PerUser(), 512
        )
        return min(range(len(found)), key=lambda i: (-found[i].trials, found[i].mae))

    rng = np.random.default_rng(3)
    cells = [(study_cell(rng.geometric(0.1, 30), (0, 65)), e) for e in ("0.25", 2, 8) * 4]
    dropping = [winner(*cell) for cell in cells]
    monkeypatch.setattr(module, "ELIMINATION_SIGMAS", 1e300)
    assert [winner(*cell) for cell in cells] == dropping


def test_few_trials_drop_nothing():
    """Below the least number of trials every plan has as many as were asked for."""
    assert {
        p.trials for p in compare_candidates(plans(MECHANISMS), CELL, hv.evaluation.PerUser(), 2)
    } == {2}


def test_plans_are_tried_in_parts_that_fit_into_memory(monkeypatch):
    """Small parts give the same number of trials, and errors that agree."""
    (whole,) = compare_candidates(
        plans([hv.mechanisms.ArrayAveraging()]), CELL, hv.evaluation.Uniform(), 500
    )
    monkeypatch.setattr(module, "_CHUNK", 24)
    monkeypatch.setattr(priors, "BLOCK", 30)
    (parts,) = compare_candidates(
        plans([hv.mechanisms.ArrayAveraging()] * 2), CELL, hv.evaluation.Uniform(), 500
    )[:1]
    assert parts.trials == 500
    tolerance = 5 * np.hypot(parts.standard_error, whole.standard_error)
    assert abs(parts.mae - whole.mae) < tolerance


def test_a_million_samples_need_little_memory():
    """One trial of samples at a time is held, and a large cell gets fewer trials."""
    cell = study_cell([1000] * 1000, BOUNDS)
    chosen = plans([hv.mechanisms.Baseline()], cell, 1)
    tracemalloc.start()
    compare_candidates(chosen, cell, hv.evaluation.Normal(1, 2), 3)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 30e6
    few = compare_candidates(
        plans([hv.mechanisms.Baseline()] * 2, cell, 1), cell, hv.evaluation.PerUser(), 10_000
    )
    assert few[0].trials == module.MAX_DRAWN // 1000


def test_samples_beyond_memory_are_refused_before_any_is_drawn():
    """Too many samples for one trial are refused; a prior per user needs none of them."""
    cell = study_cell([10**8, 1], BOUNDS)
    with pytest.raises(hv.InputError, match=r"100,000,001 samples.*PerUser\(Normal"):
        compare_candidates(
            plans([hv.mechanisms.Baseline()], cell, 1), cell, hv.evaluation.Normal(1, 2), 2
        )
    (found,) = compare_candidates(
        plans([hv.mechanisms.Baseline()], cell, 1), cell, hv.evaluation.PerUser(), 64
    )
    assert found.mae == pytest.approx(8, rel=1e-6)
