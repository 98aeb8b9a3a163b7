"""The mixed model against one dense inverse, its posteriors against exact laws."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from examples import examples
from hexveil.smoothing import mixed_model as module
from hexveil.smoothing import shrinkage
from hexveil.smoothing.cell_groupings import RandomEffect, correlate_along_axis
from hexveil.smoothing.mixed_model import Design, FittedModel, fit_model
from hexveil.smoothing.mixed_noise import heavy_tailed, laplace
from smoothing.maps import crossed


def brute(groupings, y, p, s, weights):
    """Return the effects' mean and variance per cell, and per label, by one dense inverse."""
    columns, priors = [np.ones((y.size, 1))], [np.zeros((1, 1))]
    for k, grouping in enumerate(groupings):
        labels = np.unique(grouping.label)
        columns.append((grouping.label[:, None] == labels).astype(float))
        inside = grouping.correlation
        prior = np.diag(weights[k]) if inside is None else np.linalg.inv(inside)
        priors.append(prior / s[k])
    z = np.hstack(columns)
    total = z.T @ (p[:, None] * z)
    start = 0
    for prior in priors:
        stop = start + len(prior)
        total[start:stop, start:stop] += prior
        start = stop
    cover = np.linalg.inv(total)
    u = cover @ z.T @ (p * y)
    return z @ u, np.einsum("ij,jk,ik->i", z, cover, z), u, cover


def a_case(seed, kinds):
    """Return a random system with groupings of the given kinds."""
    rng = np.random.default_rng(seed)
    n = 30
    made = []
    for kind in kinds:
        label = rng.integers(0, 6 if kind == "free" else 5, n)
        smooth = correlate_along_axis("smooth", label, 1.5)
        made.append(RandomEffect("free", label) if kind == "free" else smooth)
    p = rng.uniform(0.1, 3.0, n) * (rng.uniform(size=n) > 0.1)
    weights = tuple(rng.uniform(0.3, 1.3, np.unique(g.label).size) for g in made)
    return made, rng.normal(size=n), p, rng.uniform(0.1, 2.0, len(made)), weights


@pytest.mark.parametrize(
    "kinds", [[], ["free"], ["smooth"], ["free", "free", "smooth"], ["smooth", "free", "smooth"]]
)
@examples(10)
@given(st.integers(0, 1_000))
def test_elimination_agrees_with_one_inverse(kinds, seed):
    """Means, variances, energies, spreads and squares are those of the whole dense system."""
    made, y, p, s, weights = a_case(seed, kinds)
    done = Design(made, y.size).solve(y, p, s, weights)
    mean, variance, u, cover = brute(made, y, p, s, weights)
    assert done.mean == pytest.approx(mean, abs=1e-8)
    assert done.variance == pytest.approx(variance, abs=1e-8)
    start = 1
    for k, grouping in enumerate(made):
        here = slice(start, start + np.unique(grouping.label).size)
        start = here.stop
        inside = grouping.correlation
        metric = np.diag(weights[k]) if inside is None else np.linalg.inv(inside)
        assert done.energy[k] == pytest.approx(u[here] @ metric @ u[here], abs=1e-8)
        assert done.variance_energy[k] == pytest.approx(
            np.sum(metric * cover[here, here]), abs=1e-8
        )
        squares = u[here] ** 2 + np.diag(cover)[here]
        assert done.squares[k] == pytest.approx(squares, abs=1e-8)


@pytest.mark.parametrize("kinds", [["free"], ["free", "free", "smooth"], ["smooth", "free"]])
def test_small_and_large_maps_are_solved_alike(kinds, monkeypatch):
    """Parts of the regression on the eliminated grouping say what all of it says."""
    made, y, p, s, weights = a_case(7, kinds)
    whole = Design(made, y.size).solve(y, p, s, weights)
    monkeypatch.setattr(module, "_MAX_PART_NUMBERS", 0)
    parted = Design(made, y.size).solve(y, p, s, weights)
    for name in ("mean", "variance", "energy", "variance_energy"):
        assert getattr(parted, name) == pytest.approx(getattr(whole, name), abs=1e-10)


def test_later_groupings_are_left_out(monkeypatch):
    """Where not all fit, the earliest stay: a choice of what to eliminate never drops them."""
    monkeypatch.setattr(module, "MAX_DENSE_EFFECTS", 12)
    n = 120
    cell = np.arange(n)
    sizes = {"first": 20, "second": 6, "third": 4, "huge": 60}
    design = Design([RandomEffect(name, cell % size) for name, size in sizes.items()], n)
    assert design.fits == (0, 1, 2)
    assert design.eliminated == 0


@pytest.mark.parametrize("wild", [30.0, 1e3])
def test_far_cells_speak_softly(wild):
    """A cell far from all others has a small precision, so that it does not move the effects."""
    y = np.r_[np.linspace(-1, 1, 20), wild]
    done = fit_model(Design((), 21), y, np.full(21, 0.3), np.ones(21))
    assert done.precision[-1] < 0.05 * done.precision[:-1].min()
    assert abs(done.effects.mean[0]) < 0.5


@pytest.mark.parametrize(
    ("parts", "law", "most"), [(heavy_tailed, stats.t(4), 0.004), (laplace, stats.laplace(), 0.02)]
)
def test_mixtures_are_near_their_laws(parts, law, most):
    """A mixture of normals has its law's distribution function, nearly, and its variance."""
    shares, variances = parts()
    assert shares.sum() == pytest.approx(1.0, abs=1e-12)
    assert shares @ variances == pytest.approx(2.0, abs=1e-9)
    x = np.linspace(-12.0, 12.0, 481)
    mixed = (shares * stats.norm.cdf(x[:, None] / np.sqrt(variances))).sum(axis=1)
    assert np.abs(mixed - law.cdf(x)).max() < most


def by_quadrature(mean, variance, own_variance, number, scale):
    """Return the quantiles of one cell's posterior, on a fine grid, with the exact laws."""
    x = np.linspace(number - 60 * scale, number + 60 * scale, 60_001)
    nodes, shares = np.polynomial.hermite_e.hermegauss(25)
    centres = mean + np.sqrt(variance) * nodes
    prior = (shares * stats.t.pdf((x[:, None] - centres) / np.sqrt(own_variance), 4)).sum(axis=1)
    density = prior * stats.laplace.pdf(number, x, scale)
    below = np.cumsum(density) / density.sum()
    return np.interp(
        [shrinkage.tail_probability(1), 0.5, 1.0 - shrinkage.tail_probability(1)], below, x
    )


@pytest.mark.parametrize("number", [0.0, 1.0, 4.0, 15.0])
@pytest.mark.parametrize("scale", [0.3, 1.0])
def test_quantiles_are_those_of_the_exact_laws(number, scale, monkeypatch):
    """Mixtures of normals give the quantiles of the t and Laplace laws, within a few per cent."""
    monkeypatch.setattr(shrinkage, "_SCALE_MULTIPLES", np.ones(1))
    monkeypatch.setattr(shrinkage, "_leave_one_out", lambda *_: (np.zeros(2), np.full(2, 0.2)))
    fitted = FittedModel(None, None, 0.5)
    y, b = np.array([number, 0.0]), np.full(2, scale)
    found = shrinkage.posterior_quantiles(fitted, y, b, np.ones(2))[0]
    exact = by_quadrature(0.0, 0.2, 0.5, number, scale)
    assert found == pytest.approx(exact, abs=0.08 * (exact[2] - exact[0]))


def test_what_others_say_leaves_the_cell_out():
    """Taking a cell's part out of the effects is the same as solving without the cell."""
    rng = np.random.default_rng(0)
    groupings = crossed(5, 6)
    y, p, s = rng.normal(size=30), rng.uniform(0.5, 2.0, 30), np.array([0.7, 0.4])
    design = Design(groupings, 30)
    ones = (np.ones(5), np.ones(6))
    fitted = FittedModel(design.solve(y, p, s, ones), p, 0.3)
    mean, variance = shrinkage._leave_one_out(fitted, y)
    silent = p.copy()
    silent[11] = 0.0
    without = design.solve(y, silent, s, ones)
    assert mean[11] == pytest.approx(without.mean[11])
    assert variance[11] == pytest.approx(without.variance[11])
