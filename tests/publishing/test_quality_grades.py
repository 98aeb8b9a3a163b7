"""Grades against the map: thresholds, and the deviation between cells by moments."""

import numpy as np
import pytest

from hexveil.publishing.estimates.accuracy import (
    deviation_between_cells,
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
