"""Predictions on paper: from declarations, and near the errors of maps that meet them."""

from fractions import Fraction

import numpy as np
import pytest

from hexveil import FleetDeclaration, Labels
from hexveil.mechanisms.contract import MemoryJournal, execute
from hexveil.mechanisms.presence import PresenceSums
from hexveil.mechanisms.sensitivity_report import Meter
from hexveil.mechanisms.simulated_noise import SimulatedNoise
from hexveil.model.cells import CellTable
from hexveil.model.declared_grid import DeclaredGrid
from hexveil.model.private_pairs import PrivatePairs
from hexveil.model.public_metadata import ValueLattice
from hexveil.planning.presence.presence_prediction import (
    predict_counts,
    predict_map,
    traffic_shares,
)
from hexveil.planning.presence.presence_request import PresenceRequest

LATTICE = ValueLattice.of((0, 100), "0.1")


def grid_of(n_cells, *, is_in_use):
    """Return a grid of so many labels."""
    names = tuple(map(str, range(n_cells)))
    return DeclaredGrid(CellTable(Labels("cell"), labels={"cell": names}), is_in_use)


def request(units, n_cells=60, epsilon=1, *, is_in_use=False, **more):
    """Return a request for a map of so many cells."""
    grid = grid_of(n_cells, is_in_use=is_in_use)
    return PresenceRequest(grid, LATTICE, FleetDeclaration(units), epsilon, **more)


def test_more_units_and_more_epsilon_never_hurt():
    """Errors fall and open traffic rises with the fleet and with epsilon."""
    for more in ([(1000, 1), (3000, 1), (30_000, 1)], [(2000, "0.3"), (2000, 1), (2000, 3)]):
        # Over all cells: where cells are tested, further ones are opened, of larger errors.
        errors = [predict_map(request(n, epsilon=e, is_in_use=True)).error for n, e in more]
        open_traffic = [predict_map(request(n, epsilon=e)).open_traffic for n, e in more]
        assert errors == sorted(errors, reverse=True)
        assert open_traffic == sorted(open_traffic)


@pytest.mark.parametrize("units", [500, 8000])
def test_predictions_are_near_maps_that_meet_the_assumptions(units):
    """Traffic in open cells, and the errors of weights and averages, are as predicted."""
    asked = request(units, 40)
    prediction = predict_map(asked)
    rng = np.random.default_rng(units)
    unit = np.repeat(np.arange(units), 10)
    cell = rng.choice(40, unit.size, p=traffic_shares(40))
    level = rng.uniform(40, 60, 40)
    value = np.clip(level[cell] + rng.normal(0, 10, unit.size), 0, 100)
    pairs = PrivatePairs(cell, unit, np.ones(unit.size), np.rint(10 * value))
    true = np.bincount(cell, value) / np.bincount(cell) / 100
    weight = np.bincount(cell) / 10
    plan, found = asked.allocation(), []
    for seed in range(12):
        source = SimulatedNoise(np.random.default_rng([3, seed]), 1)
        outputs = execute(plan, PresenceSums(pairs), source, MemoryJournal(), Meter(plan.losses()))
        decoded = plan.decode(outputs)
        is_open, traffic = decoded.is_open, weight / weight.sum()
        error = 100 * np.abs(decoded["mean"] - true)[is_open] @ traffic[is_open]
        found.append((error / traffic[is_open].sum(), traffic[is_open].sum()))
    mean_error, open_traffic = np.mean(found, axis=0)
    assert open_traffic == pytest.approx(prediction.open_traffic, abs=0.1)
    # Here the averages of units spread by 11.5: levels over 20 and values by 10.
    known = prediction.error * 1.15
    # All units have as many records, so weighing them alike biases nothing, as it does elsewhere.
    assert 1 / 4 < mean_error / known < 2
    assert prediction.error_low < mean_error < prediction.error_high


def test_a_map_with_nothing_to_say_is_refused():
    """A sentence says which figure is too large and what to change; a useful map has none."""
    lonely = predict_map(request(20, 5000))
    assert "traffic" in lonely.refusal
    assert "coarser grid" in lonely.refusal
    noisy = predict_map(request(30, 60, is_in_use=True), baseline_error=2)
    assert "one number for all cells by 2" in noisy.refusal
    assert predict_map(request(50_000)).refusal is None


def counted(grid, fleet, epsilon, **more):
    """Return a request for numbers of units alone."""
    return PresenceRequest(grid, LATTICE, fleet, epsilon, count_share=Fraction(1), **more)


def test_counts_are_off_by_their_noise_scale():
    """The expected error of a number of units is the cap over ε; few units are refused."""
    grid = grid_of(50, is_in_use=True)
    plenty = predict_counts(counted(grid, FleetDeclaration(10_000), 2))
    assert plenty.count_error == pytest.approx(5)
    assert plenty.refusal is None
    few = predict_counts(counted(grid, FleetDeclaration(5), 1))
    assert "numbers of units" in few.refusal


def test_a_delta_opens_more_cells():
    """Of a tested grid, by prediction; counts are more accurate too."""
    fleet = FleetDeclaration(20_000, 100, 40)
    grid = grid_of(800, is_in_use=False)
    found = [
        (
            predict_map(PresenceRequest(grid, LATTICE, fleet, 1, delta=delta)).open_traffic,
            predict_counts(counted(grid, fleet, 1, delta=delta)).count_error,
        )
        for delta in (Fraction(0), Fraction(1, 10**6))
    ]
    assert found[1][0] > found[0][0] + 0.05
    assert found[1][1] < 0.6 * found[0][1]
