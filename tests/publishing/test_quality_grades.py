"""Grades against the map: thresholds, and the deviation between cells by moments."""

import numpy as np
import pytest

from hexveil.publishing.estimates.accuracy import (
    deviation_between_cells,
    grade_against_map,
    noise_variance,
)
from hexveil.report.accuracy_text import CAUTION_DEVIATIONS, GOOD_DEVIATIONS


def test_grades_change_at_the_stated_deviations():
    """A half width of one deviation is good, of 1.75 a caution, above it noise."""
    deviation = 3.0
    half = deviation * np.array([0.0, 0.999, 1.001, 1.749, 1.751, 40.0])
    flags = grade_against_map((-half, half), deviation, np.full(6, fill_value=True))
    assert flags == ["good", "good", "caution", "caution", "noise", "noise"]
    assert (GOOD_DEVIATIONS, CAUTION_DEVIATIONS) == (1.0, 1.75)


def test_a_constant_is_noise_whatever_its_interval():
    """A cell that says nothing of its values is never good."""
    ends = np.zeros(2), np.ones(2)
    assert grade_against_map(ends, 5.0, np.array([True, False])) == ["good", "noise"]


def test_where_cells_do_not_differ_none_is_good():
    """Without differences between cells no interval tells one from another."""
    half = np.array([1e-9, 1.0])
    assert grade_against_map((-half, half), 0.0, np.full(2, fill_value=True)) == ["noise", "noise"]


def test_the_deviation_of_equal_noise_is_the_classical_one():
    """With equal noise the estimate is the sample variance less that of the noise."""
    numbers = np.array([3.0, 9.0, 4.0, 16.0, 8.0])
    expected = np.sqrt(np.var(numbers, ddof=1) - 6.0)
    assert deviation_between_cells(numbers, np.full(5, 6.0)) == pytest.approx(expected)


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


def test_noise_alone_is_no_difference():
    """Numbers that differ less than their noise have deviation 0; constants do not count."""
    assert deviation_between_cells(np.array([1.0, 1.1, 0.9]), np.full(3, 5.0)) == 0.0
    assert deviation_between_cells(np.array([1.0, 90.0]), np.array([5.0, 0.0])) is None
    assert deviation_between_cells(np.array([1.0]), np.array([5.0])) is None


def test_the_noise_of_a_variance_has_that_of_its_mean():
    """What the bound has beside the scale counts as noise; of a mean the scale is all."""
    scale, bias = np.array([2.0]), np.array([1.0])
    assert noise_variance("mean", scale, bias, bias + 9.0) == 8.0
    alone = noise_variance("variance", scale, bias, bias + 2.0 * np.log(40.0))
    assert alone == pytest.approx(8.0)
    assert noise_variance("variance", scale, bias, bias + 9.0) > alone
