"""Closed cells: the exact tail of an empty cell's noisy weight."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from hexveil.accounting.noise_law import Laplace


def brute_force_tail(threshold, scale):
    """Return P(X + Y >= threshold) by adding up the laws of X and Y."""
    t = np.exp(-1.0 / scale)
    k = np.arange(-int(60 * scale) - 5, int(60 * scale) + 6)
    law = (1 - t) / (1 + t) * t ** np.abs(k)
    tail = np.concatenate([np.cumsum(law[::-1])[::-1], [0.0]])  # P(Y >= k)
    begin = np.clip(threshold - k - k[0], 0, k.size)
    return float((law * tail[begin]).sum())


@pytest.mark.parametrize("scale", [0.3, 1.0, 7.5])
@pytest.mark.parametrize("threshold", [0, 1, 2, 9, 40])
def test_the_tail_is_that_of_brute_force(scale, threshold):
    """The closed form equals the sum over both laws."""
    assert Laplace(scale).sum_tail(threshold) == pytest.approx(
        brute_force_tail(threshold, scale), rel=1e-9, abs=1e-15
    )


@examples(60)
@given(n_cells=st.integers(1, 10**6), scale=st.floats(0.5, 1e7), openings=st.floats(1e-3, 10))
def test_the_threshold_is_the_smallest(n_cells, scale, openings):
    """At the threshold no more empty cells than declared are opened; one below it, more are."""
    threshold = Laplace(scale).opening_threshold(n_cells, openings)
    assert n_cells * Laplace(scale).sum_tail(threshold) <= openings
    assert threshold == 0 or n_cells * Laplace(scale).sum_tail(threshold - 1) > openings


@pytest.mark.parametrize("scale", [0.4, 3.0, 50.0])
@pytest.mark.parametrize("tail", [0.3, 0.025, 1e-6])
def test_the_quantile_is_the_smallest(scale, tail):
    """The tail of a discrete Laplace number, by adding up its law."""
    t, k = np.exp(-1 / scale), np.arange(4000)
    law = (1 - t) / (1 + t) * t**k
    at = Laplace(scale).quantile(tail)
    assert law[at:].sum() <= tail * (1 + 1e-9)
    assert at == 1 or law[at - 1 :].sum() > tail
