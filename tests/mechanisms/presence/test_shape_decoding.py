"""Distributions decoded from noisy bins: the law of the noise, placed bins, what a tilt says."""

import numpy as np
import pytest

from hexveil.accounting.noise_law import LAPLACE, Laplace
from hexveil.accounting.promise import PARTS
from hexveil.mechanisms.contract import MemoryJournal, execute
from hexveil.mechanisms.distribution.pooled_shape import PooledDensity
from hexveil.mechanisms.distribution.tilt_estimation import (
    fit_cells,
    legendre_terms,
    tilt,
)
from hexveil.mechanisms.presence import PresenceSums
from hexveil.mechanisms.presence.presence_decoding import weight_interval
from hexveil.mechanisms.sensitivity_report import Meter
from hexveil.mechanisms.simulated_noise import SimulatedNoise
from hexveil.model.cells import Labels
from hexveil.model.declared_grid import DeclaredGrid
from hexveil.model.private_pairs import PrivatePairs
from hexveil.model.public_metadata import ValueLattice
from hexveil.model.statistic_terms import fine_bins, parse_statistics
from hexveil.planning.presence.presence_request import FleetDeclaration, PresenceRequest

LATTICE = ValueLattice.of((0, 60), 1)
TERMS = parse_statistics(("p50", "p85", "share<20", "share>=40", "histogram"))[1]
BINS = fine_bins(LATTICE, TERMS)
DENSITY = PooledDensity(np.arange(1, 33))


def request_of(units, epsilon=2, n_cells=4):
    """Return a request for a declared fleet."""
    names = [[str(number) for number in range(n_cells)]]
    grid = DeclaredGrid.of_labels(Labels("route"), names)
    fleet = FleetDeclaration(units)
    return PresenceRequest(grid, LATTICE, fleet, epsilon, terms=TERMS, bins=BINS)


@pytest.mark.parametrize("n_terms", [1, 2, 5, 9])
def test_the_law_of_the_noise_of_a_cell(n_terms):
    """The tail is that of so many Laplace numbers, and quantiles invert it."""
    drawn = np.random.default_rng(4).laplace(size=(100_000, n_terms)).sum(axis=1)
    points = np.array([-2.0, 0.0, 1.0, 4.0, 8.0])
    seen = (drawn[:, None] > points).mean(axis=0)
    # Six standard deviations of a share of 100,000, under a fixed seed.
    assert LAPLACE.total_tails(n_terms, points) == pytest.approx(seen, abs=0.0095)
    for tail in (0.4, 0.025, 1e-6):
        found = LAPLACE.total_quantile(n_terms, tail)
        assert LAPLACE.total_tails(n_terms, np.array([found]))[0] == pytest.approx(tail, rel=1e-6)


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


def test_a_cell_unlike_all_others_is_described_by_a_tilt():
    """Many noisy cells alike, and one with values at both ends: its median is not where it was."""
    shares, place = np.full(40, 1 / 40), np.arange(40) // 10
    cells = np.tile([100.0, 900.0, 900.0, 100.0], (30, 1))
    cells[0] = [1000.0, 0.0, 0.0, 1000.0]
    fit = fit_cells(shares, cells, place, noise=85.0)
    fitted = tilt(shares, legendre_terms(shares), fit.alpha)[0]
    inner = fitted[10:30].sum()
    assert 0.02 < inner < 0.4


@pytest.mark.parametrize("seed", range(3))
def test_statistics_of_a_cell_agree(seed):
    """With hardly any weight, so that numbers are noise: all statistics are of one distribution."""
    request = request_of(300, epsilon=1)
    plan, nobody = request.allocation(), np.zeros(0, dtype=np.int64)
    pairs = PrivatePairs(*(nobody,) * 4, by_bin=(nobody,) * 4)
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
