"""Tilted shapes and the pooled shape: closed forms, limits without noise, sums of 1."""

from fractions import Fraction

import numpy as np
import pytest

from hexveil.accounting.noise_law import Laplace
from hexveil.accounting.promise import PARTS, Pure
from hexveil.mechanisms.contract import MemoryJournal, execute
from hexveil.mechanisms.distribution.pooled_shape import NARROW, WIDE, PooledShape, ShapeBins
from hexveil.mechanisms.distribution.tilt_estimation import TiltFit, fit_bins, fit_cells
from hexveil.mechanisms.distribution.tilted_shapes import (
    add_misfit,
    legendre_terms,
    narrow_tilt,
    pooled_ranks,
    solve_tilts,
    tilt,
    tilt_to_means,
)
from hexveil.mechanisms.presence import PresenceSums
from hexveil.mechanisms.presence.presence_decoding import weight_interval
from hexveil.mechanisms.sensitivity_report import Meter
from hexveil.mechanisms.simulated_noise import SimulatedNoise
from hexveil.mechanisms.stage_data import Outputs
from hexveil.model.cells import Labels
from hexveil.model.declared_grid import DeclaredGrid
from hexveil.model.occupancy import LocalOccupancy
from hexveil.model.pair_bins import PairBins
from hexveil.model.private_pairs import PrivatePairs
from hexveil.model.public_metadata import ValueLattice
from hexveil.model.statistic_terms import fine_bins, parse_statistics
from hexveil.planning.presence.presence_request import FleetDeclaration, PresenceRequest

SHARES = np.array([0.05, 0.2, 0.3, 0.1, 0.25, 0.1])


def test_tilts_are_solved_for_ranks_and_means():
    """The mean rank, or the mean value, is the one that was asked for."""
    ranks = pooled_ranks(SHARES)
    asked = np.array([0.2, 0.35, 0.5, 0.8])
    tilts = solve_tilts(SHARES, ranks, asked)
    found = tilt(SHARES, legendre_terms(SHARES, 1), tilts[:, None])
    assert np.allclose(found @ ranks, asked, atol=1e-9)
    assert np.allclose(tilt(SHARES, legendre_terms(SHARES, 1), np.zeros((1, 1))), SHARES)
    values = np.linspace(0.05, 0.95, 6)
    means = np.array([0.1, 0.4, 0.6, 0.9])
    assert np.allclose(tilt_to_means(found, values, means) @ values, means, atol=1e-6)


@pytest.mark.parametrize("second", [0.0, -1.0, -4.0])
def test_cells_are_as_narrow_as_they_differ(second):
    """Of exact mean ranks in the shape of all cells, each shape is found."""
    first = np.linspace(-6.0, 6.0, 41)
    even = np.full(64, 1.0 / 64)
    alpha = np.stack([first, np.full_like(first, second)], axis=-1)
    cells = tilt(even, legendre_terms(even, 2), alpha)
    pooled = cells.mean(axis=0)
    ranks, weight = pooled_ranks(pooled), np.ones(first.size)
    means = cells @ ranks
    found = narrow_tilt(pooled, ranks, means, weight)
    alpha = np.stack([solve_tilts(pooled, ranks, means, found), 0 * first + found], axis=-1)
    shapes = tilt(pooled, legendre_terms(pooled, 2), alpha)
    variances = [one @ ranks**2 - (one @ ranks) ** 2 for one in (shapes, cells)]
    assert np.mean(variances[0]) == pytest.approx(np.mean(variances[1]), rel=0.01)
    assert np.abs(shapes - cells).sum(axis=1).mean() < 0.3
    # Cells that are alike are as wide as the shape.
    assert narrow_tilt(pooled, ranks, 0.5 * weight, weight) > -0.05


def test_bins_without_noise_are_fitted():
    """With next to no noise, the fitted shapes have the measured bins."""
    place = np.array([0, 0, 1, 2, 2, 3])
    rng = np.random.default_rng(1)
    true = tilt(SHARES, legendre_terms(SHARES), rng.normal(0, 0.5, (40, 3)))
    noisy = 5.0 * np.stack([true[:, place == b].sum(axis=1) for b in range(4)], axis=1)
    fit = fit_bins(SHARES, noisy, place, np.full(40, 5.0), np.full(40, 1e-8))
    found = tilt(SHARES, legendre_terms(SHARES), fit.alpha)
    assert np.abs(found - true).max() < 0.01
    # With nothing but noise all cells are the same, and nothing collapses.
    vague = fit_bins(SHARES, noisy, place, np.full(40, 5.0), np.full(40, 1e6))
    assert np.abs(vague.alpha - vague.alpha.mean(axis=0)).max() < 1e-3
    assert (np.linalg.eigvalsh(vague.covariance) > 0.01).all()


def noisy_cells(alpha, deviation, seed):
    """Return noisy bins of tilted shapes, of weight 1, and their places."""
    place = np.array([0, 0, 1, 2, 2, 3])
    true = tilt(SHARES, legendre_terms(SHARES), alpha)
    bins = np.stack([true[:, place == b].sum(axis=1) for b in range(4)], axis=1)
    return bins + np.random.default_rng(seed).normal(0, deviation, bins.shape), place


def test_cells_take_after_those_of_their_labels():
    """Where tilts follow two labels, cells that share them halve the error; where not, no harm."""
    rng = np.random.default_rng(3)
    place, slot = np.divmod(np.arange(120), 20)
    of_place, of_slot, own = (rng.normal(0, 0.6, (n, 3)) for n in (6, 20, 120))
    for alpha, most in ((of_place[place] + of_slot[slot], 0.7), (own, 1.1)):
        noisy, bins = noisy_cells(alpha, 0.1, seed=4)
        known = (SHARES, noisy, bins, np.ones(120), np.full(120, 0.01))
        alone, together = fit_bins(*known), fit_bins(*known, groups=(place, slot))
        errors = [np.abs(fit.alpha[:, 0] - alpha[:, 0]).mean() for fit in (alone, together)]
        assert errors[1] < most * errors[0]
    # A label of its own for each cell says nothing.
    labelled = fit_bins(*known, groups=(np.arange(120),))
    assert np.array_equal(labelled.alpha, alone.alpha)


@pytest.mark.parametrize("epsilon", ["0.1", "400"])
def test_a_shape_is_positive_and_adds_up(epsilon):
    """Whatever the noise makes of the bins, shares are positive and add up to 1."""
    crowd = LocalOccupancy.from_dense([[1] * 30])
    plan = PooledShape(crowd.local(), np.arange(1, 65) * 3, Fraction(epsilon))
    rng = np.random.default_rng(2)
    for size in (0, 1, 10**9):
        rows = {WIDE: rng.integers(-size, size + 1, (1, plan.next_stage(Outputs()).entries))}
        if plan.bins.n_narrow:
            rows[NARROW] = rng.integers(-size, size + 1, (1, 20))
        shares = plan.bins.shares(Outputs(rows))
        assert (shares > 0).all()
        assert shares.sum() == pytest.approx(1.0)


# ---- private presence ----

LATTICE = ValueLattice.of((0, 60), 1)
TERMS = parse_statistics(("p50", "p85", "share<20", "share>=40", "histogram"))[1]
BINS = fine_bins(LATTICE, TERMS)
DENSITY = ShapeBins(np.arange(1, 33), 8, 0, Pure(Fraction(1)), 1, 0.0)


def request_of(units, epsilon=2, n_cells=4):
    """Return a request for a declared fleet."""
    names = [[str(number) for number in range(n_cells)]]
    grid = DeclaredGrid.of_labels(Labels("route"), names)
    fleet = FleetDeclaration(units)
    return PresenceRequest(grid, LATTICE, fleet, epsilon, terms=TERMS, bins=BINS)


def test_intervals_of_weights_hold_where_a_cell_is_seen():
    """Given that a cell was opened, 95 % of the intervals cover its weight, and not many more."""
    noise = np.random.default_rng(5).laplace(size=(40_000, 5)).sum(axis=1)
    for weight in (4.0, 12.0, 40.0):
        seen = weight + noise[weight + noise >= 9.0]
        low, high = weight_interval(seen, Laplace(PARTS), 5, 9.0)
        assert 0.94 <= ((low <= weight) & (weight <= high)).mean() <= 0.995


def test_bins_are_placed_at_quantiles_and_thresholds():
    """A threshold is always an edge; a quantile beside it, or one that divides nothing, is none."""
    even = np.full(32, 1 / 32)
    place = DENSITY.quantile_place(even, 4, np.array([16]))
    assert np.flatnonzero(np.diff(place)).tolist() == [7, 15, 23]
    place = DENSITY.quantile_place(even, 4, np.array([18]))
    assert np.flatnonzero(np.diff(place)).tolist() == [7, 17, 23]
    atom = np.where(np.arange(32) == 31, 0.9, 0.1 / 31)
    assert DENSITY.quantile_place(atom, 4, np.array([3])).max() == 1


def test_a_forecast_counts_by_its_uncertainty():
    """Tilts differ from forecasts of two kinds by what is stated, and by their day: intervals hold.

    Where nothing is measured the forecast is the estimate, with room for the day.
    """
    rng, shares, place = np.random.default_rng(3), np.full(40, 1 / 40), np.arange(40) // 5
    n_cells, day = 400, np.array([0.3, 0.15, 0.1])
    left = np.where(np.arange(n_cells)[:, None] % 2, 0.8, 0.1) * day
    forecast = TiltFit(rng.normal(0, 1, (n_cells, 3)), left[:, :, None] * left[:, None] * np.eye(3))
    true = forecast.alpha + left * rng.normal(size=left.shape) + day * rng.normal(size=left.shape)
    bins = tilt(shares, legendre_terms(shares), true) @ np.eye(8)[place]
    for noise in (0.03, 100.0):
        noisy = bins + rng.normal(0, noise, bins.shape)
        fit = fit_bins(
            shares, noisy, place, np.ones(n_cells), np.full(n_cells, noise**2), forecast=forecast
        )
        spread = np.sqrt(np.diagonal(fit.covariance, axis1=1, axis2=2))
        held = (np.abs(fit.alpha - true) < 1.96 * spread).mean(axis=1)
        low, high = np.quantile(fit.draws, (0.025, 0.975), axis=0)
        within = ((low <= true) & (true <= high)).mean(axis=1)
        if noise < 1:
            # Without the forecast's uncertainty the cells of the second kind held in 80 %.
            assert all(0.92 < x[kind::2].mean() < 0.99 for x in (held, within) for kind in (0, 1))
            assert np.abs(fit.alpha - true).mean() < 0.9 * np.abs(forecast.alpha - true).mean()
        else:
            assert np.abs(fit.alpha - forecast.alpha).mean() < 0.02
            assert min(held.mean(), within.mean()) > 0.95


def test_draws_leave_out_what_the_bins_contradict():
    """Cells that lie in a bin or two: draws hold as often, and medians of them differ less."""
    rng, shares, place = np.random.default_rng(4), np.full(64, 1 / 64), np.arange(64) // 8
    forecast = TiltFit(np.zeros((200, 3)), np.tile(np.diag([16.0, 9.0, 4.0]), (200, 1, 1)))
    true = rng.normal(size=(200, 3)) * (4, 3, 2)
    terms = legendre_terms(shares)
    bins = tilt(shares, terms, true) @ np.eye(8)[place] + rng.normal(0, 0.1, (200, 8))
    fit = fit_bins(shares, bins, place, np.ones(200), np.full(200, 0.01), forecast=forecast)
    root = np.linalg.cholesky(fit.covariance)
    normal = fit.alpha + np.einsum("ckl,dcl->dck", root, rng.normal(size=fit.draws.shape))
    median = (np.cumsum(tilt(shares, terms, true), axis=-1) < 0.5).sum(axis=-1)
    widths = []
    for tilts in (normal, fit.draws):
        medians = (np.cumsum(tilt(shares, terms, tilts), axis=-1) < 0.5).sum(axis=-1)
        low, high = np.quantile(medians, (0.025, 0.975), axis=0)
        assert ((low <= median) & (median <= high)).mean() > 0.93
        widths.append((high - low).mean())
    assert widths[1] < 0.5 * widths[0]


def test_records_lie_together_within_a_bin_as_between_bins():
    """The share below a point varies as by a Dirichlet process; bins keep their shares."""
    pooled, place = np.full(40, 1 / 40), np.arange(40) // 10
    cells = np.stack([pooled, np.repeat([0.7, 0.2, 0.1, 0.0], 10) / 10, np.eye(40)[:10].mean(0)])
    masses, told = cells @ np.eye(4)[place], np.zeros((3, 1))
    many = np.tile(cells, (20_000, 1, 1))
    drawn = add_misfit(many, place, pooled, masses[::-1], told + 1.0, told)
    assert drawn.sum(axis=-1) == pytest.approx(1.0)
    assert np.allclose(drawn @ np.eye(4)[place], masses, atol=1e-9)
    below, u = drawn[..., :4].sum(axis=-1), ((masses - 0.25) ** 2).sum(axis=-1) / 0.75
    m = masses[:, 0]
    assert below.mean(axis=0) == pytest.approx(0.4 * m, abs=0.01)
    # That of a beta law of the concentration m (1 / u - 1).
    law = m**2 * 0.24 * u / (u + (1 - u) * m)
    assert below.var(axis=0) == pytest.approx(law, rel=0.05, abs=1e-12)


@pytest.mark.parametrize("noise", [1e-6, 0.01, 100.0])
def test_bins_tell_how_cells_differ_from_tilts(noise):
    """By the normal law: exact bins tell all, hopeless ones leave the misfit as it is."""
    cells, place, misfit = np.full((20_000, 1, 40), 1 / 40), np.arange(40) // 10, 0.001
    noisy = np.array([[0.27, 0.23, 0.26, 0.24]])
    drawn = add_misfit(cells, place, cells[0, 0], noisy, *np.array([[[noise]], [[misfit]]]))
    bins, told = drawn[:, 0] @ np.eye(4)[place], misfit / (misfit + noise)
    assert bins.mean(axis=0) == pytest.approx(0.25 + told * (noisy[0] - 0.25), abs=0.001)
    # Shares add up to 1, which takes a quarter of the variance away.
    assert bins.var(axis=0) == pytest.approx(0.75 * told * noise, rel=0.05, abs=1e-9)


@pytest.mark.parametrize("atom", [0.0, 0.3])
def test_the_shape_of_a_series_is_smooth_where_noise_allows(atom):
    """Without an atom errors of bins are smoothed away; an atom keeps what was measured."""
    bins = ShapeBins(np.arange(1, 65), 16, 20, Pure(Fraction(1, 3)), 1, 0.2)
    true = np.sin(np.pi * (np.arange(64) + 0.5) / 64)
    true = (1 - atom) * true / true.sum() + atom * (np.arange(64) == 9)
    errors = []
    for seed in range(10):
        rng, rows = np.random.default_rng(seed), {}
        for name, n_bins in ((WIDE, 16), (NARROW, 20)):
            place = bins.wide_place if name == WIDE else bins.narrow_place(rows[WIDE][0])
            noise = bins.law(name).number_deviation * rng.normal(size=n_bins)
            totals = 1000 * PARTS * np.bincount(place, true, n_bins) + noise
            rows[name] = np.rint(totals).astype(np.int64)[None]
        kinds = bins.shares(Outputs(rows)), bins.series_shares(Outputs(rows))
        errors.append([np.abs(np.cumsum(one - true)).mean() for one in kinds])
    measured, series = np.mean(errors, axis=0)
    assert series < (1.1 if atom else 0.8) * measured


def test_a_cell_unlike_all_others_is_described_by_a_tilt():
    """Many noisy cells alike, and one with values at both ends: its median is not where it was."""
    shares, place = np.full(40, 1 / 40), np.arange(40) // 10
    cells = np.tile([100.0, 900.0, 900.0, 100.0], (30, 1))
    cells[0] = [1000.0, 0.0, 0.0, 1000.0]
    fit = fit_cells(shares, cells, place, noise=85.0)
    fitted = tilt(shares, legendre_terms(shares), fit.alpha)[0]
    inner = fitted[10:30].sum()
    assert 0.02 < inner < 0.4


def test_large_cells_leave_room_for_weights_of_units():
    """A million units tell hardly more than a thousand: they weigh otherwise than records."""
    shares, place = np.full(40, 1 / 40), np.arange(40) // 10
    bins = np.random.default_rng(1).dirichlet(np.full(4, 30.0), size=30)
    fits = (fit_cells(shares, bins * n, place, noise=1.0) for n in (1e3, 1e6))
    few, many = (np.diagonal(fit.covariance, axis1=1, axis2=2) for fit in fits)
    assert many == pytest.approx(few, rel=0.1)


@pytest.mark.parametrize("seed", range(3))
def test_statistics_of_a_cell_agree(seed):
    """With hardly any weight, so that numbers are noise: all statistics are of one distribution."""
    request = request_of(300, epsilon=1)
    plan, nobody = request.allocation(), np.zeros(0, dtype=np.int64)
    pairs = PrivatePairs(*(nobody,) * 4, by_bin=PairBins(*(nobody,) * 3))
    outputs = execute(
        plan,
        PresenceSums(pairs),
        SimulatedNoise(np.random.default_rng(seed), 1),
        MemoryJournal(),
        Meter(plan.losses()),
    )
    decoded = plan.decode(outputs, request.measured)
    assert decoded.is_open.all()
    number = decoded.columns
    for name in request.measured.columns:
        assert (number[f"{name}_low"] <= number[name]).all()
        assert (number[name] <= number[f"{name}_high"]).all()
    assert (number["p50"] <= number["p85"]).all()
    assert (number["share_below_20"] <= 1 - number["share_at_least_40"] + 1e-12).all()
    assert sum(number[f"histogram_{k:02d}"] for k in range(1, 21)) == pytest.approx(np.ones(4))
    assert ((number["mean"] >= 0) & (number["mean"] <= 60)).all()
