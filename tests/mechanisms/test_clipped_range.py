"""LEVY and the quantiles: projected array means, their sensitivity and what is spent on them."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import hexveil as hv
from hexveil.mechanisms.arrays import array_means
from hexveil.mechanisms.clipped_range import projected_mean

FINE = np.linspace(0, 6, 13)
CELLS = [((2, 2, 2), 3), ((3, 1), 3), ((2, 1, 1), 2), ((4, 2), 2), ((2, 1), 3), ((1,), 1)]


class Scripted:
    """A source that makes the choices and draws the noise it was given, and notes what was asked.

    Choices of a candidate count; the noise is in units of the scale.
    """

    def __init__(self, choices, noise=0.0):
        self.choices, self.noise = list(choices), noise
        self.asked, self.scales = [], []

    def laplace(self, scale):
        """Return the scripted noise."""
        self.scales.append(scale)
        return self.noise * scale

    def noisy_max(self, scores, scale):
        """Return the next scripted choice."""
        self.asked.append((scores, scale))
        return self.choices.pop(0)


def plans(grouping):
    """Yield a plan of each small cell."""
    for counts, cap in CELLS:
        if grouping == "best_fit" or sum(min(m, cap) for m in counts) >= cap:
            mechanism = hv.FixedQuantile(0.1, 0.9, grouping=grouping, cap=cap)
            yield mechanism.plan(counts, bounds=(0, 6), epsilon=1)


@pytest.mark.parametrize("grouping", ["best_fit", "wrap_around"])
def test_sensitivity_is_exact_for_every_interval(grouping):
    """Over all values, one user moves the projected mean by the claimed amount and no more.

    The claim is the largest over all intervals of that width; some on a grid of half units
    reaches it.
    """
    for plan in plans(grouping):
        n = plan.counts.size
        means = np.array(list(itertools.product(FINE, repeat=n)))
        arrays = array_means(plan.groups, means)
        for width in (0.5, 1.0, 3.0, 6.0):
            moved = 0.0
            for a in FINE[FINE + width <= 6]:
                cube = np.clip(arrays, a, a + width).mean(axis=1).reshape((FINE.size,) * n)
                moved = max(moved, *(float(np.ptp(cube, axis=u).max()) for u in range(n)))
            claimed = float(plan.sensitivities(np.array([width]))[0])
            assert moved == pytest.approx(claimed, abs=1e-12)
            assert claimed <= min(2 * width, 6) / plan.groups.n_arrays + 1e-12
            if plan.groups.most_arrays == 1:
                assert claimed <= width / plan.groups.n_arrays + 1e-12


def test_wrap_around_needs_the_factor_two():
    """Two arrays share a user who moves each by more than a short interval's width (ERRATA 7)."""
    plan = hv.FixedQuantile(grouping="wrap_around", cap=3).plan([2, 2, 2], bounds=(0, 6), epsilon=1)
    assert plan.groups.most_arrays == 2
    assert plan.sensitivities(np.array([1.0, 6.0])) == pytest.approx([1.0, 2.0])


def test_array_means_use_their_own_pieces_alone():
    """Moving one user leaves every other array bit for bit as it was."""
    rng = np.random.default_rng(5)
    counts = rng.integers(1, 30, 40)
    plan = hv.FixedQuantile(cap=20).plan(counts, bounds=(0, 6), epsilon=1)
    means = rng.uniform(0, 6, 40)
    before = array_means(plan.groups, means)
    for user in range(40):
        moved = means.copy()
        moved[user] = 6 - moved[user]
        same = array_means(plan.groups, moved) == before
        assert np.flatnonzero(~same).tolist() == [plan.groups.array_of_user[user]]


@pytest.mark.parametrize("rows", [None, 50])
def test_projected_mean_is_the_mean_of_the_projected(rows):
    """The quick form for fixed values agrees with clipping each value."""
    rng = np.random.default_rng(7)
    values = np.round(rng.uniform(-3, 5, 9 if rows is None else (rows, 9)), 1)
    a = np.round(rng.uniform(-3, 5, 50), 1)
    b = a + np.round(rng.uniform(0, 3, 50), 1)
    each = np.broadcast_to(values, (50, 9))
    slow = [np.clip(row, x, y).mean() for row, x, y in zip(each, a, b, strict=True)]
    assert projected_mean(values, a, b) == pytest.approx(slow)


def test_quantile_release_step_by_step():
    """Two choices with a quarter of ε each, then noise fitted to the width with half of it."""
    plan = hv.FixedQuantile(0.25, 0.75, candidates=8, cap=1).plan(
        [1] * 4, bounds=(-4, 4), epsilon=2
    )
    noise = Scripted([3, 7], noise=1.5)
    # Candidates -1 and 3; the means -2, 0, 1, 4 become -1, 0, 1, 3; scale (4 / 4) / 1.
    assert plan.release([-2, 0, 1, 4], noise) == pytest.approx(0.75 + 1.5)
    assert noise.scales == [1.0]
    (low, low_scale), (high, high_scale) = noise.asked
    assert low_scale == high_scale == 4
    assert low.tolist() == [-1, -1, 0, 0, -1, -2, -2, -2, -3]
    assert high.tolist() == [-3, -3, -2, -2, -1, 0, 0, 0, -1]
    assert low.dtype == high.dtype == np.int64


def test_reversed_ends_are_exchanged():
    """Ends that come out reversed make the same interval as in order."""
    plan = hv.FixedQuantile(candidates=8).plan([1] * 4, bounds=(-4, 4), epsilon=2)
    outcomes = {plan.release([-2, 0, 1, 4], Scripted(ends)) for ends in ([3, 7], [7, 3])}
    assert len(outcomes) == 1


def test_an_interval_of_one_point_is_published_without_noise():
    """With both ends at one candidate the estimate is that candidate, and no noise is drawn."""
    plan = hv.FixedQuantile(candidates=8).plan([1] * 4, bounds=(-4, 4), epsilon=2)
    noise = Scripted([5, 5])
    assert plan.release([-2, 0, 1, 4], noise) == 1
    assert noise.scales == []


def test_levy_release_step_by_step():
    """One choice among the middles of the bins with half of ε, then the interval around it."""
    plan = hv.Levy(gamma=0.2, cap=100).plan([100] * 4, bounds=(0, 8), epsilon=1)
    radius = 8 * math.sqrt(math.log(2 * 4 / 0.2) / 200)
    assert plan.radius == pytest.approx(radius)
    assert plan.choice.bins == math.ceil(8 / radius) == 8
    noise = Scripted([4], noise=-1.0)
    low, high = 4.5 - 1.5 * radius, 4.5 + 1.5 * radius
    means = [1.0, 4.2, 4.9, 8.0]
    scale = 3 * radius / 4 / 0.5
    assert plan.release(means, noise) == pytest.approx(np.clip(means, low, high).mean() - scale)
    assert noise.scales == pytest.approx([scale])
    ((scores, choice_scale),) = noise.asked
    assert choice_scale == 4
    assert scores.tolist() == [-4, -3, -3, -3, -1, -3, -3, -3]
    assert plan.sensitivity == pytest.approx(3 * radius / 4)


def test_levy_clamps_the_interval_to_the_bounds():
    """At the lowest middle the interval is cut at the bound, and the noise shrinks with it."""
    plan = hv.Levy(cap=100).plan([100] * 4, bounds=(-8, 0), epsilon=1)
    noise = Scripted([0])
    plan.release([-8, -8, -7, -1], noise)
    assert noise.scales == pytest.approx([(0.5 + 1.5 * plan.radius) / 4 / 0.5])


def test_levy_with_one_bin_makes_no_choice():
    """Where τ >= U the interval is the bounds, and all of ε pays for the noise (ERRATA 11)."""
    plan = hv.Levy().plan([2, 1, 1], bounds=(0, 8), epsilon=1)
    assert plan.choice is None
    assert plan.mean_epsilon == 1
    noise = Scripted([])
    assert plan.release([8, 0, 4], noise) == pytest.approx(
        hv.ArrayAveraging(cap="sqrt")
        .plan([2, 1, 1], bounds=(0, 8), epsilon=1)
        .noiseless(np.array([8.0, 0, 4]))
    )
    assert noise.scales == [plan.noise_scale]


def test_parts_of_epsilon_add_up():
    """What the choices lose, by their scales, and what the noise loses, is ε."""
    counts = [200] * 20
    for split in ("0.5", "0.2", Fraction(2, 3)):
        for mechanism, choices in (
            (hv.Levy(split=split), lambda p: [p.choice]),
            (hv.FixedQuantile(split=split), lambda p: [p.low, p.high]),
            (hv.OptimizedQuantile(split=split), lambda p: [p.low, p.high]),
            (hv.AKMV(split=split), lambda p: [p.choice]),
        ):
            plan = mechanism.plan(counts, bounds=(0, 8), epsilon="1.7")
            spent = sum(2 / choice.scale for choice in choices(plan))
            assert spent + float(plan.mean_epsilon) == pytest.approx(1.7)
            assert spent <= 1.7 - float(plan.mean_epsilon) + 1e-15


def test_targets_of_the_quantiles():
    """Fixed targets are rounded halves up; extremes are ⌈2/ε⌉ and never cross the median."""
    facts = {"bounds": (0, 8), "epsilon": 1}
    plan = hv.FixedQuantile(0.1, 0.9, cap=1).plan([1] * 25, **facts)
    assert (plan.low.target, plan.high.target) == (3, 23)
    for epsilon, targets in (("0.3", (7, 18)), (1, (2, 23)), (100, (1, 24)), ("0.01", (12, 13))):
        plan = hv.OptimizedQuantile(cap=1).plan([1] * 25, bounds=(0, 8), epsilon=epsilon)
        assert (plan.low.target, plan.high.target) == targets


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: hv.Levy(gamma=0), "gamma must be above 0 and at most 1, got 0"),
        (lambda: hv.Levy(gamma="1.5"), "gamma must be above 0 and at most 1, got 1.5"),
        (lambda: hv.Levy(split=1), "split must lie between 0 and 1, got 1"),
        (lambda: hv.Levy(cap="mean"), "cap must be a whole number or one of"),
        (lambda: hv.FixedQuantile(0.9, 0.1), "quantiles must run from the lower to the higher"),
        (lambda: hv.FixedQuantile(-0.1, 0.5), "within 0 and 1, got -0.1 and 0.5"),
        (lambda: hv.FixedQuantile(candidates=0), "candidates must be a whole number of at least 1"),
        (lambda: hv.OptimizedQuantile(split=0), "split must lie between 0 and 1, got 0"),
        (lambda: hv.OptimizedQuantile(grouping="none"), "grouping must be"),
        (lambda: hv.AKMV(split="a half"), "split must be a finite number"),
        (lambda: hv.AKMV(candidates=1.5), "candidates must be a whole number of at least 1"),
    ],
)
def test_bad_arguments_are_refused(make, message):
    """Each wrong argument is one sentence that names it."""
    with pytest.raises(hv.InputError, match=message):
        make()
