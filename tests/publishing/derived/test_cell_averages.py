"""Weighted averages over cells and their intervals, by simulation and in the worst case."""

import math

import numpy as np
import pytest
from scipy import stats

from hexveil.accounting.noise_law import GAUSSIAN, LAPLACE
from hexveil.publishing.derived.cell_numbers import CellNumbers, average_cells
from hexveil.publishing.derived.release_comparison import find_changes

RECORDS = np.array([100.0, 5.0, 40.0, 1.0, 7.0])
GROUP = np.array([0, 0, 1, 0, 2])
SCALE = np.array([0.2, 4.0, 0.5, 9.0, 1.0])
TRUTH = np.array([10.0, 30.0, 20.0, 50.0, 40.0])


def numbers(noise, bias=0.0):
    """Return numbers with this noise, biased upwards as far as is allowed."""
    bound, largest = LAPLACE.limit95 * SCALE, np.full(5, float(bias))
    return CellNumbers(TRUTH + noise + bias, bound, bound, largest, largest, SCALE, "proven")


def test_records_weigh():
    """Averages are those of all records, by group; a lone cell keeps its own noise."""
    made = average_cells(numbers(0.0, bias=0.5), RECORDS, GROUP)
    total = 0.5 + np.bincount(GROUP, RECORDS * TRUTH) / np.bincount(GROUP, RECORDS)
    assert made.number == pytest.approx(total)
    assert made.bias_low == pytest.approx([0.5, 0.5, 0.5])
    assert np.isnan(made.scale[0])
    assert made.scale[1:] == pytest.approx(SCALE[[2, 4]])
    assert made.noise_low[1:] == pytest.approx(LAPLACE.limit95 * SCALE[[2, 4]])


def test_intervals_hold_as_often_as_they_say():
    """The bound of three cells is exceeded in 5 percent of 200,000 runs, which a seed fixes."""
    rng, runs = np.random.default_rng(5), 200_000
    made = average_cells(numbers(0.0), RECORDS, GROUP)
    weight = RECORDS[GROUP == 0] / RECORDS[GROUP == 0].sum()
    noise = rng.laplace(0.0, SCALE[GROUP == 0], (runs, 3)) @ weight
    # Five standard errors of the share are 0.0024.
    assert np.mean(np.abs(noise) > made.noise_low[0]) == pytest.approx(0.05, abs=0.0025)


def test_bias_does_not_average_out():
    """With the worst bias everywhere an interval still holds in 95 percent of runs or more."""
    rng, bias = np.random.default_rng(6), 3.0
    made = average_cells(numbers(0.0, bias), RECORDS, GROUP)
    weight = RECORDS[GROUP == 0] / RECORDS[GROUP == 0].sum()
    number = made.number[0] + rng.laplace(0.0, SCALE[GROUP == 0], (50_000, 3)) @ weight
    truth = RECORDS[GROUP == 0] @ TRUTH[GROUP == 0] / RECORDS[GROUP == 0].sum()
    assert np.mean(number) - truth == pytest.approx(bias, abs=0.1)
    # Upward bias takes all of its allowance: what is left is half of the noise's 5 percent.
    inside = truth >= number - made.noise_low[0] - made.bias_low[0]
    assert np.mean(inside) == pytest.approx(0.975, abs=0.004)


def test_gaussian_noise_adds_up_in_squares():
    """Bounds of averages and of changes under a δ are those of one normal number: exact."""
    none, bound = np.zeros(5), GAUSSIAN.limit95 * SCALE
    unknown = np.full(5, np.nan)
    cells = CellNumbers(TRUTH, bound, bound, none, none, unknown, "proven", is_gaussian=True)
    made = average_cells(cells, RECORDS, GROUP)
    weight = RECORDS / np.bincount(GROUP, RECORDS)[GROUP]
    deviation = np.sqrt(np.bincount(GROUP, (weight * SCALE) ** 2))
    assert made.noise_low == pytest.approx(stats.norm.isf(0.025) * deviation)
    change, change_p = find_changes(made, made)
    assert change.high == pytest.approx(stats.norm.isf(0.025) * math.sqrt(2.0) * deviation)
    assert (change_p == 1.0).all()


@pytest.mark.parametrize("ratio", np.geomspace(0.01, 100.0, 13))
def test_laplace_and_gaussian_noise_together_stay_within_the_root(ratio):
    """Of one number of either kind the root of squared bounds is exceeded no more than 5 %."""
    bound = math.hypot(LAPLACE.limit95, GAUSSIAN.limit95 * ratio)
    # P(L + G > q) by the closed form of a normal number plus a Laplace one of scale 1.
    z = bound / ratio
    tail = stats.norm.sf(z) + 0.5 * (
        math.exp(ratio**2 / 2.0 - bound + stats.norm.logcdf(z - ratio))
        - math.exp(ratio**2 / 2.0 + bound + stats.norm.logsf(z + ratio))
    )
    assert tail <= 0.025 * (1.0 + 1e-9)


def test_a_change_has_the_exact_bound_of_its_noise():
    """Intervals of unchanged cells miss 0 in 5 percent of runs, and p-values are uniform."""
    rng, runs = np.random.default_rng(7), 40_000
    scales = np.repeat([0.5, 2.0], runs), np.repeat([1.0, 2.0], runs)
    sides = []
    for scale in scales:
        bound, none = LAPLACE.limit95 * scale, np.zeros_like(scale)
        noise = rng.laplace(0.0, scale)
        sides.append(CellNumbers(20.0 + noise, bound, bound, none, none, scale, "proven"))
    made, made_p = find_changes(*sides)
    missed = (made.low > 0.0) | (made.high < 0.0)
    assert missed.reshape(2, runs).mean(axis=1) == pytest.approx([0.05, 0.05], abs=0.006)
    for level in (0.01, 0.2, 0.7):
        assert np.mean(made_p <= level) == pytest.approx(level, abs=0.012)
    # The interval and the test are one statement.
    assert ((made_p < 0.05) == missed).mean() > 0.9999


def test_bias_of_both_sides_widens_a_change():
    """A change that bias alone could make has no evidence; square-and-add joins other bounds."""
    one, bound = np.ones(1), np.array([0.3])
    none = np.zeros(1)
    exact = CellNumbers(10 * one, bound, bound, 2 * one, 1 * one, none, "proven")
    moved = CellNumbers(12.5 * one, bound, bound, 1 * one, 0.5 * one, none, "proven")
    made, made_p = find_changes(exact, moved)
    assert made.number == pytest.approx([2.5])
    # Without noise the interval is that of the bias: -(1 + 1), +(0.5 + 2).
    assert (made.low[0], made.high[0]) == pytest.approx((0.5, 5.0))
    assert made_p[0] == 0.0
    loose = CellNumbers(12.5 * one, bound, bound, 1 * one, 0.5 * one, none * np.nan, "model")
    joined, _ = find_changes(exact, loose)
    assert joined.low[0] == pytest.approx(0.5 - np.hypot(0.3, 0.3))
    down, _ = find_changes(moved, exact)
    assert (down.low[0], down.high[0]) == pytest.approx((-5.0, -0.5))
