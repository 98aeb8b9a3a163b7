import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexveil.mechanisms.simulated_noise import choose, law
from permute_oracle import exact_choice, exact_law

TWO = 1 / math.log(2)  # at this scale a coin's odds halve with each unit of cost
SIZES = [[1] * 60, [0, 4000, 0, 1, 96] * 12, [0] * 59 + [4097], [1] + [0] * 58 + [4096]]
RUNS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 2)), min_size=1, max_size=5).filter(
    lambda runs: any(size for _, size in runs)
)


def test_the_oracle_on_two_positions():
    """Odds 1 and 1/4: the second is chosen if it comes first and its coin falls, 1/8."""
    assert exact_law([Fraction(1), Fraction(1, 4)]) == [Fraction(7, 8), Fraction(1, 8)]


@given(RUNS)
def test_law_of_runs_is_that_of_their_candidates(runs):
    """A run's chance is the sum over its candidates, each by the definition."""
    costs, sizes = (np.array(part) for part in zip(*runs, strict=True))
    each = exact_choice(np.repeat(costs, sizes), base=2)
    owner = np.repeat(np.arange(len(runs)), sizes)
    expected = [float(sum(p for p, i in zip(each, owner, strict=True) if i == r)) for r in range(5)]
    assert law(costs, sizes, TWO) == pytest.approx(expected[: len(runs)], abs=1e-12)


@pytest.mark.parametrize("scale", [0.02, 0.8, 40.0, 800.0])
@pytest.mark.parametrize("sizes", SIZES, ids=["one each", "uneven", "all in one", "two ends"])
def test_quadrature_adds_up(scale, sizes):
    """The chances add up to one, which nothing in the quadrature forces.

    Σ n q ∫ Π / (1 - u q) over all runs is -∫ dΠ/du, which is 1 as one of the odds is 1.
    """
    costs, sizes = np.abs(np.arange(60) - 20), np.array(sizes)
    chances = law(costs, sizes, scale)
    assert chances.sum() == pytest.approx(1, abs=1e-12)
    assert (chances[sizes == 0] == 0).all()
    assert (chances >= 0).all()


@pytest.mark.parametrize("rows", [1, 20_000])
@pytest.mark.parametrize("scale", [TWO, 0.001])
def test_choices_follow_the_law(rows, scale):
    """Choices of one row and of a row per trial have the exact law, 5 standard errors aside.

    At the tiny scale coins of dearer runs never fall, though their odds leave the range of doubles.
    """
    costs, sizes = np.array([5, 1, 0, 3, 1]), np.array([2, 1, 0, 4, 2])
    trials = 20_000
    many = np.broadcast_to(sizes, (rows, 5))
    found = choose(costs[None], many, scale, np.random.default_rng(3), trials)
    share = np.bincount(found, minlength=5) / trials
    expected = law(costs, sizes, scale)
    assert (np.abs(share - expected) <= 5 * np.sqrt(expected * (1 - expected) / trials)).all()


def test_the_dearest_runs_are_told_apart_at_tiny_scales():
    """With every run far above the cost 0, the cheapest that is not empty is still found."""
    costs, sizes = np.array([[0, 900, 500]]), np.array([[0, 1, 1]])
    many = np.repeat(sizes, 3, axis=0)
    assert choose(costs, many, 0.01, np.random.default_rng(1), 3).tolist() == [2, 2, 2]
    assert law(costs[0], sizes[0], 0.01).tolist() == [0, 0, 1]
