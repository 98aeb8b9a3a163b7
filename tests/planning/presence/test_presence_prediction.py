"""Predictions on paper: from declarations, and near the errors of maps that meet them."""

from fractions import Fraction

import h3
import numpy as np
import pyarrow as pa
import pytest

import hexveil as hv
from planning.presence.test_presence_request import declared, planned

AREA = hv.Cells(6, None, area=(20.7, 52.0, 21.5, 52.4))


def labels(n_cells):
    """Return so many cells of a list, which are all open."""
    return hv.Labels("cell", values=[*map(str, range(n_cells))])


def predicted(*asked, **more):
    """Return the expected accuracy of a map of averages."""
    return planned(*asked, **more).prediction.map


def test_more_units_and_more_epsilon_never_hurt():
    """Errors fall and open traffic rises with the fleet and with epsilon."""
    for more in ([(1000, 1), (3000, 1), (30_000, 1)], [(2000, "0.3"), (2000, 1), (2000, 3)]):
        # Over all cells: where cells are tested, further ones are opened, of larger errors.
        errors = [predicted(n, labels(60), e).error for n, e in more]
        open_traffic = [predicted(n, AREA, e).open_traffic for n, e in more]
        assert errors == sorted(errors, reverse=True)
        assert open_traffic == sorted(open_traffic)


@pytest.mark.slow
@pytest.mark.parametrize("units", [500, 8000])
def test_predictions_are_near_maps_that_meet_the_assumptions(units):
    """Traffic in open cells, and the errors of averages, are as predicted."""
    plan, rng = planned(units, AREA), np.random.default_rng(units)
    prediction, n_cells = plan.prediction.map, plan.facts.grid.n_cells
    unit = np.repeat(np.arange(units), 10)
    # The busiest cell first.
    busy = np.arange(1, n_cells + 1) ** -0.8
    cell = rng.choice(n_cells, unit.size, p=busy / busy.sum())
    level = rng.uniform(40, 60, n_cells)
    value = np.clip(level[cell] + rng.normal(0, 10, unit.size), 0, 100).round(1)
    names = plan.facts.cells.names()
    lat, lon = np.array([h3.cell_to_latlng(name) for name in names])[cell].T
    records = pa.table({"car": unit.astype(str), "lat": lat, "lon": lon, "speed": value})
    data = hv.read(records, **declared(AREA))
    true = np.bincount(cell, value, n_cells) / np.maximum(np.bincount(cell, minlength=n_cells), 1)
    traffic, found = np.bincount(cell, minlength=n_cells) / cell.size, []
    book = hv.Ledger("memory://", dataset="cars", budget=12)
    for edition in range(12):
        options = {"fleet": units, "epsilon": 1, "advise": False, "edition": f"no. {edition}"}
        made = hv.release(data, hv.plan(data, **options), ledger=book, accept_noise=True)
        row_of = {name: row for row, name in enumerate(made["cell"])}
        rows = [row_of[name] for name in names]
        is_open = made["is_open"][rows]
        error = np.abs(made["mean"][rows] - true)[is_open] @ traffic[is_open]
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
    fine = hv.Cells(8, None, area=(20.7, 52.0, 21.5, 52.4))
    lonely = planned(20, fine).refusal
    assert "traffic" in lonely
    assert "coarser grid" in lonely
    noisy = planned(30, labels(60), baseline_error=2).refusal
    assert "one number for all cells by 2" in noisy
    assert planned(50_000, AREA).refusal is None


def test_counts_are_off_by_their_noise_scale():
    """The expected error of a number of units is the cap over ε; few units are refused."""
    plenty = planned(10_000, labels(50), 2, statistics="users")
    assert plenty.prediction.counts.count_error == pytest.approx(5)
    assert plenty.refusal is None
    assert "numbers of units" in planned(5, labels(50), statistics="users").refusal


def test_a_delta_opens_more_cells():
    """Of a tested grid, by prediction; counts are more accurate too."""
    fleet = hv.FleetDeclaration(20_000, 100, 40)
    fine = hv.Cells(8, None, area=(20.7, 52.0, 21.3, 52.3))
    deltas = {}, {"delta": Fraction(1, 10**6)}
    maps = [predicted(fleet, fine, **one) for one in deltas]
    counts = [planned(fleet, fine, statistics="users", **one).prediction.counts for one in deltas]
    assert maps[1].open_traffic > maps[0].open_traffic + 0.05
    assert counts[1].count_error < 0.6 * counts[0].count_error
