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
    refine_map,
    split_weights,
    unit_weights,
)
from hexveil.model.private_pairs import PrivatePairs

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
    """Draw prices, some of them 0, and a range of each cell."""
    each = {"min_size": N_CELLS, "max_size": N_CELLS}
    ends = st.lists(st.integers(0, PARTS), min_size=2, max_size=2, unique=True).map(sorted)
    low, high = np.array(draw(st.lists(ends, **each))).T
    return CellWindow(np.array(draw(st.lists(st.integers(0, MAX_PRICE), **each))), low, high)


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
    """Weights are floor(P n p / Σ n p), computed pair by pair in whole numbers."""
    rng = np.random.default_rng(3)
    rows = [(c, u, int(n), 0) for u in range(4) for c, n in enumerate(rng.integers(1, 400, 5))]
    prices = np.array([MAX_PRICE, 3, 0, 77_777, 1])
    weights = unit_weights(pairs_of(rows), prices)
    for unit in range(4):
        priced = [n * int(prices[c]) for c, u, n, _ in rows if u == unit]
        expected = [PARTS * x // sum(priced) for x in priced]
        assert weights[5 * unit : 5 * unit + 5].tolist() == expected


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
    prices = refine_map(WINDOW, row, QUIET, None, MEDIAN)[4:]
    root = np.sqrt(54 + 1)
    assert prices.tolist() == pytest.approx(
        [MAX_PRICE, MAX_PRICE * root / 8, MAX_PRICE * root / 100, MAX_PRICE * root / 200], abs=1
    )


def test_a_map_without_open_cells_is_closed_throughout():
    """If no cell has enough weight, all prices are 0 and nothing fails."""
    row = noisy([0, 0, 0, 0], [0, 0, 0, 0])
    assert refine_map(WINDOW, row, QUIET, 1, MEDIAN).tolist() == [MEDIAN] * 4 + [0] * 4
