"""Smoothed levels of grids with several dimensions: exact without noise, closer with it."""

import numpy as np
import pytest

from hexveil.mechanisms.presence.map_refinement import NoisyLevels, smooth_weights

SHAPE = (30, 8)
N = SHAPE[0] * SHAPE[1]


@pytest.fixture(scope="module")
def world():
    """Return weights and true means that are near the sum of a place's and a slot's effect."""
    rng = np.random.default_rng(3)
    place, slot = np.unravel_index(np.arange(N), SHAPE)
    crowd = (rng.pareto(1.5, SHAPE[0]) + 0.3)[place] * rng.uniform(0.1, 2, SHAPE[1])[slot]
    mean = 0.4 + rng.normal(0, 0.06, SHAPE[0])[place] + rng.normal(0, 0.04, SHAPE[1])[slot]
    return 20 * crowd, mean + rng.normal(0, 0.01, N)


def numbers(world, noise, seed):
    """Return noisy numbers about one centre and radius."""
    weight, mean = world
    rng = np.random.default_rng(seed)
    x, y = rng.laplace(0, noise / 2, (2, N)) if noise else np.zeros((2, N))
    difference = weight * (mean - 0.4) / 0.3
    return NoisyLevels.of(weight + x + y, difference + x - y, np.full(N, 0.4), 0.3, noise or 1e-9)


def test_levels_without_noise_are_the_truth(world):
    """Almost no noise leaves each cell its own mean."""
    found = numbers(world, 0.0, 1).above_noise().levels(SHAPE)
    np.testing.assert_allclose(found, world[1], atol=1e-6)


def test_cells_take_after_their_place_and_slot(world):
    """Under noise, levels are far closer than the cells' own ratios, also in empty cells."""
    weight, mean = world
    noisy = numbers(world, 6.0, 2)
    found = noisy.smoothed(SHAPE).levels(SHAPE)
    ratio = 0.4 + 0.3 * np.clip(noisy.difference / np.maximum(noisy.weight, 6.0), -1, 1)
    assert np.abs(found - mean).mean() < 0.5 * np.abs(ratio - mean).mean()
    scarce = weight < np.quantile(weight, 0.3)
    assert np.abs(found - mean)[scarce].mean() < np.abs(mean - np.median(mean))[scarce].mean()


def test_no_weight_at_all_has_finite_levels():
    """Noise about an empty grid leads to finite numbers near the centre of the range."""
    rng = np.random.default_rng(4)
    for scale in (1.0, 1e6):
        x, y = rng.laplace(0, scale, (2, N))
        found = NoisyLevels.of(x, y, np.full(N, 0.5), 0.1, 2 * scale).smoothed(SHAPE).levels(SHAPE)
        assert np.isfinite(found).all()
        assert np.abs(found - 0.5).mean() < 0.25


def test_smoothed_weights_are_positive_and_closer(world):
    """The product of margins is closer to a weight than one noisy number of its cell."""
    noisy = numbers(world, 8.0, 5)
    found = smooth_weights(noisy.weight, noisy.noise, SHAPE)
    assert (found > 0).all()
    assert np.abs(found - world[0]).mean() < 0.7 * np.abs(noisy.weight - world[0]).mean()
