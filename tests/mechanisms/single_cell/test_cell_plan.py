"""What holds for every mechanism: names, bounds, odd cells, and two ways to draw the same law."""

import itertools
import math

import numpy as np
import pytest

import hexveil as hv
from hexveil.mechanisms.simulated_noise import SimulatedNoise

MECHANISMS = [
    hv.mechanisms.Baseline(),
    hv.mechanisms.OptimalClipping(),
    *(
        hv.mechanisms.ArrayAveraging(cap=cap)
        for cap in ("median", "sqrt", "minimax", "surrogate", "exact")
    ),
    hv.mechanisms.ArrayAveraging("wrap_around", "sqrt"),
    hv.mechanisms.ArrayAveraging(cap=1),
    hv.mechanisms.OptArrayAveraging(),
    hv.mechanisms.OptArrayAveraging(objective="surrogate"),
    hv.mechanisms.Levy(gamma=0.2),
    hv.mechanisms.Levy(gamma="0.1", grouping="wrap_around", split="0.25"),
    hv.mechanisms.FixedQuantile(0.1, 0.9),
    hv.mechanisms.FixedQuantile(0.25, 1, grouping="wrap_around", candidates=50),
    hv.mechanisms.OptimizedQuantile(),
    hv.mechanisms.OptimizedQuantile(cap=1, candidates=7),
    hv.mechanisms.AKMV(split="0.5"),
    hv.mechanisms.AKMV(split="0.25", candidates=9),
]
ALL = [*MECHANISMS, hv.mechanisms.Auto(trials=64)]
CELLS = {
    "one user": [7], "one sample": [1], "equal counts": [5] * 30,
    "one huge user": [10**6] + [3] * 20, "cap below the smallest": [40, 30, 20],
    "two users": [2, 1], "many": list(range(1, 80)),
}  # fmt: skip
EPSILONS = ["0.01", "0.5", 1, 100]


def noise(seed):
    """Return simulated noise for one trial."""
    return SimulatedNoise(np.random.default_rng(seed), 1)


every = pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("mechanism", ALL, ids=str)
def test_odd_cells_work(mechanism, cell):
    """Every mechanism plans, releases and simulates odd cells at any ε, in finite numbers."""
    counts = CELLS[cell]
    rng = np.random.default_rng(1)
    for epsilon, (lower, upper) in zip(EPSILONS, itertools.cycle([(0, 65), (-3, 5)])):
        plan = mechanism.plan(counts, bounds=(lower, upper), epsilon=epsilon)
        assert 0 <= plan.sensitivity <= (upper - lower) * (1 + 1e-12)
        assert plan.noise_scale >= plan.sensitivity / float(plan.epsilon) * (1 - 1e-12)
        assert plan.bound95 < math.inf
        means = rng.uniform(lower, upper, len(counts))
        for values in (means, np.full(len(counts), lower), np.full(len(counts), upper)):
            assert math.isfinite(plan.estimate(values, noise(2)))
            assert np.isfinite(plan.simulate(values, rng, 5)).all()
        redrawn = plan.simulate(rng.uniform(lower, upper, (5, len(counts))), rng, 5)
        assert redrawn.shape == (5,)
        assert np.isfinite(redrawn).all()


@every
def test_estimates_lie_on_the_grid_that_is_stated(mechanism):
    """They are whole steps from its start, and no coarser grid holds them all."""
    plan = mechanism.plan([9, 4, 2, 2, 1], bounds=(0, 8), epsilon=3)
    start, step = plan.allocation.grid()
    found = plan.simulate([0.0, 1.5, 4, 8, 2], np.random.default_rng(2), 20)
    steps = (found / float(plan.cell.quantum) - start) / step
    whole = np.rint(steps).astype(np.int64)
    assert steps == pytest.approx(whole, rel=0, abs=0.1)
    assert np.gcd.reduce(whole - whole[0]) == 1


@every
@pytest.mark.parametrize(
    ("counts", "bounds", "epsilon", "message"),
    [
        ([0, 1], (0, 8), 1, "counts must be whole numbers of at least 1"),
        ([], (0, 8), 1, "counts must be whole numbers of at least 1"),
        ([1], (8, 0), 1, "smaller to the larger value"),
        ([1], (0, 8), 0, "epsilon must be positive and finite, got 0"),
    ],
)
def test_bad_input_is_refused(mechanism, counts, bounds, epsilon, message):
    """Each wrong argument is one sentence that names it."""
    with pytest.raises(hv.InputError, match=message):
        mechanism.plan(counts, bounds=bounds, epsilon=epsilon)


@every
def test_a_mean_per_user_is_needed(mechanism):
    """Too few means, or trials that do not match, are refused with the number needed."""
    plan = mechanism.plan([2, 1], bounds=(0, 8), epsilon=1)
    with pytest.raises(hv.InputError, match=r"one mean per user is needed \(2\)\."):
        plan.estimate([1.0], noise(1))
    with pytest.raises(hv.InputError, match=r"\(2\), for all or for each of 3 trials"):
        plan.simulate(np.ones((4, 2)), np.random.default_rng(1), 3)
