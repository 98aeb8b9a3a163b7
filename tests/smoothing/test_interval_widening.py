"""What clipping hides: laws against draws, and inverse against forward."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexveil.smoothing import ClippingRange, skewness_bias

CUTS = (
    ClippingRange(-1.0, 2.0, 0.7),
    ClippingRange(-math.inf, 2.0, 0.7),
    ClippingRange(-1.0, math.inf, 0.7),
)


@pytest.mark.parametrize("cut", CUTS)
def test_projected_is_the_mean_of_clipped_draws(cut):
    """The formula is the average of Laplace draws that were projected."""
    draws = np.random.default_rng(1).laplace(0.0, 0.7 / math.sqrt(2.0), 400_000)
    for average in (-2.0, 0.3, 1.9, 3.0):
        clipped = np.clip(average + draws, cut.lower, cut.upper)
        assert cut.expected_clipped(np.array([average]))[0] == pytest.approx(
            clipped.mean(), abs=0.005
        )


@given(st.lists(st.floats(-3.0, 4.0), min_size=2, max_size=6), st.sampled_from(CUTS))
def test_before_undoes_projected(averages, cut):
    """An average within three spreads of the interval comes back."""
    given_ = np.array(averages)
    assert cut.invert(cut.expected_clipped(given_)) == pytest.approx(given_, abs=0.05)


@pytest.mark.parametrize("stretch", [1.0, 1.5, 2.5])
@pytest.mark.parametrize("quantile", [0.02, 0.2])
def test_skewed_is_the_loss_of_an_exponential_law(quantile, stretch):
    """The formula is what projection moves the mean of exponential draws by."""
    draws = np.random.default_rng(2).exponential(1.0, 400_000)
    low, high = np.quantile(draws, [quantile, 1 - quantile])
    middle, half = (low + high) / 2, (high - low) / 2 * stretch
    moved = np.clip(draws, middle - half, middle + half).mean() - draws.mean()
    assert skewness_bias(quantile, stretch) == pytest.approx(abs(moved) / (2 * half), abs=0.003)
