"""Grids beside a data set's own: levels of labels, resolutions, and what cannot be had."""

import numpy as np
import pyarrow as pa
import pytest

import hexveil as hv
from planning.warsaw import fleet, read, records


def labelled(*columns, users=30):
    """Return records of 30 users in one cell of labels."""
    rows = {name: ["x"] * users * 2 for name in columns}
    rows |= {"user": [*map(str, range(users))] * 2, "v": np.ones(2 * users)}
    return hv.read(
        pa.table(rows), user="user", value="v", bounds=(0, 10), cells=hv.Labels(*columns)
    )


def test_levels_are_every_choice_of_columns():
    """Most columns first."""
    names = [one.grid.columns for one in hv.capacity(labelled(*"abc"), epsilon=1).offers]
    assert names[0] == ("a", "b", "c")
    assert len(set(names)) == len(names) == 7


@pytest.mark.slow
def test_of_many_columns_the_levels_are_those_of_most():
    """They double with each column."""
    many = hv.capacity(labelled(*map(str, range(9))), epsilon=1).offers
    assert len(many) == 63
    assert {len(one.grid.columns) for one in many[:10]} == {9, 8}


def test_sums_made_elsewhere_have_their_own_cells_alone():
    """There are no records to count; one cell is no map."""
    table = {name: ["x"] * 30 for name in ("route", "hour")}
    table |= {"user": [*map(str, range(30))], "n": np.full(30, 2), "sum": np.zeros(30)}
    cells = hv.Labels("route", "hour")
    found = hv.capacity(hv.from_sums(pa.table(table), bounds=(0, 10), cells=cells), epsilon=1)
    assert [one.grid.columns for one in found.offers] == [("route", "hour")]
    assert found.proposed is None
    assert found.sentence == "no grid tried leaves a map of three cells, or of three hexagons."


def spread(km, resolution, units=150):
    """Return a fleet that is everywhere in a square of so many km, read at a resolution."""
    side = np.linspace(-0.5, 0.5, 30) * km / 111.0
    lat, lon = (one.ravel() for one in np.meshgrid(52 + side, 21 + side / 0.62))
    places = np.arange(units * lat.size) % lat.size
    bus = np.repeat(np.arange(units), lat.size).astype(str)
    columns = {"bus": bus, "lat": lat[places], "lon": lon[places], "speed": np.full(bus.size, 20.0)}
    cells = hv.Cells(resolution, None)
    return read(pa.table(columns), resolution, bounds=(0, 65), time=None, cells=cells)


@pytest.mark.slow
@pytest.mark.parametrize(("km", "resolution"), [(3, 2), (30, 8), (300, 5)])
def test_resolutions_follow_from_where_the_records_are(km, resolution):
    """Whatever the file says: from a map of a few hexagons to one beyond the finest usable."""
    table = hv.capacity(spread(km, resolution), epsilon=20)
    window = [one for one in table.offers if one.grid.resolution != resolution]
    assert 3 <= window[0].hexagons <= 25
    assert not table.offers[-1].beats_constant
    other = hv.capacity(spread(km, 5 if km == 30 else 7), epsilon=20)
    assert {one.grid.resolution for one in window} >= {
        one.grid.resolution for one in other.offers
        if one.beats_constant and one.is_map and one.grid.resolution != resolution
    }  # fmt: skip
    assert table.proposed.is_map


def test_one_hexagon_is_called_one_number_and_is_not_proposed():
    """The own grid of a data set is in the table, however coarse."""
    data = fleet(2)
    table = hv.capacity(data, epsilon=50)
    row = next(one for one in table.offers if one.grid == data.public.cells.grid)
    assert (row.hexagons, row.is_map) == (1, False)
    assert row.description == "resolution 2 in 1h slots, one number for the whole area"
    assert row.kilometres == pytest.approx(332, abs=1)
    runs = table.proposals.values()
    assert runs
    assert all(run.hexagons >= 3 for run in runs)


def test_grids_of_the_same_users_in_other_hexagons_are_two_maps():
    """Three places, each visited at its own hour: two hexagons of one size, three of another."""
    places = ((21.10, 72.75), (21.20, 72.80), (21.25, 72.85))
    rows = [
        {"bus": bus, "speed": 20.0, "lat": lat, "lon": lon,
         "time": f"2022-01-01T{10 + k}:00:00+05:30"}
        for k, (lat, lon) in enumerate(places)
        for bus in range(40)
    ]  # fmt: skip
    data = hv.read(
        pa.Table.from_pylist(rows), user="bus", value="speed", bounds=(0, 65), lat="lat",
        lon="lon", time="time", cells=hv.Cells(5, "1h", "Asia/Kolkata", "pooled"),
    )  # fmt: skip
    found = {offer.grid.resolution: offer.hexagons for offer in hv.capacity(data, epsilon=1).offers}
    assert found[5] == 2
    assert found[6] == 3


def test_cells_below_the_smallest_number_of_users_are_left_out():
    """A grid is counted as if the records had been read with it."""
    some = hv.Select(min_users=150)
    found = {
        one.grid: one for one in hv.capacity(read(records(), 6, select=some), epsilon=9).offers
    }
    for grid, offer in found.items():
        if offer.cells:
            again = read(records(), 6, cells=grid, select=some).public.occupancy
            assert (offer.cells, offer.users) == (again.n_cells, again.n_users)
    assert 0 in {offer.cells for offer in found.values()}
