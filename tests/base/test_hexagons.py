from collections import Counter

import h3
import numpy as np
import pyarrow as pa
import pytest

import hexveil as hv
from examples import some

RESOLUTIONS = [0, 3, 7, 9, 15]


def places(how_many, seed):
    """Return random latitudes and longitudes of the whole globe, its poles and edges among them."""
    rng = np.random.default_rng(seed)
    lat = np.degrees(np.arcsin(rng.uniform(-1, 1, how_many)))
    lon = rng.uniform(-180, 180, how_many)
    lat[:6], lon[:6] = [90, -90, 0, 0, 0, 89.999999], [0, 10, 180, -180, 0, -179.999999]
    return pa.array(lat), pa.array(lon)


@pytest.mark.parametrize("resolution", RESOLUTIONS)
def test_hexagons_are_those_of_the_reference(resolution):
    """The vectorised library agrees with H3's own on random places of the whole globe."""
    lat, lon = places(2000, resolution)
    columns = {"id": [f"b{k}" for k in range(2000)], "v": [1.0] * 2000, "lat": lat, "lon": lon}
    public = hv.read(
        pa.table(columns), user="id", value="v", bounds=(0, 9), lat="lat", lon="lon",
        cells=hv.Cells(resolution, None, "UTC"), select=hv.Select(min_users=1),
        accept_single_records=True,
    ).public  # fmt: skip
    pairs = zip(lat.to_pylist(), lon.to_pylist(), strict=True)
    expected = Counter(h3.latlng_to_cell(*pair, resolution) for pair in pairs)
    records = public.occupancy.records_per_cell.tolist()
    assert dict(zip(public.cells.names(), records, strict=True)) == expected


def released(folder, hexagons, resolution):
    """Return a release of some hexagons."""
    rows = [(one, f"b{k}") for one in hexagons for k in range(3)]
    columns = dict(zip(("hexagon", "user"), map(list, zip(*rows, strict=True)), strict=True))
    table = pa.table(columns | {"n": [2] * len(rows), "sum": [2.0] * len(rows)})
    cells = hv.Cells(resolution, None, "UTC")
    dataset = hv.from_sums(table, bounds=(0, 9), cells=cells, min_users=1)
    book = hv.Ledger(folder / f"{resolution}.sqlite", dataset="buses", budget=9)
    plan = hv.plan(dataset, epsilon=3, advise=False)
    return hv.release(dataset, plan, ledger=book, accept_noise=True)


@pytest.mark.parametrize(("fine", "coarse"), some([(9, 7), (15, 0), (3, 0)], 1))
def test_parents_are_those_of_the_reference(tmp_path, fine, coarse):
    """The parent of each hexagon is H3's."""
    pairs = zip(*(one.to_pylist() for one in places(60, 2)), strict=True)
    found = {h3.latlng_to_cell(*pair, fine) for pair in pairs}
    up = hv.roll_up(released(tmp_path, found, fine), resolution=coarse)
    assert set(up.table["hexagon"].to_pylist()) == {h3.cell_to_parent(one, coarse) for one in found}


def outlines(folder, pairs, resolution):
    """Return the ring of the hexagon of each place, by the hexagon's name."""
    pytest.importorskip("geopandas")
    named = [h3.latlng_to_cell(*pair, resolution) for pair in pairs]
    frame = released(folder, named, resolution).to_geopandas()
    return {
        name: np.array(shape.exterior.coords)
        for name, shape in zip(frame["hexagon"], frame.geometry, strict=True)
    }


def area(ring):
    """Return the signed area of a ring, in square degrees; above zero counter-clockwise."""
    x, y = ring.T
    return float((x * np.roll(y, -1) - np.roll(x, -1) * y).sum() / 2)


@pytest.mark.parametrize("resolution", some([2, 5, 9], 1))
def test_outline_is_a_small_ring_around_the_place(tmp_path, resolution):
    """An outline runs counter-clockwise, is closed and holds the hexagon's centre."""
    pairs = [(52.2, 21.0), (-33.4, -70.6), (0.1, 0.1), (17.0, 61.0)]
    for name, ring in outlines(tmp_path, pairs, resolution).items():
        assert ring[0].tolist() == ring[-1].tolist()
        assert 6 <= len(ring) <= 11
        assert area(ring) > 0
        middle = h3.cell_to_latlng(name)
        assert ring[1:].mean(axis=0)[::-1] == pytest.approx(middle, abs=3 / 2**resolution)


@pytest.mark.parametrize("resolution", some([1, 4, 8], 1))
def test_outline_across_the_180th_meridian_stays_whole(tmp_path, resolution):
    """A hexagon across the date line is drawn in one piece, wherever its corners lie."""
    pairs = [(lat, 180.0) for lat in (-17.0, 0.0, 40.0, 65.0)]
    for name, ring in outlines(tmp_path, pairs, resolution).items():
        lons = ring[1:, 0]
        assert lons.max() - lons.min() < 60
        assert lons.min() <= 180.0 <= lons.max()
        reference = [b for _, b in h3.cell_to_boundary(name)]
        assert sorted(lons % 360) == pytest.approx(sorted(b % 360 for b in reference))
