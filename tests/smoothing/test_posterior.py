import numpy as np
import pytest
from scipy import stats

from hexveil.smoothing import posterior
from hexveil.smoothing.mixed_model import Design, FittedModel
from smoothing.maps import crossed


def by_quadrature(mean, variance, own_variance, number, scale):
    """Return the quantiles of one cell's posterior, on a fine grid, with the exact laws."""
    x = np.linspace(number - 60 * scale, number + 60 * scale, 60_001)
    nodes, shares = np.polynomial.hermite_e.hermegauss(25)
    centres = mean + np.sqrt(variance) * nodes
    prior = (shares * stats.t.pdf((x[:, None] - centres) / np.sqrt(own_variance), 4)).sum(axis=1)
    density = prior * stats.laplace.pdf(number, x, scale)
    below = np.cumsum(density) / density.sum()
    return np.interp(
        [posterior.tail_probability(1), 0.5, 1.0 - posterior.tail_probability(1)], below, x
    )


@pytest.mark.parametrize("number", [0.0, 1.0, 4.0, 15.0])
@pytest.mark.parametrize("scale", [0.3, 1.0])
def test_quantiles_are_those_of_the_exact_laws(number, scale, monkeypatch):
    """Mixtures of normals give the quantiles of the t and Laplace laws, within a few per cent."""
    monkeypatch.setattr(posterior, "_SCALE_MULTIPLES", np.ones(1))
    monkeypatch.setattr(posterior, "_leave_one_out", lambda *_: (np.zeros(2), np.full(2, 0.2)))
    fitted = FittedModel(None, None, 0.5, None)
    y, b = np.array([number, 0.0]), np.full(2, scale)
    found = posterior.posterior_quantiles(fitted, y, b, np.ones(2))[0]
    exact = by_quadrature(0.0, 0.2, 0.5, number, scale)
    assert found == pytest.approx(exact, abs=0.08 * (exact[2] - exact[0]))


def test_what_others_say_leaves_the_cell_out():
    """Taking a cell's part out of the effects is the same as solving without the cell."""
    rng = np.random.default_rng(0)
    groupings = crossed(5, 6)
    y, p, s = rng.normal(size=30), rng.uniform(0.5, 2.0, 30), np.array([0.7, 0.4])
    design = Design(groupings, 30)
    ones = (np.ones(5), np.ones(6))
    fitted = FittedModel(design.solve(y, p, s, ones), p, 0.3, s)
    mean, variance = posterior._leave_one_out(fitted, y)
    silent = p.copy()
    silent[11] = 0.0
    without = design.solve(y, silent, s, ones)
    assert mean[11] == pytest.approx(without.mean[11])
    assert variance[11] == pytest.approx(without.variance[11])
