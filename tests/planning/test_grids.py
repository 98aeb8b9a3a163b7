"""Grids beside a data set's own: levels of labels, by brute force, and what cannot be had."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import hexveil as hv
from hexveil.base import hexagons
from hexveil.model.cells import CellTable
from hexveil.model.public_metadata import PublicMetadata, ValueLattice
from hexveil.planning.feasibility.capacity import assess_grids
from hexveil.planning.feasibility.grids import counted, label_levels, with_min_users
from planning.fleets import GRID, fleet, recount


def test_levels_are_every_choice_of_columns():
    """Most columns first; of many columns those of most."""
    names = [one.columns for one in label_levels(hv.Labels("a", "b", "c"))]
    assert names[0] == ("a", "b", "c")
    assert len(set(names)) == len(names) == 7
    many = label_levels(hv.Labels(*map(str, range(9))))
    assert len(many) == 63
    assert {len(one.columns) for one in many[:10]} == {9, 8}


def summed(*columns):
    """Return public facts of sums by labels, of 30 users in one cell."""
    table = {name: ["x"] * 30 for name in columns} | {"user": list(map(str, range(30)))}
    table = pa.table(table | {"n": np.full(30, 2), "sum": np.zeros(30)})
    return hv.from_sums(table, bounds=(0, 10), cells=hv.Labels(*columns)).public


def test_sums_made_elsewhere_have_their_own_cells_alone():
    """There are no records to count; one cell is no map."""
    found = hv.capacity(summed("route", "hour"), epsilon=1)
    assert [one.grid.columns for one in found.offers] == [("route", "hour")]
    assert found.proposed is None
    assert found.sentence == "no grid tried leaves a map of three cells, or of three hexagons."


def test_cells_below_the_smallest_number_of_users_are_left_out():
    """As if the records had been read with it: cells, users and records of the rest."""
    dense = np.array([[1, 0, 2, 0], [1, 3, 0, 0], [1, 1, 0, 4]])
    facts = fleet(5)
    table = CellTable(
        facts.cells.grid,
        hexagon=facts.cells.hexagon[:1].repeat(4) + np.arange(4, dtype=np.uint64),
        slot=np.zeros(4, dtype=np.int64),
    )
    facts = replace(facts, occupancy=hv.Occupancy.from_dense(dense), cells=table)
    assert with_min_users(facts, 1) is facts
    assert with_min_users(facts, 4) is None
    kept = with_min_users(facts, 2)
    assert kept.cells.hexagon.tolist() == table.hexagon[:2].tolist()
    expected = hv.Occupancy.from_dense(dense[:, :2])
    for name in ("cell", "user", "n"):
        assert getattr(kept.occupancy, name).tolist() == getattr(expected, name).tolist()


def test_the_own_grid_of_a_data_set_is_not_counted_again():
    """Its facts are at hand."""
    asked = []

    def counting(grids, unit):
        asked.append((tuple(grid.resolution for grid in grids), unit))
        return recount(grids, unit)

    facts = fleet(6, recount=counting)
    grids = tuple(replace(GRID, resolution=resolution) for resolution in (7, 6, 5))
    found = list(counted(facts, grids))
    assert [one.cells.grid for one in found] == list(grids)
    assert found[1].occupancy is facts.occupancy
    assert found[1].recount is None
    assert asked == [((7, 5), "user")]


def spread(km, resolution, units=150):
    """Return facts of a fleet that is everywhere in a square of so many km, at a resolution."""
    side = np.linspace(-0.5, 0.5, 40) * km / 111.0
    lat, lon = (one.ravel() for one in np.meshgrid(52 + side, 21 + side / 0.62))
    found = np.unique(hexagons.of_places(pa.array(lat), pa.array(lon), resolution).to_numpy())
    table = CellTable(replace(GRID, resolution=resolution, timeslot=None), hexagon=found)
    occupancy = hv.Occupancy.from_dense(np.ones((units, found.size), dtype=int))
    return PublicMetadata(
        occupancy, table, ValueLattice.of((0, 65), "0.001"),
        recount=lambda grids, _: (spread(km, grid.resolution, units) for grid in grids),
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("km", "resolution"), [(3, 2), (30, 8), (300, 5)])
def test_resolutions_follow_from_where_the_records_are(km, resolution):
    """Whatever the file says: from a map of a few hexagons to one beyond the finest usable."""
    found = spread(km, resolution)
    table = hv.capacity(found, epsilon=20)
    window = [one for one in table.offers if one.grid.resolution != resolution]
    assert 3 <= window[0].hexagons <= 25
    assert not table.offers[-1].beats_constant
    assert {one.grid.resolution for one in window} >= {
        one.grid.resolution for one in hv.capacity(
            spread(km, 5 if km == 30 else 7), epsilon=20
        ).offers
        if one.beats_constant and one.is_map and one.grid.resolution != resolution
    }  # fmt: skip
    assert table.proposed.is_map


def test_one_hexagon_is_called_one_number_and_is_not_proposed():
    found = spread(30, 2)
    table = assess_grids(hv.plan(found, epsilon=50, advise=False).single)
    row = next(one for one in table.offers if one.grid == found.cells.grid)
    assert (row.hexagons, row.is_map) == (1, False)
    assert row.description == "resolution 2, one number for the whole area"
    assert row.kilometres == pytest.approx(332, abs=1)
    runs = table.proposals.values()
    assert runs
    assert all(run.hexagons >= 3 for run in runs)


def test_grids_of_the_same_users_in_other_hexagons_are_two_maps():
    """Three places, each visited at its own hour: two hexagons of one size, three of another."""
    places = ((21.10, 72.75), (21.20, 72.80), (21.25, 72.85))
    records = pa.Table.from_pylist(
        [
            {"bus": bus, "speed": 20.0, "lat": lat, "lon": lon,
             "time": f"2022-01-01T{10 + k}:00:00+05:30"}
            for k, (lat, lon) in enumerate(places)
            for bus in range(40)
        ]
    )  # fmt: skip
    data = hv.read(
        records, user="bus", value="speed", bounds=(0, 65), lat="lat", lon="lon", time="time",
        cells=hv.Cells(5, "1h", "Asia/Kolkata", "pooled"),
    )  # fmt: skip
    found = {offer.grid.resolution: offer.hexagons for offer in hv.capacity(data, epsilon=1).offers}
    assert found[5] == 2
    assert found[6] == 3
