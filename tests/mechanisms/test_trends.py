"""The papers' findings on the published cell, and that the grid of candidates does not matter."""

import json

import numpy as np
import pytest

import hexveil as hv

TRIALS = 10_000
EPSILONS = ["0.5", 1, "1.5", 2]
BOUNDS = (0, 65)
RIVALS = [
    hv.mechanisms.Baseline(),
    hv.mechanisms.ArrayAveraging(cap="sqrt"),
    hv.mechanisms.Levy(gamma=0.2),
    hv.mechanisms.FixedQuantile(0.1, 0.9),
    hv.mechanisms.OptimizedQuantile(),
]
BASELINE, ARRAYS, LEVY, FIXED, OPTIMIZED = (mechanism.name for mechanism in RIVALS)


@pytest.fixture(scope="module")
def counts(shared):
    """Return the counts that match the papers' private cell."""
    return np.array(json.loads((shared / "data" / "itms_like_counts.json").read_text()))


def user_means(counts, rng):
    """Return means of each user's samples, independent and projected normal.

    Normal with mean 20.66769 and variance 115.135, projected to [0, 65] (IOT section IV-C).
    """
    samples = np.clip(rng.normal(20.66769, np.sqrt(115.135), counts.sum()), *BOUNDS)
    return np.add.reduceat(samples, np.cumsum(counts) - counts) / counts


def errors(counts, mechanisms, epsilon, trials=TRIALS, draws=20):
    """Return each mechanism's mean absolute error over several data sets."""
    rng = np.random.default_rng(2024)
    total = dict.fromkeys((mechanism.name for mechanism in mechanisms), 0.0)
    plans = [mechanism.plan(counts, bounds=BOUNDS, epsilon=epsilon) for mechanism in mechanisms]
    for _ in range(draws):
        means = user_means(counts, rng)
        true = means @ counts / counts.sum()
        for mechanism, plan in zip(mechanisms, plans, strict=True):
            found = plan.simulate(means, rng, trials // draws)
            total[mechanism.name] += float(np.abs(found - true).mean()) / draws
    return total


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_ten_times_the_samples(counts, epsilon):
    """With ten times the samples of each user LEVY is best, BASELINE worst (IOT figure 3)."""
    found = errors(10 * counts, RIVALS, epsilon)
    assert min(found, key=found.get) == LEVY
    assert max(found, key=found.get) == BASELINE


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_ten_times_the_users(counts, epsilon):
    """With ten times the users FIXEDQUANTILE is best, ARRAY-AVERAGING second (IOT figure 4)."""
    found = errors(np.repeat(counts, 10), RIVALS, epsilon)
    ranking = sorted(found, key=found.get)
    assert ranking[:2] == [FIXED, ARRAYS]
    assert ranking[-1] == BASELINE


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_cell_as_it_is(counts, epsilon):
    """BASELINE is worst on the cell as it is, at U m*/(N ε)."""
    found = errors(counts, RIVALS, epsilon)
    assert max(found, key=found.get) == BASELINE
    assert found[BASELINE] == pytest.approx(65 * 417 / 17166 / float(epsilon), rel=0.05)


def test_best_fit_beats_wrap_around_where_means_are_projected(counts):
    """For LEVY and FIXEDQUANTILE the factor two of WRAPAROUND shows (IOT figure 1)."""
    for make in (hv.mechanisms.Levy, hv.mechanisms.FixedQuantile):
        found = errors(counts, [make(), make(grouping="wrap_around")], 1)
        assert found[make().name] < 0.8 * found[make(grouping="wrap_around").name]
