"""Cells planned apart on a map: one row per stage, losses added up over cells."""

from fractions import Fraction

import numpy as np
import pytest

import hexveil as hv
from hexveil import Occupancy
from hexveil.mechanisms.contract import MemoryJournal, execute
from hexveil.mechanisms.noise import VettedNoise
from hexveil.mechanisms.per_cell_allocation import allocate_at, allocate_within
from hexveil.mechanisms.sensitivity_report import UNMETERED, Meter
from hexveil.mechanisms.simulated_noise import SimulatedNoise
from hexveil.mechanisms.stage_data import PrivateSums
from hexveil.model.public_metadata import ValueLattice

SPAN = 1000


def map_problem(n_cells=12, n_users=20, seed=3):
    """Return a map in which each cell has some of the users, and its sums."""
    rng = np.random.default_rng(seed)
    members = [
        np.sort(rng.choice(n_users, rng.integers(3, 9), replace=False)) for _ in range(n_cells)
    ]
    cell = np.repeat(np.arange(n_cells), [each.size for each in members])
    user = np.unique(np.concatenate(members), return_inverse=True)[1]
    n = rng.integers(1, 30, cell.size)
    occupancy = Occupancy(cell, user, n, n_cells, int(user.max()) + 1)
    lattice = ValueLattice.of((0, SPAN // 10), "0.1")
    return (occupancy, lattice), n * rng.integers(100, 900, n.size)


MECHANISMS = [
    hv.mechanisms.Baseline(), hv.mechanisms.OptimalClipping(), hv.mechanisms.ArrayAveraging(),
    hv.mechanisms.Levy(gamma=1), hv.mechanisms.FixedQuantile(candidates=16),
    hv.mechanisms.AKMV(candidates=16), hv.mechanisms.Auto(trials=64),
]  # fmt: skip


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
def test_a_map_stays_within_epsilon_and_uses_it(mechanism):
    """The most exposed user is charged nearly ε; the meter accepts the vetted draw."""
    problem, total = map_problem(n_cells=5)
    allocation = allocate_within(mechanism, *problem, Fraction(3))
    booked = allocation.losses()
    assert 0.95 * 3 <= booked.max() <= 3
    journal = MemoryJournal()
    outputs = execute(allocation, PrivateSums(total), VettedNoise(), journal, Meter(booked))
    estimates = allocation.estimates(outputs)
    assert estimates.shape == (1, 5)
    assert np.isfinite(estimates).all()
    assert list(journal.rows) == [f"stage {k}" for k in range(allocation.figures.n_stages.max())]


def test_cells_without_a_stage_publish_their_constant():
    """A cell of too few users has no stage; all others have one."""
    problem, total = map_problem()
    clipping = allocate_at(hv.mechanisms.OptimalClipping(), *problem, Fraction(1, 3))
    constant = clipping.figures.n_stages == 0
    assert set(clipping.figures.n_stages.tolist()) == {0, 1}
    noise = SimulatedNoise(np.random.default_rng(1), 1)
    outputs = execute(clipping, PrivateSums(total), noise, MemoryJournal(), UNMETERED)
    estimates = clipping.estimates(outputs)
    assert estimates.shape == (1, 12)
    assert (estimates[:, constant] == SPAN / 2).all()
    assert (clipping.figures.grid_step[constant] == 0).all()
    assert clipping.figures.proven.all()
