"""Law of a fleet's values from a noisy histogram."""

import numpy as np
import pytest

from hexveil.accounting.noise_law import GAUSSIAN, LAPLACE, Laplace
from hexveil.mechanisms.pooled_law import PooledLaw, project

EDGES = np.linspace(0.0, 1.0, 9)
VOTES = np.array([30.0, 40.0, 20.0, 5.0, 1.0, 0.0, 2.0, 2.0])


def test_without_noise_the_excess_is_that_of_the_histogram():
    """Mean and second moment beyond an end are integrals of the even law; the error vanishes."""
    law = PooledLaw.of(EDGES, VOTES, Laplace(1e-9))
    x = (np.arange(80_000) + 0.5) / 80_000
    share = np.repeat(VOTES / 100, 10_000) / 10_000
    for end in (0.0, 0.3, 0.9, 1.0):
        above, below = law.above(np.array([end])), law.below(np.array([end]))
        for found, side in ((above, x - end), (below, end - x)):
            beyond = np.maximum(side, 0.0)
            assert found.mean[0] == pytest.approx(beyond @ share, abs=1e-8)
            assert found.square[0] == pytest.approx(beyond**2 @ share, abs=1e-8)
            assert found.error[0] < 1e-8
    assert law.mean == pytest.approx(x @ share)
    assert law.deviation == pytest.approx(np.sqrt((x - x @ share) ** 2 @ share))
    assert law.quantile(0.5) == pytest.approx(0.1875)


@pytest.mark.parametrize("law", [LAPLACE, GAUSSIAN])
@pytest.mark.parametrize("total", [None, 100.0])
def test_the_error_is_that_of_the_noise(law, total):
    """Over repeats, the excess is off by about its stated error, and little biased."""
    rng = np.random.default_rng(3)
    draw = rng.normal if law == GAUSSIAN else rng.laplace
    found = [
        PooledLaw.of(EDGES, VOTES + draw(0, 3.0, 8), type(law)(3.0), total).above(np.array([0.5]))
        for _ in range(200)
    ]
    truth = PooledLaw.of(EDGES, VOTES, type(law)(1e-9)).above(np.array([0.5])).mean[0]
    means, stated = (
        np.array([getattr(one, name)[0] for one in found]) for name in ("mean", "error")
    )
    assert 0.6 < np.sqrt(np.mean(stated**2)) / np.sqrt(np.mean((means - truth) ** 2)) < 1.6
    assert abs(means.mean() - truth) < 0.5 * means.std()


def test_equal_numbers_give_equal_laws():
    """Repeats are drawn from a fixed seed: verification makes the same law."""
    one, other = (PooledLaw.of(EDGES, VOTES, Laplace(3.0)) for _ in range(2))
    assert (one.draws == other.draws).all()


def test_noise_alone_is_a_law():
    """Where all noisy votes are below 0 there is a law, and an excess that is not sure."""
    law = PooledLaw.of(EDGES, -VOTES, Laplace(10.0))
    assert law.share.sum() == pytest.approx(1.0)
    assert law.above(np.array([0.5])).error[0] > 0.01
    assert np.isfinite(law.quantile(0.5))


def test_projection_keeps_totals():
    """Projected histograms are not negative and have their totals."""
    noisy = np.random.default_rng(1).normal(size=(50, 6))
    found = project(noisy, np.full(50, 2.0))
    assert (found >= 0).all()
    assert found.sum(axis=1) == pytest.approx(np.full(50, 2.0))
