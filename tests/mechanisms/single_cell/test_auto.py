"""AUTO: the mechanism of least predicted error, chosen from public facts."""

import numpy as np
import pytest

import hexveil as hv
from hexveil.mechanisms.single_cell import study_cell
from hexveil.mechanisms.single_cell.auto import PAPERS_MECHANISMS, compare_candidates

BOUNDS, EPSILONS = (0, 65), ("0.25", "0.5", "1", "2")
COUNTS = np.random.default_rng(7).geometric(0.08, 60)


def test_the_best_prediction_is_chosen():
    """The chosen one is named first, ran through all trials, and no other that did is better."""
    for epsilon in EPSILONS:
        plan = hv.mechanisms.Auto().plan(COUNTS, bounds=BOUNDS, epsilon=epsilon)
        names, found = list(plan.predictions), list(plan.predictions.values())
        assert names[0] == plan.chosen.name
        assert set(names) == {one.name for one in PAPERS_MECHANISMS}
        assert found[0].trials == max(p.trials for p in found)
        assert found[0].mae == min(p.mae for p in found if p.trials == found[0].trials)


def test_the_prior_decides():
    """Clipping to the middle is right for values in the middle, from above for low ones."""
    pair = [hv.mechanisms.OptimalClipping(), hv.mechanisms.AKMV("0.25")]
    for prior, best in (
        (hv.evaluation.Normal(32.5, 1), pair[0]),
        (hv.evaluation.Uniform(0, 5), pair[1]),
    ):
        assert hv.mechanisms.Auto(prior, pair).plan(COUNTS, bounds=BOUNDS, epsilon=1).chosen == best


NARROW = (-3, 5)
CELL = study_cell([9, 5, 4, 4, 2, 1, 1, 1], NARROW)
MECHANISMS = [
    hv.mechanisms.Baseline(), hv.mechanisms.OptimalClipping(), hv.mechanisms.ArrayAveraging(),
    hv.mechanisms.Levy(gamma=1), hv.mechanisms.OptimizedQuantile(), hv.mechanisms.AKMV(),
]  # fmt: skip


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
        [mechanism], counts=CELL.counts, bounds=NARROW, values=prior, epsilons=["0.5"],
        trials=20_000, seed=5,
    )  # fmt: skip
    study, error = table["mae"][0].as_py(), table["standard_error"][0].as_py()
    assert abs(found.mae - study) < 5 * np.hypot(found.standard_error, error)
    assert found.standard_error < 0.05 * found.mae


def test_samples_beyond_memory_are_refused_before_any_is_drawn():
    """Too many samples for one trial are refused; a prior per user needs none of them."""
    cell = study_cell([10**8, 1], NARROW)
    with pytest.raises(hv.InputError, match=r"100,000,001 samples.*PerUser\(Normal"):
        compare_candidates(
            plans([hv.mechanisms.Baseline()], cell, 1), cell, hv.evaluation.Normal(1, 2), 2
        )
    (found,) = compare_candidates(
        plans([hv.mechanisms.Baseline()], cell, 1), cell, hv.evaluation.PerUser(), 64
    )
    assert found.mae == pytest.approx(8, rel=1e-6)
