"""AKMV: user sums clipped at a private extreme."""

import itertools

import numpy as np
import pytest

import hexveil as hv
from hexveil.mechanisms.permute_and_flip import law


class Chosen:
    """A source that makes one choice, draws no noise, and notes the scale."""

    def __init__(self, choice):
        self.choice, self.scales = choice, []

    def laplace(self, scale):
        """Return 0."""
        self.scales.append(scale)
        return 0.0

    def noisy_max(self, scores, scale):  # noqa: ARG002  the protocol's arguments
        """Return the choice."""
        return self.choice


@pytest.mark.parametrize("bounds", [(0, 8), (-3, 5)], ids=str)
def test_one_user_moves_the_clipped_mean_by_t_over_n(bounds):
    """For every T the sensitivity is T/N, reached by some values and passed by none."""
    grid = np.linspace(*bounds, 5)
    for counts in ((3, 1), (2, 2, 1), (4, 1, 1)):
        plan = hv.AKMV(candidates=4).plan(counts, bounds=bounds, epsilon=1)
        for choice, top in enumerate(plan.choice.points):
            noise = Chosen(choice)
            found = [plan.release(x, noise) for x in itertools.product(grid, repeat=len(counts))]
            cube = np.array(found).reshape((5,) * len(counts))
            moved = max(float(np.ptp(cube, axis=user).max()) for user in range(len(counts)))
            assert moved == pytest.approx(top / sum(counts), abs=1e-12)
            assert noise.scales == pytest.approx([2 * top / sum(counts)] * len(noise.scales))
        assert plan.sensitivity == pytest.approx(8 * max(counts) / sum(counts))
        assert plan.noise_scale == pytest.approx(2 * plan.sensitivity)


def test_sums_move_scores_by_one():
    """One user's value moves every score of T by at most 1, over all values on a grid."""
    plan = hv.AKMV(candidates=6).plan([4, 2, 1], bounds=(-3, 5), epsilon=1)
    grid = np.linspace(-3, 5, 5)
    moved = 0
    for means in itertools.product(grid, repeat=3):
        before = plan.choice.costs(plan._sums(np.array(means)))
        for user, other in itertools.product(range(3), grid):
            changed = np.array([*means[:user], other, *means[user + 1 :]])
            after = plan.choice.costs(plan._sums(changed))
            moved = max(moved, int(np.abs(after - before).max()))
    assert moved == 1


def test_zero_threshold_publishes_the_lower_bound():
    """With T = 0 nothing is read: the lower bound is published without noise."""
    plan = hv.AKMV(candidates=4).plan([3, 1], bounds=(-3, 5), epsilon=1)
    noise = Chosen(0)
    assert plan.release([5, 5], noise) == -3
    assert noise.scales == []


def test_rank_is_that_of_one_sided_clipping():
    """T is to have ⌈1/ε''⌉ sums above it (ERRATA 14), and no more than there are users."""
    counts = list(range(1, 31))
    for split, epsilon, above in (("0.5", 1, 2), ("0.25", 1, 2), ("0.75", 1, 4), ("0.5", 4, 1)):
        plan = hv.AKMV(split=split).plan(counts, bounds=(0, 8), epsilon=epsilon)
        assert plan.choice.target == 30 - above
    assert hv.AKMV().plan(counts, bounds=(0, 8), epsilon="0.01").choice.target == 0


def collections():
    """Return WC's geometric (M = 6) and extreme-valued (L = 101, m* = 10) counts."""
    geometric = np.concatenate([np.full(2**i, 2 ** (6 - i)) for i in range(7)])
    return {"geometric": geometric, "extreme": np.array([10] + [1] * 100)}


def worst_case_error(counts, epsilon):
    """Return WC's error of AKMV with all values at the upper bound, over the exact law of T."""
    plan = hv.AKMV().plan(counts, bounds=(0, 65), epsilon=epsilon)
    sums = 65.0 * counts
    costs, sizes, first = plan.choice.runs(sums[None])
    chance = law(costs[0], sizes[0], plan.choice.scale)
    top = np.repeat(chance / np.maximum(sizes[0], 1), sizes[0]) @ np.column_stack(
        [
            np.maximum(sums - plan.choice.points[:, None], 0).sum(axis=1) / counts.sum(),
            plan.choice.points / (counts.sum() * float(plan.mean_epsilon)),
        ]
    )
    assert first[0][-1] == plan.choice.points.size
    return top.sum()


@pytest.mark.parametrize("name", ["geometric", "extreme"])
def test_optimal_clipping_has_the_smaller_worst_case_error(name):
    """WC figure 1: on the worst-case data OptimalClipping is below Baseline and AKMV."""
    counts = collections()[name]
    for epsilon in ("0.1", "0.25", "0.5", 1, "1.5", 2):
        best = hv.OptimalClipping().plan(counts, bounds=(0, 65), epsilon=epsilon).worst_case_error
        plain = hv.Baseline().plan(counts, bounds=(0, 65), epsilon=epsilon).worst_case_error
        assert best < plain or (epsilon == 2 and best == plain)  # from ε = 2 on they are the same
        assert best < worst_case_error(counts, epsilon)


@pytest.mark.parametrize(("name", "normal"), [("geometric", False), ("extreme", True)])
def test_optimal_clipping_is_better_on_average(name, normal):
    """WC figures 2 and 3: so it is for uniform and for projected normal samples, on average.

    Normal samples have mean U/2 and variance U/4: the bounds are 8 standard deviations away, so
    WC's rejection of samples beyond them never happens. At ε = 2 and above OptimalClipping is
    Baseline.
    """
    counts, rng, trials = collections()[name], np.random.default_rng(8), 4_000
    users = np.repeat(np.arange(counts.size), counts)
    start = np.cumsum(counts) - counts
    if normal:
        samples = rng.normal(32.5, np.sqrt(65 / 4), (trials, users.size))
    else:
        samples = rng.uniform(0, 65, (trials, users.size))
    means = np.add.reduceat(samples, start, axis=1) / counts
    true = samples.mean(axis=1)
    for epsilon in ("0.25", "0.5", 1, "1.5"):
        errors = []
        for mechanism in (hv.OptimalClipping(), hv.Baseline(), hv.AKMV()):
            plan = mechanism.plan(counts, bounds=(0, 65), epsilon=epsilon)
            errors.append(np.abs(plan.simulate(means, rng, trials) - true).mean())
        best, plain, other = errors
        assert best < plain
        assert best < other
