"""Grades against the map: thresholds, and the deviation between cells by moments."""

import numpy as np
import pytest

from hexveil.publishing.estimates.accuracy import (
    deviation_between_cells,
    noise_variance,
)


def test_the_deviation_solves_its_equation():
    """Σ (y - m)² / (v + d²) is n - 1 with the weighted average m, for unequal noise."""
    rng = np.random.default_rng(3)
    variance = rng.uniform(0.5, 40.0, 60)
    numbers = rng.normal(20.0, np.sqrt(variance + 25.0))
    square = deviation_between_cells(numbers, variance) ** 2
    weight = 1.0 / (variance + square)
    centre = np.average(numbers, weights=weight)
    assert np.sum(weight * (numbers - centre) ** 2) == pytest.approx(59.0)


@pytest.mark.slow
def test_the_deviation_is_right_on_average():
    """Over 400 maps of 40 cells its square has the expectation 9, within four standard errors."""
    rng = np.random.default_rng(4)
    scale = np.geomspace(0.3, 4.0, 40)
    squares = []
    for _ in range(400):
        noisy = rng.normal(0.0, 3.0, 40) + rng.laplace(0.0, scale)
        squares.append(deviation_between_cells(noisy, 2.0 * scale**2) ** 2)
    error = np.std(squares) / np.sqrt(len(squares))
    assert abs(np.mean(squares) - 9.0) < 4.0 * error < 1.0


def test_the_noise_of_a_variance_has_that_of_its_mean():
    """What the bound has beside the scale counts as noise; of a mean the scale is all."""
    scale, bias = np.array([2.0]), np.array([1.0])
    assert noise_variance("mean", scale, bias, bias + 9.0) == 8.0
    alone = noise_variance("variance", scale, bias, bias + 2.0 * np.log(40.0))
    assert alone == pytest.approx(8.0)
    assert noise_variance("variance", scale, bias, bias + 9.0) > alone
