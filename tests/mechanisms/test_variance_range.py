"""Variances under a private range, planned: loss, radius, split, prior, and what is refused."""

import functools
import math

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import hexveil as hv
from hexveil.accounting.error_model import SECOND_MOMENT_ROUNDING, WeightedVarianceErrorModel
from hexveil.accounting.noise_law import LAPLACE
from hexveil.mechanisms.looks import range_search, weighted_variance
from hexveil.mechanisms.looks.user_weights import (
    PRIOR_SD,
    WITHIN_CELL_SHARE,
    half_width_sd,
    max_bias,
)
from hexveil.mechanisms.stage_data import centre_and_radius

CROWD = hv.Occupancy.from_dense([[1, 2]] * 150 + [[3, 0]] * 50 + [[0, 40]])
BOTH = ("mean", "variance")


def planned(occupancy=CROWD, epsilon=1, statistics=BOTH, **options):
    """Return a plan with a clipping range and a variance."""
    return hv.plan(
        occupancy,
        epsilon=epsilon,
        bounds=(0, 60),
        clipping_range="private",
        statistics=statistics,
        advise=False,
        **options,
    )


@functools.cache
def crowd_plan(epsilon, statistics):
    """Return a plan of the crowd that several tests look at."""
    return planned(CROWD, epsilon, statistics)


@pytest.mark.slow
@pytest.mark.parametrize("statistics", [BOTH, ("sd",)])
def test_radius_and_split_are_those_of_least_predicted_error(statistics, monkeypatch):
    """No other radius and split, each planned alone, is predicted to be better."""
    chosen = planned(statistics=statistics)
    split = (
        chosen.allocation.variance_noise[0]
        / (chosen.mean_noise + chosen.allocation.variance_noise)[0]
    )
    assert chosen.allocation.clipping.radius in range_search.RADII
    assert min(abs(split - float(one)) for one in range_search.SPLITS) < 1e-9
    radii = range_search.RADII
    for radius in radii[::2]:
        monkeypatch.setattr(range_search, "RADII", (radius,))
        for other in (0.2, 0.5, 0.8):
            monkeypatch.setattr(range_search, "SPLITS", (other,))
            plan = planned(statistics=statistics)
            assert plan.allocation.clipping.radius == radius
            assert chosen.objective_errors().mean() <= plan.objective_errors().mean() * (1 + 1e-9)


@given(st.integers(1, 10**6), st.data(), st.fractions(1, 20))
def test_the_radius_reaches_the_interval_and_no_further_than_the_bounds(steps, data, radius):
    """Half the range is within the radius, which no value of the bounds needs to exceed."""
    low = data.draw(st.integers(0, steps - 1))
    ends = low, data.draw(st.integers(low + 1, steps))
    middle, half, reached = centre_and_radius(ends, steps, radius)
    assert middle - half <= ends[0]
    assert middle + half == ends[1]
    assert half <= reached <= max(middle, steps - middle)
    assert reached <= math.ceil(radius * half)
    assert 2 * half <= ends[1] - ends[0] + 1


def test_before_a_release_the_middle_is_that_of_the_bounds():
    """The assumed radius is at most half of the span, and reaches what is assumed of means."""
    interval = crowd_plan(1, BOTH).allocation.clipping
    half, radius = interval.half_width_and_radius()
    assert half == interval.width / 2
    assert half <= radius <= max(half, 0.5)
    found = interval.with_ends((10, 20), 100)
    assert found.half_width_and_radius()[0] == pytest.approx(0.05)
    assert found.half_width_and_radius()[1] == math.ceil(interval.radius * 5) / 100


@pytest.mark.parametrize("k", [0.3, 1.0, 2.0])
@pytest.mark.parametrize("n", [1, 2, 50])
def test_what_the_radius_cuts_is_what_simulation_says(k, n):
    """Users' means are normal; the squares of n samples are counted at their expectation."""
    z = np.random.default_rng(3).normal(size=400_000)
    seen = np.maximum(z**2 + 1 - 1 / n - k**2, 0).mean()
    assert weighted_variance.expected_excess(k, np.array([float(n)]))[0] == pytest.approx(
        seen, rel=0.03
    )


def test_the_mean_s_part_is_about_what_simulation_says():
    """With normal cells and Laplace noise, what the mean adds is near the average distance."""
    interval = crowd_plan(1, BOTH).allocation.clipping
    noise, likely = np.array([0.05]), np.array([0.0])
    half, radius = interval.half_width_and_radius()
    end = half_width_sd(interval.quantiles[0], interval.widening)
    assert half == pytest.approx(end * PRIOR_SD)
    rng = np.random.default_rng(5)
    x = rng.normal(0, PRIOR_SD * math.sqrt(1 - WITHIN_CELL_SHARE**2), 200_000) / radius
    b = 2 * half / radius * 0.05
    e = rng.laplace(0, b, x.size)
    seen = np.abs(2 * x * e + e**2 - 2 * b**2).mean()
    half_share, deviations = half / radius, interval.radius_sd
    (said,) = weighted_variance.error_through_mean(half_share, deviations, noise, likely, LAPLACE)
    assert seen <= said <= 1.5 * seen


def test_the_figures_are_those_of_weights_noise_and_rounding():
    """Scale, bias and bound follow from radius, clipping range, weights and both noises."""
    plan = crowd_plan(1, BOTH)
    interval, part = plan.allocation.clipping, plan.error_models["variance"]
    half, radius = (60 * one for one in interval.half_width_and_radius())
    assert isinstance(part, WeightedVarianceErrorModel)
    assert np.allclose(part.scale, radius**2 * plan.allocation.variance_noise)
    most = max_bias(interval.weight)
    away = half * (2 * most + CROWD.users_per_cell / interval.weight.totals)
    bias = radius**2 * (most + SECOND_MOMENT_ROUNDING) + half**2 - (half - away) ** 2
    assert np.allclose(part.bias, bias)
    b = 2 * half * plan.mean_noise
    noise = (
        radius**2 * plan.allocation.variance_noise * LAPLACE.paired_limit95
        + 2 * half * b * LAPLACE.paired_limit95
    )
    assert np.allclose(part.bound95, bias + noise + (LAPLACE.paired_limit95**2 - 2) * b**2)
    assert (part.error < part.bound95).all()


@given(st.floats(0.01, 100), st.floats(0, 1), st.floats(-1, 1), st.floats(-1, 1))
def test_what_the_mean_s_noise_adds_is_within_the_bound(b, weight, x, e):
    """For every mean and every noise within ln 40 of its scales, the part's bound has room."""
    part = WeightedVarianceErrorModel(
        "variance",
        unit=np.array([1.0]),
        noise=np.array([1.0]),
        clipped_share=np.zeros(1),
        constant_error=np.full(1, 0.125),
        max_bias=np.array([weight]),
        expected_bias=np.zeros(1),
        half_width=1.0,
        mean_noise=np.array([b / 2]),
        rounding=np.zeros(1),
    )
    e *= LAPLACE.paired_limit95 * b
    added = abs(2 * x * e + e**2 - 2 * b**2)
    room = float((part.bound95 - part.bias - part.scale * LAPLACE.paired_limit95)[0])
    assert added <= room * (1 + 1e-12)
