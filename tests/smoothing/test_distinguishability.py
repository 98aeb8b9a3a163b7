"""At which epsilon half of the cells could be told apart: a prediction, and that it comes true."""

import numpy as np
import pytest

from hexveil.smoothing import smooth
from hexveil.smoothing.posterior import distinguishable_share, half_distinguishable_factor
from smoothing.maps import heavy

ONE = np.ones(5)


def test_the_factor_is_where_half_are_told():
    """At the factor the predicted part is one half; noise twice as large needs twice of it."""
    found = half_distinguishable_factor(ONE, 3 * ONE, 0.2 * ONE)
    assert distinguishable_share(found, ONE, 3 * ONE, 0.2 * ONE) == pytest.approx(0.5, abs=1e-6)
    assert half_distinguishable_factor(ONE, 6 * ONE, 0.4 * ONE) == pytest.approx(
        2 * found, rel=1e-6
    )


def test_no_factor_for_no_signal_and_constants():
    """Equal cells, or mostly constants, are never told from their mean."""
    assert half_distinguishable_factor(0 * ONE, ONE, 0 * ONE) is None
    assert half_distinguishable_factor(ONE, np.array([0.0, 0.0, 0.0, 1.0, 1.0]), 0 * ONE) is None


@pytest.mark.slow
def test_the_prediction_comes_true():
    """With that much less noise about half of the cells are told apart."""
    rng = np.random.default_rng(3)
    truth = heavy(rng, 300)
    factors = [
        smooth(truth + rng.laplace(0.0, 1.0, 300), 1.0).half_distinguishable_factor
        for _ in range(5)
    ]
    scale = 1.0 / np.median(factors)
    told = [smooth(truth + rng.laplace(0.0, scale, 300), scale).distinguishable for _ in range(5)]
    assert 0.35 <= np.mean(told) / 300 <= 0.65
