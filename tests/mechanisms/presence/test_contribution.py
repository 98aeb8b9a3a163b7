"""Contribution of a unit within the L1 bound, and what follows from noisy maps of it."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from hexveil.accounting.promise import PARTS
from hexveil.mechanisms.presence.contribution import (
    MAX_PRICE,
    CellWindow,
    positions,
    split_weights,
    unit_weights,
)
from hexveil.mechanisms.presence.map_refinement import (
    MapRefinement,
    NoisyLevels,
    shrink_to_mean,
    smooth_weights,
    variance_between,
)
from hexveil.model.private_pairs import MAX_RECORDS, PrivatePairs

N_CELLS, SPAN = 5, 40
ANY_COUNT = st.one_of(st.integers(1, 30), st.integers(-5, 2**62))
ANY_TOTAL = st.one_of(st.integers(0, 30 * SPAN), st.integers(-(2**62), 2**62))
ROWS = st.lists(
    st.tuples(st.integers(-1, N_CELLS - 1), st.integers(0, 3), ANY_COUNT, ANY_TOTAL), max_size=12
)


def pairs_of(rows):
    """Return private pairs of rows (cell, unit, n, total)."""
    return PrivatePairs(*np.array(rows, dtype=np.int64).reshape(-1, 4).T)


@st.composite
def windows(draw):
    """Draw prices, some of them 0, a range of each cell and a cap."""
    each = {"min_size": N_CELLS, "max_size": N_CELLS}
    ends = st.lists(st.integers(0, PARTS), min_size=2, max_size=2, unique=True).map(sorted)
    low, high = np.array(draw(st.lists(ends, **each))).T
    return CellWindow(
        np.array(draw(st.lists(st.integers(0, MAX_PRICE), **each))),
        low,
        high,
        draw(st.one_of(st.just(0), st.integers(0, 2**50))),
    )


@examples(200)
@given(rows=ROWS, own=ROWS, window=windows())
def test_a_unit_adds_at_most_one_weight_over_all_cells(rows, own, window):
    """Records of one more unit raise A and B by at most 2^20 together, whatever they are."""
    others = pairs_of(rows)
    new = [(cell, 99, n, total) for cell, _, n, total in own]
    moved = window.halves(pairs_of([*rows, *new]), SPAN) - window.halves(others, SPAN)
    assert moved.min() >= 0
    assert moved.sum() <= PARTS


@examples(100)
@given(
    weight=st.integers(0, PARTS),
    width=st.integers(1, PARTS),
    above=st.tuples(*[st.integers(-PARTS, PARTS)] * 2).map(sorted),
)
def test_halves_are_monotone_and_add_up(weight, width, above):
    """A rises with the value from 0 to w, rounded to the nearest whole number; B is the rest."""
    upper, lower = split_weights(np.full(2, weight), np.array(above), np.full(2, width))
    assert (upper + lower == weight).all()
    assert 0 <= upper[0] <= upper[1] <= weight
    for one, distance in zip(upper, above, strict=True):
        exact = weight * Fraction(min(max(distance, 0), width), width)
        assert abs(int(one) - exact) <= Fraction(1, 2)


def test_weights_are_those_of_the_definition():
    """Weights are floor(P n p / max(Σ n p, τ)), computed pair by pair with exact fractions."""
    rng = np.random.default_rng(3)
    rows = [(c, u, int(n), 0) for u in range(4) for c, n in enumerate(rng.integers(1, 400, 5))]
    prices = np.array([MAX_PRICE, 3, 0, 77_777, 1])
    for cap in (0, 10**6, 10**9):
        weights = unit_weights(pairs_of(rows), prices, cap)
        for unit in range(4):
            priced = [n * int(prices[c]) for c, u, n, _ in rows if u == unit]
            expected = [PARTS * x // max(sum(priced), cap) for x in priced]
            assert weights[5 * unit : 5 * unit + 5].tolist() == expected


def test_nothing_overflows_at_the_declared_limits():
    """Counts, prices and weights at their limits give exact whole numbers."""
    rows = [(c, 0, 2**62, 0) for c in range(N_CELLS)]
    pairs = pairs_of(rows)
    assert pairs.records.tolist() == [MAX_RECORDS] * N_CELLS
    weights = unit_weights(pairs, np.full(N_CELLS, MAX_PRICE), 0)
    assert weights.tolist() == [PARTS // N_CELLS] * N_CELLS


@examples(60)
@given(counts=st.tuples(st.integers(1, 9), st.integers(0, 9 * SPAN)), more=st.integers(0, 20))
def test_positions_are_monotone_and_within_the_bounds(counts, more):
    """A position is the mean in parts of the span, within half a part, and never falls."""
    n, total = counts[0], min(counts[1], counts[0] * SPAN)
    first, second = positions(
        pairs_of([(0, 0, n, total), (0, 1, n, min(total + more, n * SPAN))]), SPAN
    )
    assert 0 <= first <= second <= PARTS
    assert abs(int(first) - Fraction(total * PARTS, n * SPAN)) <= 1


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


SHAPE = (30, 8)
N_LEVELS = SHAPE[0] * SHAPE[1]


@pytest.fixture(scope="module")
def world():
    """Return weights and true means that are near the sum of a place's and a slot's effect."""
    rng = np.random.default_rng(3)
    place, slot = np.unravel_index(np.arange(N_LEVELS), SHAPE)
    crowd = (rng.pareto(1.5, SHAPE[0]) + 0.3)[place] * rng.uniform(0.1, 2, SHAPE[1])[slot]
    mean = 0.4 + rng.normal(0, 0.06, SHAPE[0])[place] + rng.normal(0, 0.04, SHAPE[1])[slot]
    return 20 * crowd, mean + rng.normal(0, 0.01, N_LEVELS)


def numbers(world, noise, seed):
    """Return noisy numbers about one centre and radius."""
    weight, mean = world
    rng = np.random.default_rng(seed)
    x, y = rng.laplace(0, noise / 2, (2, N_LEVELS)) if noise else np.zeros((2, N_LEVELS))
    difference = weight * (mean - 0.4) / 0.3
    return NoisyLevels.of(
        weight + x + y, difference + x - y, np.full(N_LEVELS, 0.4), 0.3, noise or 1e-9
    )


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
        x, y = rng.laplace(0, scale, (2, N_LEVELS))
        found = (
            NoisyLevels.of(x, y, np.full(N_LEVELS, 0.5), 0.1, 2 * scale)
            .smoothed(SHAPE)
            .levels(SHAPE)
        )
        assert np.isfinite(found).all()
        assert np.abs(found - 0.5).mean() < 0.25


def test_smoothed_weights_are_positive_and_closer(world):
    """The product of margins is closer to a weight than one noisy number of its cell."""
    noisy = numbers(world, 8.0, 5)
    found = smooth_weights(noisy.weight, noisy.noise, SHAPE)
    assert (found > 0).all()
    assert np.abs(found - world[0]).mean() < 0.7 * np.abs(noisy.weight - world[0]).mean()
