"""Laplace plus normal noise against its convolution, and against both laws as limits."""

import math
from itertools import pairwise

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from scipy import integrate, stats

from examples import examples
from hexveil.smoothing.mixed_noise import log_mean_density, log_noise_density, log_noise_tail


@examples(40)
@given(st.floats(0.05, 20.0), st.floats(0.05, 20.0), st.floats(-60.0, 60.0))
def test_noise_density_is_the_convolution(scale, sd, residual):
    """The log density of Laplace and normal noise is the logarithm of the integral."""

    def product(t):
        normal = math.exp(-0.5 * (t / sd) ** 2) / (sd * math.sqrt(2.0 * math.pi))
        return normal * math.exp(-abs(residual - t) / scale) / (2.0 * scale)

    breaks = sorted({-12 * sd, 12 * sd, *np.clip((0.0, residual), -12 * sd, 12 * sd)})
    exact = sum(integrate.quad(product, a, b, limit=400)[0] for a, b in pairwise(breaks))
    found = float(log_noise_density(np.array(residual), np.array(scale), np.array(sd)))
    if exact > 1e-9:
        assert found == pytest.approx(math.log(exact), abs=1e-4)


@pytest.mark.parametrize("residual", [0.0, 1e-3, 3.0, 80.0])
def test_noise_density_has_both_laws_as_its_limits(residual):
    """With no normal part it is Laplace, with next to no Laplace part normal."""
    r = np.array(residual)
    laplace = log_noise_density(r, np.array(2.0), np.array(1e-8))
    assert float(laplace) == pytest.approx(stats.laplace.logpdf(residual, 0, 2), abs=1e-6)
    normal = log_noise_density(r, np.array(1e-8), np.array(2.0))
    assert float(normal) == pytest.approx(stats.norm.logpdf(residual, 0, 2), abs=1e-6)


@examples(40)
@given(st.floats(0.05, 20.0), st.floats(0.05, 20.0), st.floats(0.0, 60.0))
def test_tails_are_integrals_of_the_density(scale, sd, residual):
    """The probability beyond a number is the integral of the density from there."""
    b, s = np.array(scale), np.array(sd)
    noise = math.hypot(scale, sd)
    # Of many points: an adaptive rule may miss the bend at the tail's beginning.
    points = np.linspace(residual, residual + 60 * noise, 40_001)
    exact = integrate.simpson(np.exp(log_noise_density(points, b, s)), x=points)
    found = float(log_noise_tail(np.array(residual), b, s))
    if exact > 1e-12:
        assert found == pytest.approx(math.log(exact), abs=1e-4)


@examples(60)
@given(st.floats(0.05, 20.0), st.floats(0.05, 20.0), st.floats(-30.0, 30.0), st.floats(0.0, 4.0))
def test_mean_densities_are_means(scale, sd, low, log_width):
    """The mean over an interval is that of many points of it, for narrow and for wide ones."""
    b, s = np.array(scale), np.array(sd)
    width = math.hypot(scale, sd) * 10 ** (log_width - 3.0)
    points = low + width * (np.arange(4000) + 0.5) / 4000
    exact = np.log(np.mean(np.exp(log_noise_density(points, b, s))))
    found = float(log_mean_density(np.array(low), np.array(low + width), b, s))
    if exact > -500:
        assert found == pytest.approx(exact, abs=3e-3)
