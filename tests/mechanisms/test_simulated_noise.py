import numpy as np
import pytest

from hexveil.mechanisms.simulated_noise import SimulatedNoise


def test_a_seed_repeats_its_stream():
    """The same seed gives the same draws, another seed others."""
    one, two, other = SimulatedNoise(3), SimulatedNoise(3), SimulatedNoise(4)
    first = [one.laplace(2.0) for _ in range(5)]
    assert first == [two.laplace(2.0) for _ in range(5)]
    assert first != [other.laplace(2.0) for _ in range(5)]


def test_draws_have_the_scale():
    """Mean |noise| is the scale, and half the draws are above zero."""
    noise = SimulatedNoise(5)
    draws = np.array([noise.laplace(3.0) for _ in range(20_000)])
    assert np.abs(draws).mean() == pytest.approx(3.0, rel=0.05)
    assert (draws > 0).mean() == pytest.approx(0.5, abs=0.03)
