import numpy as np
import pytest
from scipy import stats

from hexveil.smoothing.mixed_noise import heavy_tailed, laplace


@pytest.mark.parametrize(
    ("parts", "law", "most"),
    [(heavy_tailed, stats.t(4), 0.004), (laplace, stats.laplace(), 0.02)],
)
def test_mixtures_are_near_their_laws(parts, law, most):
    """A mixture of normals has its law's distribution function, nearly, and its variance."""
    shares, variances = parts()
    assert shares.sum() == pytest.approx(1.0, abs=1e-12)
    assert shares @ variances == pytest.approx(2.0, abs=1e-9)
    x = np.linspace(-12.0, 12.0, 481)
    mixed = (shares * stats.norm.cdf(x[:, None] / np.sqrt(variances))).sum(axis=1)
    assert np.abs(mixed - law.cdf(x)).max() < most
