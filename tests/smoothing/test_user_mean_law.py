"""Clipped two-piece normal laws and noise against integrals and simulation."""

import math
from itertools import pairwise

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from scipy import integrate, stats

from examples import examples
from hexveil.model.occupancy import LocalOccupancy
from hexveil.smoothing import user_mean_law
from hexveil.smoothing.clipped_posterior import log_likelihood, model_look
from hexveil.smoothing.mixed_noise import log_mean_density, log_noise_density, log_noise_tail
from hexveil.smoothing.user_mean_law import CellDesign, ClippedLook, UserMeanLaw, invert_rows
from mechanisms.listed_weights import ListedWeights
from smoothing.clipped_cells import BOUNDS, even_design

deviations = st.floats(0.5, 20.0)
places = st.floats(-30.0, 130.0)


def one_law(below, above, bounds=BOUNDS):
    """Return the law of one cell."""
    return UserMeanLaw(np.array([[below]]), np.array([[above]]), bounds)


def density(below, above, mode, x):
    """Return the two-piece normal density, as printed."""
    sd = below if x < mode else above
    height = 2.0 / (below + above) / math.sqrt(2.0 * math.pi)
    return height * math.exp(-0.5 * ((x - mode) / sd) ** 2)


def integral(below, above, mode, kink, of):
    """Return the mean of a function of a two-piece normal number, which is not smooth at a kink."""
    low, high = mode - 12 * below, mode + 12 * above
    breaks = sorted({low, mode, min(max(kink, low), high), high})
    return sum(
        integrate.quad(lambda x: of(x) * density(below, above, mode, x), *piece, limit=200)[0]
        for piece in pairwise(breaks)
    )


@examples(40)
@given(deviations, deviations, places, places)
def test_cut_moments_are_integrals(below, above, mode, x):
    """The moments of (x - X)+ and P(X < x) are those of the printed density."""
    first, second, probability, _ = one_law(below, above).cut(np.array([[mode]]), x)
    beyond = [integral(below, above, mode, x, lambda t, k=k: max(x - t, 0.0) ** k) for k in (1, 2)]
    assert float(first[0, 0]) == pytest.approx(beyond[0], abs=1e-4)
    assert float(second[0, 0]) == pytest.approx(beyond[1], abs=1e-3, rel=1e-5)
    share = integral(below, above, mode, x, lambda t: float(t < x))
    assert float(probability[0, 0]) == pytest.approx(share, abs=1e-6)


def test_the_derivative_is_that_in_the_logarithm_of_the_deviations():
    """The cut's fourth number is a difference quotient of the first, for a law without skew."""
    mode, step = np.array([[30.0, 40.0, 47.0]]), 1e-6
    wide, narrow = (one_law(8.0 * f, 8.0 * f).cut(mode, 42.0)[0] for f in (1 + step, 1 - step))
    assert one_law(8.0, 8.0).cut(mode, 42.0)[3] == pytest.approx(
        (wide - narrow) / (2 * step), rel=1e-6
    )


@examples(40)
@given(deviations, deviations)
def test_means_rise_from_one_bound_to_the_other_and_are_inverted(below, above):
    """T rises with M within the bounds; modes of means have these, to a tenth of a table step."""
    law = one_law(below, above)
    modes = law.edge_modes(64)
    means = law.mean(modes)
    assert means[0, 0] == pytest.approx(BOUNDS[0], abs=1e-4 * above)
    assert means[0, -1] == pytest.approx(BOUNDS[1], abs=1e-4 * below)
    assert np.all(np.diff(means[0]) >= -1e-12)
    # Off the points of the table.
    wanted = np.linspace(2.0, 98.0, 55)[None]
    assert law.mean(law.modes(wanted)) == pytest.approx(wanted, abs=0.1)


@pytest.mark.parametrize(("low", "high"), [(0.0, 100.0), (30.0, 45.0), (20.0, 50.0)])
@pytest.mark.parametrize("above", [6.0, 15.0])
def test_expected_look_and_sampling_variance_are_those_of_simulated_users(low, high, above):
    """The mean of clipped user means is as stated, and so is what the cell's mean leaves of it."""
    rng = np.random.default_rng(1)
    law, mode, users, cells = one_law(6.0, above), 38.0, 40, 40_000
    side = rng.random((cells, users)) < 6.0 / (6.0 + above)
    half = np.abs(rng.standard_normal((cells, users)))
    means = mode + np.where(side, -6.0 * half, above * half)
    clipped, whole = (np.clip(means, *ends).mean(axis=1) for ends in ((low, high), BOUNDS))
    modes = np.array([[mode]])
    modelled = model_look(
        law,
        even_design([users]),
        modes,
        (np.array([low]), np.array([high])),
        law.clipped(modes, *BOUNDS),
    )
    assert float(modelled.expected[0, 0]) == pytest.approx(clipped.mean(), abs=0.05)
    slope = np.cov(clipped, whole)[0, 1] / whole.var()
    left = np.var(clipped - slope * whole)
    # The misfit contains this and what is allowed for tails and for other deviations.
    assert float(modelled.misfit_squares[0, 0]) >= 0.9 * left - 1e-6


def test_without_a_cut_only_weights_leave_a_misfit():
    """A range over all of the bounds shows T itself; weights other than shares add their part."""
    modes, ends = np.array([[30.0, 50.0, 70.0]]), (np.array([0.0]), np.array([100.0]))
    law = one_law(4.0, 4.0)
    whole = law.clipped(modes, *BOUNDS)
    exact = model_look(law, even_design([30]), modes, ends, whole)
    assert exact.expected == pytest.approx(law.mean(modes))
    assert exact.misfit_squares == pytest.approx(0.0, abs=1e-6)
    design = CellDesign(np.array([30]), *(np.array([x]) for x in (0.04, 0.03, 0.02, 0.5)))
    drift = user_mean_law.WEIGHT_DRIFT
    stated = 16.0 * (0.02 + (drift * 0.5) ** 2)
    assert model_look(law, design, modes, ends, whole).misfit_squares == pytest.approx(
        stated, rel=1e-4
    )


def test_a_cell_that_is_not_looked_at_has_a_flat_likelihood():
    """An infinite scale says nothing, and its number is never read."""
    law = one_law(5.0, 5.0)
    edges = law.edge_modes(16)
    whole = law.clipped(edges, *BOUNDS)
    nothing = ClippedLook(
        np.array([np.nan]), np.array([20.0]), np.array([50.0]), np.array([np.inf])
    )
    assert np.all(log_likelihood(law, even_design([20]), nothing, edges, whole) == 0.0)


def test_design_is_what_a_loop_over_users_gives():
    """Sums of squares and distances of weights and shares, cell by cell."""
    occupancy = LocalOccupancy.from_dense([[3, 1], [1, 0], [4, 7], [0, 2]])
    weight = np.array([2, 1, 1, 5, 3, 0])
    design = CellDesign.of(ListedWeights(occupancy, weight))
    for cell in range(2):
        rows = occupancy.cell == cell
        w, p = weight[rows] / weight[rows].sum(), occupancy.n[rows] / occupancy.n[rows].sum()
        stated = w @ w, p @ p, (w - p) @ (w - p), np.abs(w - p).sum()
        found = (
            design.weight_squares,
            design.share_squares,
            design.difference_squares,
            design.difference,
        )
        assert [column[cell] for column in found] == pytest.approx(stated)
    assert design.users.tolist() == [3, 3]


@examples(60)
@given(st.integers(0, 2**32 - 1))
def test_rows_are_inverted_as_one_by_one(seed):
    """Each row's quantiles are those of linear interpolation, also where bins are empty."""
    rng = np.random.default_rng(seed)
    edges = np.sort(rng.normal(size=(5, 9)), axis=1)
    masses = rng.dirichlet(np.full(8, 0.3), 5)
    levels = rng.uniform(size=(5, 7))
    inverted = invert_rows(edges, masses, levels)
    for row in range(5):
        below = np.concatenate([[0.0], np.cumsum(masses[row])])
        reached = np.interp(inverted[row], edges[row], below / below[-1])
        assert reached == pytest.approx(levels[row], abs=1e-7)
    assert np.all(inverted >= edges[:, :1])
    assert np.all(inverted <= edges[:, -1:])


@examples(40)
@given(st.floats(0.05, 20.0), st.floats(0.05, 20.0), st.floats(-60.0, 60.0))
def test_noise_density_is_the_convolution(scale, sd, residual):
    """The log density of Laplace and normal noise is the logarithm of the integral."""

    def product(t):
        normal = math.exp(-0.5 * (t / sd) ** 2) / (sd * math.sqrt(2.0 * math.pi))
        return normal * math.exp(-abs(residual - t) / scale) / (2.0 * scale)

    breaks = sorted({-12 * sd, 12 * sd, *np.clip((0.0, residual), -12 * sd, 12 * sd)})
    exact = sum(integrate.quad(product, a, b, limit=400)[0] for a, b in pairwise(breaks))
    found = float(log_noise_density(np.array(residual), np.array(scale), np.array(sd)))
    if exact > 1e-9:
        assert found == pytest.approx(math.log(exact), abs=1e-4)


@pytest.mark.parametrize("residual", [0.0, 1e-3, 3.0, 80.0])
def test_noise_density_has_both_laws_as_its_limits(residual):
    """With no normal part it is Laplace, with next to no Laplace part normal."""
    r = np.array(residual)
    laplace = log_noise_density(r, np.array(2.0), np.array(1e-8))
    assert float(laplace) == pytest.approx(stats.laplace.logpdf(residual, 0, 2), abs=1e-6)
    normal = log_noise_density(r, np.array(1e-8), np.array(2.0))
    assert float(normal) == pytest.approx(stats.norm.logpdf(residual, 0, 2), abs=1e-6)


@examples(40)
@given(st.floats(0.05, 20.0), st.floats(0.05, 20.0), st.floats(0.0, 60.0))
def test_tails_are_integrals_of_the_density(scale, sd, residual):
    """The probability beyond a number is the integral of the density from there."""
    b, s = np.array(scale), np.array(sd)
    noise = math.hypot(scale, sd)
    # Of many points: an adaptive rule may miss the bend at the tail's beginning.
    points = np.linspace(residual, residual + 60 * noise, 40_001)
    exact = integrate.simpson(np.exp(log_noise_density(points, b, s)), x=points)
    found = float(log_noise_tail(np.array(residual), b, s))
    if exact > 1e-12:
        assert found == pytest.approx(math.log(exact), abs=1e-4)


@examples(60)
@given(st.floats(0.05, 20.0), st.floats(0.05, 20.0), st.floats(-30.0, 30.0), st.floats(0.0, 4.0))
def test_mean_densities_are_means(scale, sd, low, log_width):
    """The mean over an interval is that of many points of it, for narrow and for wide ones."""
    b, s = np.array(scale), np.array(sd)
    width = math.hypot(scale, sd) * 10 ** (log_width - 3.0)
    points = low + width * (np.arange(4000) + 0.5) / 4000
    exact = np.log(np.mean(np.exp(log_noise_density(points, b, s))))
    found = float(log_mean_density(np.array(low), np.array(low + width), b, s))
    if exact > -500:
        assert found == pytest.approx(exact, abs=3e-3)
