"""Posteriors of cell means: brute force, coverage under their own law, limits, and determinism."""

import numpy as np
import pytest
from scipy import stats

from hexveil.smoothing import clipped_posterior
from hexveil.smoothing.cell_priors import CellPosterior, MapParameters
from hexveil.smoothing.clipped_posterior import fit
from hexveil.smoothing.user_mean_law import CellDesign, ClippedLook, UserMeanSpread
from smoothing.clipped_cells import BOUNDS, draw_cells, even_design, look

SPAN = BOUNDS[1] - BOUNDS[0]
WIDE = (-60.0, 140.0)
"""Bounds that no user mean of a test comes near."""


def one_node(monkeypatch, centre, deviation):
    """Let the parameters of the map be known."""
    known = MapParameters(*(np.array([x]) for x in (centre, deviation, 0.0, 1.0)))
    monkeypatch.setattr(clipped_posterior, "fit_parameters", lambda *_: known)


def by_quadrature(numbers, ranges, scales, centre, deviation, within, users):
    """Return quantiles of one cell's mean, by integrals of the stated laws on a fine grid.

    User means are normal with the deviation that is left within the cell, none of them near a
    bound, and nothing is allowed for beyond noise: the misfit is switched off.
    """
    left = within * np.sqrt(1.0 - 1.0 / users)
    x = np.linspace(*WIDE, 6001)
    sd = np.sqrt(deviation**2 + within**2 / users)
    density = 0.83 * stats.norm.pdf(x, centre, sd) + 0.15 * stats.norm.pdf(x, centre, 3 * sd)
    density += 0.02 / (WIDE[1] - WIDE[0])
    nodes = np.linspace(-8.0, 8.0, 2001)
    weights = stats.norm.pdf(nodes) * (nodes[1] - nodes[0])
    for number, (low, high), scale in zip(numbers, ranges, scales, strict=True):
        clipped = np.clip(x[:, None] + left * nodes, low, high) @ weights
        density *= stats.laplace.pdf(number, clipped, scale)
    below = np.cumsum(density) / density.sum()
    return np.interp([0.025, 0.5, 0.975], below, x)


@pytest.mark.parametrize(
    ("numbers", "ranges", "scales"),
    [
        ((42.0,), ((30.0, 50.0),), (0.5,)),
        ((49.0,), ((30.0, 50.0),), (0.3,)),
        ((31.0,), ((30.0, 50.0),), (2.0,)),
        ((47.0, 50.0), ((30.0, 50.0), (40.0, 62.0)), (1.0, 0.4)),
    ],
)
def test_quantiles_are_those_of_integrals(numbers, ranges, scales, monkeypatch):
    """Median and interval of a cell are those that brute force gives, parameters being known."""
    one_node(monkeypatch, 41.0, 5.0)
    for name, value in (("LOG_SPREAD_SD", 0.0), ("TAIL_EXCESS", 0.0)):
        monkeypatch.setattr(clipped_posterior, name, value)
    monkeypatch.setattr(clipped_posterior, "SPREAD_MULTIPLES", ((1.0, 1.0),))
    users = 100
    # Weights that are next to nothing leave no sampling variance.
    design = CellDesign(np.array([users]), *(np.array([x]) for x in (1e-12, 0.01, 0.0, 0.0)))
    looks = [
        ClippedLook(*(np.array([x]) for x in (number, *ends, scale)))
        for number, ends, scale in zip(numbers, ranges, scales, strict=True)
    ]
    posterior = fit(looks, design, UserMeanSpread(41.0, 8.0, 8.0, 6.0), WIDE)
    exact = by_quadrature(numbers, ranges, scales, 41.0, 5.0, 6.0, users)
    low, high = posterior.interval(0.95)
    found = [float(x[0]) for x in (low, posterior.median(), high)]
    assert found == pytest.approx(exact, abs=0.03 * (exact[2] - exact[0]))


def covered(posterior, truth, level):
    """Return the share of cells whose interval has the truth."""
    low, high = posterior.interval(level)
    return float(((low <= truth) & (truth <= high)).mean())


def two_looks(seed, cells=150):
    """Return cells of the model, and a wide and a narrower look at them."""
    rng = np.random.default_rng(seed)
    drawn = draw_cells(rng, cells)
    first = look(rng, drawn, 24.0, 56.0, 2.0)
    near = np.clip(drawn.truth + rng.normal(0.0, 2.0, cells), 20.0, 80.0)
    return drawn, first, look(rng, drawn, near - 12.0, near + 12.0, 0.7)


@pytest.mark.slow
def test_intervals_have_their_level_under_the_models_own_law():
    """Of 450 cells about the stated share is covered; intervals of half the width would fail."""
    shares, halves, errors, predicted = [], [], [], []
    for seed in range(3):
        drawn, *looks = two_looks(seed)
        posterior = fit(looks, drawn.design, drawn.spread, BOUNDS)
        shares.append([covered(posterior, drawn.truth, level) for level in (0.5, 0.95)])
        middle = posterior.median()
        low, high = ((x + middle) / 2 for x in posterior.interval(0.95))
        halves.append(((low <= drawn.truth) & (drawn.truth <= high)).mean())
        errors.append(np.abs(middle - drawn.truth).mean())
        predicted.append(posterior.mean_abs_error().mean())
    # Allowances for other tails and deviations than normal ones cover a little more.
    at_half, at_most = np.mean(shares, axis=0)
    assert 0.48 <= at_half <= 0.68
    assert 0.94 <= at_most <= 0.995
    assert np.mean(halves) < 0.9
    assert 0.9 <= np.mean(predicted) / np.mean(errors) <= 1.8


def test_without_noise_or_clipping_the_number_is_the_answer():
    """A look at all of the bounds with no noise is published as it is."""
    drawn = draw_cells(np.random.default_rng(2), 25)
    seen = look(np.random.default_rng(2), drawn, *BOUNDS, 1e-7)
    posterior = fit([seen], drawn.design, drawn.spread, BOUNDS)
    assert posterior.median() == pytest.approx(drawn.truth, abs=0.01)
    assert posterior.mean_abs_error().max() < 0.02


@pytest.mark.parametrize("end", [0, 1])
def test_intervals_reach_a_bound_that_the_mean_may_be(end):
    """Cells with all values at a bound have it in their interval; others far from it do not."""
    rng = np.random.default_rng(7)
    bound, cells = BOUNDS[end], 40
    truth = np.where(np.arange(cells) < 20, bound, 50.0)
    lower, upper = (np.full(cells, x) for x in BOUNDS)
    seen = ClippedLook(truth + rng.laplace(0.0, 1.0, cells), lower, upper, np.ones(cells))
    spread = UserMeanSpread(50.0, 30.0, 30.0, 8.0)
    posterior = fit([seen], even_design([40] * cells), spread, BOUNDS)
    ends = posterior.interval(0.95)
    at_bound = ends[end] == bound
    assert at_bound[:20].mean() >= 0.85
    assert not at_bound[20:].any()
    assert np.all((ends[0] >= BOUNDS[0]) & (ends[1] <= BOUNDS[1]))
    assert np.all((ends[0] <= posterior.median()) & (posterior.median() <= ends[1]))


def test_units_do_not_matter():
    """Values in other units, or counted from elsewhere, have the same posterior in those."""
    drawn, *looks = two_looks(8, cells=20)
    one = fit(looks, drawn.design, drawn.spread, BOUNDS)
    factor, start = 3.6, -50.0
    moved = [
        ClippedLook(
            start + factor * x.noisy,
            start + factor * x.lower,
            start + factor * x.upper,
            factor * x.scale,
        )
        for x in looks
    ]
    spread = drawn.spread
    scaled = UserMeanSpread(
        start + factor * spread.centre,
        factor * spread.below,
        factor * spread.above,
        factor * spread.within,
    )
    other = fit(moved, drawn.design, scaled, (start, start + factor * SPAN))
    assert other.median() == pytest.approx(start + factor * one.median(), abs=1e-6)
    assert other.mean_abs_error() == pytest.approx(factor * one.mean_abs_error(), abs=1e-6)


# ---- the same numbers on every processor ----


def published(posterior):
    """Return everything that is published of a posterior."""
    return np.stack((posterior.median(), *posterior.interval(0.95), posterior.mean_abs_error()))


def shaken(value, rng):
    """Return numbers with errors in their last digits."""
    return value * (1.0 + 1e-12 * rng.uniform(-1.0, 1.0, np.shape(value)))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_last_digits_of_inputs_change_last_digits_of_outputs(seed):
    """Every input changed by 1e-12 of itself changes no published number by 1e-9 of the span."""
    rng = np.random.default_rng(seed)
    drawn, *looks = two_looks(seed, cells=60)
    one = published(fit(looks, drawn.design, drawn.spread, BOUNDS))
    design, spread = drawn.design, drawn.spread
    other = fit(
        [
            ClippedLook(*(shaken(x, rng) for x in (s.noisy, s.lower, s.upper, s.scale)))
            for s in looks
        ],
        CellDesign(
            design.users,
            *(shaken(x, rng) for x in (design.weight_squares, design.share_squares)),
            design.difference_squares,
            design.difference,
        ),
        UserMeanSpread(*(float(shaken(x, rng)) for x in vars(spread).values())),
        BOUNDS,
    )
    assert np.abs(published(other) - one).max() < 1e-9 * SPAN


def test_published_numbers_lie_on_a_lattice():
    """Quantiles and errors are multiples of 2^-36 of the span."""
    edges = np.array([[0.0, 10.0, 37.123456789, 100.0]])
    posterior = CellPosterior(edges, np.array([[0.2, 0.5, 0.3]]), BOUNDS)
    unit = SPAN * 2.0**-36
    for number in published(posterior).ravel():
        assert number / unit == round(number / unit)
    assert float(posterior.quantile(0.2)[0]) == pytest.approx(10.0, abs=unit)
    assert posterior.grid[0].tolist() == [5.0, (10.0 + 37.123456789) / 2, (37.123456789 + 100) / 2]
