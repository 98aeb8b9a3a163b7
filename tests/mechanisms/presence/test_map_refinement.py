"""Centres and prices of the fine map: functions of the noisy coarse map alone."""

import numpy as np
import pytest

from hexveil.accounting.promise import PARTS
from hexveil.mechanisms.presence.contribution import MAX_PRICE, CellWindow
from hexveil.mechanisms.presence.map_refinement import (
    MapRefinement,
    shrink_to_mean,
    variance_between,
)

WINDOW = CellWindow(np.ones(4, dtype=np.int64), np.full(4, PARTS // 4), np.full(4, 3 * PARTS // 4))
MEDIAN = PARTS // 3
QUIET = 2 * PARTS / 1000


def noisy(weight, ratio):
    """Return halves of these weights, in units, with these ratios of A - B to A + B."""
    weight, ratio = np.array(weight), np.array(ratio)
    halves = np.concatenate([weight * (1 + ratio) / 2, weight * (1 - ratio) / 2])
    return np.rint(PARTS * halves).astype(np.int64)


def test_prices_fall_with_released_weight():
    """Twice the weight, half the price; below the root of a typical weight prices are equal."""
    row = noisy([0.5, 8, 100, 200], [0, 0, 0, 0])
    _, prices = MapRefinement(QUIET, None, MEDIAN).centres_and_prices(WINDOW, row)
    root = np.sqrt(54 + 1)
    assert prices.tolist() == pytest.approx(
        [MAX_PRICE, MAX_PRICE * root / 8, MAX_PRICE * root / 100, MAX_PRICE * root / 200], abs=1
    )


def test_cells_below_the_threshold_have_no_price():
    """A closed cell has price 0 and has the median for a centre."""
    row = noisy([1, 50, 50, 50], [1.0, 0.5, 0.0, -0.5])
    centres, prices = MapRefinement(QUIET, 5 * PARTS, MEDIAN).centres_and_prices(WINDOW, row)
    assert prices[0] == 0
    assert (prices[1:] == MAX_PRICE).all()
    assert centres[0] == MEDIAN
    assert centres[1:] == pytest.approx(PARTS / 2 + PARTS / 4 * np.array([0.5, 0, -0.5]), rel=1e-3)


def test_a_map_without_open_cells_is_closed_throughout():
    """If no cell has enough weight, all prices are 0 and nothing fails."""
    row = noisy([0, 0, 0, 0], [0, 0, 0, 0])
    centres, prices = MapRefinement(QUIET, 1, MEDIAN).centres_and_prices(WINDOW, row)
    assert (prices == 0).all()
    assert (centres == MEDIAN).all()


def test_noise_alone_is_shrunk_away():
    """Estimates that differ by no more than their noise become their common mean."""
    rng = np.random.default_rng(1)
    estimates, variances = rng.normal(40, 3, 2000), np.full(2000, 9.0)
    assert variance_between(estimates, variances) < 1
    assert np.std(shrink_to_mean(estimates, variances)) < 0.4


def test_the_variance_between_is_found():
    """Under noise of a known variance, the variance of true values is found."""
    rng = np.random.default_rng(2)
    variances = rng.uniform(1, 16, 4000)
    estimates = rng.normal(40, 5, 4000) + rng.normal(0, np.sqrt(variances))
    assert variance_between(estimates, variances) == pytest.approx(25, rel=0.1)
