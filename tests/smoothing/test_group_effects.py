import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from hexveil.smoothing import RandomEffect, correlate_along_axis
from hexveil.smoothing import mixed_model as module
from hexveil.smoothing.mixed_model import Design


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
    "kinds",
    [[], ["free"], ["smooth"], ["free", "free", "smooth"], ["smooth", "free", "smooth"]],
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
    """A dense regression on the eliminated grouping says what a sparse one says."""
    made, y, p, s, weights = a_case(7, kinds)
    dense = Design(made, y.size).solve(y, p, s, weights)
    monkeypatch.setattr(module, "_MAX_DENSE_REGRESSION", 0)
    sparse = Design(made, y.size).solve(y, p, s, weights)
    for name in ("mean", "variance", "energy", "variance_energy"):
        assert getattr(sparse, name) == pytest.approx(getattr(dense, name), abs=1e-10)


def test_later_groupings_are_left_out(monkeypatch):
    """Where not all fit, the earliest stay: a choice of what to eliminate never drops them."""
    monkeypatch.setattr(module, "MAX_DENSE_EFFECTS", 12)
    n = 120
    cell = np.arange(n)
    sizes = {"first": 20, "second": 6, "third": 4, "huge": 60}
    design = Design([RandomEffect(name, cell % size) for name, size in sizes.items()], n)
    assert design.fits == (0, 1, 2)
    assert design.eliminated == 0
