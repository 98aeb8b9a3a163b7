"""Tails and bounds of sums of Laplace numbers, against partial fractions and direct sums.

Bounds are those of averages of cells, tails are p-values of changes.
"""

import math

import numpy as np
import pytest

from publishing.derived.chosen_cells import chosen, compared, rolled_up

MISS = 0.05


def tail_of_distinct(distance, scales):
    """Return P(|S| > distance) by partial fractions: Σ A_i exp(-x/b_i), for distinct scales."""
    total = 0.0
    for i, own in enumerate(scales):
        others = [scale for j, scale in enumerate(scales) if j != i]
        share = math.prod(own**2 / (own**2 - other**2) for other in others)
        total += share * math.exp(-distance / own)
    return total


def sum_bound(*scales, kind="laplace"):
    """Return the 95 % bound of a sum, by the average of as many cells."""
    release = chosen(kind, [0] * len(scales), mean_scale=scales, mean_bias=0.0, records=1)
    return float(rolled_up(release)[1]["mean_noise95"][0]) * len(scales)


@pytest.mark.parametrize(
    "scales", [(1.0,), (1.0, 0.3), (1.0, 2.0, 3.0), (1.0, 0.01, 0.02), (7.0, 5.0, 1.0, 0.1, 0.4)]
)
def test_a_bound_is_exceeded_one_time_in_twenty(scales):
    """The exact tail beyond the bound is 5 percent, never more and hardly less.

    So it is under a private range, where noise is a part of the error.
    """
    tail = tail_of_distinct(sum_bound(*scales), scales)
    assert MISS - 2e-5 <= tail <= MISS + 1e-12
    assert sum_bound(*scales, kind="range") == sum_bound(*scales)


def test_equal_scales_have_their_bound():
    """Four equal numbers: the tail of a difference of two gamma numbers, summed directly."""
    # P(|S| > x) of a sum of n Laplace numbers is a Poisson sum over both signs; n = 4 by a grid.
    step = 0.005
    grid = np.arange(-4000, 4001) * step
    density = np.exp(-np.abs(grid)) / 2.0
    both = np.convolve(density, density, mode="same") * step
    four = np.convolve(both, both, mode="same") * step
    beyond = four[np.abs(grid) > sum_bound(1.0, 1.0, 1.0, 1.0)].sum() * step
    assert beyond == pytest.approx(MISS, abs=2e-4)


def pair_tail(distances, scale, other):
    """Return P(|S| > x) of two numbers: the p-values of changes between cells of these scales."""
    sides = [
        chosen("laplace", [0] * len(distances), "01"[k], mean_noisy=number, mean_scale=noise,
               mean_bias=0.0)
        for k, (number, noise) in enumerate(((50.0, scale), (50.0 + distances, other)))
    ]  # fmt: skip
    return compared(*sides)[1]["p_value"]


def test_the_tail_of_two_numbers_has_its_closed_form():
    """Distinct, equal, nearly equal and missing scales."""
    x = np.array([0.0, 0.5, 3.0])
    assert pair_tail(x, 1.0, 0.4) == pytest.approx([tail_of_distinct(d, (1.0, 0.4)) for d in x])
    equal = pair_tail(x, 1.0, 1.0)
    assert equal == pytest.approx((1 + x / 2) * np.exp(-x))
    assert pair_tail(x, 1.0, 1 - 1e-7) == pytest.approx(equal, rel=1e-6)
    assert pair_tail(x, 1.0, 1 - 2e-5) == pytest.approx(equal, rel=1e-4)
    assert pair_tail(x, 1.0, 0.0) == pytest.approx(np.exp(-x))
    assert pair_tail(x, 0.0, 0.0).tolist() == [1.0, 0.0, 0.0]


def test_beyond_its_bound_the_tail_is_below_its_power():
    """The log-concave tail: P(|S| > k q) <= 0.05^k; nothing is claimed below the bound."""
    scales, times = np.geomspace(1e-3, 1e3, 8), (0.99, 1.0, 1.7, 5.0, 20.0)
    cases = [(a, 1.01 * b, k) for a in scales for b in scales for k in times]
    areas = np.repeat(np.arange(len(cases)), 2)
    noise = np.array([case[:2] for case in cases])
    one = chosen(
        "laplace", areas, mean_noisy=0.0, mean_scale=noise.ravel(), mean_bias=0.0, records=1
    )
    before, numbers = rolled_up(one)
    many = np.array([k for *_, k in cases])
    far = np.repeat(many * numbers["mean_noise95"] * (1 + 1e-12), 2)
    other = chosen("laplace", areas, "1", mean_noisy=far, mean_scale=0.0, mean_bias=0.0, records=1)
    p_value = compared(before, rolled_up(other)[0])[1]["p_value"]
    # Averages of two cells: half of the sum, and half of its scales.
    exact = [tail_of_distinct(x, pair) for x, pair in zip(far[::2], noise / 2, strict=True)]
    assert (p_value[many < 1] == 1.0).all()
    assert p_value[many >= 1] == pytest.approx(MISS ** many[many >= 1], rel=1e-6)
    assert (np.array(exact) <= p_value * (1 + 1e-6)).all()
