"""AUTO: the mechanism of least predicted error, chosen from public facts."""

import itertools
import math

import numpy as np
import pytest

import hexveil as hv
from hexveil.mechanisms.simulated_noise import SimulatedNoise
from hexveil.mechanisms.single_cell.auto import PAPERS_MECHANISMS
from hexveil.simulation.own_cells import own_cell

BOUNDS, EPSILONS = (0, 65), ("0.25", "0.5", "1", "2")
COUNTS = np.random.default_rng(7).geometric(0.08, 60)
BUSES = {"user": "user_id", "value": "value", "lat": "lat", "lon": "lon", "time": "timestamp"}


def regrets(counts, means, bounds, trials=3000):
    """Return Auto's error over the least of all candidates', less one, at each ε."""
    table = hv.evaluation.evaluate(
        PAPERS_MECHANISMS,
        counts=counts,
        user_means=means,
        bounds=bounds,
        epsilons=EPSILONS,
        trials=trials,
    )
    keys = zip(table["mechanism"].to_pylist(), table["epsilon"].to_pylist(), strict=True)
    errors = dict(zip(keys, table["mae"].to_pylist(), strict=True))
    found = []
    for epsilon in EPSILONS:
        plan = hv.mechanisms.Auto().plan(counts, bounds=bounds, epsilon=epsilon)
        best = min(errors[one.name, float(epsilon)] for one in PAPERS_MECHANISMS)
        found.append(errors[plan.chosen.name, float(epsilon)] / best - 1)
    return found


def test_the_plan_is_the_chosen_mechanisms():
    """Every figure, a release and simulations are those of the chosen mechanism's own plan."""
    for epsilon in ("0.25", 8):
        plan = hv.mechanisms.Auto().plan(COUNTS, bounds=BOUNDS, epsilon=epsilon)
        alone = plan.chosen.plan(COUNTS, bounds=BOUNDS, epsilon=epsilon)
        figures = ("epsilon", "sensitivity", "noise_scale", "worst_case_bias", "worst_case_error",
                   "bound95")  # fmt: skip
        assert [getattr(plan, f) for f in figures] == [getattr(alone, f) for f in figures]
        for means in (np.zeros(60), np.full(60, 65.0), np.linspace(0, 65, 60)):
            noise = [SimulatedNoise(np.random.default_rng(1), 1) for _ in range(2)]
            assert plan.estimate(means, noise[0]) == alone.estimate(means, noise[1])
            many = [p.simulate(means, np.random.default_rng(1), 5) for p in (plan, alone)]
            assert (many[0] == many[1]).all()


def test_the_best_prediction_is_chosen():
    """The chosen one is named first, ran through all trials, and no other that did is better."""
    for epsilon in EPSILONS:
        plan = hv.mechanisms.Auto().plan(COUNTS, bounds=BOUNDS, epsilon=epsilon)
        names, found = list(plan.predictions), list(plan.predictions.values())
        assert names[0] == plan.chosen.name
        assert set(names) == {one.name for one in PAPERS_MECHANISMS}
        assert found[0].trials == max(p.trials for p in found)
        assert found[0].mae == min(p.mae for p in found if p.trials == found[0].trials)


def test_the_same_public_facts_give_the_same_choice():
    """Neither other randomness nor an earlier plan changes a prediction."""
    first = hv.mechanisms.Auto().plan(COUNTS, bounds=BOUNDS, epsilon=1).predictions
    np.random.default_rng(5).normal(size=10)
    hv.mechanisms.Auto().plan(COUNTS[:9], bounds=BOUNDS, epsilon=1)
    assert (
        hv.mechanisms.Auto().plan(list(COUNTS), bounds=("0", "65.0"), epsilon="1.0").predictions
        == first
    )


def test_the_bounds_may_lie_anywhere():
    """Shifting and stretching the bounds shifts nothing and stretches predictions alike."""
    plain = hv.mechanisms.Auto().plan(COUNTS, bounds=(0, 8), epsilon=1)
    moved = hv.mechanisms.Auto().plan(COUNTS, bounds=(-32, -16), epsilon=1)
    assert moved.chosen == plain.chosen
    best = plain.chosen.name
    assert moved.predictions[best].mae == pytest.approx(2 * plain.predictions[best].mae)


def test_ties_go_to_the_first_candidate():
    """Two ways to write one plan are predicted alike, and the one named first is taken."""
    cap = hv.theory.median_cap(COUNTS)
    twins = [hv.mechanisms.ArrayAveraging(cap="median"), hv.mechanisms.ArrayAveraging(cap=cap)]
    for pair in (twins, twins[::-1]):
        plan = hv.mechanisms.Auto(candidates=pair).plan(COUNTS, bounds=BOUNDS, epsilon=1)
        assert plan.chosen == pair[0]
        assert len({p.mae for p in plan.predictions.values()}) == 1


def test_the_prior_decides():
    """Clipping to the middle is right for values in the middle, from above for low ones."""
    pair = [hv.mechanisms.OptimalClipping(), hv.mechanisms.AKMV("0.25")]
    for prior, best in (
        (hv.evaluation.Normal(32.5, 1), pair[0]),
        (hv.evaluation.Uniform(0, 5), pair[1]),
    ):
        assert hv.mechanisms.Auto(prior, pair).plan(COUNTS, bounds=BOUNDS, epsilon=1).chosen == best


@pytest.mark.parametrize("counts", [[7], [1], [2, 1], [5] * 30, [10**6, *[3] * 20], [40, 30, 20]])
def test_odd_cells_work(counts):
    """Odd cells are planned at any ε and anywhere, and the figures are finite."""
    for epsilon, bounds in itertools.product(["0.01", 1, 100], [(0, 65), (-3, 5)]):
        plan = hv.mechanisms.Auto(trials=64).plan(counts, bounds=bounds, epsilon=epsilon)
        assert 0 <= plan.sensitivity <= bounds[1] - bounds[0]
        assert math.isfinite(plan.bound95)
        assert math.isfinite(
            plan.simulate(np.full(len(counts), 2.0), np.random.default_rng(1), 1)[0]
        )
        assert all(math.isfinite(p.mae) for p in plan.predictions.values())


def test_samples_drawn_one_by_one_work_for_one_user_too():
    """A prior of independent samples plans the smallest cell."""
    plan = hv.mechanisms.Auto(hv.evaluation.Normal(20.66769, 10.730)).plan(
        [1], bounds=BOUNDS, epsilon=100
    )
    assert plan.predictions[plan.chosen.name].mae < 1


def test_names():
    """Auto shows itself as constructed, and can be hashed and compared."""
    assert hv.mechanisms.Auto().name == "Auto()"
    assert (
        repr(hv.mechanisms.Auto(prior=hv.evaluation.Normal(20, 10)))
        == "Auto(prior=Normal(mean=20, sd=10))"
    )
    few = hv.mechanisms.Auto(candidates=[hv.mechanisms.Baseline(), hv.mechanisms.AKMV()], trials=99)
    assert few.name == 'Auto(candidates=(Baseline(), AKMV(split="0.5")), trials=99)'
    assert few == hv.mechanisms.Auto(
        candidates=(hv.mechanisms.Baseline(), hv.mechanisms.AKMV()), trials=99
    )
    assert (
        len(
            {
                hv.mechanisms.Auto(),
                hv.mechanisms.Auto(prior=hv.evaluation.PerUser(hv.evaluation.UnknownRange())),
                few,
            }
        )
        == 2
    )


def test_auto_can_be_compared_with_others():
    """An evaluation takes Auto like any mechanism, and finds the chosen one's error."""
    chosen = hv.mechanisms.Auto().plan(COUNTS, bounds=BOUNDS, epsilon=1).chosen
    auto = hv.mechanisms.Auto()
    table = hv.evaluation.evaluate(
        [auto, chosen], counts=COUNTS, values=auto.prior, bounds=BOUNDS, epsilons=[1], trials=4000
    )
    (one, other), errors = table["mae"].to_pylist(), table["standard_error"].to_pylist()
    assert abs(one - other) < 5 * math.hypot(*errors)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"prior": "uniform"}, r"Auto needs a distribution like Normal\(20, 10\), got 'uniform'"),
        ({"prior": None}, "got None"),
        ({"candidates": []}, "at least one candidate"),
        ({"candidates": [hv.mechanisms.Baseline]}, r"a mechanism like Baseline\(\), got <class"),
        ({"candidates": [3]}, "got 3"),
        ({"candidates": [hv.mechanisms.Levy(), hv.mechanisms.Levy(gamma=0.2)]}, "named twice"),
        ({"trials": 1}, "trials must be a whole number of at least 2, got 1"),
        ({"trials": 2.5}, "got 2.5"),
        ({"trials": True}, "got True"),
    ],
)
def test_arguments_without_meaning_are_refused(arguments, message):
    """Each wrong argument is one sentence that names it."""
    with pytest.raises(hv.InputError, match=message):
        hv.mechanisms.Auto(**arguments)


@pytest.mark.slow
def test_regret_on_simulated_cells():
    """On users who differ much or little, of counts unlike one another, regret is within 15 %."""
    rng, found = np.random.default_rng(11), []
    for size, odds, spread in itertools.product((20, 60, 200), (0.02, 0.2), (1, 12)):
        counts = rng.geometric(odds, size)
        means = np.clip(rng.normal(rng.uniform(10, 40), spread, size), *BOUNDS)
        found += regrets(counts, means, BOUNDS)
    assert np.mean(found) < 0.15


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "bounds", "cells", "every"),
    [
        ("surat_itms", (0, 65),
         {"resolution": 6, "timezone": "Asia/Kolkata", "slot": "pooled"}, 2),
        ("warsaw_buses", (0, 90), {"resolution": 7, "timezone": "Europe/Warsaw"}, 16),
    ],
)  # fmt: skip
def test_regret_on_real_cells(shared, file, bounds, cells, every):
    """On buses' own speeds regret is within 15 % on average; benchmarks/auto.py has them all."""
    data = hv.read(
        shared / "data" / f"{file}.parquet", bounds=bounds, cells=hv.Cells(timeslot="1h", **cells),
        select=hv.Select(min_users=20), **BUSES,
    )  # fmt: skip
    found = []
    for number in range(0, len(data.public.cells.names()), every):
        cell = own_cell(data, number)
        found += regrets(cell.counts, cell.user_means, bounds)
    assert len(found) >= 4 * 8
    assert np.mean(found) < 0.15
