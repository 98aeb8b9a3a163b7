"""The figures of one cell's plan against every data set with values on a grid."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hexveil as hv
from hexveil.mechanisms.simulated_noise import SimulatedNoise
from hexveil.mechanisms.single_cell.clipped_user_sums import LinearMean

MECHANISMS = [hv.mechanisms.Baseline(), hv.mechanisms.OptimalClipping()]
COUNTS = st.lists(st.integers(1, 10**6), min_size=1, max_size=12)
EPSILONS = st.fractions(Fraction(1, 100), Fraction(100))


@given(st.sampled_from(MECHANISMS), COUNTS, EPSILONS)
def test_figures_follow_from_each_other(mechanism, counts, epsilon):
    """Noise is sensitivity over ε, the error is bias plus noise, the bound takes ln 20 of it."""
    plan = mechanism.plan(counts, bounds=(-10, 20), epsilon=epsilon)
    assert isinstance(plan.allocation, LinearMean)
    assert plan.epsilon == epsilon
    assert plan.noise_scale == pytest.approx(plan.sensitivity / float(epsilon))
    assert plan.worst_case_error == plan.worst_case_bias + plan.noise_scale
    assert plan.bound95 == pytest.approx(plan.worst_case_bias + plan.noise_scale * np.log(20))


@given(COUNTS, EPSILONS)
def test_plan_is_that_of_the_theory(counts, epsilon):
    """The mechanism's plan is theory.optimal_clipping, and shifting the bounds changes nothing."""
    clip = hv.theory.optimal_clipping(counts, 8.0, epsilon)
    for bounds in ((0, 8), (-100, -92)):
        plan = hv.mechanisms.OptimalClipping().plan(counts, bounds=bounds, epsilon=epsilon)
        assert 8 * plan.allocation.contribution_cap == pytest.approx(clip.threshold)
        assert plan.worst_case_error == pytest.approx(clip.worst_case_error)


def test_too_few_users_publish_the_middle_of_the_bounds():
    """With fewer users than ⌈2/ε⌉ the middle is published, whatever the values, without noise."""
    plan = hv.mechanisms.OptimalClipping().plan([3, 2], bounds=(-3, 5), epsilon="0.5")
    assert (plan.allocation.contribution_cap, plan.noise_scale, plan.worst_case_error) == (0, 0, 4)
    for means in ([-3, 5], [5, 5]):
        noise = SimulatedNoise(np.random.default_rng(1), 1)
        assert plan.estimate(means, noise) == 1.0


@given(st.sampled_from(MECHANISMS), st.integers(1, 300), EPSILONS)
def test_rank_and_its_losses_belong_together(mechanism, rank, epsilon):
    """`epsilon_range` of a rank holds exactly the losses whose rank it is."""
    reach = mechanism.epsilon_range(rank)
    inside = reach is not None and reach[0] <= epsilon and (reach[1] is None or epsilon < reach[1])
    assert inside == (mechanism.rank(epsilon) == rank)
    if reach is not None and reach[0] > 0:
        assert mechanism.rank(reach[0]) == rank
